//! The output of `outcore graph` for small graphs.
//!
//! Contract: expected values were computed by hand. If ids were relabelled, vertices have their
//! original ids.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, UInt64Array};
use serde_json::json;

use crate::support::*;
use crate::tables::write;
use crate::volume::volume_in;

/// A directed graph of two triangles that share vertex 20, and a tail. Its ids have gaps.
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
    let mut lines = text.lines().map(str::to_owned);
    let titles = lines.next().unwrap();
    let is_walk = titles.starts_with("step0,step1");
    let known = ["vertex,value", "name,value", "source,target"];
    assert!(is_walk || known.contains(&titles.as_str()), "{titles}");
    lines.collect()
}

#[test]
fn strong_components_lengths_and_triangles_go_by_original_ids() {
    let place = place();
    // Components are called by their smallest vertex.
    let found = lines(&place, "graph scc d.graph");
    assert_eq!(found, ["0,0", "10,0", "20,0", "30,0", "40,0", "50,50"]);
    let top = run(&place, "graph scc d.graph --top 1").ok();
    assert_eq!(top.text(), "0\t5\n");
    let parents = "graph bfs d.graph --source 40 --parents --top 6 --json";
    let top = run(&place, parents).ok().event("summary");
    let wanted = json!([[20, 40], [40, 40], [50, 40], [0, 20], [30, 20], [10, 0]]);
    assert_eq!(top["top"], wanted);
    let top = run(&place, "graph bfs d.graph --source 50 --parents --top 2").ok();
    assert_eq!(top.text(), "50\t50\n0\t-1\n");
    let found = lines(&place, "graph sssp d.graph --source 40");
    assert_eq!(found, ["0,2", "10,3", "20,1", "30,2", "40,0", "50,1"]);
    let found = lines(&place, "graph sssp d.graph --source 50");
    assert_eq!(found[0], "0,inf");
    // Vertices that are not reached come last.
    let top = run(&place, "graph sssp d.graph --source 30 --top 7").ok();
    assert_eq!(top.text(), "10\t4\n0\t3\n20\t2\n50\t2\n40\t1\n30\t0\n");
    let top = run(&place, "graph sssp d.graph --source 50 --top 2").ok();
    assert_eq!(top.text(), "50\t0\n0\tinf\n");
    let found = lines(&place, "graph triangles u.graph");
    assert_eq!(found, ["0,1", "10,1", "20,2", "30,1", "40,1", "50,0"]);
    let summary = run(&place, "graph triangles u.graph --json")
        .ok()
        .event("summary");
    assert_eq!(summary["triangles"], json!(2));
    run(&place, "graph triangles d.graph").fails(2, &["directed"], "--undirected");
    run(&place, "graph sssp d.graph --source 7 --top 1").fails(2, &["7"], "--source");
    let found = lines(&place, "graph sssp d.graph --source 40 --source 0");
    assert_eq!(found, ["0,0", "10,1", "20,1", "30,2", "40,0", "50,1"]);
}

