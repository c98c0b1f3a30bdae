//! How many cases of a property are tried.
//!
//! Contract: the caller's default number, or that of `PROPTEST_CASES`.

use proptest::prelude::ProptestConfig;

/// The configuration of a property for which `few` cases are enough.
pub fn tried(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}
