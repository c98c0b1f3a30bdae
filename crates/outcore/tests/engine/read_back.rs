//! The check of an output that is read back, on drives in memory.
//!
//! Contract: a bit of one write is flipped. The output is then that of a naive sort, or there is
//! none and an error of kind `Corrupt`.

use std::path::Path;
use std::sync::Arc;

use outcore::job::JobOptions;
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore::{ByteOrder, Input, Job, Kind, Output};
use outcore_io::drive::testing::{FaultDevice, RamDevice, RamOptions};

/// Lines in no order, of up to a few hundred bytes, which several chunks hold.
fn lines() -> Vec<u8> {
    let mut state = 7_u64;
    let mut bytes = Vec::new();
    while bytes.len() < 5 << 20 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let stretch = "x".repeat((state >> 40) as usize % 300);
        bytes.extend_from_slice(format!("{}{stretch}\n", state >> 20).as_bytes());
    }
    bytes
}

#[test]
fn a_flipped_bit_of_the_output_is_found_by_any_number_of_threads() {
    let input = lines();
    let mut sorted: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
    sorted.sort_unstable();
    let sorted = sorted.concat();
    let mut found = 0;
    for (nth, threads) in (1..14).step_by(2).zip([1, 2, 3].into_iter().cycle()) {
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d0/in", input.clone());
        let plan = format!("flip@{nth}:write").parse().unwrap();
        let options = JobOptions {
            threads,
            memory_bytes: 48 << 20,
            verify_output: true,
            ..JobOptions::default()
        };
        let device = FaultDevice::new(Arc::new(ram.clone()), plan);
        let job = Job::on(options, Arc::new(device));
        let inputs = [Input::raw("/d0/in")];
        let output = Output::from(Path::new("/d0/out"));
        let options = LineSortOptions::default();
        match sort_lines(&job, &inputs, output, &ByteOrder, options) {
            Ok(_) => assert!(ram.get("/d0/out").as_ref() == Some(&sorted), "flip@{nth}"),
            Err(error) => {
                found += 1;
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                assert_eq!(ram.get("/d0/out"), None);
            }
        }
        assert_eq!(job.budget.used_bytes(), 0);
    }
    assert!(found > 2, "{found}");
}