#[test]
fn vertices_are_called_by_names_where_ids_are_names() {
    let place = TestDir::new();
    place.write(
        "e.csv",
        b"from,to,km\nann,bo,3\nbo,\"lee, c\",1\nz\xC3\xBCri,ann,2\n",
    );
    let convert = "graph convert e.csv -o g.graph --relabel --weights=km --json";
    let summary = run(&place, convert).ok().event("summary");
    assert_eq!(summary["named"], json!(true));
    let info = run(&place, "graph info g.graph").ok();
    assert!(info.text().contains("ids are names"), "{}", info.text());
    let found = lines(&place, "graph sssp g.graph --source z\u{fc}ri");
    assert_eq!(found, ["ann,2", "bo,5", "\"lee, c\",6", "z\u{fc}ri,0"]);
    // With `--names`, values that are vertices are also names, for any extension of the file.
    let parents = "graph bfs g.graph --source ann --parents -o p.txt --names";
    run(&place, parents).ok();
    let text = String::from_utf8(place.read("p.txt")).unwrap();
    assert_eq!(text, "ann,ann\nbo,ann\n\"lee, c\",bo\nz\u{fc}ri,-1\n");
    let found = lines(&place, "graph cc g.graph");
    assert_eq!(found[3], "z\u{fc}ri,ann");
    let top = run(&place, "graph cc g.graph --top 1").ok();
    assert_eq!(top.text(), "ann\t4\n");
    let top = run(&place, "graph degrees g.graph --in --top 4 --json").ok();
    let top = &top.event("summary")["top"];
    assert_eq!(top[0], json!(["ann", 1]));
    let top = run(&place, "graph degrees g.graph --in --top 1").ok();
    assert_eq!(top.text(), "ann\t1\n");
    let found = lines(&place, "graph sample g.graph --source bo --fanout all");
    assert_eq!(found, ["bo,\"lee, c\""]);
    place.write("seeds.txt", b"bo\n# and\nlee, c\n");
    let found = lines(&place, "graph sample g.graph seeds.txt --fanout all --in");
    assert_eq!(found, ["ann,bo", "bo,\"lee, c\""]);
    let found = lines(&place, "graph walk g.graph --source bo --length 2");
    assert_eq!(found, ["bo,\"lee, c\",-1"]);
    run(&place, "graph bfs g.graph --source bob --top 1").fails(2, &["bob"], "--source");
    run(&place, "graph cc g.graph --names").fails(2, &["--output"], "");
    // Numbers are also names.
    let numbers = self::place();
    run(&numbers, "graph scc d.graph -o s --names").ok();
    let text = String::from_utf8(numbers.read("s")).unwrap();
    assert_eq!(text, "0,0\n10,0\n20,0\n30,0\n40,0\n50,50\n");
    numbers.write("seeds.txt", b"20\n60\n");
    let wrong = run(&numbers, "graph sample d.graph seeds.txt -o s.csv");
    wrong.fails(
        2,
        &["60 is not a vertex", "seeds.txt"],
        "write vertices as in the file of edges",
    );
    // Without --relabel, the error says what to do.
    run(&place, "graph convert e.csv -o h.graph").fails(4, &["is not an id"], "--relabel");
}

