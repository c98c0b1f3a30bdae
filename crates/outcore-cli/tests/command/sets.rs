//! Directories that hold a set of files: parts and partitions that are replaced, moved, damaged or
//! interrupted.
//!
//! Contract: every reader of a directory with a list gets the rows of that set, or an error with
//! the name of the file that is not as it was written. The input and the output have `COUNT` rows.

use std::fs;
use std::path::Path;

use crate::support::*;
use crate::tables::{batch, read, write};

const COUNT: usize = 900;

fn place() -> TestDir {
    let place = TestDir::in_memory();
    write(&place.path("t.parquet"), &batch(COUNT as i64));
    place
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The number of rows that a reader of `name` gets.
fn rows_in(place: &TestDir, name: &str) -> usize {
    let out = place.path("read.parquet");
    let _ = fs::remove_file(&out);
    place.run(&["convert", name, "-o", "read.parquet"]).ok();
    read(&out).len()
}

/// Each of these commands must reject the directory `name` with these words.
#[track_caller]
fn rejected(place: &TestDir, name: &str, cause: &[&str], hint: &str) {
    for line in [
        "convert NAME -o x.parquet",
        "sort NAME --by number -o x.parquet",
        "shuffle NAME -o x.parquet",
        "group-by NAME -o x.parquet --by name --agg count",
        "join t.parquet NAME --on number -o x.parquet",
        "head NAME",
        "info NAME",
    ] {
        let line = line.replace("NAME", name);
        place.run(&words(&line)).fails(4, cause, hint);
        assert!(!place.path("x.parquet").exists(), "{line}");
    }
}

fn parts(place: &TestDir) -> Vec<String> {
    names_in(&place.path("p"))
}

#[test]
fn a_forced_set_removes_what_the_old_list_names_and_nothing_else() {
    for verb in ["convert", "sort", "shuffle"] {
        let place = place();
        let by = if verb == "sort" { " --by number" } else { "" };
        let line = format!("{verb} t.parquet{by} -o p");
        place.run(&words(&format!("{line} --parts 5"))).ok();
        assert_eq!(parts(&place).len(), 6, "{verb}");
        fs::write(place.path("p/README.md"), "mine").unwrap();
        let again = format!("{line} --parts 3");
        place.run(&words(&again)).fails(2, &["already"], "--force");
        place.run(&words(&format!("{again} --force"))).ok();
        let expected = [
            "README.md",
            "_parts.outcore.json",
            "part-00000.parquet",
            "part-00001.parquet",
            "part-00002.parquet",
        ];
        assert_eq!(parts(&place), expected, "{verb}");
        assert_eq!(rows_in(&place, "p"), COUNT, "{verb}");
    }
    let place = place();
    place.run(&words("split t.parquet --by name -o p")).ok();
    let all = parts(&place);
    place
        .run(&["filter", "name == \"a\"", "t.parquet", "-o", "few.parquet"])
        .ok();
    let few = read(&place.path("few.parquet")).len();
    place
        .run(&words("split few.parquet --by name -o p --force"))
        .ok();
    assert_eq!(parts(&place), ["_parts.outcore.json", "name=a"]);
    assert!(all.len() > 3, "{all:?}");
    assert_eq!(rows_in(&place, "p"), few);
    // A set of parts takes the place of partitions.
    place
        .run(&words("convert t.parquet -o p --parts 2 --force"))
        .ok();
    assert_eq!(rows_in(&place, "p"), COUNT);
}

#[test]
fn a_set_of_shards_that_is_replaced_leaves_none_behind() {
    let place = TestDir::new();
    for drive in ["a", "b", "c"] {
        place.make_dir(drive);
    }
    place.write("in", &random_u64(1_000, 3));
    let sort = "sort in -o s-{drive}.bin --type u64 --drive a --drive b";
    place.run(&words(&format!("{sort} --drive c"))).ok();
    assert!(place.path("c/s-c.bin").exists());
    place.write("c/mine.bin", b"mine");
    place.run(&words(&format!("{sort} --force"))).ok();
    assert_eq!(names_in(&place.path("c")), ["mine.bin"]);
    place
        .run(&words("verify a/s.bin.outcore.json --type u64"))
        .ok();
}

#[test]
fn a_pattern_of_parts_that_is_replaced_leaves_none_behind() {
    let place = place();
    let split = "split t.parquet -o p-{part}.parquet";
    place.run(&words(&format!("{split} -n 4"))).ok();
    place.run(&words(&format!("{split} -n 2 --force"))).ok();
    let names = place.names();
    let count = names.iter().filter(|name| name.starts_with("p-")).count();
    assert_eq!(count, 2, "{names:?}");
    fs::remove_file(place.path("t.parquet")).unwrap();
    assert_eq!(rows_in(&place, "p-*.parquet"), COUNT);
    fs::remove_file(place.path("read.parquet")).unwrap();
    fs::remove_file(place.path("p-1.parquet")).unwrap();
    place
        .run(&words("head ."))
        .fails(4, &["missing", "p-1.parquet"], "restore");
}

#[test]
fn lines_are_not_split_beside_parts_of_an_earlier_split() {
    let place = TestDir::new();
    place.write("in", b"a\nb\nc\nd\n");
    let split = ["split", "in", "-o", "p-{part}.txt", "--force", "-n"];
    place.run(&[&split[..], &["4"]].concat()).ok();
    place
        .run(&[&split[..], &["2"]].concat())
        .fails(2, &["p-02.txt", "earlier split"], "remove it");
    fs::remove_file(place.path("p-02.txt")).unwrap();
    fs::remove_file(place.path("p-03.txt")).unwrap();
    place.run(&[&split[..], &["2"]].concat()).ok();
}

#[test]
fn a_directory_with_a_list_is_read_as_that_set_or_rejected() {
    let place = place();
    place.run(&words("convert t.parquet -o p --parts 3")).ok();
    assert_eq!(rows_in(&place, "p"), COUNT);
    // The name of the list also means its files.
    assert_eq!(rows_in(&place, "p/_parts.outcore.json"), COUNT);
    let part = |number: usize| place.path(&format!("p/part-0000{number}.parquet"));
    let aside = place.path("aside");
    fs::rename(part(1), &aside).unwrap();
    rejected(&place, "p", &["missing", "part-00001"], "restore the file");
    // Two parts that have changed places.
    fs::rename(part(2), part(1)).unwrap();
    fs::rename(&aside, part(2)).unwrap();
    rejected(&place, "p", &["part-0000"], "_parts.outcore.json");
    fs::rename(part(2), &aside).unwrap();
    fs::rename(part(1), part(2)).unwrap();
    fs::rename(&aside, part(1)).unwrap();
    assert_eq!(rows_in(&place, "p"), COUNT);
    fs::copy(place.path("t.parquet"), place.path("p/more.parquet")).unwrap();
    rejected(
        &place,
        "p",
        &["not part of the set", "more.parquet"],
        "move it",
    );
    place
        .run(&words("head p/*.parquet"))
        .fails(4, &["not part of the set"], "move it");
    // Without the list, a directory is all files in it.
    let list = place.path("p/_parts.outcore.json");
    let text = fs::read(&list).unwrap();
    fs::remove_file(&list).unwrap();
    assert_eq!(rows_in(&place, "p"), 2 * COUNT);
    fs::remove_file(place.path("p/more.parquet")).unwrap();
    fs::write(&list, &text[..text.len() - 3]).unwrap();
    rejected(&place, "p", &["_parts.outcore.json"], "remove this list");
}

#[test]
fn a_set_may_be_moved_and_copied_and_its_folders_are_read_alone() {
    let place = place();
    place.run(&words("split t.parquet --by name -o p")).ok();
    fs::rename(place.path("p"), place.path("moved")).unwrap();
    assert_eq!(rows_in(&place, "moved"), COUNT);
    copy_all(&place.path("moved"), &place.path("copy"));
    assert_eq!(rows_in(&place, "copy"), COUNT);
    let folders = names_in(&place.path("copy"));
    let folders: Vec<_> = folders.iter().filter(|name| name.contains('=')).collect();
    // The directory of null names is left out, because the oracle infers no type from a column of
    // nulls.
    let folders: Vec<_> = folders
        .into_iter()
        .filter(|name| !name.contains("__HIVE"))
        .collect();
    let rows = |name: &&String| rows_in(&place, &format!("copy/{name}"));
    assert_eq!(
        folders.iter().map(rows).sum::<usize>(),
        COUNT - COUNT.div_ceil(7)
    );
    let file = format!("copy/{}/part-0.parquet", folders[0]);
    fs::copy(place.path("t.parquet"), place.path(&file)).unwrap();
    rejected(
        &place,
        &format!("copy/{}", folders[0]),
        &["part-0.parquet"],
        "restore",
    );
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names_in(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        match from.is_dir() {
            true => copy_all(&from, &to),
            false => drop(fs::copy(&from, &to).unwrap()),
        }
    }
}

#[test]
fn a_set_whose_publishing_was_cut_short_is_never_read_in_part() {
    let (mut killed, mut unpublished) = (0, 0);
    for (line, is_there) in [
        ("convert t.parquet -o p --parts 3", false),
        ("split t.parquet --by name -o p", false),
        ("convert t.parquet -o p --parts 3", true),
        ("split t.parquet --by name -o p", true),
        ("convert t.parquet -o p --parts 2 --force", true),
    ] {
        for nth in 1.. {
            let place = place();
            if is_there {
                place.make_dir("p");
            }
            if line.ends_with("--force") {
                write(&place.path("old.parquet"), &batch(500));
                let old = words("convert old.parquet -o p --parts 4");
                place.run(&old).ok();
            }
            let mut process = place.command(&words(line));
            process.env("OUTCORE_FAULT", format!("kill@{nth}:control"));
            let answer = Answer::of(process.output().unwrap());
            if answer.code == Some(0) {
                break;
            }
            assert_eq!(answer.code, None, "{line} {nth}: {answer:?}");
            killed += 1;
            let read_it = ["convert", "p", "-o", "read.parquet"];
            let before = place.run(&read_it);
            let whole = |rows: usize| rows == COUNT || (line.ends_with("--force") && rows == 500);
            match before.code {
                Some(0) => assert!(
                    whole(read(&place.path("read.parquet")).len()),
                    "{line} {nth}"
                ),
                Some(4) => unpublished += 1,
                _ => assert!(matches!(before.code, Some(2 | 3)), "{before:?}"),
            }
            // The command makes the set, or finds it whole and rejects it.
            let again = place.run(&words(line));
            assert!(matches!(again.code, Some(0 | 2)), "{line} {nth}: {again:?}");
            assert_eq!(rows_in_again(&place), COUNT, "{line} {nth}");
        }
    }
    assert!(killed > 20 && unpublished > 3, "{killed} {unpublished}");
}

fn rows_in_again(place: &TestDir) -> usize {
    let _ = fs::remove_file(place.path("read.parquet"));
    rows_in(place, "p")
}

/// Private directories in `dir` and below it.
fn private_in(dir: &Path) -> usize {
    let dirs = fs::read_dir(dir).unwrap().flatten();
    let dirs = dirs.filter(|entry| entry.path().is_dir());
    let counts = dirs.map(|entry| {
        let name = entry.file_name();
        let is_private = name.to_string_lossy().starts_with(".outcore-");
        usize::from(is_private) + private_in(&entry.path())
    });
    counts.sum()
}

#[test]
fn scratch_of_a_killed_split_in_partitions_is_no_data_and_is_cleaned_from_above() {
    let place = place();
    write(&place.path("few.parquet"), &batch(90));
    let mut left = 0;
    for nth in (1..60).step_by(7) {
        place.run(&words("split t.parquet --by name -o p")).ok();
        let mut process = place.command(&words("split few.parquet --by name -o p --force"));
        process.env("OUTCORE_FAULT", format!("kill@{nth}:control"));
        process.output().unwrap();
        left += private_in(&place.path("p"));
        let read_back = place.run(&words("convert p -o read.parquet --force"));
        match read_back.code {
            Some(0) => {
                let rows = read(&place.path("read.parquet")).len();
                assert!([COUNT, 90].contains(&rows), "{nth}: {rows}");
            }
            code => assert_eq!(code, Some(4), "{nth}: {read_back:?}"),
        }
        place.run(&["scratch", "clean", "."]).ok();
        assert_eq!(private_in(place.dir()), 0, "{nth}");
        fs::remove_dir_all(place.path("p")).unwrap();
    }
    assert!(left > 0);
}

#[test]
fn an_output_never_goes_where_the_next_run_would_read_it() {
    let place = place();
    place.make_dir("d");
    fs::copy(place.path("t.parquet"), place.path("d/a.parquet")).unwrap();
    let filter = |from: &str, to: &str| place.run(&["filter", "number > 5", from, "-o", to]);
    for (from, to) in [
        ("d", "d/new.parquet"),
        ("d/*.parquet", "d/new.parquet"),
        ("d", "d/below.csv"),
    ] {
        filter(from, to).fails(2, &["would also read this output"], "outside");
    }
    let parts = ["convert", "d", "-o", "d/p", "--parts", "2"];
    place
        .run(&parts)
        .fails(2, &["would also read this output"], "outside");
    assert_eq!(names_in(&place.path("d")), ["a.parquet"]);
    // Commands on graphs and vectors also read directories of tables.
    place.write("base.f32", &[0; 4096]);
    for line in [
        "knn base.f32 --self -k 1 --type f32x1 --where true --table d -o d/near.parquet",
        "knn base.f32 --self -k 1 --type f32x1 --where true --table d -o d/near.csv",
    ] {
        place
            .run(&words(line))
            .fails(2, &["would also read this output"], "outside");
    }
    assert_eq!(names_in(&place.path("d")), ["a.parquet"]);
    filter("d", "d/_new.parquet").ok();
    filter("d/a.parquet", "d/b.parquet").ok();
    filter("d", "e.parquet").ok();
    // outcore also rejects a place where a set would be read with other files.
    place.run(&words("convert t.parquet -o d --parts 2")).fails(
        2,
        &["read with the output"],
        "move it elsewhere",
    );
}

#[test]
fn of_two_jobs_with_the_same_two_outputs_one_fails_and_nothing_is_left() {
    let place = place();
    let line = "split t.parquet --train 0.5 -o h-{part}.parquet --seed";
    for round in 0..4 {
        let seeds = ["1", "2"];
        let jobs = seeds.map(|seed| place.spawn(&[&words(line)[..], &[seed]].concat()));
        let answers = jobs.map(|job| Answer::of(job.wait_with_output().unwrap()));
        let mut codes = answers.each_ref().map(|answer| answer.code);
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(2)], "{round}: {answers:?}");
        let (train, test) = ("h-train.parquet", "h-test.parquet");
        let rows = read(&place.path(train)).len() + read(&place.path(test)).len();
        assert_eq!(rows, COUNT);
        // The next command finds no fault.
        place
            .run(&words("sort t.parquet --by number -o s.parquet --force"))
            .ok();
        assert_eq!(place.names(), [test, train, "s.parquet", "t.parquet"]);
        fs::remove_file(place.path(train)).unwrap();
        fs::remove_file(place.path(test)).unwrap();
    }
}

