//! The verbs on vectors: `knn`, `kmeans`, and those below `vector`.
//!
//! Contract: thin over [`outcore_vector`]. Each verb settles its files, then works with a
//! [`run::Run`] on them.
//!
//! | file | holds |
//! |---|---|
//! | `run` | the run of a verb, and options that these verbs share |
//! | `files` | `vector convert`, `vector info`, `vector index` |
//! | `search` | the options and reports of searches |
//! | `knn` | `knn` |
//! | `range` | `knn --radius`, `vector pairs` |
//! | `kmeans` | `kmeans`, `vector label` |

mod files;
mod kmeans;
mod knn;
mod range;
mod run;
mod search;

use crate::verb::VerbVisitor;

/// Shows each of these verbs to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<files::VectorConvert>();
    visitor.visit::<files::VectorInfo>();
    visitor.visit::<files::VectorIndex>();
    visitor.visit::<kmeans::VectorLabel>();
    visitor.visit::<range::VectorPairs>();
    visitor.visit::<knn::Knn>();
    visitor.visit::<kmeans::Kmeans>();
}
