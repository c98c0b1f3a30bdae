//! Tables in datasets of a volume, read where they are and written as one dataset.
//!
//! Contract: a verb on tables has the same result for `@name` as for a file of the same bytes, in
//! every format. An output is whole or absent.

use std::fs;

use crate::support::*;
use crate::volume::{place, run, volume_in};

/// Each format of tables, by an ending.
const FORMATS: [&str; 8] = [
    "parquet",
    "arrow",
    "arrows",
    "csv",
    "tsv",
    "jsonl",
    "csv.gz",
    "jsonl.zst",
];

/// The table `t.csv` in `place`.
fn write_table(place: &TestDir, rows: usize) {
    let mut text = "id,name\n".to_string();
    for (row, word) in random_u64(rows, 11).chunks_exact(8).enumerate() {
        text.push_str(&format!("{},n{}\n", u64_of(word) >> 20, row % 7));
    }
    place.write("t.csv", text.as_bytes());
}

/// The bytes of a dataset.
fn read_dataset(place: &TestDir, name: &str) -> Vec<u8> {
    run(place, &["volume", "get", name, "-"]).ok().stdout
}

#[test]
fn a_table_is_written_as_a_dataset_with_the_bytes_of_a_file() {
    let place = place();
    write_table(&place, 20_000);
    for ending in FORMATS {
        let (name, dataset) = (format!("t2.{ending}"), format!("@t.{ending}"));
        place.run(&["convert", "t.csv", "-o", &name]).ok();
        run(&place, &["convert", "t.csv", "-o", &dataset]).ok();
        assert!(
            read_dataset(&place, &dataset) == place.read(&name),
            "{ending}"
        );
        let again = run(&place, &["convert", "t.csv", "-o", &dataset]);
        again.fails(2, &["already", &dataset], "--force");
        run(&place, &["convert", "t.csv", "-o", &dataset, "--force"]).ok();
    }
    for drive in ["d0", "d1", "d2"] {
        assert_eq!(names_in(&place.path(drive)), ["outcore-volume"]);
    }
}

#[test]
fn a_table_of_a_volume_is_known_by_name_and_content_and_read_as_a_file_is() {
    let place = place();
    write_table(&place, 5_000);
    place
        .run(&["sort", "t.csv", "--by", "id", "-o", "sorted.csv"])
        .ok();
    for ending in FORMATS {
        let (name, dataset) = (format!("t2.{ending}"), format!("@t.{ending}"));
        place.run(&["convert", "t.csv", "-o", &name]).ok();
        run(&place, &["volume", "put", &name, &dataset]).ok();
        let sort = ["sort", &dataset, "--by", "id", "-o", "s.csv", "--force"];
        run(&place, &sort).ok();
        assert!(place.read("s.csv") == place.read("sorted.csv"), "{ending}");
        for words in [&["head", "-n", "3"][..], &["tail", "-n", "2"], &["info"]] {
            let of_dataset = run(&place, &[words, &[&dataset]].concat()).ok();
            let of_file = place.run(&[words, &[&name]].concat()).ok();
            assert_eq!(of_dataset.text(), of_file.text(), "{words:?} {ending}");
        }
    }
    // The content counts, whatever the name.
    run(&place, &["volume", "put", "t2.parquet", "@unnamed"]).ok();
    let found = run(&place, &["head", "-n", "3", "@unnamed"]).ok();
    assert_eq!(
        found.text(),
        place.run(&["head", "-n", "3", "t2.parquet"]).ok().text()
    );
    run(&place, &["verify", "@t.parquet", "--against", "@unnamed"]).ok();
    for words in [
        &[
            "join",
            "@t.parquet",
            "t2.csv",
            "--on",
            "id",
            "-o",
            "@joined.csv",
        ][..],
        &["diff", "@t.parquet", "@unnamed", "--by", "id,name"],
        &[
            "group-by",
            "@t.csv.gz",
            "--by",
            "name",
            "--agg",
            "count",
            "-o",
            "@groups.parquet",
        ],
        &[
            "dedup",
            "@t.jsonl",
            "--by",
            "name",
            "--removed",
            "@gone.csv",
            "-o",
            "@kept.csv",
        ],
        &["filter", "id > 0", "@t.arrow", "-o", "@more.arrow"],
        &["split", "@t.parquet", "-n", "2", "-o", "p-{part}.parquet"],
    ] {
        run(&place, words).ok();
    }
    let kept = read_dataset(&place, "@kept.csv");
    assert_eq!(kept.iter().filter(|byte| **byte == b'\n').count(), 1 + 7);
    let gone = read_dataset(&place, "@gone.csv");
    assert_eq!(
        gone.iter().filter(|byte| **byte == b'\n').count(),
        1 + 4_993
    );
}

