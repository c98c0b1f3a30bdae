//! Wrong requests and hostile surroundings: each gives a clear error with cause, place, remedy and
//! exit code. Nothing is left behind, and the input is unchanged.
//!
//! Contract: [`refused`] checks all of that for one request.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;

/// 1000 numbers, which no error may change.
fn place_with_input() -> TestDir {
    let place = TestDir::new();
    place.write("in", &random_u64(1000, 1));
    place
}

/// The request fails with this code, these words and this hint, and changes nothing.
#[track_caller]
fn refused(place: &TestDir, arguments: &[&str], code: i32, cause: &[&str], hint: &str) {
    let (names, input) = (place.names(), place.read("in"));
    place.run(arguments).fails(code, cause, hint);
    assert_eq!(place.names(), names);
    assert_eq!(place.read("in"), input);
}

#[test]
fn a_size_that_is_no_multiple_of_the_record() {
    let place = place_with_input();
    let arguments = ["sort", "in", "-o", "out", "--type", "gensort"];
    place.write("odd", &[0; 150]);
    refused(
        &place,
        &["sort", "in", "odd", "-o", "out", "--type", "gensort"],
        2,
        &["odd", "50"],
        "complete",
    );
    // 8000 bytes are 80 whole records.
    place.run(&arguments).ok();
}

#[test]
fn a_file_with_the_name_of_a_directory() {
    let place = place_with_input();
    let cause = ["a name that ends in / is the name of a directory"];
    for line in [
        "sort in -o in/ --type u64 --replace",
        "gen u64 -n 1 -o out/",
        "head in --type u64 -o out/",
        "convert in -o t.parquet/",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        refused(&place, &arguments, 2, &cause, "name a file");
    }
}

#[test]
fn a_missing_type_is_asked_for_with_a_look_at_the_size() {
    let place = place_with_input();
    let wanted = "u64 (1,000 records)";
    refused(&place, &["verify", "in"], 2, &["type", "(in)"], wanted);
    place.write("odd", &[0; 33]);
    refused(&place, &["verify", "odd"], 2, &["(odd)"], "--record SIZE");
    place.write("none", &[]);
    refused(&place, &["verify", "none"], 2, &["(none)"], "--type");
}

