//! The kernels of BERT, GPT-2 and ResNet-50 in half precision, layer by layer.
//!
//! Model: a matrix product has blocks of 256 columns. Each reads its weights and all of its input,
//! and writes its columns of every row. Attention has one block per head. Contract: weights have
//! the sizes of the networks' papers, without biases and normalization, which are less than a
//! hundredth. Bounds: none.

use super::super::KernelSpec;
use super::super::pattern::{Access, AccessOp, Pattern};
use super::{Array, HALF, Layout, PIECE_BYTES, access, kernel, roofline_ns};

/// Bytes of a request to data that is read from end to end.
const RUN_BYTES: u64 = 4096;
/// Width of a token, and of the inner layer.
const WIDTH: u64 = 768;
const INNER: u64 = 3072;
const HEADS: u64 = 12;
/// Bytes of a token, and of one head of it.
const TOKEN_BYTES: u64 = WIDTH * HALF;
const HEAD_BYTES: u64 = TOKEN_BYTES / HEADS;

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

/// Every block accesses all of `bytes`.
fn all(bytes: u64, array: Array) -> Access {
    let run = bytes.min(RUN_BYTES);
    let pattern = Pattern::Strided {
        stride_bytes: run,
        block_step_bytes: 0,
    };
    access(AccessOp::Read, pattern, run, bytes.div_ceil(run), array)
}

/// `rows x inner` times `inner x columns`.
#[derive(Debug, Clone, Copy)]
struct Product {
    rows: u64,
    columns: u64,
    inner: u64,
}

/// A matrix product. Weights and outputs are touched in pieces of 512 bytes, a row apart.
fn gemm(name: &str, product: Product, weights: Array, from: Array, to: Array) -> KernelSpec {
    let Product {
        rows,
        columns,
        inner,
    } = product;
    let bytes = (inner * columns + rows * inner + rows * columns) * HALF;
    let io = vec![
        tile(AccessOp::Read, columns, inner, weights),
        all(rows * inner * HALF, from),
        tile(AccessOp::Write, columns, rows, to),
    ];
    let time = roofline_ns(2 * rows * columns * inner, bytes);
    kernel(name, columns.div_ceil(256), 256, time, io)
}

/// Reads and writes `bytes` from one end to the other: 16 KiB per block.
fn elementwise(name: &str, bytes: u64, from: Array, to: Array) -> KernelSpec {
    let run = bytes.min(RUN_BYTES);
    let a_block = bytes.div_ceil(run).min(4);
    let io = vec![
        access(AccessOp::Read, Pattern::Sequential, run, a_block, from),
        access(AccessOp::Write, Pattern::Sequential, run, a_block, to),
    ];
    let time = roofline_ns(bytes, 2 * bytes);
    kernel(name, bytes.div_ceil(run * a_block), 256, time, io)
}

/// Reads random rows of an embedding table.
fn gather(rows: u64, table: Array, to: Array) -> KernelSpec {
    let io = vec![
        access(AccessOp::Read, Pattern::Random, TOKEN_BYTES, 1, table),
        access(AccessOp::Write, Pattern::Sequential, TOKEN_BYTES, 1, to),
    ];
    let time = roofline_ns(0, 2 * rows * TOKEN_BYTES);
    kernel("embedding", rows, 128, time, io)
}

/// The arrays of an attention.
#[derive(Debug, Clone, Copy)]
struct Attention {
    tokens: u64,
    keys_count: u64,
    queries: Array,
    keys: Array,
    values: Array,
    scores: Array,
    mixed: Array,
}

impl Attention {
    /// Scores, their softmax, and the values weighted by them, for each head. A head has 128 bytes
    /// in each token, so it costs a sector per token.
    fn kernels(&self) -> [KernelSpec; 3] {
        let (read, write) = (AccessOp::Read, AccessOp::Write);
        let heads = |op, tokens, array| {
            let pattern = Pattern::Strided {
                stride_bytes: TOKEN_BYTES,
                block_step_bytes: HEAD_BYTES,
            };
            access(op, pattern, HEAD_BYTES, tokens, array)
        };
        let (tokens, keys) = (self.tokens, self.keys_count);
        let scores = |op| {
            let count = (tokens * keys * HALF).div_ceil(PIECE_BYTES);
            access(op, Pattern::Sequential, PIECE_BYTES, count, self.scores)
        };
        let bytes = HEADS * (tokens * keys + keys * WIDTH / HEADS) * HALF;
        let time = roofline_ns(2 * tokens * keys * WIDTH, bytes);
        let head = |name, io| kernel(name, HEADS, 128, time, io);
        let (queries, mixed) = (self.queries, self.mixed);
        [
            head(
                "scores",
                vec![
                    heads(read, tokens, queries),
                    heads(read, keys, self.keys),
                    scores(write),
                ],
            ),
            head("softmax", vec![scores(read), scores(write)]),
            head(
                "context",
                vec![
                    scores(read),
                    heads(read, keys, self.values),
                    heads(write, tokens, mixed),
                ],
            ),
        ]
    }
}

