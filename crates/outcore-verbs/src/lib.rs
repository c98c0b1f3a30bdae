//! The verbs of outcore, each written once: options, rules, job and report.
//!
//! Contract: the command and the Python package are faces of these verbs. They read words, run a
//! verb as its [`host`](host::Host), and say what it reports; no rule is theirs. Nothing here
//! prints or ends the process.
//!
//! | file | holds |
//! |---|---|
//! | [`option`] | options that many verbs have |
//! | [`kinds`] | which options are for which kinds of input |
//! | [`report`] | reports, and how they describe themselves |
//! | [`datasets`] | `@name` where a verb takes a file |
//! | [`host`] | what a verb needs of the face that runs it |
//! | [`verb`] | what a verb is |
//! | [`usage`] | wrong arguments, in words |
//! | [`explain`] | the plan of a pass over files |
//! | [`tables`] | what verbs on tables share |
//! | `generate`, [`mod@verify`] | the verbs, which [`visit_verbs`] lists |

pub mod datasets;
pub mod explain;
mod generate;
pub mod host;
pub mod kinds;
pub mod option;
pub mod report;
#[cfg(feature = "tables")]
pub mod tables;
pub mod usage;
pub mod verb;
pub mod verify;

use verb::VerbVisitor;

/// Shows each verb to `visitor`: the list that faces, documentation and tests walk.
pub fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<generate::Gen>();
    visitor.visit::<verify::Verify>();
}
