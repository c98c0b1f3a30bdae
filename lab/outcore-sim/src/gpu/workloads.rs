//! The workloads of MQMS' evaluation as descriptions: networks and Rodinia kernels.
//!
//! The model covers:
//! - the kernels of one pass, with their published shapes;
//! - the bytes that every block reads and writes, derived from how such kernels traverse their
//!   arrays;
//! - durations by the roofline of the default GPU ([`roofline_ns`]).
//!
//! It does not cover real durations, fused or library-specific kernels, or caches. Every access
//! goes to the drive, as MQMS assumes for data that exceeds the GPU's memory: each block reads its
//! own tile of the weights, and every box its own 27 neighbours. `scripts/profile_networks.py`
//! records real kernels instead; `sim gpu --trace` reads them.
//!
//! Sources of the shapes: Devlin et al., "BERT" (base: 12 layers, 768 wide, 12 heads); Radford et
//! al., "Language Models are Unsupervised Multitask Learners" (small: 12 layers, 768 wide, 50257
//! tokens); He et al., "Deep Residual Learning" (ResNet-50, table 1); Rodinia 3.1's defaults
//! (backprop 65536 inputs and 16 hidden, hotspot 512 x 512, lavaMD 10 boxes per edge with 100
//! particles each). The kernel counts of the whole runs are the paper's.
//!
//! A description is cut to the requested number of requests ([`Network::workload`]). Whole kernels
//! are kept from the front, and the report contains their number.

use super::pattern::{Access, AccessOp, Pattern};
use super::{KernelSpec, Workload};

/// Bytes of a matrix request: 256 half-precision columns.
const PIECE_BYTES: u64 = 512;
/// Bytes of a half-precision number.
const HALF: u64 = 2;

/// A workload of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// BERT base, 128 tokens.
    Bert,
    /// GPT-2 small, one token after 512 others.
    Gpt2,
    /// ResNet-50, one image of 224 x 224.
    Resnet50,
    /// Rodinia backprop.
    Backprop,
    /// Rodinia hotspot.
    Hotspot,
    /// Rodinia lavaMD.
    Lavamd,
}

impl Network {
    /// All, networks first.
    pub const ALL: [Network; 6] = [
        Network::Bert,
        Network::Gpt2,
        Network::Resnet50,
        Network::Backprop,
        Network::Hotspot,
        Network::Lavamd,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Bert => "bert",
            Network::Gpt2 => "gpt2",
            Network::Resnet50 => "resnet50",
            Network::Backprop => "backprop",
            Network::Hotspot => "hotspot",
            Network::Lavamd => "lavamd",
        }
    }

    /// One pass (a forward pass, a token, a training step, a run).
    pub(crate) fn pass(self) -> Vec<KernelSpec> {
        match self {
            Network::Bert => bert(),
            Network::Gpt2 => gpt2(),
            Network::Resnet50 => resnet50(),
            Network::Backprop => backprop(),
            Network::Hotspot => hotspot(),
            Network::Lavamd => lavamd(),
        }
    }

    /// The first kernels of repeated passes whose requests add up to `requests_max`; at least one
    /// kernel.
    pub fn workload(self, requests_max: u64) -> Workload {
        Workload {
            name: self.name().to_owned(),
            kernels: front(self.pass().iter().cycle(), requests_max),
        }
    }
}

/// The first of `kernels`: as many whole ones as make `requests_max` requests, at least one if
/// there is one.
pub fn front<'a>(
    kernels: impl Iterator<Item = &'a KernelSpec>,
    requests_max: u64,
) -> Vec<KernelSpec> {
    let (mut taken, mut requests) = (Vec::new(), 0u64);
    for kernel in kernels {
        requests = requests.saturating_add(requests_of(kernel));
        if !taken.is_empty() && requests > requests_max {
            break;
        }
        taken.push(kernel.clone());
    }
    taken
}

/// Number of requests of one launch.
pub fn requests_of(kernel: &KernelSpec) -> u64 {
    let a_block: u64 = kernel.io.iter().map(|io| u64::from(io.count)).sum();
    let patterns = kernel.blocks().saturating_mul(a_block);
    patterns.saturating_add(kernel.pages.len() as u64)
}

/// Duration by the roofline of the T4: 8.1 TFLOP/s in single precision (half of it is reached), 320
/// GB/s, and at least 2 us per launch.
pub(crate) fn roofline_ns(flops: u64, bytes: u64) -> u64 {
    let compute = flops as f64 / 4.05e12;
    let memory = bytes as f64 / 320e9;
    2_000 + (compute.max(memory) * 1e9) as u64
}

