//! The verbs on graphs, below `graph`.
//!
//! Contract: thin over [`outcore_graph`]. With relabelled ids, vertices have their original ids.
//!
//! | file | holds |
//! |---|---|
//! | `files` | opened graphs, given vertices, and outputs |
//! | `convert` | `convert` |
//! | `info` | `info`, `verify`, `export` |
//! | `kernel` | an algorithm as a verb, and the largest of its values |
//! | `kernels` | the algorithms |
//! | `samples` | `sample`, `walk` |

mod convert;
mod files;
mod info;
mod kernel;
mod kernels;
mod samples;

use kernel::Algorithm;

use crate::verb::VerbVisitor;

/// Shows each of these verbs to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<convert::GraphConvert>();
    visitor.visit::<info::GraphInfo>();
    visitor.visit::<info::GraphExport>();
    visitor.visit::<info::GraphVerify>();
    visitor.visit::<Algorithm<kernels::Degrees>>();
    visitor.visit::<Algorithm<kernels::ConnectedComponents>>();
    visitor.visit::<Algorithm<kernels::StrongComponents>>();
    visitor.visit::<Algorithm<kernels::Search>>();
    visitor.visit::<Algorithm<kernels::ShortestPaths>>();
    visitor.visit::<Algorithm<kernels::PageRank>>();
    visitor.visit::<Algorithm<kernels::Hits>>();
    visitor.visit::<Algorithm<kernels::Closeness>>();
    visitor.visit::<Algorithm<kernels::LabelPropagation>>();
    visitor.visit::<Algorithm<kernels::Louvain>>();
    visitor.visit::<Algorithm<kernels::Triangles>>();
    visitor.visit::<Algorithm<kernels::Cores>>();
    visitor.visit::<samples::GraphSample>();
    visitor.visit::<samples::GraphWalk>();
}
