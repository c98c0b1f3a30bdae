//! Every operation of each vector job fails once. The result is that of a run without a fault, or
//! there is a specific error and no output remains; an interrupted k-means run continues from its
//! checkpoint.
//!
//! Contract: the number of the failing operation runs from 1 until a job needs fewer operations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{IoMode, Job, JobOptions, Kind, Result, ScratchDrive};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;
use outcore_vector::convert::convert;
use outcore_vector::format::VectorFile;
use outcore_vector::index::{ListOptions, build, build_lists};
use outcore_vector::kmeans::{
    Batches, Init, KmeansOptions, LabelOutput, kmeans, remove_checkpoint, write_labels,
};
use outcore_vector::knn::{
    KnnOptions, Metric, RangeOptions, Subset, Within, knn, pairs, range_search,
};
use outcore_vector::results::{Array, ResultFile, write_all};

use crate::common::*;

fn faulty(plan: &str, scratch: &Path) -> (Job, Arc<FaultDevice>) {
    let os = Arc::new(OsDevice::new(IoMode::Auto));
    let device = Arc::new(FaultDevice::new(os, plan.parse().unwrap()));
    let options = JobOptions {
        memory_bytes: 32 << 20,
        threads: 2,
        drives: vec![ScratchDrive::new(scratch)],
        ..JobOptions::default()
    };
    (Job::on(options, Arc::clone(&device) as _), device)
}

/// Runs a job and returns its result as text; it writes to the second path.
type Work = fn(&Job, &Files, &Path) -> Result<String>;

struct Files {
    base: PathBuf,
    queries: PathBuf,
    index: PathBuf,
    lists: PathBuf,
    mask: PathBuf,
}

impl Files {
    fn open(&self, job: &Job) -> Result<(VectorFile, VectorFile)> {
        Ok((
            VectorFile::open(job, &self.base, None)?,
            VectorFile::open(job, &self.queries, None)?,
        ))
    }
}

fn searched(job: &Job, files: &Files, options: KnnOptions) -> Result<String> {
    let (base, queries) = files.open(job)?;
    let found = knn(job, &base, &queries, &options)?;
    Ok(format!("{:?} {:?}", found.ids, found.distances))
}

