//! The bytes of its data that a block touches: declared patterns, or a page-access trace.
//!
//! Contract: a pattern is pure: block and index give the same place in every run (random patterns
//! use a hash of the seed). Requests are whole sectors of 512 bytes. A request that begins or ends
//! inside a sector is widened to it, as a drive would have to. Offsets wrap at the end of the
//! region.
//!
//! Bounds: declared patterns store nothing; a page-access trace is kept in memory, 32 bytes per
//! line.

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::quantities::Size;

const SECTOR_BYTES: u64 = 512;
/// Largest offset, length and distance: 256 TiB, more than any drive here.
const BYTES_MAX: u64 = 1 << 48;
/// Maximum number of rows between tiles, and of boxes along an edge.
const STEPS_MAX: u64 = 1 << 20;
const OPERATION: &str = "read page-access trace";

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessOp {
    /// Before the block computes.
    Read,
    /// After it has computed.
    Write,
}

/// The places of a block's requests in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// The requests of one block follow those of the previous block.
    Sequential,
    /// Block `b` begins at `b * block_step_bytes`; its requests are `stride_bytes` apart.
    Strided {
        /// Distance between requests.
        stride_bytes: u64,
        /// Distance between blocks.
        block_step_bytes: u64,
    },
    /// A tile of a row-major matrix, one request per row. A row of tiles has `blocks_x` tiles.
    Tile {
        /// Bytes per matrix row.
        row_bytes: u64,
        /// Number of tiles in a row of tiles.
        blocks_x: u64,
        /// Bytes from a tile to its right neighbour.
        step_x_bytes: u64,
        /// Matrix rows from a tile to the one below.
        step_y_rows: u64,
    },
    /// A box of a cubic grid with its 26 neighbours, `box_bytes` each. The requests cover one box
    /// after the other; neighbours outside the grid wrap around.
    Neighbours {
        /// Boxes along an edge.
        side: u64,
        /// Bytes of a box.
        box_bytes: u64,
    },
    /// Anywhere, at multiples of the request's size.
    Random,
}

/// The accesses of every block of a kernel to one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Read or write.
    pub op: AccessOp,
    /// Places of the requests.
    pub pattern: Pattern,
    /// Bytes per request.
    pub bytes: u32,
    /// Requests per block.
    pub count: u32,
    /// First byte of the array in the workload's data.
    pub start_bytes: u64,
    /// Bytes of the array.
    pub region_bytes: u64,
}

/// A request in sectors of the workload's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sectors {
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub count: u32,
}

fn mix(mut z: u64) -> u64 {
    // SplitMix64's finaliser (Steele, Lea, Flood, 2014): a bijection that scatters counters.
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn widened(first_byte: u64, bytes: u64) -> Sectors {
    let first = first_byte / SECTOR_BYTES;
    let end = (first_byte + bytes.max(1)).div_ceil(SECTOR_BYTES);
    Sectors {
        first,
        count: (end - first) as u32,
    }
}

impl Access {
    /// Rejects patterns that no drive could hold, with the reason.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let at_most = |name: &str, value: u64, most: u64| {
            if value <= most {
                Ok(())
            } else {
                Err(format!("{name} of {value} is more than {most}"))
            }
        };
        at_most("start_bytes", self.start_bytes, BYTES_MAX)?;
        at_most("region_bytes", self.region_bytes, BYTES_MAX)?;
        if self.bytes == 0 || self.count == 0 {
            return Err("a block's requests have at least one byte, and are at least one".into());
        }
        match self.pattern {
            Pattern::Sequential | Pattern::Random => Ok(()),
            Pattern::Strided {
                stride_bytes,
                block_step_bytes,
            } => {
                at_most("stride_bytes", stride_bytes, BYTES_MAX)?;
                at_most("block_step_bytes", block_step_bytes, BYTES_MAX)
            }
            Pattern::Tile {
                row_bytes,
                step_x_bytes,
                step_y_rows,
                ..
            } => {
                at_most("row_bytes", row_bytes, BYTES_MAX)?;
                at_most("step_x_bytes", step_x_bytes, BYTES_MAX)?;
                at_most("step_y_rows", step_y_rows, STEPS_MAX)
            }
            Pattern::Neighbours { side, box_bytes } => {
                at_most("side", side, STEPS_MAX)?;
                at_most("box_bytes", box_bytes, BYTES_MAX)
            }
        }
    }

    /// Request `index` of block `block`.
    pub fn request(&self, block: u64, index: u32, seed: u64) -> Sectors {
        let (bytes, i) = (u64::from(self.bytes.max(1)), u64::from(index));
        let region = self.region_bytes.max(bytes);
        // 2^32 blocks, and the values that `check` accepts, stay far below 2^128.
        let wide = u128::from;
        let offset = match self.pattern {
            Pattern::Sequential => {
                (wide(block) * wide(u64::from(self.count)) + wide(i)) * wide(bytes)
            }
            Pattern::Strided {
                stride_bytes,
                block_step_bytes,
            } => wide(block) * wide(block_step_bytes) + wide(i) * wide(stride_bytes),
            Pattern::Tile {
                row_bytes,
                blocks_x,
                step_x_bytes,
                step_y_rows,
            } => {
                let (x, y) = (block % blocks_x.max(1), block / blocks_x.max(1));
                let row = wide(y) * wide(step_y_rows) + wide(i);
                row * wide(row_bytes) + wide(x) * wide(step_x_bytes)
            }
            Pattern::Neighbours { side, box_bytes } => {
                let a_box = box_bytes.div_ceil(bytes).max(1);
                let at = neighbour(block, i / a_box, side.max(1));
                wide(at) * wide(box_bytes) + wide(i % a_box) * wide(bytes)
            }
            Pattern::Random => {
                let key = mix(seed ^ mix(block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i << 40));
                let places = (region / bytes).max(1);
                // The high half of the product selects one of `places` uniformly.
                ((wide(key) * wide(places)) >> 64) * wide(bytes)
            }
        };
        let place = match u64::try_from(offset) {
            Ok(offset) => offset % region,
            Err(_) => (offset % wide(region)) as u64,
        };
        let place = place.min(region - bytes);
        widened(self.start_bytes + place, bytes)
    }
}

