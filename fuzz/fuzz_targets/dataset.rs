//! Datasets with a damaged file or another manifest, and indexes of packed files: any bytes.
//!
//! Contract: never panics, never reads for ever; the checks are in the library of this package.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| outcore_fuzz::data::dataset(data));
