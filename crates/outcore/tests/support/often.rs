//! How many cases of a property are tried.
//!
//! Contract: as many as the caller finds enough for every day, or as many as `PROPTEST_CASES` says.

use proptest::prelude::ProptestConfig;

/// The configuration of a property of which `few` cases are enough.
pub fn tried(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}
