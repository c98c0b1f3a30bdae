//! Vectors from the command line: conversions, searches and errors.
//!
//! Contract: results are those of loops over all pairs, in integers, which are exact.

use crate::support::*;

/// A file of big-ann's format.
pub(crate) fn fbin(numbers: &[f32], dimension: usize) -> Vec<u8> {
    let rows = (numbers.len() / dimension) as u32;
    let mut bytes = [rows, dimension as u32].map(u32::to_le_bytes).concat();
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn whole(rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let bytes = random_u64(rows * dimension, seed);
    bytes
        .chunks_exact(8)
        .map(|number| f32::from(number[0]))
        .collect()
}

#[test]
fn ground_truth_is_that_of_all_pairs_for_any_memory_and_threads() {
    let place = TestDir::new();
    let (base, queries) = (whole(900, 8, 1), whole(20, 8, 2));
    place.write("base.fbin", &fbin(&base, 8));
    place.write("queries.fbin", &fbin(&queries, 8));
    let words = [
        "knn",
        "base.fbin",
        "queries.fbin",
        "-k",
        "5",
        "-o",
        "gt.ibin",
        "--distances",
        "d.fbin",
    ];
    let summary = place
        .run(&[&words[..], &["--json"]].concat())
        .ok()
        .event("summary");
    assert_eq!(
        (&summary["records"], &summary["passes"]),
        (&20.into(), &1.into())
    );
    let mut ids = [20_u32, 5].map(u32::to_le_bytes).concat();
    let mut distances = ids.clone();
    for query in queries.chunks_exact(8) {
        let squares = base.chunks_exact(8).map(|row| {
            let pairs = row.iter().zip(query);
            pairs.map(|(a, b)| ((a - b) * (a - b)) as u64).sum::<u64>()
        });
        let mut all: Vec<(u64, u32)> = squares.zip(0..).collect();
        all.sort_unstable();
        for (square, id) in &all[..5] {
            ids.extend(id.to_le_bytes());
            distances.extend((*square as f32).to_le_bytes());
        }
    }
    assert_eq!(place.read("gt.ibin"), ids);
    assert_eq!(place.read("d.fbin"), distances);
    place
        .run(&words)
        .fails(2, &["gt.ibin", "exists"], "--force");
    let limits = ["--force", "--memory", "1MiB", "--threads", "1"];
    place.run(&[&words[..], &limits].concat()).ok();
    assert_eq!(place.read("gt.ibin"), ids);
}

#[test]
fn an_index_changes_no_result_and_says_what_was_read() {
    let place = TestDir::new();
    let (base, queries) = (whole(40_000, 64, 1), whole(5, 64, 2));
    place.write("base.fbin", &fbin(&base, 64));
    place.write("queries.fbin", &fbin(&queries, 64));
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    run("knn base.fbin queries.fbin -k 5 -o plain.ibin --distances plain.fbin").ok();
    let built = run("vector index base.fbin -o base.vindex --json")
        .ok()
        .event("summary");
    let index_bytes = 4096 + 40_000 * (64 + 16);
    assert_eq!(built["index_bytes"], index_bytes);
    assert_eq!(place.read("base.vindex").len(), index_bytes);
    let knn =
        "knn base.fbin queries.fbin -k 5 --index base.vindex -o n.ibin --distances n.fbin --json";
    let found = run(knn).ok().event("summary");
    assert_eq!(found["index_failed"], false);
    let (read, gathered) = (&found["read_bytes"], &found["gathered"]);
    assert!(read.as_u64().unwrap() < 40_000 * 256 / 2, "{read}");
    assert!(
        (25..500).contains(&gathered.as_u64().unwrap()),
        "{gathered}"
    );
    assert_eq!(place.read("n.ibin"), place.read("plain.ibin"));
    assert_eq!(place.read("n.fbin"), place.read("plain.fbin"));
    run("vector index base.fbin -o base.vindex").fails(2, &["base.vindex", "exists"], "--force");
    run("knn queries.fbin base.fbin --index base.vindex -k 1 -o o.ibin").fails(
        2,
        &["base.vindex", "an index of 40,000 vectors"],
        "vector index",
    );
    run("knn base.fbin queries.fbin --index base.fbin -k 1 -o o.ibin").fails(
        2,
        &["base.fbin", "it is not an index"],
        "vector index",
    );
    assert!(!place.path("o.ibin").exists());
}

#[test]
fn lists_are_searched_in_part_and_say_their_recall_and_plans_are_shown() {
    let place = TestDir::new();
    let (base, queries) = (whole(6_000, 16, 1), whole(5, 16, 2));
    place.write("base.fbin", &fbin(&base, 16));
    place.write("queries.fbin", &fbin(&queries, 16));
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    run("knn base.fbin queries.fbin -k 5 -o plain.ibin").ok();
    let built = run("vector index base.fbin -o base.lists --nlist 20 --json")
        .ok()
        .event("summary");
    assert_eq!(built["index_bytes"], place.read("base.lists").len());
    let knn = "knn base.fbin queries.fbin -k 5 --index base.lists --force -o n.ibin";
    run(knn).ok();
    assert_eq!(place.read("n.ibin"), place.read("plain.ibin"));
    let found = run(&format!("{knn} --nprobe 4 --json"))
        .ok()
        .event("summary");
    let recall = found["recall"].as_f64().unwrap();
    let ids = |name: &str| place.read(name)[8..].as_chunks::<4>().0.to_vec();
    let (some, exact) = (ids("n.ibin"), ids("plain.ibin"));
    let each = some.chunks(5).zip(exact.chunks(5));
    let hits: usize = each
        .map(|(some, exact)| some.iter().filter(|id| exact.contains(id)).count())
        .sum();
    assert_eq!(
        (recall, &found["recall_queries"]),
        (hits as f64 / 25.0, &5.into())
    );
    let told = run(&format!("{knn} --nprobe 4")).ok();
    assert!(
        told.stderr.contains("of the first 5 queries"),
        "{}",
        told.stderr
    );
    let silent = run(&format!("{knn} --nprobe 4 --no-recall --json")).ok();
    assert!(silent.event("summary")["recall"].is_null());
    run(&format!("{knn} --nprobe 21")).fails(2, &["the index has 20"], "--nprobe");
    run("vector index base.fbin -o x --nlist 6001").fails(2, &["6001 lists"], "--nlist");
    assert!(!place.path("x").exists());
    for command in [
        "knn base.fbin queries.fbin -k 5 -o e.ibin",
        "knn base.fbin queries.fbin --radius 3 -o r.ibin --limits l.npy",
        "kmeans base.fbin -k 3 -o c.npy --labels labels.npy",
        "vector pairs base.fbin --max-l2 0 -o p.npy",
        "vector index base.fbin -o e.vindex",
        "vector index base.fbin -o e.lists --nlist 3",
        "vector convert base.fbin -o e.npy",
    ] {
        let told = run(&format!("{command} --explain")).ok();
        assert!(
            told.stderr.contains("predicted: reads"),
            "{command}: {}",
            told.stderr
        );
        let phases = &run(&format!("{command} --force --json"))
            .ok()
            .event("summary")["phases"];
        let phases = phases.as_array().unwrap();
        let predicted = phases
            .iter()
            .any(|phase| phase["predicted_read_bytes"].as_u64() > Some(0));
        assert!(predicted, "{command}: {phases:?}");
    }
}

#[test]
fn near_pairs_and_rows_within_a_radius_are_those_of_all_pairs() {
    let place = TestDir::new();
    let base = whole(400, 3, 7);
    place.write("base.fbin", &fbin(&base, 3));
    let square = |a: usize, b: usize| {
        let pairs = base[3 * a..3 * a + 3].iter().zip(&base[3 * b..3 * b + 3]);
        pairs.map(|(a, b)| ((a - b) * (a - b)) as u64).sum::<u64>()
    };
    let near = |a: usize, from: usize| (from..400).filter(move |b| *b != a && square(a, *b) <= 900);
    let pairs = "vector pairs base.fbin --max-l2 900 -o p.i64 --distances d.fbin";
    let words: Vec<&str> = pairs.split(' ').collect();
    let summary = place
        .run(&[&words[..], &["--json"]].concat())
        .ok()
        .event("summary");
    let wanted: Vec<[usize; 2]> = (0..400)
        .flat_map(|a| near(a, a).map(move |b| [a, b]))
        .collect();
    assert!(wanted.len() > 100);
    assert_eq!(summary["results"], wanted.len());
    let bytes = |numbers: &[usize]| -> Vec<u8> {
        let wide = numbers.iter().map(|number| *number as u64);
        wide.flat_map(u64::to_le_bytes).collect()
    };
    assert_eq!(place.read("p.i64"), bytes(wanted.as_flattened()));
    assert_eq!(place.read("d.fbin").len(), 8 + 4 * wanted.len());
    let radius = "knn base.fbin --self --radius 900 -o i.i64 --limits l.i64";
    place.run(&radius.split(' ').collect::<Vec<_>>()).ok();
    let each: Vec<Vec<usize>> = (0..400).map(|a| near(a, 0).collect()).collect();
    assert_eq!(place.read("i.i64"), bytes(&each.concat()));
    let limits = each.iter().scan(0, |end, of_query| {
        *end += of_query.len();
        Some(*end)
    });
    let limits: Vec<usize> = std::iter::once(0).chain(limits).collect();
    assert_eq!(place.read("l.i64"), bytes(&limits));
    place.write("codes.u8", &[0b0001, 0b0110, 0b0000, 0b0111]);
    let codes = "vector pairs codes.u8 --type u8x1 --max-hamming 1 -o c.i64";
    place.run(&codes.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(place.read("c.i64"), bytes(&[0, 2, 1, 3]));
    let codes = "knn codes.u8 --self --type u8x1 -k 1 --metric hamming -o n.i64";
    place.run(&codes.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(place.read("n.i64"), bytes(&[2, 3, 0, 1]));
    place.write("two.fbin", &fbin(&[1.0, 0.0, 0.0, 1.0], 2));
    let none = "vector pairs two.fbin --min-cos 1 -o none.npy";
    place.run(&none.split(' ').collect::<Vec<_>>()).ok();
    let none = place.read("none.npy");
    assert!(String::from_utf8_lossy(&none).contains("(0, 2)"));
    assert_eq!(none.len() % 64, 0);
    for (words, code, cause, hint) in [
        ("vector pairs base.fbin -o x.npy", 2, "--min-cos", ""),
        (
            "knn base.fbin --self --radius 9 -o x.npy",
            2,
            "different numbers of results",
            "--limits",
        ),
        (
            "vector pairs base.fbin --max-l2 1e9 -o x.npy --memory 2MiB",
            6,
            "too little",
            "--memory",
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        place.run(&words).fails(code, &[cause], hint);
        assert!(!place.path("x.npy").exists());
    }
}

#[test]
fn vectors_are_converted_and_described() {
    let place = TestDir::new();
    let numbers = whole(50, 3, 4);
    place.write("a.fbin", &fbin(&numbers, 3));
    place
        .run(&["vector", "convert", "a.fbin", "-o", "a.u8bin"])
        .ok();
    place
        .run(&["vector", "convert", "a.u8bin", "-o", "raw", "--to", "f32"])
        .ok();
    assert_eq!(place.read("raw"), place.read("a.fbin")[8..]);
    let told = place
        .run(&["vector", "info", "raw", "--type", "f32x3"])
        .ok()
        .text();
    assert!(told.starts_with("50 vectors of f32x3 (raw)"), "{told}");
    let told = place
        .run(&["vector", "info", "a.u8bin", "--json"])
        .ok()
        .event("summary");
    assert_eq!(
        (&told["type"], &told["dimension"]),
        (&"u8x3".into(), &3.into())
    );
}

#[test]
fn an_ending_of_raw_numbers_is_their_type() {
    let place = TestDir::new();
    place.write("a.fbin", &fbin(&[1.0, 2.0, 250.0, 3.0], 2));
    let convert = |more: &str| {
        let line = format!("vector convert a.fbin {more}");
        place.run(&line.split(' ').collect::<Vec<_>>())
    };
    convert("-o o.u8").ok();
    assert_eq!(place.read("o.u8"), [1, 2, 250, 3]);
    convert("-o o.i64").ok();
    assert_eq!(place.read("o.i64").len(), 4 * 8);
    convert("-o o.f64").ok();
    assert_eq!(place.read("o.f64")[..8], 1.0_f64.to_le_bytes());
    convert("-o o.bin").ok();
    assert_eq!(place.read("o.bin").len(), 4 * 4);
    convert("-o p.i8").fails(2, &["250", "range of i8"], "wider");
    convert("-o p.u8 --to f32").fails(2, &["for u8, but the vectors are f32"], "npy");
    for ending in ["u16", "u32", "u64", "i16"] {
        let told = format!("for {ending}, but the vectors are f32");
        convert(&format!("-o p.{ending}")).fails(2, &[&told], ".npy");
    }
    assert_eq!(place.names(), ["a.fbin", "o.bin", "o.f64", "o.i64", "o.u8"]);
}

#[test]
fn what_is_wrong_with_vectors_is_named_and_nothing_is_left() {
    let place = TestDir::new();
    let mut numbers = whole(50, 4, 5);
    place.write("a.fbin", &fbin(&numbers, 4));
    place.write("b.fbin", &fbin(&numbers[..6], 3));
    numbers[9] = f32::INFINITY;
    place.write("inf.fbin", &fbin(&numbers, 4));
    let mut lie = fbin(&numbers, 4);
    lie[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    place.write("lie.fbin", &lie);
    place.write("table", b"PAR1 and so on");
    let before = place.names();
    let cases = [
        ("a.fbin b.fbin", 2, "3", "same dimension as the base"),
        ("inf.fbin a.fbin", 2, "row 2 has inf in column 1", "remove"),
        ("lie.fbin a.fbin", 4, "promises", "complete"),
        ("a.fbin a.fbin -k 51", 2, "50 rows", "-k"),
        (
            "a.fbin a.fbin --type f32x3",
            2,
            "f32x4, not f32x3",
            "the type out",
        ),
        ("table a.fbin", 2, "it is a table", "vector convert"),
        ("a.fbin a.fbin --where x>1", 2, "--table", ""),
        (
            "a.fbin a.fbin --radius 1 --limits l.npy --nprobe 2",
            2,
            "--nprobe",
            "",
        ),
        ("missing a.fbin", 3, "missing", ""),
        (
            "a.fbin a.fbin --distances o.ibin",
            2,
            "two outputs",
            "another",
        ),
        ("a.fbin a.fbin --distances d.ibin", 2, "d.ibin", ".fbin"),
        (
            "a.fbin a.fbin --subset b.fbin",
            2,
            "u8 or bool",
            "one dimension",
        ),
        ("a.fbin --self -k 50", 2, "49 other rows", "-k"),
    ];
    for (words, code, cause, hint) in cases {
        let words: Vec<&str> = ["knn", "-o", "o.ibin"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        place.run(&words).fails(code, &[cause], hint);
        assert_eq!(place.names(), before, "{words:?}");
    }
    place
        .run(&["knn", "a.fbin", "a.fbin", "-k", "2", "-o", "none/o.ibin"])
        .fails(3, &["create output", "none"], "make the directory first");
    place
        .run(&["knn", "a.fbin", "a.fbin", "-o", "a.fbin", "--force"])
        .fails(2, &["a.fbin", "input"], "another");
}

#[test]
fn clusters_that_lie_apart_are_found_with_labels_and_may_be_started_from() {
    let place = TestDir::new();
    // Three clusters, row after row.
    let base: Vec<f32> = whole(900, 4, 3)
        .iter()
        .enumerate()
        .map(|(at, number)| number / 1024.0 + (at / 4 % 3) as f32 * 100.0)
        .collect();
    place.write("base.fbin", &fbin(&base, 4));
    let words = [
        "kmeans",
        "base.fbin",
        "-k",
        "3",
        "-o",
        "c.npy",
        "--labels",
        "l.i32",
    ];
    let summary = place
        .run(&[&words[..], &["--json"]].concat())
        .ok()
        .event("summary");
    assert_eq!(summary["sizes"], serde_json::json!([300, 300, 300]));
    assert_eq!(summary["has_converged"], true);
    let labels = place.read("l.i32");
    let label = |row: usize| labels[4 * row];
    assert!((0..900).all(|row| label(row) == label(row % 3)));
    assert!(label(0) != label(1) && label(1) != label(2) && label(0) != label(2));
    place.run(&words).fails(2, &["c.npy", "exists"], "--force");
    let again = [
        "kmeans",
        "base.fbin",
        "-k",
        "3",
        "--init",
        "c.npy",
        "-o",
        "d.npy",
        "--json",
    ];
    let summary = place.run(&again).ok().event("summary");
    assert_eq!(summary["iterations"], 1);
    let batches = [
        "kmeans",
        "base.fbin",
        "-k",
        "3",
        "--batch",
        "100",
        "--init",
        "parallel",
        "-o",
        "b.npy",
        "--json",
    ];
    let summary = place.run(&batches).ok().event("summary");
    assert_eq!(summary["sizes"], serde_json::json!([300, 300, 300]));
    // With less patience the run ends earlier, and with --patience 0 it makes all iterations.
    let batches_with = |patience: &str| {
        let more = ["--force", "--tolerance", "0", "--max-iterations", "100"];
        let words = [&batches[..], &more, &["--patience", patience]].concat();
        let summary = place.run(&words).ok().event("summary");
        summary["iterations"].as_u64().unwrap()
    };
    let counts = ["2", "10", "0"].map(batches_with);
    assert!(counts.is_sorted() && counts[0] < counts[1], "{counts:?}");
    assert_eq!(counts[2], 100);
    place
        .run(&["kmeans", "base.fbin", "-o", "p.npy", "--patience", "3"])
        .fails(2, &["--batch"], "");
    let wrong = [
        "kmeans",
        "base.fbin",
        "-k",
        "4",
        "--init",
        "c.npy",
        "-o",
        "e.npy",
    ];
    place
        .run(&wrong)
        .fails(2, &["c.npy", "3 vectors of 4 dimensions"], "-k");
    assert!(!place.path("e.npy").exists());
}

#[test]
fn a_killed_run_of_k_means_goes_on_from_its_checkpoint() {
    let place = TestDir::new();
    place.write("base.fbin", &fbin(&whole(4_000, 8, 21), 8));
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    let plain = "kmeans base.fbin -k 7 --max-iterations 9 --tolerance 0 --threads 1";
    run(&format!("{plain} -o plain.npy --labels plain-labels.npy")).ok();
    let line = format!("{plain} -o kept.npy --labels labels.npy --checkpoint kept");
    let words: Vec<&str> = line.split(' ').collect();
    // Each run is killed a little later, until one gets to the end.
    let mut killed = 0;
    for nth in (30..).step_by(12) {
        let mut process = place.command(&words);
        process.env("OUTCORE_FAULT", format!("kill@{nth}"));
        let answer = Answer::of(process.output().unwrap());
        if answer.code == Some(0) {
            break;
        }
        assert!(answer.code.is_none(), "{answer:?}");
        killed += 1;
        assert!(killed < 100);
    }
    assert!(killed > 2, "{killed}");
    assert!(place.read("kept.npy") == place.read("plain.npy"));
    assert!(place.read("labels.npy") == place.read("plain-labels.npy"));
    assert!(!place.path("kept").exists());
    for taken in ["base.fbin", "new.npy", "./new.npy"] {
        let line = format!("{plain} -o new.npy --checkpoint {taken}");
        run(&line).fails(2, &[taken, "input or an output"], "--checkpoint");
    }
    run(&format!("{plain} -o new.npy --checkpoint kept --batch 50")).fails(2, &["--batch"], "");
}

#[test]
fn edges_of_several_passes_are_those_of_one() {
    let place = TestDir::new();
    place.write("b.fbin", &fbin(&whole(1_200, 4, 1), 4));
    let run = |more: &str| {
        let line = format!("knn b.fbin --self -k 300 --edges --force --json {more}");
        place
            .run(&line.split(' ').collect::<Vec<_>>())
            .ok()
            .event("summary")
    };
    run("-o one.u64");
    let passes = run("-o many.u64 --memory 4MiB --threads 1")["passes"].as_u64();
    assert!(passes.is_some_and(|passes| passes > 2), "{passes:?}");
    assert!(place.read("one.u64") == place.read("many.u64"));
    assert_eq!(place.read("one.u64").len(), 1_200 * 300 * 16);
}

#[test]
fn vectors_are_chosen_by_what_a_table_says_of_them() {
    let place = TestDir::new();
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    place.write("b.fbin", &fbin(&whole(500, 4, 1), 4));
    place.write("q.fbin", &fbin(&whole(20, 4, 2), 4));
    let rows = (0..500).map(|row| format!("{},{}\n", ["de", "fr", ""][row % 3], 1990 + row % 40));
    let head = "lang,year\n".to_string();
    let text: String = std::iter::once(head).chain(rows).collect();
    place.write("t.csv", text.as_bytes());
    run("convert t.csv -o t.parquet --csv --infer").ok();
    let mask = (0..500).map(|row| u8::from(row % 3 == 0 && row % 40 > 20));
    place.write("m.u8", &mask.collect::<Vec<u8>>());
    let chosen = [
        "--where",
        "lang == 'de' and year > 2010",
        "--table",
        "t.parquet",
    ];
    for (words, files) in [
        ("knn b.fbin q.fbin -k 5", ["", ""]),
        (
            "knn b.fbin q.fbin --radius 1e5",
            ["--limits l1.i64", "--limits l2.i64"],
        ),
        (
            "knn b.fbin q.fbin -k 5 --index b.lists --nprobe 2 --no-recall",
            ["", ""],
        ),
    ] {
        if words.contains("lists") {
            run("vector index b.fbin --nlist 9 -o b.lists").ok();
        }
        let line =
            |number: usize| format!("{words} -o o{number}.i64 --force {}", files[number - 1]);
        let (by_table, by_mask) = (line(1), format!("{} --subset m.u8", line(2)));
        let words: Vec<&str> = by_table.split_whitespace().chain(chosen).collect();
        place.run(&words).ok();
        place
            .run(&by_mask.split_whitespace().collect::<Vec<_>>())
            .ok();
        assert!(place.read("o1.i64") == place.read("o2.i64"), "{by_table}");
        assert!(!place.read("o1.i64").is_empty());
    }
    let wrong = |condition: &str, table: &str, cause: &str| {
        let words = [
            "knn", "b.fbin", "q.fbin", "-o", "x.npy", "--where", condition, "--table", table,
        ];
        place.run(&words).fails(2, &[cause], "");
        assert!(!place.path("x.npy").exists());
    };
    wrong("language == 'de'", "t.parquet", "language");
    wrong("year + 1", "t.parquet", "expected a truth value");
    wrong("1 < 2", "t.parquet", "names no column");
    run("head -n 499 t.parquet -o short.parquet").ok();
    wrong("year > 1", "short.parquet", "499 rows");
    let convert = "vector convert t.parquet -o x.npy";
    run(convert).fails(2, &["no column of lists", "t.parquet"], "another table");
    let named = format!("{convert} --column yaer");
    run(&named).fails(2, &["yaer", "t.parquet"], "");
}

#[test]
fn outputs_of_one_place_are_told_however_they_are_named() {
    let place = TestDir::new();
    place.write("b.fbin", &fbin(&whole(60, 4, 1), 4));
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    for line in [
        "knn b.fbin b.fbin -k 3 -o i.npy --distances ./i.npy --force",
        "kmeans b.fbin -k 3 -o i.npy --labels ././i.npy",
        "vector pairs b.fbin --max-l2 9 -o i.npy --distances ./i.npy",
    ] {
        run(line).fails(2, &["two outputs"], "another file");
    }
    run("knn b.fbin b.fbin -k 3 -o ./b.fbin --force").fails(2, &["it is an input"], "another");
    run("knn b.fbin b.fbin -k 3 -o -").fails(2, &["standard output"], "name a file");
    run("knn - b.fbin -k 3 -o i.npy").fails(2, &["standard input"], "name a file");
    std::fs::create_dir(place.path("dir")).unwrap();
    for line in [
        "knn b.fbin b.fbin -k 3 -o dir --force",
        "kmeans b.fbin -k 3 -o c.npy --labels dir --force",
        "vector convert b.fbin -o dir --force",
    ] {
        run(line).fails(2, &["directory"], "name a file in it");
    }
    assert!(!place.path("c.npy").exists());
    let radius = "knn b.fbin b.fbin --limits l.npy -o i.npy --radius";
    run(&format!("{radius} -1")).fails(2, &["within a radius of -1"], "0 or more");
    run("knn b.fbin b.fbin -k 9999999999999 -o i.npy").fails(2, &["60 rows"], "-k");
    assert!(!place.path("i.npy").exists());
}

#[test]
fn more_neighbours_than_memory_are_written_as_they_are_found_and_become_a_graph() {
    let place = TestDir::new();
    place.write("base.fbin", &fbin(&whole(6_000, 4, 11), 4));
    let run = |words: &str| place.run(&words.split(' ').collect::<Vec<_>>());
    // Of 6,000 x 200 neighbours, rows and distances alone take 19 MB.
    let small = "knn base.fbin --self -k 200 --memory 8MiB --threads 2";
    let told = run(&format!(
        "{small} -o small.npy --distances small.fbin --json"
    ))
    .ok();
    assert!(told.event("summary")["passes"].as_u64().unwrap() > 1);
    run("knn base.fbin --self -k 200 -o large.npy --distances large.fbin").ok();
    assert!(place.read("small.npy") == place.read("large.npy"));
    assert!(place.read("small.fbin") == place.read("large.fbin"));
    run("knn base.fbin --self -k 3 -o ids.npy").ok();
    run("knn base.fbin --self -k 3 --edges -o edges.u64 --distances far.npy").ok();
    let ids = place.read("ids.npy");
    let (ids, _) = ids[ids.len() - 6_000 * 3 * 8..].as_chunks::<8>();
    let pairs = ids
        .iter()
        .enumerate()
        .map(|(at, id)| [(at as u64 / 3).to_le_bytes(), *id].concat());
    assert!(place.read("edges.u64") == pairs.collect::<Vec<_>>().concat());
    assert!(place.read("far.npy").len() > 6_000 * 3 * 4);
    run("graph convert edges.u64 --type u64 -o near.graph --undirected").ok();
    assert!(
        run("graph info near.graph")
            .ok()
            .text()
            .starts_with("6,000 vertices")
    );
}

#[test]
fn vectors_are_datasets_on_all_drives_of_a_volume_with_the_same_results() {
    let place = crate::volume::volume_in(TestDir::new());
    let numbers = whole(20_000, 16, 5);
    place.write("base.fbin", &fbin(&numbers, 16));
    place.write("queries.fbin", &fbin(&whole(7, 16, 6), 16));
    place.write(
        "mask",
        &(0..20_000)
            .map(|row| u8::from(row % 3 > 0))
            .collect::<Vec<_>>(),
    );
    let plain = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    let on = |line: &str| plain(&format!("{line} --volume drives.toml"));
    for name in ["base.fbin", "queries.fbin", "mask"] {
        on(&format!("volume put {name} @{name}")).ok();
    }
    let told = on("vector info @base.fbin").ok();
    assert!(
        told.text().contains("20,000 vectors of f32x16"),
        "{}",
        told.text()
    );
    on("vector convert @base.fbin -o @base.npy").ok();
    plain("vector convert base.fbin -o base.npy").ok();
    on("vector index @base.fbin -o @base.vindex").ok();
    on("vector index @base.fbin -o @base.lists --nlist 30").ok();
    plain("vector index base.fbin -o base.lists --nlist 30").ok();
    let same = |name: &str, copy: &str| {
        on(&format!("volume get @{name} {copy} --force")).ok();
        assert!(place.read(name) == place.read(copy), "{name}");
    };
    same("base.npy", "copy.npy");
    let searches = [
        "-k 5",
        "-k 5 --index base.lists --nprobe 4 --no-recall",
        "-k 5 --subset mask",
        "-k 3 --index base.lists --nprobe 4 --no-recall --subset mask",
    ];
    for search in searches {
        let to = "-o ids.npy --distances d.npy --force";
        plain(&format!("knn base.fbin queries.fbin {search} {to}")).ok();
        let line = format!("knn base.fbin queries.fbin {search} {to}");
        let words = line
            .split(' ')
            .map(|word| match word.contains('.') || word == "mask" {
                true => format!("@{word}"),
                false => word.to_string(),
            });
        on(&words.collect::<Vec<_>>().join(" ")).ok();
        same("ids.npy", "ids-copy.npy");
        same("d.npy", "d-copy.npy");
    }
    on("knn @base.fbin @queries.fbin -k 5 --index @base.vindex -o @by-index.npy").ok();
    plain("knn base.fbin queries.fbin -k 5 -o by-index.npy").ok();
    same("by-index.npy", "by-index-copy.npy");
    let clusters = "-k 6 --max-iterations 3";
    plain(&format!(
        "kmeans base.fbin {clusters} -o c.npy --labels l.npy"
    ))
    .ok();
    on(&format!(
        "kmeans @base.fbin {clusters} -o @c.npy --labels @l.npy"
    ))
    .ok();
    same("c.npy", "c-copy.npy");
    same("l.npy", "l-copy.npy");
    on("kmeans @base.fbin -k 6 --init @c.npy --max-iterations 1 -o @d.npy --force").ok();
    on("vector pairs @queries.fbin --max-l2 1e9 -o @pairs.npy").ok();
    plain("vector pairs queries.fbin --max-l2 1e9 -o pairs.npy").ok();
    same("pairs.npy", "pairs-copy.npy");
    on("knn @base.fbin @queries.fbin -k 5 -o @ids.npy").fails(2, &["@ids.npy"], "--force");
    on("knn @none.fbin @queries.fbin -k 5 -o @new.npy").fails(2, &["@none.fbin"], "ls");
    plain("knn @base.fbin queries.fbin -k 5 -o new.npy").fails(2, &["is a dataset"], "--volume");
}

#[test]
fn neighbours_are_tables_with_a_row_each_that_other_commands_read() {
    let place = TestDir::new();
    let numbers = [0.0, 0.0, 1.0, 0.0, 3.0, 0.0, 9.0, 9.0];
    place.write("a.fbin", &fbin(&numbers, 2));
    place.write("mask.u8", &[0, 1, 0, 0]);
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    let table = |line: &str, name: &str| {
        run(&format!("{line} -o {name} --force")).ok();
        run(&format!("convert {name} -o t.csv --force")).ok();
        String::from_utf8(place.read("t.csv")).unwrap()
    };
    for name in ["r.parquet", "r.arrow", "r.csv"] {
        let found = table("knn a.fbin --self -k 1", name);
        let wanted = "query,rank,row,distance\n0,0,1,1\n1,0,0,1\n2,0,1,4\n3,0,2,117\n";
        assert_eq!(found.replace(".0\n", "\n"), wanted);
        // A missing neighbour has no row.
        let found = table("knn a.fbin --self -k 2 --subset mask.u8", name);
        assert_eq!(found.lines().count(), 4, "{found}");
        let found = table("knn a.fbin --self --radius 1", name);
        assert_eq!(
            found.replace(".0\n", "\n"),
            "query,row,distance\n0,1,1\n1,0,1\n"
        );
        let found = table("vector pairs a.fbin --max-l2 4", name);
        let wanted = "first,second,distance\n0,1,1\n1,2,4\n";
        assert_eq!(found.replace(".0\n", "\n"), wanted);
    }
    run("knn a.fbin --self -k 1 -o x.parquet --distances d.npy").fails(2, &["a column"], ".npy");
    run("knn a.fbin --self --radius 1 -o x.npy").fails(
        2,
        &["different numbers of results"],
        "--limits",
    );
    let cosine = table("knn a.fbin --self -k 1 --metric cosine", "r.csv");
    assert!(cosine.contains("\n0,0,1,1"), "{cosine}");
    // In an array, the place of a missing neighbour is -1.
    run("knn a.fbin --self -k 2 --subset mask.u8 -o x.i64").ok();
    let ids = place.read("x.i64");
    let ids: Vec<i64> = ids
        .chunks_exact(8)
        .map(|id| i64::from_le_bytes(id.try_into().unwrap()))
        .collect();
    assert_eq!(ids, [1, -1, -1, -1, 1, -1, 1, -1]);
}

#[test]
fn clusters_are_tables_with_a_row_per_vector_that_appear_with_the_centroids() {
    let place = TestDir::new();
    let numbers = [0.0, 0.0, 1.0, 0.0, 9.0, 9.0, 9.0, 8.0];
    place.write("a.fbin", &fbin(&numbers, 2));
    place.write("start.fbin", &fbin(&[0.0, 0.0, 9.0, 9.0], 2));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    let kmeans = "kmeans a.fbin -k 2 --init start.fbin -o c.npy";
    run(&format!("{kmeans} --labels l.npy")).ok();
    let centroids = place.read("c.npy");
    for name in ["l.parquet", "l.arrow", "l.csv", "l.jsonl", "l.csv.gz"] {
        run(&format!("{kmeans} --labels {name} --force")).ok();
        run(&format!("convert {name} -o t.csv --force")).ok();
        let found = String::from_utf8(place.read("t.csv")).unwrap();
        assert_eq!(found, "row,cluster\n0,0\n1,0\n2,1\n3,1\n", "{name}");
        assert_eq!(place.read("c.npy"), centroids);
    }
    // The labels of these centroids are the same without a run of k-means.
    let label = "vector label a.fbin c.npy -o";
    let done = run(&format!("{label} again.npy --json")).ok();
    let summary = done.event("summary");
    assert_eq!((&summary["records"], &summary["k"]), (&4.into(), &2.into()));
    assert_eq!(place.read("again.npy"), place.read("l.npy"));
    run(&format!("{label} l.csv --force")).ok();
    let found = String::from_utf8(place.read("l.csv")).unwrap();
    assert_eq!(found, "row,cluster\n0,0\n1,0\n2,1\n3,1\n");
    run(&format!("{label} l.fbin")).fails(2, &["l.fbin"], ".npy");
    run("vector label a.fbin c.npy -o c.npy --force").fails(2, &["c.npy", "input"], "another");
    std::fs::remove_file(place.path("c.npy")).unwrap();
    run(&format!("{kmeans} --labels l.csv")).fails(2, &["l.csv"], "--force");
    assert!(!place.path("c.npy").exists());
    run("kmeans a.fbin -k 2 -o c.csv").fails(2, &["c.csv", "a table"], ".npy");
}
