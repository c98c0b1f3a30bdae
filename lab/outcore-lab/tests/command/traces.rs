//! `outcore replay` on traces of every format: counts their contents, and replays all of it.
//!
//! Contract: counts are those that the fixtures were written with
//! (`outcore-traces/tests/fixtures`), or those of a naive reader of the same file. The samples of
//! other projects are not in the repository but in `../shared/reference/block-traces` next to it:
//! the head of a CloudPhysics trace (1a1a11a/libCacheSim, data/cloudPhysicsIO.csv) and fio's
//! t/jobs/t0038.iolog. If they are missing, their tests say so and pass.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::*;

/// Counts of a trace: requests, reads, writes, trims, flushes, bytes read, bytes written, lines
/// that cannot be read.
type Counts = [u64; 8];

const KEYS: [&str; 7] = [
    "requests",
    "reads",
    "writes",
    "trims",
    "flushes",
    "read_bytes",
    "write_bytes",
];

fn sample(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    let path = root.join("block-traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("SKIP: {} is not here", path.display());
    None
}

fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("lab/outcore-traces/tests/fixtures").join(name)
}

/// The output of `--summary` for a trace.
fn summed_up(place: &TestDir, trace: &Path) -> Value {
    let trace = trace.to_str().unwrap();
    let answer = place.run(&["replay", trace, "--summary", "--json"]).ok();
    answer.event("summary")["trace"].clone()
}

fn counts_of(summary: &Value) -> Counts {
    let mut counts = [0; 8];
    for (count, key) in counts.iter_mut().zip(KEYS) {
        *count = summary[key].as_u64().unwrap();
    }
    let reasons = summary["skipped"]["by_reason"].as_object().unwrap();
    counts[7] = reasons.values().map(|count| count.as_u64().unwrap()).sum();
    counts
}

/// A report's value by the id of its table and the first cell of the row; 0 for a missing row.
fn count(report: &Value, table: &str, row: &str) -> u64 {
    let sections = report["sections"].as_array().unwrap();
    let mut tables = sections
        .iter()
        .flat_map(|section| section["tables"].as_array().unwrap());
    let table = tables.find(|one| one["id"] == table).unwrap();
    let mut rows = table["rows"].as_array().unwrap().iter();
    let found = rows.find(|cells| cells[0] == row);
    found.map_or(0, |cells| cells[1].as_f64().unwrap() as u64)
}

/// The report of a replay on two directories; checks that nothing is left in them.
fn replayed(place: &TestDir, trace: &Path, more: &[&str]) -> Value {
    for drive in ["a", "b"] {
        place.make_dir(drive);
    }
    let trace = trace.to_str().unwrap();
    let replay = ["replay", trace, "--on", "a", "--on", "b", "--json"];
    let answer = place.run(&[&replay[..], more].concat()).ok();
    for drive in ["a", "b"] {
        assert!(names_in(&place.path(drive)).is_empty(), "{drive}");
    }
    answer.event("summary")["report"].clone()
}

/// Checks the results that do not depend on the drives: the trace's requests, and pieces of 512 KiB
/// by kind. Trims that the file system rejects are counted separately.
fn assert_replayed(report: &Value, taken: u64, pieces: [u64; 4], name: &str) {
    assert_eq!(
        count(report, "changes", "taken from the trace"),
        taken,
        "{name}"
    );
    let trims = count(report, "requests", "trims")
        + count(report, "changes", "trims that the drives do not take");
    let found = [
        count(report, "requests", "reads"),
        count(report, "requests", "writes"),
        trims,
        count(report, "requests", "flushes"),
    ];
    assert_eq!(found, pieces, "{name}");
    let given = count(report, "changes", "given to the drives");
    assert_eq!(given, pieces.iter().sum::<u64>(), "{name}");
}

