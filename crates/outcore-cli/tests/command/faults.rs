//! A fault in every single I/O of a small job. The job ends with an error or a right result, never
//! hangs, and leaves nothing behind. After a kill, the input is whole, and the next run removes the
//! scratch that is left.
//!
//! Contract: faults come from the device that `OUTCORE_FAULT` puts in front of the files. Each test
//! raises the number of the operation until a run has fewer operations.

use std::process::Command;

use crate::support::*;

/// The largest number of operations of a small job.
const OPERATIONS_MAX: u32 = 3000;

struct Small {
    place: TestDir,
    input: Vec<u8>,
    sorted: Vec<u8>,
}

impl Small {
    fn new(place: TestDir) -> Self {
        let input = random_u64(400_000, 97);
        place.write("in", &input);
        let sorted = sorted_u64(&input);
        Small {
            place,
            input,
            sorted,
        }
    }

    fn command(&self, fault: &str) -> Command {
        let sort = [
            "sort", "in", "-o", "out", "--type", "u64", "--memory", "4MiB", "--drive", ".",
        ];
        let mut command = self.place.command(&sort);
        command.args(["--threads", "1"]).env("OUTCORE_FAULT", fault);
        command
    }

    fn run(&self, fault: &str) -> Answer {
        Answer::of(self.command(fault).output().unwrap())
    }

    /// The output is right; it is removed.
    #[track_caller]
    fn is_right(&self) {
        assert_eq!(self.place.names(), ["in", "out"]);
        assert!(self.place.read("out") == self.sorted);
        std::fs::remove_file(self.place.path("out")).unwrap();
    }
}

/// Moves a fault through the operations of a job in steps; returns how many runs it hit.
fn walk(small: &Small, fault: &str, counted: &str, step: u32, code: i32) -> u32 {
    let mut met = 0;
    let mut nth = 1;
    while nth < OPERATIONS_MAX {
        let answer = small.run(&format!("{fault}@{nth}{counted}"));
        if answer.code == Some(0) {
            small.is_right();
            // Some faults are absorbed; the walk ends when the job has no more operations.
            let quiet = small.run(&format!("{fault}@{}{counted}", nth + 7 * step));
            if quiet.code == Some(0) {
                small.is_right();
                break;
            }
        } else {
            met += 1;
            answer.fails(code, &[], "");
            assert_eq!(small.place.names(), ["in"], "{fault}@{nth}{counted}");
        }
        nth += step;
    }
    assert!(small.place.read("in") == small.input);
    met
}

#[test]
fn an_error_of_any_read_write_sync_or_name_is_reported_and_cleaned_up_after() {
    let small = Small::new(TestDir::in_memory());
    assert!(walk(&small, "eio", ":read", 5, 3) > 5);
    assert!(walk(&small, "eio", ":write", 5, 3) > 5);
    assert!(walk(&small, "eio", ":sync", 1, 3) > 0);
    assert!(walk(&small, "eio", ":control", 1, 3) > 3);
}

#[test]
fn a_full_drive_is_an_error_of_its_own_that_names_the_drive() {
    let small = Small::new(TestDir::in_memory());
    let answer = small.run("enospc@1:write");
    answer.fails(5, &["full", "drive"], "--drive");
    assert_eq!(small.place.names(), ["in"]);
}

#[test]
fn a_flipped_bit_on_scratch_is_found_and_named() {
    let small = Small::new(TestDir::in_memory());
    let mut found = 0;
    // The first reads are those of the sample and of the input.
    for nth in (1..600).step_by(6) {
        let answer = small.run(&format!("flip@{nth}:read"));
        match answer.code {
            // A bit that is flipped while the input is read cannot be distinguished from the input.
            Some(0) => std::fs::remove_file(small.place.path("out")).unwrap(),
            _ => {
                found += 1;
                answer.fails(4, &["checksum"], "");
            }
        }
        assert_eq!(small.place.names(), ["in"]);
    }
    assert!(found > 3, "{found}");
}

#[test]
fn a_kill_after_every_operation_leaves_the_input_whole_and_no_half_output() {
    let small = Small::new(TestDir::in_memory());
    let mut killed = 0;
    for nth in 1..OPERATIONS_MAX {
        // Each run removes the scratch that the previous run left.
        let answer = small.run(&format!("kill@{nth}"));
        if answer.code == Some(0) {
            small.is_right();
            break;
        }
        assert_eq!(answer.code, None, "{answer:?}");
        killed += 1;
        if small.place.path("out").exists() {
            assert!(small.place.read("out") == small.sorted);
            std::fs::remove_file(small.place.path("out")).unwrap();
        }
        let left = small.place.names();
        let dirs = left.iter().filter(|name| name.starts_with(".outcore-"));
        assert!(dirs.count() <= 3, "only the last run's are left: {left:?}");
        assert!(small.place.read("in") == small.input, "kill@{nth}");
    }
    assert!(killed > 50, "{killed}");
}
