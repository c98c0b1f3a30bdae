//! `outcore volume`, `put`, `get`, `ls`, `rm`, `cp`, and `@name` as a file of other commands.
//!
//! Contract: directories take the place of drives. `get` returns the data that were put. Errors
//! name the missing drive or dataset, and nothing stays behind on the drives.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use outcore_io::drive::private_dir::LOCK_TEXT;

use crate::support::*;

/// A place with three drives and a volume on them.
pub(crate) fn place() -> TestDir {
    volume_in(TestDir::new())
}

/// Makes the volume of [`place`] in a directory that exists already.
pub(crate) fn volume_in(place: TestDir) -> TestDir {
    volume_with(place, &["--stripe", "64KiB"])
}

/// As [`volume_in`], with options of `volume create`.
pub(crate) fn volume_with(place: TestDir, options: &[&str]) -> TestDir {
    let mut text = String::new();
    for drive in ["d0", "d1", "d2"] {
        place.make_dir(drive);
        text.push_str(&format!("[[drive]]\ndir = \"{drive}\"\n"));
    }
    place.write("drives.toml", text.as_bytes());
    run(&place, &[&["volume", "create"], options].concat()).ok();
    place
}

pub(crate) fn run(place: &TestDir, words: &[&str]) -> Answer {
    place.run(&[words, &["--volume", "drives.toml"]].concat())
}

#[test]
fn a_volume_is_not_made_where_the_directory_of_a_drive_is_missing() {
    let place = TestDir::new();
    place.make_dir("d0");
    place.write(
        "drives.toml",
        b"[[drive]]\ndir = \"d0\"\n[[drive]]\ndir = \"away\"\n",
    );
    let made = run(&place, &["volume", "create"]);
    made.fails(3, &["create volume", "away"], "make the directory first");
    assert!(!place.path("away").exists());
    assert_eq!(names_in(&place.path("d0")), [""; 0]);
    place.make_dir("away");
    run(&place, &["volume", "create"]).ok();
}

#[test]
fn the_summary_has_the_number_of_what_is_listed_and_events_have_the_items() {
    let place = place();
    place.write("in", b"data");
    run(&place, &["volume", "put", "in", "@x"]).ok();
    let listed = run(&place, &["volume", "ls", "--json"]).ok();
    assert_eq!(listed.event("dataset")["name"], "@x");
    assert_eq!(listed.event("dataset")["contents"], "file");
    assert_eq!(listed.event("summary")["entries"], 1);
    let status = run(&place, &["volume", "status", "--json"]).ok();
    assert_eq!(status.event("summary")["members"], 3);
    assert_eq!(status.event("summary")["datasets"], 1);
    let data = place.path("d0/outcore-volume/data/nobodys");
    fs::write(&data, b"left").unwrap();
    let scrub = run(&place, &["volume", "scrub", "--json"]);
    assert_eq!(scrub.code, Some(4));
    assert_eq!(scrub.event("orphan")["len_bytes"], 4);
    assert_eq!(scrub.event("summary")["orphans"], 1);
    assert_eq!(scrub.event("error")["kind"], "corrupt");
}

#[test]
fn datasets_go_in_and_out_and_are_listed_copied_and_removed() {
    let place = place();
    let bytes = random_u64(50_000, 3);
    place.write("in", &bytes);
    run(&place, &["volume", "put", "in", "@x"]).ok();
    run(&place, &["volume", "cp", "@x", "@y"]).ok();
    run(&place, &["volume", "get", "@y", "out"]).ok();
    assert!(place.read("out") == bytes);
    assert!(run(&place, &["volume", "get", "@x", "-"]).ok().stdout == bytes);
    let again = run(&place, &["volume", "put", "in", "@x"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("--force"), "{again:?}");
    assert_eq!(run(&place, &["volume", "get", "@x", "out"]).code, Some(2));
    let to_dataset = run(&place, &["volume", "get", "@x", "@z"]);
    to_dataset.fails(2, &["the name of a dataset", "@z"], "volume cp");
    run(&place, &["volume", "put", "in", "@x", "--force"]).ok();
    let listed = String::from_utf8(run(&place, &["volume", "ls"]).ok().stdout).unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["@x", "@y"]);
    run(&place, &["volume", "rm", "@x", "@y"]).ok();
    assert!(run(&place, &["volume", "ls"]).ok().stdout.is_empty());
    assert_eq!(
        names_in(&place.path("d1/outcore-volume/data")),
        Vec::<String>::new()
    );
}

