//! The native half of the Python package `outcore`: the module `outcore._outcore`.
//!
//! Contract: one function per job. Each takes a dictionary that the Python half has checked, and
//! releases the interpreter ([`run`]). Failures become the exceptions of `outcore._errors`
//! ([`errors`]). The rules about requests are those of the command ([`outcore_front`]). The only
//! state is the cached function that makes exceptions; unsafe code is confined to [`capsule`].
//!
//! - [`functions`]: the functions, as Python calls them; those on lazy datasets are in [`dataset`]
//! - [`command`]: the commands `outcore` and `outcore-lab`
//! - [`verb`]: verbs of `outcore-verbs`
//! - [`jobs`]: sort, plan, shuffle, generate
//! - [`order`]: records in the order of a shuffle
//! - [`graph`]: names and edges of graphs
//! - [`sim`]: the simulator
//! - [`dataset`]: lazy datasets: steps, reductions, writes, batches
//! - [`volume`]: datasets on volumes, in memory
//! - [`datasets`]: `@name` where a function takes a file
//! - [`run`]: a job on its thread: signals, progress, cancellation
//! - [`view`]: sorted views
//! - [`sampler`]: neighbours drawn from graphs
//! - [`table`], [`capsule`]: tables, and the streams of other libraries
//! - [`errors`]: failures as exceptions
//! - [`fork`](mod@fork): what a forked child must not touch

mod capsule;
mod command;
mod dataset;
mod datasets;
mod errors;
mod fork;
mod functions;
mod graph;
mod jobs;
mod order;
mod request;
mod run;
mod sampler;
mod sim;
mod table;
mod verb;
mod view;
mod volume;

use pyo3::prelude::*;

#[pymodule]
mod _outcore {
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::dataset::batches::{Batches, batches};
    #[pymodule_export]
    use crate::dataset::consume::{
        check_lines, count_lines, find, fold_batches, gather, head_lines, histogram, partition,
        reduce, sample_lines, search_sorted, split_lines, top, write,
    };
    #[pymodule_export]
    use crate::dataset::watched::{describe, explain};
    #[pymodule_export]
    use crate::functions::graph::{graph_edges, graph_ids, graph_names, graph_vertices};
    #[pymodule_export]
    use crate::functions::jobs::{
        memory_bytes, sim_plan, sim_presets, sim_replay, sim_run, unknown_variables, what,
    };
    #[pymodule_export]
    use crate::functions::table::{sorted_lines, table_spool, table_stream};
    #[pymodule_export]
    use crate::functions::volume::{volume_bench, volume_read, volume_write};
    #[pymodule_export]
    use crate::order::Order;
    #[pymodule_export]
    use crate::sampler::GraphSampler;
    #[pymodule_export]
    use crate::sim::SimRun;
    #[pymodule_export]
    use crate::verb::run_verb;
    #[pymodule_export]
    use crate::view::View;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
