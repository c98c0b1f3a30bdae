//! Verbs on sequences of records, and what they share.
//!
//! Contract: each verb is one pass of [`outcore::primitives`] over its input, refined on the way by
//! conditions and a first step. Outputs follow the rules of `sort`. Results that are numbers are
//! printed one per line where the host prints; otherwise the report holds them.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the options that these verbs share |
//! | [`input`] | the input, opened and typed |
//! | [`number`] | numbers of any type in reports |
//! | [`run`] | plans, begin events and reports |
//! | [`group`] | `count-by`, and distinct records for `unique` |

pub mod args;
pub mod group;
pub mod input;
pub mod number;
pub mod run;
#[cfg(feature = "tables")]
mod table;
