//! Runs the fuzz checks for graphs on a fixed number of damaged inputs.
//!
//! Contract: as in [`mutations`]; `make fuzz` tests more inputs.

#[path = "../../../../fuzz/src/graphs.rs"]
#[allow(unreachable_pub)]
mod graphs;
#[path = "../../../outcore/tests/support/mutations.rs"]
#[allow(unreachable_pub)]
mod mutations;

use mutations::{INPUTS, mutations};

#[test]
fn edges_in_damaged_files_make_a_whole_graph_or_a_named_error() {
    let chosen = |format: u8, bytes: &[u8]| [&[format], bytes].concat();
    let serial: Vec<u8> = [0_u8]
        .into_iter()
        .chain([3_i64, 2].into_iter().flat_map(i64::to_le_bytes))
        .chain([0_i64, 1, 2, 3].into_iter().flat_map(i64::to_le_bytes))
        .chain([1_i32, 2, 0].into_iter().flat_map(i32::to_le_bytes))
        .collect();
    let seeds = [
        chosen(0, &graphs::npz().unwrap()),
        chosen(
            1,
            b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 0.5\n3 1 -1\n",
        ),
        chosen(2, &serial),
        chosen(3, &serial),
        chosen(4, b"# comment\n0 1\n1 2 7\n"),
        chosen(5, b"source,target\n0,1\n\"2\",1\n"),
        chosen(6, &[1; 24]),
    ];
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    mutations(graphs::edges, INPUTS / 8, &seeds);
}

#[test]
fn a_damaged_graph_is_refused_or_has_the_degrees_that_it_had() {
    let seeds: [&[u8]; 5] = [
        &[0, 10, 0, 1],
        &[1, 200, 0, b'9', 3, 0, b'0'],
        &[2, 0, 0, 0xff],
        &[3, 64, 1, 7],
        &[4, 0, 2, 0],
    ];
    mutations(graphs::damage, INPUTS / 4, &seeds);
}
