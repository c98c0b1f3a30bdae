//! The simulator: requests from Python, one run, replay or plan each, and its results.
//!
//! Contract: like the jobs, everything runs on a thread of its own with the interpreter released,
//! and stops within a millisecond of events on a signal ([`crate::run`]). Summaries are returned as
//! the JSON that the command prints. Requests are one block of rows of [`ROW_BYTES`] in the
//! machine's byte order, which the Python half passes to NumPy without another copy.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::record_cost;
use outcore_io::drive::paths;
use outcore_io::units;
use outcore_sim::array::block::{BlockOptions, Loop, load_list, parse_time_unit};
use outcore_sim::array::file::{FileOptions, replay_file};
use outcore_sim::config::{Compat, DriveConfig};
use outcore_sim::drive::{Done, Op};
use outcore_sim::mqsim::{import_drive, import_workload};
use outcore_sim::plan::cpu::{CpuCost, recorded};
use outcore_sim::plan::{SortJob, plan_sort};
use outcore_sim::plot::run_svg;
use outcore_sim::presets::{PRESETS, preset};
use outcore_sim::run::{RunOptions, Watch};
use outcore_sim::workload::{FlowConfig, Origin};
use outcore_sim::workload_file::WorkloadFile;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::run::Run;

/// Bytes of a request: three times in nanoseconds (f64), LBA (u64), sectors (u32), flow (u16),
/// operation (u8: read, write, trim), status (u8, in the order of [`Status`]).
const ROW_BYTES: usize = 40;

/// The drive.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Drive {
    preset: Option<String>,
    file: Option<PathBuf>,
    size: String,
    settings: Vec<String>,
    mqsim: bool,
}

/// The workload.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunRequest {
    drive: Drive,
    workload: Option<PathBuf>,
    /// Settings of every flow: key and value.
    flows: Vec<Vec<(String, String)>>,
    trace: Option<PathBuf>,
    format: Option<String>,
    time_unit: Option<String>,
    depth: Option<u32>,
    fit: String,
    keep: bool,
}

/// The trace to replay, and the number of drives.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReplayRequest {
    drive: Drive,
    trace: PathBuf,
    drives: Option<u32>,
    shared: Option<String>,
    stripe: Option<String>,
    fill: f64,
    fit: String,
    window: Option<f64>,
    cpu: f64,
    format: Option<String>,
    time_unit: Option<String>,
    speedup: f64,
    depth: Option<u32>,
    limit: u64,
}

/// The sort to plan.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlanRequest {
    drive: Drive,
    size: String,
    memory: String,
    record_bytes: u64,
    cores: u32,
    drives: u32,
    shared: Option<String>,
    memory_rate: Option<String>,
    cpu_from: Option<PathBuf>,
    distribute_ns: Option<f64>,
    sort_ns: Option<f64>,
}

/// A finished run.
#[pyclass(frozen, module = "outcore._outcore")]
pub(crate) struct SimRun {
    drive: String,
    names: Vec<String>,
    summary: String,
    log: Vec<Done>,
}

#[pymethods]
impl SimRun {
    /// The summary as JSON.
    #[getter]
    fn summary(&self) -> &str {
        &self.summary
    }

    /// The number of requests that were kept.
    #[getter]
    fn request_count(&self) -> usize {
        self.log.len()
    }

    /// The completed requests as rows.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.log.len() * ROW_BYTES;
        PyBytes::new_with(py, bytes, |block| {
            for (row, done) in block.chunks_exact_mut(ROW_BYTES).zip(&self.log) {
                pack(row, done);
            }
            Ok(())
        })
    }

    /// A chart as SVG: `latency` or `iops`.
    fn svg(&self, py: Python<'_>, view: &str) -> PyResult<String> {
        let draw = || run_svg(&self.drive, &self.names, &self.log, view.parse()?);
        py.detach(draw).map_err(|error| errors::raise(py, &error))
    }
}

