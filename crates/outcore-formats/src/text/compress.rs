//! gzip and Zstandard, by the ends of names.
//!
//! Contract: a [`Decoder`] reads what `gzip` and `zstd` write, members and frames one after another
//! included, to the last byte: a stream that is torn or broken is an error with the offset in the
//! compressed file, never a short text. Zeros behind a member of gzip are padding, as tapes and block
//! devices leave it, and as `gzip` has it. An [`Encoder`] writes one member or frame; only
//! [`Encoder::finish`] makes it whole. Memory: 128 KiB and the window of the format (at most 128 MiB
//! for Zstandard, 8 MiB as it is written here).
//!
//! Source: RFC 1952, RFC 8878.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use outcore::{Error, Result};

const BUFFER_BYTES: usize = 128 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// As `zstd` without options.
const ZSTD_LEVEL: i32 = 3;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

impl Compression {
    /// What the end of a name says; nothing for a file that is not compressed.
    pub fn of(name: &Path) -> Option<Self> {
        match name.extension()?.to_str()? {
            "gz" => Some(Compression::Gzip),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Whether a file that begins like this is compressed so.
    pub fn begins(self, prefix: &[u8]) -> bool {
        let magic: &[u8] = match self {
            Compression::Gzip => &GZIP_MAGIC,
            Compression::Zstd => b"\x28\xb5\x2f\xfd",
        };
        prefix.starts_with(magic)
    }

    fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "Zstandard",
        }
    }
}

/// Counts what goes through.
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
    /// Gone only while one follows another.
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
                let cause = "what follows its end is no other gzip stream";
                return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
            }
            let rest = self.member.take().map(GzDecoder::into_inner);
            self.member = rest.map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// Takes zeros, and says whether nothing follows.
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
}

/// Text out of a compressed stream.
pub struct Decoder<R: Read> {
    format: Format<R>,
}

impl<R: Read> Decoder<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Memory for the window is not to be had.
    pub fn new(compression: Compression, inner: R) -> Result<Self> {
        let inner = Counted { inner, bytes: 0 };
        let format = match compression {
            Compression::Gzip => Format::Gzip(Members::new(inner)),
            Compression::Zstd => {
                let buffered = BufReader::with_capacity(BUFFER_BYTES, inner);
                let decoder = zstd::Decoder::with_buffer(buffered);
                Format::Zstd(decoder.map_err(|error| Error::io("decompress", &error))?)
            }
        };
        Ok(Decoder { format })
    }

    /// The next bytes of the text; none at its end.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] with the offset in the compressed stream, or what reading it
    /// failed with.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let got = match &mut self.format {
                Format::Gzip(members) => members.read(buffer),
                Format::Zstd(decoder) => decoder.read(buffer),
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
        };
        let name = compression.name();
        let (cause, hint) = match error.kind() {
            io::ErrorKind::UnexpectedEof => (
                format!("the {name} stream ends in the middle"),
                "copy the file again, or wait until it is written",
            ),
            _ => (
                format!("the {name} stream is broken: {error}"),
                "copy the file again; without compression it must have another name",
            ),
        };
        Error::corrupt("decompress", cause).offset(bytes).hint(hint)
    }
}

/// Text into a stream that may be compressed.
pub enum Encoder<W: Write> {
    /// As it is.
    Plain(W),
    /// gzip
    Gzip(GzEncoder<W>),
    /// Zstandard
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    /// Begins to write.
    ///
    /// # Errors
    /// Memory for the window is not to be had.
    pub fn new(compression: Option<Compression>, inner: W) -> Result<Self> {
        Ok(match compression {
            None => Encoder::Plain(inner),
            Some(Compression::Gzip) => {
                Encoder::Gzip(GzEncoder::new(inner, flate2::Compression::default()))
            }
            Some(Compression::Zstd) => {
                let mut encoder = zstd::Encoder::new(inner, ZSTD_LEVEL)
                    .map_err(|error| Error::io("compress", &error))?;
                // As zstd does: broken bytes are found when they are read.
                encoder
                    .include_checksum(true)
                    .map_err(|error| Error::io("compress", &error))?;
                Encoder::Zstd(encoder)
            }
        })
    }

    /// Ends the stream and gives what it went into.
    ///
    /// # Errors
    /// What writing the rest fails with.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Encoder::Plain(mut inner) => inner.flush().map(|()| inner),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Plain(inner) => inner.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Plain(inner) => inner.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::Kind;

    const BOTH: [Compression; 2] = [Compression::Gzip, Compression::Zstd];

    fn text() -> Vec<u8> {
        (0..40_000_u32)
            .flat_map(|number| format!("{}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    fn compressed(compression: Compression, text: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(Some(compression), Vec::new()).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read_all(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut decoder = Decoder::new(compression, bytes)?;
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
        for compression in BOTH {
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
        for compression in BOTH {
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
            assert!(error.to_string().contains("no other gzip"), "{error}");
        }
        assert!(read(&[&[0; 512]]).is_err(), "no member at all");
        assert!(read(&[b""]).is_err(), "an empty file is no gzip");
    }

    #[test]
    fn names_say_what_is_compressed() {
        let of = |name: &str| Compression::of(Path::new(name));
        assert_eq!(of("a.csv.gz"), Some(Compression::Gzip));
        assert_eq!(of("a.zst"), Some(Compression::Zstd));
        assert_eq!((of("a.csv"), of("gz")), (None, None));
    }
}
