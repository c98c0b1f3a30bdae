//! The file system: a directory with one file.
//!
//! Contract: answers the kernel's requests from the view's facts, and reads from the merged blocks.
//! Nothing can be written. The file never changes while it is mounted, so the kernel may cache
//! names, attributes and pages.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};
use outcore::runs::SortedView;
use outcore_io::drive::paths;

use crate::blocks::Blocks;

/// How long the kernel may cache answers.
const KEEP: Duration = Duration::from_secs(3600);
/// Largest read that the kernel requests.
const READ_BYTES_MAX: u32 = 1 << 20;
/// Largest number of read-aheads that the kernel may have in flight.
const BACKGROUND_MAX: u16 = 64;
const FILE: INodeNo = INodeNo(2);

/// One view as files.
pub(crate) struct ViewFiles {
    blocks: Blocks,
    name: String,
    is_direct: bool,
    dir: FileAttr,
    file: FileAttr,
}

impl ViewFiles {
    pub(crate) fn new(
        view: &Arc<SortedView>,
        blocks: Blocks,
        name: String,
        is_direct: bool,
    ) -> Self {
        let made = paths::facts(view.info().dir).and_then(|facts| facts.modified());
        let made = made.unwrap_or(SystemTime::UNIX_EPOCH);
        let dir = FileAttr {
            ino: INodeNo::ROOT,
            size: 0,
            blocks: 0,
            atime: made,
            mtime: made,
            ctime: made,
            crtime: made,
            kind: FileType::Directory,
            perm: 0o555,
            nlink: 2,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: READ_BYTES_MAX,
            flags: 0,
        };
        let file = FileAttr {
            ino: FILE,
            size: view.len_bytes(),
            blocks: view.len_bytes().div_ceil(512),
            kind: FileType::RegularFile,
            perm: 0o444,
            nlink: 1,
            ..dir
        };
        ViewFiles {
            blocks,
            name,
            is_direct,
            dir,
            file,
        }
    }

    fn attr(&self, ino: INodeNo) -> Option<&FileAttr> {
        match ino {
            INodeNo::ROOT => Some(&self.dir),
            FILE => Some(&self.file),
            _ => None,
        }
    }
}

impl Filesystem for ViewFiles {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The nearest supported values are good enough.
        let _ = config.set_max_write(READ_BYTES_MAX);
        if let Err(nearest) = config.set_max_readahead(READ_BYTES_MAX) {
            let _ = config.set_max_readahead(nearest);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == OsStr::new(&self.name) {
            true => reply.entry(&KEEP, &self.file, Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&KEEP, attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let how = match self.is_direct {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(0), how);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        // Answered directly from the block, without a copy in between.
        let mut reply = Some(reply);
        let answered = self.blocks.with_bytes(offset, size as usize, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(()), Some(reply)) = (answered, reply) {
            reply.error(Errno::EIO);
        }
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, self.name.as_str()),
        ];
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (ino, kind, name)) in entries.into_iter().enumerate().skip(from) {
            if reply.add(ino, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let blocks = self.file.size.div_ceil(4096);
        reply.statfs(blocks, 0, 0, 1, 0, 4096, 255, 4096);
    }
}
