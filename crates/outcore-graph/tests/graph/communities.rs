//! Communities by label propagation and by Louvain's method.
//!
//! Contract: the results satisfy the definitions: no other label outnumbers a vertex's own, the
//! modularity matches the partition, and is at least the modularity of a planted partition.

use outcore::{Job, Kind};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::graph::Graph;
use outcore_graph::kernels::{LouvainOptions, Partition, label_propagation};

use crate::common::{Random, each_graph, faulty_in, job, louvain_beside, made};

use crate::oracle;

fn plain() -> ConvertOptions {
    ConvertOptions::default()
}

fn undirected() -> ConvertOptions {
    ConvertOptions {
        is_undirected: true,
        ..plain()
    }
}

#[test]
fn labels_are_those_that_no_other_outnumbers_among_neighbours() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        let found = label_propagation(job, graph, 1000).unwrap();
        assert!(found.is_stable, "{name}: {} rounds", found.rounds);
        let discontent = oracle::discontent(vertices, edges, &found.labels);
        assert_eq!(discontent, None, "{name}");
        // Communities are labelled with their smallest vertex, and are inside components.
        let components = oracle::components(vertices, edges);
        let mut count = 0;
        for (vertex, label) in (0..).zip(&found.labels) {
            assert!(*label <= vertex && found.labels[*label as usize] == *label);
            assert_eq!(components[vertex as usize], components[*label as usize]);
            count += u64::from(*label == vertex);
        }
        assert_eq!(found.count, count, "{name}");
        match name {
            "star, undirected: true" | "clique, undirected: true" => assert_eq!(count, 1),
            "two cliques, undirected: false" => assert_eq!(count, 2 + 40),
            _ => {}
        }
    });
    // No round, no change.
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let (path, _) = made(&job, dir.path(), (3, &[[0, 1]]), &plain());
    let graph = Graph::open(&job, &path).unwrap();
    let found = label_propagation(&job, &graph, 0).unwrap();
    assert_eq!((found.labels, found.is_stable), (vec![0, 1, 2], false));
    assert_eq!(
        label_propagation(&job, &graph, 9).unwrap().labels,
        [0, 0, 2]
    );
}

/// Groups of vertices with more edges inside than between them, and each vertex's group.
fn planted(vertices: u64, groups: u64, seed: u64) -> (Vec<[u32; 2]>, Vec<u32>) {
    let random = &mut Random(seed);
    let label = |vertex: u64| (vertex % groups) as u32;
    let mut edges = Vec::new();
    for vertex in 0..vertices {
        for _ in 0..6 {
            let other = random.below(vertices / groups) * groups + vertex % groups;
            edges.push([vertex as u32, other as u32]);
        }
        edges.push([vertex as u32, random.below(vertices) as u32]);
    }
    (edges, (0..vertices).map(label).collect())
}

/// The numbers of the vertices ascend along a ring. Vertices that moved in the order of the numbers
/// would form long chains of communities.
#[test]
fn communities_do_not_depend_on_the_numbering_of_the_vertices() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let vertices = 1000;
    let edges: Vec<[u32; 2]> = (0..vertices)
        .flat_map(|vertex| (1..4).map(move |step| [vertex, (vertex + step) % vertices]))
        .collect();
    let (path, _) = made(&job, dir.path(), (vertices, &edges), &undirected());
    let graph = Graph::open(&job, &path).unwrap();
    for seed in 1..6 {
        let options = LouvainOptions {
            seed,
            ..LouvainOptions::default()
        };
        let found = louvain_beside(&job, &graph, options).unwrap();
        assert!(found.modularity > 0.85, "seed {seed}: {}", found.modularity);
    }
}