fn pack(row: &mut [u8], done: &Done) {
    let times = [done.arrival, done.enqueued, done.completed];
    for (place, ps) in row.chunks_exact_mut(8).zip(times) {
        place.copy_from_slice(&(ps as f64 / 1e3).to_ne_bytes());
    }
    row[24..32].copy_from_slice(&done.lba.to_ne_bytes());
    row[32..36].copy_from_slice(&done.sectors.to_ne_bytes());
    row[36..38].copy_from_slice(&done.queue.to_ne_bytes());
    row[38] = match done.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Trim => 2,
    };
    row[39] = done.status as u8;
}

impl Drive {
    fn compat(&self) -> Compat {
        match self.mqsim {
            true => Compat::Mqsim,
            false => Compat::None,
        }
    }

    fn config(&self, warnings: &mut Vec<String>) -> Result<DriveConfig> {
        let config = match (&self.file, &self.preset) {
            (Some(path), _) if is_toml(path) => {
                let text = paths::read_text("read drive configuration", path)?;
                DriveConfig::from_toml(&text).map_err(|error| error.path(path))?
            }
            (Some(path), _) => import_drive(path, self.compat(), warnings)?,
            (None, name) => {
                preset(name.as_deref().unwrap_or_default())?.of_size(size(&self.size)?)?
            }
        };
        config.set_all(&self.settings)
    }
}

fn is_toml(path: &std::path::Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

fn size(text: &str) -> Result<u64> {
    units::parse_bytes(text)
}

fn shared(text: Option<&String>) -> Result<u64> {
    text.map_or(Ok(0), |text| units::parse_rate(text))
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::usage("write JSON", error.to_string()))
}

fn watched(control: &Arc<Control>) -> Watch {
    let control = Arc::clone(control);
    Watch::new(move || control.check())
}

fn block_options(
    format: Option<&String>,
    time_unit: Option<&String>,
    depth: Option<u32>,
    speedup: f64,
    requests_max: u64,
) -> Result<BlockOptions> {
    Ok(BlockOptions {
        format: format.map(|name| name.parse()).transpose()?,
        time_unit_ns: time_unit.map(|unit| parse_time_unit(unit)).transpose()?,
        pace: match depth {
            Some(depth) => Loop::Closed { depth },
            None => Loop::Open { speedup },
        },
        requests_max,
    })
}

impl RunRequest {
    fn flows(&self, warnings: &mut Vec<String>) -> Result<Vec<FlowConfig>> {
        if let Some(path) = &self.trace {
            let (format, unit) = (self.format.as_ref(), self.time_unit.as_ref());
            let options = block_options(format, unit, self.depth, 1.0, 0)?;
            let (list, more) = load_list(path, &options)?;
            warnings.extend(more);
            let mut flows = WorkloadFile::one().flows()?;
            for flow in &mut flows {
                flow.name = "trace".to_owned();
                flow.origin = Origin::List(list.clone());
            }
            return Ok(flows);
        }
        let Some(path) = &self.workload else {
            return self.given_flows();
        };
        if is_toml(path) {
            let text = paths::read_text("read workload", path)?;
            let file = WorkloadFile::from_toml(&text).map_err(|error| error.path(path))?;
            return file.flows();
        }
        let mut scenarios = import_workload(path, self.drive.compat(), warnings)?;
        let first = scenarios.swap_remove(0);
        if !scenarios.is_empty() {
            warnings.push(format!(
                "the file has {} scenarios; only the first is run",
                scenarios.len() + 1
            ));
        }
        Ok(first)
    }

    fn given_flows(&self) -> Result<Vec<FlowConfig>> {
        let mut file = WorkloadFile::one();
        let plain = file.flow.swap_remove(0);
        for at in 0..self.flows.len().max(1) {
            let mut flow = plain.clone();
            if self.flows.len() > 1 {
                flow.name = format!("flow {at}");
            }
            file.flow.push(flow);
        }
        for (at, settings) in self.flows.iter().enumerate() {
            for (key, value) in settings {
                file = file.set(&format!("{at}.{key}"), value)?;
            }
        }
        file.flows()
    }
}