#[test]
fn a_directory_of_tables_is_one_dataset_whose_files_are_named() {
    let place = place();
    write_table(&place, 5_000);
    run(&place, &["convert", "t.csv", "-o", "@dir", "--parts", "3"]).ok();
    place
        .run(&["convert", "t.csv", "-o", "dir", "--parts", "3"])
        .ok();
    run(&place, &["volume", "get", "@dir", "got"]).ok();
    assert_eq!(names_in(&place.path("got")), names_in(&place.path("dir")));
    place.run(&["verify", "got", "--against", "dir"]).ok();
    let part = run(&place, &["head", "-n", "2", "@dir/part-00001.parquet"]).ok();
    let same = place
        .run(&["head", "-n", "2", "dir/part-00001.parquet"])
        .ok();
    assert_eq!(part.text(), same.text());
    let whole = run(&place, &["head", "@dir"]);
    whole.fails(
        2,
        &["@dir is a directory of files"],
        "outcore volume get @dir DIR",
    );
    run(&place, &["split", "t.csv", "--by", "name", "-o", "@by"]).ok();
    let file = run(&place, &["head", "-n", "1", "@by/name=n3/part-0.parquet"]).ok();
    assert!(file.text().contains("n3"), "{file:?}");
    let parts = run(
        &place,
        &["split", "@t", "--rows", "9", "-o", "@p-{part}.parquet"],
    );
    assert_eq!(parts.code, Some(2), "{parts:?}");
}

#[test]
fn a_full_volume_refuses_a_table_and_keeps_nothing_of_it() {
    let place = TestDir::new();
    write_table(&place, 200_000);
    place.run(&["convert", "t.csv", "-o", "t.jsonl"]).ok();
    let mut text = String::new();
    for drive in ["d0", "d1"] {
        place.make_dir(drive);
        text.push_str(&format!(
            "[[drive]]\ndir = \"{drive}\"\ncapacity_limit = \"1MiB\"\n"
        ));
    }
    place.write("drives.toml", text.as_bytes());
    run(&place, &["volume", "create", "--stripe", "64KiB"]).ok();
    let full = run(&place, &["convert", "t.csv", "-o", "@t.jsonl"]);
    full.fails(5, &["the drives are full"], "outcore volume rm");
    assert!(run(&place, &["volume", "ls"]).ok().text().is_empty());
    for drive in ["d0", "d1"] {
        assert_eq!(names_in(&place.path(drive)), ["outcore-volume"]);
        assert!(names_in(&place.path(&format!("{drive}/outcore-volume/data"))).is_empty());
    }
    // A small one fits.
    run(
        &place,
        &["head", "-n", "9", "t.csv", "--infer", "-o", "@few.parquet"],
    )
    .ok();
}

#[test]
fn a_table_that_cannot_be_read_leaves_the_dataset_that_was_there() {
    let place = volume_in(TestDir::new());
    write_table(&place, 2_000);
    run(&place, &["convert", "t.csv", "-o", "@t.parquet"]).ok();
    let before = read_dataset(&place, "@t.parquet");
    let mut text = fs::read(place.path("t.csv")).unwrap();
    text.extend_from_slice(b"one,two,three\n");
    place.write("bad.csv", &text);
    let bad = ["convert", "bad.csv", "-o", "@t.parquet", "--force"];
    assert_ne!(run(&place, &bad).code, Some(0));
    assert!(read_dataset(&place, "@t.parquet") == before);
}

