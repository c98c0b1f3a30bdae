//! One shard per drive: names, manifest, and shards as an input.
//!
//! Contract: the shards in order are the sorted data; commands accept the manifest in place of all
//! of them.

use std::fs;

use crate::support::*;

/// A place with input and three drives.
fn place() -> (TestDir, Vec<u8>) {
    let place = TestDir::new();
    let bytes = random_u64(30_001, 41);
    place.write("in", &bytes);
    for drive in ["a", "b", "c"] {
        place.make_dir(drive);
    }
    (place, bytes)
}

const DRIVES: [&str; 6] = ["--drive", "a", "--drive", "b", "--drive", "c"];

#[test]
fn each_drive_gets_a_shard_and_the_first_a_manifest() {
    let (place, bytes) = place();
    let sort = ["sort", "in", "-o", "sorted-{drive}.bin", "--type", "u64"];
    place.run(&[&sort[..], &DRIVES].concat()).ok();
    assert_eq!(
        names_in(&place.path("a")),
        ["sorted-a.bin", "sorted.bin.outcore.json"]
    );
    assert_eq!(names_in(&place.path("b")), ["sorted-b.bin"]);
    assert_eq!(names_in(&place.path("c")), ["sorted-c.bin"]);
    let joined =
        ["a/sorted-a.bin", "b/sorted-b.bin", "c/sorted-c.bin"].map(|name| place.read(name));
    assert_eq!(joined.concat(), sorted_u64(&bytes));
    assert!(
        joined
            .iter()
            .all(|shard| shard.len() % 8 == 0 && shard.len() > 70_000)
    );
    place
        .run(&[&sort[..], &DRIVES].concat())
        .fails(2, &["exists already"], "--force");
    place.run(&[&sort[..], &DRIVES, &["--force"]].concat()).ok();
}

#[test]
fn a_manifest_is_valid_input_and_can_be_sorted_in_place() {
    let (place, bytes) = place();
    let sort = ["sort", "in", "-o", "s-{drive}", "--type", "u64"];
    place.run(&[&sort[..], &DRIVES].concat()).ok();
    let manifest = "a/s.outcore.json";
    let answer = place
        .run(&["verify", manifest, "--type", "u64", "--against", "in"])
        .ok();
    assert!(answer.stderr.contains("SAME"), "{answer:?}");
    let down = ["--type", "u64", "--descending"];
    place
        .run(&[&["sort", manifest, "-o", "one"], &down[..]].concat())
        .ok();
    let wanted = sorted_by(&bytes, 8, |r| std::cmp::Reverse(u64_of(r)));
    assert_eq!(place.read("one"), wanted);
    place
        .run(&[&["sort", manifest, "--replace"], &down[..]].concat())
        .ok();
    let joined = ["a/s-a", "b/s-b", "c/s-c"].map(|name| place.read(name));
    assert_eq!(joined.concat(), wanted);
    assert_eq!(place.names(), ["a", "b", "c", "in", "one"]);
}

#[test]
fn a_pattern_with_directories_is_taken_as_it_is() {
    let (place, bytes) = place();
    let pattern = place.path("{drive}/x.bin");
    let sort = [
        "sort",
        "in",
        "-o",
        pattern.to_str().unwrap(),
        "--type",
        "u64",
    ];
    place.run(&[&sort[..], &DRIVES].concat()).ok();
    let joined = ["a/x.bin", "b/x.bin", "c/x.bin"].map(|name| place.read(name));
    assert_eq!(joined.concat(), sorted_u64(&bytes));
    assert!(place.path("a/x.bin.outcore.json").exists());
}

#[test]
fn shards_of_few_records_may_be_empty() {
    let (place, _) = place();
    place.write("two", &random_u64(2, 1));
    let sort = ["sort", "two", "-o", "t-{drive}", "--type", "u64"];
    place.run(&[&sort[..], &DRIVES].concat()).ok();
    let joined = ["a/t-a", "b/t-b", "c/t-c"].map(|name| place.read(name));
    assert_eq!(joined.concat(), sorted_u64(&place.read("two")));
    place
        .run(&["verify", "a/t.outcore.json", "--type", "u64"])
        .ok();
}

#[test]
fn shards_need_drives_and_no_header() {
    let (place, _) = place();
    let sort = ["sort", "in", "--type", "u64", "-o"];
    place
        .run(&[&sort[..], &["s-{drive}"]].concat())
        .fails(2, &["{drive}"], "--drive DIR");
    place
        .run(&[&sort[..], &["s-{drive}.npy"], &DRIVES[..]].concat())
        .fails(2, &[".npy"], ".bin");
    assert_eq!(place.names(), ["a", "b", "c", "in"]);
    assert!(fs::read_dir(place.path("a")).unwrap().next().is_none());
}

#[test]
fn generated_data_can_lie_on_all_drives_and_is_that_of_one_file() {
    let (place, _) = place();
    place.run(&["gen", "u64", "-n", "1000", "-o", "one"]).ok();
    let generate = ["gen", "u64", "-n", "1000", "-o", "g-{drive}"];
    place.run(&[&generate[..], &DRIVES].concat()).ok();
    let joined = ["a/g-a", "b/g-b", "c/g-c"].map(|name| place.read(name));
    assert_eq!(joined.concat(), place.read("one"));
    let check = [
        "verify",
        "a/g.outcore.json",
        "--type",
        "u64",
        "--against",
        "one",
    ];
    place.run(&check).fails_quietly(1);
}