#[test]
fn what_a_killed_command_left_on_any_drive_goes_with_the_next_one() {
    let place = place();
    place.write("in", &random_u64(10_000, 3));
    run(&place, &["volume", "put", "in", "@x"]).ok();
    for drive in ["d0", "d1", "d2"] {
        let left = format!("{drive}/.outcore-001122334455");
        place.make_dir(&left);
        fs::set_permissions(place.path(&left), fs::Permissions::from_mode(0o700)).unwrap();
        place.write(&format!("{left}/lock"), LOCK_TEXT.as_bytes());
        place.write(&format!("{left}/scratch-0"), b"data");
    }
    run(&place, &["sort", "@x", "-o", "@y", "--type", "u64"]).ok();
    for drive in ["d0", "d1", "d2"] {
        assert_eq!(names_in(&place.path(drive)), ["outcore-volume"]);
    }
}

#[test]
fn what_goes_in_and_out_is_recorded_but_never_over_what_is_moved() {
    let place = place();
    let bytes = random_u64(5_000, 9);
    place.write("in", &bytes);
    run(
        &place,
        &["volume", "put", "in", "@x", "--record-io", "trace"],
    )
    .ok();
    let over = |words: &[&str], name: &str| {
        let record = ["--force", "--record-io", name];
        run(&place, &[words, &record[..]].concat())
    };
    over(&["volume", "put", "in", "@x"], "in").fails(
        2,
        &["record I/O", "one of the inputs"],
        "another name",
    );
    over(&["volume", "get", "@x", "out"], "out").fails(
        2,
        &["the name of the output"],
        "another name",
    );
    assert!(place.read("in") == bytes);
}

#[test]
fn a_packed_directory_gives_one_file_or_all() {
    let place = place();
    place.make_dir("tree/sub");
    place.write("tree/sub/a", b"one");
    place.write("tree/b", b"two");
    run(&place, &["volume", "put", "tree", "@tree"]).ok();
    assert_eq!(
        run(&place, &["volume", "get", "@tree/sub/a", "-"])
            .ok()
            .stdout,
        b"one"
    );
    run(&place, &["volume", "get", "@tree", "back"]).ok();
    assert_eq!(place.read("back/b"), b"two");
    let listed = run(&place, &["volume", "ls", "@tree"]).ok().text();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["b", "sub/a"]);
}

#[test]
fn a_directory_with_links_sockets_and_odd_names_is_put_whole_and_says_what_was_left_out() {
    let place = place();
    place.make_dir("tree/bare");
    place.write("tree/ends in CR\r", b"one");
    let tree = place.path("tree");
    std::os::unix::fs::symlink("ends in CR\r", tree.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    let put = run(&place, &["volume", "put", "tree", "@tree"]).ok();
    assert!(
        put.stderr.contains("1 socket, pipe or device was left out"),
        "{put:?}"
    );
    assert!(put.stderr.contains("tree/socket"), "{put:?}");
    let listed = run(&place, &["volume", "ls", "@tree"]).ok().text();
    let wanted = [
        "bare/\t0 B\tempty directory",
        "ends in CR\\x0d\t3 B\tfile",
        "link\t0 B\tlink to ends in CR\\x0d",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), wanted);
    run(&place, &["volume", "get", "@tree", "back"]).ok();
    assert_eq!(place.read("back/link"), b"one");
    let inside = run(&place, &["volume", "get", "@tree/ends in CR\\x0d", "-"]).ok();
    assert_eq!(inside.stdout, b"one");
    let link = run(&place, &["volume", "get", "@tree/link", "-"]);
    link.fails(
        2,
        &["link is a symbolic link"],
        "name the file that it leads to",
    );
}

