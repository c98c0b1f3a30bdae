//! outcore
