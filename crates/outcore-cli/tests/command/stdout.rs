//! Standard output that cannot be written: every command fails, and none ends with exit code 0.
//!
//! Contract: the commands are those of the definition of the flags, so none can be forgotten; each
//! is run with a full device in place of standard output, printing for people and for programs.
//! Commands that would measure for long, or need something that a test lacks, are listed with the
//! reason, and print their help.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

use crate::full_stdout::{How, check, commands_of};
use crate::support::*;
use crate::tables;

use How::{Help, With};

const LONG: &str = "it measures for seconds or more, and prints as all others do";

/// All commands, in an order in which each finds the files that it needs.
const COMMANDS: &[(&str, How)] = &[
    (
        "gen",
        With(&["u64 -n 1000 -o -", "u64 -n 1000 -o in --force --json"]),
    ),
    (
        "sort",
        With(&[
            "text",
            "text -o o --json",
            "in -o - --type u64",
            "in --type u64 --dry-run",
            "in -o sorted --force --type u64 --record-io trace.iotrace --json",
            "--version",
            "text --debug",
        ]),
    ),
    ("shuffle", With(&["text", "text -o o --force --json"])),
    (
        "unique",
        With(&["text", "--count text", "text -o o --force --json"]),
    ),
    ("vector info", With(&["v.fbin", "v.fbin --json"])),
    ("vector index", With(&["v.fbin -o v.vindex --json"])),
    ("vector pairs", With(&["v.fbin --max-l2 1 -o p.npy --json"])),
    ("vector convert", With(&["v.fbin -o v.npy --json"])),
    ("vector label", With(&["v.fbin v.fbin -o l.npy --json"])),
    ("kmeans", With(&["v.fbin -k 2 -o c.npy --json"])),
    ("knn", With(&["v.fbin v.npy -k 2 -o n.ibin --json"])),
    ("dedup", With(&["t.parquet -o d.parquet --json"])),
    (
        "group-by",
        With(&["t.parquet -o g.parquet --by name --json"]),
    ),
    (
        "window",
        With(&["t.parquet -o w.parquet --by name --add rank --json"]),
    ),
    (
        "join",
        With(&["t.parquet t.parquet -o j.parquet --on name --how semi --json"]),
    ),
    (
        "diff",
        With(&["t.parquet t.parquet -o diff.parquet --by name --json"]),
    ),
    (
        "comm",
        With(&["text text", "text text -o o --force --json"]),
    ),
    ("split", With(&["text -n 2 -o p-{part} --force --json"])),
    (
        "head",
        With(&["text", "text -o o --force --json", "t.parquet"]),
    ),
    (
        "tail",
        With(&["text", "text -o o --force --json", "t.parquet"]),
    ),
    (
        "sample",
        With(&["-n 2 text", "-n 2 text -o o --force --json"]),
    ),
    ("verify", With(&["sorted --type u64 --json"])),
    (
        "convert",
        With(&[
            "t.parquet -o o.arrow --json",
            "t.parquet -o o.parquet --force --json",
        ]),
    ),
    ("info", With(&["t.parquet", "t.parquet --json"])),
    (
        "map",
        With(&[
            "x+1 in -o - --type u64",
            "x+1 in -o o --force --type u64 --json",
            "x in -o o --force --dry-run --type u64",
        ]),
    ),
    (
        "filter",
        With(&[
            "x>1 in -o - --type u64",
            "x>1 in -o o --force --type u64 --json",
        ]),
    ),
    (
        "zip",
        With(&[
            "in --zip in -o - --type u64",
            "in --zip in -o o --force --type u64 --json",
        ]),
    ),
    (
        "flat-map",
        With(&[
            "x,x+1 in -o - --type u64",
            "x,x+1 in -o o --force --type u64 --json",
        ]),
    ),
    (
        "enumerate",
        With(&["in -o - --type u64", "in -o o --force --type u64 --json"]),
    ),
    (
        "windows",
        With(&[
            "-n 2 in -o - --type u64",
            "-n 2 in -o o --force --type u64 --json",
        ]),
    ),
    (
        "reverse",
        With(&["in -o - --type u64", "in -o o --force --type u64 --json"]),
    ),
    (
        "merge",
        With(&["at -o - --type u64", "at -o o --force --type u64 --json"]),
    ),
    (
        "reduce",
        With(&[
            "sum in --type u64",
            "sum,min in --type u64",
            "sum in --type u64 --json",
        ]),
    ),
    (
        "scan",
        With(&[
            "sum in -o - --type u64",
            "sum in -o o --force --type u64 --json",
        ]),
    ),
    (
        "histogram",
        With(&["in --type u64", "in --type u64 --json"]),
    ),
    (
        "count-by",
        With(&[
            "x%3 in --type u64",
            "x%3 in --type u64 --json",
            "x%3 in -o - --type u64",
        ]),
    ),
    ("top", With(&["in --type u64", "in --type u64 --json"])),
    (
        "find",
        With(&["x>0 in --type u64", "x>0 in --type u64 --json"]),
    ),
    (
        "partition",
        With(&[
            "x%2 in --type u64 -o q-{part} --force",
            "x%2 in --type u64 -o q-{part} --force --json",
        ]),
    ),
    (
        "gather",
        With(&[
            "--at at in --type u64 -o -",
            "--at at in --type u64 -o o --force --json",
        ]),
    ),
    (
        "lookup",
        With(&[
            "--keys sorted sorted --type u64 -o -",
            "--keys sorted sorted --type u64 -o o --force --json",
        ]),
    ),
    ("view build", With(&["in -o v --force --type u64 --json"])),
    ("view append", With(&["v in --json"])),
    ("view cat", With(&["v"])),
    ("view info", With(&["v", "v --json"])),
    ("view verify", With(&["v --json"])),
    ("view materialize", With(&["v -o o --force --json"])),
    ("view mount", Help("it needs FUSE")),
    (
        "graph convert",
        With(&[
            "edges.txt -o g.graph --json",
            "edges.txt -o u.graph --undirected --json",
        ]),
    ),
    ("graph export", With(&["g.graph -o o.npz --json"])),
    ("graph info", With(&["g.graph", "g.graph --json"])),
    ("graph verify", With(&["g.graph", "g.graph --json"])),
    (
        "graph degrees",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph cc",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph bfs",
        With(&[
            "g.graph --source 0 --top 1",
            "g.graph --source 0 --top 1 --json",
        ]),
    ),
    (
        "graph pagerank",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph kcore",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph scc",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph sssp",
        With(&[
            "g.graph --source 0 --top 1",
            "g.graph --source 0 --top 1 --json",
        ]),
    ),
    ("graph lp", With(&["g.graph --top 1", "g.graph --json"])),
    (
        "graph closeness",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph hits",
        With(&["g.graph --top 1", "g.graph --top 1 --json"]),
    ),
    (
        "graph louvain",
        With(&["u.graph --top 1", "u.graph --json"]),
    ),
    (
        "graph sample",
        With(&["g.graph --source 0 -o sample.npy --json"]),
    ),
    ("graph walk", With(&["g.graph -o walks.npy --json"])),
    (
        "graph triangles",
        With(&["u.graph --top 1", "u.graph --json"]),
    ),
    ("demo", Help(LONG)),
    ("scratch list", With(&[". --json"])),
    ("scratch clean", With(&[". --json"])),
    ("config show", With(&["", "--json"])),
    ("drives probe", Help(LONG)),
    ("volume create", With(&["--json --volume drives.toml"])),
    ("volume replace", Help(LONG)),
    ("volume add", Help(LONG)),
    ("volume remove", Help(LONG)),
    ("volume rebalance", With(&["--json --volume drives.toml"])),
    (
        "volume status",
        With(&["--volume drives.toml", "--json --volume drives.toml"]),
    ),
    (
        "volume put",
        With(&["in @x --force --json --volume drives.toml"]),
    ),
    ("volume scrub", With(&["--json --volume drives.toml"])),
    (
        "volume get",
        With(&[
            "@x - --volume drives.toml",
            "@x o --force --json --volume drives.toml",
        ]),
    ),
    (
        "volume ls",
        With(&["--volume drives.toml", "--json --volume drives.toml"]),
    ),
    (
        "volume cp",
        With(&[
            "@x - --volume drives.toml",
            "@x @y --force --json --volume drives.toml",
        ]),
    ),
    ("volume rm", With(&["@x --json --volume drives.toml"])),
    ("completions", With(&["bash", "zsh"])),
    ("man", With(&[""])),
];