#[test]
fn what_a_killed_graph_or_view_has_made_goes_with_the_next_job_beside_it() {
    let place = TestDir::in_memory();
    place.write("edges.csv", b"src,dst\n0,1\n1,2\n2,0\n");
    place.write("in", &random_u64(1_000, 9));
    for line in [
        "graph convert edges.csv -o g",
        "view build in -o g --type u64",
    ] {
        for nth in [2, 5, 8] {
            let mut process = place.command(&words(line));
            process.env("OUTCORE_FAULT", format!("kill@{nth}"));
            let answer = Answer::of(process.output().unwrap());
            assert_eq!(answer.code, None, "{line} {nth}: {answer:?}");
            place.run(&words("sort in -o out --type u64 --force")).ok();
            assert_eq!(place.names(), ["edges.csv", "in", "out"], "{line} {nth}");
            fs::remove_file(place.path("out")).unwrap();
        }
    }
}

#[test]
fn an_input_that_is_replaced_before_it_is_opened_again_is_an_error() {
    let place = TestDir::new();
    place.write("data", &sorted_u64(&random_u64(10_000, 1)));
    place.write("new", &sorted_u64(&random_u64(10_000, 2)));
    let mut job = place.spawn(&words("sort - data -o found --type u64"));
    // Some records come through a pipe, which the job reads after it has examined its files.
    let has_begun = || {
        place
            .names()
            .iter()
            .any(|name| name.starts_with(".outcore-"))
    };
    wait_until("the pipe is read", has_begun);
    fs::rename(place.path("new"), place.path("data")).unwrap();
    drop(job.stdin.take());
    let answer = Answer::of(job.wait_with_output().unwrap());
    answer.fails(4, &["changed while it was read", "data"], "copy");
    assert!(!place.path("found").exists());
}

