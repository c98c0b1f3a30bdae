//! Streams copied to scratch, so that they can be sorted: pipes have no size and no second look.
//!
//! Contract: a [`Spool`] is a private directory on a scratch drive with one file a stream; dropping
//! it removes them. The copy goes through the engine's [`Device`](outcore::drive::Device), in
//! blocks of 1 MiB, four at a time. It ends with the stream, at the limit on scratch (an error), or
//! within 50 ms of a cancellation, even while the stream is silent.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use outcore::drive::{Access, Op, PrivateDir};
use outcore::job::{Job, ScratchDrive};
use outcore::memory::{Buf, Pool, block_ceil};
use outcore::volume::{Port, Transfer, Volume, VolumeFile};
use outcore::{Error, Kind, Result, units};
use outcore_formats::inputs::{Source, key_of, open_stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: usize = 4;
/// The longest wait before the next look for a cancellation.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// The phase's name in progress.
pub(crate) const PHASE: &str = "read input";

/// Copies of streams; removed when dropped.
pub(crate) struct Spool {
    dir: PrivateDir,
    parent: PathBuf,
    files: u32,
    /// Bytes in all copies.
    pub(crate) bytes: u64,
    /// Bytes written for them: whole blocks.
    pub(crate) written_bytes: u64,
    limit_bytes: u64,
}

impl Spool {
    /// A private directory in `parent`; at most `limit_bytes` are copied into it.
    pub(crate) fn make(job: &Job, parent: &Path, limit_bytes: u64) -> Result<Self> {
        job.device.sweep_private_dirs(parent)?;
        Ok(Spool {
            dir: job.device.make_private_dir(parent)?,
            parent: parent.to_path_buf(),
            files: 0,
            bytes: 0,
            written_bytes: 0,
            limit_bytes,
        })
    }

    /// Copies a stream; gives the copy as a source. `check` sees the first bytes before more is
    /// read than fits a block.
    ///
    /// # Errors
    /// What reading, `check` or the drive fails with; [`Kind::NoSpace`] at the limit.
    pub(crate) fn copy(
        &mut self,
        job: &Job,
        source: &Source,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Source> {
        job.control.begin_phase(PHASE, 0);
        let drive = ScratchDrive::new(&self.parent);
        let volume = Volume::new(job.device.clone(), &[drive])?;
        let path = self.dir.path().join(format!("input-{}", self.files));
        self.files += 1;
        let file = volume.open(&path, Access::Create)?;
        let mut copy = Copy {
            job,
            volume: &volume,
            pool: Pool::new(&job.budget, "copy of a stream", BLOCK_BYTES, BLOCKS)?,
            port: volume.port()?,
            file: &file,
            limit_bytes: self.limit_bytes - self.bytes,
            submitted_bytes: 0,
            written_bytes: 0,
            finished: Vec::new(),
        };
        let stream = open_stream(source)?;
        let len_bytes = copy
            .run(&stream, check)
            .map_err(|error| match error.file_path() {
                Some(_) => error,
                None => error.path(&source.name),
            })?;
        self.bytes += len_bytes;
        self.written_bytes += copy.submitted_bytes;
        volume.device().set_len(file.id, len_bytes)?;
        volume.close(&file);
        let facts = std::fs::metadata(&path)
            .map_err(|error| Error::io("look at scratch", &error).path(&path))?;
        Ok(Source {
            key: Some(key_of(&facts)),
            path,
            ..source.clone()
        })
    }
}

struct Copy<'a> {
    job: &'a Job,
    volume: &'a Volume,
    pool: Pool,
    port: Port,
    file: &'a VolumeFile,
    limit_bytes: u64,
    submitted_bytes: u64,
    written_bytes: u64,
    finished: Vec<Transfer>,
}

impl Copy<'_> {
    /// Copies to the end of the stream; gives its length.
    fn run(&mut self, stream: &OwnedFd, check: impl FnOnce(&[u8]) -> Result<()>) -> Result<u64> {
        let mut len_bytes = 0;
        let mut check = Some(check);
        loop {
            let mut block = self.free_block()?;
            let got = self.fill(stream, &mut block)?;
            if let Some(check) = check.take() {
                check(&block[..got])?;
            }
            if got == 0 {
                break;
            }
            if len_bytes + got as u64 > self.limit_bytes {
                let limit = units::bytes_exact(self.limit_bytes);
                let cause = format!("a copy on scratch would be larger than the limit of {limit}");
                return Err(Error::new(Kind::NoSpace, "read input", cause)
                    .hint("raise --scratch-limit, or sort a file instead of a pipe"));
            }
            let is_last = got < block.len();
            let whole = block.split_to(block_ceil(got as u64) as usize);
            self.submitted_bytes += whole.len() as u64;
            self.port
                .submit(self.file, Op::Write, len_bytes, whole, got as u64);
            len_bytes += got as u64;
            if is_last {
                break;
            }
        }
        while self.port.in_flight() > 0 {
            self.job.control.check()?;
            self.settle(true)?;
        }
        Ok(len_bytes)
    }

    fn free_block(&mut self) -> Result<Buf> {
        loop {
            if let Some(block) = self.pool.take() {
                return Ok(block);
            }
            self.job.control.check()?;
            self.settle(true)?;
        }
    }

    /// Takes back what has been written.
    fn settle(&mut self, wait: bool) -> Result<()> {
        self.port.poll(wait, &mut self.finished)?;
        for transfer in self.finished.drain(..) {
            if let Some(fault) = &transfer.fault {
                return Err(self.volume.explain(fault));
            }
            self.written_bytes += transfer.token;
            self.job.control.advance(transfer.token);
        }
        self.job.control.set_traffic(0, self.written_bytes);
        Ok(())
    }

    /// Reads until the block is full or the stream ends; gives the bytes read.
    fn fill(&mut self, stream: &OwnedFd, block: &mut Buf) -> Result<usize> {
        let mut done = 0;
        while done < block.len() {
            self.job.control.check()?;
            if !is_ready(stream)? {
                self.settle(false)?;
                continue;
            }
            match rustix::io::read(stream, &mut block[done..]) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(Error::errno("read input", errno.raw_os_error())),
            }
        }
        Ok(done)
    }
}

/// Waits for bytes, or the end of the stream, for a moment.
pub(crate) fn is_ready(stream: &OwnedFd) -> Result<bool> {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut polled, Some(&WAIT)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(Error::errno("wait for input", errno.raw_os_error())),
    }
}