/// 5,000 edges with kilometres, between numbers and between names, as a table.
fn edges_of_tables() -> RecordBatch {
    let ids = |step: u64| (0..5_000u64).map(move |row| row * step % 997);
    let names = |step: u64| ids(step).map(|id| format!("n{id}")).collect::<Vec<_>>();
    let km = (0..5_000).map(|row| f64::from(row % 13));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("km", Arc::new(Float64Array::from_iter_values(km))),
        (
            "src",
            Arc::new(Int32Array::from_iter_values(ids(7).map(|id| id as i32))),
        ),
        ("dst", Arc::new(UInt64Array::from_iter_values(ids(11)))),
        ("from", Arc::new(StringArray::from(names(7)))),
        ("to", Arc::new(StringArray::from(names(11)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn edges_are_columns_of_tables() {
    let place = TestDir::new();
    place.make_dir("t");
    let batch = edges_of_tables();
    write(&place.path("t/0.parquet"), &batch.slice(0, 3_000));
    write(&place.path("t/1.parquet"), &batch.slice(3_000, 2_000));
    let edges = (0..5_000u64).map(|row| (row * 7 % 997, row * 11 % 997, row % 13));
    let numbers = edges.clone().map(|(a, b, km)| format!("{a} {b} {km}\n"));
    let names = edges.map(|(a, b, km)| format!("n{a} n{b} {km}\n"));
    for (text, columns, relabel) in [
        (numbers.collect::<String>(), "src,dst", ""),
        (names.collect::<String>(), "from,to", " --relabel"),
    ] {
        place.write("e.txt", text.as_bytes());
        let wanted = format!("graph convert e.txt -o w.graph --weights --force{relabel}");
        run(&place, &wanted).ok();
        let convert = format!("graph convert t -o g.graph --columns {columns} --weights=km");
        let convert = format!("{convert} --force{relabel} --json");
        let summary = run(&place, &convert).ok().event("summary");
        assert_eq!(summary["edges_in"], json!(5_000));
        for file in names_in(&place.path("w.graph")) {
            let read = |graph: &str| place.read(&format!("{graph}.graph/{file}"));
            assert!(read("w") == read("g"), "{columns}: {file}");
        }
    }
    // Columns that cannot be edges.
    let refused = |more: &str, code: i32, words: &[&str], hint: &str| {
        let line = format!("graph convert t -o x.graph {more}");
        run(&place, &line).fails(code, words, hint);
        assert!(!place.path("x.graph").exists());
    };
    refused("--columns from,to", 2, &["strings"], "--relabel");
    refused(
        "--columns src,to --relabel",
        2,
        &["`src` and `to`"],
        "one type",
    );
    refused("--columns src", 2, &["1 columns"], "--columns");
    refused("--columns src,nobody", 2, &["nobody"], "");
    refused("--columns src,km", 2, &["`km` is f64"], "another column");
    refused(
        "--columns src,dst --weights=from",
        2,
        &["`from`", "numbers"],
        "another column",
    );
    refused(
        "--columns src,dst --relabel=text",
        2,
        &["numbers"],
        "--relabel=numbers",
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
        (
            "b",
            Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])),
        ),
        ("m", Arc::new(Int32Array::from(vec![0, 1, 2]))),
        ("n", Arc::new(Int32Array::from(vec![0, 1, -5]))),
    ];
    write(
        &place.path("bad.parquet"),
        &RecordBatch::try_from_iter(columns).unwrap(),
    );
    let bad = "graph convert bad.parquet -o x.graph";
    let null = run(&place, &format!("{bad} --columns a,b --relabel"));
    null.fails(
        4,
        &["row 1 of column `b` is null", "bad.parquet"],
        "leave out",
    );
    let minus = run(&place, &format!("{bad} --columns m,n"));
    minus.fails(4, &["row 2", "-5 is negative", "bad.parquet"], "--columns");
    place.write("e.txt", b"0 1\n");
    let text = run(&place, "graph convert e.txt -o x.graph --columns a,b");
    text.fails(2, &["--columns"], "first two fields");
}

#[test]
fn a_graph_is_a_dataset_on_all_drives_of_a_volume_with_the_same_results() {
    let place = volume_in(TestDir::new());
    let edges = (0..60_000u32).map(|edge| format!("v{} v{}\n", edge * 7919 % 30_011, edge % 977));
    place.write("e.txt", edges.collect::<String>().as_bytes());
    // The full names of drives, so that paths of files can be compared with those of datasets.
    let drives =
        ["d0", "d1", "d2"].map(|drive| format!("[[drive]]\ndir = {:?}\n", place.path(drive)));
    place.write("drives.toml", drives.concat().as_bytes());
    let on = |line: &str| run(&place, &format!("{line} --volume drives.toml"));
    run(
        &place,
        "graph convert e.txt -o g.graph --relabel --undirected --drop-loops",
    )
    .ok();
    on("graph convert e.txt -o @g --relabel --undirected --drop-loops").ok();
    let again = on("graph convert e.txt -o @g --relabel --undirected --drop-loops");
    again.fails(2, &["@g"], "--force");
    for drive in ["d0", "d1", "d2"] {
        let shares = names_in(&place.path(&format!("{drive}/outcore-volume/data")));
        assert!(!shares.is_empty(), "{drive} has a part of it");
    }
    for kernel in [
        "cc",
        "bfs --source v7",
        "pagerank",
        "kcore",
        "triangles",
        "sample --source v7",
        "walk --length 3",
    ] {
        let (name, flags) = kernel.split_once(' ').unwrap_or((kernel, ""));
        let line = |graph: &str, out: &str| {
            let line = format!("graph {name} {graph} -o {out} --force {flags}");
            line.trim_end().to_owned()
        };
        run(&place, &line("g.graph", "a.csv")).ok();
        on(&line("@g", "b.csv")).ok();
        assert!(place.read("a.csv") == place.read("b.csv"), "{kernel}");
    }
    on("graph verify @g").ok();
    assert!(on("graph info @g").ok().text().contains("ids are names"));
    // Results can also be datasets.
    on("graph cc @g -o @labels").ok();
    on("graph cc @nobody -o x.npy").fails(2, &["@nobody"], "");
    on("graph cc @labels -o x.npy").fails(2, &["@labels"], "");
    on("volume get @g back").ok();
    for file in names_in(&place.path("g.graph")) {
        let same = place.read(&format!("g.graph/{file}")) == place.read(&format!("back/{file}"));
        assert!(same, "{file}");
    }
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
    // No edge leaves this vertex, so the surfer is always there.
    let ranks = alone.iter().map(|line| line.split_once(',').unwrap());
    for (vertex, rank) in ranks {
        let expected = if vertex == "50" { 1.0 } else { 0.0 };
        let rank: f64 = rank.parse().unwrap();
        assert!((rank - expected).abs() < 1e-9, "{vertex} has {rank}");
    }
    run(&place, "graph pagerank d.graph --source 51 --top 1").fails(2, &["51"], "--source");
}

#[test]
fn a_named_pipe_is_written_to_and_stays_one() {
    let place = place();
    let pipes = ["ranks", "matrix.npz"].map(|name| place.path(name));
    let made = std::process::Command::new("mkfifo").args(&pipes).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIP: no mkfifo here");
        return;
    }
    let path = pipes[0].clone();
    let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
    run(&place, "graph pagerank d.graph -o ranks --force").ok();
    run(&place, "graph export d.graph -o matrix.npz --force").fails(2, &["is a stream"], "-o");
    for pipe in &pipes {
        let kind = std::fs::metadata(pipe).unwrap().file_type();
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind), "{pipe:?}");
    }
    assert_eq!(reader.join().unwrap().len(), 6 * size_of::<f64>());
}

