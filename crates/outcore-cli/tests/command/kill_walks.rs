//! SIGKILL in the middle of jobs on tables, graphs and vectors, and of lookups: each output is
//! absent or whole, and nothing else is left once scratch is cleaned.
//!
//! Contract: as [`crate::kills`]. An output is whole if it equals that of an undisturbed run.
//! Results of a search of vectors appear together; other outputs of one job may appear one after
//! another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::*;
use crate::tables::{batch, write};

/// The files below a directory with their bytes, except for those of private directories, which
/// cleaning removes.
fn files(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
}

fn all(place: &TestDir) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(&place.path(""), &mut found);
    found
}

fn clean(place: &TestDir, command: &str) {
    let is_split = command.starts_with("split") && place.path("by-name").exists();
    // The parts of this split are in a directory of their own, one level down.
    let more: &[&str] = if is_split { &["by-name"] } else { &[] };
    place
        .run(&[&["scratch", "clean", "."][..], more].concat())
        .ok();
}

/// Removes all files that did not exist before.
fn remove(place: &TestDir, before: &BTreeMap<PathBuf, Vec<u8>>, names: &[String]) {
    for path in all(place).keys().filter(|path| !before.contains_key(*path)) {
        std::fs::remove_file(path).unwrap();
    }
    for name in place.names().iter().filter(|name| !names.contains(name)) {
        std::fs::remove_dir_all(place.path(name)).unwrap();
    }
}

/// Kills a command after an operation, and repeats this with later and later operations.
fn walk(place: &TestDir, command: &str) {
    let (before, names) = (all(place), place.names());
    let words: Vec<&str> = command.split(' ').collect();
    let words = [&words[..], &["--threads", "1"]].concat();
    place.run(&words).ok();
    let whole = all(place);
    assert!(whole.len() > before.len(), "{command}");
    remove(place, &before, &names);
    let mut killed = 0;
    let next = |nth: &u64| Some(nth + 1 + nth / 3);
    for nth in std::iter::successors(Some(1_u64), next).take_while(|nth| *nth < 100_000) {
        let when = format!("kill@{nth}");
        let mut process = place.command(&words);
        process.env("OUTCORE_FAULT", &when);
        let answer = Answer::of(process.output().unwrap());
        let is_done = answer.code == Some(0);
        assert!(is_done || answer.code.is_none(), "{command} {answer:?}");
        clean(place, command);
        let is_together = ["knn", "vector pairs", "kmeans"]
            .iter()
            .any(|job| command.starts_with(job));
        let count = all(place).len();
        assert!(
            !is_together || [before.len(), whole.len()].contains(&count),
            "{command} {when}: {count} files"
        );
        for (path, bytes) in all(place) {
            let expected = whole.get(&path);
            assert!(
                expected.is_some(),
                "{command} {when}: {} is left",
                path.display()
            );
            let is_manifest = path.to_string_lossy().ends_with(".outcore.json");
            let is_right = expected == Some(&bytes) || is_manifest;
            assert!(
                is_right,
                "{command} {when}: {} is not whole",
                path.display()
            );
        }
        if is_done {
            assert_eq!(all(place).len(), whole.len(), "{command} {when}");
            remove(place, &before, &names);
            break;
        }
        killed += 1;
        remove(place, &before, &names);
    }
    assert!(killed > 3, "{command}: {killed}");
}

#[test]
fn killed_jobs_on_tables_leave_each_output_whole_or_absent() {
    let place = TestDir::in_memory();
    write(&place.path("t.parquet"), &batch(3_000));
    write(&place.path("few.parquet"), &batch(90));
    place.write("t.csv", "a,b\n1,x\n".repeat(300).as_bytes());
    for name in ["t", "few"] {
        let (from, to) = (format!("{name}.parquet"), format!("{name}-sorted.parquet"));
        place
            .run(&["sort", &from, "-o", &to, "--by", "number"])
            .ok();
    }
    for command in [
        "sort t.parquet -o o.parquet --by number",
        "shuffle t.parquet -o o.parquet",
        "unique t.parquet -o o.parquet --by name",
        "dedup t.parquet -o o.parquet --by name --removed r.parquet",
        "dedup t.parquet -o o.parquet --near name --removed r.parquet",
        "dedup t.parquet -o o.parquet --substring 8 --of name --removed r.parquet",
        "group-by t.parquet -o o.parquet --by name --agg sum(number)",
        "window t.parquet -o o.parquet --by name --order number --add lag(number),row_number",
        "join t.parquet few.parquet -o o.parquet --on number --how full",
        "split t.parquet -o by-name --by name",
        "merge t-sorted.parquet few-sorted.parquet -o o.parquet --by number",
        "diff few.parquet few.parquet -o o.parquet --by number",
        "count-by name t.parquet -o o.csv --by-count",
        "convert t.csv -o o.parquet",
        "convert t.parquet -o parts --parts 3",
    ] {
        walk(&place, command);
    }
}

