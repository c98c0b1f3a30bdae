//! `outcore sort`: the order for every type and option, against naive oracles; plans and settings.
//!
//! Contract: results are compared byte for byte; nothing is timed.

use std::cmp::Reverse;
use std::fs;

use crate::support::*;

/// Sorts `bytes` with these flags and gives the output.
#[track_caller]
fn sorted(bytes: &[u8], flags: &[&str]) -> Vec<u8> {
    let place = TestDir::new();
    place.write("in.bin", bytes);
    let arguments = [&["sort", "in.bin", "-o", "out.bin"], flags].concat();
    place.run(&arguments).ok();
    assert_eq!(place.read("in.bin"), bytes, "the input is untouched");
    assert_eq!(place.names(), ["in.bin", "out.bin"]);
    place.read("out.bin")
}

#[test]
fn integers_of_either_byte_order_are_sorted_by_value() {
    let bytes = random_u64(5_000, 1);
    assert_eq!(sorted(&bytes, &["--type", "u64"]), sorted_u64(&bytes));
    let wanted = sorted_by(&bytes, 4, |r| u32::from_be_bytes(r.try_into().unwrap()));
    assert_eq!(sorted(&bytes, &["--type", "u32be"]), wanted);
    let wanted = sorted_by(&bytes, 8, |r| i64::from_le_bytes(r.try_into().unwrap()));
    assert_eq!(sorted(&bytes, &["--type", "i64"]), wanted);
    let wanted = sorted_by(&bytes, 16, |r| u128::from_le_bytes(r.try_into().unwrap()));
    assert_eq!(sorted(&bytes, &["--type", "u128"]), wanted);
}

#[test]
fn floats_are_sorted_with_negative_zero_first_and_nans_last() {
    let values = [
        1.5,
        f64::NAN,
        -0.0,
        0.0,
        f64::NEG_INFINITY,
        -3.0,
        f64::INFINITY,
    ];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let output = sorted(&bytes, &["--type", "f64"]);
    let numbers: Vec<f64> = output
        .chunks(8)
        .map(|r| f64::from_le_bytes(r.try_into().unwrap()))
        .collect();
    assert_eq!(numbers[0], f64::NEG_INFINITY);
    assert_eq!(&numbers[1..6], [-3.0, 0.0, 0.0, 1.5, f64::INFINITY]);
    assert!(numbers[2].is_sign_negative() && numbers[3].is_sign_positive());
    assert!(numbers[6].is_nan());
}

#[test]
fn vectors_are_sorted_element_by_element() {
    let mut numbers = Numbers(3);
    let bytes: Vec<u8> = (0..3_000)
        .flat_map(|_| ((numbers.next() % 5) as f32 - 2.0).to_le_bytes())
        .collect();
    let key = |record: &[u8]| {
        let order = |e: &[u8]| (f32::from_le_bytes(e.try_into().unwrap()) * 2.0) as i32;
        record.chunks(4).map(order).collect::<Vec<i32>>()
    };
    assert_eq!(
        sorted(&bytes, &["--type", "f32x3"]),
        sorted_by(&bytes, 12, key)
    );
}

#[test]
fn records_are_sorted_by_their_keys_and_then_by_their_bytes() {
    let mut numbers = Numbers(5);
    // Keys have few values, so that the bytes after them count.
    let bytes: Vec<u8> = (0..2_000)
        .flat_map(|_| {
            let mut record = numbers.bytes(12);
            record[2] %= 3;
            record[7] %= 4;
            record
        })
        .collect();
    let wanted = sorted_by(&bytes, 12, |r| (r[2], Reverse(r[7])));
    let flags = ["--record", "12", "--key", "2:1", "--key", "7:1:u8:desc"];
    assert_eq!(sorted(&bytes, &flags), wanted);
    let flags = ["--type", "12/2:1,7:1:u8:desc"];
    assert_eq!(sorted(&bytes, &flags), wanted);
    // Without a key, the whole record is the key.
    let wanted = sorted_by(&bytes, 12, |r| r.to_vec());
    assert_eq!(sorted(&bytes, &["--record", "12"]), wanted);
}

