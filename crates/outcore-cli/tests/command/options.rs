//! Every option of every command on every kind of input: it changes what comes out, or is rejected by its name.
//!
//! Contract: options are those of the definition of the flags, so none can be forgotten: one that has no sample value here
//! fails the test. What changes nothing is in [`NEUTRAL`] or [`NEUTRAL_FOR`], each with its reason.

use std::collections::BTreeMap;
use std::fs;

use clap::{Arg, ArgAction, Command};

use crate::support::{TestDir, random_u64};
use crate::tables;
use crate::volume;

/// Options that change no result, and why; `*` stands for every kind.
const NEUTRAL: [(&str, &str); 26] = [
    ("memory_bytes", "how much may be used, not what is made"),
    ("threads", "as --memory"),
    ("io", "as --memory"),
    ("drives", "where scratch goes"),
    ("drives_file", "where scratch goes"),
    ("limit_bytes", "how much scratch may be used"),
    ("run_bytes", "how a view is cut, not what it holds"),
    (
        "force",
        "whether a file that is there may be replaced, and none is",
    ),
    (
        "replace",
        "lines replace any file, as GNU sort has it; others say that no input is the output",
    ),
    ("explain", "shows a plan on standard error"),
    ("trace", "records the I/O of the run in a file of its own"),
    ("json", "how the result is told"),
    ("quiet", "what is told beside the result"),
    ("verbose", "what is told beside the result"),
    ("color", "how messages look"),
    ("volume", "where datasets are"),
    ("help", "prints help"),
    ("buffer_bytes", "GNU's --memory"),
    ("temporary_dirs", "GNU's --drive"),
    ("parallel", "GNU's --threads"),
    ("batch_count", "GNU's: all inputs are merged at once"),
    ("compress_program", "GNU's: scratch is not compressed"),
    (
        "random_source",
        "GNU's: the seed of -R, without which it means nothing",
    ),
    ("is_lines", "says what the input is taken for anyhow"),
    ("csv", "says what the input is taken for anyhow"),
    ("jsonl", "says what the input is taken for anyhow"),
];

/// The same of some commands and kinds of input.
const NEUTRAL_FOR: [(&str, &str, &str, &str); 30] = [
    (
        "sort",
        "*",
        "seed",
        "chooses samples and drives; it is the seed of -R, without which it means nothing",
    ),
    (
        "sort",
        "*",
        "stable",
        "equal records or lines of these samples are the same in all bytes",
    ),
    (
        "sort",
        "*",
        "on_error",
        "no row of the sample lacks its key",
    ),
    ("sort", "csv", "separator", "the sample has this one"),
    (
        "sort",
        "lines",
        "separator",
        "fields are only of keys, and no key is given",
    ),
    (
        "unique",
        "*",
        "on_error",
        "no row of the sample lacks its key",
    ),
    (
        "unique",
        "lines",
        "separator",
        "fields are only of keys, and no key is given",
    ),
    ("*", "table", "union", "one file lacks no column"),
    ("*", "csv table", "union", "one file lacks no column"),
    ("*", "jsonl table", "union", "one file lacks no column"),
    ("*", "csv table", "infer", "what the command does anyhow"),
    ("*", "jsonl table", "infer", "what the command does anyhow"),
    (
        "*",
        "*",
        "zero_terminated",
        "lines of the sample hold no NUL: there is one line either way",
    ),
    (
        "head",
        "*",
        "zero_terminated",
        "there are fewer lines than are asked for",
    ),
    (
        "merge",
        "*",
        "stable",
        "equal records of the sample are the same in all bytes, and rows of tables keep their order anyhow",
    ),
    (
        "verify",
        "*",
        "against",
        "it is compared, and the exit code says the same",
    ),
    (
        "verify",
        "*",
        "ties",
        "records of the sample are numbers, which are all key",
    ),
    (
        "verify",
        "*",
        "unique",
        "no two keys of the sample are equal",
    ),
    (
        "verify",
        "*",
        "columns",
        "shown in the checksum on standard error",
    ),
    (
        "view build",
        "*",
        "stable",
        "equal records or lines of these samples are the same in all bytes",
    ),
    (
        "view build",
        "*",
        "separator",
        "fields are only of keys, and no key is given",
    ),
    (
        "window",
        "*",
        "first",
        "kept rows are all of the sample's small groups",
    ),
    (
        "join",
        "*",
        "suffix",
        "no column of the sample is in both tables",
    ),
    ("lookup", "*", "side", "no key of the sample is there twice"),
    ("*", "npy", "record_bytes", "says what the header says"),
    (
        "shuffle",
        "npy",
        "keys",
        "a part of what a record is, and no order is made",
    ),
    (
        "head",
        "npy",
        "keys",
        "a part of what a record is, and no order is made",
    ),
    (
        "sample",
        "npy",
        "keys",
        "a part of what a record is, and no order is made",
    ),
    (
        "split",
        "npy",
        "keys",
        "a part of what a record is, and no order is made",
    ),
    (
        "group-by",
        "*",
        "columns",
        "other columns are not in the result anyhow",
    ),
];

