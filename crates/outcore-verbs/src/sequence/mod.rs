//! Verbs on sequences of records, and their common part.
//!
//! Contract: each verb is one pass of [`outcore::primitives`] over its input, which conditions and
//! a first step can refine in the same pass. Outputs follow the rules of `sort`. If the host
//! prints, results that are numbers are printed one per line; otherwise the report has them.
//!
//! | file | holds |
//! |---|---|
//! | [`args`] | the options that these verbs share |
//! | `input` | the input, opened and typed |
//! | `number` | numbers of any type in reports |
//! | `run` | plans, begin events and reports |
//! | `write` | the run of a verb that writes a file |
//! | `expressions` | expressions in help |
//! | `table` | the verbs of these that also take tables |
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
use write::Written;

/// Shows each of these verbs to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<Written<map::Map>>();
    visitor.visit::<Written<map::Filter>>();
    visitor.visit::<Written<arrange::Zip>>();
    visitor.visit::<Written<map::FlatMap>>();
    visitor.visit::<Written<arrange::Enumerate>>();
    visitor.visit::<Written<arrange::Windows>>();
    visitor.visit::<Written<arrange::Reverse>>();
    visitor.visit::<Written<arrange::Merge>>();
    visitor.visit::<reduce::Reduce>();
    visitor.visit::<Written<scan::Scan>>();
    visitor.visit::<histogram::Histogram>();
    visitor.visit::<group::CountBy>();
    visitor.visit::<top::Top>();
    visitor.visit::<find::Find>();
    visitor.visit::<partition::Partition>();
    visitor.visit::<Written<gather::Gather>>();
    visitor.visit::<lookup::Lookup>();
}
