//! The predictions of jobs with `--explain` and `--dry-run`, and the table of phases after each
//! job.
//!
//! Contract: every job that moves data prints them, with the same words and the same table as a
//! sort.

use crate::support::{TestDir, parse_events, random_u64};

/// Runs `arguments` with `-v`; checks that the table has the phases, each with its plan.
fn has_table(place: &TestDir, arguments: &[&str], phases: &[&str]) -> String {
    let answer = place.run(&[arguments, &["-v"]].concat()).ok();
    let said = answer.stderr;
    let mut lines = said.lines();
    let is_header = |line: &&str| line.contains("phase") && line.contains("planned");
    assert!(lines.any(|line| is_header(&line)), "{arguments:?}: {said}");
    for phase in phases {
        let row = said
            .lines()
            .find(|line| line.starts_with(&format!("  {phase:<10} ")));
        let row = row.unwrap_or_else(|| panic!("{arguments:?} has no {phase}: {said}"));
        let is_planned = !row.trim_end().ends_with(" -");
        assert!(is_planned || *phase == "publish", "{arguments:?}: {row}");
    }
    said
}

#[test]
fn a_table_of_phases_beside_their_plans_stands_behind_every_job() {
    let place = TestDir::new();
    place.write("in", &random_u64(50_000, 1));
    place.write(
        "positions",
        &(0..500_u64)
            .flat_map(|i| (i * 90).to_le_bytes())
            .collect::<Vec<u8>>(),
    );
    place
        .run(&["sort", "in", "-o", "sorted", "--type", "u64"])
        .ok();
    place
        .run(&["view", "build", "in", "-o", "view", "--type", "u64"])
        .ok();
    let words: String = (0..20_000).map(|i| format!("line {i:06}\n")).collect();
    place.write("words", words.as_bytes());
    let u64s = ["--type", "u64", "--force"];
    let run = |arguments: &[&str], phases: &[&str]| {
        has_table(&place, &[arguments, &u64s[..]].concat(), phases)
    };
    run(&["map", "x * 2", "in", "-o", "map"], &["write", "publish"]);
    let said = run(&["filter", "x % 2 == 1", "in", "-o", "filter"], &["write"]);
    assert!(
        said.contains("<=392 KiB"),
        "a bound of whole blocks: {said}"
    );
    run(&["scan", "sum", "in", "-o", "scan"], &["write"]);
    run(&["reverse", "in", "-o", "reverse"], &["write"]);
    run(
        &["merge", "sorted", "sorted", "-o", "merge"],
        &["merge", "publish"],
    );
    run(&["windows", "-n", "2", "in", "-o", "windows"], &["write"]);
    run(
        &["gather", "in", "--at", "positions", "-o", "gather"],
        &["gather", "write"],
    );
    run(
        &["lookup", "sorted", "--keys", "in", "-o", "lookup"],
        &["look up", "write"],
    );
    run(
        &["partition", "x % 2", "in", "-o", "{part}.bin"],
        &["distribute"],
    );
    run(&["reduce", "sum", "in"], &["reduce"]);
    run(&["histogram", "in"], &["reduce", "histogram"]);
    run(&["top", "-n", "3", "in"], &["top"]);
    run(&["find", "x >= 0", "in"], &["find"]);
    run(
        &["count-by", "x % 10", "in", "-o", "counts"],
        &["count", "write"],
    );
    let plain = |arguments: &[&str], phases: &[&str]| has_table(&place, arguments, phases);
    plain(&["verify", "sorted", "--type", "u64"], &["verify"]);
    plain(
        &["gen", "u64", "-n", "1000", "-o", "made"],
        &["generate", "publish"],
    );
    plain(&["view", "cat", "view"], &["merge"]);
    plain(
        &["view", "materialize", "view", "-o", "whole"],
        &["merge", "publish"],
    );
    plain(&["view", "verify", "view"], &["verify"]);
    plain(&["head", "words", "-o", "first"], &["head"]);
    let said = run(&["head", "-n", "1", "in", "-o", "one"], &["head"]);
    let is_read = |line: &str| line.starts_with("  head          391 KiB    391 KiB        8 B ");
    assert!(said.lines().any(is_read), "as far as it is read: {said}");
    plain(&["sample", "-n", "9", "words", "-o", "drawn"], &["sample"]);
    plain(&["split", "words", "-n", "2", "-o", "{part}"], &["split"]);
    place.run(&["sort", "words", "-o", "in-order"]).ok();
    plain(&["sort", "-c", "in-order"], &["check"]);
    plain(
        &["sort", "-m", "words", "words", "-o", "merged"],
        &["merge"],
    );
}