/// A place with the inputs of the commands.
fn place() -> TestDir {
    let place = TestDir::in_memory();
    for drive in ["d0", "d1"] {
        place.make_dir(drive);
    }
    place.write(
        "drives.toml",
        b"[[drive]]\ndir = \"d0\"\n[[drive]]\ndir = \"d1\"\n",
    );
    place.write("in", &random_u64(1000, 5));
    place.write("text", b"b\na\n");
    place.write("edges.txt", b"0 1\n1 2\n");
    place.write("v.fbin", &crate::vectors::fbin(&[1.0, 2.0, 4.0, 8.0], 2));
    place.write("at", &7_u64.to_le_bytes());
    tables::write(&place.path("t.parquet"), &tables::batch(100));
    place
}

#[test]
fn every_command_fails_on_a_full_standard_output() {
    let mut known = commands_of(&outcore_cli::definition());
    known.retain(|name| !crate::lab::COMMANDS.contains(&name.as_str()));
    check(&known, COMMANDS, &place());
}

#[test]
fn a_closed_standard_stream_is_an_error_where_it_is_used() {
    let place = place();
    for line in [
        "\"$0\" sort text >&-",
        // The command replaces the shell that has closed the stream.
        "exec \"$0\" sort text >&-",
        "exec \"$0\" sort <&-",
        "\"$0\" reduce sum in --type u64 >&-",
        "\"$0\" config show >&-",
        "\"$0\" --help >&-",
        "\"$0\" sort <&-",
        "\"$0\" sort --files0-from=- <&-",
        "\"$0\" reduce sum - --type u64 <&-",
    ] {
        let answer = in_shell(&place, line);
        assert_eq!(answer.code, Some(3), "{line}: {answer:?}");
        assert!(
            answer.stderr.contains("Bad file descriptor"),
            "{line}: {answer:?}"
        );
    }
    // Streams that are not used may be closed.
    let answer = in_shell(&place, "\"$0\" sort text <&- 2>&-");
    assert_eq!(
        (answer.code, answer.text().as_str()),
        (Some(0), "a\nb\n"),
        "{answer:?}"
    );
    in_shell(&place, "\"$0\" sort text -o out >&- <&-").ok();
    assert_eq!(place.read("out"), b"a\nb\n");
}

#[test]
fn what_is_discarded_is_no_closed_stream() {
    let null = |path: &str| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(Path::new(path))
    };
    let place = place();
    // This is how programs discard the output of their children.
    let mut command = place.command(&["reduce", "sum", "in", "--type", "u64"]);
    let status = command.stdout(null("/dev/null").unwrap()).status().unwrap();
    assert!(status.success());
    let shell = Command::new("sh")
        .args(["-c", "\"$0\" sort text; exit $?", crate::PROGRAM])
        .current_dir(place.dir())
        .stdin(null("/dev/null").unwrap())
        .stdout(null("/dev/null").unwrap())
        .status();
    assert!(shell.unwrap().success());
    in_shell(&place, "\"$0\" sort text > /dev/null").ok();
}
