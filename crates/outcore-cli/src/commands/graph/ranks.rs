//! `outcore graph pagerank` and `hits`: how much vertices matter.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_graph::kernels::{self, HitsOptions, PageRankOptions};
use outcore_graph::results::Values;
use serde_json::json;

use super::{Found, run_kernel, vertex_of};
use crate::cli::graph::KernelArgs;
use crate::context::Context;

/// PageRank, of jumps to all vertices or to those in `source`.
pub(super) fn pagerank(
    context: &Context,
    kernel: &KernelArgs,
    options: PageRankOptions,
    source: &[u64],
) -> Result<u8> {
    run_kernel(context, kernel, "PageRank", |job, graph, names| {
        if source.is_empty() {
            return Ok(Values::Floats(kernels::pagerank(job, graph, options)?.0));
        }
        let targets = source
            .iter()
            .map(|name| Ok((vertex_of(*name, graph, names)?, 1.0)));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let ranks = kernels::personalized_pagerank(job, graph, options, &targets)?;
        Ok(Values::Floats(ranks.0))
    })
}

pub(super) fn hits(
    context: &Context,
    kernel: &KernelArgs,
    options: HitsOptions,
    is_of_authorities: bool,
) -> Result<u8> {
    run_kernel(context, kernel, "HITS", |job, graph, _| {
        let found = kernels::hits(job, graph, options)?;
        Ok(Found {
            values: Values::Floats(match is_of_authorities {
                true => found.authorities,
                false => found.hubs,
            }),
            facts: vec![("iterations", json!(found.iterations))],
            told: None,
        })
    })
}
