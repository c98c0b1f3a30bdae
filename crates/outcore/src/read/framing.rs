//! Record boundaries in a stream of bytes.
//!
//! Contract: a [`Framing`] receives ranges of bytes in the order of the file and keeps the
//! necessary state from one to the next. It reads each byte once, and does no I/O. Records include
//! their ends: a terminator is part of its record.

use memchr::{memchr, memchr_iter, memrchr};

use super::terminators::Terminators;

/// Defines where records begin and end.
pub(crate) trait Framing: Clone + Send + Sync {
    /// Whether a record may begin at any byte, so that the code must search for it; otherwise
    /// chunks are divided at records.
    const IS_SCANNED: bool;

    /// Number of bytes of `bytes` that complete the record that starts with `begun`; `None` if it
    /// continues, in which case the state is updated.
    fn first_end(&mut self, begun: &[u8], bytes: &[u8]) -> Option<usize>;

    /// Number of bytes of `bytes`, which begin with a record, that are whole records. Updates the
    /// state with the bytes after them.
    fn whole_end(&mut self, bytes: &[u8]) -> usize;

    /// The start of the first record whose predecessor ends at `bytes[0]` or later.
    fn next_begin(&self, bytes: &[u8]) -> Option<usize>;

    /// Completes a record that the file leaves open.
    ///
    /// # Errors
    /// The record cannot be completed; the text says why.
    fn finish(&self, begun: &mut Vec<u8>) -> std::result::Result<(), &'static str>;
}

/// Records of one length.
#[derive(Debug, Clone, Copy)]
pub struct FixedLength {
    /// The length.
    pub record_bytes: usize,
}

impl Framing for FixedLength {
    const IS_SCANNED: bool = false;

    fn first_end(&mut self, begun: &[u8], bytes: &[u8]) -> Option<usize> {
        let missing_bytes = self.record_bytes - begun.len();
        (missing_bytes <= bytes.len()).then_some(missing_bytes)
    }

    fn whole_end(&mut self, bytes: &[u8]) -> usize {
        bytes.len() / self.record_bytes * self.record_bytes
    }

    fn next_begin(&self, _: &[u8]) -> Option<usize> {
        Some(0)
    }

    fn finish(&self, _: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        Err("the last record is incomplete")
    }
}

/// Records that end with a byte: lines.
#[derive(Debug, Clone, Copy)]
pub struct Terminated {
    /// The terminator; it is part of the record.
    pub terminator: u8,
}

impl Framing for Terminated {
    const IS_SCANNED: bool = true;

    fn first_end(&mut self, _: &[u8], bytes: &[u8]) -> Option<usize> {
        memchr(self.terminator, bytes).map(|at| at + 1)
    }

    fn whole_end(&mut self, bytes: &[u8]) -> usize {
        memrchr(self.terminator, bytes).map_or(0, |at| at + 1)
    }

    fn next_begin(&self, bytes: &[u8]) -> Option<usize> {
        memchr(self.terminator, bytes).map(|at| at + 1)
    }

    fn finish(&self, begun: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        begun.push(self.terminator);
        Ok(())
    }
}

/// How items of varying lengths are stored one after another in memory.
///
/// Comparisons and counts use only the *content* of an item; moves take all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemFraming {
    /// A byte ends each item, and occurs in none of them: lines.
    Terminated(u8),
    /// Each item begins with the length of its content, four bytes, little-endian: rows.
    LengthPrefixed,
}

impl ItemFraming {
    /// Bytes of an item before its content.
    #[inline(always)]
    pub(crate) fn head_bytes(self) -> usize {
        match self {
            ItemFraming::Terminated(_) => 0,
            ItemFraming::LengthPrefixed => size_of::<u32>(),
        }
    }

    /// Bytes of an item after its content.
    #[inline(always)]
    pub(crate) fn tail_bytes(self) -> usize {
        match self {
            ItemFraming::Terminated(_) => 1,
            ItemFraming::LengthPrefixed => 0,
        }
    }

    /// Bytes of an item other than its content.
    #[inline(always)]
    pub(crate) fn around_bytes(self) -> usize {
        self.head_bytes() + self.tail_bytes()
    }

    /// The content of a whole item.
    #[inline(always)]
    pub(crate) fn content(self, item: &[u8]) -> &[u8] {
        &item[self.head_bytes()..item.len() - self.tail_bytes()]
    }

    /// A whole item with this content.
    pub(crate) fn item_of(self, content: &[u8]) -> Box<[u8]> {
        let mut item = Vec::with_capacity(content.len() + self.around_bytes());
        match self {
            ItemFraming::Terminated(terminator) => {
                item.extend_from_slice(content);
                item.push(terminator);
            }
            ItemFraming::LengthPrefixed => {
                item.extend_from_slice(&(content.len() as u32).to_le_bytes());
                item.extend_from_slice(content);
            }
        }
        item.into()
    }

