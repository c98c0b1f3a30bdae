//! Every option of every command on every kind of input: it changes the output, or is rejected by
//! its name.
//!
//! Contract: options are those of the definition of the flags, so none can be forgotten: one that
//! has no sample value here fails the test. Options that change nothing are listed in
//! `samples::NEUTRAL` or `samples::NEUTRAL_FOR`, each with its reason.

use std::collections::BTreeMap;
use std::fs;

use clap::{Arg, ArgAction, Command};

use crate::npy;
use crate::support::{TestDir, random_u64};
use crate::tables;
use crate::volume;

mod samples;

use samples::*;

/// Inputs of every kind.
fn place() -> TestDir {
    let place = volume::volume_in(TestDir::in_memory());
    write_texts(&place);
    write_numbers(&place);
    place
}

fn write_texts(place: &TestDir) {
    place.write(
        "lines.txt",
        b"b2 z\nB1 y\n a x\n-c w\n10 v\n9 u\n9 u\n2K t\n1M s\nJAN r\nFEB q\nv1.10 p\nv1.9 o\n1e3 n\n\x01x m\n",
    );
    place.write("sorted.txt", b"a\nb\nc\n");
    place.write(
        "rows.csv",
        b"a,b\n10,\"x y\"\n9,\"z\nz\"\n9,\"z\nz\"\n-2,w\n5,x y\n77,u\n41,\"v; v\"\n",
    );
    place.write("few.csv", b"a,b\n9,w\n8,u\n7,x y\n6,v; v\n");
    place.write("bad.csv", b"a,b\n10,x y\n9,w,9\n77,u\n-2,w\n");
    place.write("nulls.csv", b"a,b\n10,x y\nNA,w\n77,NA\n-2,w\n");
    place.write(
        "long.csv",
        b"a,b\n1,u\n9,\"z\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\"\n5,u\n7,u\n",
    );
    place.write(
        "words.csv",
        b"a,b\n1,b\n2,B\n3, b\n4,\x01b\n5,FEB\n6,JAN\n7,\"a\"\n8, A\n9,\x01c\n9,2\n",
    );
    place.write(
        "bad.jsonl",
        b"{\"a\":10,\"b\":\"x y\"}\n{\"a\":9,\"b\n{\"a\":-2,\"b\":\"w\"}\n",
    );
    place.write(
        "rows.jsonl",
        b"{\"a\": 10,\"b\":\"x y\"}\n{\"a\":9,\"b\":\"z\"}\n{\"a\":9,\"b\":\"z\"}\n{\"a\":-2,\"b\":\"w\"}\n\
          {\"a\":5,\"b\":\"v\"}\n{\"a\":6,\"b\":\"u\"}\n{\"a\":7,\"b\":\"t\"}\n",
    );
    place.write(
        "reads.fq",
        b"@b x\nAC\n+\n@+\n@a y\nACGT\n+\nIIII\n@c\nG\n+\n#\n@a z\nACGT\n+\n!!!!\n@d\nGG\n+\n##\n",
    );
    place.write("names0", b"lines.txt\0");
}