#[test]
fn a_set_that_is_replaced_never_takes_an_input_with_it() {
    let place = place();
    place.run(&words("convert t.parquet -o p --parts 4")).ok();
    for line in [
        "convert p/part-00003.parquet -o p --parts 2 --force",
        "split p/part-00003.parquet --by name -o p --force",
    ] {
        let answer = place.run(&words(line));
        answer.fails(2, &["also remove this input", "part-00003"], "another name");
    }
    assert_eq!(rows_in(&place, "p"), COUNT);
    for drive in ["a", "b"] {
        place.make_dir(drive);
    }
    place.write("in", &random_u64(1_000, 3));
    place
        .run(&words(
            "sort in -o s-{drive}.bin --type u64 --drive a --drive b",
        ))
        .ok();
    place
        .run(&words(
            "sort b/s-b.bin -o s-{drive}.bin --type u64 --drive a --force",
        ))
        .fails(2, &["also remove this input", "s-b.bin"], "another name");
    assert!(place.path("b/s-b.bin").exists());
}

#[test]
fn sets_of_one_name_and_two_formats_do_not_replace_each_other() {
    let place = place();
    for ending in ["parquet", "csv"] {
        let line = format!("split -n 3 t.parquet -o y-{{part}}.{ending}");
        place.run(&words(&line)).ok();
    }
    place
        .run(&words("split -n 2 t.parquet -o y-{part}.csv --force"))
        .ok();
    for part in 0..3 {
        let name = format!("y-{part}.parquet");
        assert_eq!(rows_in(&place, &name), COUNT / 3, "{name}");
    }
    assert!(!place.path("y-2.csv").exists());
}
