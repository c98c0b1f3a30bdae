//! SIGKILL in the middle of shuffles, jobs on lines, and primitives. The output is absent or whole,
//! and the next run removes all leftovers.
//!
//! Contract: the process kills itself after the operation with the number in `OUTCORE_FAULT`. Each
//! test raises that number to the end of a small job, in growing steps if the job has many
//! operations, and cleans up after every kill.

use crate::support::*;

/// A job, its input, and the files that it makes.
struct Killed<'a> {
    place: TestDir,
    input: Vec<u8>,
    command: &'a [&'a str],
    outputs: Vec<(&'a str, Vec<u8>)>,
}

impl Killed<'_> {
    fn names(&self) -> Vec<String> {
        let outputs = self.outputs.iter().map(|(name, _)| name.to_string());
        let mut names: Vec<String> = outputs.chain(["in".to_string()]).collect();
        names.sort();
        names
    }

    /// All outputs exist, and nothing else; removes them.
    #[track_caller]
    fn is_whole(&self, when: &str) {
        assert_eq!(self.place.names(), self.names(), "{when}");
        for (name, expected) in &self.outputs {
            // For a manifest, it is enough that it exists.
            let is_right = expected.is_empty() || self.place.read(name) == *expected;
            assert!(is_right, "{when}: {name} is not whole");
            std::fs::remove_file(self.place.path(name)).unwrap();
        }
    }

    /// Kills the job after later and later operations. Each time, the number of the operation grows
    /// by one and by the fraction `growth` of itself. Returns how many runs were killed, and how
    /// many of them after the output had its name.
    fn walk(&self, growth: f64) -> (u32, u32) {
        let (mut killed, mut published) = (0, 0);
        let next = |nth: &u64| Some(nth + 1 + (*nth as f64 * growth) as u64);
        for nth in std::iter::successors(Some(1_u64), next).take_while(|nth| *nth < 100_000) {
            let when = format!("kill@{nth}");
            let mut command = self.place.command(self.command);
            command.env("OUTCORE_FAULT", &when);
            let answer = Answer::of(command.output().unwrap());
            if answer.code == Some(0) {
                self.is_whole(&when);
                break;
            }
            assert_eq!(answer.code, None, "{answer:?}");
            killed += 1;
            self.place.run(&["scratch", "clean", "."]).ok();
            if self.place.names() != ["in"] {
                published += 1;
                self.is_whole(&when);
            }
            assert!(self.place.read("in") == self.input, "{when}");
        }
        assert_eq!(self.place.names(), ["in"]);
        (killed, published)
    }
}

fn number_place(count: usize) -> (TestDir, Vec<u8>, Vec<u64>) {
    let place = TestDir::in_memory();
    let input = random_u64(count, 11);
    place.write("in", &input);
    let keys = input.chunks(8).map(u64_of).collect();
    (place, input, keys)
}

fn bytes(keys: impl IntoIterator<Item = u64>) -> Vec<u8> {
    keys.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn a_killed_shuffle_leaves_its_output_whole_or_absent() {
    let (place, input, _) = number_place(1_200_000);
    let command = [
        "shuffle",
        "in",
        "-o",
        "out",
        "--type",
        "u64",
        "--seed",
        "7",
        "--memory",
        "8MiB",
        "--drive",
        ".",
        "--threads",
        "1",
    ];
    // The same seed gives the same bytes, so the first run gives the expected result.
    place.run(&command).ok();
    let expected = place.read("out");
    assert!(expected != input && sorted_u64(&expected) == sorted_u64(&input));
    std::fs::remove_file(place.path("out")).unwrap();
    let outputs = vec![("out", expected)];
    let job = Killed {
        place,
        input,
        command: &command,
        outputs,
    };
    let (killed, published) = job.walk(0.5);
    assert!(killed > 5 && published <= killed, "{killed} {published}");
}

#[test]
fn a_killed_unique_of_lines_leaves_its_output_whole_or_absent() {
    let place = TestDir::in_memory();
    let mut numbers = Numbers(3);
    let lines: Vec<String> = (0..150_000)
        .map(|_| format!("line {:07}\n", numbers.next() % 100_000))
        .collect();
    let input = lines.concat().into_bytes();
    place.write("in", &input);
    let mut expected = lines;
    expected.sort_unstable();
    expected.dedup();
    let outputs = vec![("out", expected.concat().into_bytes())];
    let command = [
        "unique",
        "in",
        "-o",
        "out",
        "--memory",
        "4MiB",
        "--drive",
        ".",
        "--threads",
        "1",
    ];
    let job = Killed {
        place,
        input,
        command: &command,
        outputs,
    };
    let (killed, published) = job.walk(0.5);
    assert!(killed > 5 && published <= killed, "{killed} {published}");
}

#[test]
fn a_killed_partition_leaves_all_of_its_files_or_none() {
    let (place, input, keys) = number_place(400_000);
    let part = |part| bytes(keys.iter().copied().filter(move |key| key % 3 == part));
    let outputs = vec![
        ("part-0", part(0)),
        ("part-1", part(1)),
        ("part-2", part(2)),
        ("part.outcore.json", Vec::new()),
    ];
    let command = [
        "partition",
        "x % 3",
        "--parts",
        "3",
        "in",
        "-o",
        "part-{part}",
        "--type",
        "u64",
        "--memory",
        "8MiB",
        "--threads",
        "1",
    ];
    let job = Killed {
        place,
        input,
        command: &command,
        outputs,
    };
    let (killed, published) = job.walk(0.0);
    assert!(killed > 5 && published > 0, "{killed} {published}");
}

#[test]
fn a_killed_scan_leaves_its_output_whole_or_absent() {
    let (place, input, keys) = number_place(400_000);
    let sums = keys.iter().scan(0_u64, |sum, key| {
        *sum = sum.wrapping_add(*key);
        Some(*sum)
    });
    let outputs = vec![("out", bytes(sums))];
    let command = [
        "scan",
        "sum",
        "in",
        "-o",
        "out",
        "--type",
        "u64",
        "--memory",
        "8MiB",
        "--threads",
        "1",
    ];
    let job = Killed {
        place,
        input,
        command: &command,
        outputs,
    };
    let (killed, published) = job.walk(0.0);
    assert!(killed > 5 && published > 0, "{killed} {published}");
}
