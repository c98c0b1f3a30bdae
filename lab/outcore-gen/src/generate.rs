//! Writes generated records to a file, to one shard per drive, or to a pipe.
//!
//! Contract: writes `records` records of a [`Generator`] after an optional header. Records are a
//! pure function of their number, so the engine writes them like any other sequence: at their final
//! place, by all threads, on all drives at the same time. The bytes depend only on the generator,
//! never on threads, memory or drives. A file is either complete or absent; a pipe receives its
//! bytes in order.
//!
//! Inputs of this kind (uniform, exponential, Zipf, one file per drive) are those of PALID (SPAA
//! 2025, section 5).
//!
//! Bounds: the memory of one pass of the engine; the output is written once.

use outcore::job::Job;
use outcore::primitives::Summary;
use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::producer::{Maker, Produced, Producer};
use outcore::primitives::write::produce;
use outcore::{Error, Output, Result};

use crate::generator::Generator;

/// Parameters of a generation.
pub struct GenerateRequest {
    /// Makes the records.
    pub generator: Generator,
    /// Number of records.
    pub records: u64,
    /// The output.
    pub output: Output,
    /// Replace an existing output.
    pub replace: bool,
}

/// Generates the records of `request`.
///
/// # Errors
/// [`Kind::Usage`](outcore::Kind::Usage) for an existing output or a size beyond all files; errors
/// from writing a sequence. Nothing is left behind.
pub fn generate(job: &Job, request: &GenerateRequest) -> Result<Summary> {
    let record_bytes = request.generator.format().record_bytes();
    let data_bytes = request.records.checked_mul(record_bytes as u64);
    if data_bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
        let cause = format!("{} records of {record_bytes} bytes", request.records);
        return Err(
            Error::usage("generate", format!("{cause} are more than a file can hold"))
                .hint("give a smaller count with -n"),
        );
    }
    let numbered = Numbered {
        generator: &request.generator,
        records: request.records,
    };
    produce(job, &numbered, &request.output, request.replace)
}

/// The records 0 to `records - 1`, as a sequence.
struct Numbered<'a> {
    generator: &'a Generator,
    records: u64,
}

