//! gzip, Zstandard, bzip2 and xz: decompression by content, compression by the extension of a name.
//!
//! Contract: a [`Decoder`] reads the output of `gzip`, `zstd`, `bzip2` and `xz` to the last byte,
//! including consecutive members, frames and streams. A truncated or broken stream is an error with
//! the offset in the compressed file, never a short text. Zeros after a member of gzip are padding
//! (from tapes and block devices), as for `gzip` itself.
//!
//! An [`Encoder`] writes one member or frame; only [`Encoder::finish`] completes it. Several
//! threads can write gzip and Zstandard. The bytes of gzip are the same for every number of
//! threads; those of Zstandard are the same for every number above one.
//!
//! Memory of a decoder: 128 KiB and the window of the format (4 MiB at most for bzip2); a window
//! larger than the caller allows is rejected. Memory of an encoder: [`Compression::writer_bytes`].
//!
//! Source: RFC 1952, RFC 8878, the file format of xz 1.2.1.

mod gzip;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use bzip2::write::BzEncoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::write::XzEncoder;
use outcore::{Error, Kind, Result};
use outcore_io::units;
use zstd::zstd_safe::CParameter;

use self::gzip::GzipWriter;

const BUFFER_BYTES: usize = 128 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The level of `zstd` without options.
const ZSTD_LEVEL: i32 = 3;
/// Bytes that a thread of Zstandard compresses at a time.
const ZSTD_BLOCK_BYTES: u32 = 1 << 20;
/// Maximum number of compressing threads; more of them would wait for the one that writes.
const THREADS_MAX: usize = 8;
/// Compressing threads use at most 1/`MEMORY_SHARE` of the memory.
const MEMORY_SHARE: u64 = 16;
/// The exponents of windows that Zstandard allows.
const ZSTD_WINDOWS: std::ops::RangeInclusive<u32> = 10..=31;
/// `xz` itself uses 6, whose encoder needs 94 MiB: more than a job may use beyond its memory.
const XZ_LEVEL: u32 = 2;
/// The bytes after the digit in a bzip2 stream: the beginning of a block, or of the end.
const BZIP2_MARKS: [&[u8]; 2] = [b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"];
const DECOMPRESS: &str = "decompress";

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
    /// `.bz2`
    Bzip2,
    /// `.xz`
    Xz,
}

impl Compression {
    /// All formats.
    const ALL: [Compression; 4] = [
        Compression::Gzip,
        Compression::Zstd,
        Compression::Bzip2,
        Compression::Xz,
    ];

    /// The compression that the extension of a name indicates; `None` for a file that is not
    /// compressed.
    pub fn of(name: &Path) -> Option<Self> {
        let end = name.extension()?.to_str()?;
        Self::ALL.into_iter().find(|kind| kind.ending() == end)
    }

    /// The compression that the first bytes of a file indicate.
    pub(crate) fn begun_by(head: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.begins(head))
    }

    /// Whether a file with this beginning has this format.
    fn begins(self, head: &[u8]) -> bool {
        match self {
            Compression::Gzip => head.starts_with(&GZIP_MAGIC) && head.get(2) == Some(&8),
            Compression::Zstd => head.starts_with(b"\x28\xb5\x2f\xfd"),
            Compression::Bzip2 => {
                matches!(head, [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
                    if BZIP2_MARKS.iter().any(|mark| rest.starts_with(mark)))
            }
            Compression::Xz => head.starts_with(b"\xfd7zXZ\0"),
        }
    }

    /// The extension of such files.
    fn ending(self) -> &'static str {
        match self {
            Compression::Gzip => "gz",
            Compression::Zstd => "zst",
            Compression::Bzip2 => "bz2",
            Compression::Xz => "xz",
        }
    }

    /// Threads that write for a job: as many as the job has, if they use only a small part of the
    /// free memory.
    pub(crate) fn writer_threads(self, job_threads: usize, free_bytes: u64) -> usize {
        let limit_bytes = free_bytes / MEMORY_SHARE;
        let most = match self {
            Compression::Gzip | Compression::Zstd => job_threads.min(THREADS_MAX),
            Compression::Bzip2 | Compression::Xz => 1,
        };
        let fits = |threads: &usize| self.writer_bytes(*threads) <= limit_bytes;
        (2..=most).rev().find(fits).unwrap_or(1)
    }

    /// Approximate memory for writing with this many threads: window, tables and buffers.
    pub(crate) fn writer_bytes(self, threads: usize) -> u64 {
        match self {
            Compression::Gzip => gzip::writer_bytes(threads),
            Compression::Zstd if threads > 1 => (8 << 20) + threads as u64 * (6 << 20),
            Compression::Zstd | Compression::Bzip2 => 8 << 20,
            Compression::Xz => 17 << 20,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "Zstandard",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }
}

