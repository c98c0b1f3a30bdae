//! A graph contains exactly its edges, for any memory and threads.
//!
//! Contract: everything in a graph is read back and compared with the given edges, for graphs of
//! all shapes, directed and undirected.

use std::path::Path;
use std::sync::Mutex;

use outcore::Kind;
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::graph::lists::ListReader;
use outcore_graph::graph::{Direction, Graph};

use crate::common::{each_graph, job, made, rmat};
use crate::oracle;

fn options() -> impl Iterator<Item = ConvertOptions> {
    [(false, false), (true, false), (true, true)]
        .into_iter()
        .map(|(dedup, drop_loops)| ConvertOptions {
            dedup,
            drop_loops,
            ..ConvertOptions::default()
        })
}

#[test]
fn tiles_lists_and_degrees_have_each_edge_that_was_given() {
    for options in options() {
        each_graph(&options, |name, job, graph, (vertices, edges)| {
            let manifest = graph.manifest();
            let is_undirected = !manifest.directed;
            let loops = edges.iter().filter(|[from, to]| from == to).count();
            assert_eq!(manifest.edges as usize, edges.len(), "{name}");
            assert_eq!(manifest.loops as usize, loops, "{name}");
            let found = Mutex::new(Vec::new());
            let take = |segment: outcore_graph::format::tile::Segment<'_>| {
                let edges = segment.edges().map(|(to, from)| [from as u32, to as u32]);
                found.lock().unwrap().extend(edges);
                Ok(())
            };
            graph.scan(job, take).unwrap();
            let mut found = found.into_inner().unwrap();
            found.sort_by_key(|[from, to]| (to >> 16, from >> 16, *to, *from));
            assert!(found == edges, "{name}: tiles");
            let turned: Vec<[u32; 2]> = edges.iter().map(|[from, to]| [*to, *from]).collect();
            for (direction, edges) in [(Direction::Out, edges), (Direction::In, &turned)] {
                let lists = oracle::lists(vertices, edges, is_undirected);
                let degrees: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
                assert!(
                    graph.degrees(job, direction).unwrap() == degrees,
                    "{name}: degrees"
                );
                let mut reader = ListReader::new(job, graph).unwrap();
                let found = Mutex::new(vec![Vec::<u32>::new(); vertices as usize]);
                let all: Vec<u32> = (0..vertices).collect();
                let take = |list: outcore_graph::format::list::List<'_>| {
                    found.lock().unwrap()[list.vertex as usize].extend(list.neighbours);
                    Ok(())
                };
                reader.each(&all, direction, take).unwrap();
                let mut found = found.into_inner().unwrap();
                found.iter_mut().for_each(|list| list.sort_unstable());
                assert!(found == lists, "{name}: lists of {direction:?}");
            }
        });
    }
}

fn bytes_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_graph_has_the_same_bytes_for_any_threads_and_memory() {
    let edges = rmat(15, 16, 3);
    for is_undirected in [false, true] {
        let options = ConvertOptions {
            is_undirected,
            dedup: true,
            ..ConvertOptions::default()
        };
        let mut first = None;
        for (memory_bytes, threads) in [(256 << 20, 1), (256 << 20, 3), (24 << 20, 2)] {
            let dir = tempfile::tempdir().unwrap();
            let job = job(memory_bytes, threads);
            let (path, _) = made(&job, dir.path(), (1 << 15, &edges), &options);
            assert!(job.budget.peak_bytes() <= memory_bytes);
            let bytes = bytes_of(&path);
            assert!(bytes.len() >= 5);
            assert!(
                *first.get_or_insert_with(|| bytes.clone()) == bytes,
                "{memory_bytes} {threads}"
            );
        }
    }
}

#[test]
fn weights_come_back_and_of_parallel_edges_the_least_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let text = "0 1 2.5\n1 2 -3\n0 1 0.5\n70000 2 1e3\n2 2 7\n";
    std::fs::write(dir.path().join("w.wel"), text).unwrap();
    let job = job(64 << 20, 2);
    for dedup in [false, true] {
        let options = ConvertOptions {
            dedup,
            replace: true,
            read: ReadOptions {
                is_weighted: true,
                ..ReadOptions::default()
            },
            ..ConvertOptions::default()
        };
        let path = dir.path().join("g");
        convert(&job, &[dir.path().join("w.wel")], &path, &options).unwrap();
        let graph = Graph::open(&job, &path).unwrap();
        let mut wanted = vec![
            (0, 1, 0.5),
            (0, 1, 2.5),
            (1, 2, -3.0),
            (2, 2, 7.0),
            (70_000, 2, 1e3),
        ];
        if dedup {
            wanted.remove(1);
        }
        let found = Mutex::new(Vec::new());
        let take = |segment: outcore_graph::format::tile::Segment<'_>| {
            let edges = segment.weighted_edges();
            let edges = edges.map(|(to, from, weight)| (from as u32, to as u32, weight));
            found.lock().unwrap().extend(edges);
            Ok(())
        };
        graph.scan(&job, take).unwrap();
        let mut in_tiles = found.into_inner().unwrap();
        in_tiles.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(in_tiles, wanted);
        let found = Mutex::new(Vec::new());
        let take = |list: outcore_graph::format::list::List<'_>| {
            let weights = list.weights.values(list.neighbours.len());
            let both = list.neighbours.iter().zip(weights);
            let edges = both.map(|(to, weight)| (list.vertex, *to, weight));
            found.lock().unwrap().extend(edges);
            Ok(())
        };
        let all: Vec<u32> = (0..70_001).collect();
        let mut lists = ListReader::new(&job, &graph).unwrap();
        lists.each(&all, Direction::Out, take).unwrap();
        let mut in_lists = found.into_inner().unwrap();
        in_lists.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(in_lists, wanted);
    }
}

