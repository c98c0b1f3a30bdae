//! Checks the in-storage GPU against values that can be computed by hand.
//!
//! Contract: times without I/O are the kernels' own. Requests are conserved, and equal runs have
//! equal digests. The host's processor bounds the path through it. Workloads and host I/O share
//! drive and cores.

use outcore_sim::config::DriveConfig;
use outcore_sim::drive::Caching;
use outcore_sim::gpu::workloads::{Network, requests_of};
use outcore_sim::gpu::{
    Access, AccessOp, GpuConfig, GpuReport, HostIo, KernelSpec, PageAccess, Path, Pattern, Reads,
    Scheduling, Setup, Workload, Writes, run,
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

/// A GPU without memory.
fn bare(name: &str) -> GpuConfig {
    GpuConfig {
        memory_bytes: 0,
        ..GpuConfig::named(name).unwrap()
    }
}

fn setup(kernels: Vec<Vec<KernelSpec>>) -> Setup {
    let named = kernels.into_iter().enumerate();
    Setup {
        gpu: bare("t4"),
        drive: drive(),
        workloads: named
            .map(|(at, kernels)| Workload {
                name: format!("w{at}"),
                kernels,
                before: Vec::new(),
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
        let workload = network.workload(4_000, &bare("t4"), 1);
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
        gpu: bare(name),
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

/// 16 reads and 16 writes of a sector by each of 40 blocks, whose computation takes 1 ms.
fn mixed() -> Setup {
    let io = |op| Access {
        pattern: Pattern::Sequential,
        ..random(op, 512, 16)
    };
    let io = vec![io(AccessOp::Read), io(AccessOp::Write)];
    Setup {
        caching: Caching::Off,
        ..setup(vec![vec![kernel(40, 1_000_000, io)]])
    }
}

fn with(setup: &Setup, change: impl FnOnce(&mut GpuConfig)) -> Setup {
    let mut changed = setup.clone();
    change(&mut changed.gpu);
    changed
}

#[test]
fn an_eviction_does_not_hold_the_block() {
    let waits = mixed();
    let evicts = with(&waits, |gpu| gpu.writes = Writes::Evict);
    // Blocks without reads end with their computation, and 16 programs of the drive follow.
    let only_writes = |setup: &Setup| {
        let mut setup = setup.clone();
        setup.workloads[0].kernels[0].io.remove(0);
        ran(&setup)
    };
    let [waits, evicts] = [only_writes(&waits), only_writes(&evicts)];
    assert_eq!(waits.total.requests, evicts.total.requests);
    let held_us = |report: &GpuReport| report.blocks_mean * report.total.end_seconds * 1e6 / 40.0;
    assert!(
        (held_us(&evicts) - 1000.0).abs() < 0.01,
        "{}",
        held_us(&evicts)
    );
    assert!(held_us(&waits) > 1100.0, "{}", held_us(&waits));
    assert!(
        evicts.total.end_seconds > 1.0e-3 + 1e-5,
        "writes end after the blocks"
    );
}

#[test]
fn reads_in_time_do_not_add_to_the_computation() {
    // One block, so that its reads do not compete for a plane.
    let mut answers = mixed();
    answers.workloads[0].kernels[0].grid = [1, 1, 1];
    let time = ran(&with(&answers, |gpu| {
        gpu.reads = Reads::Time;
        gpu.writes = Writes::Evict;
    }));
    let answers = ran(&answers);
    assert_eq!(answers.total.requests, time.total.requests);
    let held_us = time.blocks_mean * time.total.end_seconds * 1e6;
    // The last of 16 reads is sent after 15/16 of a millisecond: 62.5 us are left for its answer.
    assert!((1000.0..1100.0).contains(&held_us), "{held_us}");
    assert!(answers.total.end_seconds > time.total.end_seconds + 5e-5);
}

#[test]
fn reads_that_are_in_memory_take_no_time() {
    let cached = with(&mixed(), |gpu| gpu.memory_bytes = 1 << 20);
    let mut twice = cached.clone();
    twice.workloads[0].kernels[0].io.truncate(1);
    let kernel = twice.workloads[0].kernels[0].clone();
    twice.workloads[0].kernels.push(kernel.clone());
    let report = ran(&twice);
    assert_eq!(
        (report.total.requests, report.total.memory_hits),
        (640, 640)
    );
    let ends = &report.kernel_runs[0];
    assert_eq!(
        ends[1].end - ends[0].end,
        1_000_000_000,
        "a hit costs nothing"
    );
    // The launches before the run left the same data in memory.
    twice.workloads[0].before = vec![kernel];
    let report = ran(&twice);
    assert_eq!((report.total.requests, report.total.memory_hits), (0, 1280));
}

#[test]
fn a_memory_smaller_than_the_weights_streams_them() {
    // 40 blocks read 8 KiB each, one after the other on one core.
    let rounds = |memory_bytes| {
        let mut setup = with(&mixed(), |gpu| {
            gpu.memory_bytes = memory_bytes;
            gpu.cores = 1;
            gpu.blocks_a_core = 1;
        });
        setup.workloads[0].kernels[0].io.truncate(1);
        let kernel = setup.workloads[0].kernels[0].clone();
        setup.workloads[0].kernels = vec![kernel; 3];
        ran(&setup).total
    };
    let (small, large) = (rounds(40 * 8192 - 4096), rounds(40 * 8192));
    // Sectors of a frame that was just read are present; none is from an earlier round.
    assert_eq!(small.requests, 3 * 640);
    assert_eq!((large.requests, large.memory_hits), (640, 2 * 640));
}

#[test]
fn what_was_written_has_left_the_memory() {
    let mut setup = with(&mixed(), |gpu| gpu.memory_bytes = 1 << 20);
    let kernel = setup.workloads[0].kernels[0].clone();
    setup.workloads[0].kernels = vec![kernel; 2];
    assert_eq!(ran(&setup).total.memory_hits, 0);
}

#[test]
fn large_accesses_are_cut_to_the_largest_request() {
    let mut whole = mixed();
    for io in &mut whole.workloads[0].kernels[0].io {
        io.bytes = 4096;
    }
    let cut = ran(&with(&whole, |gpu| gpu.request_bytes = 512));
    let whole = ran(&whole);
    assert_eq!(cut.total.requests, 8 * whole.total.requests);
    assert_eq!(cut.total.read_bytes, whole.total.read_bytes);
    let odd = with(&mixed(), |gpu| gpu.request_bytes = 700);
    assert!(run(&odd).unwrap_err().to_string().contains("whole sectors"));
}

#[test]
fn equal_runs_of_the_papers_conditions_have_equal_digests() {
    let mut setup = with(&mixed(), |gpu| {
        gpu.reads = Reads::Time;
        gpu.writes = Writes::Evict;
        gpu.request_bytes = 512;
        gpu.memory_bytes = 16 << 30;
    });
    setup.drive.host.queue_entries = 65_536;
    setup.workloads = vec![Network::Bert.workload(4_000, &setup.gpu, 1)];
    let report = ran(&setup);
    assert!(report.total.requests > 0 && report.total.memory_hits > report.total.requests);
    assert_eq!(report.digest, ran(&setup).digest);
    let waits = with(&setup, |gpu| gpu.writes = Writes::Wait);
    assert_ne!(report.digest, ran(&waits).digest);
}