/// Options that say what an input is, or how it is read: what is wrong after them may be something else.
const SAYS_WHAT: [&str; 11] = [
    "format",
    "record_bytes",
    "keys",
    "is_lines",
    "csv",
    "jsonl",
    "from",
    "schema",
    "infer",
    "no_header",
    "separator",
];

/// Commands whose inputs are none of these kinds, and why.
const EXEMPT: [(&str, &str); 20] = [
    ("gen", "makes records of a type that is its first operand"),
    ("demo", "has no input"),
    ("scratch", "takes directories"),
    ("config", "takes nothing"),
    ("drives", "takes directories"),
    ("volume", "takes drives"),
    ("put", "copies any bytes"),
    ("get", "copies any bytes"),
    ("ls", "takes names of datasets"),
    ("rm", "takes names of datasets"),
    ("cp", "copies any bytes"),
    ("bench", "measures drives"),
    (
        "replay",
        "takes block traces, whose formats have tests of their own",
    ),
    ("sim", "takes traces and workloads"),
    (
        "graph",
        "takes graphs and edges, whose formats have tests of their own",
    ),
    ("vector", "takes files of vectors"),
    ("knn", "takes files of vectors"),
    ("kmeans", "takes files of vectors"),
    ("completions", "takes the name of a shell"),
    ("man", "takes a directory"),
];

/// A command on one kind of input, with what it needs.
struct Sample {
    command: &'static str,
    kind: &'static str,
    /// Words before the output.
    words: &'static str,
    /// Where the result goes; standard output without.
    output: &'static str,
}

const fn sample(
    command: &'static str,
    kind: &'static str,
    words: &'static str,
    output: &'static str,
) -> Sample {
    Sample {
        command,
        kind,
        words,
        output,
    }
}

const OF_ORDER: [Sample; 19] = [
    sample("sort", "lines", "lines.txt", "out"),
    sample("sort", "csv", "--csv --by a rows.csv", "out.csv"),
    sample("sort", "jsonl", "--jsonl --by .a rows.jsonl", "out.jsonl"),
    sample("sort", "numbers", "numbers.bin --type u64", "out"),
    sample(
        "sort",
        "records",
        "records.bin --record 16 --key 8:8:u64",
        "out",
    ),
    sample("sort", "npy", "array.npy", "out"),
    sample("sort", "table", "t.parquet --by number", "out.parquet"),
    sample("sort", "csv table", "rows.csv --by a", "out.parquet"),
    sample("sort", "jsonl table", "rows.jsonl --by a", "out.parquet"),
    sample(
        "sort",
        "dataset",
        "@numbers --type u64 --volume drives.toml",
        "out",
    ),
    sample("unique", "lines", "lines.txt", "out"),
    sample("unique", "csv", "rows.csv", "out.csv"),
    sample("unique", "jsonl", "rows.jsonl", "out.jsonl"),
    sample("unique", "numbers", "numbers.bin --type u64", "out"),
    sample(
        "unique",
        "records",
        "records.bin --record 16 --key 8:8:u64",
        "out",
    ),
    sample("unique", "npy", "array.npy", "out"),
    sample("unique", "table", "t.parquet", "out.parquet"),
    sample("unique", "csv table", "rows.csv --infer", "out.parquet"),
    sample("unique", "dataset", "@lines --volume drives.toml", "out"),
];

