//! Streams copied to scratch and compressed files unpacked to it, so that they can be sorted: neither
//! has a size and a second look.
//!
//! Contract: a [`Spool`] is a private directory on a scratch drive with one file a stream; dropping
//! it removes them. Copies are written by a [`BlockWriter`]. One ends with the stream, at the limit on
//! scratch (an error), or within 50 ms of a cancellation, even while the stream is silent.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::{Error, Result};
use rustix::io::Errno;

use crate::blocks::BlockWriter;
use crate::inputs::{Input, Source, is_ready, key_of, open_stream};
use crate::means::{Means, default_scratch_dir};
use crate::text::compress::{Compression, Decoder};

/// The phase's name in progress.
pub const PHASE: &str = "read input";

/// Copies of inputs; removed when dropped.
#[derive(Debug)]
pub struct Spool {
    dir: PrivateDir,
    files: u32,
    /// Bytes in all copies.
    pub bytes: u64,
    /// Bytes written for them: whole blocks.
    pub written_bytes: u64,
    limit_bytes: u64,
}

impl Spool {
    /// A private directory in `parent`; at most `limit_bytes` are copied into it.
    ///
    /// # Errors
    /// What making it fails with.
    pub fn make(job: &Job, parent: &Path, limit_bytes: u64) -> Result<Self> {
        job.device.sweep_private_dirs(parent)?;
        Ok(Spool {
            dir: job.device.make_private_dir(parent)?,
            files: 0,
            bytes: 0,
            written_bytes: 0,
            limit_bytes,
        })
    }

    /// A private directory on the first drive that is named, or on the default one for an output in
    /// `beside`.
    ///
    /// # Errors
    /// What making it fails with.
    pub fn beside(job: &Job, means: &Means, beside: &Path) -> Result<Self> {
        let dir = match means.specs().first() {
            Some(drive) => drive.dir.clone(),
            None => default_scratch_dir(beside)?,
        };
        Spool::make(job, &dir, means.scratch_limit_bytes())
    }

    /// Copies a stream; gives the copy as a source. `check` sees the first bytes before more is
    /// read than fits a block.
    ///
    /// # Errors
    /// What reading, `check` or the drive fails with; [`Kind::NoSpace`](outcore::Kind::NoSpace) at
    /// the limit.
    pub fn copy(
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

    /// Unpacks a compressed file; gives the copy as a source.
    ///
    /// # Errors
    /// A stream that is torn or broken, with its offset; what the drive fails with.
    pub fn unpack(
        &mut self,
        job: &Job,
        source: &Source,
        compression: Compression,
    ) -> Result<Source> {
        self.fill(job, source, |writer| unpack(source, compression, writer))
    }

    /// Adds a file that `write` fills with what `source` holds; gives it in its stead.
    ///
    /// # Errors
    /// What `write` or the drive fails with.
    pub fn fill(
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

/// The inputs, with those unpacked whose names say that they are compressed: to the first drive that
/// is named, or to the default one for an output in `beside`. What was unpacked lives as long as
/// `spool`.
///
/// # Errors
/// As [`Spool::make`] and [`Spool::unpack`].
pub fn unpack_packed(
    job: &Job,
    means: &Means,
    beside: &Path,
    inputs: Vec<Input>,
    spool: &mut Option<Spool>,
) -> Result<Vec<Input>> {
    let unpacked = inputs.into_iter().map(|input| {
        let Some(compression) = Compression::of(&input.source.path) else {
            return Ok(input);
        };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::beside(job, means, beside)?),
        };
        let before_bytes = spool.bytes;
        let source = spool.unpack(job, &input.source, compression)?;
        Ok(Input {
            source,
            header_bytes: 0,
            data_bytes: spool.bytes - before_bytes,
            npy: None,
            is_packed: false,
        })
    });
    unpacked.collect()
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

/// Unpacks a file to its end.
fn unpack(source: &Source, compression: Compression, writer: &mut BlockWriter) -> Result<()> {
    let opened = File::open(&source.path);
    let file = opened.map_err(|error| Error::io("open input", &error).path(&source.name))?;
    let mut decoder = Decoder::new(compression, file)?;
    loop {
        let got_bytes = decoder.read(writer.room()?)?;
        if got_bytes == 0 {
            return Ok(());
        }
        writer.check()?;
        writer.advance(got_bytes)?;
    }
}
