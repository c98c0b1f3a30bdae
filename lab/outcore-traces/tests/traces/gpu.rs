//! One run of three kernels in every layout that the readers of GPU traces know.
//!
//! The fixtures are written by hand from the public layouts: nsys's `gputrace`, `cuda_gpu_trace`
//! (with and without banner, other units, CRLF, a byte order mark) and `cuda_kern_exec_trace`,
//! MacSim's two lists, Kineto's JSON. Each has the values that its layout records of the same three
//! launches, so a misread column or unit makes one differ from the others.
use std::path::{Path, PathBuf};

use outcore_traces::OnError;
use outcore_traces::gpu::{GpuFormat, GpuOptions, Kernel, load_kernels};

/// Start since the profiler's zero and duration in nanoseconds, grid, block, registers, shared
/// bytes, stream, name.
type Launch = (u64, u64, [u32; 3], [u32; 3], u32, u64, u64, &'static str);

const LAUNCHES: [Launch; 3] = [
    (
        1_720_000_123,
        41_280,
        [512, 4, 1],
        [256, 1, 1],
        104,
        1_024 + 49_152,
        7,
        "void gemm<float, (int)4>(float *, const float *, int)",
    ),
    (
        1_720_050_007,
        3_005,
        [10, 1, 2],
        [32, 8, 1],
        16,
        0,
        13,
        "softmax",
    ),
    (
        1_720_060_999,
        995,
        [1, 1, 1],
        [1, 1, 1],
        255,
        0,
        7,
        "say(\"hi\")",
    ),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/gpu")
        .join(name)
}

/// The kernels of a fixture, after checks that its format is detected and every entry is valid; and
/// the number of entries that are no kernels.
fn read(name: &str, format: GpuFormat) -> (Vec<Kernel>, u64) {
    let options = GpuOptions {
        format: None,
        on_error: OnError::Fail,
    };
    let (kernels, report) = load_kernels(fixture(name), &options).unwrap();
    assert_eq!((report.format, report.kernels), (format, 3), "{name}");
    (kernels, report.ignored)
}

/// The launches as a layout records them: `change` removes or rounds values that the layout lacks.
fn expected(change: impl Fn(&mut Kernel)) -> Vec<Kernel> {
    LAUNCHES
        .into_iter()
        .map(
            |(start, duration, grid, block, registers, shared_bytes, stream, name)| {
                let mut kernel = Kernel {
                    name: name.into(),
                    grid,
                    block,
                    start_ns: Some(start),
                    duration_ns: Some(duration),
                    stream,
                    registers,
                    shared_bytes,
                };
                change(&mut kernel);
                kernel
            },
        )
        .collect()
}

#[test]
fn every_layout_of_nsys_gives_the_same_kernels() {
    // Megabytes with three decimals: 0.001 and 0.049.
    let rounded = |kernel: &mut Kernel| {
        if kernel.shared_bytes > 0 {
            kernel.shared_bytes = 50_000;
        }
    };
    for (name, in_megabytes, others) in [
        ("gputrace.csv", true, 1),
        ("cuda_gpu_trace.csv", true, 4),
        ("cuda_gpu_trace-us.csv", false, 1),
        ("cuda_gpu_trace-nsec.csv", false, 1),
    ] {
        let (kernels, ignored) = read(name, GpuFormat::Nsys);
        let wanted = if in_megabytes {
            expected(rounded)
        } else {
            expected(|_| ())
        };
        assert_eq!(kernels, wanted, "{name}");
        // The copy and the banner are ignored.
        assert_eq!(ignored, others, "{name}");
    }
}

#[test]
fn nsys_launch_times_have_no_stream_and_no_resources() {
    let (kernels, _) = read("cuda_kern_exec_trace.csv", GpuFormat::Nsys);
    let wanted = expected(|kernel| {
        (kernel.stream, kernel.registers, kernel.shared_bytes) = (0, 0, 0);
    });
    assert_eq!(kernels, wanted);
}

#[test]
fn macsim_lists_have_no_times_and_the_config_picks_from_the_names() {
    let wanted = expected(|kernel| {
        (kernel.start_ns, kernel.duration_ns, kernel.stream) = (None, None, 0);
    });
    // The names list has launches 0, 2 and 3; 1 is the same kernel as 2.
    for name in ["macsim", "macsim/kernel_config.txt"] {
        assert_eq!(read(name, GpuFormat::Nvbit).0, wanted, "{name}");
    }
    let names = fixture("macsim/kernel_names.txt");
    let (all, _) = load_kernels(names, &GpuOptions::default()).unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(
        (&all[0], &all[2..]),
        (&wanted[0], &wanted[1..]),
        "without the config all launches count"
    );
}

#[test]
fn kineto_traces_are_exact_as_an_object_and_as_a_list() {
    // Microseconds since 1970 have more digits than floating point.
    let wanted = expected(|kernel| {
        kernel.start_ns = kernel.start_ns.map(|ns| ns + 1_700_000_000_000_000_000);
    });
    for name in ["kineto.json", "kineto-list.json"] {
        let (kernels, ignored) = read(name, GpuFormat::Torch);
        assert_eq!(kernels, wanted, "{name}");
        assert_eq!(ignored, 3, "{name}");
    }
}
