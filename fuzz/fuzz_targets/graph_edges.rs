//! Edges in files: any bytes as .npz, Matrix Market, GAP's, text, CSV or Graph500's.
//!
//! Contract: never panics, never reads for ever; the checks are in the library of this package.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| outcore_fuzz::graphs::edges(data));
