//! Reads stay in flight while kernels run, measured with the virtual clock of in-memory drives.
//!
//! Contract: a graph is on one drive. It is converted on a system drive, and its files are copied
//! to an in-memory one under the same names.

use outcore_graph::convert::ConvertOptions;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{bfs, components};

use crate::common::{job, made, rmat};
use crate::depth;

const SCALE: u32 = 18;
const MEMORY_KIB: u64 = 32 << 10;
/// The least acceptable median of reads in flight.
const DEPTH_LEAST: usize = 4;

#[test]
fn components_over_tiles_and_a_search_over_lists_keep_reads_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let edges = rmat(SCALE, 32, 5);
    let options = ConvertOptions {
        is_undirected: true,
        ..ConvertOptions::default()
    };
    let (path, _) = made(
        &job(256 << 20, 2),
        dir.path(),
        (1 << SCALE, &edges),
        &options,
    );
    let ram = depth::drives();
    for entry in std::fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        ram.put(&file, std::fs::read(&file).unwrap());
    }
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        components(job, &Graph::open(job, &path).unwrap()).unwrap();
    });
    depth::check_reads("components", &medians, DEPTH_LEAST);
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        bfs(job, &Graph::open(job, &path).unwrap(), 0).unwrap();
    });
    depth::check_reads("breadth-first search", &medians, DEPTH_LEAST);
}