const OF_PLACES: [Sample; 33] = [
    sample("shuffle", "lines", "lines.txt", "out"),
    sample("shuffle", "csv", "rows.csv", "out.csv"),
    sample("shuffle", "jsonl", "rows.jsonl", "out.jsonl"),
    sample("shuffle", "numbers", "numbers.bin --type u64", "out"),
    sample("shuffle", "npy", "array.npy", "out"),
    sample("shuffle", "table", "t.parquet", "out.parquet"),
    sample("shuffle", "csv table", "rows.csv --infer", "out.parquet"),
    sample("shuffle", "dataset", "@lines --volume drives.toml", "out"),
    sample("head", "lines", "lines.txt -n 2", "out"),
    sample("head", "csv", "rows.csv -n 2", "out.csv"),
    sample("head", "jsonl", "rows.jsonl -n 2", "out.jsonl"),
    sample("head", "numbers", "numbers.bin --type u64 -n 2", "out"),
    sample("head", "npy", "array.npy -n 2", ""),
    sample("head", "table", "t.parquet -n 2", "out.parquet"),
    sample("head", "csv table", "rows.csv --infer -n 2", "out.parquet"),
    sample("sample", "lines", "lines.txt -n 4", "out"),
    sample("sample", "csv", "rows.csv -n 2", "out.csv"),
    sample("sample", "jsonl", "rows.jsonl -n 2", "out.jsonl"),
    sample("sample", "numbers", "numbers.bin --type u64 -n 3", "out"),
    sample("sample", "npy", "array.npy -n 3", ""),
    sample("sample", "table", "t.parquet -n 3", "out.parquet"),
    sample(
        "sample",
        "csv table",
        "rows.csv --infer -n 3",
        "out.parquet",
    ),
    sample("split", "lines", "lines.txt -n 2", "p-{part}"),
    sample("split", "csv", "rows.csv -n 2", "p-{part}.csv"),
    sample("split", "jsonl", "rows.jsonl -n 2", "p-{part}.jsonl"),
    sample(
        "split",
        "numbers",
        "numbers.bin --type u64 -n 2",
        "p-{part}",
    ),
    sample("split", "npy", "array.npy -n 2", "p-{part}.npy"),
    sample("split", "table", "t.parquet -n 2", "p-{part}.parquet"),
    sample(
        "split",
        "csv table",
        "rows.csv --infer -n 2",
        "p-{part}.parquet",
    ),
    sample("verify", "numbers", "sorted.bin --type u64", ""),
    sample("verify", "npy", "sorted.npy", ""),
    sample("verify", "table", "t.parquet", ""),
    sample("verify", "csv table", "rows.csv", ""),
];