#[test]
fn an_unknown_type_and_a_broken_key() {
    let place = place_with_input();
    let sort = |flags: &[&'static str]| [&["sort", "in", "-o", "out"], flags].concat();
    refused(
        &place,
        &sort(&["--type", "u46"]),
        2,
        &["--type", "unknown type `u46`"],
        "u64",
    );
    let generated = ["gen", "rmat:5", "-n", "4", "-o", "out"];
    let cause = ["TYPE", "rmat is a distribution"];
    refused(&place, &generated, 2, &cause, "--dist rmat:20");
    let record = ["--record", "8", "--key"];
    let key = |key: &'static str| sort(&[&record[..], &[key]].concat());
    refused(&place, &key("4:8"), 2, &["4:8"], "");
    refused(&place, &key("0:4:u46"), 2, &["u46"], "u64");
    refused(&place, &key("x"), 2, &["x"], "OFFSET:LEN");
    refused(&place, &sort(&["--record", "7"]), 2, &["left over"], "");
    refused(
        &place,
        &sort(&["--key", "0:4"]),
        2,
        &["--key without --record"],
        "--record",
    );
    refused(
        &place,
        &sort(&["--type", "u64", "--record", "8", "--key", "0:4"]),
        2,
        &["--type"],
        "",
    );
}

#[test]
fn inputs_that_are_none() {
    let place = place_with_input();
    place.make_dir("dir");
    place.write("dir/file", b"");
    let sort = |name| ["sort", "in", name, "-o", "out", "--type", "u64"];
    refused(
        &place,
        &sort("dir"),
        2,
        &["directory", "(dir)"],
        "name the files in it",
    );
    refused(
        &place,
        &sort("missing"),
        3,
        &["No such file", "(missing)"],
        "path",
    );
    refused(
        &place,
        &["sort", "-o", "out", "--type", "u64"],
        2,
        &["<IN>"],
        "--help",
    );
    place.write("bad.outcore.json", b"{");
    refused(
        &place,
        &sort("bad.outcore.json"),
        4,
        &["bad.outcore.json"],
        "shards",
    );
    refused(
        &place,
        &["sort", "-", "-", "-o", "out"],
        2,
        &["more than once"],
        "once",
    );
}

#[test]
fn an_unreadable_input() {
    let place = place_with_input();
    let path = place.write("secret", &[0; 8]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        println!("SKIP: this user may read everything (root)");
        return;
    }
    let arguments = ["sort", "secret", "-o", "out", "--type", "u64"];
    refused(
        &place,
        &arguments,
        3,
        &["Permission denied", "(secret)"],
        "permissions",
    );
}

#[test]
fn outputs_that_must_not_be_written() {
    let place = place_with_input();
    place.make_dir("dir");
    place.write("there", b"mine");
    std::os::unix::fs::symlink("in", place.path("link")).unwrap();
    fs::hard_link(place.path("in"), place.path("hard")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    let sort = |name: &'static str| ["sort", "in", "-o", name, "--type", "u64"];
    refused(
        &place,
        &sort("there"),
        2,
        &["exists already", "(there)"],
        "--force",
    );
    for same in ["in", "link", "hard", "./in", "dir/../in"] {
        let forced = [&sort(same)[..], &["--force"]].concat();
        refused(&place, &forced, 2, &["one of the inputs"], "--replace");
    }
    refused(&place, &sort("dir"), 2, &["directory", "(dir)"], "file");
    refused(
        &place,
        &sort("dangling"),
        2,
        &["does not exist"],
        "another name",
    );
    refused(
        &place,
        &sort("no/such/dir/out"),
        3,
        &["No such file", "no/such/dir"],
        "directory",
    );
    refused(&place, &sort("in/out"), 2, &["its directory is a file"], "");
    refused(
        &place,
        &sort("x.outcore.json"),
        2,
        &["manifests"],
        "{drive}",
    );
    assert_eq!(place.read("there"), b"mine");
    place.run(&[&sort("there")[..], &["--force"]].concat()).ok();
    assert_eq!(place.read("there"), sorted_u64(&place.read("in")));
}

#[test]
fn replace_and_delete_input_where_they_make_no_sense() {
    let place = place_with_input();
    place.write("other", &[0; 8]);
    let replace =
        |flags: &[&'static str]| [&["sort", "in", "--type", "u64", "--replace"], flags].concat();
    refused(
        &place,
        &replace(&["-o", "out"]),
        2,
        &["not one of the inputs"],
        "--force",
    );
    refused(&place, &replace(&["other"]), 2, &["one input"], "-o");
    refused(
        &place,
        &replace(&["-o", "-"]),
        2,
        &["not one of the inputs"],
        "",
    );
    let delete = |name| {
        [
            "sort",
            "in",
            name,
            "-o",
            "out",
            "--type",
            "u64",
            "--delete-input",
        ]
    };
    refused(
        &place,
        &delete("./in"),
        2,
        &["given twice"],
        "--delete-input",
    );
    refused(&place, &delete("-"), 2, &["not a file"], "--delete-input");
    // Freed blocks would also be zeros under the other name.
    std::fs::hard_link(place.path("in"), place.path("twin")).unwrap();
    let words = &["2 names", "hard links"];
    refused(&place, &delete("other"), 2, words, "--delete-input");
}

#[test]
fn an_unwritable_directory() {
    let place = place_with_input();
    // Not even the superuser can make directories in `/proc`.
    let arguments = ["sort", "in", "-o", "/proc/outcore-test", "--type", "u64"];
    refused(&place, &arguments, 3, &["/proc"], "");
    let closed = place.make_dir("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::create_dir(closed.join("try")).is_ok() {
        println!("SKIP: this user may write everywhere (root)");
        fs::remove_dir(closed.join("try")).unwrap();
    } else {
        let arguments = ["sort", "in", "-o", "closed/out", "--type", "u64"];
        refused(
            &place,
            &arguments,
            3,
            &["Permission denied", "(closed)"],
            "permissions",
        );
    }
    let drive = [
        "sort", "in", "-o", "out", "--type", "u64", "--drive", "missing",
    ];
    refused(
        &place,
        &drive,
        3,
        &["No such file", "(missing)"],
        "directory",
    );
    let drive = ["sort", "in", "-o", "out", "--type", "u64", "--drive", "in"];
    refused(&place, &drive, 2, &["not a directory", "(in)"], "directory");
    let drives = ["sort", "in", "-o", "out", "--type", "u64", "--drives", "in"];
    refused(&place, &drives, 2, &[".toml"], "--drive");
}

#[test]
fn too_little_memory_is_refused_with_the_least_that_would_do() {
    let place = place_with_input();
    place.write("big", &random_u64(400_000, 3));
    let arguments = [
        "sort", "big", "-o", "out", "--type", "u64", "--memory", "1MiB",
    ];
    refused(&place, &arguments, 6, &["1.00 MiB of memory"], "--memory ");
    let arguments = [
        "sort", "in", "-o", "out", "--type", "u64", "--memory", "512K",
    ];
    refused(
        &place,
        &arguments,
        2,
        &["--memory", "unknown unit `K`"],
        "512KiB",
    );
    let arguments = ["sort", "in", "-o", "out", "--type", "u64", "--threads", "0"];
    refused(
        &place,
        &arguments,
        2,
        &["0 is not a valid number of threads"],
        "1 to",
    );
}

#[test]
fn scratch_beyond_its_limit() {
    let place = place_with_input();
    place.write("big", &random_u64(1_500_000, 5));
    let sort = [
        "sort", "big", "-o", "out", "--type", "u64", "--memory", "10MiB",
    ];
    let arguments = [&sort[..], &["--scratch-limit", "1MiB"]].concat();
    refused(
        &place,
        &arguments,
        5,
        &["scratch", "1.00 MiB"],
        "--scratch-limit",
    );
}

#[test]
fn an_unknown_variable_is_warned_of_once_and_stops_nothing() {
    let place = place_with_input();
    let sort = ["sort", "in", "-o", "out", "--type", "u64"];
    let mut command = place.command(&sort);
    command
        .env("OUTCORE_MEMROY", "1GiB")
        .env("OUTCORE_RUN_ID", "7");
    let answer = Answer::of(command.output().unwrap()).ok();
    for name in ["MEMROY", "RUN_ID"] {
        let told = format!("unknown variable `OUTCORE_{name}` has no effect");
        assert_eq!(answer.stderr.matches(&told).count(), 1, "{answer:?}");
    }
    assert!(
        answer.stderr.contains("did you mean `OUTCORE_MEMORY`?"),
        "{answer:?}"
    );
}

#[test]
fn wrong_settings_name_their_source() {
    let place = place_with_input();
    let with = |name: &str, value: &str| {
        let mut command = place.command(&["config", "show"]);
        Answer::of(command.env(name, value).output().unwrap())
    };
    with("OUTCORE_THREADS", "many").fails(2, &["OUTCORE_THREADS"], "");
    place.write("config.toml", b"memmory = \"1GiB\"\n");
    with("OUTCORE_CONFIG", "config.toml").fails(2, &["line 1", "memmory", "config.toml"], "memory");
    with("OUTCORE_CONFIG", "missing.toml").fails(3, &["missing.toml"], "OUTCORE_CONFIG");
    with("OUTCORE_FAULT", "boom@1").fails(2, &["boom@1"], "eio@N");
}

#[test]
fn likely_mistakes_are_told_with_what_was_probably_meant() {
    let place = place_with_input();
    place.write("words.txt", b"b\na\n");
    place.write("lines.jsonl", b"{\"a\":1}\n");
    let table: [(&[&str], i32, &str, &str); 10] = [
        (
            &["sort", "words.txt", "sorted.txt"],
            3,
            "sorted.txt",
            "name it with -o",
        ),
        (&["sort", "*.log"], 3, "*.log", "no file matches"),
        (&["sort", "~/words.txt"], 3, "~/words.txt", "expands ~"),
        (&["sort", "$DIR/words.txt"], 3, "$DIR", "expands variables"),
        (&["sort", "-l", "words.txt"], 2, "'-l'", "--help lists"),
        (&["top", "-n", "in"], 2, "invalid count `in`", "1e6"),
        (&["count-by", "in"], 2, "<IN>", "outcore count-by"),
        (
            &["view", "cat", "in"],
            2,
            "this is a file",
            "outcore view build",
        ),
        (
            &["filter", "x > 1", "words.txt", "-o", "out.txt"],
            2,
            "lines of text (words.txt)",
            "--csv or --jsonl",
        ),
        (
            &["top", "-n", "3", "words.txt"],
            2,
            "words.txt",
            "looks like text",
        ),
    ];
    for (arguments, code, cause, hint) in table {
        refused(&place, arguments, code, &[cause], hint);
    }
    let nothing: [&str; 0] = [];
    let bare = place.run(&nothing);
    assert!(bare.stderr.contains("Usage: outcore"), "{bare:?}");
}

/// A command line, its exit code, and parts of the cause and of the next step.
type Line = (&'static str, i32, &'static str, &'static str);

fn check_lines(lines: &[Line]) {
    let place = place_with_input();
    place.write("words.txt", b"b\na\n");
    place.make_dir("none");
    for (line, code, cause, hint) in lines {
        let words: Vec<&str> = line.split(' ').collect();
        refused(&place, &words, *code, &[cause], hint);
    }
}

#[test]
fn words_in_the_wrong_place_are_told_where_they_belong() {
    check_lines(&[
        (
            "sort in -o out --type u64 --memory 4 GiB",
            2,
            "the unit GiB from its number",
            "write --memory 4GiB",
        ),
        (
            "sort in -o out --type u64 --memory=4 GiB",
            2,
            "GiB",
            "write --memory=4GiB",
        ),
        (
            "map in x*2 --type u64 -o out",
            3,
            "(x*2)",
            "the expression comes first: outcore map 'x*2' in",
        ),
        (
            "reduce in sum --type u64",
            3,
            "(sum)",
            "outcore reduce 'sum' in",
        ),
        ("top 3 in --type u64", 3, "(3)", "-n 3 is the number"),
        (
            "sort words.txt -k price -o out",
            2,
            "invalid number",
            "--by NAME sorts",
        ),
        (
            "verify words.txt",
            2,
            "type of the records",
            "verify with --lines",
        ),
        (
            "sort none --by a -o out.parquet",
            2,
            "the directory is empty (none)",
            "tables",
        ),
    ]);
}

#[test]
fn conditions_that_are_none_lead_to_conditions() {
    check_lines(&[
        (
            "find 5 in --type u64",
            2,
            "expected a truth value, found i64",
            "n > 0",
        ),
        (
            "filter x in --type u64 -o out",
            2,
            "expected a truth value, found u64",
            "n > 0",
        ),
        (
            "filter (x>3)-(x>2) in --type u64 -o out",
            2,
            "expected a truth value, found u8",
            "n > 0",
        ),
        (
            "find (x>3)+(x>2) in --type u64",
            2,
            "expected a truth value, found u8",
            "n > 0",
        ),
        (
            "count-by x in --where (x>3)*(x>2) --type u64",
            2,
            "expected a truth value, found u8",
            "n > 0",
        ),
        (
            "find x>3)or(x>2 in --type u64",
            2,
            "character 4 of `x>3)or(x>2`",
            "",
        ),
        ("find x>1,7 in --type u64", 2, "character 4 of `x>1,7`", ""),
        (
            "count-by x in --where x --type u64",
            2,
            "found u64",
            "n > 0",
        ),
        (
            "partition x%3 in --type u64 -o p-{part}.bin",
            2,
            "the expression gives part 2, but there are 2 parts, 0 to 1",
            "allow more parts",
        ),
    ]);
}

#[test]
fn names_of_stores_are_written_in_one_way() {
    check_lines(&[
        (
            "graph convert words.txt -o s3://b/x.graph",
            2,
            "this result is several files",
            "write it to a drive",
        ),
        (
            "view build in --type u64 -o s3://b/v",
            2,
            "this result is several files",
            "write it to a drive",
        ),
        (
            "sort in -o out --type u64 --drive s3://b/d",
            2,
            "must be a directory of this machine",
            "name a directory",
        ),
        (
            "head abfs://c@a/k.parquet",
            2,
            "the account is not the name of a server",
            "az://container/path",
        ),
        ("head file:///tmp/x.csv", 2, "`file://`", "write /tmp/x.csv"),
        (
            "head gcs://bucket/x.parquet",
            2,
            "`gcs://`",
            "write gs://bucket/x.parquet",
        ),
        (
            "head S3://bucket/k.csv",
            2,
            "`S3://`",
            "write s3://bucket/k.csv",
        ),
        (
            "head s3:/bucket/k.csv",
            2,
            "`s3:/` lacks",
            "write s3://bucket/k.csv",
        ),
        (
            "head hdfs://name/x.csv",
            2,
            "not the scheme of a store",
            "mount",
        ),
    ]);
}

#[test]
fn h_of_a_sort_with_something_to_sort_is_the_order_of_gnu() {
    let place = place_with_input();
    place.write("sizes", b"2K\n1G\n10\n");
    for words in [
        &["sort", "-h", "sizes"][..],
        &["sort", "sizes", "-h"],
        &["sort", "-h", "--", "sizes"],
    ] {
        assert_eq!(place.run(words).ok().text(), "10\n2K\n1G\n", "{words:?}");
    }
    let turned = place.run(&["sort", "-hr", "-o", "-", "sizes"]).ok();
    assert_eq!(turned.text(), "1G\n2K\n10\n");
    let piped = place.run_with_input(&["sort", "-rh"], b"2K\n1G\n");
    assert_eq!(piped.ok().text(), "1G\n2K\n");
    let mut redirected = place.command(&["sort", "-h"]);
    redirected.stdin(std::fs::File::open(place.path("sizes")).unwrap());
    let answer = Answer::of(redirected.output().unwrap()).ok();
    assert_eq!(answer.text(), "10\n2K\n1G\n");
    for words in [&["sort", "-h"][..], &["sort", "--help"]] {
        assert!(place.run(words).ok().text().contains("Usage"), "{words:?}");
    }
}

#[test]
fn wrong_arguments_are_one_line_with_a_hint() {
    let place = place_with_input();
    refused(&place, &[], 2, &["no subcommand given"], "--help");
    refused(
        &place,
        &["srot"],
        2,
        &["unrecognized subcommand 'srot'"],
        "sort",
    );
    refused(&place, &["sort", "in", "-x"], 2, &["-x"], "--help");
    refused(&place, &["gen", "-V"], 2, &["-V"], "--help");
    let both = ["sort", "in", "-k1,1n", "--type", "u64", "-o", "out"];
    refused(&place, &both, 2, &["type", "lines"], "--type");
    refused(
        &place,
        &["sort", "in", "--check", "-o", "out"],
        2,
        &["options '-co' are incompatible"],
        "--check",
    );
    let answer = place.run(&["sort", "in", "--io", "fast"]);
    answer.fails(2, &["--io", "unknown mode `fast`"], "direct");
}

#[test]
fn a_file_that_is_no_whole_copy_of_its_manifest() {
    let place = place_with_input();
    place.make_dir("d1");
    place.make_dir("d2");
    let drives = ["--drive", "d1", "--drive", "d2"];
    let arguments = [
        &["sort", "in", "-o", "s-{drive}", "--type", "u64"],
        &drives[..],
    ]
    .concat();
    place.run(&arguments).ok();
    let manifest = place.path("d1/s.outcore.json");
    let shard = place.path("d2/s-d2");
    fs::write(&shard, [0; 8]).unwrap();
    let again = [
        "sort",
        manifest.to_str().unwrap(),
        "-o",
        "out",
        "--type",
        "u64",
    ];
    refused(
        &place,
        &again,
        4,
        &["the shard has 8 bytes", "s-d2"],
        "restore",
    );
    fs::remove_file(&shard).unwrap();
    refused(
        &place,
        &again,
        3,
        &["No such file", "s-d2"],
        "s.outcore.json",
    );
}

#[test]
fn a_directory_of_an_output_has_to_be_one() {
    let place = place_with_input();
    place.write("t.csv", b"a\n1\n");
    for line in [
        "split in --type u64 -n 2 -o no/{part}",
        "convert t.csv -o no/t.parquet",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let cause = ["create output", "(no)"];
        refused(&place, &arguments, 3, &cause, "make the directory first");
    }
    for line in [
        "split in --type u64 -n 2 -o in/{part}",
        "convert t.csv -o in/t.parquet",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        refused(
            &place,
            &arguments,
            2,
            &["create output: its directory is a file"],
            "",
        );
    }
}

#[test]
fn parts_are_not_written_as_datasets() {
    let place = place_with_input();
    for line in [
        "split in --type u64 -n 2 -o @part-{part}",
        "partition x%2 in --type u64 -o @part-{part}",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let cause = ["parts are files, not datasets (@part-{part})"];
        refused(&place, &arguments, 2, &cause, "`outcore volume put`");
    }
}

#[test]
fn the_memory_that_a_pass_asks_for_is_enough() {
    for line in [
        "map x+1 in --type u64 -o out",
        "filter x>4 in --type u64 -o out",
        "count-by x%10 in --type u64",
        "unique in --type u64 -o out",
    ] {
        for given in ["64KiB", "1MiB"] {
            let place = place_with_input();
            let with = |memory: &str| {
                let words = line.split(' ').chain(["--memory", memory]);
                words.map(str::to_string).collect::<Vec<String>>()
            };
            let error = place
                .run(&with(given))
                .fails(6, &["need at least"], "allow --memory");
            let (_, behind) = error.stderr.split_once("allow --memory ").unwrap();
            let (named, _) = behind.split_once(',').unwrap();
            place.run(&with(named)).ok();
        }
    }
}

#[test]
fn a_replacement_is_offered_only_where_there_is_the_option() {
    let place = place_with_input();
    for command in ["shuffle", "unique"] {
        let arguments = [command, "in", "--lines", "-o", "in"];
        refused(
            &place,
            &arguments,
            2,
            &["one of the inputs"],
            "give the output another name",
        );
    }
}