#[test]
fn killed_jobs_on_graphs_and_vectors_leave_each_output_whole_or_absent() {
    let place = TestDir::in_memory();
    let pairs: Vec<u8> = (0..4_000_u32)
        .flat_map(|edge| [edge * 7919 % 500, edge * 104_729 % 500])
        .flat_map(u32::to_le_bytes)
        .collect();
    place.write("edges.u32", &pairs);
    let graph = "graph convert edges.u32 -o g.graph --type u32 --undirected --drop-loops";
    walk(&place, graph);
    place.run(&graph.split(' ').collect::<Vec<_>>()).ok();
    let names = (0..2_000).map(|edge| format!("n{} m{}\n", edge * 7919 % 500, edge % 77));
    place.write("names.txt", names.collect::<String>().as_bytes());
    walk(&place, "graph convert names.txt -o n.graph --relabel");
    for kernel in [
        "graph cc g.graph -o o.npy",
        "graph bfs g.graph -o o.npy --source 1",
        "graph pagerank g.graph -o o.csv",
        "graph kcore g.graph -o o.npy",
        "graph sssp g.graph -o o.npy --source 1",
        "graph scc g.graph -o o.npy",
        "graph triangles g.graph -o o.npy",
        "graph lp g.graph -o o.npy",
        "graph hits g.graph -o o.npy",
        "graph closeness g.graph -o o.npy",
        "graph louvain g.graph -o o.npy",
        "graph sample g.graph --source 1 -o o.npy",
        "graph walk g.graph -o o.npy",
        "graph export g.graph -o o.npz",
    ] {
        walk(&place, kernel);
    }
    let numbers: Vec<u8> = (0..8_000_u32)
        .flat_map(|place| ((place * 7919 % 1_009) as f32).to_le_bytes())
        .collect();
    place.write("base.f32", &numbers);
    let centres: Vec<f32> = (0..16_u8).map(f32::from).collect();
    place.write("centres.fbin", &crate::vectors::fbin(&centres, 8));
    place.write(
        "sorted",
        &(0..5_000_u64)
            .flat_map(u64::to_le_bytes)
            .collect::<Vec<u8>>(),
    );
    let few: Vec<u8> = (0..50_u64).flat_map(u64::to_le_bytes).collect();
    place.write("few", &few);
    let lines: String = (1_000..3_000).map(|line| format!("{line}\n")).collect();
    place.write("lines", lines.as_bytes());
    place
        .run(&["view", "build", "sorted", "-o", "v.view", "--type", "u64"])
        .ok();
    for command in [
        "knn base.f32 base.f32 -k 3 -o n.ibin --type f32x8",
        "vector index base.f32 -o base.vindex --type f32x8",
        "vector index base.f32 -o base.vindex --nlist 5 --type f32x8",
        "knn base.f32 base.f32 -k 3 -o n.ibin --distances n.fbin --type f32x8",
        "knn base.f32 base.f32 --radius 3 -o n.ibin --limits l.npy --distances n.fbin --type f32x8",
        "vector pairs base.f32 --max-l2 4 -o p.npy --type f32x8",
        "vector pairs base.f32 --max-l2 4 -o p.npy --distances d.npy --type f32x8",
        "vector pairs base.f32 --max-l2 1e9 -o p.npy --distances d.npy --type f32x8 --memory 8MiB",
        "kmeans base.f32 -k 4 -o c.npy --type f32x8",
        "kmeans base.f32 -k 4 --batch 50 --init parallel --max-iterations 3 -o c.npy --type f32x8",
        "kmeans base.f32 -k 4 -o c.npy --labels l.npy --type f32x8",
        "kmeans base.f32 -k 4 -o c.npy --labels l.parquet --type f32x8",
        "vector label base.f32 centres.fbin -o l.npy --type f32x8",
        "knn base.f32 --self -k 3 -o n.npy --type f32x8",
        "vector convert base.f32 -o o.fbin --type f32x8",
        "lookup sorted --keys sorted -o ranks --type u64",
        "lookup sorted --keys sorted -o ranks --type u64 --index i",
        "lookup sorted --keys few -o found --type u64 --values",
        "lookup v.view --keys few -o ranks",
        "lookup v.view --keys few -o found --values",
        "lookup lines --keys lines -o ranks --lines",
        "lookup lines --keys lines -o found --lines --values",
    ] {
        walk(&place, command);
    }
    let search = "knn base.f32 base.f32 -k 3 -o n.ibin --type f32x8 --index";
    for (index, lists, flags) in [
        ("whole.vindex", None, ""),
        ("lists.vindex", Some("5"), " --nprobe 2"),
    ] {
        let mut build = vec![
            "vector", "index", "base.f32", "-o", index, "--type", "f32x8",
        ];
        build.extend(lists.into_iter().flat_map(|count| ["--nlist", count]));
        place.run(&build).ok();
        walk(&place, &format!("{search} {index}{flags}"));
    }
}
