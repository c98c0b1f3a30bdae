//! Names: the original string ids of vertices, in blocks of 64 KiB.
//!
//! Contract: names are in the order of vertices, which is that of their bytes. So a name is found
//! by its vertex, and a vertex by its name. No name is split between blocks.
//!
//! ```text
//! block    64 KiB: checksum u64, first vertex u32, names u32, then their lengths u16,
//!          their bytes, zeros
//! index    the first vertex of each block, u32
//! ```

use super::{SUM_BYTES, file_checksum, u16_at, u32_at};
use outcore_io::Result;

/// Bytes of a block.
pub(crate) const NAME_BLOCK_BYTES: usize = 64 << 10;

const HEAD_BYTES: usize = SUM_BYTES + 8;
const LEN_BYTES: usize = 2;
/// The number of the file in checksums; the files of edges have the numbers before it.
const FILE: u32 = 3;

/// Makes blocks from ordered names.
#[derive(Debug)]
pub(crate) struct NamePacker {
    id: u64,
    blocks: u64,
    /// The first vertex of the open block.
    first: u32,
    lens_bytes: Vec<u16>,
    names: Vec<u8>,
}

impl NamePacker {
    /// Creates a packer for the graph `id`.
    pub(crate) fn new(id: u64) -> Self {
        NamePacker {
            id,
            blocks: 0,
            first: 0,
            lens_bytes: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Adds the name of the next vertex; `take` receives each full block and its first vertex.
    pub(crate) fn push(
        &mut self,
        name: &[u8],
        take: &mut impl FnMut(&[u8], u32) -> Result<()>,
    ) -> Result<()> {
        let used = HEAD_BYTES + self.lens_bytes.len() * LEN_BYTES + self.names.len();
        if used + LEN_BYTES + name.len() > NAME_BLOCK_BYTES {
            self.end_block(take)?;
        }
        self.lens_bytes.push(name.len() as u16);
        self.names.extend_from_slice(name);
        Ok(())
    }

    /// Ends the last block, and returns the number of blocks.
    pub(crate) fn finish(
        &mut self,
        take: &mut impl FnMut(&[u8], u32) -> Result<()>,
    ) -> Result<u64> {
        if !self.lens_bytes.is_empty() {
            self.end_block(take)?;
        }
        Ok(self.blocks)
    }

    fn end_block(&mut self, take: &mut impl FnMut(&[u8], u32) -> Result<()>) -> Result<()> {
        let mut block = Vec::with_capacity(NAME_BLOCK_BYTES);
        block.extend_from_slice(&[0; SUM_BYTES]);
        block.extend_from_slice(&self.first.to_le_bytes());
        let count = self.lens_bytes.len() as u32;
        block.extend_from_slice(&count.to_le_bytes());
        block.extend(self.lens_bytes.drain(..).flat_map(u16::to_le_bytes));
        block.append(&mut self.names);
        block.resize(NAME_BLOCK_BYTES, 0);
        let sum = file_checksum(self.id, FILE, self.blocks, &block);
        block[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        take(&block, self.first)?;
        self.blocks += 1;
        self.first += count;
        Ok(())
    }
}

/// The names in a block, and the vertex of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameBlock<'b> {
    pub(crate) first: u32,
    count: usize,
    block: &'b [u8],
}

impl<'b> NameBlock<'b> {
    /// Opens block `number` of the graph `id`; `None` if it is damaged.
    pub(crate) fn read(block: &'b [u8], id: u64, number: u64) -> Option<Self> {
        if block.len() != NAME_BLOCK_BYTES {
            return None;
        }
        let mut sum = [0; SUM_BYTES];
        sum.copy_from_slice(&block[..SUM_BYTES]);
        if file_checksum(id, FILE, number, block) != u64::from_le_bytes(sum) {
            return None;
        }
        Some(NameBlock {
            first: u32_at(block, SUM_BYTES),
            count: u32_at(block, SUM_BYTES + 4) as usize,
            block,
        })
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The names in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'b [u8]> {
        let mut at = HEAD_BYTES + self.count * LEN_BYTES;
        (0..self.count).map(move |number| {
            let len_bytes = u16_at(self.block, HEAD_BYTES + number * LEN_BYTES) as usize;
            at += len_bytes;
            &self.block[at - len_bytes..at]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_order_and_damage_is_seen() {
        let name = |vertex: u32| vec![b'a' + (vertex % 26) as u8; vertex as usize * 37 % 4096 + 1];
        let mut blocks: Vec<(Vec<u8>, u32)> = Vec::new();
        let mut take = |block: &[u8], first: u32| {
            blocks.push((block.to_vec(), first));
            Ok(())
        };
        let mut packer = NamePacker::new(7);
        for vertex in 0..500 {
            packer.push(&name(vertex), &mut take).unwrap();
        }
        assert_eq!(packer.finish(&mut take).unwrap(), blocks.len() as u64);
        assert!(blocks.len() > 10);
        let mut vertex = 0;
        for (number, (block, first)) in blocks.iter().enumerate() {
            let read = NameBlock::read(block, 7, number as u64).unwrap();
            assert_eq!((read.first, *first), (vertex, vertex));
            for found in read.iter() {
                assert_eq!(found, name(vertex));
                vertex += 1;
            }
            assert!(NameBlock::read(block, 8, number as u64).is_none());
            assert!(NameBlock::read(block, 7, number as u64 + 1).is_none());
            let mut bad = block.clone();
            bad[NAME_BLOCK_BYTES - 1] ^= 1;
            assert!(NameBlock::read(&bad, 7, number as u64).is_none());
        }
        assert_eq!(vertex, 500);
    }
}