#[test]
fn descending_turns_the_keys_round_but_not_the_bytes_behind_them() {
    let bytes = random_u64(3_000, 7);
    let wanted = sorted_by(&bytes, 8, |r| Reverse(u64_of(r)));
    assert_eq!(sorted(&bytes, &["--type", "u64", "--descending"]), wanted);
    let few: Vec<u8> = bytes.iter().map(|byte| byte % 4).collect();
    let wanted = sorted_by(&few, 8, |r| Reverse(r[3]));
    let flags = ["--record", "8", "--key", "3:1", "--descending"];
    assert_eq!(sorted(&few, &flags), wanted);
}

#[test]
fn stable_keeps_the_order_of_the_input_and_unique_one_record_a_key() {
    let few: Vec<u8> = random_u64(4_000, 9).iter().map(|byte| byte % 7).collect();
    let mut records: Vec<&[u8]> = few.chunks(8).collect();
    records.sort_by_key(|r| r[1]);
    let flags = ["--record", "8", "--key", "1:1", "--stable"];
    assert_eq!(sorted(&few, &flags), records.concat());
    records.dedup_by_key(|r| r[1]);
    let flags = ["--record", "8", "--key", "1:1", "--stable", "--unique"];
    assert_eq!(sorted(&few, &flags), records.concat());

    let numbers: Vec<u8> = (0..5_000_u64)
        .flat_map(|n| (n * 7 % 100).to_le_bytes())
        .collect();
    let wanted: Vec<u8> = (0..100_u64).flat_map(u64::to_le_bytes).collect();
    assert_eq!(sorted(&numbers, &["--type", "u64", "--unique"]), wanted);
}

#[test]
fn several_inputs_are_one_in_the_given_order() {
    let place = TestDir::new();
    let parts = [random_u64(100, 1), random_u64(70, 2), random_u64(1, 3)];
    for (name, part) in ["a", "b", "c"].iter().zip(&parts) {
        place.write(name, part);
    }
    place
        .run(&["sort", "b", "a", "c", "-o", "out", "--type", "u64"])
        .ok();
    assert_eq!(place.read("out"), sorted_u64(&parts.concat()));
    let stable = ["--record", "8", "--key", "0:1", "--stable"];
    let arguments = [&["sort", "b", "a", "c", "-o", "stable"], &stable[..]].concat();
    place.run(&arguments).ok();
    let joined = [&parts[1][..], &parts[0], &parts[2]].concat();
    let mut records: Vec<&[u8]> = joined.chunks(8).collect();
    records.sort_by_key(|r| r[0]);
    assert_eq!(place.read("stable"), records.concat());
}

#[test]
fn nothing_gives_nothing_and_one_record_itself() {
    assert!(sorted(&[], &["--type", "u64"]).is_empty());
    assert!(sorted(&[], &["--type", "gensort", "--stable"]).is_empty());
    assert_eq!(sorted(&[9; 100], &["--type", "gensort"]), [9; 100]);
    assert_eq!(
        sorted(&[1, 2, 3, 4], &["--type", "u32", "--unique"]),
        [1, 2, 3, 4]
    );
}

#[test]
fn the_output_depends_on_neither_memory_nor_threads_nor_drives_nor_seed() {
    let place = TestDir::new();
    let bytes = random_u64(1_500_000, 11);
    place.write("in", &bytes);
    let wanted = sorted_u64(&bytes);
    for dir in ["d1", "d2", "d3"] {
        place.make_dir(dir);
    }
    let settings: [&[&str]; 5] = [
        &["--memory", "1GiB", "--threads", "1"],
        &["--memory", "10MiB", "--threads", "2"],
        &[
            "--memory",
            "10MiB",
            "--threads",
            "1",
            "--drive",
            "d1",
            "--drive",
            "d2",
            "--drive",
            "d3",
        ],
        &[
            "--memory",
            "10MiB",
            "--threads",
            "2",
            "--seed",
            "77",
            "--drive",
            "d2",
        ],
        &["--memory", "12MiB", "--threads", "2", "--io", "buffered"],
    ];
    for setting in settings {
        let fixed = ["sort", "in", "-o", "out", "--type", "u64", "--force"];
        place.run(&[&fixed, setting].concat()).ok();
        assert!(place.read("out") == wanted, "{setting:?}");
    }
    for dir in ["d1", "d2", "d3"] {
        assert!(names_in(&place.path(dir)).is_empty(), "{dir} is clean");
    }
    assert_eq!(place.names(), ["d1", "d2", "d3", "in", "out"]);
}

