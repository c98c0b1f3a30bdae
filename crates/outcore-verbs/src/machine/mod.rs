//! The verbs on the machine itself: its settings, its drives, and what jobs have left on them.
//!
//! Contract: none of them reads or writes data of the user. `page.rs` has the options and the
//! reports, `settings.rs` lists settings, `probe.rs` measures drives, `scratch.rs` lists and
//! removes scratch, and `places.rs` finds the directories where scratch may be.

mod page;
mod places;
mod probe;
mod scratch;
mod settings;

use crate::verb::VerbVisitor;

/// Shows each of these verbs to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<probe::Probe>();
    visitor.visit::<scratch::List>();
    visitor.visit::<scratch::Clean>();
    visitor.visit::<settings::Show>();
}
