//! Plan and run share one ledger: over kinds of data, jobs, memory sizes, threads, data sizes and
//! drives.
//!
//! Contract: in arithmetic, every cell has a plan whose ledger fits in the memory, or an error with
//! a sufficient memory size; a plan that exists for less memory also exists for more. Runs on
//! drives in memory are scaled down: every cell succeeds, or its plan rejects it. A reservation
//! outside the ledger, or beyond one of its lines, fails an assertion in the engine
//! ([`outcore_io::memory::Ledger`]). `OUTCORE_TEST_LONG=1` makes both grids denser.

use outcore::job::{ComputeCosts, DriveRates, JobSize, Layout};
use outcore::runs::{LineLengths, ViewSize, plan_view};
use outcore::shuffle::{ShuffleSize, plan_shuffle};
use outcore::sort::lines::{LineSize, plan_lines};
use outcore::sort::plan::{SortSize, plan_sort};
use outcore::{Kind, Result};
use outcore_io::memory::Ledger;
use outcore_io::units;

use crate::support::is_long;

/// A cell of the grid.
#[derive(Debug, Clone, Copy)]
struct Cell {
    data_bytes: u64,
    memory_bytes: u64,
    threads: usize,
    drive_count: usize,
}

impl Cell {
    fn job(self, data_bytes: u64) -> JobSize {
        JobSize {
            data_bytes,
            memory_bytes: self.memory_bytes,
            held_bytes: 0,
            threads: self.threads,
            drive_count: self.drive_count,
            layout: Layout::even(DriveRates::ASSUMED, self.drive_count).into(),
            costs: ComputeCosts::ASSUMED,
        }
    }
}

const MEMORIES_MIB: [u64; 12] = [4, 7, 16, 32, 64, 72, 80, 96, 128, 256, 512, 1024];
const SIZES: [u64; 8] = [
    0,
    1 << 20,
    60 << 20,
    300 << 20,
    10_000_000_000_000,
    1,
    70 << 20,
    7 << 30,
];
/// A normal run tries this number of data sizes with all memory sizes. It also tries these memory
/// sizes with data sizes near them and far above them.
const FEW_SIZES: usize = 5;
const FEW_MEMORIES_MIB: [u64; 3] = [64, 96, 512];

/// Plans all cells of one kind of job; returns their number.
fn sweep(kind: &str, plan: impl Fn(Cell) -> Result<Ledger>) -> usize {
    let (threads, drives): (&[usize], &[usize]) = match is_long() {
        true => (&[1, 2, 3, 4, 8, 16, 32, 64], &[1, 2, 8]),
        false => (&[1, 3, 64], &[1, 8]),
    };
    let (sizes, near): (&[u64], &[u64]) = match is_long() {
        true => (&SIZES, &MEMORIES_MIB),
        false => (&SIZES[..FEW_SIZES], &FEW_MEMORIES_MIB),
    };
    let mut cells = 0;
    for &threads in threads {
        for &drive_count in drives {
            for &data_bytes in sizes {
                let mut allowed = None;
                for memory_bytes in MEMORIES_MIB.map(|mib| mib << 20) {
                    let cell = Cell {
                        data_bytes,
                        memory_bytes,
                        threads,
                        drive_count,
                    };
                    cells += 1;
                    if check(kind, cell, &plan) {
                        allowed.get_or_insert(memory_bytes);
                    } else {
                        assert!(
                            allowed.is_none(),
                            "{kind}: {allowed:?} allowed what {cell:?} refuses"
                        );
                    }
                }
            }
            for memory_bytes in near.iter().map(|mib| mib << 20) {
                let near = [memory_bytes / 10 * 9, memory_bytes / 10 * 11];
                for data_bytes in near
                    .into_iter()
                    .chain([4 * memory_bytes, 100 * memory_bytes])
                {
                    let cell = Cell {
                        data_bytes,
                        memory_bytes,
                        threads,
                        drive_count,
                    };
                    cells += 1;
                    check(kind, cell, &plan);
                }
            }
        }
    }
    cells
}

