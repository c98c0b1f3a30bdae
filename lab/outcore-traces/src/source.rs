//! Opens the bytes of a trace file: plain, gzip or Zstandard, distinguished by their first bytes.
//!
//! Contract: the content decides, independent of the name, so a pipe works as well. Concatenated
//! gzip members and Zstandard frames are read one after the other; skippable frames are skipped,
//! and Zstandard checksums are verified. Memory: a few buffers of 256 KiB and the decoder's window
//! (at most 128 MiB, the default limit of the `zstd` command). For bzip2 and xz the error contains
//! the command that decompresses them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use outcore_io::{Error, Result};

/// Bytes of a read buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// The exponent of the largest window that is decoded; the default of the `zstd` command.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Bytes examined to detect a format.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// A decompressed byte stream.
pub(crate) type Bytes = Box<dyn BufRead + Send>;

/// Opens `path` (`-` is standard input) and decompresses it if needed.
pub(crate) fn open(path: &Path) -> Result<Bytes> {
    if path == Path::new("-") {
        return decompress(Box::new(io::stdin()), path);
    }
    let fail = |error: &io::Error| Error::io("open trace", error).path(path);
    let file = File::open(path).map_err(|error| fail(&error))?;
    let is_dir = file.metadata().map_err(|error| fail(&error))?.is_dir();
    if is_dir {
        return Err(Error::usage("open trace", "this is a directory")
            .path(path)
            .hint("name the trace file; several files may be given"));
    }
    decompress(Box::new(file), path)
}

/// Wraps `raw` in the decoder for its first bytes. `path` appears in errors.
pub(crate) fn decompress(raw: Box<dyn Read + Send>, path: &Path) -> Result<Bytes> {
    let mut raw = raw;
    let mut head = [0_u8; 6];
    let len = read_full(&mut raw, &mut head).map_err(|error| read_error(&error, path, 0))?;
    let head = &head[..len];
    let packed = |name: &str, command: &str| {
        Err(
            Error::usage("open trace", format!("{name} files are not supported"))
                .path(path)
                .hint(format!(
                    "unpack it first: `{command} {} | outcore ... -`",
                    path.display()
                )),
        )
    };
    if head.starts_with(b"BZh") {
        return packed("bzip2", "bzip2 -dc");
    }
    if head.starts_with(b"\xfd7zXZ") {
        return packed("xz", "xz -dc");
    }
    if head.starts_with(b"PK\x03\x04") {
        return packed("zip", "unzip -p");
    }
    let is_gzip = head.starts_with(&[0x1f, 0x8b]);
    let is_zstd = is_zstd_magic(head);
    let stream = Cursor::new(head.to_vec()).chain(raw);
    let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    Ok(if is_gzip {
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(stream),
        ))
    } else if is_zstd {
        let zstd = Zstd::new(stream).map_err(|error| read_error(&error, path, 0))?;
        Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd))
    } else {
        Box::new(stream)
    })
}

/// The first bytes of `stream` (at most [`HEAD_BYTES`]), whether these are all, and a stream that
/// starts with them again.
pub(crate) fn peek(mut stream: Bytes, path: &Path) -> Result<(Vec<u8>, bool, Bytes)> {
    let mut head = vec![0_u8; HEAD_BYTES];
    let len = read_full(&mut stream, &mut head).map_err(|error| read_error(&error, path, 0))?;
    head.truncate(len);
    let is_whole = len < HEAD_BYTES;
    Ok((
        head.clone(),
        is_whole,
        Box::new(Cursor::new(head).chain(stream)),
    ))
}

/// The error for a failed read after `offset_bytes` decompressed bytes.
pub(crate) fn read_error(error: &io::Error, path: &Path, offset_bytes: u64) -> Error {
    match error.kind() {
        // Decoders report these kinds for damaged or incomplete input; the system never reports
        // them for plain reads.
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
            Error::corrupt(
                "unpack trace",
                format!("the compressed file is damaged or cut: {error}"),
            )
            .path(path)
            .offset(offset_bytes)
            .hint("fetch it again, or test it with `gzip -t` or `zstd -t`")
        }
        _ => Error::io("read trace", error)
            .path(path)
            .offset(offset_bytes),
    }
}

/// Reads until `out` is full or the stream ends. Returns the number of bytes.
fn read_full(stream: &mut dyn Read, out: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match stream.read(&mut out[len..]) {
            Ok(0) => break,
            Ok(got) => len += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Whether `head` starts a Zstandard or a skippable frame (RFC 8878, sections 3.1.1 and 3.1.2).
fn is_zstd_magic(head: &[u8]) -> bool {
    head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable(head)
}

fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18]
}

/// All frames of a Zstandard file, one after the other.
struct Zstd<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(source)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok(Zstd(decoder))
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // The decoder has no error kind for damaged bytes; errors of the system have a number.
        self.0.read(out).map_err(|error| match error.kind() {
            ErrorKind::Other if error.raw_os_error().is_none() => {
                io::Error::new(ErrorKind::InvalidData, error)
            }
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn unpack(bytes: &[u8]) -> Result<Vec<u8>> {
        let path = Path::new("x");
        let mut stream = decompress(Box::new(Cursor::new(bytes.to_vec())), path)?;
        let mut out = Vec::new();
        stream
            .read_to_end(&mut out)
            .map_err(|error| read_error(&error, path, 0))?;
        Ok(out)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_members_and_zstd_frames_are_joined_and_skippable_frames_passed_over() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let (a, b) = text.split_at(1000);
        assert_eq!(unpack(&[gzip(a), gzip(b)].concat()).unwrap(), text);
        let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let packed = [skippable.clone(), zstd(a), zstd(b""), skippable, zstd(b)].concat();
        assert_eq!(unpack(&packed).unwrap(), text);
        let cut_skippable = unpack(&packed[..9]).unwrap_err();
        assert_eq!(cut_skippable.kind(), outcore_io::Kind::Corrupt);
        assert_eq!(unpack(&text).unwrap(), text);
        assert_eq!(unpack(b"").unwrap(), b"");
    }

    #[test]
    fn a_cut_or_damaged_archive_is_an_error_that_says_so() {
        let text: Vec<u8> = (0..100_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        for packed in [gzip(&text), zstd(&text)] {
            for len in [packed.len() / 2, packed.len() - 1, 7] {
                let error = unpack(&packed[..len]).unwrap_err();
                assert_eq!(error.kind(), outcore_io::Kind::Corrupt, "{error}");
            }
            let mut flipped = packed.clone();
            let at = packed.len() - 3;
            flipped[at] ^= 1;
            assert_eq!(
                unpack(&flipped).unwrap_err().kind(),
                outcore_io::Kind::Corrupt
            );
        }
    }

    #[test]
    fn a_window_larger_than_the_zstd_command_allows_is_refused_before_it_is_allocated() {
        // A frame of one empty raw block, with the checksum of no bytes, and a window of 2^exponent
        // bytes.
        let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, (exponent - 10) << 3, 1, 0, 0];
        assert_eq!(unpack(&frame(27)).unwrap(), b"");
        let error = unpack(&frame(31)).unwrap_err();
        assert_eq!(error.kind(), outcore_io::Kind::Corrupt);
        assert!(error.cause().contains("memory"), "{error}");
    }

    #[test]
    fn archives_that_are_not_read_name_the_command_that_unpacks_them() {
        for (head, tool) in [
            (&b"BZh91AY"[..], "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"PK\x03\x04..", "unzip"),
        ] {
            let error = unpack(head).unwrap_err();
            assert!(error.next_step().unwrap().contains(tool), "{error}");
        }
    }
}
