//! Every verb, with little memory, on Parquet and Arrow tables with long values, pages and
//! dictionaries, and on text with a long line.
//!
//! Contract: a verb that gets 64 MiB succeeds in a cgroup of 64 MiB more, or fails with an error
//! that names an amount of memory. With that amount, it succeeds in a cgroup of 64 MiB more than
//! the amount. Nothing is killed. If no cgroup of version 1 can be made, the test does not check
//! the cap, and says so. `MEMORY_GRID=all` runs every verb on every table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::support::{Answer, TestDir};

const MIB: u64 = 1 << 20;
/// The bytes that a job may take beyond its memory.
const BESIDE_BYTES: u64 = 64 * MIB;
/// The exit code of an error of memory.
const MEMORY: i32 = 6;
const ALL: &str = "MEMORY_GRID";

/// Every verb of tables that reads and writes values, by name, with `IN` for the table.
const VERBS: [(&str, &str); 48] = [
    ("sort", "sort IN -o o.parquet --by id"),
    ("sort by the long column", "sort IN -o o.parquet --by v"),
    ("sort to Arrow", "sort IN -o o.arrow --by id"),
    ("sort to CSV", "sort IN -o o.csv --by id"),
    ("unique", "unique IN -o o.parquet"),
    ("shuffle", "shuffle IN -o o.parquet"),
    ("dedup", "dedup IN -o o.parquet --by id"),
    ("dedup by all columns", "dedup IN -o o.parquet"),
    ("group-by", "group-by IN -o o.parquet --by k --agg n=count"),
    (
        "group-by the long column",
        "group-by IN -o o.parquet --by v --agg n=count",
    ),
    (
        "group-by with values",
        "group-by IN -o o.parquet --by k --agg m=max(v)",
    ),
    (
        "group-by with distinct values",
        "group-by IN -o o.parquet --by k --agg m=count_distinct(v)",
    ),
    (
        "group-by of all rows",
        "group-by IN -o o.parquet --agg arg_max(v,id),min(v),sum(length(v))",
    ),
    (
        "group-by of an expression",
        "group-by IN -o o.parquet --by k --agg m=max(concat(v,v)),f=first(upper(v))",
    ),
    (
        "window that repeats long values",
        "window IN -o o.parquet --order id --add f=first(v),m=cum_max(v),n=cum_min(v)",
    ),
    (
        "join that repeats long values",
        "join IN IN -o o.parquet --on k",
    ),
    (
        "window",
        "window IN -o o.parquet --by k --order id --add n=row_number",
    ),
    (
        "window that looks back",
        "window IN -o o.parquet --by k --order id --add n=lag(id,9)",
    ),
    (
        "window that looks at long values",
        "window IN -o o.parquet --order id --add n=lag(v,2)",
    ),
    (
        "window of the long column",
        "window IN -o o.parquet --by v --order id --add n=row_number",
    ),
    (
        "window in the order of the long column",
        "window IN -o o.parquet --by k --order v --add n=rank",
    ),
    ("dedup by the long column", "dedup IN -o o.parquet --by v"),
    ("join by the long column", "join IN IN -o o.parquet --on v"),
    ("diff by the long column", "diff IN IN -o o.parquet --by v"),
    (
        "shuffle by the long column",
        "shuffle IN -o o.parquet --by v",
    ),
    (
        "head by the long column",
        "head IN -n 3 --by v -o o.parquet",
    ),
    ("verify the long column", "verify IN --by v"),
    ("view by the long column", "view build IN -o view --by v"),
    ("map", "map w=upper(v) IN -o o.parquet"),
    ("join", "join IN IN -o o.parquet --on id"),
    ("diff", "diff IN IN -o o.parquet --by id"),
    ("comm", "comm -12 IN IN -o o.parquet --by id"),
    ("semi join", "join IN IN -o o.parquet --on id --how semi"),
    ("split", "split IN --by k -o parts"),
    ("parts", "convert IN -o parts --parts 2"),
    ("head", "head IN -n 3 -o o.parquet"),
    ("head by a column", "head IN -n 3 --by id -o o.parquet"),
    ("convert", "convert IN -o o.parquet"),
    ("convert to CSV", "convert IN -o o.csv"),
    ("convert to JSON lines", "convert IN -o o.jsonl"),
    ("convert to Arrow", "convert IN -o o.arrow"),
    ("filter", "filter id>=2 IN -o o.parquet"),
    ("verify", "verify IN --by id"),
    ("view", "view build IN -o view --by id"),
    ("tail", "tail IN -n 3 -o o.parquet"),
    ("sample", "sample IN -n 3 -o o.parquet"),
    ("merge", "merge IN -o o.parquet --by id"),
    ("count-by", "count-by k IN -o o.parquet"),
];

