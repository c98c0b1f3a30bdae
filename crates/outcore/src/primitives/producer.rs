//! What makes the bytes of results out of batches: typed sequences, and columns with expressions.
//!
//! Contract: a [`Producer`] writes the items of a batch, in order, through an [`Emit`]. An `Emit`
//! has room for a piece; a producer of unknown length asks for room item by item and stops with
//! [`Produced::Overflow`] where there is none, to be called again with one that hands its bytes
//! on whenever it is full. Results are the same both times.

use std::ops::ControlFlow;

use bytemuck::Pod;

use super::batch::{Batch, Sequence, Source, Yield};
use outcore_io::Result;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// Everything is in the area, or was handed on.
    All,
    /// There was no room.
    Overflow,
}

/// Takes what is in a full area.
type Flush<'a> = dyn FnMut(&mut [u8]) -> Result<()> + 'a;

/// Where a producer puts its items.
pub struct Emit<'a> {
    area: &'a mut [u8],
    len_bytes: usize,
    flush: Option<&'a mut Flush<'a>>,
}

impl<'a> Emit<'a> {
    /// Room for `area` and no more.
    pub(crate) fn bounded(area: &'a mut [u8]) -> Self {
        Emit {
            area,
            len_bytes: 0,
            flush: None,
        }
    }

    /// Hands on what is in `area` whenever it is full.
    pub(crate) fn streaming(area: &'a mut [u8], flush: &'a mut Flush<'a>) -> Self {
        Emit {
            area,
            len_bytes: 0,
            flush: Some(flush),
        }
    }

    /// Bytes in the area.
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// Whether nothing is in the area.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// What is free of the area.
    pub fn free(&mut self) -> &mut [u8] {
        &mut self.area[self.len_bytes..]
    }

    /// Counts the first `bytes` of [`Emit::free`] as filled.
    pub fn filled(&mut self, bytes: usize) {
        self.len_bytes += bytes;
    }

    /// Makes room for `bytes` more; false if there is none.
    ///
    /// # Errors
    /// What handing on fails with.
    pub fn reserve(&mut self, bytes: usize) -> Result<bool> {
        if self.area.len() - self.len_bytes >= bytes {
            return Ok(true);
        }
        let Some(flush) = &mut self.flush else {
            return Ok(false);
        };
        flush(&mut self.area[..self.len_bytes])?;
        self.len_bytes = 0;
        Ok(self.area.len() >= bytes)
    }

    /// Hands on what is left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match &mut self.flush {
            Some(flush) if self.len_bytes > 0 => {
                flush(&mut self.area[..self.len_bytes])?;
                self.len_bytes = 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What one thread makes items with: writes those of a batch to an area, which begins at an address
/// that items of every alignment can have. It fails with what the user's functions fail with, and
/// handing on.
pub type Maker<'p> = Box<dyn FnMut(Batch<'_>, &mut Emit<'_>) -> Result<Produced> + 'p>;

/// Makes results of batches; see the module.
///
/// N.B. passes take it as `dyn`, so that they are compiled once: it is called once a piece, and its
/// loop over items is its own.
pub trait Producer: Sync {
    /// Its sources.
    fn sources(&self) -> Vec<Source>;

    /// How many items a position yields.
    fn yields(&self) -> Yield;

    /// Bytes of an item.
    fn item_bytes(&self) -> usize;

    /// Alignment that its items need while they are made.
    fn align_bytes(&self) -> usize;

    /// What a thread makes items with, and all that it keeps for that.
    fn maker(&self) -> Maker<'_>;

    /// Bytes of what a [`Maker`] keeps.
    fn space_bytes(&self) -> usize {
        0
    }

    /// For the progress: what is being done while its items are written.
    fn phase(&self) -> &'static str {
        "write"
    }

    /// For a summary: what is done between source and consumer.
    fn steps(&self) -> String;
}

/// A typed sequence whose items have bytes.
pub(crate) struct Typed<'s, S>(pub(crate) &'s S);

impl<S> Typed<'_, S>
where
    S: Sequence,
    S::Item: Pod,
{
    fn make(&self, batch: Batch<'_>, out: &mut Emit<'_>) -> Result<Produced> {
        let item_bytes = size_of::<S::Item>();
        if S::YIELD == Yield::Any {
            let mut items = self.0.iter(batch);
            let mut next = items.next();
            while let Some(first) = next {
                if !out.reserve(item_bytes)? {
                    return Ok(Produced::Overflow);
                }
                let room = out.free();
                let whole_bytes = room.len() / item_bytes * item_bytes;
                let slots: &mut [S::Item] = bytemuck::cast_slice_mut(&mut room[..whole_bytes]);
                slots[0] = first;
                let mut filled = 1;
                let stopped = items.try_for_each(|item| match slots.get_mut(filled) {
                    Some(slot) => {
                        *slot = item;
                        filled += 1;
                        ControlFlow::Continue(())
                    }
                    None => ControlFlow::Break(item),
                });
                next = stopped.break_value();
                out.filled(filled * item_bytes);
            }
            return Ok(Produced::All);
        }
        if !out.reserve(batch.count * item_bytes)? {
            return Ok(Produced::Overflow);
        }
        let area = &mut out.free()[..batch.count * item_bytes];
        let items: &mut [S::Item] = bytemuck::cast_slice_mut(area);
        let mut filled = 0;
        if S::YIELD == Yield::One {
            for (slot, item) in items.iter_mut().zip(self.0.iter(batch)) {
                *slot = item;
            }
            filled = batch.count;
        } else {
            for item in self.0.iter(batch) {
                items[filled] = item;
                filled += 1;
            }
        }
        out.filled(filled * item_bytes);
        Ok(Produced::All)
    }
}

impl<S> Producer for Typed<'_, S>
where
    S: Sequence,
    S::Item: Pod,
{
    fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        self.0.sources(&mut sources);
        sources
    }

    fn yields(&self) -> Yield {
        S::YIELD
    }

    fn item_bytes(&self) -> usize {
        size_of::<S::Item>()
    }

    fn align_bytes(&self) -> usize {
        align_of::<S::Item>()
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| self.make(batch, out))
    }

    fn steps(&self) -> String {
        "read -> functions".to_string()
    }
}