#[test]
fn every_format_is_summed_up_and_replayed_with_its_counts() {
    // Name, format, counts; then the numbers of 512 KiB pieces that are read, written and trimmed,
    // and the number of flushes.
    #[rustfmt::skip]
    let known: [(&str, &str, Counts, [u64; 4]); 17] = [
        ("small.spc", "spc", [6, 3, 3, 0, 0, 16_722_944, 6_656, 6], [34, 2, 0, 0]),
        ("small.fiu", "fiu", [4, 1, 3, 0, 0, 8_192, 8_704, 3], [1, 3, 0, 0]),
        ("small.msr.csv", "msr", [4, 2, 2, 0, 0, 33_280, 8_192, 4], [2, 2, 0, 0]),
        ("v2.iolog", "fio", [4, 1, 1, 1, 1, 4_096, 8_192, 3], [1, 1, 1, 1]),
        ("v3.iolog", "fio", [4, 1, 1, 1, 1, 512, 4_096, 3], [1, 1, 1, 1]),
        ("linux-6.18.blktrace", "blktrace", [8, 5, 3, 0, 0, 208_896, 197_120, 0], [5, 3, 0, 0]),
        ("small.alibaba.csv", "alibaba", [3, 2, 1, 0, 0, 4_608, 16_384, 4], [2, 1, 0, 0]),
        ("small.tencent.csv", "tencent", [3, 1, 2, 0, 0, 65_536, 4_608, 3], [1, 2, 0, 0]),
        ("small.mqsim", "mqsim", [4, 2, 2, 0, 0, 4_608, 1_052_672, 3], [2, 3, 0, 0]),
        ("small.vscsi.csv", "vscsi", [4, 1, 2, 0, 1, 65_536, 4_608, 3], [1, 2, 0, 1]),
        // The trim is shorter than a block, so it is not replayed.
        ("small.v1.vscsi", "vscsi-binary", [6, 1, 3, 1, 1, 65_536, 11_264, 0], [1, 3, 0, 1]),
        ("small.v2.vscsi", "vscsi-binary", [6, 1, 3, 1, 1, 65_536, 11_264, 0], [1, 3, 0, 1]),
        ("small.systor.csv", "systor", [3, 1, 2, 0, 0, 131_072, 4_608, 4], [1, 2, 0, 0]),
        ("small.blkparse", "blkparse", [4, 1, 1, 1, 1, 4_096, 512, 4], [1, 1, 1, 1]),
        ("linux-6.18.blkparse", "blkparse", [8, 5, 3, 0, 0, 208_896, 197_120, 0], [5, 3, 0, 0]),
        ("small.disksim", "disksim", [4, 2, 2, 0, 0, 3_584, 1_052_160, 3], [2, 3, 0, 0]),
        ("small.oracleGeneral", "oracle-general", [5, 5, 0, 0, 0, 77_312, 0, 0], [5, 0, 0, 0]),
    ];
    let place = TestDir::new();
    for (name, format, counts, pieces) in known {
        let trace = fixture(name);
        let summary = summed_up(&place, &trace);
        assert_eq!(summary["format"], format, "{name}");
        assert_eq!(counts_of(&summary), counts, "{name}");
        let report = replayed(&place, &trace, &["--size", "16MiB"]);
        assert_replayed(&report, counts[0], pieces, name);
        let trace = &report["sections"].as_array().unwrap().last().unwrap()["tables"][0];
        assert_eq!(
            trace["rows"][0][9].as_f64(),
            Some(counts[7] as f64),
            "{name}"
        );
    }
}

#[test]
fn a_trace_that_ends_inside_a_record_has_exit_code_4_in_both_commands() {
    let place = TestDir::new();
    for name in [
        "small.v1.vscsi",
        "small.v2.vscsi",
        "small.oracleGeneral",
        "linux-6.18.blktrace",
    ] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        place.write("cut", &bytes[..bytes.len() - 5]);
        let says = ["ends inside", "cut"];
        for words in [
            &["replay", "cut", "--summary"][..],
            &["sim", "replay", "cut"],
            &["sim", "run", "--trace", "cut", "--fit", "wrap"],
        ] {
            place.run(words).fails(4, &says, "head -c");
        }
    }
}

#[test]
fn response_times_of_a_trace_are_shown_and_in_json() {
    let place = TestDir::new();
    for name in ["linux-6.18.blktrace", "linux-6.18.blkparse"] {
        let response = &summed_up(&place, &fixture(name))["response"];
        assert_eq!(response["requests"].as_u64(), Some(1), "{name}");
        assert_eq!(response["max_ns"].as_u64(), Some(67_591), "{name}");
        let report = replayed(&place, &fixture(name), &["--size", "16MiB"]);
        let verdict = report["verdict"].to_string();
        assert!(verdict.contains("Response times in the trace"), "{verdict}");
    }
}