/// Tests run at the same time.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A group of processes with a cap of memory.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` if the system or the user has no cgroups.
    fn new(limit_bytes: u64) -> Option<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("outcore-test-{}-{number}", std::process::id());
        let dir = Path::new("/sys/fs/cgroup/memory").join(name);
        fs::create_dir(&dir).ok()?;
        let group = Cgroup(dir);
        let limit = group.0.join("memory.limit_in_bytes");
        fs::write(limit, limit_bytes.to_string()).ok()?;
        Some(group)
    }

    /// The command, which enters the group before it does anything else.
    fn command(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg("echo $$ > \"$0\" && exec \"$@\"");
        command.arg(self.0.join("cgroup.procs"));
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = inner.get_current_dir() {
            command.current_dir(dir);
        }
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Text that does not compress.
fn noise(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    (0..len).map(letter).collect()
}

/// Rows `id`, `k`, `v`; the values of `v` come from `value`.
fn table(rows: i64, value: impl Fn(i64) -> String) -> RecordBatch {
    let id = Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % rows));
    let k: StringArray = (0..rows).map(|row| Some(format!("k{}", row % 3))).collect();
    let v: StringArray = (0..rows).map(|row| Some(value(row))).collect();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Utf8, false),
        Field::new("v", DataType::Utf8, false),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(id), Arc::new(k), Arc::new(v)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Runs a verb with this much memory, inside the cap if there can be one.
