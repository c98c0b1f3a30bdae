//! Producers turn batches into the bytes of results: typed sequences, and columns with expressions.
//!
//! Contract: a [`Producer`] writes the items of a batch, in order, through an [`Emit`]. An `Emit`
//! has room for one piece. A producer of unknown length requests room item by item and stops with
//! [`Produced::Overflow`] if there is none. It is then called again with an `Emit` that flushes its
//! bytes whenever it is full. Both calls give the same results.

use std::ops::ControlFlow;

use bytemuck::Pod;

use super::batch::{Batch, Sequence, Source, Yield};
use outcore_io::Result;

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// All results are in the area, or were flushed.
    All,
    /// The area had no room.
    Overflow,
}

/// Receives the contents of a full area.
type Flush<'a> = dyn FnMut(&mut [u8]) -> Result<()> + 'a;

/// The destination of a producer's items.
pub struct Emit<'a> {
    area: &'a mut [u8],
    len_bytes: usize,
    flush: Option<&'a mut Flush<'a>>,
}

impl<'a> Emit<'a> {
    /// Room for exactly `area`.
    pub(crate) fn bounded(area: &'a mut [u8]) -> Self {
        Emit {
            area,
            len_bytes: 0,
            flush: None,
        }
    }

    /// Flushes `area` whenever it is full.
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

    /// The free part of the area.
    pub fn free(&mut self) -> &mut [u8] {
        &mut self.area[self.len_bytes..]
    }

    /// Counts the first `bytes` of [`Emit::free`] as filled.
    pub fn filled(&mut self, bytes: usize) {
        self.len_bytes += bytes;
    }

    /// Makes room for another `bytes`; false if there is none.
    ///
    /// # Errors
    /// The errors of flushing.
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

    /// Flushes the rest.
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

/// Makes the items of one thread: writes those of a batch to an area, whose address is aligned for
/// all types. It returns the errors of the user's functions and of flushing.
pub type Maker<'p> = Box<dyn FnMut(Batch<'_>, &mut Emit<'_>) -> Result<Produced> + 'p>;

/// Makes results from batches; see the module.
///
/// N.B. passes take a producer as `dyn`, so that they are compiled only once. There is one call per
/// piece, and the loop over items is inside.
pub trait Producer: Sync {
    /// The sources of the producer.
    fn sources(&self) -> Vec<Source>;

    /// Number of items per position.
    fn yields(&self) -> Yield;

    /// Bytes of an item.
    fn item_bytes(&self) -> usize;

    /// Alignment of the producer's items while they are made.
    fn align_bytes(&self) -> usize;

    /// A maker for one thread, with its state.
    fn maker(&self) -> Maker<'_>;

    /// Bytes of the state of a [`Maker`].
    fn space_bytes(&self) -> usize {
        0
    }

    /// For the progress: the name of the phase while its items are written.
    fn phase(&self) -> &'static str {
        "write"
    }

    /// For a summary: the steps between source and consumer.
    fn steps(&self) -> String;
}

/// A typed sequence whose items can be written as bytes.
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