/// Counts of a CloudPhysics trace from a naive parser, and the numbers of reads and writes that are
/// not aligned to 4 KiB.
fn naively(text: &str) -> (Counts, [u64; 2]) {
    let (mut counts, mut off_grid) = ([0; 8], [0; 2]);
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let kind = match fields[2] {
            "28" => 0,
            "2a" => 1,
            other => panic!("{other}"),
        };
        let bytes: u64 = fields[3].parse().unwrap();
        let from_bytes = fields[4].parse::<u64>().unwrap() * 512;
        counts[0] += 1;
        counts[1 + kind] += 1;
        counts[5 + kind] += bytes;
        off_grid[kind] += u64::from(!(from_bytes | bytes).is_multiple_of(4096));
    }
    (counts, off_grid)
}

const CLOUDPHYSICS: Counts = [8000, 460, 7540, 0, 0, 29_244_416, 85_241_344, 0];

#[test]
fn the_cloudphysics_head_is_summed_up_and_replayed_with_its_counts() {
    let Some(trace) = sample("cloudphysics-head.csv") else {
        return;
    };
    let (counts, [reads_off_grid, writes_off_grid]) =
        naively(&std::fs::read_to_string(&trace).unwrap());
    assert_eq!(counts, CLOUDPHYSICS);
    let place = TestDir::new();
    let summary = summed_up(&place, &trace);
    assert_eq!(
        (summary["format"].as_str(), counts_of(&summary)),
        (Some("vscsi"), counts)
    );
    // No request is longer than 512 KiB, so each request is one piece. The second run replays the
    // trace's 1772 seconds in one second.
    for pace in [["--speed", "max"], ["--speed", "1772"]] {
        let more = [&pace[..], &["--size", "16MiB", "--fit", "scale"]].concat();
        let report = replayed(&place, &trace, &more);
        assert_replayed(&report, 8000, [460, 7540, 0, 0], pace[1]);
        let widened = [
            count(&report, "changes", "reads widened to 4 KiB"),
            count(&report, "changes", "writes widened to 4 KiB, read first"),
        ];
        assert_eq!(widened, [reads_off_grid, writes_off_grid]);
        assert_eq!(
            count(&report, "changes", "reads of widened writes"),
            writes_off_grid
        );
    }
}

#[test]
fn damaged_lines_in_a_sample_are_skipped_and_counted_and_the_rest_is_replayed() {
    let Some(trace) = sample("cloudphysics-head.csv") else {
        return;
    };
    let place = TestDir::new();
    let text = std::fs::read(&trace).unwrap();
    let mut damaged = Vec::new();
    for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        damaged.extend_from_slice(line);
        match at {
            100 => damaged.extend_from_slice(b"1,5633898,2a,512\n"),
            4000 => damaged.extend_from_slice(b"1,5634000,28,\xff\xfe\x00,7\n"),
            7999 => damaged.extend_from_slice(b"1,5635000,no,512,42932745\n"),
            _ => {}
        }
    }
    let trace = place.write("damaged.csv", &damaged);
    let mut wanted = CLOUDPHYSICS;
    wanted[7] = 3;
    assert_eq!(counts_of(&summed_up(&place, &trace)), wanted);
    let report = replayed(&place, &trace, &["--size", "16MiB"]);
    assert_replayed(&report, 8000, [460, 7540, 0, 0], "damaged");
    let said = report["verdict"].to_string();
    assert!(said.contains("3 lines skipped"), "{said}");
    let strict = ["replay", "damaged.csv", "--summary", "--on-error", "fail"];
    place
        .run(&strict)
        .fails(4, &["line 102", "damaged.csv"], "");
}

#[test]
fn fios_own_log_is_summed_up_and_replayed_with_its_counts() {
    let Some(trace) = sample("fio-t0038.iolog") else {
        return;
    };
    let place = TestDir::new();
    let summary = summed_up(&place, &trace);
    assert_eq!(summary["format"], "fio");
    assert_eq!(counts_of(&summary), [20, 0, 10, 10, 0, 0, 40_960, 0]);
    assert_eq!(summary["trim_bytes"].as_u64(), Some(10 << 31));
    assert_eq!(summary["ignored"].as_u64(), Some(4));
    let report = replayed(&place, &trace, &["--size", "16MiB"]);
    assert_replayed(&report, 20, [0, 10, 10, 0], "fio");
    // Trims of 2 GiB on 32 MiB are cut.
    assert_eq!(count(&report, "changes", "cut to the volume"), 10);
}