impl Producer for Numbered<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![Source::generated(self.records)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.generator.format().record_bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| {
            let len_bytes = batch.count * self.item_bytes();
            if !out.reserve(len_bytes)? {
                return Ok(Produced::Overflow);
            }
            self.generator
                .fill(batch.first, &mut out.free()[..len_bytes]);
            out.filled(len_bytes);
            Ok(Produced::All)
        })
    }

    fn phase(&self) -> &'static str {
        "generate"
    }

    fn steps(&self) -> String {
        "generate".to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use outcore::{IoMode, JobOptions, Kind, RecordFormat};
    use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};
    use proptest::prelude::*;

    use super::*;
    use crate::generator::GenerateOptions;
    use crate::gensort::GensortOptions;

    fn generator(format: &str) -> Generator {
        if format == "gensort" {
            return Generator::gensort(GensortOptions::default());
        }
        let format = RecordFormat::parse_type(format).unwrap();
        Generator::new(&format, GenerateOptions::default()).unwrap()
    }

    fn wanted(format: &str, records: u64) -> Vec<u8> {
        let generator = generator(format);
        let mut bytes = vec![0; records as usize * generator.format().record_bytes()];
        generator.fill(0, &mut bytes);
        bytes
    }

    fn options(threads: usize, memory_bytes: u64) -> JobOptions {
        JobOptions {
            threads,
            memory_bytes,
            ..JobOptions::default()
        }
    }

    fn request(format: &str, records: u64, output: Output) -> GenerateRequest {
        GenerateRequest {
            generator: generator(format),
            records,
            output,
            replace: false,
        }
    }

    fn file(path: impl AsRef<Path>) -> Output {
        Output::File {
            path: path.as_ref().to_path_buf(),
            header: None,
        }
    }

    fn any_format() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            Just("u64"),
            Just("gensort"),
            Just("bytes7"),
            Just("f32x32"),
            Just("5000/4:4:u32")
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_file_holds_the_header_and_the_records_whatever_the_threads_and_the_memory(
            format in any_format(), bytes in 0u64..3_000_000, header_bytes in 0usize..9000,
            threads in 1usize..4, memory_mib in 1u64..40, seed: u64,
        ) {
            let records = bytes / generator(format).format().record_bytes() as u64;
            let device = RamDevice::new(RamOptions { seed, ..RamOptions::default() });
            let job = Job::on(options(threads, memory_mib << 20), Arc::new(device.clone()));
            let output = Output::File {
                path: "/d0/out".into(),
                header: Some(Arc::new(move |count| vec![count as u8; header_bytes])),
            };
            let summary = generate(&job, &request(format, records, output)).unwrap();
            let mut expected = vec![records as u8; header_bytes];
            expected.extend(wanted(format, records));
            prop_assert!(device.get("/d0/out") == Some(expected), "other bytes");
            prop_assert_eq!(summary.records, records);
            prop_assert_eq!(job.control.progress().done_bytes, 0);
            prop_assert_eq!(job.budget.used_bytes(), 0);
            prop_assert!(job.budget.peak_bytes() <= memory_mib << 20);
        }

        #[test]
        fn a_pipe_gets_the_records_in_order(
            format in any_format(), bytes in 0u64..3_000_000, threads in 1usize..4,
        ) {
            let records = bytes / generator(format).format().record_bytes() as u64;
            let device = Arc::new(RamDevice::new(RamOptions::default()));
            let job = Job::on(options(threads, 1 << 20), device);
            let (mut reader, writer) = std::io::pipe().unwrap();
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut reader, &mut all).unwrap();
                all
            });
            let output = Output::Pipe(Mutex::new(Box::new(writer)));
            let summary = generate(&job, &request(format, records, output)).unwrap();
            prop_assert!(read.join().unwrap() == wanted(format, records), "other bytes");
            prop_assert_eq!(summary.written_bytes, wanted(format, records).len() as u64);
        }
    }

    #[test]
    fn shards_appear_together_and_make_up_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job::new(options(2, 8 << 20), IoMode::Auto);
        let paths: Vec<_> = (0..3)
            .map(|number| dir.path().join(format!("part-{number}")))
            .collect();
        let manifest = dir.path().join("parts.outcore.json");
        let output = Output::Shards {
            paths: paths.clone(),
            manifest: manifest.clone(),
        };
        generate(&job, &request("gensort", 70_001, output)).unwrap();
        let all: Vec<u8> = paths
            .iter()
            .flat_map(|path| std::fs::read(path).unwrap())
            .collect();
        assert!(all == wanted("gensort", 70_001));
        assert!(manifest.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
    }

    #[test]
    fn files_of_the_system_are_written_and_never_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let job = Job::new(options(2, 8 << 20), IoMode::Auto);
        let mut request = request("gensort", 33_333, file(&path));
        let summary = generate(&job, &request).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted("gensort", 33_333));
        assert!(summary.written_bytes >= 3_333_300);
        let error = generate(&job, &request).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("--force"), "{error}");
        request.replace = true;
        request.records = 1;
        generate(&job, &request).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted("gensort", 1));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_at_any_io_is_named_and_leaves_nothing() {
        for kind in ["eio", "enospc"] {
            for nth in 1.. {
                let plan: FaultPlan = format!("{kind}@{nth}").parse().unwrap();
                let ram = RamDevice::new(RamOptions::default());
                let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
                let job = Job::on(options(2, 1 << 20), Arc::clone(&device) as _);
                let outcome = generate(&job, &request("u64", 100_000, file("/d0/out")));
                if device.operations() < nth {
                    assert!(nth > 5, "a job has more operations");
                    outcome.unwrap();
                    break;
                }
                let error = outcome.unwrap_err();
                assert_eq!(error.kind() == Kind::NoSpace, kind == "enospc", "{error}");
                assert!(ram.get("/d0/out").is_none());
                assert_eq!(job.budget.used_bytes(), 0);
            }
        }
    }

    #[test]
    fn a_closed_pipe_a_cancelled_job_and_impossible_sizes_are_named() {
        let device = Arc::new(RamDevice::new(RamOptions::default()));
        let job = Job::on(options(2, 8 << 20), device.clone());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Output::Pipe(Mutex::new(Box::new(writer)));
        let error = generate(&job, &request("u64", 1 << 20, output)).unwrap_err();
        assert_eq!(error.raw_errno(), Some(32), "{error}");
        let error = generate(&job, &request("u64", u64::MAX / 8, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let tight = Job::on(options(64, 1 << 20), device);
        let error = generate(&tight, &request("u64", 9, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        job.control.cancel();
        let error = generate(&job, &request("u64", 9, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    }
}
