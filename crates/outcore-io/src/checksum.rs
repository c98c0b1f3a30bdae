//! Checksums of blocks on scratch. A block that rotted or came from another place is reported and
//! never sorted into the output.
//!
//! Contract: the checksum is 64-bit XXH3 (Yann Collet's xxHash) over the block's bytes, seeded by
//! the drive, address and run that the block belongs to. Therefore, the check also detects a block
//! that was written to the wrong place, read from the wrong place, or left over from an earlier
//! run. The checksums are kept in a separate manifest, so the records stay unchanged. They guard
//! against faults, not against malice. No allocation, no state.
//!
//! N.B. xxhash-rust is 28 % slower unless it is compiled for the target CPU (docs/decisions/0022).

use twox_hash::XxHash3_64;

/// Where a block belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockLocation {
    /// Index of the drive in its volume.
    pub drive: u32,
    /// First byte of the block on the drive's scratch file.
    pub address_bytes: u64,
    /// The job's run; unique to each scratch directory ever made.
    pub run: u64,
}

impl BlockLocation {
    /// Seed of the block's checksum. A bijection spreads each field over all bits before the next
    /// field is added, so locations that differ in one field have different seeds.
    pub fn seed(self) -> u64 {
        let seed = mix(self.run ^ 0x9E37_79B9_7F4A_7C15);
        let seed = mix(seed ^ u64::from(self.drive));
        mix(seed ^ self.address_bytes)
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection on 64 bits.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Checksum of a block that belongs at `place`.
pub fn block_checksum(place: BlockLocation, block: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(place.seed(), block)
}

/// Checksum of bytes with no block location, such as a manifest.
pub fn bytes_checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Checksum of bytes that follow other bytes; `seed` is the checksum of those.
pub(crate) fn seeded_checksum(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Bytes that one step of [`continued_checksum`] covers.
pub(crate) const STEP_BYTES: usize = 64 << 10;

/// Checksum of bytes that follow other bytes; `checksum` is the checksum of those. A caller may
/// split the bytes into pieces at any multiples of 64 KiB.
pub fn continued_checksum(checksum: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(STEP_BYTES).fold(checksum, seeded_checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: BlockLocation = BlockLocation {
        drive: 1,
        address_bytes: 4096,
        run: 7,
    };

    #[test]
    fn the_checksum_is_xxh3() {
        // Known values of XXH3-64 with seed 0.
        assert_eq!(bytes_checksum(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(bytes_checksum(b"a"), 0xE6C6_32B6_1E96_4E1F);
        assert_eq!(bytes_checksum(b"abc"), 0x78AF_5F94_892F_3950);
    }

    #[test]
    fn a_block_in_another_place_fails() {
        let block = vec![3; 8192];
        let sum = block_checksum(PLACE, &block);
        let elsewhere = [
            BlockLocation { drive: 2, ..PLACE },
            BlockLocation {
                address_bytes: 8192,
                ..PLACE
            },
            BlockLocation { run: 8, ..PLACE },
        ];
        for place in elsewhere {
            assert_ne!(block_checksum(place, &block), sum, "{place:?}");
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found(
            mut block in proptest::collection::vec(any::<u8>(), 1..3000), at: usize, bit in 0u8..8,
        ) {
            let sum = block_checksum(PLACE, &block);
            let at = at % block.len();
            block[at] ^= 1 << bit;
            prop_assert_ne!(block_checksum(PLACE, &block), sum);
        }
    }
}
