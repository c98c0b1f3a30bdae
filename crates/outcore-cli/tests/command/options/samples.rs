//! Commands on every kind of input, values for their options, and the options that change nothing.
//!
//! Contract: every exception names its reason.

/// Options that change no result, and why; `*` stands for every kind.
pub(super) const NEUTRAL: [(&str, &str); 26] = [
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
pub(super) const NEUTRAL_FOR: [(&str, &str, &str, &str); 34] = [
    (
        "lookup",
        "lines",
        "lines",
        "says what the input is taken for anyhow",
    ),
    (
        "count-by",
        "table",
        "columns",
        "other columns are not in the result anyhow",
    ),
    (
        "reverse",
        "npy",
        "keys",
        "a part of what a record is, and no order is made",
    ),
    (
        "unique",
        "dataset",
        "separator",
        "fields are only of keys, and no key is given",
    ),
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

/// Pairs that are ignored today, which is a fault: command, kind, option, and what is wrong.
pub(super) const FAULTS_LEFT: [(&str, &str, &str, &str); 3] = [
    (
        "sort",
        "csv",
        "ignore_leading_blanks",
        "-b has no effect on the column of --by",
    ),
    (
        "unique",
        "csv",
        "ignore_leading_blanks",
        "-b has no effect on the column of --by",
    ),
    (
        "info",
        "jsonl table",
        "on_error",
        "a line that is no JSON fails, though convert skips it",
    ),
];

/// Options that show only on other words of a sample: command, kind, option, words and what is in
/// their place. Where the new words fail without the option, it counts if they succeed with it.
pub(super) const OTHER_WORDS: [(&str, &str, &str, &str, &str); 23] = [
    ("*", "csv table", "on_error", "rows.csv", "bad.csv"),
    ("*", "jsonl table", "on_error", "rows.jsonl", "bad.jsonl"),
    ("*", "csv table", "null", "rows.csv", "nulls.csv"),
    ("*", "csv", "null", "rows.csv", "nulls.csv"),
    ("map", "*", "zip", "x*2", "x+y"),
    ("filter", "records", "zip", "key0>9", "x.key0>9"),
    ("filter", "npy", "zip", "x>9", "y>9"),
    ("count-by", "*", "zip", "x%3", "(x+y)%3"),
    ("flat-map", "*", "zip", "x,x+1", "x,y"),
    ("find", "*", "zip", "x>9", "y>9"),
    ("reduce", "*", "zip", "sum", "sum --map x+y"),
    ("scan", "*", "zip", "sum", "sum --map x+y"),
    (
        "histogram",
        "*",
        "zip",
        "numbers.bin",
        "numbers.bin --map x+y",
    ),
    ("top", "*", "zip", "3", "3 --map x+y"),
    (
        "merge",
        "table",
        "descending",
        "sorted.parquet",
        "falling.parquet",
    ),
    (
        "merge",
        "records",
        "keys",
        "sorted.bin sorted.bin",
        "one.bin two.bin",
    ),
    ("gather", "*", "positions_type", "places.npy", "places.bin"),
    (
        "sort",
        "csv",
        "ignore_leading_blanks",
        "--by a rows.csv",
        "--by b words.csv",
    ),
    (
        "sort",
        "csv",
        "ignore_case",
        "--by a rows.csv",
        "--by b words.csv",
    ),
    (
        "sort",
        "csv",
        "ignore_nonprinting",
        "--by a rows.csv",
        "--by b words.csv",
    ),
    (
        "sort",
        "csv",
        "month_sort",
        "--by a rows.csv",
        "--by b words.csv",
    ),
    ("sort", "table", "unique", "--by number", "--by name"),
    ("split", "csv", "separator", "rows.csv", "long.csv"),
];

/// Options that say what an input is, or how it is read: what is wrong after them may be something
/// else.
pub(super) const SAYS_WHAT: [&str; 11] = [
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
pub(super) const EXEMPT: [(&str, &str); 20] = [
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
pub(super) struct Sample {
    pub(super) command: &'static str,
    pub(super) kind: &'static str,
    /// Words before the output.
    pub(super) words: &'static str,
    /// Where the result goes; standard output without.
    pub(super) output: &'static str,
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

pub(super) const OF_ORDER: [Sample; 19] = [
    sample("sort", "lines", "lines.txt", "out"),
    sample("sort", "csv", "--csv --by a rows.csv", "out.csv"),
    sample("sort", "jsonl", "--jsonl --by a rows.jsonl", "out.jsonl"),
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
    sample("unique", "csv", "--csv --by b words.csv", "out.csv"),
    sample("unique", "jsonl", "--jsonl --by a rows.jsonl", "out.jsonl"),
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

pub(super) const OF_PLACES: [Sample; 33] = [
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
    sample("head", "table", "t.parquet -n 5", "out.parquet"),
    sample("head", "csv table", "rows.csv --infer -n 5", "out.parquet"),
    sample("sample", "lines", "lines.txt -n 4", "out"),
    sample("sample", "csv", "rows.csv -n 3", "out.csv"),
    sample("sample", "jsonl", "rows.jsonl -n 3", "out.jsonl"),
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

pub(super) const OF_EXPRESSIONS: [Sample; 37] = [
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

pub(super) const OF_TABLES: [Sample; 20] = [
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
pub(super) const EXEMPT_BELOW: [(&str, &str); 2] = [
    ("view mount", "serves until it is stopped"),
    ("view guard", "is for outcore itself"),
];

/// A value for each option that takes one, by what the definition calls it.
pub(super) fn value_of(command: &str, kind: &str, id: &str) -> Option<&'static str> {
    let value = match (command, id) {
        ("sort" | "unique" | "view build", "by") if kind == "table" => "name",
        ("diff", "bloom_filters") => "number",
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
        ("merge", "keys") => "4:4",
        ("gather", "positions_type") => "u32",
        (_, id) => return common_value_of(kind, id),
    };
    Some(value)
}

/// The value that an option has with every command.
fn common_value_of(kind: &str, id: &str) -> Option<&'static str> {
    let value = match id {
        "format" => "u32",
        "record_bytes" => "8",
        "keys" => "0:4",
        "line_keys" => "2",
        "separator" => ";",
        "word" => "numeric",
        "by" | "columns" | "on" | "bloom_filters" | "near" | "of" => "a",
        "on_error" => "skip",
        "null" => "NA",
        "codec" => "gzip",
        "group_rows" | "parts" | "part_lines" | "k" | "first" | "records" => "2",
        "schema" => "a:text",
        "from" => "csv",
        "to" => "jsonl",
        "seed" => "77",
        "epoch" => "3",
        "against" => "numbers.bin",
        "zip" if kind == "npy" => "sorted.npy",
        "zip" if kind == "records" => "records.bin",
        "zip" => "sorted.bin",
        "count" => "5",
        "conditions" if kind.ends_with("table") => "false",
        "conditions" if kind == "records" => "key0<9000000000000000000",
        "conditions" => "x<99",
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
        _ => return None,
    };
    Some(value)
}