#[test]
fn modularity_is_that_of_the_partition_and_communities_are_connected() {
    each_graph(&plain(), |name, job, graph, (vertices, edges)| {
        if graph.manifest().directed {
            let error = louvain_beside(job, graph, LouvainOptions::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            return;
        }
        let components = oracle::components(vertices, edges);
        let weighted: Vec<_> = edges.iter().map(|edge| (*edge, 1.0)).collect();
        for (resolution, seed) in [(1.0, 1), (1.0, 2), (0.4, 1)] {
            let options = LouvainOptions {
                resolution,
                seed,
                ..LouvainOptions::default()
            };
            let found = louvain_beside(job, graph, options).unwrap();
            let wanted = oracle::modularity(&weighted, &found.labels, resolution);
            let is_same = edges.is_empty() || (found.modularity - wanted).abs() < 1e-9;
            assert!(is_same, "{name}: {} is not {wanted}", found.modularity);
            let mut count = 0;
            for (vertex, label) in (0..).zip(&found.labels) {
                assert!(*label <= vertex && found.labels[*label as usize] == *label);
                assert_eq!(components[vertex as usize], components[*label as usize]);
                count += u64::from(*label == vertex);
            }
            assert_eq!(found.count, count, "{name}");
            match name {
                "clique, undirected: true" => assert_eq!(count, 1),
                "two cliques, undirected: true" => assert_eq!(count, 2 + 40),
                _ => {}
            }
        }
    });
}

#[test]
fn planted_groups_are_found_and_weights_count() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(64 << 20, 2);
    let (edges, groups) = planted(6_000, 12, 5);
    let (path, _) = made(&job, dir.path(), (6_000, &edges), &undirected());
    let graph = Graph::open(&job, &path).unwrap();
    let found = louvain_beside(&job, &graph, LouvainOptions::default()).unwrap();
    let ones: Vec<_> = edges.iter().map(|edge| (*edge, 1.0)).collect();
    let planted = oracle::modularity(&ones, &groups, 1.0);
    let is_near = |found: &Partition, planted: f64| {
        // A community's label is its smallest vertex, and that vertex may be in a wrong community.
        let mut members = std::collections::BTreeMap::<u32, [usize; 12]>::new();
        for (label, group) in found.labels.iter().zip(&groups) {
            members.entry(*label).or_default()[*group as usize] += 1;
        }
        let same: usize = members
            .values()
            .map(|each| each.iter().max().unwrap())
            .sum();
        found.count == 12 && found.modularity > 0.98 * planted && same > 5_700
    };
    assert!(
        is_near(&found, planted),
        "{} {}",
        found.count,
        found.modularity
    );
    // Edges of weight 0 and 0.25 hide the groups; edges inside groups weigh 0.5.
    let mut bytes = Vec::new();
    let random = &mut Random(3);
    let mut weighted = Vec::new();
    for edge in edges {
        weighted.push((edge, 0.5_f32));
        for weight in [0.0, 1.0 / 64.0] {
            weighted.push(([edge[0], random.below(6_000) as u32], weight));
        }
    }
    for ([from, to], weight) in &weighted {
        for word in [*from, *to, weight.to_bits()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    let input = dir.path().join("weighted");
    let options = ConvertOptions {
        vertices: Some(6_000),
        read: ReadOptions {
            format: Some(EdgeFormat::Pairs32),
            is_weighted: true,
            ..ReadOptions::default()
        },
        replace: true,
        ..undirected()
    };
    std::fs::write(&input, &bytes).unwrap();
    convert(&job, std::slice::from_ref(&input), &path, &options).unwrap();
    let graph = Graph::open(&job, &path).unwrap();
    let found = louvain_beside(&job, &graph, LouvainOptions::default()).unwrap();
    let weights: Vec<_> = weighted
        .iter()
        .map(|(edge, w)| (*edge, f64::from(*w)))
        .collect();
    let wanted = oracle::modularity(&weights, &found.labels, 1.0);
    assert!((found.modularity - wanted).abs() < 1e-9);
    let planted = oracle::modularity(&weights, &groups, 1.0);
    assert!(
        is_near(&found, planted),
        "{} {}",
        found.count,
        found.modularity
    );
    // A negative weight is rejected, and so are invalid options.
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    bytes.extend_from_slice(&(-1.0_f32).to_le_bytes());
    std::fs::write(&input, &bytes).unwrap();
    convert(&job, &[input], &path, &options).unwrap();
    let graph = Graph::open(&job, &path).unwrap();
    let error = louvain_beside(&job, &graph, LouvainOptions::default()).unwrap_err();
    let wanted = "the weight of the edge from 0 to 1 is -1";
    assert!(error.to_string().contains(wanted), "{error}");
    for (resolution, threshold) in [(-1.0, 0.0), (f64::NAN, 0.0), (1.0, -1.0)] {
        let options = LouvainOptions {
            resolution,
            threshold,
            seed: 1,
        };
        let error = louvain_beside(&job, &graph, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
    }
}

#[test]
fn communities_whose_edges_do_not_fit_are_the_same_with_these_on_scratch() {
    let dir = tempfile::tempdir().unwrap();
    let random = &mut Random(4);
    let edges = (0..400_000).map(|_| [0; 2].map(|_: u32| random.below(1 << 15) as u32));
    let edges: Vec<[u32; 2]> = edges.collect();
    let place = dir.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let large = job(256 << 20, 2);
    let (path, _) = made(&large, &place, (1 << 15, &edges), &undirected());
    let run = |job: &Job, options: LouvainOptions| {
        let graph = Graph::open(job, &path)?;
        let found = louvain_beside(job, &graph, options);
        drop(graph);
        assert_eq!(job.budget.used_bytes(), 0);
        let left = std::fs::read_dir(&place).unwrap().count();
        assert_eq!(left, 2, "pairs and the graph alone are left");
        found
    };
    let options = LouvainOptions {
        threshold: 1e-2,
        ..LouvainOptions::default()
    };
    let (all, device) = faulty_in("eio@1000000000", 256 << 20);
    let found = run(&all, options).unwrap();
    let in_memory = device.operations();
    assert!(run(&job(38 << 20, 1), options).unwrap() == found);
    // Some operations fail, one in each run: the run gives a specific error, or the same
    // communities, and no file remains.
    let (all, device) = faulty_in("eio@1000000000", 36 << 20);
    assert!(run(&all, options).unwrap() == found);
    let operations = device.operations();
    assert!(operations > in_memory + 10, "nothing went to scratch");
    let mut failed = 0;
    for nth in (1..operations).step_by(operations as usize / 5) {
        let (job, _) = faulty_in(&format!("eio@{nth}"), 36 << 20);
        match run(&job, options) {
            Ok(again) => assert!(again == found),
            Err(error) => {
                failed += 1;
                let is_named = !error.cause().is_empty() && error.kind() != Kind::Memory;
                assert!(is_named, "{error}");
            }
        }
    }
    assert!(failed > 2, "{failed}");
}