#[test]
fn ranks_by_weight_follow_the_weights() {
    let place = place();
    place.write("w.txt", b"0 1 3\n0 2 1\n1 0 1\n2 0 1\n");
    run(&place, "graph convert w.txt -o w.graph --weights").ok();
    let ranks = lines(
        &place,
        "graph pagerank w.graph --weighted --tolerance 1e-14 --iterations 300",
    );
    let ranks = ranks.iter().map(|line| line.split_once(',').unwrap().1);
    let ranks: Vec<f64> = ranks.map(|rank| rank.parse().unwrap()).collect();
    // x = 0.05 + 0.85 (y + z), y = 0.05 + 0.85 x 3/4, z = 0.05 + 0.85 x 1/4.
    let x = (0.05 + 0.085) / (1.0 - 0.85 * 0.85);
    for (rank, wanted) in ranks.iter().zip([x, 0.05 + 0.6375 * x, 0.05 + 0.2125 * x]) {
        assert!((rank - wanted).abs() < 1e-12, "{ranks:?}");
    }
    let plan = run(
        &place,
        "graph pagerank w.graph --weighted --explain --top 1",
    )
    .ok();
    assert!(
        plan.stderr.contains("2 passes; then 1 pass per iteration"),
        "{}",
        plan.stderr
    );
    run(&place, "graph pagerank d.graph --weighted --top 1").fails(2, &["no weights"], "--weights");
    place.write("n.txt", b"a b 1\nb a -1\n");
    run(&place, "graph convert n.txt -o n.graph --weights --relabel").ok();
    run(&place, "graph pagerank n.graph --weighted --top 1").fails(
        2,
        &["from b to a is -1"],
        "0 or more",
    );
}

#[test]
fn communities_hubs_and_authorities_go_by_original_ids() {
    let place = place();
    // The communities of the two triangles and their neighbours; the report has their number.
    let run_lp = run(&place, "graph lp u.graph --json").ok();
    let summary = run_lp.event("summary");
    assert_eq!(summary["stable"], json!(true));
    let labels = lines(&place, "graph lp u.graph");
    let own = labels.iter().filter(|line| {
        let (vertex, label) = line.split_once(',').unwrap();
        vertex == label
    });
    assert_eq!(summary["communities"], json!(own.count()));
    let labels = lines(&place, "graph lp u.graph --rounds 0");
    assert_eq!(labels[2], "20,20");
    let summary = run(&place, "graph lp u.graph --rounds 0 --json").ok();
    assert_eq!(summary.event("summary")["stable"], json!(false));
    place.write("star.txt", b"5 10\n5 20\n5 30\n6 10\n");
    run(&place, "graph convert star.txt -o star.graph --relabel").ok();
    let hubs = run(&place, "graph hits star.graph --top 1 --json").ok();
    assert_eq!(hubs.event("summary")["top"][0][0], json!(5));
    let authorities = run(&place, "graph hits star.graph --authorities --top 1 --json").ok();
    assert_eq!(authorities.event("summary")["top"][0][0], json!(10));
    let unfinished = "graph hits d.graph --iterations 1 --top 1";
    run(&place, unfinished).fails(2, &["1 iterations"], "more iterations");
}

#[test]
fn weights_of_any_size_make_the_same_communities() {
    let place = TestDir::new();
    for weight in ["1e-320", "1e-300", "1", "1e300"] {
        let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)];
        let rows = edges.map(|(from, to)| format!("{from},{to},{weight}\n"));
        place.write(
            "e.csv",
            ("src,dst,w\n".to_owned() + &rows.concat()).as_bytes(),
        );
        run(
            &place,
            "graph convert e.csv -o e.graph --undirected --weights=w --force",
        )
        .ok();
        let summary = run(&place, "graph louvain e.graph --json")
            .ok()
            .event("summary");
        assert_eq!(summary["communities"], json!(2), "{weight}: {summary}");
    }
}

