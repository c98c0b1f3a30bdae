//! Shuffles and selections of different items that are killed and continued.
//!
//! Contract: as for sorts. A shuffle has the order of its seed, whichever runs were killed.

use super::*;

/// Lines of different lengths.
pub(super) fn lines(count: u64, values: u64) -> Vec<u8> {
    let mut numbers = Numbers(21);
    let lines = (0..count).map(|_| {
        let value = numbers.next() % values;
        format!("{value:x}{:>1$}\n", value % 7, 9 + (value % 40) as usize)
    });
    lines.collect::<String>().into_bytes()
}

#[test]
fn a_shuffle_of_numbers_and_of_records_that_is_killed_resumes_to_the_same_bytes() {
    for (input, options) in [
        (
            random_u64(900_000, 22),
            "--type u64 --memory 6MiB --threads 1",
        ),
        (
            random_u64(900_000, 22),
            "--type u64 --seed 3 --memory 6MiB --threads 2",
        ),
        (
            Numbers(23).bytes(80_000 * 100),
            "--record 100 --memory 6MiB --threads 2",
        ),
    ] {
        let (kept, _) = job_of(input, "shuffle", options).walk("kill");
        assert!(kept > 3, "{options}: {kept}");
    }
}

#[test]
fn a_shuffle_of_lines_that_is_killed_resumes_to_the_same_bytes() {
    let job = job_of(
        lines(750_000, u64::MAX),
        "shuffle",
        "--memory 18MiB --threads 2",
    );
    let (kept, _) = job.walk("kill");
    assert!(kept > 3, "{kept}");
}

#[test]
fn a_shuffle_of_two_distributions_is_resumed() {
    let options = "--type u64 --memory 6MiB --threads 2";
    let job = job_of(random_u64(5_000_000, 24), "shuffle", options);
    for part in [0.2, 0.5, 0.7, 0.8, 0.9, 0.95] {
        killed_at(&job, part);
        job.resume().ok();
        job.is_whole(&format!("{part}"));
    }
}

#[test]
fn another_seed_or_epoch_is_another_shuffle() {
    let options = "--type u64 --memory 6MiB --threads 1";
    let job = job_of(random_u64(900_000, 22), "shuffle", options);
    killed_late(&job);
    let with = |more: [&str; 2]| {
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more).collect();
        job.place.run(&words)
    };
    with(["--seed", "2"]).fails(2, &["its seed was 1, and is 2 now"], "begin anew");
    with(["--epoch", "4"]).fails(2, &["its epoch was 0, and is 4 now"], "begin anew");
    let listed = job.place.run(&["scratch", "list", "."]).ok().text();
    assert!(
        listed.contains("shuffle in -o out --drive . --resume"),
        "{listed}"
    );
    job.resume().ok();
    job.is_whole("the same seed");
}

#[test]
fn different_lines_and_records_are_found_by_a_run_that_resumes() {
    for (input, options) in [
        (lines(160_000, 60_000), "--threads 2"),
        (lines(160_000, 60_000), "-k1,1 --memory 6MiB --threads 1"),
        (
            lines(160_000, 60_000),
            "--repeated --memory 6MiB --threads 2",
        ),
        (random_u64(600_000, 25), "--type u64 --threads 2"),
        (
            Numbers(26).bytes(40_000 * 100),
            "--record 100 --key 0:2 --threads 1",
        ),
    ] {
        let (kept, _) = job_of(input, "unique", options).walk("kill");
        assert!(kept > 2, "{options}: {kept}");
    }
}

#[test]
fn shuffles_and_selections_that_cannot_be_resumed_reject_the_option() {
    let place = TestDir::in_memory();
    place.write("lines", b"b\na\n");
    place.write("in", &random_u64(512 << 10, 1));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("shuffle lines --resume").fails(2, &["one file"], "-o");
    run("shuffle -n 2 lines -o o --resume").fails(2, &["--resume"], "");
    run("shuffle lines -o o.zst --resume").fails(2, &["compressed output"], "");
    run("shuffle in --record 2097152 -o o --resume").fails(2, &["large records"], "");
    run("unique lines --count -o o --resume").fails(2, &["--resume"], "");
    run("unique lines --keep-order -o o --resume").fails(2, &["--resume"], "");
    run("unique - -o o --resume").fails(2, &["a stream"], "");
    assert_eq!(place.names(), ["in", "lines"]);
}
