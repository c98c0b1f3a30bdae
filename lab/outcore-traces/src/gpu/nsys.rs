//! `nsys stats` as CSV: the reports `cuda_gpu_trace` (formerly `gputrace`) and
//! `cuda_kern_exec_trace`, which list single launches.
//!
//! Contract: columns are found by name and their unit is read from the header, because both changed
//! between versions. Banners before the header, further reports after it and rows of copies are
//! skipped. If a file has both reports, only the first is used; otherwise every kernel would count
//! twice. Names may be quoted or not. An unquoted name keeps its commas, because it is the last
//! column.

use std::path::Path;

use outcore_io::{Error, Result};

use crate::gpu::{GpuFormat, Kernel, LINE_BYTES_MAX, Sink};
use crate::lines::{Line, Lines, parse_time, parse_u32, parse_u64};
use crate::skips::{FormatPart, Reason};
use crate::source::{self, Bytes};

/// The positions of a report's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    count: usize,
    start: Option<(usize, u64)>,
    duration: Option<(usize, u64)>,
    grid: Dimensions,
    block: Dimensions,
    registers: Option<usize>,
    static_shared: Option<(usize, u64)>,
    dynamic_shared: Option<(usize, u64)>,
    stream: Option<usize>,
    name: usize,
    is_trace: bool,
}

/// Three columns, or one column with three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimensions {
    Three([usize; 3]),
    One(usize),
}

impl Columns {
    /// The columns of a header line; `None` if the line is not the header of a report of launches.
    fn find(line: &str) -> Option<Columns> {
        let fields = fields(line);
        let at = |name: &str| fields.iter().position(|field| field.trim() == name);
        let with_unit = |name: &str| {
            fields.iter().enumerate().find_map(|(index, field)| {
                let unit = field.trim().strip_prefix(name)?.trim_start();
                Some((index, unit.strip_prefix('(')?.strip_suffix(')')?.to_owned()))
            })
        };
        let time =
            |name: &str| with_unit(name).and_then(|(at, unit)| Some((at, time_unit_ns(&unit)?)));
        let size =
            |name: &str| with_unit(name).and_then(|(at, unit)| Some((at, size_unit(&unit)?)));
        let three = |names: [&str; 3]| {
            Some(Dimensions::Three([
                at(names[0])?,
                at(names[1])?,
                at(names[2])?,
            ]))
        };
        if let Some(grid) = three(["GrdX", "GrdY", "GrdZ"]) {
            return Some(Columns {
                count: fields.len(),
                start: Some(time("Start")?),
                duration: Some(time("Duration")?),
                grid,
                block: three(["BlkX", "BlkY", "BlkZ"])?,
                registers: at("Reg/Trd"),
                static_shared: size("StcSMem"),
                dynamic_shared: size("DymSMem"),
                stream: at("Strm"),
                name: at("Name")?,
                is_trace: true,
            });
        }
        Some(Columns {
            count: fields.len(),
            start: Some(time("Kernel Start")?),
            duration: Some(time("Kernel Dur")?),
            grid: Dimensions::One(at("GridXYZ")?),
            block: Dimensions::One(at("BlockXYZ")?),
            registers: None,
            static_shared: None,
            dynamic_shared: None,
            stream: None,
            name: at("Kernel Name")?,
            is_trace: false,
        })
    }

    /// Parses a row: a kernel, nothing (a copy), or a reason.
    fn kernel(
        &self,
        line: &str,
        sink: &mut Sink<'_>,
    ) -> std::result::Result<Option<Kernel>, Reason> {
        let fields = fields(line);
        if fields.len() < self.count {
            return Err(Reason::Fields);
        }
        let joined;
        let name = if self.name + 1 == self.count && fields.len() > self.count {
            joined = fields[self.name..].join(",");
            joined.as_str()
        } else if fields.len() > self.count {
            return Err(Reason::Fields);
        } else {
            &fields[self.name]
        };
        let field = |index: usize| fields[index].trim();
        let Some(grid) = self.grid.read(&fields)? else {
            return Ok(None);
        };
        let block = self.block.read(&fields)?.ok_or(Reason::Missing)?;
        let time = |column: Option<(usize, u64)>| {
            let (index, unit_ns) = column.ok_or(Reason::Missing)?;
            parse_time(field(index).as_bytes(), unit_ns).ok_or(Reason::Time)
        };
        let size = |column: Option<(usize, u64)>| match column {
            None => Ok(0),
            Some((index, _)) if field(index).is_empty() => Ok(0),
            // A decimal number of units is parsed exactly, like a time.
            Some((index, unit)) => parse_time(field(index).as_bytes(), unit).ok_or(Reason::Number),
        };
        let shared_bytes = size(self.static_shared)?.checked_add(size(self.dynamic_shared)?);
        let registers = match self.registers.map(field) {
            None | Some("") => 0,
            Some(text) => parse_u32(text.as_bytes()).ok_or(Reason::Number)?,
        };
        let stream = match self.stream.map(field) {
            None | Some("") => 0,
            Some(text) => parse_u64(text.as_bytes()).ok_or(Reason::Number)?,
        };
        Ok(Some(Kernel {
            grid,
            block,
            start_ns: Some(time(self.start)?),
            duration_ns: Some(time(self.duration)?),
            stream,
            registers,
            shared_bytes: shared_bytes.ok_or(Reason::Range)?,
            name: sink.name(name),
        }))
    }
}

