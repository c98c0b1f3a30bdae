//! MacSim's NVBit tracer: the lists of kernels that it writes next to its instruction traces.
//!
//! Contract: `kernel_names.txt` has two lines per launch: `KernelN name: NAME`, then grid, block,
//! occupancy, registers and shared memory as `key: value` pairs. `kernel_config.txt` begins with
//! `nvbit`, a version (14) and -1. Each further line `./KernelN/trace.txt` is a launch that was
//! traced; these are a sample of all launches. If the caller names `kernel_config.txt`, both files
//! are read in step. The numbers in both files ascend, so the reader keeps no launches in memory.
//! Neither has times. Source: the trace generation tool of MacSim (gthparch/macsim) and its reader
//! in `src/process_manager.cc`.

use std::path::{Path, PathBuf};

use outcore_io::{Error, Result};

use crate::gpu::{GpuFormat, Kernel, LINE_BYTES_MAX, Sink};
use crate::lines::{Line, Lines, parse_u32, parse_u64};
use crate::skips::{FormatPart, Reason};
use crate::source::{self, Bytes};

const NAMES_FILE: &str = "kernel_names.txt";
const CONFIG_FILE: &str = "kernel_config.txt";

/// The list to read if `path` is the folder of a trace.
pub(crate) fn list_in_folder(path: &Path) -> Option<PathBuf> {
    [CONFIG_FILE, NAMES_FILE]
        .into_iter()
        .map(|name| path.join(name))
        .find(|list| list.is_file())
}

/// Whether `head` begins like one of the two lists.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    is_config(head) || name_line(head.split(|byte| *byte == b'\n').next().unwrap_or(head)).is_some()
}

fn is_config(head: &[u8]) -> bool {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    matches!(first.trim_ascii(), b"nvbit" | b"newptx" | b"ptx")
}

/// Reads the kernels of `bytes`, which begin with `head`.
pub(crate) fn read(bytes: Bytes, head: &[u8], path: &Path, sink: &mut Sink<'_>) -> Result<()> {
    if !is_config(head) {
        return read_names(&mut Names::new(bytes, path), sink);
    }
    let names_path = path.with_file_name(NAMES_FILE);
    if !names_path.is_file() {
        return Err(Error::usage(
            "read MacSim trace",
            "kernel_config.txt only names the kernels that were traced",
        )
        .path(&names_path)
        .hint("put the kernel_names.txt of the same run next to it: it has grids and blocks"));
    }
    let mut names = Names::new(source::open(&names_path)?, &names_path);
    read_config(Lines::new(bytes, LINE_BYTES_MAX), path, &mut names, sink)
}

/// Every kernel of `kernel_names.txt`.
fn read_names(names: &mut Names, sink: &mut Sink<'_>) -> Result<()> {
    while let Some((_, kernel)) = names.next(sink)? {
        sink.kernel(kernel)?;
    }
    Ok(())
}

/// The kernels in `kernel_config.txt`, in its order.
fn read_config(
    mut lines: Lines<Bytes>,
    path: &Path,
    names: &mut Names,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let mut last: Option<u64> = None;
    loop {
        let (number, start) = (lines.number() + 1, lines.bytes());
        let line = lines
            .next()
            .map_err(|error| source::read_error(&error, path, start))?;
        let line = match line {
            None => return Ok(()),
            Some(Line::Text(line) | Line::TooLong(line)) => line,
        };
        // Type, version and -1 come first; blank lines may follow.
        if number <= 3 || line.trim_ascii().is_empty() {
            sink.tally.ignored += 1;
            continue;
        }
        let wanted = match config_line(line) {
            // The second file is read only once, so the numbers must rise.
            Some(id) if last.is_none_or(|last| id > last) => Ok(id),
            Some(_) => Err(Reason::Order),
            None => Err(Reason::Fields),
        };
        let found = match wanted {
            Ok(id) => {
                last = Some(id);
                names.find(id, sink)?.ok_or(Reason::Missing)
            }
            Err(reason) => Err(reason),
        };
        match found {
            Ok(kernel) => sink.kernel(kernel)?,
            Err(reason) => {
                let what = FormatPart {
                    part: "line",
                    format: GpuFormat::Nvbit.title(),
                };
                sink.tally.bad(reason, path, number, start, line, what)?;
            }
        }
    }
}