/// Counts the bytes that pass.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.bytes += got as u64;
        Ok(got)
    }
}

/// The members of a gzip file, one after another.
struct Members<R> {
    /// `None` only between two members.
    member: Option<GzDecoder<BufReader<Counted<R>>>>,
}

impl<R: Read> Members<R> {
    fn new(inner: Counted<R>) -> Self {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, inner);
        Members {
            member: Some(GzDecoder::new(buffered)),
        }
    }

    /// Bytes of the file that were read.
    fn read_bytes(&self) -> u64 {
        let member = self.member.as_ref();
        member.map_or(0, |member| member.get_ref().get_ref().bytes)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            match member.read(buffer)? {
                0 if !buffer.is_empty() => {}
                got => return Ok(got),
            }
            let stream = member.get_mut();
            if is_at_end(stream)? {
                break;
            }
            if stream.fill_buf()?.first() != Some(&GZIP_MAGIC[0]) {
                let cause = "the bytes after its end are not another gzip stream";
                return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
            }
            let rest = self.member.take().map(GzDecoder::into_inner);
            self.member = rest.map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// Skips zeros, and returns whether nothing follows.
fn is_at_end(stream: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let buffered = stream.fill_buf()?;
        if buffered.is_empty() {
            return Ok(true);
        }
        let zeros = buffered.iter().take_while(|byte| **byte == 0).count();
        let is_more = zeros < buffered.len();
        stream.consume(zeros);
        if is_more {
            return Ok(false);
        }
    }
}

enum Format<R: Read> {
    Gzip(Members<R>),
    Zstd(zstd::Decoder<'static, BufReader<Counted<R>>>),
    Bzip2(MultiBzDecoder<BufReader<Counted<R>>>),
    Xz(XzDecoder<BufReader<Counted<R>>>),
}

/// Decompresses text from a stream.
pub(crate) struct Decoder<R: Read> {
    format: Format<R>,
    window_bytes_max: u64,
}

impl<R: Read> Decoder<R> {
    /// Starts to read. A stream that needs a window of more than `window_bytes_max` is rejected.
    ///
    /// # Errors
    /// Memory for the decoder is not available.
    pub(crate) fn new(compression: Compression, inner: R, window_bytes_max: u64) -> Result<Self> {
        let inner = Counted { inner, bytes: 0 };
        let buffered = |inner| BufReader::with_capacity(BUFFER_BYTES, inner);
        let failed = |error| Error::io(DECOMPRESS, &error);
        let format = match compression {
            Compression::Gzip => Format::Gzip(Members::new(inner)),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(buffered(inner)).map_err(failed)?;
                let window_log = window_bytes_max.max(1).ilog2();
                let window_log = window_log.clamp(*ZSTD_WINDOWS.start(), *ZSTD_WINDOWS.end());
                decoder.window_log_max(window_log).map_err(failed)?;
                Format::Zstd(decoder)
            }
            Compression::Bzip2 => Format::Bzip2(MultiBzDecoder::new(buffered(inner))),
            Compression::Xz => {
                use liblzma::stream::{CONCATENATED, Stream};
                let stream = Stream::new_stream_decoder(window_bytes_max, CONCATENATED)
                    .map_err(|error| failed(error.into()))?;
                Format::Xz(XzDecoder::new_stream(buffered(inner), stream))
            }
        };
        Ok(Decoder {
            format,
            window_bytes_max,
        })
    }

