//! Verbs on sequences of records, and what they share.
//!
//! Contract: each verb is one pass of [`outcore::primitives`] over its input, refined on the way by
//! conditions and a first step. Outputs follow the rules of `sort`. Results that are numbers are
//! printed one per line where the host prints; otherwise the report holds them.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the options that these verbs share |
//! | `input` | the input, opened and typed |
//! | `number` | numbers of any type in reports |
//! | `run` | plans, begin events and reports |
//! | `write` | the run of a verb that writes a file |
//! | `expressions` | expressions in help |
//! | `table` | what some of these verbs do with tables |
//! | `map` | `map`, `filter`, `flat-map` |
//! | `arrange` | `zip`, `enumerate`, `windows`, `reverse`, `merge` |
//! | [`group`] | `count-by`, and distinct records for `unique` |
//! | `reduce`, `scan`, `histogram`, `top`, `find` | the verbs of these names |
//! | `partition`, `gather`, `lookup` | the verbs of these names |

pub mod args;
mod arrange;
mod expressions;
mod find;
mod gather;
pub(crate) mod group;
mod histogram;
mod input;
mod lookup;
mod map;
mod number;
mod partition;
mod reduce;
mod run;
mod scan;
#[cfg(feature = "tables")]
mod table;
mod top;
mod write;

use crate::verb::VerbVisitor;

pub use number::{Number, ValueCount};
pub use reduce::ReducedValue;

/// Shows each of these verbs to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<map::Map>();
    visitor.visit::<map::Filter>();
    visitor.visit::<arrange::Zip>();
    visitor.visit::<map::FlatMap>();
    visitor.visit::<arrange::Enumerate>();
    visitor.visit::<arrange::Windows>();
    visitor.visit::<arrange::Reverse>();
    visitor.visit::<arrange::Merge>();
    visitor.visit::<reduce::Reduce>();
    visitor.visit::<scan::Scan>();
    visitor.visit::<histogram::Histogram>();
    visitor.visit::<group::CountBy>();
    visitor.visit::<top::Top>();
    visitor.visit::<find::Find>();
    visitor.visit::<partition::Partition>();
    visitor.visit::<gather::Gather>();
    visitor.visit::<lookup::Lookup>();
}
