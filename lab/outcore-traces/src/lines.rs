//! Reads lines and numbers from a byte stream, without copying where the buffer allows it.
//!
//! Contract: memory is the reader's buffer plus one line of at most `line_bytes_max`; a longer line
//! is skipped and reported as such. Line ends are LF or CR LF; the last line needs none; a
//! byte-order mark at the start is dropped. Numbers are exact: decimal fractions become integer
//! nanoseconds without floating point.

use std::io::{self, BufRead, ErrorKind};

/// One line of a file.
pub(crate) enum Line<'a> {
    /// Its bytes, without the line end.
    Text(&'a [u8]),
    /// A line that was longer than allowed; this contains its first bytes.
    TooLong(&'a [u8]),
}

/// Splits a stream into lines.
pub(crate) struct Lines<R> {
    inner: R,
    line_bytes_max: usize,
    /// Bytes of the buffer that belong to the line returned last.
    pending: usize,
    /// Holds a line that crosses the end of the buffer.
    spill: Vec<u8>,
    number: u64,
    next_bytes: u64,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(inner: R, line_bytes_max: usize) -> Self {
        Lines {
            inner,
            line_bytes_max,
            pending: 0,
            spill: Vec::new(),
            number: 0,
            next_bytes: 0,
        }
    }

    /// Number of the line returned last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far; before `next`, the offset of the line that it will return.
    pub(crate) fn bytes(&self) -> u64 {
        self.next_bytes
    }

    /// The next line, or `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.inner.consume(std::mem::take(&mut self.pending));
        let buffer = fill(&mut self.inner)?;
        if buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let Some(len) = memchr::memchr(b'\n', buffer).filter(|n| *n <= self.line_bytes_max) else {
            return self.next_slow();
        };
        self.pending = len + 1;
        self.next_bytes += self.pending as u64;
        // The borrow checker requires fetching the buffer again; it is the same one.
        let buffer = self.inner.fill_buf()?;
        Ok(Some(Line::Text(trim_line(
            buffer.get(..len).unwrap_or(buffer),
            self.number,
        ))))
    }

    /// A line that crosses the buffer, ends the file or is too long.
    #[cold]
    fn next_slow(&mut self) -> io::Result<Option<Line<'_>>> {
        self.spill.clear();
        let mut is_too_long = false;
        loop {
            let buffer = fill(&mut self.inner)?;
            if buffer.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', buffer);
            let text = &buffer[..end.unwrap_or(buffer.len())];
            let room = self.line_bytes_max - self.spill.len();
            self.spill.extend_from_slice(&text[..text.len().min(room)]);
            is_too_long |= text.len() > room;
            let used = text.len() + usize::from(end.is_some());
            self.next_bytes += used as u64;
            self.inner.consume(used);
            if end.is_some() {
                break;
            }
        }
        let text = trim_line(&self.spill, self.number);
        Ok(Some(if is_too_long {
            Line::TooLong(text)
        } else {
            Line::Text(text)
        }))
    }
}

/// `fill_buf` that retries after a signal.
pub(crate) fn fill<R: BufRead>(reader: &mut R) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    reader.fill_buf()
}

/// Reads until `out` is full or the stream ends. Returns the number of bytes.
pub(crate) fn read_up_to<R: BufRead>(inner: &mut R, out: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < out.len() {
        let buffer = fill(inner)?;
        let len = buffer.len().min(out.len() - got);
        if len == 0 {
            break;
        }
        out[got..got + len].copy_from_slice(&buffer[..len]);
        inner.consume(len);
        got += len;
    }
    Ok(got)
}

fn trim_line(line: &[u8], number: u64) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if number == 1 {
        line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
    } else {
        line
    }
}

/// A decimal number without sign that fits 64 bits.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    if text.len() <= 19 {
        // 19 digits cannot overflow, so the checks are omitted.
        let mut value = 0_u64;
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    let mut value = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A decimal number without sign that fits 32 bits.
#[inline]
pub(crate) fn parse_u32(text: &[u8]) -> Option<u32> {
    u32::try_from(parse_u64(text)?).ok()
}

/// A hexadecimal number, with or without `0x`.
pub(crate) fn parse_hex(text: &[u8]) -> Option<u64> {
    let digits = text
        .strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"0X"))
        .unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        Some((value << 4) | u64::from((*byte as char).to_digit(16)?))
    })
}