/// The number in `./Kernel17/trace.txt`, with any folders before it.
fn config_line(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let folder = text.rsplit('/').nth(1)?;
    parse_u64(folder.strip_prefix("Kernel")?.as_bytes())
}

/// Number and name in `Kernel17 name: NAME`.
fn name_line(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"Kernel")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let id = parse_u64(&rest[..digits])?;
    Some((id, rest[digits..].strip_prefix(b" name:")?.trim_ascii()))
}

/// Reads `kernel_names.txt` launch by launch.
struct Names {
    lines: Lines<Bytes>,
    path: PathBuf,
    /// The name line that was read in search of the previous launch's second line.
    pending: Option<(u64, Vec<u8>)>,
    /// The launch that `find` read last and that was not wanted yet.
    ahead: Option<(u64, Kernel)>,
}

impl Names {
    fn new(bytes: Bytes, path: &Path) -> Self {
        Names {
            lines: Lines::new(bytes, LINE_BYTES_MAX),
            path: path.to_path_buf(),
            pending: None,
            ahead: None,
        }
    }

    /// Reads forward to the launch `id`; `None` if the file has no such number.
    fn find(&mut self, id: u64, sink: &mut Sink<'_>) -> Result<Option<Kernel>> {
        loop {
            let next = match self.ahead.take() {
                Some(ahead) => Some(ahead),
                None => self.next(sink)?,
            };
            match next {
                None => return Ok(None),
                Some((found, kernel)) if found == id => return Ok(Some(kernel)),
                Some((found, kernel)) if found > id => {
                    self.ahead = Some((found, kernel));
                    return Ok(None);
                }
                Some(_) => {}
            }
        }
    }

    /// The next launch.
    fn next(&mut self, sink: &mut Sink<'_>) -> Result<Option<(u64, Kernel)>> {
        loop {
            let (number, start) = (self.lines.number() + 1, self.lines.bytes());
            let line = self.lines.next();
            let line = line.map_err(|error| source::read_error(&error, &self.path, start))?;
            let (line, is_too_long) = match line {
                // A name without its second line at the end of the file is incomplete.
                None => match self.pending.take() {
                    None => return Ok(None),
                    Some((_, name)) => (name, Some(Reason::Truncated)),
                },
                Some(Line::Text(line)) => (line.to_vec(), None),
                Some(Line::TooLong(line)) => (line.to_vec(), Some(Reason::LineTooLong)),
            };
            let reason = match (is_too_long, name_line(&line), self.pending.take()) {
                (Some(reason), _, _) => reason,
                // Two names in a row: the second line of the first one is missing.
                (None, Some((id, name)), before) => {
                    self.pending = Some((id, name.to_vec()));
                    match before {
                        None => continue,
                        Some(_) => Reason::Missing,
                    }
                }
                (None, None, None) if line.trim_ascii().is_empty() => continue,
                (None, None, None) => Reason::Order,
                (None, None, Some((id, name))) => match details(&line) {
                    Ok(mut kernel) => {
                        kernel.name = sink.name(&String::from_utf8_lossy(&name));
                        return Ok(Some((id, kernel)));
                    }
                    Err(reason) => reason,
                },
            };
            let what = FormatPart {
                part: "line",
                format: GpuFormat::Nvbit.title(),
            };
            sink.tally
                .bad(reason, &self.path, number, start, &line, what)?;
        }
    }
}

