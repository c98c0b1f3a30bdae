//! Runs the fuzz check for files of vectors on a fixed number of damaged inputs.
//!
//! Contract: as in [`mutations`]; `make fuzz` tests more inputs.

#[path = "../../../outcore/tests/support/mutations.rs"]
#[allow(unreachable_pub)]
mod mutations;
#[path = "../../../../fuzz/src/vectors.rs"]
#[allow(unreachable_pub)]
mod vectors;

use mutations::{INPUTS, mutations};

#[test]
fn headers_of_vectors_are_refused_or_fit_their_files() {
    let fvecs = [&[2, 0, 0, 0][..], &[0; 8], &[2, 0, 0, 0], &[1; 8]].concat();
    let fbin = [&[2, 0, 0, 0, 3, 0, 0, 0][..], &[0; 24]].concat();
    let npy = b"\x93NUMPY\x01\x00\x3e\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n";
    let npy = [&npy[..], &[0; 24]].concat();
    let seeds: Vec<Vec<u8>> = (0..8_u8)
        .map(|ending| {
            let bytes = match ending {
                0..3 => &fvecs,
                3..7 => &fbin,
                _ => &npy,
            };
            [&[ending], bytes.as_slice()].concat()
        })
        .collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    mutations(vectors::open, INPUTS, &seeds);
}
