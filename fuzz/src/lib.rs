//! Checks of the fuzz targets for traces. A panic also fails each of them.
//!
//! Contract: each function takes arbitrary bytes and reads them to the end. Block traces: a request
//! never leaves the 64-bit address space, and adapting it to a small volume keeps it inside and on
//! the block grid. outcore's own trace: entries that were read can be written and read again, and a
//! replay over their dependencies ends. GPU traces: the report counts the kernels that the reader
//! returned.

pub mod data;
pub mod graphs;
pub mod sim;
pub mod tables;
pub mod text;
pub mod vectors;

use std::io::Cursor;

use outcore_traces::adapt::{AdaptOptions, Adapted, Fit};
use outcore_traces::gpu::{GpuFormat, GpuOptions, read_kernels_from};
use outcore_traces::io_trace::{Header, Reader, Record, SubmissionOrder, Writer};
use outcore_traces::replay_plan::DependentLoop;
use outcore_traces::{Format, ReadOptions, TraceReader};

const VOLUME_BYTES: u64 = 1 << 24;
const BLOCK_BYTES: u64 = 4096;

/// Reads `data` as `format`, or in the format that is detected.
pub fn block(format: Option<Format>, data: &[u8]) {
    let options = ReadOptions {
        format,
        ..ReadOptions::default()
    };
    let stream = Cursor::new(data.to_vec());
    let Ok(trace) = TraceReader::from_stream(stream, "fuzz", &options) else {
        return;
    };
    let adapt = AdaptOptions {
        fit: Fit::Wrap {
            volume_bytes: VOLUME_BYTES,
        },
        request_bytes_max: Some(1 << 20),
        regions: 2,
        ..AdaptOptions::default()
    };
    let checked = trace.inspect(|request| {
        if let Ok(request) = request {
            assert!(
                request
                    .offset_bytes
                    .checked_add(request.len_bytes)
                    .is_some()
            );
        }
    });
    let Ok(adapted) = Adapted::new(checked, adapt) else {
        unreachable!("the options are sound")
    };
    for request in adapted.flatten() {
        assert!(request.end_bytes() <= VOLUME_BYTES && request.is_aligned(BLOCK_BYTES));
    }
}

/// Reads `data` as the kernels of a GPU trace.
pub fn gpu(format: Option<GpuFormat>, data: &[u8]) {
    let options = GpuOptions {
        format,
        ..GpuOptions::default()
    };
    let mut kernels = 0;
    let stream = Cursor::new(data.to_vec());
    let report = read_kernels_from(stream, "/nowhere/fuzz", &options, &mut |kernel| {
        kernels += 1;
        std::hint::black_box(kernel.blocks().saturating_mul(kernel.threads_per_block()));
        Ok(())
    });
    if let Ok(report) = report {
        assert_eq!(report.kernels, kernels);
        std::hint::black_box(report.to_string());
    }
}

/// Reads `data` as the records of outcore's own trace, writes and replays them.
pub fn io_trace(data: &[u8]) {
    let Ok(reader) = Reader::new(Cursor::new(data), "fuzz") else {
        return;
    };
    let records: Vec<Record> = reader.records().map_while(Result::ok).collect();
    let Ok(mut writer) = Writer::new(Vec::new(), &Header::new("fuzz", Vec::new())) else {
        return;
    };
    for record in &records {
        assert!(writer.request(record).is_ok());
    }
    let Ok(bytes) = writer.finish(0) else { return };
    let again =
        Reader::new(Cursor::new(&bytes), "fuzz").map(|reader| reader.records().flatten().collect());
    assert_eq!(again.ok(), Some(records));

    let Ok(reader) = Reader::new(Cursor::new(data), "fuzz") else {
        return;
    };
    let mut plan = DependentLoop::new(SubmissionOrder::new(reader));
    let mut in_flight = Vec::new();
    let mut now_ns = 0;
    while let Ok(due) = plan.next_due_ns() {
        if let Some(due_ns) = due {
            now_ns = now_ns.max(due_ns);
            let Ok(released) = plan.release(now_ns) else {
                return;
            };
            in_flight.extend(released.map(|(_, record)| record.thread));
        } else if let Some(thread) = in_flight.pop() {
            assert!(plan.completed(thread, now_ns).is_ok());
        } else {
            break;
        }
    }
    std::hint::black_box(plan.check_finished().is_ok());
}
