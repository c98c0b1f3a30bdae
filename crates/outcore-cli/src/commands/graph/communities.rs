//! `outcore graph lp` and `louvain`: communities of vertices.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_graph::kernels::{self, LouvainOptions};
use outcore_graph::results::Values;
use outcore_io::units;
use serde_json::json;

use super::{Found, run_kernel};
use crate::cli::graph::KernelArgs;
use crate::context::Context;

pub(super) fn propagate(context: &Context, kernel: &KernelArgs, rounds_max: u32) -> Result<u8> {
    run_kernel(context, kernel, "label propagation", |job, graph, _| {
        let found = kernels::label_propagation(job, graph, rounds_max)?;
        let told = format!(
            "{} in {}{}",
            counted(found.count),
            units::counted(found.rounds.into(), "round"),
            match found.is_stable {
                true => "",
                false => ", after which labels still change: allow more with --rounds",
            }
        );
        Ok(Found {
            values: Values::Numbers(found.labels),
            facts: vec![
                ("communities", json!(found.count)),
                ("rounds", json!(found.rounds)),
                ("stable", json!(found.is_stable)),
            ],
            told: Some(told),
        })
    })
}

pub(super) fn louvain(
    context: &Context,
    kernel: &KernelArgs,
    options: LouvainOptions,
) -> Result<u8> {
    run_kernel(context, kernel, "communities", |job, graph, _| {
        let found = kernels::louvain(job, graph, options)?;
        let told = format!(
            "{} of modularity {:.6} in {}",
            counted(found.count),
            found.modularity,
            units::counted(found.levels.into(), "level"),
        );
        Ok(Found {
            values: Values::Numbers(found.labels),
            facts: vec![
                ("communities", json!(found.count)),
                ("modularity", json!(found.modularity)),
                ("levels", json!(found.levels)),
            ],
            told: Some(told),
        })
    })
}

fn counted(count: u64) -> String {
    match count {
        1 => "1 community".to_owned(),
        _ => format!("{} communities", units::count(count)),
    }
}