const OF_EXPRESSIONS: [Sample; 37] = [
    sample("map", "numbers", "x*2 numbers.bin --type u64", "out"),
    sample("map", "npy", "x*2 array.npy", "out"),
    sample("map", "table", "c=number*2 t.parquet", "out.parquet"),
    sample("map", "csv table", "c=a rows.csv", "out.parquet"),
    sample("filter", "numbers", "x>9 numbers.bin --type u64", "out"),
    sample(
        "filter",
        "records",
        "key0>9 records.bin --record 16 --key 8:8:u64",
        "out",
    ),
    sample("filter", "npy", "x>9 array.npy", "out"),
    sample("filter", "table", "number>9 t.parquet", "out.parquet"),
    sample("filter", "jsonl table", "a>1 rows.jsonl", "out.parquet"),
    sample(
        "merge",
        "numbers",
        "sorted.bin sorted.bin --type u64",
        "out",
    ),
    sample(
        "merge",
        "records",
        "sorted.bin sorted.bin --record 8",
        "out",
    ),
    sample(
        "merge",
        "table",
        "sorted.parquet sorted.parquet --by number",
        "out.parquet",
    ),
    sample("count-by", "numbers", "x%3 numbers.bin --type u64", ""),
    sample("count-by", "npy", "x%3 array.npy", ""),
    sample("count-by", "table", "name t.parquet", "out.parquet"),
    sample(
        "zip",
        "numbers",
        "numbers.bin --zip numbers.bin --type u64",
        "out",
    ),
    sample("flat-map", "numbers", "x,x+1 numbers.bin --type u64", "out"),
    sample("enumerate", "numbers", "numbers.bin --type u64", "out"),
    sample("windows", "numbers", "2 numbers.bin --type u64", "out"),
    sample("reverse", "numbers", "numbers.bin --type u64", "out"),
    sample("reverse", "npy", "array.npy", "out"),
    sample("reduce", "numbers", "sum numbers.bin --type u64", ""),
    sample("scan", "numbers", "sum numbers.bin --type u64", "out"),
    sample("histogram", "numbers", "numbers.bin --type u64", ""),
    sample("top", "numbers", "3 numbers.bin --type u64", ""),
    sample("find", "numbers", "x>9 numbers.bin --type u64", ""),
    sample(
        "partition",
        "numbers",
        "x%2 numbers.bin --type u64",
        "p-{part}",
    ),
    sample(
        "gather",
        "numbers",
        "numbers.bin --at places.npy --type u64",
        "out",
    ),
    sample(
        "lookup",
        "numbers",
        "sorted.bin --keys numbers.bin --type u64",
        "out",
    ),
    sample("lookup", "lines", "sorted.txt --keys sorted.txt", "out"),
    sample("lookup", "view", "built.view --keys numbers.bin", "out"),
    sample("convert", "table", "t.parquet", "out.parquet"),
    sample("convert", "csv table", "rows.csv", "out.parquet"),
    sample("convert", "jsonl table", "rows.jsonl", "out.parquet"),
    sample("info", "table", "t.parquet", ""),
    sample("info", "csv table", "rows.csv", ""),
    sample("info", "jsonl table", "rows.jsonl", ""),
];

const OF_TABLES: [Sample; 20] = [
    sample("dedup", "table", "t.parquet --by name", "out.parquet"),
    sample("dedup", "csv table", "rows.csv --by b", "out.parquet"),
    sample("group-by", "table", "t.parquet --by name", "out.parquet"),
    sample(
        "group-by",
        "jsonl table",
        "rows.jsonl --by a",
        "out.parquet",
    ),
    sample("window", "table", "t.parquet --add rank", "out.parquet"),
    sample(
        "join",
        "table",
        "t.parquet few.parquet --on name",
        "out.parquet",
    ),
    sample(
        "join",
        "csv table",
        "rows.csv few.csv --on b",
        "out.parquet",
    ),
    sample(
        "diff",
        "table",
        "t.parquet few.parquet --by number",
        "out.parquet",
    ),
    sample("view build", "lines", "lines.txt --lines", "out.view"),
    sample("view build", "csv", "rows.csv --csv --by a", "out.view"),
    sample(
        "view build",
        "numbers",
        "numbers.bin --type u64",
        "out.view",
    ),
    sample("view build", "npy", "array.npy", "out.view"),
    sample("view build", "table", "t.parquet", "out.view"),
    sample("view build", "csv table", "rows.csv --by a", "out.view"),
    sample("view append", "view", "own.view numbers.bin", ""),
    sample("view cat", "view", "built.view", ""),
    sample("view verify", "view", "built.view", ""),
    sample("view materialize", "view", "built.view", "out"),
    sample(
        "view materialize",
        "table view",
        "table.view",
        "out.parquet",
    ),
    sample("view info", "view", "built.view", ""),
];

/// Commands below others that wait for somebody, or are for outcore itself.
const EXEMPT_BELOW: [(&str, &str); 2] = [
    ("view mount", "serves until it is stopped"),
    ("view guard", "is for outcore itself"),
];