impl Dimensions {
    /// The three numbers; `None` if the row has none because it is a copy.
    fn read(self, fields: &[String]) -> std::result::Result<Option<[u32; 3]>, Reason> {
        let number = |text: &str| parse_u32(text.trim().as_bytes()).ok_or(Reason::Number);
        match self {
            Dimensions::Three(columns) => {
                let [x, y, z] = columns.map(|column| fields[column].trim());
                if x.is_empty() && y.is_empty() && z.is_empty() {
                    return Ok(None);
                }
                Ok(Some([number(x)?, number(y)?, number(z)?]))
            }
            Dimensions::One(column) => {
                let mut words = fields[column].split_whitespace();
                let Some(x) = words.next() else {
                    return Ok(None);
                };
                let mut next = || number(words.next().ok_or(Reason::Fields)?);
                Ok(Some([number(x)?, next()?, next()?]))
            }
        }
    }
}

/// Nanoseconds per unit of time in nsys's spelling.
fn time_unit_ns(unit: &str) -> Option<u64> {
    match unit {
        "ns" | "nsec" => Some(1),
        "us" | "usec" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" | "msec" => Some(1_000_000),
        "s" | "sec" => Some(1_000_000_000),
        _ => None,
    }
}

/// Bytes per unit of size in nsys's spelling; MB is 10^6.
fn size_unit(unit: &str) -> Option<u64> {
    match unit {
        "B" | "b" | "byte" | "bytes" => Some(1),
        "KB" | "kB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    }
}

/// Cuts a CSV line into fields; quotes may enclose commas and doubled quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' if is_quoted => is_quoted = false,
            // A quote inside an unquoted field (a name that contains a string) is an ordinary
            // character.
            '"' if field.trim().is_empty() => is_quoted = true,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// Whether one of the first lines is the header of a report of launches.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n')
        .take(200)
        .any(|line| Columns::find(String::from_utf8_lossy(line).trim_end()).is_some())
}

/// Whether this is a report of sums, which has no single launches.
pub(crate) fn is_other_report(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(200).any(|line| {
        let line = String::from_utf8_lossy(line);
        line.contains("Total Time (") && line.contains("Name")
    })
}

