//! Output of `outcore drives probe`, as targets of a fit: any bytes read as one.
//!
//! Contract: never panics, never reads for ever; the checks are in the library of this package.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| outcore_fuzz::sim::probe(data));