/// Where an array is on the drive.
#[derive(Debug, Clone, Copy)]
struct Array {
    start_bytes: u64,
    len_bytes: u64,
}

/// Places arrays one after the other, each at a 16 KiB boundary.
#[derive(Debug, Default)]
struct Layout {
    next_bytes: u64,
}

impl Layout {
    fn array(&mut self, len_bytes: u64) -> Array {
        let start_bytes = self.next_bytes;
        self.next_bytes = (start_bytes + len_bytes).next_multiple_of(16 << 10);
        Array {
            start_bytes,
            len_bytes,
        }
    }
}

fn kernel(name: &str, blocks: u64, threads: u32, duration_ns: u64, io: Vec<Access>) -> KernelSpec {
    KernelSpec {
        name: name.to_owned(),
        grid: [blocks.max(1) as u32, 1, 1],
        block: [threads, 1, 1],
        duration_ns,
        registers: 64,
        shared_bytes: 8 << 10,
        io,
        pages: Vec::new(),
    }
}

fn access(op: AccessOp, pattern: Pattern, bytes: u64, count: u64, array: Array) -> Access {
    Access {
        op,
        pattern,
        bytes: bytes as u32,
        count: count as u32,
        start_bytes: array.start_bytes,
        region_bytes: array.len_bytes,
    }
}

/// A tile of 256 columns of a matrix with `columns` half-precision columns, `rows` rows per block.
fn tile(op: AccessOp, columns: u64, rows: u64, array: Array) -> Access {
    let pattern = Pattern::Tile {
        row_bytes: columns * HALF,
        blocks_x: columns.div_ceil(256),
        step_x_bytes: PIECE_BYTES,
        step_y_rows: rows,
    };
    access(op, pattern, PIECE_BYTES, rows, array)
}

/// `m x k` times `k x n`. A block for 256 columns reads its weights row by row (512 bytes each, a
/// row apart) and writes its piece of every output row.
fn gemm(name: &str, m: u64, n: u64, k: u64, weights: Array, out: Array) -> KernelSpec {
    let flops = 2 * m * n * k;
    let bytes = (k * n + m * k + m * n) * HALF;
    let io = vec![
        tile(AccessOp::Read, n, k, weights),
        tile(AccessOp::Write, n, m, out),
    ];
    kernel(name, n.div_ceil(256), 256, roofline_ns(flops, bytes), io)
}

/// Reads and writes `bytes` from one end to the other, in requests of 4 KiB.
fn elementwise(name: &str, bytes: u64, from: Array, to: Array) -> KernelSpec {
    let blocks = bytes.div_ceil(16 << 10);
    let io = vec![
        access(AccessOp::Read, Pattern::Sequential, 4096, 4, from),
        access(AccessOp::Write, Pattern::Sequential, 4096, 4, to),
    ];
    kernel(name, blocks, 256, roofline_ns(bytes, 2 * bytes), io)
}

/// Reads random rows of an embedding table.
fn gather(rows: u64, row_bytes: u64, table: Array, out: Array) -> KernelSpec {
    let io = vec![
        access(AccessOp::Read, Pattern::Random, row_bytes, 1, table),
        access(AccessOp::Write, Pattern::Sequential, row_bytes, 1, out),
    ];
    kernel(
        "embedding",
        rows,
        128,
        roofline_ns(0, 2 * rows * row_bytes),
        io,
    )
}

/// Attention of `queries` over `keys` for each of 12 heads. Keys and values are 128 bytes per head
/// and token, a row of 1536 bytes apart, so every row costs a sector.
fn attention(queries: u64, keys: u64, cache: Array, out: Array) -> [KernelSpec; 3] {
    let heads = 12;
    let strided = |op, count| {
        let pattern = Pattern::Strided {
            stride_bytes: 1536,
            block_step_bytes: 128,
        };
        access(op, pattern, 128, count, cache)
    };
    let scores = |op| {
        access(
            op,
            Pattern::Sequential,
            PIECE_BYTES,
            (queries * keys * HALF).div_ceil(PIECE_BYTES),
            out,
        )
    };
    let flops = 2 * queries * keys * 64 * heads;
    let time = roofline_ns(flops, heads * (queries * keys + keys * 64) * HALF);
    [
        kernel(
            "scores",
            heads,
            128,
            time,
            vec![strided(AccessOp::Read, keys), scores(AccessOp::Write)],
        ),
        kernel(
            "softmax",
            heads,
            128,
            time,
            vec![scores(AccessOp::Read), scores(AccessOp::Write)],
        ),
        kernel(
            "context",
            heads,
            128,
            time,
            vec![
                strided(AccessOp::Read, keys),
                strided(AccessOp::Write, queries),
            ],
        ),
    ]
}