/// Simulates one drive.
pub(crate) fn run(request: RunRequest, run: &Run) -> Result<SimRun> {
    let mut warnings = Vec::new();
    let config = request.drive.config(&mut warnings)?;
    let flows = request.flows(&mut warnings)?;
    let options = RunOptions {
        keep_log: request.keep,
        fit: request.fit.parse()?,
        warnings,
        watch: watched(&run.control),
        ..RunOptions::default()
    };
    let outcome = outcore_sim::run::run(&config, &flows, &options)?;
    Ok(SimRun {
        drive: config.name,
        names: flows.into_iter().map(|flow| flow.name).collect(),
        summary: json(&outcome.summary)?,
        log: outcome.log,
    })
}

/// Replays a trace on an array; the report as JSON.
pub(crate) fn replay(request: &ReplayRequest, run: &Run) -> Result<String> {
    let mut warnings = Vec::new();
    let drive = request.drive.config(&mut warnings)?;
    let options = FileOptions {
        drives: request.drives,
        shared_bytes_per_s: shared(request.shared.as_ref())?,
        stripe: request
            .stripe
            .as_deref()
            .map(str::parse)
            .transpose()?
            .unwrap_or_default(),
        fill: request.fill,
        fit: request.fit.parse()?,
        window_scale: request.window,
        cpu_scale: request.cpu,
        block: block_options(
            request.format.as_ref(),
            request.time_unit.as_ref(),
            request.depth,
            request.speedup,
            request.limit,
        )?,
        watch: watched(&run.control),
    };
    let mut report = replay_file(&request.trace, drive, &options)?;
    report.warnings.splice(0..0, warnings);
    json(&report)
}

/// The requested costs, else those of the trace, else those that are measured here.
fn cpu_cost(request: &PlanRequest, run: &Run) -> Result<CpuCost> {
    if let (Some(distribute_ns), Some(sort_ns)) = (request.distribute_ns, request.sort_ns) {
        return Ok(CpuCost {
            distribute_ns,
            sort_ns,
        });
    }
    let found = match &request.cpu_from {
        Some(trace) => recorded(trace, request.record_bytes)?,
        None => {
            let go_on = || run.control.check();
            let here = record_cost::measure(request.record_bytes, &go_on)?;
            CpuCost {
                distribute_ns: here.distribute_ns,
                sort_ns: here.sort_ns,
            }
        }
    };
    Ok(CpuCost {
        distribute_ns: request.distribute_ns.unwrap_or(found.distribute_ns),
        sort_ns: request.sort_ns.unwrap_or(found.sort_ns),
    })
}

/// Predicts a sort; the plan as JSON.
pub(crate) fn plan(request: &PlanRequest, run: &Run) -> Result<String> {
    let job = SortJob {
        size_bytes: size(&request.size)?,
        record_bytes: request.record_bytes,
        memory_bytes: size(&request.memory)?,
        cores: request.cores,
        cpu: cpu_cost(request, run)?,
        memory_bytes_per_s: shared(request.memory_rate.as_ref())?,
    };
    let drive = request.drive.config(&mut Vec::new())?;
    json(&plan_sort(
        &job,
        &drive,
        request.drives,
        shared(request.shared.as_ref())?,
    )?)
}

/// The drives that are known by name, as JSON: name, product, values, and a file to start from.
pub(crate) fn presets() -> Result<String> {
    let all: Result<Vec<serde_json::Value>> = PRESETS
        .iter()
        .map(|preset| {
            Ok(serde_json::json!({
                "name": preset.name,
                "product": preset.product,
                "values": preset.values()?,
                "toml": preset.text()?,
            }))
        })
        .collect();
    json(&all?)
}