#[test]
fn scrub_names_drive_file_and_offset_and_exits_with_4() {
    let place = place();
    place.write("in", &random_u64(50_000, 4));
    run(&place, &["volume", "put", "in", "@x"]).ok();
    run(&place, &["volume", "scrub"]).ok();
    let data = place.path("d1/outcore-volume/data");
    let name = names_in(&data).remove(0);
    let path = data.join(&name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[70_000] ^= 1;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(&path, bytes).unwrap();
    let answer = run(&place, &["volume", "scrub", "@x"]);
    assert_eq!(answer.code, Some(4));
    let text = String::from_utf8(answer.stdout.clone()).unwrap();
    for part in ["@x\tdrive d1", name.as_str(), "at byte 65536"] {
        assert!(text.contains(part), "{part}: {answer:?}");
    }
    assert_eq!(run(&place, &["volume", "get", "@x", "out"]).code, Some(4));
    assert!(!place.path("out").exists());
}

#[test]
fn pipes_are_put_to_their_end_and_written_to_and_stay_pipes() {
    let place = place();
    let bytes = random_u64(30_000, 8);
    let given = place.run_with_input(
        &[
            "volume",
            "put",
            "/dev/stdin",
            "@x",
            "--volume",
            "drives.toml",
        ],
        &bytes,
    );
    given.ok();
    assert!(run(&place, &["volume", "get", "@x", "-"]).stdout == bytes);
    let pipe = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for force in [false, true] {
        let mut words = vec!["volume", "get", "@x", "pipe", "--volume", "drives.toml"];
        words.extend(force.then_some("--force"));
        let mut child = place.spawn(&words);
        assert!(fs::read(&pipe).unwrap() == bytes);
        assert!(wait_for(&mut child).success());
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }
}

#[test]
fn other_commands_take_datasets_where_they_take_files() {
    let place = place();
    place.write("in", &random_u64(20_000, 5));
    run(&place, &["volume", "put", "in", "@keys"]).ok();
    run(&place, &["sort", "@keys", "-o", "@sorted", "--type", "u64"]).ok();
    run(
        &place,
        &["verify", "@sorted", "--type", "u64", "--against", "@keys"],
    )
    .ok();
    assert_eq!(
        run(&place, &["sort", "@none", "-o", "out", "--type", "u64"]).code,
        Some(2)
    );
    assert_eq!(
        run(&place, &["sort", "@keys", "-o", "@sorted", "--type", "u64"]).code,
        Some(2)
    );
    let names = names_in(&place.path("d0"));
    assert_eq!(names, ["outcore-volume"]);
}

#[test]
fn commands_on_lines_read_and_write_large_datasets_too() {
    let place = place();
    let text: String = random_u64(120_000, 8)
        .chunks_exact(8)
        .map(|word| {
            let number = u64::from_le_bytes(word.try_into().unwrap());
            format!("{} {}\n", number % 5000, number >> 20)
        })
        .collect();
    assert!(text.len() > 2 << 20);
    place.write("in", text.as_bytes());
    run(&place, &["volume", "put", "in", "@in"]).ok();
    let commands: [&[&str]; 9] = [
        &["sort"],
        &["sort", "-n", "-k2"],
        &["sort", "-u", "-k1,1"],
        &["sort", "-r", "--stable"],
        &["shuffle", "--seed", "4"],
        &["unique"],
        &["unique", "--count"],
        &["sample", "-n", "100", "--seed", "2"],
        &["head", "-n", "100000"],
    ];
    for command in commands {
        let memory: &[&str] = match command[0] {
            "head" | "sample" => &[],
            _ => &["--memory", "64MiB"],
        };
        run(&place, &[command, &["@in", "-o", "@out"], memory].concat()).ok();
        let _ = fs::remove_file(place.path("out"));
        place
            .run(&[command, &["in", "-o", "out"], memory].concat())
            .ok();
        run(&place, &["volume", "get", "@out", "got", "--force"]).ok();
        assert!(place.read("got") == place.read("out"), "{command:?}");
        run(&place, &["volume", "rm", "@out"]).ok();
    }
    let answer = run(&place, &["sort", "-c", "@in"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains(": @in:3: disorder"), "{answer:?}");
    run(&place, &["sort", "@in", "-o", "@packed.gz"]).ok();
    run(&place, &["sort", "@packed.gz", "-o", "got"]).ok();
    place.run(&["sort", "in", "-o", "out"]).ok();
    assert!(place.read("got") == place.read("out"));
    // The content of a dataset also shows its kind.
    place.run(&["sort", "in", "-o", "out.xz"]).ok();
    run(&place, &["volume", "put", "out.xz", "@unnamed"]).ok();
    run(&place, &["sort", "@unnamed", "-o", "got", "--force"]).ok();
    assert!(place.read("got") == place.read("out"));
    place.write("keys", &random_u64(1000, 1));
    run(&place, &["volume", "put", "keys", "@keys"]).ok();
    let refused = run(&place, &["sort", "@keys", "-o", "@sorted"]);
    refused.fails(2, &["NUL bytes", "@keys"], "--type");
    assert_eq!(names_in(&place.path("d0")), ["outcore-volume"]);
}

#[test]
fn csv_is_read_where_it_lies_headers_and_quoted_newlines_too() {
    let place = place();
    for (name, has_inner_lines) in [("plain", false), ("framed", true)] {
        let mut text = "name,\"price, net\",note\n".to_string();
        for (at, word) in random_u64(140_000, 12).chunks_exact(8).enumerate() {
            let number = u64_of(word);
            // outcore first examines only the head of a dataset; the first record that spans lines
            // comes after the head.
            let note = match has_inner_lines && at > 70_000 && at % 1000 == 0 {
                true => "\"two\nlines\"",
                false => "plain",
            };
            text.push_str(&format!("n{},{},{note}\n", number % 977, number >> 40));
        }
        assert!(text.len() > 2 << 20);
        place.write(name, text.as_bytes());
        let dataset = format!("@{name}");
        run(&place, &["volume", "put", name, &dataset]).ok();
        let sort = [
            "sort",
            "--csv",
            "--by",
            "price, net:nr",
            "--by",
            "name",
            "--memory",
            "64MiB",
        ];
        run(
            &place,
            &[&sort[..], &[&dataset, "-o", "@out", "--force"]].concat(),
        )
        .ok();
        place
            .run(&[&sort[..], &[name, "-o", "out", "--force"]].concat())
            .ok();
        run(&place, &["volume", "get", "@out", "got", "--force"]).ok();
        assert!(place.read("got") == place.read("out"), "{name}");
        assert!(place.read("out").starts_with(b"name,\"price, net\",note\n"));
    }
    place.write("open", b"a,b\n1,\"2\n");
    run(&place, &["volume", "put", "open", "@open"]).ok();
    run(
        &place,
        &["sort", "--csv", "--by", "a", "@open", "-o", "@never"],
    )
    .fails(4, &["@open", "quote"], "quote");
    assert_eq!(names_in(&place.path("d0")), ["outcore-volume"]);
}

#[test]
fn commands_on_records_read_and_write_large_datasets_in_place() {
    let place = place();
    place.write("in", &random_u64(300_000, 5));
    run(&place, &["volume", "put", "in", "@in"]).ok();
    let commands: [(&str, &[&str]); 7] = [
        ("sort", &["sort"]),
        ("shuffle", &["shuffle", "--seed", "3"]),
        ("unique", &["unique"]),
        ("map", &["map", "x + 1"]),
        ("filter", &["filter", "x % 3 == 0"]),
        ("scan", &["scan", "sum"]),
        ("zipped", &["map", "x ^ y", "--zip", "@in"]),
    ];
    for (name, command) in commands {
        let dataset = format!("@{name}");
        let options = ["--type", "u64", "--memory", "64MiB", "-o"];
        let here: Vec<&str> = [command, &["@in"], &options, &[dataset.as_str()]].concat();
        run(&place, &here).ok();
        let there: Vec<&str> = here
            .iter()
            .map(|word| match *word {
                "@in" => "in",
                word if word == dataset => name,
                word => word,
            })
            .collect();
        place.run(&there).ok();
        run(&place, &["volume", "get", &dataset, "got"]).ok();
        assert!(place.read("got") == place.read(name), "{name}");
        fs::remove_file(place.path("got")).unwrap();
    }
    run(&place, &["volume", "scrub"]).ok();
    // The drive holds nothing except the volume, so no copy takes room.
    assert_eq!(names_in(&place.path("d0")), ["outcore-volume"]);
    // The header gives the type; the name of a dataset has no meaning.
    run(&place, &["gen", "u64", "-n", "300000", "-o", "@keys.npy"]).ok();
    run(
        &place,
        &["sort", "@keys.npy", "--type", "u64", "-o", "@sorted.npy"],
    )
    .ok();
    run(
        &place,
        &[
            "verify",
            "@sorted.npy",
            "--type",
            "u64",
            "--against",
            "@keys.npy",
        ],
    )
    .ok();
    // The error names the place of the damage.
    let share = fs::read_dir(place.path("d1/outcore-volume/data"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    fs::set_permissions(&share, PermissionsExt::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(&share).unwrap();
    bytes[400_000] ^= 1;
    fs::write(&share, bytes).unwrap();
    let reduced: Vec<Answer> = [
        "@in",
        "@sort",
        "@shuffle",
        "@unique",
        "@zipped",
        "@map",
        "@scan",
        "@keys.npy",
        "@sorted.npy",
    ]
    .iter()
    .map(|name| run(&place, &["reduce", "sum", name, "--type", "u64"]))
    .collect();
    let failed: Vec<&Answer> = reduced
        .iter()
        .filter(|answer| answer.code == Some(4))
        .collect();
    assert!(
        !failed.is_empty() && failed.len() < reduced.len(),
        "{reduced:?}"
    );
    for answer in failed {
        assert!(
            answer.stderr.contains("drive d1") && answer.stderr.contains("at byte 393216"),
            "{answer:?}"
        );
    }
}

#[test]
fn datasets_are_what_the_flags_call_files_and_are_never_changed() {
    let place = place();
    place.write("in", &random_u64(20_000, 5));
    place.write("names", b"@bob\n@eve\n");
    run(&place, &["volume", "put", "in", "@keys"]).ok();
    run(&place, &["sort", "@keys", "-o@sorted", "--type", "u64"]).ok();
    run(
        &place,
        &["verify", "@sorted", "--type", "u64", "--against=@keys"],
    )
    .ok();
    // A value that is not a file name does not mean a dataset, whatever it begins with.
    run(
        &place,
        &["view", "build", "names", "-o", "names.view", "--lines"],
    )
    .ok();
    let from = run(&place, &["view", "cat", "names.view", "--from-key", "@c"]).ok();
    assert_eq!(from.stdout, b"@eve\n");
    // The trace of a command is one of its outputs.
    let words = [
        "sort",
        "@keys",
        "-o",
        "out",
        "--type",
        "u64",
        "--record-io",
        "@trace",
    ];
    run(&place, &words).ok();
    run(
        &place,
        &["view", "build", "@keys", "-o", "@view", "--type", "u64"],
    )
    .ok();
    for words in [
        ["sort", "@keys", "--replace", "--type", "u64"].as_slice(),
        &[
            "sort",
            "@keys",
            "-o",
            "other",
            "--delete-input",
            "--type",
            "u64",
        ],
        &["view", "append", "@view", "in"],
    ] {
        run(&place, words).fails(2, &["@", "is sealed"], "-o @OTHER");
    }
    let bad = run(&place, &["sort", "in", "-o", "@a b", "--type", "u64"]);
    bad.fails(2, &["name dataset"], "letters");
    assert_eq!(names_in(&place.path("d0")), ["outcore-volume"]);
}

#[test]
fn without_a_volume_a_dataset_is_an_error_unless_there_is_such_a_file() {
    let place = TestDir::new();
    place.write("in", &random_u64(1000, 5));
    place.write("@file", &random_u64(1000, 5));
    for words in [
        ["sort", "@keys", "-o", "out"],
        ["sort", "in", "-o", "@keys"],
    ] {
        let answer = place.run(&[&words[..], &["--type", "u64"]].concat());
        answer.fails(2, &["@keys is a dataset", "no volume"], "./@keys");
    }
    place
        .run(&["sort", "@file", "-o", "./@out", "--type", "u64"])
        .ok();
    assert!(place.path("@out").exists());
}

#[test]
fn a_dataset_is_the_value_of_the_flag_that_it_was_given_to() {
    let place = place();
    place.write("in", b"2o1\n1o2\n");
    run(&place, &["volume", "put", "in", "@a"]).ok();
    // The separator is `o`; the input is @a.
    run(&place, &["sort", "-k1,1", "-to", "@a", "-o", "@c"]).ok();
    assert_eq!(
        run(&place, &["volume", "get", "@c", "-"]).ok().stdout,
        b"1o2\n2o1\n"
    );
    let again = run(&place, &["sort", "-k2,2", "-to", "@a", "-o@c"]);
    again.fails(2, &["@c already"], "--force");
    run(&place, &["sort", "-k2,2", "-to", "@a", "-fo@c", "--force"]).ok();
    assert_eq!(
        run(&place, &["volume", "get", "@c", "-"]).ok().stdout,
        b"2o1\n1o2\n"
    );
}

#[test]
fn what_a_command_reads_itself_is_all_of_the_dataset() {
    let place = place();
    place.write("in", b"b\na\n");
    // The list is longer than the head, which is read when outcore examines the dataset.
    let name = format!("{}in\0", "./".repeat(2000));
    place.write("names", name.repeat(300).as_bytes());
    run(&place, &["volume", "put", "names", "@list"]).ok();
    for how in [
        &["--files0-from", "@list"][..],
        &["-u", "--files0-from=@list"],
    ] {
        let sorted = run(&place, &[&["sort"], how].concat()).ok().stdout;
        let times = if how[0] == "-u" { 1 } else { 300 };
        let wanted = ["a\n".repeat(times), "b\n".repeat(times)].concat();
        assert!(sorted == wanted.as_bytes(), "{how:?}");
    }
    let chosen = |source: &str| {
        let sort = ["sort", "-R", "names", "-z", "--random-source", source];
        run(&place, &sort).ok().stdout
    };
    assert!(chosen("@list") == chosen("names"));
}

#[test]
fn names_in_a_list_are_datasets_as_those_on_the_command_line_are() {
    let place = place();
    place.write("in", b"d\nb\n");
    place.write("zipped", b"c\na\n");
    run(&place, &["volume", "put", "in", "@in"]).ok();
    run(&place, &["sort", "zipped", "-r", "-o", "@z.gz"]).ok();
    place.write("names", b"@in\0@z.gz\0in\0");
    let sort = ["sort", "-u", "--files0-from", "names"];
    assert_eq!(run(&place, &sort).ok().stdout, b"a\nb\nc\nd\n");
    place.write("names", b"@none\0");
    run(&place, &sort).fails(2, &["@none"], "ls");
    let answer = place.run(&sort);
    answer.fails(2, &["@none is a dataset", "no volume"], "./@none");
}

#[test]
fn a_dataset_needs_no_room_beside_it_to_be_read() {
    let place = place();
    let bytes = random_u64(300_000, 5);
    place.write("in", &bytes);
    run(&place, &["volume", "put", "in", "@in"]).ok();
    // A dataset that is read in place leaves nothing behind, and no file of its length is made.
    run(&place, &["head", "-n", "1", "@in", "--type", "u64"]).ok();
    run(
        &place,
        &["view", "build", "@in", "-o", "in.view", "--type", "u64"],
    )
    .ok();
    run(&place, &["sort", "in", "-o", "sorted", "--type", "u64"]).ok();
    let cat = run(&place, &["view", "cat", "in.view"]).ok();
    assert!(cat.stdout == place.read("sorted"));
    assert_eq!(names_in(&place.path("d0")), ["outcore-volume"]);
}