#[test]
fn scratch_goes_to_the_named_drives_and_to_those_of_a_drives_file() {
    let place = TestDir::new();
    place.write("in", &random_u64(1_500_000, 13));
    place.make_dir("fast");
    place.make_dir("slow");
    let file = "[[drive]]\ndir = \"fast\"\nread_bandwidth = \"2GB/s\"\nwrite_bandwidth = \"2GB/s\"\n\
                [[drive]]\ndir = \"slow\"\nread_bandwidth = \"1GB/s\"\nwrite_bandwidth = \"1GB/s\"\n";
    place.write("drives.toml", file.as_bytes());
    let fixed = [
        "sort", "in", "-o", "out", "--type", "u64", "--force", "--json", "--memory", "10MiB",
    ];
    let answer = place
        .run(&[&fixed[..], &["--drives", "drives.toml"]].concat())
        .ok();
    let begin = answer.event("begin");
    let names: Vec<&str> = begin["drives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|drive| drive["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["fast", "slow"]);
    let summary = answer.event("summary");
    // Both directories, the input and the output are on one file system, which counts as the first
    // drive.
    assert!(
        summary["bandwidth_fraction"].as_f64().unwrap() > 0.0,
        "{summary}"
    );
    let answer = place.run(&[&fixed[..], &["--drive", "fast"]].concat()).ok();
    assert!(answer.event("summary")["bandwidth_fraction"].is_null());
    assert_eq!(answer.event("begin")["drives"][0]["name"], "fast");
}