/// Neighbour number 0 to 26 of a box; 0 is the box itself.
fn neighbour(block: u64, number: u64, side: u64) -> u64 {
    // Rotating the numbers by 13 brings the centre of the 3 x 3 x 3 cube to the front.
    let number = (number + 13) % 27;
    let axis = |at: u64, step: u64| (at + side + step - 1) % side;
    let (x, y, z) = (
        block % side,
        block / side % side,
        block / side / side % side,
    );
    let (x, y) = (axis(x, number % 3), axis(y, number / 3 % 3));
    axis(z, number / 9) * side * side + y * side + x
}

/// One line of a page-access trace: a request of a single block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageAccess {
    /// Index of the launch in the workload, from 0.
    pub kernel: u32,
    /// Block of the launch.
    pub block: u32,
    /// Read or write.
    pub op: AccessOp,
    /// First byte in the workload's data.
    #[serde(rename = "offset")]
    pub offset_bytes: u64,
    /// Bytes.
    pub bytes: u32,
}

impl PageAccess {
    /// Whether a drive could hold it.
    pub(super) fn is_sound(&self) -> bool {
        (1..=1 << 24).contains(&self.bytes) && self.offset_bytes <= BYTES_MAX
    }

    /// The request.
    pub fn request(&self) -> Sectors {
        widened(self.offset_bytes, u64::from(self.bytes))
    }
}

/// Reads a page-access trace: JSON Lines of `kernel, block, op, offset, bytes`, in any order.
///
/// # Errors
/// A line is damaged or has zero bytes; the error has its number.
pub fn read_pages(text: &str) -> Result<Vec<PageAccess>> {
    let mut pages = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let page: PageAccess = serde_json::from_str(line)
            .map_err(|error| Error::usage(OPERATION, format!("line {}: {error}", at + 1)))?;
        if !page.is_sound() {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "line {}: {} bytes at {}; 1 byte to 16 MiB below 2^48 are possible",
                    at + 1,
                    page.bytes,
                    page.offset_bytes
                ),
            ));
        }
        pages.push(page);
    }
    pages.sort_by_key(|page| (page.kernel, page.block));
    Ok(pages)
}

