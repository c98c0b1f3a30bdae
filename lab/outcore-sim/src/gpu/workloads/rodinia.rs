//! The kernels of Rodinia, with its default sizes.
//!
//! Contract: the bytes that every block touches, as its source computes them. Bounds: none.

use super::super::KernelSpec;
use super::super::pattern::{AccessOp, Pattern};
use super::{Layout, access, kernel, roofline_ns};

/// Rodinia backprop: weights are rows of 17 floats. A block of 16 x 16 threads has 16 rows, 1088
/// bytes, which begin anywhere in a sector.
pub(super) fn backprop() -> Vec<KernelSpec> {
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
pub(super) fn hotspot() -> Vec<KernelSpec> {
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
pub(super) fn lavamd() -> Vec<KernelSpec> {
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
