//! Tests of the translation of GNU sort's words, case by case.
//!
//! Contract: each case has the words that a user of GNU sort types, and the expected words of the
//! definition. Every option of GNU sort is in the definition.

use super::*;

fn read_line(words: &[&str]) -> Result<Read> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut definition = definition_for(&words);
    read(words, &mut definition)
}

#[track_caller]
fn check(words: &[&str], wanted: &[&str]) {
    let wanted: Vec<OsString> = wanted.iter().map(OsString::from).collect();
    let is_it = matches!(read_line(words).unwrap(), Read::Words(got) if got == wanted);
    assert!(is_it, "{words:?}");
}

#[test]
fn every_option_of_gnu_sort_is_one_of_the_definition() {
    let mut root = definition_for(&[NAME.into()]);
    root.build();
    let sort = root.find_subcommand(NAME).unwrap();
    let has = |id: &str| sort.get_arguments().any(|flag| flag.get_id() == id);
    for (long, id) in LONGS {
        assert!(has(id) || id == VERSION, "--{long}");
    }
    for (_, id) in WORDS {
        assert!(has(id), "{id}");
    }
}

#[test]
fn an_option_is_no_name_of_a_file_unless_it_is_written_as_one() {
    for words in [
        &["--record-io", "--help"][..],
        &["-o", "--unique", "in"],
        &["in", "-u", "-T", "--stable"],
    ] {
        let words = [&["outcore", "sort"], words].concat();
        let error = read_line(&words).unwrap_err();
        let hint = error.next_step().unwrap_or_default();
        assert!(error.cause().contains("needs a name"), "{error}");
        assert!(hint.contains("=./--"), "{hint}");
    }
    // GNU's sort accepts `-o --help`, and every command accepts an option and its value in one
    // word.
    check(
        &["sort", "-o", "--help"],
        &["sort", "sort", "--output=--help", "--"],
    );
    check(
        &["outcore", "sort", "--record-io=--help", "-o--", "in"],
        &[
            "outcore",
            "sort",
            "--record-io=--help",
            "--output=--",
            "--",
            "in",
        ],
    );
}

#[test]
fn words_are_what_they_are_by_the_definition() {
    check(
        &["outcore", "sort", "-k1,1", "-to", "@a", "-o", "@c"],
        &[
            "outcore",
            "sort",
            "-k",
            "1,1",
            "--field-separator=o",
            "--output=@c",
            "--",
            "@a",
        ],
    );
    check(
        &[
            "/usr/bin/sort",
            "-nru",
            "--rev",
            "a",
            "-t",
            "-n",
            "--",
            "+1",
            "-",
        ],
        &[
            "/usr/bin/sort",
            "sort",
            "--numeric-sort",
            "--descending",
            "--unique",
            "--field-separator=-n",
            "--",
            "a",
            "+1",
            "-",
        ],
    );
    // The words of other commands stay unchanged.
    check(&["outcore", "head", "+1"], &["outcore", "head", "+1"]);
    check(
        &["outcore", "--color", "sort", "ls"],
        &["outcore", "--color", "sort", "ls"],
    );
    check(
        &["outcore", "-q", "--color", "never", "sort", "--uni"],
        &[
            "outcore", "-q", "--color", "never", "sort", "--unique", "--",
        ],
    );
}

#[test]
fn old_keys_become_new_ones_where_they_stand_and_files_stay_files() {
    check(
        &["outcore", "sort", "+1", "-2", "-k3", "-u", "+x", "+0n"],
        &[
            "outcore",
            "sort",
            "--old-key=0",
            "-k",
            "2.1,2.0",
            "-k",
            "3",
            "--unique",
            "--old-key=2",
            "-k",
            "1.1n",
            "--",
            "+x",
        ],
    );
    check(
        &["sort", "--key=2", "-k1,1", "--key", "3n"],
        &["sort", "sort", "-k", "2", "-k", "1,1", "-k", "3n", "--"],
    );
    // A key of records stays a key of records.
    check(
        &["outcore", "sort", "--key", "0:8", "a"],
        &["outcore", "sort", "--key=0:8", "--", "a"],
    );
    check(
        &["outcore", "sort", "-y", "100", "-y7", "-y", "a"],
        &["outcore", "sort", "--", "a"],
    );
}