/// The layers, and the arrays that a last kernel needs.
struct Transformer {
    kernels: Vec<KernelSpec>,
    /// The vocabulary's table.
    table: Array,
    hidden: Array,
    logits: Array,
}

/// Twelve layers over `tokens` new and `past` old tokens.
fn transformer(tokens: u64, past: u64, vocabulary: u64) -> Transformer {
    let mut layout = Layout::default();
    let table = layout.array(vocabulary * TOKEN_BYTES);
    let hidden = layout.array(tokens * TOKEN_BYTES);
    let queries = layout.array(tokens * TOKEN_BYTES);
    let mixed = layout.array(tokens * TOKEN_BYTES);
    let wide = layout.array(tokens * INNER * HALF);
    let scores =
        layout.array(HEADS * (tokens * (tokens + past) * HALF).next_multiple_of(PIECE_BYTES));
    let product = |columns, inner| Product {
        rows: tokens,
        columns,
        inner,
    };
    let square = product(WIDTH, WIDTH);
    let mut kernels = vec![gather(tokens, table, hidden)];
    for _ in 0..12 {
        let mut weights = |columns: u64, inner: u64| layout.array(columns * inner * HALF);
        let [q, k, v, p] = std::array::from_fn(|_| weights(WIDTH, WIDTH));
        let (widen, narrow) = (weights(INNER, WIDTH), weights(WIDTH, INNER));
        let [keys, values] = std::array::from_fn(|_| layout.array((tokens + past) * TOKEN_BYTES));
        let new = past * TOKEN_BYTES;
        kernels.push(gemm("query", square, q, hidden, queries));
        kernels.push(gemm("key", square, k, hidden, keys.after(new)));
        kernels.push(gemm("value", square, v, hidden, values.after(new)));
        let attention = Attention {
            tokens,
            keys_count: tokens + past,
            queries,
            keys,
            values,
            scores,
            mixed,
        };
        kernels.extend(attention.kernels());
        kernels.push(gemm("project", square, p, mixed, hidden));
        let bytes = tokens * TOKEN_BYTES;
        kernels.push(elementwise("add_norm", bytes, hidden, hidden));
        let inner = product(INNER, WIDTH);
        kernels.push(gemm("widen", inner, widen, hidden, wide));
        kernels.push(elementwise("gelu", tokens * INNER * HALF, wide, wide));
        let outer = product(WIDTH, INNER);
        kernels.push(gemm("narrow", outer, narrow, wide, hidden));
        kernels.push(elementwise("add_norm", bytes, hidden, hidden));
    }
    Transformer {
        kernels,
        table,
        hidden,
        logits: layout.array(vocabulary * HALF),
    }
}

/// BERT base with 128 tokens (Devlin et al.).
pub(super) fn bert() -> Vec<KernelSpec> {
    transformer(128, 0, 30_522).kernels
}