/// Twelve layers 768 wide over `tokens` new and `past` old tokens.
fn transformer(tokens: u64, past: u64, vocabulary: u64) -> Vec<KernelSpec> {
    let (width, inner) = (768, 3072);
    let mut layout = Layout::default();
    let table = layout.array(vocabulary * width * HALF);
    let hidden = layout.array(tokens.max(16) * width * HALF);
    let wide = layout.array(tokens.max(16) * inner * HALF);
    let scores = layout.array(12 * tokens * (tokens + past) * HALF + (64 << 10));
    let mut kernels = vec![gather(tokens, width * HALF, table, hidden)];
    for _ in 0..12 {
        let square = width * width * HALF;
        let cache = layout.array((tokens + past + 16) * width * HALF);
        for name in ["query", "key", "value"] {
            let out = if name == "query" { hidden } else { cache };
            kernels.push(gemm(name, tokens, width, width, layout.array(square), out));
        }
        kernels.extend(attention(tokens, tokens + past, cache, scores));
        kernels.push(gemm(
            "project",
            tokens,
            width,
            width,
            layout.array(square),
            hidden,
        ));
        let bytes = tokens * width * HALF;
        kernels.push(elementwise("add_norm", bytes, hidden, hidden));
        kernels.push(gemm(
            "widen",
            tokens,
            inner,
            width,
            layout.array(4 * square),
            wide,
        ));
        kernels.push(elementwise("gelu", tokens * inner * HALF, wide, wide));
        kernels.push(gemm(
            "narrow",
            tokens,
            width,
            inner,
            layout.array(4 * square),
            hidden,
        ));
        kernels.push(elementwise("add_norm", bytes, hidden, hidden));
    }
    kernels
}

fn bert() -> Vec<KernelSpec> {
    transformer(128, 0, 30_522)
}

fn gpt2() -> Vec<KernelSpec> {
    let (vocabulary, width) = (50_257, 768);
    let mut kernels = transformer(1, 512, vocabulary);
    // The logits read the whole table once more.
    let table = Array {
        start_bytes: 0,
        len_bytes: vocabulary * width * HALF,
    };
    let out = table;
    let mut logits = gemm("logits", 1, vocabulary, width, table, out);
    logits.io = vec![
        access(AccessOp::Read, Pattern::Sequential, 4096, 96, table),
        access(AccessOp::Write, Pattern::Sequential, PIECE_BYTES, 1, table),
    ];
    kernels.push(logits);
    kernels
}

/// The shape of a convolution. Its images are square.
#[derive(Debug, Clone, Copy)]
struct Convolution {
    in_side: u64,
    in_channels: u64,
    /// Pixels between the centres of neighbouring outputs.
    stride: u64,
    out_side: u64,
    out_channels: u64,
    /// Weights per pair of channels.
    taps: u64,
}

impl Convolution {
    fn weights_bytes(&self) -> u64 {
        self.in_channels * self.out_channels * self.taps * HALF
    }
}

/// A convolution. A block for 16 output rows reads as many input rows of each channel group, reads
/// the weights of its 64 output channels, and writes its output rows.
fn convolution(shape: &Convolution, weights: Array, from: Array, to: Array) -> Vec<KernelSpec> {
    let Convolution {
        in_side,
        in_channels,
        stride,
        out_side,
        out_channels,
        taps,
    } = *shape;
    let row_in = in_side * in_channels * HALF;
    let row_out = out_side * out_channels * HALF;
    let blocks = out_side * out_channels.div_ceil(64);
    let flops = 2 * out_side * out_side * out_channels * in_channels * taps;
    let bytes = (in_side * in_side * in_channels + out_side * out_side * out_channels) * HALF;
    let halo = if taps > 1 { 3 } else { 1 };
    let groups = out_channels.div_ceil(64);
    let rows = |op, row_bytes: u64, step: u64, count: u64, array| {
        let piece = row_bytes.min(4096).next_multiple_of(512);
        let pattern = Pattern::Tile {
            row_bytes,
            blocks_x: groups,
            step_x_bytes: 0,
            step_y_rows: step,
        };
        access(op, pattern, piece, count, array)
    };
    let weights_a_block = (weights.len_bytes / groups).div_ceil(4096).clamp(1, 64);
    let io = vec![
        access(
            AccessOp::Read,
            Pattern::Sequential,
            4096,
            weights_a_block,
            weights,
        ),
        rows(AccessOp::Read, row_in, stride, halo, from),
        // 64 channels of an output row; NHWC keeps the channels of each pixel together.
        access(
            AccessOp::Write,
            Pattern::Strided {
                stride_bytes: out_channels * HALF,
                block_step_bytes: row_out / groups,
            },
            128,
            out_side,
            to,
        ),
    ];
    let map_bytes = out_side * out_side * out_channels * HALF;
    vec![
        kernel("convolution", blocks, 256, roofline_ns(flops, bytes), io),
        elementwise("batch_norm_relu", map_bytes, to, to),
    ]
}

