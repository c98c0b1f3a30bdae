//! libCacheSim's oracleGeneral traces: any bytes read as that format.
//!
//! Contract: never panics, never reads for ever; the checks are in the library of this package.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcore_traces::Format;

fuzz_target!(|data: &[u8]| outcore_fuzz::block(Some(Format::OracleGeneral), data));