    /// The next bytes of the text; none at its end.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] with the offset in the compressed stream, [`Kind::Memory`] for a window
    /// that is too large, or a failed read.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let got = match &mut self.format {
                Format::Gzip(members) => members.read(buffer),
                Format::Zstd(decoder) => decoder.read(buffer),
                Format::Bzip2(decoder) => decoder.read(buffer),
                Format::Xz(decoder) => decoder.read(buffer),
            };
            match got {
                Ok(got) => return Ok(got),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error().is_some() => {
                    return Err(Error::io("read input", &error));
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn broken(&self, error: &io::Error) -> Error {
        let (compression, bytes) = match &self.format {
            Format::Gzip(members) => (Compression::Gzip, members.read_bytes()),
            Format::Zstd(decoder) => (Compression::Zstd, decoder.get_ref().get_ref().bytes),
            Format::Bzip2(decoder) => (Compression::Bzip2, decoder.get_ref().get_ref().bytes),
            Format::Xz(decoder) => (Compression::Xz, decoder.get_ref().get_ref().bytes),
        };
        let name = compression.name();
        if is_too_large(error) {
            let cause = format!(
                "the {name} stream needs more than {} to be decompressed",
                units::bytes(self.window_bytes_max)
            );
            return Error::new(Kind::Memory, DECOMPRESS, cause)
                .offset(bytes)
                .hint("allow more --memory, or decompress it first");
        }
        let (cause, hint) = match error.kind() {
            io::ErrorKind::UnexpectedEof => (
                format!("the {name} stream ends in the middle"),
                "copy the file again, or wait until it is written",
            ),
            _ => (
                format!("the {name} stream is broken: {error}"),
                "copy the file again; if it is not compressed, give it another name",
            ),
        };
        Error::corrupt(DECOMPRESS, cause).offset(bytes).hint(hint)
    }
}

/// Whether a decoder failed for lack of memory, and not because of the bytes.
fn is_too_large(error: &io::Error) -> bool {
    let cause = error.get_ref();
    let of_xz = cause.and_then(|cause| cause.downcast_ref::<liblzma::stream::Error>());
    matches!(of_xz, Some(liblzma::stream::Error::MemLimit))
        // Zstandard reports this only as text.
        || cause.is_some_and(|cause| cause.to_string().contains("too much memory"))
}

/// Writes text into a stream that may be compressed.
pub(crate) enum Encoder<W: Write> {
    /// Uncompressed.
    Plain(W),
    /// gzip
    Gzip(GzipWriter<W>),
    /// Zstandard
    Zstd(zstd::Encoder<'static, W>),
    /// bzip2
    Bzip2(BzEncoder<W>),
    /// xz
    Xz(XzEncoder<W>),
}

impl<W: Write> Encoder<W> {
    /// Starts to write, with this many compressing threads.
    ///
    /// # Errors
    /// Memory for the window is not available.
    pub(crate) fn new(compression: Option<Compression>, inner: W, threads: usize) -> Result<Self> {
        Ok(match compression {
            None => Encoder::Plain(inner),
            Some(Compression::Gzip) => Encoder::Gzip(GzipWriter::new(inner, threads)),
            Some(Compression::Zstd) => {
                let mut encoder = zstd::Encoder::new(inner, ZSTD_LEVEL)
                    .map_err(|error| Error::io("compress", &error))?;
                // A checksum, which `zstd` also writes, lets readers detect damaged bytes.
                let set = encoder.include_checksum(true).and_then(|()| match threads {
                    0 | 1 => Ok(()),
                    threads => encoder
                        .set_parameter(CParameter::JobSize(ZSTD_BLOCK_BYTES))
                        .and_then(|()| encoder.multithread(threads as u32)),
                });
                set.map_err(|error| Error::io("compress", &error))?;
                Encoder::Zstd(encoder)
            }
            Some(Compression::Bzip2) => {
                Encoder::Bzip2(BzEncoder::new(inner, bzip2::Compression::best()))
            }
            Some(Compression::Xz) => Encoder::Xz(XzEncoder::new(inner, XZ_LEVEL)),
        })
    }

    /// The underlying writer.
    pub(crate) fn get_mut(&mut self) -> &mut W {
        match self {
            Encoder::Plain(inner) => inner,
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
            Encoder::Bzip2(encoder) => encoder.get_mut(),
            Encoder::Xz(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the stream and returns the underlying writer.
    ///
    /// # Errors
    /// A failed write of the rest.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Encoder::Plain(mut inner) => inner.flush().map(|()| inner),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Bzip2(encoder) => encoder.finish(),
            Encoder::Xz(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Plain(inner) => inner.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
            Encoder::Bzip2(encoder) => encoder.write(bytes),
            Encoder::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Plain(inner) => inner.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
            Encoder::Bzip2(encoder) => encoder.flush(),
            Encoder::Xz(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::Kind;

    fn text() -> Vec<u8> {
        (0..40_000_u32)
            .flat_map(|number| format!("{}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    fn compressed(compression: Compression, text: &[u8]) -> Vec<u8> {
        compressed_by(2, compression, text)
    }

    fn compressed_by(threads: usize, compression: Compression, text: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(Some(compression), Vec::new(), threads).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn any_number_of_threads_writes_what_is_read_back_and_two_or_more_the_same_bytes() {
        let text = text().repeat(10);
        for compression in Compression::ALL {
            let all: Vec<_> = (1..4)
                .map(|threads| compressed_by(threads, compression, &text))
                .collect();
            for bytes in &all {
                assert!(
                    read_all(compression, bytes).unwrap() == text,
                    "{compression:?}"
                );
            }
            assert!(all[1] == all[2], "{compression:?}");
        }
    }

    #[test]
    fn threads_that_compress_take_a_small_part_of_the_memory() {
        let threads = |compression: Compression, free_bytes| {
            let threads = compression.writer_threads(16, free_bytes);
            assert!(threads == 1 || compression.writer_bytes(threads) <= free_bytes / 16);
            threads
        };
        for (compression, few, some, many) in [
            (Compression::Gzip, 1, 3, 8),
            (Compression::Zstd, 1, 1, 8),
            (Compression::Bzip2, 1, 1, 1),
            (Compression::Xz, 1, 1, 1),
        ] {
            assert_eq!(threads(compression, 16 << 20), few);
            assert_eq!(threads(compression, 64 << 20), some);
            assert_eq!(threads(compression, 2 << 30), many);
        }
    }

    fn read_all(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut decoder = Decoder::new(compression, bytes, 128 << 20)?;
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1000]);
        loop {
            match decoder.read(&mut buffer)? {
                0 => return Ok(text),
                got => text.extend_from_slice(&buffer[..got]),
            }
        }
    }

    #[test]
    fn members_and_frames_one_after_another_are_one_text() {
        for compression in Compression::ALL {
            let text = text();
            let (first, second) = text.split_at(1000);
            let bytes = [
                compressed(compression, first),
                compressed(compression, second),
            ]
            .concat();
            assert_eq!(read_all(compression, &bytes).unwrap(), text);
        }
    }

    #[test]
    fn a_torn_or_broken_stream_is_an_error_with_its_offset() {
        for compression in Compression::ALL {
            let whole = compressed(compression, &text());
            for cut in [1, 10, whole.len() / 2, whole.len() - 1] {
                let error = read_all(compression, &whole[..cut]).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{compression:?} {cut}");
                assert!(error.offset_bytes().is_some());
            }
            let mut broken = whole.clone();
            let middle = whole.len() / 2;
            broken[middle] ^= 0x55;
            assert_eq!(
                read_all(compression, &broken).unwrap_err().kind(),
                Kind::Corrupt
            );
            let garbage = [&whole[..], b"garbage"].concat();
            assert!(read_all(compression, &garbage).is_err());
        }
    }

    #[test]
    fn zeros_behind_gzip_are_padding_and_garbage_is_not() {
        let text = text();
        let (first, second) = text.split_at(1000);
        let [first, second] = [first, second].map(|text| compressed(Compression::Gzip, text));
        let read = |parts: &[&[u8]]| read_all(Compression::Gzip, &parts.concat());
        let padding = vec![0; BUFFER_BYTES + 513];
        for padding in [&padding[..1], &padding[..]] {
            assert_eq!(read(&[&first, &second, padding]).unwrap(), text);
            assert_eq!(read(&[&first, padding, &second, padding]).unwrap(), text);
            let error = read(&[&first, padding, b"garbage"]).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.to_string().contains("not another gzip"), "{error}");
        }
        assert!(read(&[&[0; 512]]).is_err(), "no member at all");
        assert!(read(&[b""]).is_err(), "an empty file is not gzip");
    }

    #[test]
    fn names_say_what_is_compressed() {
        let of = |name: &str| Compression::of(Path::new(name));
        assert_eq!(of("a.csv.gz"), Some(Compression::Gzip));
        assert_eq!(of("a.zst"), Some(Compression::Zstd));
        assert_eq!(of("a.jsonl.bz2"), Some(Compression::Bzip2));
        assert_eq!(of("a.xz"), Some(Compression::Xz));
        assert_eq!((of("a.csv"), of("gz")), (None, None));
    }

    #[test]
    fn a_window_larger_than_the_memory_is_refused_by_name() {
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
        zstd.window_log(27).unwrap();
        zstd.write_all(&text()).unwrap();
        let mut xz = XzEncoder::new(Vec::new(), 6);
        xz.write_all(&text()).unwrap();
        for (compression, bytes) in [
            (Compression::Zstd, zstd.finish().unwrap()),
            (Compression::Xz, xz.finish().unwrap()),
        ] {
            let mut decoder = Decoder::new(compression, &bytes[..], 4 << 20).unwrap();
            let mut buffer = vec![0; 1000];
            let error = loop {
                match decoder.read(&mut buffer) {
                    Ok(got) => assert!(got > 0, "{compression:?} was decompressed"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), Kind::Memory, "{error}");
            assert!(error.to_string().contains(compression.name()), "{error}");
            assert_eq!(read_all(compression, &bytes).unwrap(), text());
        }
    }

    #[test]
    fn content_says_what_is_compressed() {
        for compression in Compression::ALL {
            for text in [&b"some text"[..], b""] {
                let bytes = compressed(compression, text);
                assert_eq!(Compression::begun_by(&bytes), Some(compression));
            }
        }
        for text in [&b"BZh9 is a word"[..], b"\x1f\x8b", b"", b"7zXZ"] {
            assert_eq!(Compression::begun_by(text), None);
        }
    }
}