fn run(place: &TestDir, verb: &str, input: &str, memory_bytes: u64) -> Answer {
    for name in place.names().iter().filter(|name| *name != input) {
        let path = place.path(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.unwrap();
    }
    let memory = format!("{}MiB", memory_bytes / MIB);
    let words = verb.split(' ');
    let mut arguments: Vec<&str> = words
        .map(|word| if word == "IN" { input } else { word })
        .collect();
    arguments.extend(["--memory", &memory]);
    let without_threads = ["head", "tail", "sample", "view cat"];
    if !without_threads.iter().any(|name| verb.starts_with(name)) {
        arguments.extend(["--threads", "2"]);
    }
    let command = place.command(&arguments);
    let answer = match Cgroup::new(memory_bytes + BESIDE_BYTES) {
        Some(group) => group.command(&command).output().unwrap(),
        None => {
            println!("SKIP: no cgroup of version 1 can be made here, so {verb} has no cap");
            { command }.output().unwrap()
        }
    };
    Answer::of(answer)
}

/// The amount of memory that a hint names.
fn named_bytes(answer: &Answer) -> u64 {
    let mut words = answer.stderr.split_whitespace();
    words.find(|word| *word == "--memory");
    let amount = words.next().unwrap_or_default();
    let amount = amount.trim_end_matches([',', ';', '.']);
    let (number, unit) = match amount.strip_suffix("GiB") {
        Some(number) => (number, 1024 * MIB),
        None => (amount.strip_suffix("MiB").unwrap_or_default(), MIB),
    };
    let number: u64 = number
        .parse()
        .unwrap_or_else(|_| panic!("no amount: {answer:?}"));
    number * unit
}

/// Runs verbs on one table: each must succeed, if necessary with the amount above 64 MiB that its
/// error names.
fn all_end(name: &str, batch: &RecordBatch, properties: WriterProperties, verbs: &[&str]) {
    let place = TestDir::new();
    write(&place.path("in.parquet"), batch, properties);
    all_end_on(&place, name, "in.parquet", verbs);
}

/// As [`all_end`], on a table that already exists.
fn all_end_on(place: &TestDir, name: &str, input: &str, verbs: &[&str]) {
    let is_all = std::env::var(ALL).is_ok_and(|value| value == "all");
    for (verb, arguments) in VERBS {
        if !is_all && !verbs.is_empty() && !verbs.contains(&verb) {
            continue;
        }
        let mut answer = run(place, arguments, input, 64 * MIB);
        if answer.code == Some(MEMORY) {
            let enough_bytes = named_bytes(&answer);
            eprintln!("{verb} on {name} asks for {} MiB", enough_bytes / MIB);
            answer = run(place, arguments, input, enough_bytes);
        }
        let ended = match verb {
            // Rows are in no order.
            "verify" | "verify the long column" => answer.code == Some(1) || answer.code == Some(0),
            "merge" => answer.code == Some(4) || answer.code == Some(0),
            _ => answer.code == Some(0),
        };
        assert!(ended, "{verb} on {name}: {answer:?}");
    }
}

fn one_value_a_page() -> WriterProperties {
    WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(1)
        .build()
}

#[test]
fn every_verb_keeps_to_its_memory_where_values_are_long() {
    let batch = table(30, |row| noise(row as u64 + 1, 1_500_000));
    all_end("pages of one value", &batch, one_value_a_page(), &[]);
}

#[test]
fn every_verb_of_tables_is_in_the_grid() {
    let command = outcore_cli::definition();
    let takes_columns = |verb: &&clap::Command| {
        let mut options = verb.get_arguments();
        options.any(|option| option.get_id() == "columns" && option.get_long().is_some())
    };
    let verbs = command.get_subcommands().filter(takes_columns);
    let is_absent = |name: &&str| {
        let mut words = VERBS.iter().map(|(_, line)| line.split(' ').next());
        !words.any(|word| word == Some(name))
    };
    let absent: Vec<&str> = verbs
        .map(clap::Command::get_name)
        .filter(is_absent)
        .collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn many_files_are_read_in_little_memory() {
    let place = TestDir::new();
    let dir = place.path("in");
    fs::create_dir(&dir).unwrap();
    let first = dir.join("0000.parquet");
    write(
        &first,
        &table(2, |row| noise(row as u64, 20)),
        WriterProperties::default(),
    );
    for number in 1..1500 {
        fs::hard_link(&first, dir.join(format!("{number:04}.parquet"))).unwrap();
    }
    let verbs = [
        "sort", "unique", "shuffle", "dedup", "group-by", "window", "join", "diff", "comm",
        "split", "head", "tail", "sample", "merge", "count-by", "convert", "filter", "map",
        "verify", "view",
    ];
    all_end_on(&place, "many files", "in", &verbs);
}

#[test]
fn a_long_value_that_an_output_repeats_is_in_memory_a_few_times() {
    // The greatest text, in the first row.
    let batch = table(240, |row| match row {
        0 => "z".repeat(4_000_000),
        _ => noise(row as u64, 20),
    });
    let verbs = [
        "window that repeats long values",
        "join that repeats long values",
        "group-by of all rows",
        "group-by of an expression",
    ];
    all_end("one long value", &batch, one_value_a_page(), &verbs);
}

#[test]
fn a_dictionary_of_long_values_that_rows_repeat_is_not_decoded_at_once() {
    let batch = table(120, |row| "x".repeat(1_000_000 + (row % 2) as usize));
    let verbs = [
        "sort",
        "shuffle",
        "unique",
        "convert",
        "group-by with values",
    ];
    all_end(
        "repeated values",
        &batch,
        WriterProperties::default(),
        &verbs,
    );
}

#[test]
fn an_error_of_memory_names_an_amount_that_is_enough() {
    let batch = table(3, |row| noise(row as u64 + 1, 12_000_000));
    let verbs = [
        "sort",
        "sort by the long column",
        "shuffle",
        "join",
        "window",
        "window that looks back",
        "group-by with values",
        "convert",
        "view",
    ];
    all_end(
        "one long dictionary",
        &batch,
        WriterProperties::default(),
        &verbs,
    );
}

#[test]
fn a_row_group_whose_columns_are_one_page_each_is_read_in_64_mib() {
    let batch = table(122_880, |row| noise(row as u64 + 1, 33));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(100 << 20)
        .set_data_page_row_count_limit(usize::MAX)
        .build();
    let place = TestDir::new();
    write(&place.path("in.parquet"), &batch, properties);
    for verb in ["sort", "shuffle", "join", "window", "view"] {
        let (_, arguments) = VERBS.iter().find(|(name, _)| *name == verb).unwrap();
        run(&place, arguments, "in.parquet", 64 * MIB).ok();
    }
}

/// Writes a table to a file of Arrow, a row in each batch.
fn write_arrow(path: &Path, batch: &RecordBatch, compression: Option<CompressionType>) {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let file = fs::File::create(path).unwrap();
    let writer = FileWriter::try_new_with_options(file, &batch.schema(), options.unwrap());
    let mut writer = writer.unwrap();
    for row in 0..batch.num_rows() {
        writer.write(&batch.slice(row, 1)).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn long_values_of_arrow_are_read_in_the_memory_that_is_named_for_them() {
    let place = TestDir::new();
    let batch = table(4, |row| noise(row as u64 + 1, 12_000_000));
    write_arrow(&place.path("in.arrow"), &batch, None);
    let verbs = [
        "sort",
        "group-by with values",
        "window that looks at long values",
        "join",
        "diff",
        "comm",
        "semi join",
        "split",
        "head by a column",
        "view",
        "convert",
    ];
    all_end_on(&place, "Arrow", "in.arrow", &verbs);
}

#[test]
fn a_memory_that_is_named_for_a_long_key_is_enough() {
    let place = TestDir::new();
    let batch = table(4, |row| noise(row as u64 / 2 + 1, 8_000_000));
    write_arrow(&place.path("in.arrow"), &batch, None);
    let verbs = [
        "sort by the long column",
        "unique",
        "dedup by the long column",
        "group-by the long column",
        "window of the long column",
        "window in the order of the long column",
        "join by the long column",
        "diff by the long column",
        "head by the long column",
        "verify the long column",
        "view by the long column",
    ];
    all_end_on(&place, "long keys", "in.arrow", &verbs);
}

#[test]
fn compressed_batches_of_long_values_say_how_long_they_are() {
    let place = TestDir::new();
    let batch = table(4, |row| noise(row as u64 + 1, 1 << 20).repeat(12));
    let packed = Some(CompressionType::LZ4_FRAME);
    write_arrow(&place.path("in.arrow"), &batch, packed);
    let verbs = ["sort", "join", "view"];
    all_end_on(&place, "compressed", "in.arrow", &verbs);
}

/// Verbs of text, with a directory `in` for `IN`, and the number of copies of the long line that
/// they hold.
const TEXT_VERBS: [(&str, u64); 9] = [
    ("sort in/a.txt -o o.txt", 1),
    ("sort -r in/a.txt -o o.txt", 1),
    ("sort -u in/a.txt -o o.txt", 1),
    ("unique in/a.txt -o o.txt", 1),
    ("shuffle in/a.txt -o o.txt", 1),
    ("sort -m in/b.txt in/c.txt -o o.txt", 1),
    ("sort -c in/b.txt", 1),
    // The line, and its key, which may be equally long.
    ("sort -s -k2,2n in/a.txt -o o.txt", 2),
    // Blocks of the files may take half of the memory.
    ("sort -m -k1,1 in/b.txt in/c.txt -o o.txt", 3),
];

/// Writes `in/a.txt`, which has one long line of noise among short ones. `in/b.txt` has the same
/// lines in order, and `in/c.txt` has short lines in order.
fn write_text(place: &TestDir, long_bytes: usize) {
    let short =
        |from: u64| (from..from + 3000).map(|number| noise(number, 20 + number as usize % 9));
    let mut lines: Vec<String> = short(1).collect();
    lines.insert(1234, noise(99, 1 << 20).repeat(long_bytes >> 20));
    let write = |name: &str, lines: &[String]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(place.path(name), text).unwrap();
    };
    fs::create_dir(place.path("in")).unwrap();
    write("in/a.txt", &lines);
    lines.sort();
    write("in/b.txt", &lines);
    let mut others: Vec<String> = short(9000).collect();
    others.sort();
    write("in/c.txt", &others);
}

/// Lines of the output in order: of all files that a verb names.
fn sorted_lines(place: &TestDir, names: &[&str]) -> Vec<Vec<u8>> {
    let bytes = names
        .iter()
        .flat_map(|name| fs::read(place.path(name)).unwrap());
    let bytes: Vec<u8> = bytes.collect();
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    lines.sort();
    lines
}

#[test]
fn one_long_line_takes_about_its_length_of_memory() {
    const LONG_MIB: u64 = 40;
    let place = TestDir::new();
    write_text(&place, (LONG_MIB * MIB) as usize);
    for (verb, copies) in TEXT_VERBS {
        run(&place, verb, "in", (copies * LONG_MIB + 64) * MIB).ok();
        let names: Vec<&str> = verb
            .split(' ')
            .filter(|word| word.starts_with("in/"))
            .collect();
        if verb.contains("-o o.txt") {
            let got = sorted_lines(&place, &["o.txt"]);
            assert!(got == sorted_lines(&place, &names), "{verb}");
        }
        if verb.starts_with("sort in/") || verb.contains("-m in/") {
            let got = fs::read(place.path("o.txt")).unwrap();
            assert!(got == sorted_lines(&place, &names).concat(), "{verb}");
        }
    }
}

#[test]
fn an_error_about_a_long_line_names_an_amount_that_is_enough() {
    let place = TestDir::new();
    write_text(&place, 50 << 20);
    let verbs = TEXT_VERBS.map(|(verb, _)| verb);
    for verb in verbs
        .into_iter()
        .chain(["view build in/a.txt -o view --lines"])
    {
        let answer = run(&place, verb, "in", 32 * MIB);
        assert_eq!(answer.code, Some(MEMORY), "{verb}: {answer:?}");
        let enough_bytes = named_bytes(&answer);
        eprintln!("{verb} asks for {} MiB", enough_bytes / MIB);
        assert!(enough_bytes < 512 * MIB, "{verb}: {answer:?}");
        run(&place, verb, "in", enough_bytes).ok();
    }
}

/// Verbs that move records. Each has the rows that it writes, given nine rows as input.
const ROW_VERBS: [(&str, &[u8]); 5] = [
    ("head -n 2 in/rows.npy -o o.npy", &[0, 1]),
    (
        "gather in/rows.npy --at in/places.npy -o o.npy",
        &[7, 2, 2, 8],
    ),
    ("reverse in/rows.npy -o o.npy", &[8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (
        "sample -n 9 in/rows.npy -o o.npy",
        &[0, 1, 2, 3, 4, 5, 6, 7, 8],
    ),
    ("shuffle in/rows.npy -o o.npy --seed 3", &[]),
];

/// A file of NumPy.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(117 - header.len()));
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(data);
    bytes
}

#[test]
fn rows_of_12_mib_are_moved_in_little_memory() {
    const ROW_BYTES: usize = 12 << 20;
    let place = TestDir::new();
    fs::create_dir(place.path("in")).unwrap();
    let rows: Vec<u8> = (0..9).flat_map(|row| vec![row; ROW_BYTES]).collect();
    fs::write(
        place.path("in/rows.npy"),
        npy("<f4", "(9, 3, 1024, 1024)", &rows),
    )
    .unwrap();
    let places: Vec<u8> = [7_i64, 2, 2, 8]
        .iter()
        .flat_map(|place| place.to_le_bytes())
        .collect();
    fs::write(place.path("in/places.npy"), npy("<i8", "(4,)", &places)).unwrap();
    for (verb, wanted) in ROW_VERBS {
        let mut answer = run(&place, verb, "in", 64 * MIB);
        if answer.code == Some(MEMORY) {
            let enough_bytes = named_bytes(&answer);
            eprintln!("{verb} asks for {} MiB", enough_bytes / MIB);
            answer = run(&place, verb, "in", enough_bytes);
        }
        answer.ok();
        let got = fs::read(place.path("o.npy")).unwrap();
        let got: Vec<&[u8]> = got[got.len() % ROW_BYTES..].chunks(ROW_BYTES).collect();
        let mut firsts: Vec<u8> = got.iter().map(|row| row[0]).collect();
        let is_whole = |row: &&[u8]| row.iter().all(|byte| *byte == row[0]);
        assert!(got.iter().all(is_whole), "{verb}");
        if verb.starts_with("shuffle") {
            assert_ne!(firsts, [0, 1, 2, 3, 4, 5, 6, 7, 8], "{verb}");
            firsts.sort_unstable();
        }
        let all: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8];
        let wanted = if wanted.is_empty() { all } else { wanted };
        assert_eq!(firsts, wanted, "{verb}");
    }
}

#[test]
fn a_merge_in_passes_keeps_to_the_limit_of_scratch() {
    let place = TestDir::new();
    let names: Vec<String> = (0..80).map(|number| format!("f{number:02}")).collect();
    for name in &names {
        fs::write(place.path(name), format!("{name}\n").repeat(100)).unwrap();
    }
    let mut arguments = vec![
        "sort",
        "-m",
        "-o",
        "o",
        "--memory",
        "4MiB",
        "--scratch-limit",
    ];
    arguments.push("10KiB");
    arguments.extend(names.iter().map(String::as_str));
    let answer = place.run(&arguments);
    answer.fails(5, &["merge in passes"], "--scratch-limit");
    arguments[7] = "1MiB";
    place.run(&arguments).ok();
    assert_eq!(fs::read(place.path("o")).unwrap().len(), 80 * 400);
}

#[test]
fn reading_a_view_of_long_rows_names_an_amount_that_is_enough() {
    let place = TestDir::new();
    fs::create_dir(place.path("in")).unwrap();
    let batch = table(3, |row| noise(row as u64 + 1, 1 << 20).repeat(12));
    write(&place.path("in/t.parquet"), &batch, one_value_a_page());
    let build = "view build in/t.parquet -o in/v --by id --memory 2GiB";
    place.run(&build.split(' ').collect::<Vec<_>>()).ok();
    for verb in ["view cat in/v", "view cat in/v --range 1..2"] {
        let mut answer = run(&place, verb, "in", 64 * MIB);
        if answer.code == Some(MEMORY) {
            let enough_bytes = named_bytes(&answer);
            eprintln!("{verb} asks for {} MiB", enough_bytes / MIB);
            answer = run(&place, verb, "in", enough_bytes);
        }
        answer.ok();
    }
}