/// The second line of a launch, without the name.
fn details(line: &[u8]) -> std::result::Result<Kernel, Reason> {
    let text = std::str::from_utf8(line).map_err(|_| Reason::Fields)?;
    let after = |key: &str| text.split_once(key).map(|(_, rest)| rest.trim_start());
    let three = |key: &str| {
        let rest = after(key).ok_or(Reason::Missing)?;
        let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (inside, _) = inside.ok_or(Reason::Fields)?;
        let mut numbers = inside
            .split(',')
            .map(|text| parse_u32(text.trim().as_bytes()));
        let mut next = || numbers.next().ok_or(Reason::Fields)?.ok_or(Reason::Number);
        Ok([next()?, next()?, next()?])
    };
    // Older versions of the tracer omit some of these.
    let one = |key: &str| match after(key) {
        None => Ok(0),
        Some(rest) => {
            let end = rest.find(',').unwrap_or(rest.len());
            parse_u64(rest[..end].trim().as_bytes()).ok_or(Reason::Number)
        }
    };
    let shared_bytes = one("static shared mem:")?.checked_add(one("dynamic shared mem:")?);
    Ok(Kernel {
        name: "".into(),
        grid: three("Grid size:")?,
        block: three("Block size:")?,
        start_ns: None,
        duration_ns: None,
        stream: 0,
        registers: u32::try_from(one("# of regs:")?).map_err(|_| Reason::Number)?,
        shared_bytes: shared_bytes.ok_or(Reason::Range)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{GpuOptions, load_kernels, read_text};
    use crate::skips::OnError;

    const NAMES: &str = "Kernel0 name: void gemm<float>(float*, int)\n  Grid size: (64, 2, 1), \
        Block size: (256, 1, 1), maxBlockPerCore: 4, # of regs: 32, static shared mem: 1024, \
        dynamic shared mem: 512\nKernel1 name: b\n  Grid size: (1, 1, 1), Block size: (32, 1, 1), \
        maxBlockPerCore: 16\nKernel2 name: c\nKernel3 name: d\n  Grid size: (3, 1), Block size: (1, 1, 1)\n\
        Kernel4 name: e\n  Grid size: (5, 1, 1), Block size: (6, 1, 1), # of regs: 7\nnoise\nKernel5 name: f\n";

    #[test]
    fn names_and_details_of_a_launch_belong_together() {
        let (kernels, report) = read_text(NAMES, OnError::Skip).unwrap();
        let kernel = &kernels[0];
        assert_eq!(&*kernel.name, "void gemm<float>(float*, int)");
        assert_eq!((kernel.grid, kernel.block), ([64, 2, 1], [256, 1, 1]));
        assert_eq!((kernel.registers, kernel.shared_bytes), (32, 1536));
        assert_eq!((kernel.start_ns, kernel.duration_ns), (None, None));
        let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.name).collect();
        assert_eq!(names, ["void gemm<float>(float*, int)", "b", "e"]);
        let count = |reason| report.skipped.count(reason);
        // `c` has no second line, `d` has a grid of two numbers followed by noise, and `f` is
        // incomplete.
        assert_eq!((count(Reason::Missing), count(Reason::Fields)), (1, 1));
        assert_eq!((count(Reason::Order), count(Reason::Truncated)), (1, 1));
    }

    #[test]
    fn a_config_picks_its_kernels_from_the_names_beside_it() {
        let folder = std::env::temp_dir().join(format!("outcore-nvbit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = "nvbit\n14\n-1\n./Kernel0/trace.txt\n/x/y/Kernel4/trace.txt\n\
            ./Kernel4/trace.txt\n./Kernel9/trace.txt\nrubbish\n";
        std::fs::write(folder.join(CONFIG_FILE), config).unwrap();
        let missing = load_kernels(&folder, &GpuOptions::default()).unwrap_err();
        assert!(
            missing.next_step().unwrap().contains("kernel_names.txt"),
            "{missing}"
        );
        std::fs::write(folder.join(NAMES_FILE), NAMES).unwrap();
        let (kernels, report) = load_kernels(&folder, &GpuOptions::default()).unwrap();
        let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.name).collect();
        assert_eq!(names, ["void gemm<float>(float*, int)", "e"]);
        let config_path = folder.join(CONFIG_FILE);
        let of_config: Vec<u64> = report
            .skipped
            .places()
            .iter()
            .filter(|place| place.path == config_path)
            .map(|place| place.line)
            .collect();
        assert_eq!(of_config, [6, 7, 8]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
