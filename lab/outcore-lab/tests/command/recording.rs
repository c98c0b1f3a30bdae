//! Replays recordings of `outcore` commands on simulated drives.
//!
//! Contract: a replay moves exactly the bytes of the trace. The tests run `outcore` itself; if it
//! was not built, they say so and pass.

use serde_json::Value;

use crate::support::*;
use crate::traffic::traffic;
use crate::{Outcore, outcore};

/// Bytes read and written by a replay on two simulated drives.
#[track_caller]
fn replayed(place: &TestDir, trace: &str) -> (u64, u64) {
    let replay = [
        "sim", "replay", trace, "--preset", "p41", "--drives", "2", "--json",
    ];
    let answer = place.run(&replay).ok();
    let summary: Value = serde_json::from_str(&answer.text()).unwrap();
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    let bytes = |key: &str| summary[key].as_u64().unwrap();
    (bytes("read_bytes"), bytes("write_bytes"))
}

/// A command, and the least number of bytes that it reads and writes.
struct Moved(&'static [&'static str], u64, u64);

/// Records each command and replays the recording.
#[track_caller]
fn each_replays(outcore: &Outcore, place: &TestDir, commands: &[Moved]) {
    for Moved(arguments, read_bytes, written_bytes) in commands {
        let trace = format!("{}.trace", arguments[..2].join("-").replace('/', "-"));
        let record = ["--record-io", &trace];
        let answer = outcore.run(place, &[*arguments, &record[..]].concat()).ok();
        assert!(
            answer.stderr.contains("I/O recorded in"),
            "{arguments:?}: {answer:?}"
        );
        let moved = replayed(place, &trace);
        let traced = traffic(&place.path(&trace));
        let total = |pick: fn(&(u64, u64)) -> u64| traced.values().map(pick).sum::<u64>();
        assert_eq!(moved.0, total(|drive| drive.0), "{arguments:?}");
        assert_eq!(moved.1, total(|drive| drive.1), "{arguments:?}");
        assert!(moved.0 >= *read_bytes, "{arguments:?}: {moved:?}");
        assert!(moved.1 >= *written_bytes, "{arguments:?}: {moved:?}");
    }
}

#[test]
fn the_trace_of_every_family_of_commands_replays() {
    let Some(outcore) = outcore() else { return };
    const BYTES: u64 = 8 * 300_000;
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 221));
    let text: String = (0..200_000).map(|at| format!("{at:09}\n")).collect();
    place.write("text", text.as_bytes());
    let text_bytes = text.len() as u64;
    each_replays(
        &outcore,
        &place,
        &[
            Moved(&["sort", "in", "--type=u64", "-o", "sorted"], BYTES, BYTES),
            Moved(
                &["sort", "text", "-o", "sorted.txt"],
                text_bytes,
                text_bytes,
            ),
            Moved(&["verify", "sorted", "--type=u64"], BYTES, 0),
            Moved(&["gen", "u64", "-n", "300000", "-o", "made"], 0, BYTES),
            Moved(
                &["shuffle", "in", "--type=u64", "-o", "mixed"],
                BYTES,
                BYTES,
            ),
            Moved(&["unique", "text", "-o", "once"], text_bytes, text_bytes),
            Moved(
                &["filter", "x >= 0", "in", "--type=u64", "-o", "all"],
                BYTES,
                BYTES,
            ),
            Moved(&["reduce", "sum", "in", "--type=u64"], BYTES, 0),
            // `head` reads the first block, and then only as much as it needs.
            Moved(
                &["head", "text", "-n", "1000", "-o", "first"],
                1 << 20,
                10_000,
            ),
            Moved(
                &["sample", "text", "-n", "1000", "-o", "some"],
                text_bytes,
                10_000,
            ),
            Moved(
                &["split", "text", "-n", "3", "-o", "part-{part}"],
                text_bytes,
                text_bytes,
            ),
        ],
    );
    let first: Vec<u8> = text.bytes().take(10_000).collect();
    assert_eq!(place.read("first"), first);
    let parts: Vec<u8> = (0..3)
        .flat_map(|part| place.read(&format!("part-{part:02}")))
        .collect();
    assert_eq!(parts, text.as_bytes());
}

#[test]
fn the_trace_of_every_command_on_views_replays() {
    let Some(outcore) = outcore() else { return };
    const BYTES: u64 = 8 * 300_000;
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 223));
    each_replays(
        &outcore,
        &place,
        &[
            Moved(
                &["view", "build", "in", "--type", "u64", "-o", "keys.view"],
                BYTES,
                BYTES,
            ),
            Moved(&["view", "append", "keys.view", "in"], BYTES, BYTES),
            Moved(&["view", "verify", "keys.view"], 2 * BYTES, 0),
            Moved(&["view", "cat", "keys.view"], 2 * BYTES, 0),
            Moved(
                &["view", "materialize", "keys.view", "-o", "out"],
                2 * BYTES,
                2 * BYTES,
            ),
        ],
    );
}

#[test]
fn what_goes_in_and_out_of_a_volume_is_recorded_and_replays() {
    let Some(outcore) = outcore() else { return };
    let place = TestDir::new();
    let drives = ["d0", "d1"].map(|drive| {
        place.make_dir(drive);
        format!("[[drive]]\ndir = \"{drive}\"\n")
    });
    place.write("drives.toml", drives.concat().as_bytes());
    let volume = ["--volume", "drives.toml"];
    let run = |words: &[&str]| outcore.run(&place, &[words, &volume[..]].concat()).ok();
    run(&["volume", "create", "--stripe", "64KiB"]);
    let bytes = random_u64(50_000, 9);
    place.write("in", &bytes);
    let moves: [&[&str]; 3] = [
        &["volume", "put", "in", "@x"],
        &["volume", "cp", "@x", "@y"],
        &["volume", "get", "@y", "out"],
    ];
    for words in moves {
        run(&[words, &["--record-io", "trace", "--force"]].concat());
        let answer = place.run(&["sim", "replay", "trace", "--json"]).ok();
        let summary: Value = serde_json::from_str(&answer.text()).unwrap();
        for key in ["read_bytes", "write_bytes"] {
            let moved = summary[key].as_u64().unwrap();
            assert!(moved >= bytes.len() as u64, "{words:?} {key}: {moved}");
        }
    }
    assert!(place.read("out") == bytes);
    // A trace may be a dataset.
    let sort = ["sort", "@x", "-o", "sorted", "--type", "u64"];
    run(&[&sort[..], &["--record-io", "@trace"]].concat());
    let replay = ["replay", "@trace", "--summary", "--volume", "drives.toml"];
    place.run(&replay).ok();
    let replay = ["sim", "replay", "@trace", "--volume", "drives.toml"];
    place.run(&replay).ok();
}
