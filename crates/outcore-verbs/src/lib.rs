//! The verbs of outcore, each written once: options, rules, job and report.
//!
//! Contract: the command and the Python package are two faces of these verbs. They read arguments,
//! run a verb as its [`host`](host::Host), and show its report; they have no rules of their own.
//! Nothing here prints or ends the process.
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
//! | [`synonym`] | words of other tools |
//! | [`explain`] | the plan of a pass over files |
//! | [`lines`] | what verbs on lines share |
//! | [`records`] | what verbs on records share |
//! | [`scratch`] | the drives of a job's scratch |
//! | [`tables`] | the verbs on tables, and what they share |
//! | `graphs`, `vectors` | the verbs on graphs and vectors |
//! | `columns` | tables as inputs and results of verbs on graphs and vectors |
//! | [`sequence`] | the verbs on sequences of records, and what they share |
//! | `pass` | a pass over lines as they come |
//! | [`wording`] | reports in words |
//! | `bars` | counts as bars, for a terminal |
//! | [`sort`], `unique`, `comm`, `shuffle` | verbs on lines, records and tables |
//! | `head`, `tail`, `sample`, `split` | further verbs on these |
//! | `generate`, [`mod@verify`] | further verbs |
//! | `view`, [`volume`] | the verbs on sorted views and on volumes |
//! | `machine` | the verbs on drives, scratch and settings |
//!
//! [`visit_verbs`] lists all verbs.

mod bars;
mod columns;
mod comm;
pub mod datasets;
pub mod explain;
mod generate;
mod graphs;
mod head;
pub mod host;
pub mod kinds;
pub mod lines;
mod machine;
pub mod option;
mod pass;
pub mod records;
pub mod report;
mod resumed;
mod sample;
pub mod scratch;
pub mod sequence;
mod shuffle;
pub mod sort;
mod split;
pub mod synonym;
#[cfg(feature = "tables")]
pub mod tables;
mod tail;
mod unique;
pub mod usage;
mod vectors;
pub mod verb;
pub mod verify;
mod view;
pub mod volume;
pub mod wording;

use verb::{Group, VerbVisitor};

/// The commands that have verbs below them.
pub const GROUPS: [Group; 7] = [
    Group {
        name: "view",
        about: "Build sorted views, which are merged while they are read",
        long_about: "A view is a directory of sorted runs that reads like the sorted file: from any \
                     position, by many readers, any number of times. Building and reading one costs two reads \
                     and one write of the data; sorting to a file and reading it back costs three reads and \
                     two writes.",
    },
    Group {
        name: "volume",
        about: "Store datasets on many drives, and create and check the volumes that hold them",
        long_about: "A volume is named by its drives file. Datasets are striped over all drives, checksummed and \
                 sealed: they are whole or absent.",
    },
    Group {
        name: "graph",
        about: "Convert edges to graphs larger than memory, and compute on them",
        long_about: "A graph is a directory. Algorithms keep a few bytes for each vertex in memory \
                     and read the edges from the drives.",
    },
    Group {
        name: "vector",
        about: "Convert files of vectors, describe their contents, index them, and find \
                near-duplicates",
        long_about: "File names determine their formats: .npy, .fvecs, .bvecs and .ivecs, .fbin, \
                     .f16bin, .u8bin, .i8bin and .ibin; others hold raw numbers and need a type.",
    },
    Group {
        name: "drives",
        about: "Measure drives once, so that jobs can use each at its speed",
        long_about: "The measurements are a drives file, which --drives takes.",
    },
    Group {
        name: "scratch",
        about: "List or remove what killed runs left on the drives",
        long_about: "Scratch is in directories .outcore-* next to outputs and on the drives of jobs.",
    },
    Group {
        name: "config",
        about: "Show every setting and where it comes from",
        long_about: "Settings come from options, the environment, a file and defaults, in this order.",
    },
];

/// Passes each verb to `visitor`: the command, Python, the documentation and the tests use this
/// list.
pub fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<sort::Sort>();
    visitor.visit::<unique::Unique>();
    visitor.visit::<comm::Comm>();
    visitor.visit::<shuffle::Shuffle>();
    visitor.visit::<head::Head>();
    visitor.visit::<tail::Tail>();
    visitor.visit::<sample::Sample>();
    visitor.visit::<split::Split>();
    visitor.visit::<generate::Gen>();
    visitor.visit::<verify::Verify>();
    sequence::visit_verbs(visitor);
    view::visit_verbs(visitor);
    volume::visit_verbs(visitor);
    graphs::visit_verbs(visitor);
    vectors::visit_verbs(visitor);
    machine::visit_verbs(visitor);
    #[cfg(feature = "tables")]
    visit_tables(visitor);
}

/// The verbs on tables.
#[cfg(feature = "tables")]
fn visit_tables(visitor: &mut impl VerbVisitor) {
    visitor.visit::<tables::convert::Convert>();
    visitor.visit::<tables::info::Info>();
    visitor.visit::<tables::dedup::Dedup>();
    visitor.visit::<tables::group::GroupBy>();
    visitor.visit::<tables::window::Window>();
    visitor.visit::<tables::join::Join>();
    visitor.visit::<tables::diff::Diff>();
}
