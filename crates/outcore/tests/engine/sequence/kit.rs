//! Jobs on drives in memory, and data divided into files over them.
//!
//! Contract: inputs are under `/d0`, `/d1`, `/d2`; a job ends with its budget unused.

use std::sync::{Arc, Mutex};

use outcore::job::{Job, JobOptions};
use outcore::{Input, Output};
use outcore_io::drive::testing::{RamDevice, RamOptions};

/// A job of `threads` with this much memory, and its drives.
pub(crate) fn ram_job(threads: usize, memory_kib: u64, seed: u64) -> (RamDevice, Job) {
    let device = RamDevice::new(RamOptions {
        seed,
        ..RamOptions::default()
    });
    let job = Job::on(options(threads, memory_kib), Arc::new(device.clone()));
    (device, job)
}

pub(crate) fn options(threads: usize, memory_kib: u64) -> JobOptions {
    JobOptions {
        threads,
        memory_bytes: memory_kib << 10,
        ..JobOptions::default()
    }
}

/// Puts `bytes`, divided at the records that `cuts` selects, into files with headers over three
/// drives.
pub(crate) fn put(
    device: &RamDevice,
    name: &str,
    bytes: &[u8],
    record_bytes: usize,
    cuts: &[proptest::sample::Index],
    header_bytes: usize,
) -> Vec<Input> {
    let count = bytes.len() / record_bytes;
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(count + 1)).collect();
    ends.push(count);
    ends.sort_unstable();
    let mut from = 0;
    let mut inputs = Vec::new();
    for (number, end) in ends.into_iter().enumerate() {
        let path = format!("/d{}/{name}-{number}", number % 3);
        let mut file = vec![0xEE; header_bytes];
        file.extend_from_slice(&bytes[from * record_bytes..end * record_bytes]);
        device.put(&path, file);
        inputs.push(Input {
            path: path.into(),
            header_bytes: header_bytes as u64,
            data_bytes: None,
        });
        from = end;
    }
    inputs
}

pub(crate) fn file(path: &str) -> Output {
    Output::File {
        path: path.into(),
        header: None,
    }
}

/// A file whose header contains the number of items.
pub(crate) fn file_with_header(path: &str, header_bytes: usize) -> Output {
    Output::File {
        path: path.into(),
        header: Some(Arc::new(move |count| vec![count as u8; header_bytes])),
    }
}

/// The bytes that `work` writes to a pipe.
pub(crate) fn piped(work: impl FnOnce(&Output)) -> Vec<u8> {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut all).unwrap();
        all
    });
    let output = Output::Pipe(Mutex::new(Box::new(writer)));
    work(&output);
    drop(output);
    read.join().unwrap()
}

pub(crate) fn bytes_of(items: &[u64]) -> Vec<u8> {
    bytemuck::cast_slice(items).to_vec()
}

/// Numbers that depend only on their position.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<u64> {
    let number = |i: u64| outcore::read::sample::random(seed, i) >> (i % 3 * 20);
    (0..count as u64).map(number).collect()
}