/// Parses `op:pattern:bytes:count[:region]`, such as `read:random:512B:16:4GiB`.
///
/// # Errors
/// A part is missing or unknown.
pub fn parse_access(text: &str) -> Result<Access> {
    let wrong = || {
        Error::usage(
            "read access pattern",
            format!("`{text}` is not op:pattern:bytes:count[:region]"),
        )
        .hint("such as read:random:512B:16:4GiB; patterns are sequential, random and stride=64KiB")
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (4 | 5, [op, pattern, bytes, count, region @ ..]) = (parts.len(), parts.as_slice()) else {
        return Err(wrong());
    };
    let size = |text: &str| outcore_io::units::parse_bytes(text).map_err(|_| wrong());
    let bytes = u32::try_from(size(bytes)?).map_err(|_| wrong())?;
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let op = match *op {
        "read" => AccessOp::Read,
        "write" => AccessOp::Write,
        _ => return Err(wrong()),
    };
    let pattern = match (*pattern, pattern.strip_prefix("stride=")) {
        ("sequential", _) => Pattern::Sequential,
        ("random", _) => Pattern::Random,
        (_, Some(stride)) => Pattern::Strided {
            stride_bytes: size(stride)?,
            block_step_bytes: u64::from(bytes),
        },
        _ => return Err(wrong()),
    };
    let region_bytes = match region.first() {
        Some(text) => size(text)?,
        None => Size(1 << 30).0,
    };
    let access = Access {
        op,
        pattern,
        bytes,
        count,
        start_bytes: 0,
        region_bytes,
    };
    let checked = access.check();
    checked.map_err(|cause| Error::usage("read access pattern", format!("`{text}`: {cause}")))?;
    Ok(access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(pattern: Pattern, bytes: u32, count: u32) -> Access {
        Access {
            op: AccessOp::Read,
            pattern,
            bytes,
            count,
            start_bytes: 0,
            region_bytes: 1 << 20,
        }
    }

    #[test]
    fn sequential_requests_follow_each_other_over_blocks() {
        let a = access(Pattern::Sequential, 4096, 4);
        let places: Vec<u64> = (0..8)
            .map(|n| a.request(n / 4, n as u32 % 4, 0).first)
            .collect();
        assert_eq!(places, [0, 8, 16, 24, 32, 40, 48, 56]);
    }

    #[test]
    fn what_begins_inside_a_sector_is_widened() {
        let pattern = Pattern::Strided {
            stride_bytes: 1088,
            block_step_bytes: 1088,
        };
        assert_eq!(
            access(pattern, 512, 1).request(1, 0, 0),
            Sectors { first: 2, count: 2 }
        );
        assert_eq!(
            access(pattern, 64, 1).request(0, 0, 0),
            Sectors { first: 0, count: 1 }
        );
    }

    #[test]
    fn a_tile_touches_one_piece_of_each_of_its_rows() {
        let pattern = Pattern::Tile {
            row_bytes: 2048,
            blocks_x: 4,
            step_x_bytes: 512,
            step_y_rows: 16,
        };
        let a = access(pattern, 512, 16);
        // Block 6 is in the second row of tiles, third from the left.
        assert_eq!(
            a.request(6, 1, 0),
            Sectors {
                first: 17 * 4 + 2,
                count: 1
            }
        );
    }

    #[test]
    fn a_box_has_27_different_neighbours_and_itself_first() {
        for block in [0, 17, 63] {
            let mut all: Vec<u64> = (0..27).map(|n| neighbour(block, n, 4)).collect();
            assert_eq!(all[0], block);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 27);
        }
    }

    proptest! {
        #[test]
        fn requests_stay_inside_the_region(
            block in 0u64..1_000_000, index in 0u32..5000, bytes in 1u32..20_000, seed: u64,
            which in 0usize..5,
        ) {
            let pattern = [
                Pattern::Sequential,
                Pattern::Random,
                Pattern::Strided { stride_bytes: 1536, block_step_bytes: 512 },
                Pattern::Tile { row_bytes: 1536, blocks_x: 3, step_x_bytes: 512, step_y_rows: 7 },
                Pattern::Neighbours { side: 10, box_bytes: 4000 },
            ][which];
            let a = access(pattern, bytes, 8);
            let r = a.request(block, index, seed);
            prop_assert!((r.first + u64::from(r.count)) * 512 <= (1 << 20) + 512);
            prop_assert!(u64::from(r.count) * 512 >= u64::from(bytes));
            prop_assert_eq!(r, a.request(block, index, seed));
        }
    }

    #[test]
    fn a_damaged_page_trace_names_its_line() {
        let good = r#"{"kernel":0,"block":1,"op":"read","offset":0,"bytes":512}"#;
        assert_eq!(read_pages(good).unwrap().len(), 1);
        let error = read_pages(&format!("{good}\n{{}}\n"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2"), "{error}");
        let empty = good.replace("512", "0");
        assert!(read_pages(&empty).is_err());
    }

    #[test]
    fn access_patterns_are_read_from_text() {
        let a = parse_access("write:stride=64KiB:4KiB:3:1GiB").unwrap();
        assert_eq!((a.op, a.bytes, a.count), (AccessOp::Write, 4096, 3));
        for bad in [
            "",
            "read",
            "read:zigzag:1:1",
            "read:random:0:1",
            "read:random:512B:x",
        ] {
            assert!(parse_access(bad).is_err(), "{bad}");
        }
    }
}
