//! GPU traces: the kernels that ran, with their grids, resources, start times and durations.
//!
//! Contract: a reader calls back for each kernel, in the order of the file. It holds only the
//! current line or event and the distinct names. Traces have millions of kernels of a few hundred
//! names, so a name is shared (`Arc<str>`), not copied. A value that a format does not record
//! (durations in MacSim's lists) is `None`, never invented. A damaged entry is skipped and counted,
//! or an error if the caller chooses so. Damaged JSON is always an error with line and column,
//! because nothing after it can be trusted.

mod nsys;
mod nvbit;
mod torch;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::skips::{OnError, Skips, Tally, excerpt};
use crate::source::{self, Bytes};

/// Longest line of a text format; kernel names can have many KiB.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// Distinct kernel names that are shared; further ones are copied.
const NAMES_MAX: usize = 1 << 20;

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The function's name in the profiler's spelling.
    pub name: Arc<str>,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Start time in nanoseconds of the trace's clock.
    pub start_ns: Option<u64>,
    /// Run time in nanoseconds.
    pub duration_ns: Option<u64>,
    /// The CUDA stream; 0 if the format has none.
    pub stream: u64,
    /// Registers per thread; 0 if the format has none.
    pub registers: u32,
    /// Shared memory per block, static and dynamic.
    pub shared_bytes: u64,
}

impl Kernel {
    /// Number of blocks of the launch.
    pub fn blocks(&self) -> u64 {
        self.grid
            .iter()
            .map(|n| u64::from(*n))
            .fold(1, u64::saturating_mul)
    }

    /// Threads per block.
    pub fn threads_per_block(&self) -> u64 {
        self.block
            .iter()
            .map(|n| u64::from(*n))
            .fold(1, u64::saturating_mul)
    }
}

/// A GPU-trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuFormat {
    /// PyTorch profiler (Kineto), JSON in Chrome's trace-event form.
    Torch,
    /// `nsys stats` as CSV: `cuda_gpu_trace` or `cuda_kern_exec_trace`.
    Nsys,
    /// MacSim's NVBit tracer: `kernel_names.txt`, or `kernel_config.txt` with `kernel_names.txt`
    /// next to it.
    Nvbit,
}

impl GpuFormat {
    /// Every format.
    pub const ALL: [GpuFormat; 3] = [GpuFormat::Torch, GpuFormat::Nsys, GpuFormat::Nvbit];

    /// Its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            GpuFormat::Torch => "torch",
            GpuFormat::Nsys => "nsys",
            GpuFormat::Nvbit => "nvbit",
        }
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            GpuFormat::Torch => "PyTorch profiler JSON",
            GpuFormat::Nsys => "nsys stats CSV",
            GpuFormat::Nvbit => "MacSim NVBit kernel list",
        }
    }
}

impl fmt::Display for GpuFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl FromStr for GpuFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        GpuFormat::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Error::usage(
                    "choose a GPU trace format",
                    format!("unknown format `{text}`"),
                )
                .hint("known are torch, nsys, nvbit")
            })
    }
}

/// Options for reading a GPU trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct GpuOptions {
    /// The format; if `None`, it is guessed from the content.
    pub format: Option<GpuFormat>,
    /// What to do with entries that cannot be read.
    pub on_error: OnError,
}

/// Results of a pass over a GPU trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReport {
    /// The format, given or detected.
    pub format: GpuFormat,
    /// Kernels passed to the callback.
    pub kernels: u64,
    /// Distinct kernel names.
    pub names: u64,
    /// Entries that could not be read.
    pub skipped: Skips,
    /// Valid entries that are no kernels: copies, CPU operators, headers.
    pub ignored: u64,
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} kernels of {} names, {} other entries, {}",
            self.format, self.kernels, self.names, self.ignored, self.skipped
        )
    }
}

/// The state that all readers share: counts, names and the callback.
pub(crate) struct Sink<'a> {
    pub(crate) tally: Tally,
    names: HashSet<Arc<str>>,
    kernels: u64,
    on_kernel: &'a mut dyn FnMut(Kernel) -> Result<()>,
}

impl Sink<'_> {
    /// `name` as a shared string.
    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        if self.names.len() < NAMES_MAX {
            self.names.insert(Arc::clone(&name));
        }
        name
    }

    pub(crate) fn kernel(&mut self, kernel: Kernel) -> Result<()> {
        self.kernels += 1;
        (self.on_kernel)(kernel)
    }
}

/// Reads the kernels of the file `path` and calls `on_kernel` for each. `-` is standard input; gzip
/// and Zstandard are decompressed. For MacSim, `path` may be the folder of the trace.
///
/// # Errors
/// The file cannot be read, its format is not recognised or its JSON is damaged. With
/// [`OnError::Fail`], also the first bad entry. An error of `on_kernel` stops the reading and is
/// returned.
pub fn read_kernels(
    path: impl AsRef<Path>,
    options: &GpuOptions,
    on_kernel: &mut dyn FnMut(Kernel) -> Result<()>,
) -> Result<GpuReport> {
    let path = path.as_ref();
    if let Some(list) = nvbit::list_in_folder(path) {
        return read_stream(source::open(&list)?, &list, options, on_kernel);
    }
    read_stream(source::open(path)?, path, options, on_kernel)
}