/// A value for each option that takes one, by what the definition calls it.
fn value_of(command: &str, kind: &str, id: &str) -> &'static str {
    match (command, id) {
        ("sort" | "unique" | "view build", "by") if kind == "table" => "name",
        (_, "by" | "columns" | "on" | "bloom_filters") if kind == "table" => "name",
        (_, "schema") if kind == "jsonl table" => "a:f64",
        (_, "aggregates") if kind == "jsonl table" => "sum(a)",
        (_, "asof") if kind == "csv table" => "a",
        ("dedup", "near" | "of") => {
            if kind == "table" {
                "name"
            } else {
                "b"
            }
        }
        (_, "seed") => "5",
        ("view materialize" | "view cat", "range") => "1..3",
        ("histogram", "range") => "0:9",
        ("lookup", "wanted") => "sorted.bin",
        ("split", "by") => "a",
        (_, id) => match id {
            "format" => "u32",
            "record_bytes" => "8",
            "keys" => "0:4",
            "line_keys" => "2",
            "separator" => ";",
            "word" => "numeric",
            "by" | "columns" | "on" | "bloom_filters" | "near" | "of" => "a",
            "on_error" => "skip",
            "codec" => "none",
            "group_rows" | "parts" | "part_lines" | "k" | "first" | "records" => "2",
            "schema" => "a:text",
            "from" => "csv",
            "to" => "jsonl",
            "seed" => "77",
            "epoch" => "3",
            "against" => "numbers.bin",
            "zip" => "sorted.bin",
            "count" => "5",
            "conditions" if kind.ends_with("table") => "false",
            "conditions" => "x>99",
            "positions" => "places.npy",
            "map" => "x*3",
            "bins" => "3",
            "lookup_index" => "new.index",
            "side" => "right",
            "memory_bytes" | "buffer_bytes" => "64M",
            "threads" | "parallel" => "1",
            "io" => "buffered",
            "drives" | "temporary_dirs" => ".",
            "drives_file" => "drives.toml",
            "limit_bytes" | "run_bytes" | "part_bytes" => "1GiB",
            "trace" => "new.iotrace",
            "volume" => "drives.toml",
            "color" => "never",
            "files0_from" => "names0",
            "random_source" => "lines.txt",
            "batch_count" => "4",
            "compress_program" => "gzip",
            "train" => "0.5",
            "jaccard" => "0.5",
            "shingles" => "words:2",
            "hashes" => "16",
            "substring" => "2",
            "removed" => "removed.parquet",
            "keep" => "last",
            "how" => "left",
            "asof" => "number",
            "tolerance" => "3",
            "suffix" => "_other",
            "aggregates" => "count_distinct(name)",
            "order" => "number",
            "added" => "row_number",
            "from_key" | "to_key" | "key" => "5",
            other => panic!("no sample value for {other} of {command}"),
        },
    }
}