#[test]
fn a_fault_at_any_io_leaves_no_dataset_of_a_table_or_all_of_it() {
    let place = place();
    write_table(&place, 300);
    run(&place, &["convert", "t.csv", "-o", "@whole.parquet"]).ok();
    let whole = read_dataset(&place, "@whole.parquet");
    let convert = [
        "convert",
        "t.csv",
        "-o",
        "@t.parquet",
        "--volume",
        "drives.toml",
    ];
    for (fault, counted) in [("eio", ""), ("enospc", ":write"), ("kill", "")] {
        let mut number = 0;
        loop {
            number += 1;
            let mut process = place.command(&convert);
            process.env("OUTCORE_FAULT", format!("{fault}@{number}{counted}"));
            let code = Answer::of(process.output().unwrap()).code;
            let listed = run(&place, &["volume", "ls"]).ok().text();
            let is_there = listed.contains("@t.parquet");
            assert!(is_there || code != Some(0), "{fault}@{number}");
            if is_there {
                assert!(
                    read_dataset(&place, "@t.parquet") == whole,
                    "{fault}@{number}"
                );
                run(&place, &["volume", "rm", "@t.parquet"]).ok();
            }
            if code == Some(0) {
                break;
            }
        }
        assert!(number > 1, "{fault}");
    }
    run(&place, &["convert", "t.csv", "-o", "@t.parquet"]).ok();
    for drive in ["d0", "d1", "d2"] {
        assert_eq!(names_in(&place.path(drive)), ["outcore-volume"]);
    }
}

#[test]
fn two_outputs_are_not_one_dataset_or_one_file_and_none_is_an_input() {
    let place = place();
    write_table(&place, 100);
    run(&place, &["convert", "t.csv", "-o", "@t.parquet"]).ok();
    let whole = read_dataset(&place, "@t.parquet");
    place.make_dir("dir");
    for (output, removed, said) in [
        ("@o.parquet", "@o.parquet", "two outputs"),
        ("@o.parquet", "@t.parquet", "it is an input"),
        ("@t.parquet", "r.parquet", "it is an input"),
        ("o.parquet", "dir/../o.parquet", "two outputs"),
    ] {
        let words = ["dedup", "@t.parquet", "--by", "name", "-o", output];
        let answer = run(
            &place,
            &[&words[..], &["--removed", removed, "--force"]].concat(),
        );
        answer.fails(2, &[said], "another");
        assert!(
            read_dataset(&place, "@t.parquet") == whole,
            "{output} {removed}"
        );
        assert!(!place.path("o.parquet").exists() && !place.path("r.parquet").exists());
    }
    run(
        &place,
        &["convert", "t.csv", "-o", "@t.parquet/inside.parquet"],
    )
    .fails(2, &["sealed"], "");
    run(&place, &["sort", "@t.parquet", "--by", "id", "--replace"]).fails(2, &["sealed"], "");
}

#[test]
fn counts_of_parts_and_rows_that_cannot_be_are_rejected() {
    let place = place();
    write_table(&place, 10);
    for (words, option) in [
        (
            &["convert", "t.csv", "-o", "p", "--parts", "0"][..],
            "--parts",
        ),
        (
            &["convert", "t.csv", "-o", "p", "--parts", "99999999999"],
            "--parts",
        ),
        (
            &["gen", "sales", "-n", "2", "-o", "p", "--parts", "0"],
            "--parts",
        ),
        (
            &["convert", "t.csv", "-o", "p.parquet", "--group-rows", "0"],
            "--group-rows",
        ),
    ] {
        place.run(words).fails(2, &[option], "give 1");
    }
}

#[test]
fn the_difference_of_two_tables_is_stored_although_the_exit_code_is_that_of_a_check() {
    let place = place();
    place.write("a.csv", b"id,name\n1,a\n2,b\n");
    place.write("b.csv", b"id,name\n1,a\n2,c\n");
    let words = ["diff", "a.csv", "b.csv", "--by", "id", "-o"];
    let to_file = place.run(&[&words[..], &["d.csv"]].concat());
    assert_eq!(to_file.code, Some(1));
    let to_dataset = run(&place, &[&words[..], &["@d.csv"]].concat());
    assert_eq!(to_dataset.code, Some(1));
    assert_eq!(read_dataset(&place, "@d.csv"), place.read("d.csv"));
}