#[test]
fn values_that_would_be_written_nowhere_are_not_computed() {
    let place = place();
    for line in [
        "degrees d.graph",
        "bfs d.graph --source 0",
        "pagerank d.graph",
        "kcore d.graph",
    ] {
        let answer = run(&place, &format!("graph {line}"));
        answer.fails(2, &["written nowhere"], "-o values.npy");
    }
    // The number of all triangles is a result.
    run(&place, "graph triangles u.graph").ok();
    // A table of edges is not read as a list of ids.
    place.write("t.parquet", &[&b"PAR1"[..], &[1; 64], b"PAR1"].concat());
    let answer = run(&place, "graph convert t.parquet --type u32 -o t.graph");
    answer.fails(2, &["the file is a Parquet file"], "");
}

#[test]
fn the_first_line_that_is_no_edge_is_named_whichever_thread_finds_one() {
    let place = TestDir::new();
    let mut lines = "1 2\n".repeat(200_000);
    lines.insert_str(400, "x y\n");
    lines += &"no edge\n".repeat(100_000);
    place.write("e.txt", lines.as_bytes());
    for _ in 0..4 {
        let answer = run(&place, "graph convert e.txt -o e.graph --threads 4");
        answer.fails(4, &["line 101 is not an edge"], "");
    }
}

#[test]
fn louvain_tells_its_modularity_and_wants_no_directions() {
    let place = place();
    let summary = run(&place, "graph louvain u.graph --json")
        .ok()
        .event("summary");
    // The communities are the triangle of 0, 10 and 20, and the vertices 30, 40 and 50: five of
    // seven edges are inside.
    assert_eq!(summary["communities"], json!(2));
    let modularity = summary["modularity"].as_f64().unwrap();
    assert!(modularity > 0.2 && modularity < 0.3, "{modularity}");
    run(&place, "graph louvain d.graph").fails(2, &["directed"], "--undirected");
    run(&place, "graph louvain u.graph --resolution -1").fails(2, &["-1"], "");
}