    /// Calls `found` with the range of the content of each of at most `items_max` whole items that
    /// start at `from`. Returns the start of the next item, or the end of `bytes`.
    #[inline]
    pub(crate) fn find(
        self,
        bytes: &[u8],
        from: usize,
        items_max: usize,
        mut found: impl FnMut(usize, usize),
    ) -> usize {
        let mut at = from;
        match self {
            ItemFraming::Terminated(terminator) => {
                let mut left = items_max;
                for end in Terminators::of(terminator, &bytes[from..]) {
                    found(at, from + end);
                    at = from + end + 1;
                    left -= 1;
                    if left == 0 {
                        return at;
                    }
                }
            }
            ItemFraming::LengthPrefixed => {
                for _ in 0..items_max {
                    let Some(&head) = bytes[at..].first_chunk() else {
                        return bytes.len();
                    };
                    let begin = at + size_of::<u32>();
                    let end = begin.saturating_add(u32::from_le_bytes(head) as usize);
                    if end > bytes.len() {
                        return bytes.len();
                    }
                    found(begin, end);
                    at = end;
                }
                return at;
            }
        }
        bytes.len()
    }

    /// The range of the content of each whole item of `bytes`.
    #[inline]
    pub(crate) fn spans(self, bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut ends = match self {
            ItemFraming::Terminated(terminator) => Some(Terminators::of(terminator, bytes)),
            ItemFraming::LengthPrefixed => None,
        };
        let mut at = 0;
        std::iter::from_fn(move || {
            if let Some(ends) = &mut ends {
                let span = (at, ends.next()?);
                at = span.1 + 1;
                return Some(span);
            }
            let head = bytes.get(at..)?.first_chunk()?;
            let begin = at + size_of::<u32>();
            let end = begin.checked_add(u32::from_le_bytes(*head) as usize)?;
            at = end;
            (end <= bytes.len()).then_some((begin, end))
        })
    }

    /// The content of the first item of `bytes`, as far as it is there, and the bytes after it.
    #[inline(always)]
    pub(crate) fn first(self, bytes: &[u8]) -> (&[u8], &[u8]) {
        let (begin, end) = match self {
            ItemFraming::Terminated(terminator) => (0, memchr(terminator, bytes)),
            ItemFraming::LengthPrefixed => {
                let head = bytes.first_chunk().map(|&head| u32::from_le_bytes(head));
                let begin = bytes.len().min(self.head_bytes());
                (begin, head.map(|len| begin.saturating_add(len as usize)))
            }
        };
        let end = end.unwrap_or(bytes.len()).min(bytes.len());
        let behind = (end + self.tail_bytes()).min(bytes.len());
        (&bytes[begin..end], &bytes[behind..])
    }

    /// Number of items that end in `bytes`; for length-prefixed items, `bytes` must begin with one.
    pub(crate) fn count(self, bytes: &[u8]) -> u64 {
        match self {
            ItemFraming::Terminated(terminator) => memchr_iter(terminator, bytes).count() as u64,
            ItemFraming::LengthPrefixed => {
                let mut items = 0;
                self.find(bytes, 0, usize::MAX, |_, _| items += 1);
                items
            }
        }
    }

    /// The start of the item that contains the byte at `at`; `bytes` begin with an item. If items
    /// are length-prefixed, this walks over the items before it.
    pub(crate) fn begin_of(self, bytes: &[u8], at: usize) -> usize {
        match self {
            ItemFraming::Terminated(terminator) => {
                memrchr(terminator, &bytes[..at]).map_or(0, |end| end + 1)
            }
            ItemFraming::LengthPrefixed => {
                let ends = self.spans(bytes).map(|(_, end)| end);
                ends.take_while(|end| *end <= at).last().unwrap_or(0)
            }
        }
    }

    /// The start of the first item after one that spans the start of `bytes`; `None` if it cannot
    /// be determined.
    pub(crate) fn next_begin(self, bytes: &[u8]) -> Option<usize> {
        match self {
            ItemFraming::Terminated(terminator) => memchr(terminator, bytes).map(|at| at + 1),
            ItemFraming::LengthPrefixed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_are_found_as_they_were_framed(
            contents in prop::collection::vec(prop::collection::vec(1u8.., 0..40), 0..60),
            items_max in 1usize..10,
            cut_bytes in 0usize..50,
        ) {
            for framing in [ItemFraming::Terminated(0), ItemFraming::LengthPrefixed] {
                let items: Vec<Box<[u8]>> = contents.iter().map(|c| framing.item_of(c)).collect();
                for (item, content) in items.iter().zip(&contents) {
                    prop_assert_eq!(framing.content(item), &content[..]);
                }
                let whole = items.concat();
                let bytes = &whole[..whole.len().saturating_sub(cut_bytes)];
                let mut ends = items.iter().scan(0, |end, item| {
                    *end += item.len();
                    Some(*end)
                });
                let count = ends.by_ref().take_while(|end| *end <= bytes.len()).count();
                let mut found = Vec::new();
                let mut from = 0;
                while from < bytes.len() {
                    from = framing.find(bytes, from, items_max, |begin, end| {
                        found.push(bytes[begin..end].to_vec());
                    });
                }
                prop_assert_eq!(&found[..], &contents[..count]);
                prop_assert_eq!(framing.count(bytes), count as u64);
                let spans = framing.spans(bytes).map(|(begin, end)| &bytes[begin..end]);
                prop_assert!(spans.eq(&contents[..count]));
                let mut rest = bytes;
                for content in &contents[..count] {
                    let (first, behind) = framing.first(rest);
                    prop_assert_eq!(first, &content[..]);
                    rest = behind;
                }
                // A truncated item is shown as far as it exists.
                let (first, behind) = framing.first(rest);
                prop_assert!(behind.is_empty());
                prop_assert!(contents.get(count).is_none_or(|content| content.starts_with(first)));
            }
        }
    }
}
