//! Allegro sampling on profiles of real GPU runs, where the true total is known.
//!
//! Contract: the traces are not in this repository (they are other people's); the test looks for
//! them in `../shared/reference/gpu-traces` beside the repository and says so when they are missing.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use outcore_sim::allegro::{AllegroOptions, Plan, Profile};
use outcore_traces::gpu::{GpuOptions, Kernel, load_kernels};

fn traces() -> Vec<PathBuf> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/gpu-traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no traces in {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths.sort();
    paths
}

fn kernels(path: &PathBuf) -> Vec<Kernel> {
    load_kernels(path, &GpuOptions::default()).unwrap().0
}

fn plan(kernels: &[Kernel], options: &AllegroOptions) -> Plan {
    let mut profile = Profile::new();
    for kernel in kernels {
        profile.push(kernel).unwrap();
    }
    profile.plan(options).unwrap()
}

#[test]
fn on_real_traces_at_least_950_of_1000_seeds_stay_below_eps() {
    for path in traces() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let kernels = kernels(&path);
        for eps in [0.02, 0.05, 0.1] {
            let ours = AllegroOptions {
                eps,
                ..AllegroOptions::default()
            };
            for options in [ours, AllegroOptions::paper(eps)] {
                let plan = plan(&kernels, &options);
                let accuracy = plan.check(1000);
                println!(
                    "| {name} | {} | {:.0} % | {} | {} | {} | {} | {:.1} | {:.1} % | {:.1} % | {:.2} % | {:.2} % |",
                    if options.prune { "ours" } else { "paper" },
                    eps * 100.0,
                    plan.launches,
                    plan.groups.len(),
                    plan.clusters.len(),
                    plan.samples,
                    plan.reduction(),
                    plan.time_share(0) * 100.0,
                    accuracy.share_within * 100.0,
                    accuracy.error_p95 * 100.0,
                    accuracy.error_max * 100.0
                );
                assert!(accuracy.share_within >= 0.95, "{name} {eps}: {accuracy:?}");
            }
        }
    }
}
