//! Checks the in-storage GPU against values that can be computed by hand.
//!
//! Contract: times without I/O are the kernels' own. Requests are conserved, and equal runs have
//! equal digests. The host's processor bounds the path through it. Workloads and host I/O share
//! drive and cores.

use outcore_sim::config::DriveConfig;
use outcore_sim::drive::Caching;
use outcore_sim::gpu::workloads::{Network, requests_of};
use outcore_sim::gpu::{
    Access, AccessOp, GpuConfig, GpuReport, HostIo, KernelSpec, PageAccess, Path, Pattern,
    Scheduling, Setup, Workload, run,
};
use outcore_sim::presets::preset;

fn drive() -> DriveConfig {
    preset("pm9a3").unwrap().scaled(128, 32).unwrap()
}

fn kernel(blocks: u32, duration_ns: u64, io: Vec<Access>) -> KernelSpec {
    KernelSpec {
        name: "k".to_owned(),
        grid: [blocks, 1, 1],
        block: [256, 1, 1],
        duration_ns,
        registers: 0,
        shared_bytes: 0,
        io,
        pages: Vec::new(),
    }
}

fn random(op: AccessOp, bytes: u32, count: u32) -> Access {
    Access {
        op,
        pattern: Pattern::Random,
        bytes,
        count,
        start_bytes: 0,
        region_bytes: 1 << 30,
    }
}

fn setup(kernels: Vec<Vec<KernelSpec>>) -> Setup {
    let named = kernels.into_iter().enumerate();
    Setup {
        gpu: GpuConfig::default(),
        drive: drive(),
        workloads: named
            .map(|(at, kernels)| Workload {
                name: format!("w{at}"),
                kernels,
            })
            .collect(),
        scheduling: Scheduling::RoundRobin,
        path: Path::InStorage,
        caching: Caching::Write,
        host: None,
        seed: 1,
    }
}

fn ran(setup: &Setup) -> GpuReport {
    run(setup).unwrap()
}

#[test]
fn kernels_without_io_take_their_durations_one_after_the_other() {
    // 160 blocks run at a time: one wave, ten waves, and one wave with a partly filled second one.
    let kernels = vec![
        kernel(160, 50_000, vec![]),
        kernel(1600, 70_000, vec![]),
        kernel(161, 20_000, vec![]),
    ];
    for scheduling in [Scheduling::RoundRobin, Scheduling::LargeChunk { stride: 4 }] {
        let report = ran(&Setup {
            scheduling,
            ..setup(vec![kernels.clone()])
        });
        let us = report.total.end_seconds * 1e6;
        assert!((us - 140.0).abs() < 0.1, "{scheduling:?}: {us}");
        assert_eq!(report.total.kernels, 3);
        assert_eq!(report.total.blocks, 160 + 1600 + 161);
    }
}

#[test]
fn two_workloads_share_the_cores() {
    // Each alone fills the GPU for 100 us; together they take twice as long.
    let one = vec![kernel(1600, 100_000, vec![])];
    let report = ran(&setup(vec![one.clone(), one]));
    let us = report.total.end_seconds * 1e6;
    assert!((us - 200.0).abs() < 1.0, "{us}");
    assert!((report.workloads[0].end_seconds - report.workloads[1].end_seconds).abs() < 2e-5);
}

#[test]
fn every_request_is_answered_and_equal_runs_have_equal_digests() {
    let io = vec![
        random(AccessOp::Read, 512, 5),
        random(AccessOp::Write, 512, 3),
    ];
    let setup = setup(vec![vec![kernel(700, 10_000, io)]]);
    let report = ran(&setup);
    assert_eq!(report.total.requests, 700 * 8);
    assert_eq!(report.total.read_bytes, 700 * 5 * 512);
    assert_eq!(report.total.write_bytes, 700 * 3 * 512);
    assert_eq!(report.digest, ran(&setup).digest);
    assert_ne!(report.digest, ran(&Setup { seed: 2, ..setup }).digest);
}