/// GPT-2 small with one token after 512 (Radford et al.). The logits read the vocabulary's table
/// from end to end.
pub(super) fn gpt2() -> Vec<KernelSpec> {
    let vocabulary = 50_257;
    let Transformer {
        mut kernels,
        table,
        hidden,
        logits: to,
    } = transformer(1, 512, vocabulary);
    let product = Product {
        rows: 1,
        columns: vocabulary,
        inner: WIDTH,
    };
    let mut logits = gemm("logits", product, table, hidden, to);
    let a_block = 256 * TOKEN_BYTES / RUN_BYTES;
    logits.io[0] = access(
        AccessOp::Read,
        Pattern::Sequential,
        RUN_BYTES,
        a_block,
        table,
    );
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

/// A convolution and its normalization. A block for 64 channels of an output row reads the input
/// rows around it and the weights of its channels. The channels of a pixel are adjacent, so each of
/// its writes has 128 bytes.
fn convolution(shape: &Convolution, weights: Array, from: Array, to: Array) -> Vec<KernelSpec> {
    let Convolution {
        in_side,
        in_channels,
        stride,
        out_side,
        out_channels,
        taps,
    } = *shape;
    let groups = out_channels.div_ceil(64);
    let row_in = in_side * in_channels * HALF;
    let rows = Pattern::Tile {
        row_bytes: row_in,
        blocks_x: groups,
        step_x_bytes: 0,
        step_y_rows: stride,
    };
    let pixels = Pattern::Tile {
        row_bytes: out_channels * HALF,
        blocks_x: groups,
        step_x_bytes: 64 * HALF,
        step_y_rows: out_side,
    };
    let group_weights = weights.len_bytes / groups;
    let of_group = Pattern::Tile {
        row_bytes: RUN_BYTES,
        blocks_x: groups,
        step_x_bytes: group_weights,
        step_y_rows: 0,
    };
    let runs = group_weights.div_ceil(RUN_BYTES);
    let io = vec![
        access(AccessOp::Read, of_group, RUN_BYTES, runs, weights),
        access(AccessOp::Read, rows, row_in, taps.isqrt(), from),
        access(AccessOp::Write, pixels, 64 * HALF, out_side, to),
    ];
    let flops = 2 * out_side * out_side * out_channels * in_channels * taps;
    let map_bytes = out_side * out_side * out_channels * HALF;
    let bytes = in_side * row_in + map_bytes + weights.len_bytes;
    let blocks = out_side * groups;
    vec![
        kernel("convolution", blocks, 256, roofline_ns(flops, bytes), io),
        elementwise("batch_norm_relu", map_bytes, to, to),
    ]
}

/// ResNet-50 with one image of 224 x 224 (He et al., table 1). The last kernel is the classifier.
pub(super) fn resnet50() -> Vec<KernelSpec> {
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
    let classify = Product {
        rows: 1,
        columns: 1000,
        inner: 2048,
    };
    kernels.push(gemm("classify", classify, weights, maps[1], maps[0]));
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in the arrays that the named kernels access first.
    fn weights(kernels: &[KernelSpec], names: &[&str]) -> u64 {
        let mut arrays: Vec<_> = kernels
            .iter()
            .filter(|kernel| names.contains(&kernel.name.as_str()))
            .map(|kernel| (kernel.io[0].start_bytes, kernel.io[0].region_bytes / HALF))
            .collect();
        arrays.sort_unstable();
        arrays.dedup();
        arrays.iter().map(|(_, count)| count).sum()
    }

    /// Numbers that the blocks of a kernel read as their first access.
    fn read_numbers(kernel: &KernelSpec) -> u64 {
        kernel.blocks() * u64::from(kernel.io[0].count) * u64::from(kernel.io[0].bytes) / HALF
    }

    const PRODUCTS: [&str; 6] = ["query", "key", "value", "project", "widen", "narrow"];

    #[test]
    fn networks_have_the_weights_of_their_papers() {
        // BERT: 110 M, including 23.4 M for the vocabulary. GPT-2: 124 M, including 38.6 M.
        // ResNet-50: 25.5 M.
        let bert = bert();
        assert_eq!(weights(&bert, &PRODUCTS), 84_934_656);
        assert_eq!(weights(&bert, &["embedding"]), 23_440_896);
        let gpt2 = gpt2();
        assert_eq!(weights(&gpt2, &PRODUCTS), 84_934_656);
        assert_eq!(weights(&gpt2, &["embedding", "logits"]), 38_597_376);
        let resnet = resnet50();
        assert_eq!(weights(&resnet, &["convolution", "classify"]), 25_502_912);
        assert_eq!((bert.len(), gpt2.len(), resnet.len()), (145, 146, 107));
    }

    #[test]
    fn every_weight_of_a_product_is_read_once() {
        for kernel in bert() {
            if PRODUCTS.contains(&kernel.name.as_str()) {
                assert_eq!(read_numbers(&kernel), kernel.io[0].region_bytes / HALF);
            }
        }
    }
}