/// Parses a time in units of `unit_ns` nanoseconds into whole nanoseconds (truncated). Accepts a
/// decimal point; rejects signs, exponents and values beyond 64 bits.
#[inline]
pub(crate) fn parse_time(text: &[u8], unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        None => return parse_u64(text)?.checked_mul(unit_ns),
        Some(dot) => (&text[..dot], &text[dot + 1..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole_ns = if whole.is_empty() {
        0
    } else {
        parse_u64(whole)?.checked_mul(unit_ns)?
    };
    // Digits after the 18th decimal are less than a nanosecond in any unit; they must still be
    // digits.
    let (mut digits, mut scale) = (0_u64, 1_u64);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if scale < 1_000_000_000_000_000_000 {
            digits = digits * 10 + u64::from(digit);
            scale *= 10;
        }
    }
    let fraction_ns = match digits.checked_mul(unit_ns) {
        Some(product) => product / scale,
        // The quotient is below the unit, so it fits.
        None => (u128::from(digits) * u128::from(unit_ns) / u128::from(scale)) as u64,
    };
    whole_ns.checked_add(fraction_ns)
}

/// Splits `line` at every `delimiter` into trimmed fields; `None` if there are more than `N`.
/// Returns the fields and their number.
#[inline]
pub(crate) fn split<const N: usize>(line: &[u8], delimiter: u8) -> Option<([&[u8]; N], usize)> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for field in line.split(|byte| *byte == delimiter) {
        *fields.get_mut(count)? = field.trim_ascii();
        count += 1;
    }
    Some((fields, count))
}

/// Splits `line` at white space; `None` if there are more than `N` words.
#[inline]
pub(crate) fn words<const N: usize>(line: &[u8]) -> Option<([&[u8]; N], usize)> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for word in line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
    {
        *fields.get_mut(count)? = word;
        count += 1;
    }
    Some((fields, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufReader, Cursor};

    fn collect(bytes: &[u8], buffer: usize, max: usize) -> Vec<(u64, u64, bool, Vec<u8>)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, Cursor::new(bytes)), max);
        let mut out = Vec::new();
        loop {
            let start = lines.bytes();
            let (long, text) = match lines.next().unwrap() {
                None => break,
                Some(Line::Text(text)) => (false, text.to_vec()),
                Some(Line::TooLong(text)) => (true, text.to_vec()),
            };
            out.push((lines.number(), start, long, text));
        }
        assert_eq!(lines.bytes(), bytes.len() as u64);
        out
    }

    #[test]
    fn a_line_is_found_whatever_the_buffer_and_a_long_one_is_read_over() {
        let text = b"\xef\xbb\xbfab\r\n\nlonger than eight\nz";
        for buffer in 1..32 {
            let lines = collect(text, buffer, 8);
            let expected: Vec<(u64, u64, bool, Vec<u8>)> = vec![
                (1, 0, false, b"ab".to_vec()),
                (2, 7, false, b"".to_vec()),
                (3, 8, true, b"longer t".to_vec()),
                (4, 26, false, b"z".to_vec()),
            ];
            assert_eq!(lines, expected, "buffer of {buffer}");
        }
    }

    #[test]
    fn times_are_exact_and_never_wrap() {
        assert_eq!(parse_time(b"0.026214", 1_000_000_000), Some(26_214_000));
        assert_eq!(
            parse_time(b"1712195495505582.988", 1_000),
            Some(1_712_195_495_505_582_988)
        );
        assert_eq!(parse_time(b".5", 1_000), Some(500));
        assert_eq!(parse_time(b"3.", 1_000), Some(3_000));
        assert_eq!(
            parse_time(b"1.23456789012345678901234567890", 1_000),
            Some(1_234)
        );
        for bad in [
            "",
            ".",
            "-1",
            "1e3",
            "1.2.3",
            "0x10",
            "NaN",
            "99999999999999999999",
        ] {
            assert_eq!(parse_time(bad.as_bytes(), 1_000), None, "{bad}");
        }
        assert_eq!(parse_time(b"18446744073709551615", 1), Some(u64::MAX));
        assert_eq!(parse_time(b"18446744073709551615", 2), None);
    }

    proptest! {
        #[test]
        fn numbers_agree_with_the_standard_library(text in "[0-9]{0,22}") {
            prop_assert_eq!(parse_u64(text.as_bytes()), text.parse::<u64>().ok());
        }

        #[test]
        fn lines_agree_with_split(bytes in prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200), buffer in 1_usize..64)
        {
            let mut expected: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let got = collect(&bytes, buffer, 1000);
            prop_assert_eq!(got.len(), expected.len());
            for (line, want) in got.iter().zip(expected) {
                prop_assert_eq!(&line.3[..], trim_line(want, line.0));
            }
        }
    }
}