#[test]
fn pages_of_a_trace_are_read_by_their_block_alone() {
    let mut k = kernel(10, 1000, vec![]);
    k.pages = (0..6)
        .map(|at| PageAccess {
            kernel: 0,
            block: at / 2,
            op: AccessOp::Read,
            offset_bytes: u64::from(at) * 8192,
            bytes: 4096,
        })
        .collect();
    let report = ran(&setup(vec![vec![k]]));
    assert_eq!(
        (report.total.requests, report.total.read_bytes),
        (6, 6 * 4096)
    );
}

#[test]
fn the_path_through_the_host_is_bounded_by_its_processor() {
    let io = vec![random(AccessOp::Read, 512, 16)];
    let own = setup(vec![vec![kernel(800, 1_000, io)]]);
    let mediated = ran(&Setup {
        path: Path::mediated(),
        ..own.clone()
    });
    let own = ran(&own);
    // Two threads of 4 us each: at most 500,000 requests per second.
    assert!(mediated.total.iops < 500_000.0, "{mediated:?}");
    assert!(mediated.total.iops > 450_000.0, "{mediated:?}");
    assert!(own.total.iops > 1.5 * mediated.total.iops, "{own:?}");
    assert!(mediated.total.mean_wait_us > mediated.total.mean_response_us + 8.0);
    assert!((own.total.mean_wait_us - own.total.mean_response_us).abs() < 0.01);
}

#[test]
fn host_requests_beside_the_gpu_slow_it_down_and_end_with_it() {
    let io = vec![random(AccessOp::Read, 4096, 16)];
    let alone = setup(vec![vec![kernel(800, 1_000, io)]]);
    let host = Some(HostIo {
        depth: 256,
        bytes: 4096,
        read_ratio: 0.7,
    });
    let beside = ran(&Setup {
        host,
        ..alone.clone()
    });
    let alone = ran(&alone);
    assert!(beside.host.unwrap().requests > 1000);
    assert!(beside.total.end_seconds > 1.1 * alone.total.end_seconds);
    assert_eq!(beside.total.requests, alone.total.requests);
}

#[test]
fn the_papers_workloads_run_with_all_their_requests() {
    for network in Network::ALL {
        let workload = network.workload(4_000);
        let requests: u64 = workload.kernels.iter().map(requests_of).sum();
        let kernels = workload.kernels.len() as u64;
        let report = ran(&Setup {
            workloads: vec![workload],
            ..setup(vec![])
        });
        assert_eq!(report.total.requests, requests, "{network:?}");
        assert_eq!(report.total.kernels, kernels, "{network:?}");
    }
}

#[test]
fn what_cannot_run_is_an_error_that_says_why() {
    let mut large = kernel(1, 1, vec![]);
    large.block = [2048, 1, 1];
    let text = run(&setup(vec![vec![large]])).unwrap_err().to_string();
    assert!(text.contains("2048 threads"), "{text}");
    let mut far = random(AccessOp::Read, 512, 1);
    far.start_bytes = 1 << 50;
    let error = run(&setup(vec![vec![kernel(1, 1, vec![far])]])).unwrap_err();
    assert!(
        error.next_step().unwrap().contains("larger drive"),
        "{error}"
    );
    assert!(run(&setup(vec![])).is_err());
    assert!(run(&setup(vec![vec![]])).is_err());
    let mut none = setup(vec![vec![kernel(1, 1, vec![])]]);
    none.gpu.cores = 0;
    assert!(run(&none).is_err());
}

#[test]
fn kernels_of_a_larger_gpu_run_on_one_with_its_limits() {
    let large = KernelSpec {
        shared_bytes: 98_304,
        ..kernel(40, 1000, Vec::new())
    };
    let on = |name: &str| Setup {
        gpu: GpuConfig::named(name).unwrap(),
        ..setup(vec![vec![large.clone()]])
    };
    let refused = run(&on("t4")).unwrap_err().to_string();
    assert!(
        refused.contains("98304") && refused.contains("t4"),
        "{refused}"
    );
    for name in ["v100", "a100", "h100"] {
        assert_eq!(ran(&on(name)).total.blocks, 40, "{name}");
    }
    assert!(GpuConfig::named("t5").is_err());
}