#[test]
fn abbreviations_are_those_of_gnu_sort_first() {
    for (short, long) in [
        ("--re", "--descending"),
        ("--st", "--stable"),
        ("--n", "--numeric-sort"),
        ("--i-am-none", "--i-am-none"),
        ("--ty=u8", "--type=u8"),
        ("--sort=n", "--numeric-sort"),
        ("--sort=human", "--human-numeric-sort"),
        ("--ch", "-c"),
        ("--check=q", "-C"),
        ("--check=diag", "-c"),
        ("--p=1", "--parallel=1"),
    ] {
        check(
            &["outcore", "sort", short],
            &["outcore", "sort", long, "--"],
        );
    }
    for (words, cause) in [
        (
            &["--s"][..],
            "ambiguous; possibilities: '--sort' '--stable'",
        ),
        (
            &["--m"],
            "ambiguous; possibilities: '--merge' '--month-sort'",
        ),
        (&["--t"], ""),
        (&["--sort=x"], "invalid argument 'x' for '--sort'"),
        (&["--key"], "option '--key' requires an argument"),
        (&["-k"], "option requires an argument -- 'k'"),
        (&["--unique=1"], "doesn't allow an argument"),
        (&["--batch-size=0"], "invalid --batch-size argument '0'"),
        (&["--batch-size=x"], "invalid --batch-size argument 'x'"),
        (&["--batch-size=99999999999999999999"], "too large"),
        (&["--parallel=0"], "must be nonzero"),
        (&["--parallel=-1"], "invalid --parallel argument '-1'"),
        (&["-o", "a", "-o", "b"], "multiple output files specified"),
        (&["-t:", "-t,"], "incompatible tabs"),
        (&["-cC"], "options '-cC' are incompatible"),
        (&["-c", "-o", "x"], "options '-co' are incompatible"),
        (
            &["--debug", "-o", "x"],
            "options '-o --debug' are incompatible",
        ),
        (&["--files0-from=-", "x"], "extra operand 'x'"),
    ] {
        let words = [&["outcore", "sort"], words].concat();
        match read_line(&words) {
            Err(error) => assert!(error.cause().contains(cause), "{words:?}: {error}"),
            Ok(_) => assert!(cause.is_empty(), "{words:?}"),
        }
    }
}

#[test]
fn what_is_repeated_and_agrees_counts_once() {
    check(
        &[
            "sort", "-n", "-n", "-o", "x", "-o", "x", "-T", "a", "-T", "b", "-S100M", "-S", "200M",
            "-S1K",
        ],
        &[
            "sort",
            "sort",
            "--numeric-sort",
            "--output=x",
            "--temporary-directory=a",
            "--temporary-directory=b",
            "--buffer-size=200M",
            "--",
        ],
    );
    assert!(read_line(&["sort", "-n", "--versio"]).is_err());
    assert_eq!(
        read_line(&["sort", "-n", "--version", "-x"]).unwrap(),
        Read::Version
    );
    assert!(
        read_line(&["sort", "-x"])
            .unwrap_err()
            .cause()
            .contains("invalid option -- 'x'")
    );
}

#[test]
fn a_line_gets_the_flags_of_the_command_that_it_calls() {
    let commands = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let definition = definition_for(&words);
        let names = definition.get_subcommands().map(clap::Command::get_name);
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(commands(&["outcore", "shuffle", "sort"]), ["shuffle"]);
    assert_eq!(
        commands(&["outcore", "-q", "--color", "never", "count_by"]),
        ["count-by"]
    );
    assert_eq!(commands(&["/usr/bin/sort", "shuffle"]), ["sort"]);
    for words in [
        &["outcore"][..],
        &["outcore", "--help"],
        &["outcore", "sorted"],
    ] {
        assert!(commands(words).len() > 40, "{words:?}");
    }
}