#[test]
fn what_is_no_graph_is_told_so() {
    let place = place();
    let file = run(&place, "graph info edges.txt");
    file.fails(2, &["not a directory", "edges.txt"], "graph convert");
    let missing = run(&place, "graph info missing");
    missing.fails(3, &["No such file", "(missing)"], "check the path");
    std::fs::create_dir(place.path("empty")).unwrap();
    let empty = run(&place, "graph cc empty -o c.npy");
    empty.fails(2, &["no graph.json", "empty"], "graph convert");
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
    // Seeds may come through a pipe.
    let piped = one.replace("seeds.txt", "- -o piped.csv");
    let arguments: Vec<&str> = piped.split(' ').collect();
    let seeds = place.read("seeds.txt");
    place.run_with_input(&arguments, &seeds).ok();
    assert_eq!(place.read("piped.csv"), place.read("o.csv"));
    let bad = ["graph", "sample", "d.graph", "-", "-o", "bad.csv"];
    place
        .run_with_input(&bad, b"20\nx\n")
        .fails(4, &["line 2"], "whole number");
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
    let convert = "graph convert packed -o p.graph --from graph500 --relabel";
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

#[test]
fn values_go_to_standard_output_and_no_file_is_called_so() {
    let place = place();
    let labels = run(&place, "graph cc d.graph -o -").ok();
    assert_eq!(labels.stdout, [0u32; 6].map(u32::to_le_bytes).concat());
    let named = run(&place, "graph cc d.graph -o - --names").ok();
    assert_eq!(named.text(), "0,0\n10,0\n20,0\n30,0\n40,0\n50,0\n");
    for (line, file) in [
        ("graph walk d.graph --source 10", "w.bin"),
        ("graph sample d.graph --source 10", "s.bin"),
        ("graph pagerank d.graph", "p.bin"),
    ] {
        run(&place, &format!("{line} -o {file}")).ok();
        let printed = run(&place, &format!("{line} -o -")).ok();
        assert!(printed.stdout == place.read(file), "{line}");
    }
    for (line, largest) in [
        ("graph cc d.graph --top 3", "0\t6\n"),
        ("graph scc d.graph --top 1", "0\t5\n"),
        ("graph scc d.graph --top 3", "0\t5\n50\t1\n"),
    ] {
        assert_eq!(run(&place, line).ok().text(), largest, "{line}");
    }
    let top = run(&place, "graph pagerank d.graph -o - --top 3");
    top.fails(2, &["--top"], "to a file");
    run(&place, "graph export d.graph -o -").fails(2, &[".npz"], "-o");
    run(&place, "graph convert edges.txt -o -").fails(2, &["directory"], "-o");
    assert!(!place.names().contains(&"-".to_owned()));
}

#[test]
fn a_kernel_tells_its_plan_and_what_it_read_beside_it() {
    let place = place();
    for (line, wanted) in [
        ("cc d.graph", "1 pass; a pass reads 64.0 KiB in"),
        (
            "pagerank d.graph --iterations 7 --tolerance 0",
            "7 iterations at most",
        ),
        ("hits d.graph", "2 passes per iteration"),
        ("bfs d.graph --source 0", "a pass in each round"),
        ("sssp d.graph --source 0", "a pass in each round"),
        ("scc d.graph", "a pass in each round"),
        ("kcore u.graph", "a pass in each round"),
        ("triangles u.graph", "all lists are 4.00 KiB"),
        ("lp u.graph", "each round"),
        ("louvain u.graph", "each round"),
        ("degrees u.graph", "no edges are read"),
        ("walk u.graph", "neighbours are drawn"),
        ("sample u.graph --source 0", "neighbours are drawn"),
    ] {
        let line = format!("graph {line} -o o.npy --force --explain");
        let told = run(&place, &line).ok().stderr;
        assert!(
            told.contains(wanted) && told.contains("memory: "),
            "{line}: {told}"
        );
    }
    let events = run(&place, "graph cc d.graph -o c.npy --explain --json").ok();
    let pass = &events.event("summary")["phases"][0];
    assert_eq!(pass["name"], json!("tiles"));
    assert_eq!(
        (&pass["read_bytes"], &pass["predicted_read_bytes"]),
        (&json!(65536), &json!(65536))
    );
    // `graph sample` counts the bytes of the lists that it reads. The bytes of a conversion's
    // layout belong to the phase that writes the layout.
    let events = run(&place, "graph sample d.graph --source 0 -o s.npy --json").ok();
    assert!(events.event("summary")["read_bytes"].as_u64() >= Some(4096));
    place.write("more.txt", b"0 1\n1 2\n2 0\n");
    let events = run(&place, "graph convert more.txt -o more.graph --json").ok();
    let summary = events.event("summary");
    let phases = summary["phases"].as_array().unwrap();
    let sorting = phases.iter().find(|phase| phase["name"] == "sort").unwrap();
    assert!(sorting["written_bytes"].as_u64() > Some(65536), "{sorting}");
}

#[test]
fn components_that_are_looked_at_have_to_fit_before_anything_is_read() {
    let place = TestDir::new();
    place.write("e.txt", b"0 1\n5 7\n");
    run(&place, "graph convert e.txt -o g.graph --vertices 9000000").ok();
    let small = "--memory 32MiB --threads 1";
    for more in ["--top 3", "-o o.csv --names"] {
        let told = run(&place, &format!("graph cc g.graph {small} {more} --json"));
        assert!(
            !told
                .events()
                .iter()
                .any(|event| event["event"] == "progress")
        );
        told.fails(6, &["9,000,000 vertices"], "without --top and --names");
    }
    let told = run(
        &place,
        &format!("graph cc g.graph {small} -o o.npy --explain"),
    )
    .ok();
    assert!(
        told.stderr.contains("bundles of vertices"),
        "{}",
        told.stderr
    );
    run(&place, "graph cc g.graph -o all.npy").ok();
    assert!(place.read("o.npy") == place.read("all.npy"));
}

#[test]
fn a_graph_is_not_written_into_and_many_of_the_largest_are_all() {
    let place = place();
    let before = place.read("d.graph/graph.json");
    run(&place, "graph cc d.graph -o d.graph/tiles --force").fails(
        2,
        &["directory of the graph"],
        "another",
    );
    run(&place, "graph export d.graph -o d.graph/x.npz").fails(
        2,
        &["directory of the graph"],
        "another",
    );
    std::fs::create_dir(place.path("in.graph")).unwrap();
    place.write("in.graph/tiles", b"1 2\n");
    run(
        &place,
        "graph convert in.graph/tiles --from text -o in.graph --force",
    )
    .fails(2, &["in.graph/tiles"], "another");
    assert_eq!(place.read("in.graph/tiles"), b"1 2\n");
    assert_eq!(place.read("d.graph/graph.json"), before);
    run(&place, "graph cc d.graph --top 99999999999").ok();
    place.write("far.txt", b"0 4000000000\n");
    run(&place, "graph convert far.txt -o far.graph").fails(
        2,
        &["4,000,000,000", "1 edge"],
        "--relabel",
    );
}

#[test]
fn results_are_tables_that_other_commands_read() {
    let place = place();
    place.write("n.txt", b"zoe ann\nann bo\nbo zoe\n");
    run(&place, "graph convert n.txt -o n.graph --relabel").ok();
    place.write("p.txt", b"0 1\n1 2\n2 1\n");
    run(&place, "graph convert p.txt -o p.graph").ok();
    let table = |line: &str, name: &str| {
        run(&place, &format!("graph {line} -o {name} --force")).ok();
        run(&place, &format!("convert {name} -o t.csv --force")).ok();
        String::from_utf8(place.read("t.csv")).unwrap()
    };
    for name in ["r.parquet", "r.arrow"] {
        let found = table("bfs n.graph --source bo", name);
        assert_eq!(found, "vertex,name,value\n0,ann,2\n1,bo,0\n2,zoe,1\n");
        let found = table("bfs d.graph --source 50 --parents", name);
        assert!(
            found.starts_with("vertex,name,value\n0,0,-1\n1,10,-1\n"),
            "{found}"
        );
        assert!(found.ends_with("\n5,50,5\n"), "{found}");
        let found = table("cc p.graph", name);
        assert_eq!(found, "vertex,value\n0,0\n1,0\n2,0\n");
        let found = table("sssp p.graph --source 1", name);
        assert_eq!(found, "vertex,value\n0,inf\n1,0.0\n2,1.0\n");
        let found = table("sample n.graph --source bo --fanout all", name);
        assert_eq!(found, "source,target\nbo,zoe\n");
        let found = table("walk p.graph --source 0 --length 1", name);
        assert_eq!(found, "step0,step1\n0,1\n");
    }
    // A CSV result has a header, so a reader does not mistake its first vertex for the names of
    // columns.
    let found = table("degrees p.graph", "r.csv");
    assert_eq!(found, "vertex,value\n0,1\n1,1\n2,1\n");
}

#[test]
fn a_conversion_says_what_it_skipped_and_how_it_stores_weights() {
    let place = TestDir::new();
    place.write("e.txt", b"# from to w\n0 1 16777217\n1 2 1e-50\n");
    let done = run(&place, "graph convert e.txt -o e.graph --weights").ok();
    assert!(done.stderr.contains("skipped 1 comment"), "{}", done.stderr);
    let info = run(&place, "graph info e.graph").ok();
    assert!(
        info.text().contains("with weights (f64)"),
        "{}",
        info.text()
    );
    let found = lines(&place, "graph sssp e.graph --source 0");
    assert_eq!(found[1], "1,16777217");
    let json = "graph convert e.txt -o e.graph --force --json --weights";
    let summary = run(&place, json).ok().event("summary");
    assert_eq!(
        (&summary["comments"], &summary["weight_type"]),
        (&json!(1), &json!("f64"))
    );
    run(
        &place,
        "graph convert e.txt -o e.graph --force --weights --weight-type i64",
    )
    .fails(4, &["1e-50 does not fit in i64"], "");
    run(&place, "graph convert e.txt -o e.graph --weight-type i64").fails(2, &["--weights"], "");
    let told = run(&place, "graph pagerank e.graph --json --top 1")
        .ok()
        .event("summary");
    assert!(told["change"].as_f64().unwrap() < 1e-6, "{told}");
    assert!(told["iterations"].as_u64().unwrap() > 1, "{told}");
    let told = run(&place, "graph pagerank e.graph --top 1").ok();
    assert!(
        told.stderr.contains("the changes of all ranks in"),
        "{}",
        told.stderr
    );
}

#[test]
fn a_result_is_not_called_what_it_is_not_and_no_iteration_computes_nothing() {
    let place = place();
    for name in ["r.csv.gz", "r.txt", "r.npz", "r.zst"] {
        let line = format!("graph degrees d.graph -o {name}");
        run(&place, &line).fails(2, &[name], "name");
        let line = format!("graph walk d.graph -o {name}");
        run(&place, &line).fails(2, &[name], "name");
        assert!(!place.path(name).exists());
    }
    run(&place, "graph degrees d.graph -o r.csv.gz --names").fails(2, &["r.csv.gz"], "compress");
    for kernel in ["pagerank", "hits"] {
        let line = format!("graph {kernel} d.graph --iterations 0");
        run(&place, &line).fails(2, &["--iterations", "0 is not in 1"], "--help");
    }
    place.write("more.txt", b"0 1\n");
    place
        .run(&["graph", "convert", "more.txt", "-o", "one.graph"])
        .ok();
    let told = run(&place, "graph info one.graph").ok().stdout;
    assert!(String::from_utf8_lossy(&told).contains("1 edge (0 loops)"));
}

#[test]
fn names_that_do_not_fit_are_rejected_before_anything_is_made() {
    let place = TestDir::new();
    place.write("e.csv", b"a,b\r\n0,1\r\n1,2\r\n");
    place
        .run(&["graph", "convert", "e.csv", "-o", "e.graph"])
        .ok();
    let export = place.run(&["graph", "export", "e.graph", "-o", "x.csv"]);
    export.fails(2, &["x.csv", "archive"], ".npz");
    place.write("big.txt", b"18446744073709551615 18446744073709551614\n");
    let big = place.run(&["graph", "convert", "big.txt", "-o", "big.graph"]);
    big.fails(2, &["largest id is 18446744073709551615"], "--relabel");
}

#[test]
fn lines_of_edges_may_end_with_a_carriage_return_alone() {
    let place = TestDir::new();
    place.write("lf.csv", b"a,b\n0,1\n1,2\n");
    run(&place, "graph convert lf.csv -o lf.graph").ok();
    let files: [(&str, &[u8]); 4] = [
        ("cr.csv", b"a,b\r0,1\r1,2"),
        ("cr.txt", b"# old\r0 1\r1 2\r"),
        ("cr.tsv", b"0\t1\r1\t2\r"),
        (
            "cr.mtx",
            b"%%MatrixMarket matrix coordinate pattern general\r3 3 2\r1 2\r2 3\r",
        ),
    ];
    for (name, text) in files {
        place.write(name, text);
        run(&place, &format!("graph convert {name} -o {name}.graph")).ok();
        let found = lines(&place, &format!("graph bfs {name}.graph --source 0"));
        assert_eq!(
            found,
            lines(&place, "graph bfs lf.graph --source 0"),
            "{name}"
        );
    }
    place.write("names.csv", b"a,b\rx,y\ry,z\r");
    run(&place, "graph convert names.csv -o names.graph --relabel").ok();
    let told = run(&place, "graph info names.graph").ok().text();
    assert!(told.contains("3 vertices"), "{told}");
    place.write("bad.txt", b"0 1\r1 2\rx\r");
    run(&place, "graph convert bad.txt -o bad.graph").fails(4, &["line 3 is not an edge"], "");
    place.write("seeds.txt", b"0\r1\r");
    run(&place, "graph sample lf.graph seeds.txt -o s.npy").ok();
}

#[test]
fn names_of_columns_of_edges_are_quoted_as_those_of_tables() {
    let place = TestDir::new();
    place.write("e.csv", b"\"from,to\",w:km,\n0,2.5,1\n1,4,2\n");
    place.write("w.txt", b"0 1 2.5\n1 2 4\n");
    run(&place, "graph convert w.txt -o w.graph --weights").ok();
    place.run(&["convert", "e.csv", "-o", "e.parquet"]).ok();
    for name in ["e.csv", "e.parquet"] {
        let columns = ["--columns", "`from,to`,``", "--weights=`w:km`"];
        let convert = ["graph", "convert", name, "-o", "g.graph", "--force"];
        place.run(&[&convert[..], &columns].concat()).ok();
        let found = lines(&place, "graph sssp g.graph --source 0");
        assert_eq!(
            found,
            lines(&place, "graph sssp w.graph --source 0"),
            "{name}"
        );
    }
}

#[test]
fn results_have_no_names_that_promise_tabs_or_binary_numbers_in_text() {
    let place = place();
    for more in ["", " --names"] {
        let line = format!("graph pagerank d.graph -o o.tsv{more}");
        run(&place, &line).fails(2, &["tabs", "o.tsv"], ".csv");
    }
    run(&place, "graph pagerank d.graph -o o.jsonl").fails(2, &["o.jsonl"], ".csv");
    assert!(!place.names().iter().any(|name| name.starts_with("o.")));
}

#[test]
fn a_type_of_binary_pairs_is_rejected_for_a_file_that_its_name_says_is_text() {
    let place = TestDir::in_memory();
    place.write("g.csv", b"a,b\n1,2\n3,4\n5,6\n");
    let convert = ["graph", "convert", "g.csv", "--type", "u32", "-o", "g"];
    place
        .run(&convert)
        .fails(2, &["binary pairs", "(g.csv)"], "leave the type out");
    assert_eq!(place.names(), ["g.csv"]);
}