const JOBS: &[(&str, Work)] = &[
    ("convert", |job, files, to| {
        let (base, _) = files.open(job)?;
        convert(job, &base, to, false, None).map(|_| String::new())
    }),
    ("knn", |job, files, _| {
        searched(job, files, KnnOptions::new(4, Metric::L2))
    }),
    ("knn of a subset", |job, files, _| {
        let (base, _) = files.open(job)?;
        let subset = Some(Arc::new(Subset::read(job, &files.mask, &base)?));
        searched(
            job,
            files,
            KnnOptions {
                subset,
                ..KnnOptions::new(4, Metric::Cos)
            },
        )
    }),
    ("knn by index", |job, files, _| {
        let index = Some(files.index.clone());
        searched(
            job,
            files,
            KnnOptions {
                index,
                ..KnnOptions::new(4, Metric::L2)
            },
        )
    }),
    ("knn by lists", |job, files, _| {
        let options = KnnOptions {
            index: Some(files.lists.clone()),
            probes: Some(2),
            ..KnnOptions::new(4, Metric::L2)
        };
        searched(job, files, options)
    }),
    ("neighbours written", |job, files, to| {
        let (base, queries) = files.open(job)?;
        let found = knn(job, &base, &queries, &KnnOptions::new(4, Metric::Ip))?;
        let file = ResultFile {
            path: to,
            array: Array::Ids(&found.ids),
            dimension: Some(4),
        };
        write_all(job, &[file], false).map(|_| String::new())
    }),
    ("range search", |job, files, _| {
        let (base, queries) = files.open(job)?;
        let found = range_search(job, &base, &queries, &RangeOptions::new(Metric::L2, 4.0))?;
        Ok(format!("{:?}", Within::of(job, found.hits)?.ids))
    }),
    ("pairs", |job, files, _| {
        let (base, _) = files.open(job)?;
        let found = pairs(job, &base, &RangeOptions::new(Metric::L2, 1.0))?;
        Ok(format!("{:?}", Within::of(job, found.hits)?.ids))
    }),
    ("pairs beyond the memory", |job, files, _| {
        let (base, _) = files.open(job)?;
        let held_bytes = job.budget.free_bytes() - (7 << 20);
        let _held = job.budget.reserve("a test", held_bytes)?;
        let found = pairs(job, &base, &RangeOptions::new(Metric::L2, 1e9))?;
        let (mut count, mut sum) = (0_u64, 0_u64);
        found.hits.each(job, &mut |hits| {
            for hit in hits {
                count += 1;
                sum += count * (hit.query * 701 + hit.row);
            }
            Ok(())
        })?;
        Ok(format!("{count} {sum}"))
    }),
    ("index", |job, files, to| {
        let (base, _) = files.open(job)?;
        build(job, &base, to, false).map(|_| String::new())
    }),
    ("lists", |job, files, to| {
        let (base, _) = files.open(job)?;
        build_lists(job, &base, to, false, &ListOptions::new(5)).map(|_| String::new())
    }),
    ("kmeans with labels", |job, files, to| {
        let (base, _) = files.open(job)?;
        let options = KmeansOptions {
            max_iterations: 3,
            ..KmeansOptions::new(4)
        };
        let found = kmeans(job, &base, &options)?;
        let output = LabelOutput {
            path: to,
            replace: false,
            beside: &[],
        };
        write_labels(job, &base, &found, &output)?;
        Ok(format!("{:?} {}", found.centroids, found.inertia))
    }),
    ("kmeans of batches", |job, files, _| {
        let (base, _) = files.open(job)?;
        let options = KmeansOptions {
            init: Init::ParallelRows,
            batches: Some(Batches::new(60)),
            max_iterations: 3,
            ..KmeansOptions::new(4)
        };
        Ok(format!("{:?}", kmeans(job, &base, &options)?.centroids))
    }),
];

fn files_in(place: &Place) -> Files {
    let base = vectors("gaussian", 700, 6, 1);
    let queries = vectors("gaussian", 9, 6, 2);
    let mask: Vec<u8> = (0..700).map(|row| u8::from(row % 5 > 0)).collect();
    let files = Files {
        base: place.fbin("base.fbin", &base, 6).path,
        queries: place.fbin("queries.fbin", &queries, 6).path,
        index: place.path("base.vindex"),
        lists: place.path("base.lists"),
        mask: place.write("mask", &mask),
    };
    let job = job(32 << 20, 2);
    let (base, _) = files.open(&job).unwrap();
    build(&job, &base, &files.index, false).unwrap();
    build_lists(&job, &base, &files.lists, false, &ListOptions::new(5)).unwrap();
    files
}

