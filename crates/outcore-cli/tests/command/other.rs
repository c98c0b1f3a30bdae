//! Scratch, settings, documentation, the demo.
//!
//! Contract: texts are checked for the facts that users look for, not letter by letter.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outcore_io::drive::private_dir::LOCK_TEXT;

use crate::support::*;

#[test]
fn left_over_scratch_is_listed_and_cleaned_and_nothing_else_is_touched() {
    let place = TestDir::new();
    let left = place.make_dir(".outcore-001122334455");
    fs::set_permissions(&left, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(left.join("lock"), LOCK_TEXT).unwrap();
    fs::write(left.join("scratch-0"), [0; 10_000]).unwrap();
    place.make_dir("kept");
    place.make_dir(".other");
    // Other users may read or change this directory, so one of them may have made it.
    place.make_dir(".outcore-aabbccddeeff");
    let listed = place.run(&["scratch", "list"]).ok().text();
    assert!(
        listed.contains(".outcore-001122334455\tleft over\t"),
        "{listed}"
    );
    let foreign = ".outcore-aabbccddeeff\tleft alone, since other users may read or change it\t";
    assert!(listed.contains(foreign), "{listed}");
    assert_eq!(place.names().len(), 4);
    let dir = place.dir().to_str().unwrap();
    let cleaned = place.run(&["scratch", "clean", dir]).ok();
    assert!(
        cleaned.text().contains(".outcore-001122334455"),
        "{cleaned:?}"
    );
    assert_eq!(place.names(), [".other", ".outcore-aabbccddeeff", "kept"]);
    assert!(
        place
            .run(&["scratch", "list", "kept", "-q"])
            .ok()
            .stderr
            .is_empty()
    );
    place
        .run(&["scratch", "clean", "missing"])
        .fails(3, &["missing"], "directory");
}

#[test]
fn scratch_is_found_in_the_directory_of_a_graph_from_the_one_above() {
    let place = TestDir::new();
    let graph = place.make_dir("web.graph");
    let left = place.make_dir("web.graph/.outcore-001122334455");
    fs::set_permissions(&left, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(left.join("lock"), LOCK_TEXT).unwrap();
    fs::write(left.join("scratch-0"), [0; 10_000]).unwrap();
    let elsewhere = TestDir::new();
    let linked = elsewhere.make_dir(".outcore-001122334455");
    fs::set_permissions(&linked, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(linked.join("lock"), LOCK_TEXT).unwrap();
    std::os::unix::fs::symlink(elsewhere.dir(), place.path("link")).unwrap();
    let listed = place
        .run(&["scratch", "list", ".", "web.graph"])
        .ok()
        .text();
    assert_eq!(listed.matches("left over").count(), 1, "{listed}");
    let cleaned = place.run(&["scratch", "clean", "."]).ok().text();
    assert!(
        cleaned.contains("web.graph/.outcore-001122334455"),
        "{cleaned}"
    );
    assert!(!left.exists() && graph.exists() && linked.exists());
}

#[test]
fn settings_come_from_flags_then_environment_then_file_then_default() {
    let place = TestDir::new();
    place.write(
        "my.toml",
        b"memory = \"300MiB\"\nthreads = 3\nio = \"buffered\"\n",
    );
    let show = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command
            .env("OUTCORE_CONFIG", "my.toml")
            .env("OUTCORE_THREADS", "2");
        Answer::of(command.output().unwrap()).ok()
    };
    let text = show(&["config", "show"]).text();
    let line = |key: &str| {
        text.lines()
            .find(|line| line.starts_with(key))
            .unwrap()
            .to_string()
    };
    assert!(line("memory").contains("300MiB") && line("memory").contains("my.toml:1"));
    assert!(line("threads").contains("OUTCORE_THREADS"));
    assert!(line("scratch_limit").contains("default"));
    place.write("in", &random_u64(10, 1));
    let sort = [
        "sort",
        "in",
        "-o",
        "out",
        "--type",
        "u64",
        "--json",
        "--threads",
        "1",
    ];
    let begin = show(&sort).event("begin");
    assert_eq!(begin["memory_bytes"], 300 << 20);
    assert_eq!(begin["threads"], 1);
    assert_eq!(begin["io"], "buffered");
    let rows = show(&["config", "show", "--json"]).events();
    assert_eq!(
        (&rows[0]["key"], &rows[0]["value"]),
        (&"memory".into(), &"300MiB".into())
    );
}

#[test]
fn words_of_other_tools_lead_to_ours() {
    for (words, wanted) in [
        (&["schema", "t.parquet"][..], "`outcore info`"),
        (&["components", "web.graph"], "`outcore graph cc`"),
        (&["sort", "--sep=,", "a.csv"], "-t is the separator"),
        (
            &["convert", "--delimiter", ";", "a.csv"],
            "-t is the separator",
        ),
        (&["sort", "-j", "4", "a"], "--threads"),
    ] {
        let answer = TestDir::new().run(words).fails(2, &[], wanted);
        assert!(!answer.stderr.contains("for the file write"), "{answer:?}");
    }
}

#[test]
fn the_short_help_leaves_out_what_all_jobs_have() {
    let place = TestDir::new();
    let page = |flag| place.run(&["head", flag]).ok().text();
    let (short, long) = (page("-h"), page("--help"));
    for flag in ["--record-io", "--explain", "--quiet", "--volume"] {
        assert!(long.contains(flag), "{flag}");
        assert!(!short.contains(flag), "{flag}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let place = TestDir::new();
    let help = place.run(&["--help"]).ok().text();
    for word in [
        "sort",
        "gen",
        "verify",
        "demo",
        "scratch",
        "config",
        "drives",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word}");
    }
    assert!(
        place
            .run(&["--version"])
            .ok()
            .text()
            .starts_with("outcore ")
    );
    for command in [
        "sort", "shuffle", "unique", "split", "head", "sample", "gen", "verify", "demo", "scratch",
        "config", "drives",
    ] {
        assert!(
            place
                .run(&[command, "--help"])
                .ok()
                .text()
                .contains("Usage: outcore")
        );
    }
}

#[test]
fn man_pages_and_completions_come_from_the_flags() {
    let place = TestDir::new();
    assert!(place.run(&["man"]).ok().text().contains(".TH outcore 1"));
    let dir = place.make_dir("man");
    place.run(&["man", "man"]).ok();
    let names = names_in(&dir);
    for name in [
        "outcore.1",
        "outcore-sort.1",
        "outcore-scratch-clean.1",
        "outcore-drives-probe.1",
    ] {
        assert!(names.contains(&name.to_string()), "{names:?}");
    }
    let page = fs::read_to_string(dir.join("outcore-sort.1")).unwrap();
    assert!(page.contains("scratch\\-limit") && page.contains("unique"));
    // Examples are not wrapped, and every command has some.
    assert!(page.contains("outcore sort keys.bin \\-o sorted.bin \\-\\-type u64"));
    let page = fs::read_to_string(dir.join("outcore-zip.1")).unwrap();
    let (_, examples) = page.split_once(".SH EXAMPLES\n.PP\n.nf\n").unwrap();
    assert!(examples.starts_with("  outcore zip a.npy"), "{examples}");
    place.run(&["man", "man"]).fails(2, &["exists"], "--force");
    place.run(&["man", "--force", "man"]).ok();
    place
        .run(&["man", "missing"])
        .fails(3, &["missing"], "directory");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            place
                .run(&["completions", shell])
                .ok()
                .text()
                .contains("scratch-limit"),
            "{shell}"
        );
    }
    place.run(&["completions", "cmd"]).fails(2, &["cmd"], "");
}

#[test]
fn the_demo_tells_its_story_and_leaves_nothing() {
    let place = TestDir::new();
    let demo = ["demo", "--size", "24MiB", "--memory", "16MiB"];
    let answer = place.run(&demo).ok();
    let text = answer.text();
    for word in [
        "demo",
        "generated",
        "sorted",
        "verified",
        "drive",
        "floor",
        "times the floor",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(place.names().is_empty());
    let dir = place.make_dir("there");
    let there = ["--dir", "there", "--json"];
    let summary = place
        .run(&[&demo[..], &there].concat())
        .ok()
        .event("summary");
    assert!(summary["floor_ratio"].as_f64().unwrap() > 0.0, "{summary}");
    assert_eq!(summary["records"], 3 << 20);
    assert!(names_in(&dir).is_empty());
    place
        .run(&["demo", "--dir", "missing"])
        .fails(3, &["missing"], "directory");
    place
        .run(&["demo", "--size", "1EiB"])
        .fails(5, &["3.00 EiB"], "--size");
}

#[test]
fn a_probe_measures_and_writes_a_file_that_sort_takes() {
    let place = TestDir::new();
    place.make_dir("d");
    let probe = ["drives", "probe", "d", "--size", "8MiB", "--step", "20ms"];
    let answer = place.run(&probe).ok();
    assert!(answer.text().contains("[[drive]]"), "{answer:?}");
    assert!(answer.stderr.contains("IOPS"), "{answer:?}");
    let run = |flags: &[&str]| place.run(&[&probe[..], flags].concat());
    run(&["-o", "drives.toml"]).ok();
    assert!(names_in(&place.path("d")).is_empty());
    assert_eq!(place.names(), ["d", "drives.toml"]);
    run(&["-o", "drives.toml"]).fails(2, &["exists already"], "--force");
    run(&["-o", "drives.toml", "--force"]).ok();
    run(&["-o", "drives.txt"]).fails(2, &[".toml"], "--drives");
    place
        .run(&["drives", "probe", "missing"])
        .fails(3, &["missing"], "directory");

    place.write("in", &random_u64(800_000, 149));
    let sort = [
        "sort", "in", "-o", "out", "--type", "u64", "--memory", "5MiB", "--json",
    ];
    let answer = place
        .run(&[&sort[..], &["--drives", "drives.toml"]].concat())
        .ok();
    assert!(
        answer.event("summary")["bandwidth_fraction"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let summary = run(&["--json"]).ok().event("summary");
    assert!(summary["written_bytes"].is_u64(), "{summary}");
}
