//! What `outcore graph` says of small graphs.
//!
//! Contract: values are known by hand; vertices are called by their original ids where these were relabelled.

use serde_json::json;

use crate::support::*;

/// Two triangles that share vertex 20, a tail behind them, all ids apart; directed.
fn place() -> TestDir {
    let place = TestDir::new();
    let edges = b"0 10\n10 20\n20 0\n20 30\n30 40\n40 20\n40 50\n";
    place.write("edges.txt", edges);
    for (name, more) in [("d", ""), ("u", " --undirected")] {
        let convert = format!("graph convert edges.txt -o {name}.graph --relabel{more}");
        place.run(&convert.split(' ').collect::<Vec<_>>()).ok();
    }
    place
}

fn run(place: &TestDir, line: &str) -> Answer {
    place.run(&line.split(' ').collect::<Vec<_>>())
}

fn lines(place: &TestDir, line: &str) -> Vec<String> {
    run(place, &format!("{line} -o o.csv --force")).ok();
    let text = String::from_utf8(place.read("o.csv")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn strong_components_lengths_and_triangles_go_by_original_ids() {
    let place = place();
    // Components are called by the number of their smallest vertex.
    let found = lines(&place, "graph scc d.graph");
    assert_eq!(found, ["0,0", "10,0", "20,0", "30,0", "40,0", "50,5"]);
    let found = lines(&place, "graph sssp d.graph --source 40");
    assert_eq!(found, ["0,2", "10,3", "20,1", "30,2", "40,0", "50,1"]);
    let found = lines(&place, "graph sssp d.graph --source 50");
    assert_eq!(found[0], "0,inf");
    let found = lines(&place, "graph triangles u.graph");
    assert_eq!(found, ["0,1", "10,1", "20,2", "30,1", "40,1", "50,0"]);
    let summary = run(&place, "graph triangles u.graph --json")
        .ok()
        .event("summary");
    assert_eq!(summary["triangles"], json!(2));
    run(&place, "graph triangles d.graph").fails(2, &["directed"], "--undirected");
    run(&place, "graph sssp d.graph --source 7").fails(2, &["7"], "--source");
}

#[test]
fn a_personal_rank_jumps_to_the_vertices_that_are_named() {
    let place = place();
    let top = run(&place, "graph pagerank d.graph --source 50 --top 1 --json").ok();
    assert_eq!(top.event("summary")["top"][0][0], json!(50));
    let alone = lines(
        &place,
        "graph pagerank d.graph --source 50 --tolerance 1e-12",
    );
    // It leads nowhere, so the surfer is always there.
    let ranks = alone.iter().map(|line| line.split_once(',').unwrap());
    for (vertex, rank) in ranks {
        let expected = if vertex == "50" { 1.0 } else { 0.0 };
        let rank: f64 = rank.parse().unwrap();
        assert!((rank - expected).abs() < 1e-9, "{vertex} has {rank}");
    }
    run(&place, "graph pagerank d.graph --source 51").fails(2, &["51"], "--source");
}

#[test]
fn communities_hubs_and_authorities_go_by_original_ids() {
    let place = place();
    // The two triangles and what hangs on them; how many communities there are is told.
    let run_lp = run(&place, "graph lp u.graph --json").ok();
    let summary = run_lp.event("summary");
    assert_eq!(summary["stable"], json!(true));
    let labels = lines(&place, "graph lp u.graph");
    let own = labels.iter().enumerate();
    let own = own.filter(|(vertex, line)| line.ends_with(&format!(",{vertex}")));
    assert_eq!(summary["communities"], json!(own.count()));
    let labels = lines(&place, "graph lp u.graph --rounds 0");
    assert_eq!(labels[2], "20,2");
    let summary = run(&place, "graph lp u.graph --rounds 0 --json").ok();
    assert_eq!(summary.event("summary")["stable"], json!(false));
    place.write("star.txt", b"5 10\n5 20\n5 30\n6 10\n");
    run(&place, "graph convert star.txt -o star.graph --relabel").ok();
    let hubs = run(&place, "graph hits star.graph --top 1 --json").ok();
    assert_eq!(hubs.event("summary")["top"][0][0], json!(5));
    let authorities = run(&place, "graph hits star.graph --authorities --top 1 --json").ok();
    assert_eq!(authorities.event("summary")["top"][0][0], json!(10));
    let unfinished = "graph hits d.graph --iterations 1";
    run(&place, unfinished).fails(2, &["1 iterations"], "more iterations");
}

#[test]
fn louvain_tells_its_modularity_and_wants_no_directions() {
    let place = place();
    let summary = run(&place, "graph louvain u.graph --json")
        .ok()
        .event("summary");
    // The triangle of 0, 10, 20 and the one of 20, 30, 40 with its tail: of seven edges, five are inside.
    assert_eq!(summary["communities"], json!(2));
    let modularity = summary["modularity"].as_f64().unwrap();
    assert!(modularity > 0.2 && modularity < 0.3, "{modularity}");
    run(&place, "graph louvain d.graph").fails(2, &["directed"], "--undirected");
    run(&place, "graph louvain u.graph --resolution -1").fails(2, &["-1"], "");
}

#[test]
fn samples_are_rows_of_edges_along_or_against_their_direction() {
    let place = place();
    let found = lines(&place, "graph sample d.graph --source 20 --fanout all,all");
    assert_eq!(found, ["20,0", "20,30", "0,10", "30,40"]);
    let found = lines(&place, "graph sample d.graph --source 20 --fanout all --in");
    assert_eq!(found, ["10,20", "40,20"]);
    place.write("seeds.txt", b"# two\n20\n50\n");
    let one = "graph sample d.graph seeds.txt --fanout 1 --seed 3";
    let found = lines(&place, one);
    assert!(found == ["20,0"] || found == ["20,30"], "{found:?}");
    assert_eq!(lines(&place, one), found);
    run(&place, &format!("{one} -o e.npy")).ok();
    let bytes = place.read("e.npy");
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    assert!(header.contains("(1, 2)"), "{header}");
    run(
        &place,
        "graph sample d.graph --source 30 --fanout 0 -o none.npy",
    )
    .ok();
    place.write("bad.txt", b"20\nx\n");
    run(&place, "graph sample d.graph bad.txt -o x.npy").fails(4, &["line 2"], "whole number");
    run(&place, "graph sample d.graph --source 21 -o x.npy").fails(2, &["21"], "--source");
    run(&place, "graph sample d.graph -o x.npy").fails(2, &["SEEDS"], "");
    run(&place, "graph sample d.graph seeds.txt -o e.npy").fails(2, &["exists"], "--force");
}

#[test]
fn a_search_starts_from_one_vertex_or_several() {
    let place = place();
    let found = lines(&place, "graph bfs d.graph --source 30");
    assert_eq!(found, ["0,3", "10,4", "20,2", "30,0", "40,1", "50,2"]);
    let found = lines(
        &place,
        "graph bfs d.graph --source 30 --source 0 --source 50",
    );
    assert_eq!(found, ["0,0", "10,1", "20,2", "30,0", "40,1", "50,0"]);
    run(&place, "graph bfs d.graph").fails(2, &["--source"], "");
    // A packed edge of Graph500, from 2^32 + 1 to 1.
    place.write("packed", &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    let convert = "graph convert packed -o p.graph --type graph500 --relabel";
    run(&place, convert).ok();
    let found = lines(&place, "graph bfs p.graph --source 4294967297");
    assert_eq!(found, ["1,1", "4294967297,0"]);
}

#[test]
fn walks_are_rows_of_vertices() {
    let place = place();
    let walk = "graph walk d.graph -o w.npy --length 3 --source 40 --repeat 50 --seed 3";
    let summary = run(&place, &format!("{walk} --json")).ok().event("summary");
    assert_eq!(
        (&summary["records"], &summary["length"]),
        (&json!(50), &json!(3))
    );
    let bytes = place.read("w.npy");
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    assert!(
        header.contains("'<i8'") && header.contains("(50, 4)"),
        "{header}"
    );
    let numbers = bytes[bytes.len() - 50 * 4 * 8..].chunks(8);
    let numbers: Vec<i64> = numbers
        .map(|word| i64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let edges = [
        (0, 10),
        (10, 20),
        (20, 0),
        (20, 30),
        (30, 40),
        (40, 20),
        (40, 50),
    ];
    let mut ends = 0;
    for walk in numbers.chunks(4) {
        assert_eq!(walk[0], 40);
        for step in walk.windows(2) {
            let is_end = step[1] == -1 && (step[0] == 50 || step[0] == -1);
            ends += usize::from(is_end);
            assert!(is_end || edges.contains(&(step[0], step[1])), "{walk:?}");
        }
    }
    assert!(ends > 0);
    run(&place, walk).fails(2, &["exists"], "--force");
    run(&place, "graph walk d.graph -o x.npy --source 41").fails(2, &["41"], "--source");
}
