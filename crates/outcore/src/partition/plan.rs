//! What the plans of all jobs share: the sizes of descriptions, and the search for the least memory.
//!
//! Contract: pure arithmetic. How fast the drives are comes with the job
//! ([`DriveRates`](crate::job::DriveRates)).

/// Set aside for samples' remains and small tables.
pub(crate) const FIXED_BYTES: u64 = 5 << 19;
/// Bytes that a segment's description takes in memory, the growth of its list included.
pub(crate) const SEGMENT_META_BYTES: u64 = 80;
/// Bytes that a run of the input takes in memory.
pub(crate) const PIECE_BYTES: u64 = size_of::<super::bucket::Piece>() as u64;
const _: () = assert!(size_of::<super::bucket::Segment>() as u64 <= SEGMENT_META_BYTES);

/// The least memory, in whole MiB and above `memory_bytes`, with which a plan `fits`; none if none does.
pub(crate) fn least_memory_bytes(memory_bytes: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    const STEP_BYTES: u64 = 1 << 20;
    let fits = |steps: u64| fits(steps * STEP_BYTES);
    let mut too_few = memory_bytes / STEP_BYTES;
    let mut enough = too_few.max(1) * 2;
    while !fits(enough) {
        too_few = enough;
        enough = enough.checked_mul(2).filter(|&steps| steps < 1 << 40)?;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match fits(middle) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    Some(enough * STEP_BYTES)
}