fn resnet50() -> Vec<KernelSpec> {
    let mut layout = Layout::default();
    let maps = [layout.array(2 << 20), layout.array(2 << 20)];
    let mut kernels = Vec::new();
    let mut turn = 0;
    let mut add = |shape: Convolution, layout: &mut Layout| {
        let weights = layout.array(shape.weights_bytes());
        let (from, to) = (maps[turn % 2], maps[(turn + 1) % 2]);
        turn += 1;
        kernels.extend(convolution(&shape, weights, from, to));
    };
    let first = Convolution {
        in_side: 224,
        in_channels: 3,
        stride: 2,
        out_side: 112,
        out_channels: 64,
        taps: 49,
    };
    add(first, &mut layout);
    let mut channels = 64;
    for (stage, (repeats, side, width)) in [(3, 56, 64), (4, 28, 128), (6, 14, 256), (3, 7, 512)]
        .into_iter()
        .enumerate()
    {
        for repeat in 0..repeats {
            let shrinks = stage > 0 && repeat == 0;
            let (in_side, stride) = if shrinks { (side * 2, 2) } else { (side, 1) };
            let narrow = Convolution {
                in_side,
                in_channels: channels,
                stride: 1,
                out_side: in_side,
                out_channels: width,
                taps: 1,
            };
            let middle = Convolution {
                in_channels: width,
                stride,
                out_side: side,
                taps: 9,
                ..narrow
            };
            let widen = Convolution {
                in_side: side,
                in_channels: width,
                out_side: side,
                out_channels: width * 4,
                ..narrow
            };
            add(narrow, &mut layout);
            add(middle, &mut layout);
            add(widen, &mut layout);
            if repeat == 0 {
                let shortcut = Convolution {
                    in_side,
                    in_channels: channels,
                    stride,
                    ..widen
                };
                add(shortcut, &mut layout);
            }
            channels = width * 4;
        }
    }
    let weights = layout.array(2048 * 1000 * HALF);
    kernels.push(gemm("classify", 1, 1000, 2048, weights, maps[0]));
    kernels
}

/// Rodinia backprop: weights are rows of 17 floats. A block of 16 x 16 threads has 16 rows, 1088
/// bytes, which begin anywhere in a sector.
fn backprop() -> Vec<KernelSpec> {
    let inputs = 65_536;
    let blocks = inputs / 16;
    let mut layout = Layout::default();
    let weights = layout.array(inputs * 68);
    let old = layout.array(inputs * 68);
    let units = layout.array(inputs * 4);
    let partial = layout.array(blocks * 64);
    let a_block = |op, array, bytes| {
        let pattern = Pattern::Strided {
            stride_bytes: bytes,
            block_step_bytes: bytes,
        };
        access(op, pattern, bytes, 1, array)
    };
    let (read, write) = (AccessOp::Read, AccessOp::Write);
    let forward = vec![
        a_block(read, units, 64),
        a_block(read, weights, 1088),
        a_block(write, partial, 64),
    ];
    let adjust = vec![
        a_block(read, units, 64),
        a_block(read, weights, 1088),
        a_block(read, old, 1088),
        a_block(write, weights, 1088),
        a_block(write, old, 1088),
    ];
    let bytes = inputs * 68;
    let mut kernels = vec![
        kernel(
            "layerforward",
            blocks,
            256,
            roofline_ns(2 * inputs * 16, bytes),
            forward,
        ),
        kernel(
            "adjust_weights",
            blocks,
            256,
            roofline_ns(4 * inputs * 16, 4 * bytes),
            adjust,
        ),
    ];
    for kernel in &mut kernels {
        kernel.block = [16, 16, 1];
    }
    kernels
}

