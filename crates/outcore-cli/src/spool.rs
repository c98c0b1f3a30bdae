//! Streams copied to scratch, so that they can be sorted: pipes have no size and no second look.
//!
//! Contract: a [`Spool`] is a private directory on a scratch drive with one file a stream; dropping
//! it removes them. The copy is written by a [`BlockWriter`]. It ends with the stream, at the limit on
//! scratch (an error), or within 50 ms of a cancellation, even while the stream is silent.

use std::os::fd::OwnedFd;
use std::path::Path;

use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::{Error, Result};
use outcore_formats::inputs::{Source, is_ready, key_of, open_stream};
use rustix::io::Errno;

use crate::blocks::BlockWriter;

/// The phase's name in progress.
pub(crate) const PHASE: &str = "read input";

/// Copies of streams; removed when dropped.
pub(crate) struct Spool {
    dir: PrivateDir,
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
    /// What reading, `check` or the drive fails with; [`Kind::NoSpace`](outcore::Kind::NoSpace) at
    /// the limit.
    pub(crate) fn copy(
        &mut self,
        job: &Job,
        source: &Source,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Source> {
        let stream = open_stream(source)?;
        self.fill(job, source, |writer| {
            copy_stream(job, &stream, check, writer)
        })
    }

    /// Adds a file that `write` fills with what `source` holds; gives it in its stead.
    ///
    /// # Errors
    /// What `write` or the drive fails with.
    pub(crate) fn fill(
        &mut self,
        job: &Job,
        source: &Source,
        write: impl FnOnce(&mut BlockWriter) -> Result<()>,
    ) -> Result<Source> {
        job.control.begin_phase(PHASE, 0);
        let path = self.dir.path().join(format!("input-{}", self.files));
        self.files += 1;
        let mut writer = BlockWriter::create(job, &path, self.limit_bytes - self.bytes)?;
        let written = write(&mut writer).and_then(|()| writer.finish());
        let written = written.map_err(|error| match error.file_path() {
            Some(_) => error,
            None => error.path(&source.name),
        })?;
        self.bytes += written.len_bytes;
        self.written_bytes += written.moved_bytes;
        let facts = std::fs::metadata(&path)
            .map_err(|error| Error::io("look at scratch", &error).path(&path))?;
        Ok(Source {
            key: Some(key_of(&facts)),
            path,
            start_bytes: 0,
            ..source.clone()
        })
    }
}

/// Copies a stream to its end, in whole blocks.
fn copy_stream(
    job: &Job,
    stream: &OwnedFd,
    check: impl FnOnce(&[u8]) -> Result<()>,
    writer: &mut BlockWriter,
) -> Result<()> {
    let mut check = Some(check);
    loop {
        let room = writer.room()?.len();
        let mut got_bytes = 0;
        while got_bytes < room {
            job.control.check()?;
            if !is_ready(stream)? {
                writer.settle(false)?;
                continue;
            }
            match rustix::io::read(stream, &mut writer.room()?[got_bytes..]) {
                Ok(0) => break,
                Ok(got) => got_bytes += got,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(Error::errno("read input", errno.raw_os_error())),
            }
        }
        if let Some(check) = check.take() {
            check(&writer.room()?[..got_bytes])?;
        }
        writer.advance(got_bytes)?;
        if got_bytes < room {
            return Ok(());
        }
    }
}