/// [`read_kernels`] from a stream. `path` appears in messages and serves to find MacSim's second
/// file.
///
/// # Errors
/// As [`read_kernels`].
pub fn read_kernels_from(
    stream: impl std::io::Read + Send + 'static,
    path: impl AsRef<Path>,
    options: &GpuOptions,
    on_kernel: &mut dyn FnMut(Kernel) -> Result<()>,
) -> Result<GpuReport> {
    let path = path.as_ref();
    read_stream(
        source::decompress(Box::new(stream), path)?,
        path,
        options,
        on_kernel,
    )
}

/// All kernels of `path` in memory.
///
/// # Errors
/// As [`read_kernels`].
pub fn load_kernels(
    path: impl AsRef<Path>,
    options: &GpuOptions,
) -> Result<(Vec<Kernel>, GpuReport)> {
    let mut kernels = Vec::new();
    let report = read_kernels(path, options, &mut |kernel| {
        kernels.push(kernel);
        Ok(())
    })?;
    Ok((kernels, report))
}

fn read_stream(
    bytes: Bytes,
    path: &Path,
    options: &GpuOptions,
    on_kernel: &mut dyn FnMut(Kernel) -> Result<()>,
) -> Result<GpuReport> {
    let (head, _, bytes) = source::peek(bytes, path)?;
    let format = match options.format {
        Some(format) => format,
        None => detect(&head).ok_or_else(|| unknown(&head, path))?,
    };
    let mut sink = Sink {
        tally: Tally::new(options.on_error),
        names: HashSet::new(),
        kernels: 0,
        on_kernel,
    };
    match format {
        GpuFormat::Torch => torch::read(bytes, path, &mut sink)?,
        GpuFormat::Nsys => nsys::read(bytes, path, &mut sink)?,
        GpuFormat::Nvbit => nvbit::read(bytes, &head, path, &mut sink)?,
    }
    Ok(GpuReport {
        format,
        kernels: sink.kernels,
        names: sink.names.len() as u64,
        skipped: sink.tally.skips,
        ignored: sink.tally.ignored,
    })
}

/// Guesses the format from the file's first bytes.
fn detect(head: &[u8]) -> Option<GpuFormat> {
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    if nvbit::looks_like(text) {
        return Some(GpuFormat::Nvbit);
    }
    if nsys::looks_like(text) {
        return Some(GpuFormat::Nsys);
    }
    matches!(text.first(), Some(b'{' | b'[')).then_some(GpuFormat::Torch)
}

fn unknown(head: &[u8], path: &Path) -> Error {
    if head.is_empty() {
        return Error::usage("read GPU trace", "the file is empty").path(path);
    }
    if nsys::is_other_report(head) {
        return Error::usage(
            "read GPU trace",
            "this nsys report has no single kernel launches",
        )
        .path(path)
        .hint("export them with `nsys stats -r cuda_gpu_trace -f csv REPORT.nsys-rep`");
    }
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Error::usage(
        "read GPU trace",
        format!(
            "the format cannot be identified; the first line is `{}`",
            excerpt(first)
        ),
    )
    .path(path)
    .hint("`--format` names it: torch, nsys, nvbit")
}

#[cfg(test)]
pub(crate) fn read_text(text: &str, on_error: OnError) -> Result<(Vec<Kernel>, GpuReport)> {
    let mut kernels = Vec::new();
    let options = GpuOptions {
        format: None,
        on_error,
    };
    let stream = std::io::Cursor::new(text.as_bytes().to_vec());
    let report = read_kernels_from(stream, "trace", &options, &mut |kernel| {
        kernels.push(kernel);
        Ok(())
    })?;
    Ok((kernels, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_fails_stops_the_reading_with_its_own_error() {
        let event = r#"{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,
            "args":{"grid":[1,1,1],"block":[1,1,1]}}"#;
        let json = format!("[{event},{event},{event}]");
        let csv = "Start (ns),Duration (ns),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Name\n\
            1,2,1,1,1,1,1,1,k\n1,2,1,1,1,1,1,1,k\n1,2,1,1,1,1,1,1,k\n";
        let list = "Kernel0 name: a\n Grid size: (1, 1, 1), Block size: (1, 1, 1)\n";
        for text in [json, csv.to_owned(), list.repeat(3)] {
            let mut seen = 0;
            let stream = std::io::Cursor::new(text.into_bytes());
            let error = read_kernels_from(stream, "t", &GpuOptions::default(), &mut |_| {
                seen += 1;
                if seen == 2 {
                    Err(Error::interrupted())
                } else {
                    Ok(())
                }
            })
            .unwrap_err();
            assert_eq!(error.kind(), outcore_io::Kind::Interrupted, "{error}");
            assert_eq!(seen, 2);
        }
    }

    #[test]
    fn what_is_no_gpu_trace_is_told_apart() {
        let error = read_text("", OnError::Skip).unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
        let error = read_text("1,5633898,2a,512,42932745\n", OnError::Skip).unwrap_err();
        assert!(error.next_step().unwrap().contains("torch"), "{error}");
        let sums = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n50,1,1,1,k\n";
        let error = read_text(sums, OnError::Skip).unwrap_err();
        assert!(
            error.next_step().unwrap().contains("cuda_gpu_trace"),
            "{error}"
        );
    }
}