/// Rodinia hotspot: 512 x 512 floats in blocks of 16 x 16. A launch does two steps, after which 12
/// x 12 values per block are new. 60 steps are 30 launches that swap input and output.
fn hotspot() -> Vec<KernelSpec> {
    let (side, tile_side, step) = (512, 16, 12);
    let a_row: u64 = 512_u64.div_ceil(step);
    let mut layout = Layout::default();
    let temperatures = [layout.array(side * side * 4), layout.array(side * side * 4)];
    let power = layout.array(side * side * 4);
    let rows = |op, array, count: u64| {
        let pattern = Pattern::Tile {
            row_bytes: side * 4,
            blocks_x: a_row,
            step_x_bytes: step * 4,
            step_y_rows: step,
        };
        access(op, pattern, count * 4, count, array)
    };
    let time = roofline_ns(side * side * 15 * 2, side * side * 12);
    (0..30)
        .map(|launch| {
            let io = vec![
                rows(AccessOp::Read, temperatures[launch % 2], tile_side),
                rows(AccessOp::Read, power, tile_side),
                rows(AccessOp::Write, temperatures[(launch + 1) % 2], step),
            ];
            let mut kernel = kernel("calculate_temp", a_row * a_row, 256, time, io);
            kernel.block = [16, 16, 1];
            kernel
        })
        .collect()
}

/// Rodinia lavaMD: one block per box. It reads the positions (3200 bytes) and charges (800 bytes)
/// of its box and its 26 neighbours, and writes the forces of its own box.
fn lavamd() -> Vec<KernelSpec> {
    let (side, particles) = (10, 100);
    let boxes = side * side * side;
    let mut layout = Layout::default();
    let positions = layout.array(boxes * particles * 32);
    let charges = layout.array(boxes * particles * 8);
    let forces = layout.array(boxes * particles * 32);
    let around = |array, box_bytes: u64| {
        let pattern = Pattern::Neighbours { side, box_bytes };
        let piece = box_bytes.min(1600);
        access(
            AccessOp::Read,
            pattern,
            piece,
            27 * box_bytes.div_ceil(piece),
            array,
        )
    };
    let io = vec![
        around(positions, particles * 32),
        around(charges, particles * 8),
        access(AccessOp::Write, Pattern::Sequential, 1600, 2, forces),
    ];
    let pairs = boxes * 27 * particles * particles;
    vec![kernel(
        "kernel_gpu_cuda",
        boxes,
        128,
        roofline_ns(pairs * 30, boxes * 27 * 4000),
        io,
    )]
}

#[cfg(test)]
mod tests {
    use super::super::GpuConfig;
    use super::*;

    fn read_bytes(kernels: &[KernelSpec], name: &str) -> u64 {
        let of = |k: &KernelSpec| -> u64 {
            let reads = k.io.iter().filter(|io| io.op == AccessOp::Read);
            reads
                .map(|io| k.blocks() * u64::from(io.count) * u64::from(io.bytes))
                .sum()
        };
        kernels.iter().filter(|k| k.name == name).map(of).sum()
    }

    #[test]
    fn blocks_of_a_matrix_product_read_each_weight_once() {
        let bert = Network::Bert.pass();
        assert_eq!(read_bytes(&bert, "query"), 12 * 768 * 768 * 2);
        assert_eq!(read_bytes(&bert, "widen"), 12 * 768 * 3072 * 2);
        assert_eq!(read_bytes(&bert, "narrow"), 12 * 768 * 3072 * 2);
    }

    #[test]
    fn the_front_of_a_run_is_whole_kernels_and_never_nothing() {
        let pass = Network::Resnet50.pass();
        let sum = |kernels: &[KernelSpec]| kernels.iter().map(requests_of).sum::<u64>();
        let limit = sum(&pass[..5]);
        for (limit, expected) in [(limit, 5), (limit - 1, 4), (1, 1), (u64::MAX, pass.len())] {
            assert_eq!(front(pass.iter(), limit).len(), expected, "{limit}");
        }
        assert!(front([].iter(), 9).is_empty());
    }

    #[test]
    fn every_pass_fits_the_gpu_and_has_requests() {
        for network in Network::ALL {
            let pass = network.pass();
            assert!(
                pass.iter().map(requests_of).sum::<u64>() > 10_000,
                "{network:?}"
            );
            for kernel in &pass {
                assert!(GpuConfig::default().slots(kernel).unwrap() > 0);
                assert!(kernel.io.iter().all(|io| io.bytes > 0 && io.count > 0));
            }
        }
        assert_eq!(Network::Hotspot.pass().len(), 30);
        assert_eq!(Network::Resnet50.pass().len(), 2 * 53 + 1);
    }

    #[test]
    fn a_cut_keeps_whole_kernels_and_repeats_short_passes() {
        let cut = Network::Bert.workload(20_000);
        let requests: u64 = cut.kernels.iter().map(requests_of).sum();
        assert!(requests <= 20_000 && cut.kernels.len() > 1);
        assert!(Network::Backprop.workload(100_000).kernels.len() > 2);
        assert_eq!(Network::Lavamd.workload(1).kernels.len(), 1);
    }
}
