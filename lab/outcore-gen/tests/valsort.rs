//! The engine's checks say about gensort's records what valsort says.
//!
//! Contract: lines, exit codes and checksums are those that valsort 1.5 printed for the same records.

#![allow(clippy::unwrap_used)]

use outcore::key::{CheckOptions, CheckReport, Checker};
use outcore::verify::verify;
use outcore::{Input, IoMode, Job, JobOptions, RecordFormat};
use outcore_gen::{Generator, GensortOptions};

fn check(format: &RecordFormat, options: CheckOptions, bytes: &[u8]) -> CheckReport {
    let mut checker = Checker::new(format, options);
    checker.push(bytes);
    checker.finish().unwrap()
}

fn gensort(count: usize) -> Vec<u8> {
    let mut records = vec![0; count * 100];
    Generator::gensort(GensortOptions::default()).fill(0, &mut records);
    records
}

#[test]
fn gensort_records_get_the_lines_and_exit_codes_of_valsort() {
    let format = RecordFormat::gensort();
    let mut records = gensort(1000);
    let report = check(&format, CheckOptions::default(), &records);
    // As valsort 1.5 prints them.
    let wanted = "First unordered record is record 2\nRecords: 1000\nChecksum: 1ea6370b955\n\
                  ERROR - there are 483 unordered records\n";
    assert_eq!(report.valsort_text(), wanted);
    assert_eq!(report.valsort_exit_code(), 1);

    let mut sorted: Vec<Vec<u8>> = records.chunks(100).map(<[u8]>::to_vec).collect();
    sorted.sort();
    sorted.insert(5, sorted[5].clone());
    records = sorted.concat();
    let report = check(&format, CheckOptions::default(), &records);
    let text = report.valsort_text();
    assert!(text.starts_with("Records: 1001\nChecksum: "), "{text}");
    let wanted = "\nDuplicate keys: 1\nSUCCESS - all records are in order\n";
    assert!(text.ends_with(wanted), "{text}");
    assert_eq!(report.valsort_exit_code(), 0);
    let nothing = check(&format, CheckOptions::default(), &[]);
    assert!(nothing.valsort_text().contains("at least one record"));
    assert_eq!(nothing.valsort_exit_code(), 1);
}

#[test]
fn a_gensort_file_on_disk_gets_the_checksum_of_gensort() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    std::fs::write(&path, gensort(1000)).unwrap();
    let options = JobOptions {
        threads: 2,
        memory_bytes: 8 << 20,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Auto);
    let format = RecordFormat::gensort();
    let report = verify(&job, &[Input::raw(&path)], &format, CheckOptions::default()).unwrap();
    assert_eq!(report.check.records, 1000);
    // As valsort prints it for the first thousand records.
    assert_eq!(format!("{:x}", report.check.checksum), "1ea6370b955");
    assert_eq!(report.check.first_unordered, Some(2));
    assert_eq!(job.control.progress().done_bytes, 100_000);
}