/// Numbers, records, tables, and the datasets and views of them.
fn write_numbers(place: &TestDir) {
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
    let falling: Vec<u8> = sorted.rchunks(8).flatten().copied().collect();
    place.write("falling.bin", &falling);
    place.write("bytes.bin", &[[1; 8], [2; 8], [3; 8]].concat());
    place.write("falling.bytes", &[[3; 8], [2; 8], [1; 8]].concat());
    let records = random_u64(16, 5);
    place.write("records.bin", &[&records[..], &records[..16]].concat());
    place.write("one.bin", &[0, 0, 0, 1, 0, 0, 0, 9]);
    place.write("two.bin", &[0, 0, 0, 2, 0, 0, 0, 2]);
    place.write(
        "places.bin",
        &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
    );
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
        .run(&["map", "x % 3", "--integers", "4", "-o", "places.npy"])
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
    let mut fields = npy::header("[('b', '<u4'), ('a', '<u4')]", "(4,)");
    let rows = [[1_u32, 9], [2, 3], [3, 7], [4, 7]];
    fields.extend(
        rows.iter()
            .flatten()
            .flat_map(|number| number.to_le_bytes()),
    );
    place.write("fields.npy", &fields);
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
    let sort = [
        "sort",
        "t.parquet",
        "--by",
        "number:desc",
        "-o",
        "falling.parquet",
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
    volume::run(place, &["volume", "put", "numbers.bin", "@numbers"]).ok();
    volume::run(place, &["volume", "put", "lines.txt", "@lines"]).ok();
}

/// The result of a run: its exit code, its printed output, and all files that it wrote.
#[derive(PartialEq, Eq)]
struct Made {
    code: Option<i32>,
    printed: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

/// Runs a sample with more words, and removes the files that it wrote.
fn run(place: &TestDir, (sample, given): (&Sample, &str), more: &[String]) -> (Made, String) {
    let mut words: Vec<String> = sample.command.split(' ').map(str::to_owned).collect();
    words.extend(given.split(' ').map(str::to_owned));
    if !sample.output.is_empty() {
        words.extend(["-o".to_owned(), sample.output.to_owned()]);
    }
    words.extend(more.iter().cloned());
    // Runs append to this view, so each run has its own.
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
    let inputs: Vec<(String, Vec<u8>)> = before
        .iter()
        .filter(|name| place.path(name).is_file())
        .map(|name| (name.clone(), place.read(name)))
        .collect();
    let answer = place.run(&words);
    let mut files = BTreeMap::new();
    // A removed input counts as a change, and is restored for the next run.
    for (name, bytes) in &inputs {
        if fs::read(place.path(name)).ok().as_ref() != Some(bytes) {
            files.insert(format!("{name} before"), Vec::new());
            place.write(name, bytes);
        }
    }
    for name in place.names() {
        let path = place.path(&name);
        if before.contains(&name) {
            continue;
        }
        if path.is_file() {
            files.insert(name, fs::read(&path).unwrap());
            fs::remove_file(path).unwrap();
        } else {
            // For a view, its contents; for parts, all files.
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
    // For some commands, `new.iotrace` is an input.
    files.retain(|name, _| name != "new.iotrace");
    let made = Made {
        code: answer.code,
        printed: answer.stdout,
        files,
    };
    (made, answer.stderr)
}

/// The words of a sample for an option.
fn other_words(sample: &Sample, id: &str) -> String {
    let fits = |wanted: &str, given: &str| wanted == "*" || wanted == given;
    let found = OTHER_WORDS.iter().find(|(command, kind, option, ..)| {
        fits(command, sample.command) && fits(kind, sample.kind) && *option == id
    });
    match found {
        Some((.., from, to)) => sample.words.replace(from, to),
        None => sample.words.to_owned(),
    }
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
fn words_of(sample: &Sample, option: &Arg) -> Option<Vec<String>> {
    let name = name_of(option);
    let takes_value = option.get_action().takes_values();
    let is_alone = option
        .get_num_args()
        .is_some_and(|range| range.min_values() == 0);
    let mut words = vec![name];
    if takes_value && !is_alone {
        words.push(value_of(sample.command, sample.kind, option.get_id().as_str())?.to_owned());
    }
    Some(words)
}

/// Fails for every option of these samples that is accepted silently and changes nothing.
fn check(samples: &[Sample]) {
    let root = outcore_cli::definition();
    let place = place();
    let mut silent = Vec::new();
    for sample in samples {
        let (base, told) = run(&place, (sample, sample.words), &[]);
        let is_done = matches!(base.code, Some(0 | 1));
        if !is_done {
            silent.push(format!("{} {}: {told}", sample.command, sample.kind));
            continue;
        }
        let command = command_of(&root, sample.command);
        for option in command.get_arguments() {
            let id = option.get_id().as_str();
            // Hidden options are not offered to users.
            let is_shown = !option.is_positional() && !option.is_hide_set();
            let is_asked = is_shown && !matches!(id, "output" | "help");
            let is_help = matches!(option.get_action(), ArgAction::Help | ArgAction::Version);
            if !is_asked || is_help || is_neutral(sample.command, sample.kind, id) {
                continue;
            }
            let name = name_of(option);
            if sample.words.split(' ').any(|word| word == name) {
                continue;
            }
            let Some(words) = words_of(sample, option) else {
                silent.push(format!(
                    "{} {}: no sample value for {name}",
                    sample.command, sample.kind
                ));
                continue;
            };
            let given = other_words(sample, id);
            let other = (given != sample.words).then(|| run(&place, (sample, &given), &[]).0);
            let base = other.as_ref().unwrap_or(&base);
            let (made, told) = run(&place, (sample, &given), &words);
            let short = option.get_short().map(|short| format!("-{short} "));
            // `--sort numeric` is another spelling of `--numeric-sort`.
            let names_it = told.contains(&name)
                || short.is_some_and(|short| told.contains(&short))
                || id == "word" && told.contains("--numeric-sort");
            let words = words.join(" ");
            match made.code {
                Some(2) if names_it => {}
                // An option that sets the kind or the columns may make the rest of the line
                // invalid.
                Some(2..=4) if SAYS_WHAT.contains(&id) => {}
                _ if made == *base => {
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
