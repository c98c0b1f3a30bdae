//! Headers of files of vectors: any bytes as fvecs and its kin, fbin and its kin, .npy.
//!
//! Contract: never panics, never reads for ever; the checks are in the library of this package.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| outcore_fuzz::vectors::open(data));