/// Inputs of every kind.
fn place() -> TestDir {
    let place = volume::volume_in(TestDir::in_memory());
    place.write(
        "lines.txt",
        b"b2 z\nB1 y\n a x\n-c w\n10 v\n9 u\n9 u\n2K t\n1M s\nJAN r\nFEB q\nv1.10 p\nv1.9 o\n1e3 n\n\x01x m\n",
    );
    place.write("sorted.txt", b"a\nb\nc\n");
    place.write(
        "rows.csv",
        b"a,b\n10,x y\n9,\"z\nz\"\n9,\"z\nz\"\n-2,w\n5,x y\n77,u\n41,\"v; v\"\n",
    );
    place.write("few.csv", b"a,b\n9,w\n8,u\n");
    place.write(
        "rows.jsonl",
        b"{\"a\":10,\"b\":\"x y\"}\n{\"a\":9,\"b\":\"z\"}\n{\"a\":9,\"b\":\"z\"}\n{\"a\":-2,\"b\":\"w\"}\n",
    );
    place.write("names0", b"lines.txt\0");
    let numbers: Vec<u8> = [300_u64, 7, 300, 5, 1 << 40, 9, 77, 2]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    place.write("numbers.bin", &numbers);
    let mut sorted = [300_u64, 7, 5, 1 << 40, 9, 77, 2, 3];
    sorted.sort_unstable();
    let sorted: Vec<u8> = sorted
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    place.write("sorted.bin", &sorted);
    place.write("records.bin", &random_u64(16, 5));
    let npy = [
        "map",
        "x",
        "numbers.bin",
        "--type",
        "u64",
        "-o",
        "array.npy",
    ];
    place.run(&npy).ok();
    place
        .run(&["map", "x % 3", "--count", "4", "-o", "places.npy"])
        .ok();
    let npy = [
        "map",
        "x",
        "sorted.bin",
        "--type",
        "u64",
        "-o",
        "sorted.npy",
    ];
    place.run(&npy).ok();
    tables::write(&place.path("t.parquet"), &tables::batch(40));
    tables::write(&place.path("few.parquet"), &tables::batch(9));
    let sort = [
        "sort",
        "t.parquet",
        "--by",
        "number",
        "-o",
        "sorted.parquet",
    ];
    place.run(&sort).ok();
    let build = [
        "view",
        "build",
        "numbers.bin",
        "--type",
        "u64",
        "-o",
        "built.view",
    ];
    place.run(&build).ok();
    let build = [
        "view",
        "build",
        "t.parquet",
        "--by",
        "number",
        "-o",
        "table.view",
    ];
    place.run(&build).ok();
    volume::run(&place, &["put", "numbers.bin", "@numbers"]).ok();
    volume::run(&place, &["put", "lines.txt", "@lines"]).ok();
    place
}

