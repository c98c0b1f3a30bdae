//! Every case of the conformance kit through the command.
//!
//! Contract: the cases and their oracle are those of the engine's tests. A printed result counts
//! like a written one.

use self::kit::{Case, cases};
use crate::support::*;

#[path = "../../../outcore/tests/conformance/joins.rs"]
mod joins;
#[path = "../../../outcore/tests/conformance/primitives.rs"]
mod kit;

/// Runs a case; returns its written or printed output.
fn run(case: &Case) -> Vec<u8> {
    let place = TestDir::new();
    let drives: Vec<String> = (0..case.number("drives"))
        .map(|d| format!("d{d}"))
        .collect();
    for drive in &drives {
        place.make_dir(drive);
    }
    let put = |name: &str, further| -> Vec<String> {
        let files = case.files(further).into_iter().enumerate();
        let put = |(number, bytes): (usize, Vec<u8>)| {
            let name = format!("{}/{name}-{number}", drives[number % drives.len()]);
            place.write(&name, &bytes);
            name
        };
        files.map(put).collect()
    };
    let mut arguments = words_of(case);
    arguments.extend(put("in", 0));
    if case.text("do") == "zip" {
        arguments.extend(
            put("other", 1)
                .into_iter()
                .flat_map(|name| ["--zip".into(), name]),
        );
    }
    if case.text("do") == "gather" {
        let positions = case.positions().into_iter().flat_map(u64::to_le_bytes);
        place.write("at", &positions.collect::<Vec<u8>>());
        arguments.extend(["--at".to_string(), "at".to_string()]);
    }
    if !case.is_lines() {
        arguments.extend(["--type".to_string(), case.text("type").to_string()]);
    }
    arguments.extend(["--memory", "64MiB", "--threads", "2"].map(String::from));
    arguments.extend(
        drives
            .iter()
            .flat_map(|drive| ["--drive".into(), drive.clone()]),
    );
    let outputs: Vec<String> = match (case.is_sharded(), case.text("do")) {
        (_, "reduce" | "map_reduce" | "histogram" | "top" | "find") => Vec::new(),
        (_, "partition") => (0..case.number("parts"))
            .map(|part| format!("part-{part}"))
            .collect(),
        (true, _) => drives
            .iter()
            .map(|drive| format!("{drive}/out-{drive}"))
            .collect(),
        (false, _) => vec!["out".to_string()],
    };
    if !outputs.is_empty() {
        let name = match (case.is_sharded(), case.text("do")) {
            (_, "partition") => "part-{part}",
            (true, _) => "out-{drive}",
            (false, _) => "out",
        };
        arguments.extend(["-o", name].map(String::from));
    }
    let answer = place.run(&arguments);
    if outputs.is_empty() {
        return printed(case, answer);
    }
    answer.ok();
    outputs.iter().flat_map(|name| place.read(name)).collect()
}

/// The subcommand and its own options.
fn words_of(case: &Case) -> Vec<String> {
    let number = |key| case.number(key).to_string();
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let flags = |flags: &[&str]| {
        let set = flags.iter().filter(|flag| case.is(flag));
        set.map(|flag| format!("--{flag}")).collect::<Vec<_>>()
    };
    match case.text("do") {
        "map" => words(&["map", &case.expression()]),
        "flat_map" => words(&["flat-map", &format!("x, {}", case.expression())]),
        "windows" => words(&["windows", "-n", &number("length")]),
        "map_reduce" => words(&["reduce", case.text("how"), "--map", &case.expression()]),
        "filter" => words(&["filter", &case.condition()]),
        "find" => words(&["find", &case.condition()]),
        "reduce" => words(&["reduce", case.text("how")]),
        "scan" => [words(&["scan", case.text("op")]), flags(&["exclusive"])].concat(),
        "sort" => [words(&["sort"]), flags(&["descending", "unique"])].concat(),
        "shuffle" => {
            let (seed, epoch) = (number("shuffle_seed"), number("epoch"));
            words(&["shuffle", "--seed", &seed, "--epoch", &epoch])
        }
        "histogram" => {
            let range = format!("{}:{}", number("low"), number("high"));
            words(&["histogram", "--bins", &number("bins"), "--range", &range])
        }
        "top" => [words(&["top", "-n", &number("k")]), flags(&["smallest"])].concat(),
        "partition" => {
            let parts = number("parts");
            words(&["partition", &format!("x % {parts}"), "--parts", &parts])
        }
        "merge" if case.is_lines() => words(&["sort", "-m"]),
        "count" if case.is_lines() => words(&["unique", "--count"]),
        "count" | "reduce_by_key" | "segmented_reduce" => words(&["count-by", "x"]),
        name => words(&[name]),
    }
}

/// The printed output; for a histogram, the counts.
fn printed(case: &Case, answer: Answer) -> Vec<u8> {
    if case.text("do") == "find" && answer.stdout.is_empty() {
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        return Vec::new();
    }
    let answer = answer.ok();
    if case.text("do") != "histogram" {
        return answer.stdout;
    }
    let text = answer.text();
    let counts = text
        .lines()
        .filter_map(|line| line.split_whitespace().next_back());
    counts
        .map(|count| format!("{count}\n"))
        .collect::<String>()
        .into_bytes()
}

#[test]
fn the_command_gives_what_naive_oracles_give_in_every_case() {
    for case in cases() {
        case.check(&run(&case));
    }
}

#[test]
fn the_list_of_joins_holds_for_the_command() {
    for case in joins::cases() {
        let place = TestDir::new();
        place.write("left.csv", case.text("left").as_bytes());
        place.write("right.csv", case.text("right").as_bytes());
        let on = case.on().join(",");
        let mut words = vec!["join", "left.csv", "right.csv", "--on", &on];
        words.extend(["--how", case.text("how")]);
        if !case.text("schema").is_empty() {
            words.extend(["--schema", case.text("schema")]);
        }
        let printed = place.run(&words).ok();
        assert_eq!(
            String::from_utf8_lossy(&printed.stdout),
            case.text("expected"),
            "{}",
            case.text("name")
        );
    }
}