/// Reads the kernels of `bytes`.
pub(crate) fn read(bytes: Bytes, path: &Path, sink: &mut Sink<'_>) -> Result<()> {
    let mut lines = Lines::new(bytes, LINE_BYTES_MAX);
    let mut columns: Option<Columns> = None;
    // True when the report of the trace is used; set by the first report in the file.
    let mut is_trace: Option<bool> = None;
    loop {
        let (number, start) = (lines.number() + 1, lines.bytes());
        let line = lines
            .next()
            .map_err(|error| source::read_error(&error, path, start))?;
        let (line, is_too_long) = match line {
            None => break,
            Some(Line::Text(line)) => (line, false),
            Some(Line::TooLong(line)) => (line, true),
        };
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() {
            // A blank line ends a report.
            columns = None;
            continue;
        }
        if let Some(found) = Columns::find(&text) {
            let is_used = *is_trace.get_or_insert(found.is_trace) == found.is_trace;
            columns = is_used.then_some(found);
            continue;
        }
        let Some(columns) = &columns else {
            sink.tally.ignored += 1;
            continue;
        };
        let parsed = if is_too_long {
            Err(Reason::LineTooLong)
        } else {
            columns.kernel(&text, sink)
        };
        match parsed {
            Ok(Some(kernel)) => sink.kernel(kernel)?,
            Ok(None) => sink.tally.ignored += 1,
            Err(reason) => {
                let what = FormatPart {
                    part: "line",
                    format: GpuFormat::Nsys.title(),
                };
                sink.tally.bad(reason, path, number, start, line, what)?;
            }
        }
    }
    if is_trace.is_none() {
        return Err(Error::usage(
            "read nsys report",
            "no header with kernel launches was found",
        )
        .path(path)
        .hint("export them with `nsys stats -r cuda_gpu_trace -f csv REPORT.nsys-rep`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::read_text;
    use crate::skips::OnError;

    const TRACE: &str = "Generating SQLite file...\nProcessing [x.sqlite] with [cuda_gpu_trace.py]...\n\n \
        ** CUDA GPU Trace (cuda_gpu_trace):\n\n\
        Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),\
        DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n\
        1000,50240,101,,,,,,,,,,8.389,167.0,Pageable,Device,Some GPU (0),1,,7,[CUDA memcpy HtoD]\n\
        60000,443520,102,64,32,1,256,1,1,64,0.001,0.049152,,,,,Some GPU (0),1,,7,\"gemm<float>(float *, int)\"\n\
        70000,512,103,1,1,1,32,1,1,16,,,,,,,Some GPU (0),1,,13,\"say(\"\"hi\"\")\"\n\
        80000,x,103,1,1,1,32,1,1,16,,,,,,,Some GPU (0),1,,13,k\n\
        80000,1\n";

    #[test]
    fn gpu_trace_rows_become_kernels_and_copies_are_passed_over() {
        let (kernels, report) = read_text(TRACE, OnError::Skip).unwrap();
        assert_eq!(report.format, GpuFormat::Nsys);
        assert_eq!((report.kernels, report.skipped.total()), (2, 2));
        let kernel = &kernels[0];
        assert_eq!(&*kernel.name, "gemm<float>(float *, int)");
        assert_eq!((kernel.grid, kernel.block), ([64, 32, 1], [256, 1, 1]));
        assert_eq!(
            (kernel.start_ns, kernel.duration_ns),
            (Some(60_000), Some(443_520))
        );
        assert_eq!((kernel.registers, kernel.stream), (64, 7));
        assert_eq!(kernel.shared_bytes, 1_000 + 49_152);
        assert_eq!(&*kernels[1].name, "say(\"hi\")");
        let error = read_text(TRACE, OnError::Fail).unwrap_err().to_string();
        assert!(error.contains("line 10"), "{error}");
    }

    #[test]
    fn units_and_columns_are_taken_from_the_header() {
        let text = "Duration (us),Start (ms),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,StcSMem (KiB),Name\n\
            2.5,1.000001,1,2,3,4,5,6,1.5,void moe::kernel<A, B>(float*, int)\n";
        let (kernels, _) = read_text(text, OnError::Fail).unwrap();
        let kernel = &kernels[0];
        assert_eq!(
            (kernel.start_ns, kernel.duration_ns),
            (Some(1_000_001), Some(2_500))
        );
        assert_eq!((kernel.grid, kernel.block), ([1, 2, 3], [4, 5, 6]));
        assert_eq!((kernel.shared_bytes, kernel.stream), (1_536, 0));
        assert_eq!(&*kernel.name, "void moe::kernel<A, B>(float*, int)");
    }

    #[test]
    fn launch_reports_are_read_and_a_second_report_of_the_same_kernels_is_not() {
        let text = "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),\
            Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n\
            1,2,,,43769847,75200,9,1,1,0,cuLaunchKernelEx, 148    1    1, 256    1    1,k<a>\n\
            1,2,,,43769848,75201,9,1,1,0,cuLaunchKernelEx,\"2 1 1\",\"512 1 1\",k2\n\
            1,2,,,43769848,75201,9,1,1,0,cuLaunchKernelEx,2 1,512 1 1,k2\n\n";
        let (kernels, report) = read_text(&format!("{text}{TRACE}"), OnError::Skip).unwrap();
        assert_eq!(
            (report.kernels, report.skipped.count(Reason::Fields)),
            (2, 1)
        );
        assert_eq!(
            (kernels[0].grid, kernels[0].block),
            ([148, 1, 1], [256, 1, 1])
        );
        assert_eq!(kernels[1].duration_ns, Some(75_201));
    }
}