/// What a run made: its exit code, what it printed, and all files that it wrote.
#[derive(PartialEq, Eq)]
struct Made {
    code: Option<i32>,
    printed: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

/// Runs a sample with more words, and takes away what it wrote.
fn run(place: &TestDir, sample: &Sample, more: &[String]) -> (Made, String) {
    let mut words: Vec<String> = sample.command.split(' ').map(str::to_owned).collect();
    words.extend(sample.words.split(' ').map(str::to_owned));
    if !sample.output.is_empty() {
        words.extend(["-o".to_owned(), sample.output.to_owned()]);
    }
    words.extend(more.iter().cloned());
    // It is added to, so each run has its own.
    if sample.words.contains("own.view") {
        let build = [
            "view",
            "build",
            "numbers.bin",
            "--type",
            "u64",
            "-o",
            "own.view",
        ];
        place.run(&build).ok();
    }
    let before = place.names();
    let answer = place.run(&words);
    let mut files = BTreeMap::new();
    for name in place.names() {
        let path = place.path(&name);
        if before.contains(&name) {
            continue;
        }
        if path.is_file() {
            files.insert(name, fs::read(&path).unwrap());
            fs::remove_file(path).unwrap();
        } else {
            // Of a view, what it holds; of parts, all.
            let held = place.run(&["view", "cat", &name]).stdout;
            let names = crate::support::names_in(&path).join(" ");
            files.insert(name, [held, names.into_bytes()].concat());
            fs::remove_dir_all(path).unwrap();
        }
    }
    if sample.words.contains("own.view") {
        let held = place.run(&["view", "cat", "own.view"]).stdout;
        files.insert("own.view".to_owned(), held);
        fs::remove_dir_all(place.path("own.view")).unwrap();
    }
    // Some commands read what they were to write.
    files.retain(|name, _| name != "new.iotrace" && name != "new.index");
    let made = Made {
        code: answer.code,
        printed: answer.stdout,
        files,
    };
    (made, answer.stderr)
}

fn is_neutral(command: &str, kind: &str, id: &str) -> bool {
    let fits = |wanted: &str, given: &str| wanted == "*" || wanted == given;
    NEUTRAL.iter().any(|(known, _)| *known == id)
        || NEUTRAL_FOR
            .iter()
            .any(|(of, kinds, known, _)| *known == id && fits(of, command) && fits(kinds, kind))
}

fn name_of(option: &Arg) -> String {
    match (option.get_long(), option.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => panic!("an option without a name"),
    }
}

/// The words that give an option.
fn words_of(sample: &Sample, option: &Arg) -> Vec<String> {
    let name = name_of(option);
    let takes_value = option.get_action().takes_values();
    let is_alone = option
        .get_num_args()
        .is_some_and(|range| range.min_values() == 0);
    match takes_value && !is_alone {
        true => vec![
            name,
            value_of(sample.command, sample.kind, option.get_id().as_str()).to_owned(),
        ],
        false => vec![name],
    }
}

/// Fails for every option of these samples that is taken without a word and changes nothing.
fn check(samples: &[Sample]) {
    let root = outcore_cli::definition();
    let place = place();
    let mut silent = Vec::new();
    for sample in samples {
        let (base, told) = run(&place, sample, &[]);
        let is_done = matches!(base.code, Some(0 | 1));
        assert!(is_done, "{} {}: {told}", sample.command, sample.kind);
        let command = command_of(&root, sample.command);
        for option in command.get_arguments() {
            let id = option.get_id().as_str();
            let is_asked = !option.is_positional() && !matches!(id, "output" | "help");
            let is_help = matches!(option.get_action(), ArgAction::Help | ArgAction::Version);
            if !is_asked || is_help || is_neutral(sample.command, sample.kind, id) {
                continue;
            }
            let name = name_of(option);
            if sample.words.split(' ').any(|word| word == name) {
                continue;
            }
            let words = words_of(sample, option);
            let (made, told) = run(&place, sample, &words);
            let short = option.get_short().map(|short| format!("-{short} "));
            let names_it = told.contains(&name) || short.is_some_and(|short| told.contains(&short));
            let words = words.join(" ");
            match made.code {
                Some(2) if names_it => {}
                // Then the rest of the line is for another kind, or for other columns.
                Some(2..=4) if SAYS_WHAT.contains(&id) => {}
                _ if made == base => {
                    silent.push(format!(
                        "{} {}: {words} changes nothing",
                        sample.command, sample.kind
                    ));
                }
                Some(0 | 1) => {}
                _ => silent.push(format!(
                    "{} {}: {words} fails with {told}",
                    sample.command, sample.kind
                )),
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

fn command_of<'a>(root: &'a Command, name: &str) -> &'a Command {
    name.split(' ').fold(root, |command, name| {
        let below = command.find_subcommand(name);
        below.unwrap_or_else(|| panic!("no command {name}"))
    })
}

#[test]
fn every_option_of_sort_and_unique_counts_or_is_rejected_by_name() {
    check(&OF_ORDER);
}

#[test]
fn every_option_of_commands_that_move_rows_counts_or_is_rejected_by_name() {
    check(&OF_PLACES);
}

#[test]
fn every_option_of_commands_with_expressions_counts_or_is_rejected_by_name() {
    check(&OF_EXPRESSIONS);
}

#[test]
fn every_option_of_commands_for_tables_and_views_counts_or_is_rejected_by_name() {
    check(&OF_TABLES);
}

#[test]
fn every_command_has_a_sample_of_its_inputs_or_a_reason_for_none() {
    let samples = [&OF_ORDER[..], &OF_PLACES, &OF_EXPRESSIONS, &OF_TABLES].concat_commands();
    let root = outcore_cli::definition();
    for command in root.get_subcommands() {
        let name = command.get_name();
        let is_exempt = EXEMPT.iter().any(|(known, _)| *known == name);
        let below = command.get_subcommands().map(Command::get_name);
        let below: Vec<String> = below.map(|below| format!("{name} {below}")).collect();
        let all = if below.is_empty() {
            vec![name.to_owned()]
        } else {
            below
        };
        for name in all {
            let is_known = samples.contains(&name)
                || is_exempt
                || EXEMPT_BELOW.iter().any(|(known, _)| *known == name);
            assert!(is_known || name == "help", "{name}");
        }
    }
}

/// The commands of several lists.
trait Commands {
    fn concat_commands(&self) -> Vec<String>;
}

impl Commands for [&[Sample]; 4] {
    fn concat_commands(&self) -> Vec<String> {
        let all = self.iter().flat_map(|samples| samples.iter());
        all.map(|sample| sample.command.to_owned()).collect()
    }
}
