//! Reads from Thrift what the Parquet library does not report: whether a footer marks the file as
//! encrypted, and the size of a page.
//!
//! Contract: [`is_encrypted`] walks the footer in Thrift's compact protocol up to its eighth field,
//! the encryption algorithm (parquet.thrift, `FileMetaData`). A file with a plain footer and
//! encrypted columns has this field. If the footer cannot be walked, the answer is no; the file is
//! damaged and reported as such. [`page_header`] reads the sizes in a page's header (`PageHeader`).

/// The field of `FileMetaData` with the algorithm.
const ENCRYPTION_ALGORITHM: i64 = 8;
/// Types of the compact protocol.
const TRUE: u8 = 1;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
/// The deepest nesting of a footer.
const DEPTH_MAX: usize = 32;

/// See the module.
pub(super) fn is_encrypted(footer: &[u8]) -> bool {
    let mut walk = Walk(footer);
    let mut field = 0;
    while let Some((id, kind)) = walk.field(field) {
        if id == ENCRYPTION_ALGORITHM {
            return true;
        }
        field = id;
        if walk.skip(kind, DEPTH_MAX).is_none() {
            return false;
        }
    }
    false
}

/// Sizes in the header of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) header_bytes: u64,
    pub(super) is_dictionary: bool,
    /// Decompressed size.
    pub(super) opened_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) values_count: u64,
}

/// Parses the header at the start of `bytes`; `None` if it is incomplete.
pub(super) fn page_header(bytes: &[u8]) -> Option<PageHeader> {
    const DICTIONARY_PAGE: u64 = 2;
    let mut walk = Walk(bytes);
    let mut found = PageHeader::default();
    let mut before = 0;
    // The struct ends with a zero byte, which `field` removes.
    while *walk.0.first()? != 0 {
        let (id, kind) = walk.field(before)?;
        before = id;
        match (id, kind) {
            (1, 4..=6) => found.is_dictionary = walk.number()? == DICTIONARY_PAGE,
            (2, 4..=6) => found.opened_bytes = walk.number()?,
            (3, 4..=6) => found.stored_bytes = walk.number()?,
            // The header of a data page, of a dictionary page and of a version-2 data page begins
            // with the number of values.
            (5 | 7 | 8, STRUCT) => {
                let mut inner = 0;
                while *walk.0.first()? != 0 {
                    let (id, kind) = walk.field(inner)?;
                    inner = id;
                    match (id, kind) {
                        (1, 4..=6) => found.values_count = walk.number()?,
                        _ => walk.skip(kind, DEPTH_MAX)?,
                    }
                }
                walk.byte()?;
            }
            _ => walk.skip(kind, DEPTH_MAX)?,
        }
    }
    walk.byte()?;
    found.header_bytes = (bytes.len() - walk.0.len()) as u64;
    Some(found)
}

/// The rest of the footer.
struct Walk<'a>(&'a [u8]);

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn pass(&mut self, len_bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len_bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A nonnegative integer.
    fn number(&mut self) -> Option<u64> {
        let zigzag = self.varint()?;
        (zigzag & 1 == 0).then_some(zigzag >> 1)
    }

    /// The number and type of the next field of a struct, after the field `before`; `None` at the
    /// end.
    fn field(&mut self, before: i64) -> Option<(i64, u8)> {
        let head = self.byte().filter(|&head| head != 0)?;
        let id = match head >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            delta => before.checked_add(i64::from(delta))?,
        };
        Some((id, head & 0x0f))
    }

    /// Skips a value of type `kind`.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            0 => None,
            // True and false are stored in the head of the field.
            TRUE | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            BINARY => {
                let len_bytes = self.varint()?;
                self.pass(len_bytes)
            }
            9 | SET => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                (0..count).try_for_each(|_| self.skip_element(head & 0x0f, depth))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0f, depth)
                })
            }
            STRUCT => {
                // Field numbers do not matter here.
                while let Some((_, kind)) = self.field(0) {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Skips an element of a list, in which true and false have a byte of their own.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | 2 => self.pass(1),
            other => self.skip(other, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_header_says_what_its_page_takes() {
        // 1: 2 (a dictionary), 2: 300, 3: 100, 7: {1: 5, 2: 0}, and a byte after it.
        let header = [
            0x15, 4, 0x15, 0xd8, 4, 0x15, 0xc8, 1, 0x4c, 0x15, 10, 0x15, 0, 0, 0,
        ];
        let found = page_header(&[&header[..], b"values"].concat()).unwrap();
        let wanted = PageHeader {
            header_bytes: header.len() as u64,
            is_dictionary: true,
            opened_bytes: 300,
            stored_bytes: 100,
            values_count: 5,
        };
        assert_eq!(found, wanted);
        for len in 0..header.len() {
            assert_eq!(page_header(&header[..len]), None);
        }
    }

    #[test]
    fn the_eighth_field_is_found_behind_values_of_every_type() {
        // 1: 7 (i32), 2: [{1: "ab"}, {}], 3: true, 5: {1: 2.0}, 6: {5: 6} as a map, 8: {}.
        let mut footer = vec![
            0x15, 14, 0x19, 0x2c, 0x18, 2, b'a', b'b', 0, 0, 0x11, 0x2c, 0x17,
        ];
        footer.extend(2.0f64.to_le_bytes());
        footer.extend([0, 0x1b, 1, 0x55, 10, 12]);
        let plain = [&footer[..], &[0]].concat();
        assert!(!is_encrypted(&plain));
        let encrypted = [&footer[..], &[0x2c, 0, 0]].concat();
        assert!(is_encrypted(&encrypted));
        for len in 0..footer.len() {
            assert!(!is_encrypted(&footer[..len]));
        }
    }
}