#[test]
fn each_failed_operation_is_a_named_error_or_a_right_result_and_leaves_nothing() {
    let place = Place::new();
    let files = files_in(&place);
    let scratch = place.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let output = place.path("out");
    let mut all = place.names();
    for (name, work) in JOBS {
        let (job, _) = faulty("eio@99999999", &scratch);
        let wanted = work(&job, &files, &output).unwrap();
        let wanted_bytes = std::fs::read(&output).ok();
        let _ = std::fs::remove_file(&output);
        // This job has hundreds of operations, most of which are alike.
        let step = if *name == "pairs beyond the memory" {
            23
        } else {
            1
        };
        let (mut nth, mut failed, mut is_done) = (1, 0, false);
        while !is_done {
            let (job, device) = faulty(&format!("eio@{nth}"), &scratch);
            let result = work(&job, &files, &output);
            is_done = device.operations() < nth;
            match result {
                Ok(found) => {
                    assert_eq!(found, wanted, "{name}, operation {nth}");
                    assert_eq!(std::fs::read(&output).ok(), wanted_bytes, "{name}, {nth}");
                }
                Err(error) => {
                    failed += 1;
                    assert_ne!(error.kind(), Kind::Usage, "{name}, {nth}: {error}");
                    assert!(!error.cause().is_empty(), "{name}, {nth}: {error}");
                    assert!(!output.exists(), "{name}, {nth}: {error}");
                }
            }
            let _ = std::fs::remove_file(&output);
            assert_eq!(job.budget.used_bytes(), 0, "{name}, operation {nth}");
            nth += step;
        }
        assert!(failed > 3, "{name}: {failed} of {nth}");
        all.sort();
        assert_eq!(place.names(), all, "{name}");
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_run_of_k_means_that_was_stopped_goes_on_as_if_it_was_not() {
    let place = Place::new();
    let base = place.fbin("base.fbin", &vectors("gaussian", 3_000, 7, 8), 7);
    let other = place.fbin("other.fbin", &vectors("gaussian", 3_000, 7, 9), 7);
    let (scratch, kept) = (place.path("scratch"), place.path("kept"));
    std::fs::create_dir(&scratch).unwrap();
    for is_spherical in [false, true] {
        let plain = KmeansOptions {
            is_spherical,
            max_iterations: 12,
            ..KmeansOptions::new(9)
        };
        let options = KmeansOptions {
            checkpoint: Some(kept.clone()),
            ..plain.clone()
        };
        let wanted = kmeans(&job(32 << 20, 2), &base, &plain).unwrap();
        let undisturbed = kmeans(&job(32 << 20, 1), &base, &options).unwrap();
        assert_eq!(
            (&undisturbed.centroids, undisturbed.inertia),
            (&wanted.centroids, wanted.inertia)
        );
        remove_checkpoint(&job(32 << 20, 1), &options).unwrap();
        assert!(!kept.exists());
        // Each attempt gets a little further before a read or a write fails.
        let mut attempts = 0;
        let found = loop {
            attempts += 1;
            let (job, _) = faulty(&format!("eio@{}", 40 + attempts % 7), &scratch);
            match kmeans(&job, &base, &options) {
                Ok(found) => break found,
                Err(error) => assert_ne!(error.kind(), Kind::Usage, "{error}"),
            }
            assert!(attempts < 200);
        };
        assert!(attempts > 2, "{attempts}");
        let bits = |numbers: &[f64]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found.centroids), bits(&wanted.centroids));
        assert_eq!(found.inertia.to_bits(), wanted.inertia.to_bits());
        assert_eq!(
            (found.iterations, found.has_converged),
            (wanted.iterations, wanted.has_converged)
        );
        remove_checkpoint(&job(32 << 20, 1), &options).unwrap();
        assert!(!kept.exists());
    }
    // An existing checkpoint of another run, or a damaged one, is rejected.
    let options = KmeansOptions {
        checkpoint: Some(kept.clone()),
        max_iterations: 12,
        ..KmeansOptions::new(9)
    };
    while !kept.exists() {
        let (job, _) = faulty("eio@45", &scratch);
        kmeans(&job, &base, &options).unwrap_err();
    }
    let whole = std::fs::read(&kept).unwrap();
    let plain = job(32 << 20, 2);
    let strange = KmeansOptions {
        k: 8,
        ..options.clone()
    };
    for (base, options, cause) in [
        (&base, &strange, "other options"),
        (&other, &options, "another base"),
    ] {
        let error = kmeans(&plain, base, options).unwrap_err();
        assert!(
            error.kind() == Kind::Usage && error.to_string().contains(cause),
            "{error}"
        );
    }
    for at in [3, 300, 4096, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&kept, damaged).unwrap();
        let error = kmeans(&plain, &base, &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{at}: {error}");
    }
    let batches = KmeansOptions {
        batches: Some(Batches::new(50)),
        ..options
    };
    let error = kmeans(&plain, &base, &batches).unwrap_err();
    assert!(error.to_string().contains("one run with passes"), "{error}");
}