#[test]
fn every_pass_is_planned_with_the_rates_of_the_drives() {
    let place = TestDir::new();
    place.write("in", &random_u64(50_000, 1));
    place
        .run(&["sort", "in", "-o", "sorted", "--type", "u64"])
        .ok();
    place.write("words", b"a\nb\n");
    place
        .run(&["view", "build", "in", "-o", "view", "--type", "u64"])
        .ok();
    let u64s = ["--type", "u64"];
    for (arguments, wanted) in [
        (
            &["map", "x", "in", "-o", "a"][..],
            "reads 391 KiB, writes 391 KiB, ",
        ),
        (
            &["filter", "x != 0", "in", "-o", "a"][..],
            "writes at most 392 KiB, at most ",
        ),
        (
            &["flat-map", "x,x", "in", "-o", "a"][..],
            "not known in advance",
        ),
        (&["reduce", "sum", "in"][..], "reads 391 KiB, writes 0 B, "),
        (&["histogram", "in"][..], "reads 781 KiB, writes 0 B, "),
        (&["find", "x == 1", "in"][..], "reads at most 392 KiB"),
        (
            &["merge", "sorted", "sorted", "-o", "a"][..],
            "reads 781 KiB, writes 781 KiB",
        ),
        (&["scan", "sum", "in", "-o", "a"][..], "writes 391 KiB"),
        (&["count-by", "x", "in", "-o", "a"][..], "writes "),
    ] {
        let arguments = [arguments, &u64s[..], &["--dry-run"]].concat();
        let answer = place.run(&arguments).ok();
        let said = answer.text();
        assert!(said.contains("predicted: "), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        // Drives are measured for the plan; a file system in memory is not a drive.
        let is_told = said.contains("measured on") || said.contains("assumed");
        assert!(
            is_told && said.contains("computing not counted"),
            "{arguments:?}: {said}"
        );
    }
    let planned = place.run(&[
        "map",
        "x",
        "in",
        "-o",
        "a",
        "--type",
        "u64",
        "--dry-run",
        "--json",
    ]);
    let plan = planned.event("plan");
    assert_eq!(plan["phases"][0]["predicted_written_bytes"], 400_000);
    assert_eq!(plan["phases"][0]["predicted_is_bound"], false);
    assert!(plan["rates"]["read_bytes_per_s"].as_f64() > Some(0.0));
    let merge = place
        .run(&["sort", "-m", "words", "words", "-o", "out", "--dry-run"])
        .ok();
    assert!(merge.text().contains("read lines -> merge"), "{merge:?}");
    let shuffle = place
        .run(&["shuffle", "words", "-o", "mixed", "--explain"])
        .ok();
    let said = shuffle.stderr;
    assert!(said.contains("distribute: 1 bucket, "), "{said}");
    assert!(!said.contains("draws"), "nothing is drawn: {said}");
    for arguments in [
        &["verify", "sorted", "--type", "u64", "--explain"][..],
        &["gen", "u64", "-n", "10", "-o", "made", "--explain"],
        &["view", "cat", "view", "--range", "..100", "--explain"],
        &["view", "verify", "view", "--explain"],
        &["view", "materialize", "view", "-o", "whole", "--explain"],
        &["view", "append", "view", "in", "--explain"],
        &["head", "words", "-n", "1", "-o", "first", "--explain"],
        &["sample", "words", "-n", "1", "-o", "drawn", "--explain"],
        &["split", "words", "-n", "1", "-o", "{part}", "--explain"],
    ] {
        let answer = place.run(arguments).ok();
        assert!(answer.stderr.contains("predicted: "), "{answer:?}");
        assert!(answer.stderr.contains("planned"), "{answer:?}");
    }
    let piped = place
        .run_with_input(&["head", "-n", "1", "--explain"], b"a\nb\n")
        .ok();
    assert!(piped.stderr.contains("not known in advance"), "{piped:?}");
    assert_eq!(
        place.names(),
        [
            "00", "drawn", "first", "in", "made", "mixed", "sorted", "view", "whole", "words"
        ]
    );
}

#[test]
fn plans_of_parts_count_the_blocks_that_are_read() {
    let place = TestDir::new();
    place.write("in", &random_u64(50_000, 1));
    place
        .run(&["sort", "in", "-o", "sorted", "--type", "u64"])
        .ok();
    place
        .run(&["view", "build", "in", "-o", "view", "--type", "u64"])
        .ok();
    // The blocks in which a part of a view begins and ends are read whole.
    for range in ["..", "..100", "1000..9000"] {
        let view = ["view", "cat", "view", "--range", range, "--json"];
        let events = parse_events(&place.run(&view).ok().stderr);
        let phase = &events.last().unwrap()["phases"][0];
        let [read, planned] =
            ["read_bytes", "predicted_read_bytes"].map(|key| phase[key].as_u64().unwrap());
        assert!((read / 2..=read * 2).contains(&planned), "{phase}");
    }
    // Records that are picked by position are only a part of the file.
    place.run(&["gen", "u64", "-n", "10", "-o", "at"]).ok();
    for picks in [
        &["gather", "in", "--at", "at"][..],
        &["lookup", "sorted", "--keys", "at"],
    ] {
        let rest = ["-o", "picked", "--type", "u64", "--dry-run", "--json"];
        let plan = place.run(&[picks, &rest].concat()).event("plan");
        let phase = &plan["phases"][0];
        let planned = phase["predicted_read_bytes"].as_u64().unwrap();
        assert!(planned <= 10 * 3 * 4096, "{plan}");
        assert_eq!(phase["predicted_written_bytes"], 80, "{plan}");
        let said = place.run(&[picks, &rest[..5]].concat()).ok().text();
        assert!(said.contains("reads parts of "), "{said}");
    }
}
