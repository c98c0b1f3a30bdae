//! Allegro sampling where the true total is known: profiles of real GPU runs, and a generated one.
//!
//! Contract: a thousand seeds for each trace. The real traces belong to others and are not in this
//! repository. The test looks for them in `../shared/reference/gpu-traces` next to the repository
//! and reports when they are missing.

use std::fmt::Write;
use std::path::PathBuf;

use outcore_sim::allegro::{AllegroOptions, Plan, Profile};
use outcore_sim::rng::Rng;
use outcore_traces::gpu::{GpuOptions, Kernel, load_kernels};

fn traces() -> Vec<PathBuf> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/gpu-traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("SKIP: no traces in {}", folder.display());
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

/// At least 950 of 1,000 seeds must estimate the total within eps, in either variant.
fn check_a_thousand_seeds(name: &str, kernels: &[Kernel]) {
    for eps in [0.02, 0.05, 0.1] {
        let ours = AllegroOptions {
            eps,
            ..AllegroOptions::default()
        };
        for options in [ours, AllegroOptions::paper(eps)] {
            let plan = plan(kernels, &options);
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
            assert_eq!(accuracy.seeds, 1000);
            assert!(accuracy.share_within >= 0.95, "{name} {eps}: {accuracy:?}");
            // The selection must be a real sample: the whole trace would prove nothing.
            assert!(plan.samples < plan.launches, "{name} {eps}");
        }
    }
}

#[test]
fn on_real_traces_at_least_950_of_1000_seeds_stay_below_eps() {
    for path in traces() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        check_a_thousand_seeds(&name, &kernels(&path));
    }
}

/// A trace of `nsys stats` with three kernels: one with modes far apart and close together, one
/// that is skewed, and a single launch. Times vary by a few percent around their mode.
fn trace_with_modes() -> String {
    let mut random = Rng::new(11);
    let mut text = String::from(
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),\
         DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n",
    );
    let modes = [2_000.0, 9_000.0, 11_000.0, 95_000.0, 1_400_000.0];
    let mut start = 0;
    for launch in 0..4_000usize {
        let (name, grid, duration_ns) = match launch % 8 {
            0..5 => {
                // The longer a mode takes, the rarer it is.
                let mode = modes[(launch / 8 % 31).trailing_ones() as usize];
                ("gemm", 64, random.normal(mode, 0.06 * mode))
            }
            5 | 6 => ("gather", 7, 3_000.0 + random.exponential(20_000.0)),
            _ => ("add", 1 + launch as u32 % 2, random.normal(1_500.0, 40.0)),
        };
        let duration = (duration_ns as u64).max(500);
        writeln!(
            text,
            "{start},{duration},{launch},{grid},1,1,256,1,1,32,0,0,,,,,GPU (0),1,7,\"{name}(float*, int)\""
        )
        .unwrap();
        start += duration + 700;
    }
    text
}

#[test]
fn on_a_trace_with_several_modes_a_kernel_at_least_950_of_1000_seeds_stay_below_eps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("modes.csv");
    std::fs::write(&path, trace_with_modes()).unwrap();
    let kernels = kernels(&path);
    assert_eq!(kernels.len(), 4_000);
    check_a_thousand_seeds("several modes", &kernels);
    // The five modes of one kernel and grid end in separate clusters.
    let plan = plan(&kernels, &AllegroOptions::paper(0.05));
    assert!(plan.clusters.len() >= 4 + 5, "{}", plan.clusters.len());
    assert!(plan.reduction() > 3.0, "{}", plan.reduction());
}