#[test]
fn ids_of_any_size_are_numbered_in_their_order_and_their_names_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let wide = |id: u32| (u64::from(id) * 0x9E37_79B9_7F4A) % (1 << 47);
    let edges = rmat(10, 4, 5);
    let text: String = edges
        .iter()
        .map(|[a, b]| format!("{}\t{}\t{}\n", wide(*a), wide(*b), a % 7))
        .collect();
    std::fs::write(dir.path().join("e.txt"), text).unwrap();
    let mut names: Vec<u64> = edges.iter().flatten().map(|id| wide(*id)).collect();
    names.sort_unstable();
    names.dedup();
    let number = |id: u32| names.binary_search(&wide(id)).unwrap() as u32;
    let renamed: Vec<[u32; 2]> = edges
        .iter()
        .map(|[a, b]| [number(*a), number(*b)])
        .collect();
    for is_weighted in [false, true] {
        let options = ConvertOptions {
            relabel: Relabel::Auto,
            replace: true,
            read: ReadOptions {
                is_weighted,
                ..ReadOptions::default()
            },
            ..ConvertOptions::default()
        };
        let job = job(48 << 20, 2);
        let path = dir.path().join("g");
        let summary = convert(&job, &[dir.path().join("e.txt")], &path, &options).unwrap();
        assert_eq!(summary.edges_in, edges.len() as u64);
        let graph = Graph::open(&job, &path).unwrap();
        let kept = graph.names(&job).unwrap().unwrap();
        assert_eq!(kept.numbers(), Some(&names[..]));
        let found = Mutex::new(Vec::new());
        let take = |segment: outcore_graph::format::tile::Segment<'_>| {
            for (to, from, weight) in segment.weighted_edges() {
                found
                    .lock()
                    .unwrap()
                    .push([from as u32, to as u32, weight as u32]);
            }
            Ok(())
        };
        graph.scan(&job, take).unwrap();
        let mut found = found.into_inner().unwrap();
        found.sort_unstable();
        let weight = |id: u32| if is_weighted { id % 7 } else { 1 };
        let mut wanted: Vec<[u32; 3]> = renamed
            .iter()
            .zip(&edges)
            .map(|([a, b], [id, _])| [*a, *b, weight(*id)])
            .collect();
        wanted.sort_unstable();
        assert!(found == wanted);
    }
    // No file of a replaced graph remains.
    std::fs::write(dir.path().join("e.txt"), "0 1\n").unwrap();
    let plain = ConvertOptions {
        is_undirected: true,
        replace: true,
        ..ConvertOptions::default()
    };
    let path = dir.path().join("g");
    convert(
        &job(48 << 20, 2),
        &[dir.path().join("e.txt")],
        &path,
        &plain,
    )
    .unwrap();
    for name in ["names", "in", "in.index", "in.degrees"] {
        assert!(!path.join(name).exists(), "{name}");
    }
    assert!(path.join("out").exists());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "no scratch is left");
}

#[test]
fn ids_beyond_the_vertices_and_a_graph_that_is_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let input = dir.path().join("e.u32");
    crate::common::write_pairs(&input, &[[0, 9], [3, 4]]);
    let graph = dir.path().join("g");
    let convert_with = |options: &ConvertOptions| {
        let done = convert(&job, std::slice::from_ref(&input), &graph, options);
        done.map_err(|error| (error.kind(), error.to_string()))
    };
    let few = ConvertOptions {
        vertices: Some(9),
        ..ConvertOptions::default()
    };
    let (kind, text) = convert_with(&few).unwrap_err();
    assert_eq!(kind, Kind::Corrupt);
    assert!(
        text.contains("the id 9 is not below the number of vertices, 9"),
        "{text}"
    );
    assert!(!graph.exists());
    convert_with(&ConvertOptions::default()).unwrap();
    let (kind, text) = convert_with(&ConvertOptions::default()).unwrap_err();
    assert_eq!(kind, Kind::Usage);
    assert!(text.contains("--force"), "{text}");
    let many = ConvertOptions {
        read: ReadOptions {
            format: Some(EdgeFormat::Pairs64),
            ..ReadOptions::default()
        },
        replace: true,
        ..ConvertOptions::default()
    };
    let (kind, text) = convert_with(&many).unwrap_err();
    assert_eq!(kind, Kind::Usage);
    assert!(text.contains("the largest id is 38654705664"), "{text}");
    assert!(text.contains("--relabel"), "{text}");
}