/// Whether a cell has a plan. A plan must fit in the memory; otherwise the error must name a memory
/// size with a plan.
fn check(kind: &str, cell: Cell, plan: &impl Fn(Cell) -> Result<Ledger>) -> bool {
    let error = match plan(cell) {
        Ok(ledger) => {
            let bytes = ledger.bytes();
            assert!(bytes <= cell.memory_bytes, "{kind} {cell:?}: {ledger}");
            return true;
        }
        Err(error) => error,
    };
    assert_eq!(error.kind(), Kind::Memory, "{kind} {cell:?}: {error}");
    assert!(error.operation().starts_with("plan"), "{kind}: {error}");
    let hint = error.next_step().unwrap_or_default().to_string();
    let named = hint.split("--memory ").nth(1).and_then(|rest| {
        let word = rest.split([' ', ',']).next()?;
        units::parse_bytes(word).ok()
    });
    let memory_bytes = named.unwrap_or_else(|| panic!("{kind} {cell:?}: {error}"));
    assert!(memory_bytes > cell.memory_bytes, "{kind} {cell:?}: {error}");
    let enough = Cell {
        memory_bytes,
        ..cell
    };
    let ledger = plan(enough).unwrap_or_else(|again| panic!("{kind} {cell:?}: {error}: {again}"));
    assert!(ledger.bytes() <= memory_bytes, "{kind} {cell:?}: {ledger}");
    false
}

#[test]
fn sorts_and_views_of_records_have_a_ledger_that_fits_or_name_the_memory() {
    let mut cells = 0;
    let kinds = [
        (4, true),
        (8, true),
        (16, true),
        (12, false),
        (16, false),
        (24, false),
        (100, false),
        (4096, false),
    ];
    for (element_bytes, is_scalar) in kinds {
        let whole = |bytes: u64| bytes.next_multiple_of(element_bytes as u64);
        for is_ordered in [false, true] {
            if is_ordered && is_scalar {
                continue;
            }
            let kind =
                format!("sort of {element_bytes} bytes, scalar {is_scalar}, stable {is_ordered}");
            cells += sweep(&kind, |cell| {
                let size = SortSize {
                    job: cell.job(whole(cell.data_bytes)),
                    element_bytes,
                    is_scalar,
                    is_ordered,
                };
                plan_sort(size).map(|plan| plan.ledger())
            });
        }
        for keeps_runs in [false, true] {
            let kind = format!("view of {element_bytes} bytes, kept {keeps_runs}");
            cells += sweep(&kind, |cell| {
                let size = ViewSize {
                    job: cell.job(whole(cell.data_bytes)),
                    record_bytes: element_bytes,
                    is_scalar,
                    lines: None,
                    keeps_runs,
                    run_bytes: None,
                };
                plan_view(size).map(|plan| plan.ledger())
            });
        }
    }
    println!("{cells} cells");
}

#[test]
fn sorts_and_views_of_lines_have_a_ledger_that_fits_or_name_the_memory() {
    let mut cells = 0;
    let lengths: &[f64] = match is_long() {
        true => &[1.0, 10.0, 100.0, 10_000.0],
        false => &[1.0, 100.0, 10_000.0],
    };
    for &line_bytes in lengths {
        // Whole lines, or a key: columns of CSV and values of JSON are keys of lines.
        for (key_bytes, is_ordered) in [(0.0, false), (9.0, true)] {
            let counted = (key_bytes == 0.0).then_some(Some(1000));
            for distinct in [None].into_iter().chain(counted) {
                let kind = format!("lines of {line_bytes}, keys of {key_bytes}, {distinct:?}");
                cells += sweep(&kind, |cell| {
                    let size = LineSize {
                        job: cell.job(cell.data_bytes),
                        line_bytes,
                        key_bytes,
                        distinct,
                        is_ordered,
                        is_unique: distinct.is_some(),
                        is_read: true,
                        longest: None,
                        mark_bytes: 0,
                        sampled_bytes: 0,
                    };
                    plan_lines(size).map(|plan| plan.ledger())
                });
            }
            let kind = format!("view of lines of {line_bytes}, keys of {key_bytes}");
            cells += sweep(&kind, |cell| {
                let lines = LineLengths {
                    line_bytes: line_bytes as u64,
                    key_bytes: (key_bytes > 0.0).then_some(key_bytes as u64),
                    made_of_bytes: None,
                    longest_bytes: None,
                };
                let size = ViewSize {
                    job: cell.job(cell.data_bytes),
                    record_bytes: 1,
                    is_scalar: false,
                    lines: Some(lines),
                    keeps_runs: false,
                    run_bytes: None,
                };
                plan_view(size).map(|plan| plan.ledger())
            });
        }
    }
    println!("{cells} cells");
}

#[test]
fn shuffles_have_a_ledger_that_fits_or_name_the_memory() {
    let mut cells = 0;
    for record_bytes in [None, Some(4), Some(8), Some(12), Some(100), Some(4096)] {
        cells += sweep(&format!("shuffle of {record_bytes:?}"), |cell| {
            let whole = record_bytes.unwrap_or(1) as u64;
            let size = ShuffleSize {
                job: cell.job(cell.data_bytes.next_multiple_of(whole)),
                record_bytes,
                longest_bytes: None,
            };
            plan_shuffle(size).map(|plan| plan.ledger())
        });
    }
    println!("{cells} cells");
}
