//! The requests of a block, in order and cut to size, and how many of them a launch has.
//!
//! Contract: pure; a cursor walks the declared patterns of one direction, then the accesses of a
//! page-access trace. Each access is widened to sectors and cut to pieces of at most `sectors_max`.
//! Bounds: no memory.

use super::memory::Memory;
use super::pattern::{AccessOp, PageAccess, Sectors};
use super::{GpuConfig, KernelSpec};

/// Place in the requests of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Accesses that the cursor has passed.
    pub(super) accesses: u32,
    /// Sectors of the next access that the cursor has passed.
    sectors: u32,
}

/// The requests of one block in one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requests<'a> {
    pub(super) kernel: &'a KernelSpec,
    pub(super) block: u64,
    pub(super) op: AccessOp,
    pub(super) seed: u64,
    /// Largest request.
    pub(super) sectors_max: u32,
}

impl<'a> Requests<'a> {
    /// The page accesses of the block.
    fn pages(&self) -> impl Iterator<Item = &'a PageAccess> + use<'a> {
        let (op, block) = (self.op, self.block);
        let all = &self.kernel.pages;
        let first = all.partition_point(|p| u64::from(p.block) < block);
        let own = all[first..].iter();
        own.take_while(move |p| u64::from(p.block) == block)
            .filter(move |page| page.op == op)
    }

    /// Number of accesses, before they are cut.
    pub(super) fn accesses(&self) -> u32 {
        let declared = self.kernel.io.iter().filter(|io| io.op == self.op);
        declared.fold(self.pages().count() as u32, |sum, io| {
            sum.saturating_add(io.count)
        })
    }

    /// Access `index`; `None` after the last.
    fn access(&self, index: u32) -> Option<Sectors> {
        let mut left = index;
        for (at, access) in self.kernel.io.iter().enumerate() {
            if access.op == self.op {
                if left < access.count {
                    let seed = self.seed.wrapping_add(at as u64);
                    return Some(access.request(self.block, left, seed));
                }
                left -= access.count;
            }
        }
        self.pages().nth(left as usize).map(PageAccess::request)
    }

    /// The next request; `None` after the last.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Option<Sectors> {
        let whole = self.access(cursor.accesses)?;
        let piece = Sectors {
            first: whole.first + u64::from(cursor.sectors),
            count: (whole.count - cursor.sectors).min(self.sectors_max),
        };
        cursor.sectors += piece.count;
        if cursor.sectors == whole.count {
            *cursor = Cursor {
                accesses: cursor.accesses + 1,
                sectors: 0,
            };
        }
        Some(piece)
    }
}

/// The GPU's memory, as one workload uses it.
pub(super) struct Held<'a> {
    pub(super) memory: &'a mut Memory,
    /// Where the workload's data begins on the drive.
    pub(super) first_sector: u64,
}

/// Requests of a launch that reach the drive if its blocks run one after the other. The launch
/// leaves its data in the memory.
pub(super) fn to_drive(
    kernel: &KernelSpec,
    gpu: &GpuConfig,
    mut memory: Option<Held<'_>>,
    seed: u64,
) -> u64 {
    let mut count = 0;
    for block in 0..kernel.blocks() {
        for op in [AccessOp::Read, AccessOp::Write] {
            let requests = Requests {
                kernel,
                block,
                op,
                seed,
                sectors_max: gpu.sectors_max(),
            };
            let mut cursor = Cursor::default();
            while let Some(request) = requests.next(&mut cursor) {
                let is_hit = memory.as_mut().is_some_and(|held| {
                    let first = held.first_sector + request.first;
                    held.memory.serves(op, Sectors { first, ..request })
                });
                count += u64::from(!is_hit);
            }
        }
    }
    count
}