#[test]
fn replace_sorts_a_file_in_place_even_through_a_link() {
    let place = TestDir::new();
    let bytes = random_u64(5_000, 17);
    place.write("a", &bytes);
    place.run(&["sort", "a", "--replace", "--type", "u64"]).ok();
    assert_eq!(place.read("a"), sorted_u64(&bytes));

    let other = random_u64(300, 19);
    place.write("b", &other);
    std::os::unix::fs::symlink("b", place.path("link")).unwrap();
    place
        .run(&[
            "sort",
            "a",
            "link",
            "-o",
            "link",
            "--replace",
            "--type",
            "u64",
        ])
        .ok();
    assert_eq!(place.read("b"), sorted_u64(&[bytes, other].concat()));
    assert!(
        fs::symlink_metadata(place.path("link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(place.names(), ["a", "b", "link"]);
}

#[test]
fn delete_input_removes_the_inputs_once_the_output_is_there_and_says_the_risk() {
    let place = TestDir::new();
    let (a, b) = (random_u64(9_000, 23), random_u64(20, 29));
    place.write("a", &a);
    place.write("b", &b);
    let answer = place
        .run(&[
            "sort",
            "a",
            "b",
            "-o",
            "out",
            "--type",
            "u64",
            "--delete-input",
        ])
        .ok();
    assert!(answer.stderr.contains("lost"), "{answer:?}");
    assert_eq!(place.names(), ["out"]);
    assert_eq!(place.read("out"), sorted_u64(&[a, b].concat()));
}

#[test]
fn what_the_output_has_replaced_is_never_deleted_whatever_it_is_called() {
    let place = TestDir::new();
    let bytes = random_u64(30_000, 31);
    let absolute = place.path("in").display().to_string();
    place.make_dir("sub");
    std::os::unix::fs::symlink(".", place.path("here")).unwrap();
    for (input, output) in [
        ("./in", "in"),
        ("in", "./in"),
        (&absolute, "in"),
        ("sub/../in", "in"),
        ("here/in", "in"),
        ("in", "here/in"),
    ] {
        place.write("in", &bytes);
        let replace = ["--replace", "--delete-input", "--type", "u64"];
        place
            .run(&[&["sort", input, "-o", output][..], &replace].concat())
            .ok();
        assert!(place.read("in") == sorted_u64(&bytes), "{input} {output}");
    }
    // A file with a second name is neither deleted nor freed, even if the output takes that name.
    place.write("in", &bytes);
    fs::hard_link(place.path("in"), place.path("other")).unwrap();
    let replace = ["--replace", "--delete-input", "--type", "u64"];
    let answer = place.run(&[&["sort", "other", "-o", "in"][..], &replace].concat());
    assert!(
        answer.code == Some(2) && answer.stderr.contains("2 names"),
        "{answer:?}"
    );
    assert!(place.read("in") == bytes && place.read("other") == bytes);
    assert_eq!(place.names(), ["here", "in", "other", "sub"]);
}

#[test]
fn check_names_the_first_unordered_record_and_exits_with_1() {
    let place = TestDir::new();
    let bytes: Vec<u8> = [1_u32, 5, 5, 4, 9]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    place.write("in", &bytes);
    place.write("more", &[0; 8]);
    let check = |flags: &[&str]| {
        let fixed = ["sort", "in", "--check", "--type", "u32"];
        place.run(&[&fixed[..], flags].concat())
    };
    check(&[]).fails(1, &["record 4", "(in, at byte 12)"], "--type");
    check(&["more"]).fails(1, &["record 4"], "");
    place.write("in", &bytes[..12]);
    check(&[]).ok();
    check(&["--unique"]).fails(1, &["record 3"], "");
    check(&["--descending"]).fails(1, &["record 2"], "");
    check(&["more"]).fails(1, &["record 4", "(more, at byte 0)"], "");
    // If keys are equal, the bytes after them must also be in order, unless the sort was stable.
    place.write("pairs", &[1, 9, 1, 2]);
    let pairs = ["sort", "pairs", "--check", "--record", "2", "--key", "0:1"];
    place.run(&pairs).fails(1, &["record 2"], "");
    place.run(&[&pairs[..], &["--stable"]].concat()).ok();
    assert_eq!(place.names(), ["in", "more", "pairs"]);
}

#[test]
fn a_plan_is_printed_and_followed_or_only_printed() {
    let place = TestDir::new();
    place.write("in", &random_u64(1_500_000, 31));
    let fixed = ["sort", "in", "--type", "u64", "--memory", "10MiB"];
    let answer = place.run(&[&fixed[..], &["--dry-run"]].concat()).ok();
    assert!(answer.text().contains("predicted"), "{answer:?}");
    assert!(answer.stderr.is_empty(), "{answer:?}");
    assert_eq!(place.names(), ["in"]);
    let answer = place
        .run(&[&fixed[..], &["-o", "out", "--dry-run"]].concat())
        .ok();
    assert!(answer.text().contains("10.0 MiB of memory"), "{answer:?}");
    assert_eq!(place.names(), ["in"]);
    let answer = place
        .run(&[&fixed[..], &["-o", "out", "--explain"]].concat())
        .ok();
    assert!(answer.text().is_empty(), "{answer:?}");
    assert!(answer.stderr.contains("predicted"), "{answer:?}");
    // The table shows the result of each phase next to its plan.
    let mut lines = answer.stderr.lines();
    let is_header = |line: &&str| line.contains("phase") && line.contains("planned");
    assert!(lines.any(|line| is_header(&line)), "{answer:?}");
    for phase in ["sample", "distribute", "sort"] {
        let row = format!("  {phase:<10} ");
        assert!(answer.stderr.contains(&row), "{phase}: {answer:?}");
    }
    assert_eq!(place.names(), ["in", "out"]);
}

#[test]
fn quiet_says_nothing_and_verbose_says_more() {
    let place = TestDir::new();
    place.write("in", &random_u64(100, 37));
    let run = |flag: &[&str]| {
        let fixed = ["sort", "in", "-o", "out", "--type", "u64", "--force"];
        place.run(&[&fixed[..], flag].concat()).ok()
    };
    let plain = run(&[]);
    assert!(plain.stdout.is_empty());
    assert!(
        plain.stderr.starts_with("sorted 100 records, 800 B, in "),
        "{plain:?}"
    );
    assert!(run(&["-q"]).stderr.is_empty());
    let more = run(&["-v"]);
    assert!(
        more.stderr.contains("memory = ") && more.stderr.contains("drive "),
        "{more:?}"
    );
    place
        .run(&["sort", "in", "-q", "-v", "-o", "x", "--type", "u64"])
        .fails(2, &["cannot be used with"], "leave one of them out");
}

#[test]
fn colours_come_when_asked_for_only() {
    let place = TestDir::new();
    let run = |when: &str| place.run(&["sort", "missing", "-o", "x", "--color", when]);
    assert!(run("always").stderr.contains("\x1b[1;31merror:\x1b[0m"));
    assert!(!run("never").stderr.contains('\x1b'));
    assert!(!run("auto").stderr.contains('\x1b'), "no terminal");
}

/// A file system in memory that is removed with its mount point.
struct Mount(std::path::PathBuf);

impl Mount {
    /// Mounts a file system of `size_bytes` at `dir`; `None` if that is not allowed.
    fn make(dir: std::path::PathBuf, size_bytes: u64) -> Option<Self> {
        let size = format!("size={size_bytes}");
        let made = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&dir)
            .output();
        made.is_ok_and(|made| made.status.success())
            .then(|| Mount(dir))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let gone = std::process::Command::new("umount").arg(&self.0).status();
        assert!(gone.unwrap().success());
    }
}

#[test]
fn scratch_never_goes_to_memory_unless_that_is_named() {
    let place = TestDir::new();
    let bytes = random_u64(800_000, 131);
    place.write("in", &bytes);
    let Some(mount) = Mount::make(place.make_dir("memory"), 64 << 20) else {
        println!("SKIP: mounting a tmpfs needs root");
        return;
    };
    let sort = [
        "sort",
        "in",
        "-o",
        "memory/out",
        "--type",
        "u64",
        "--force",
        "--memory",
    ];
    let run = |flags: &[&str]| place.run(&[&sort[..], flags].concat()).ok();
    let answer = run(&["5MiB"]);
    assert!(
        answer.stderr.contains("scratch goes to /var/tmp"),
        "{answer:?}"
    );
    assert!(place.read("memory/out") == sorted_u64(&bytes));
    let answer = run(&["5MiB", "--drive", "memory"]);
    assert!(!answer.stderr.contains("note"), "{answer:?}");
    let answer = run(&["1GiB"]);
    assert!(
        !answer.stderr.contains("note"),
        "nothing goes to scratch: {answer:?}"
    );
    assert_eq!(names_in(&place.path("memory")), ["out"]);
    drop(mount);
}

#[test]
fn a_full_drive_is_refused_before_the_start_or_cleaned_up_after() {
    let place = TestDir::new();
    place.write("in", &random_u64(800_000, 137));
    let Some(mount) = Mount::make(place.make_dir("small"), 3 << 20) else {
        println!("SKIP: mounting a small file system needs root");
        return;
    };
    let sort = ["sort", "in", "--type", "u64", "--memory", "5MiB", "-o"];
    let run = |flags: &[&str]| place.run(&[&sort[..], flags].concat());
    run(&["small/out"]).fails(
        5,
        &["6.10 MiB are needed", "3.00 MiB are free", "(small)"],
        "another drive",
    );
    run(&["out", "--drive", "small"]).fails(
        5,
        &["scratch are needed", "small has 3.00 MiB"],
        "--drive",
    );
    assert!(names_in(&place.path("small")).is_empty());
    assert_eq!(place.names(), ["in", "small"]);
    // The length of a pipe is unknown, so it exceeds the limit only while it is copied. The copy is
    // then removed.
    let spool = ["sort", "-", "-o", "-", "--type", "u64", "--drive", "small"];
    let answer = place.run_with_input(&spool, &random_u64(800_000, 139));
    answer.fails(5, &["No space left"], "");
    assert!(names_in(&place.path("small")).is_empty());
    drop(mount);
}
