//! Sorts, shuffles and selections of tables that are killed and continued.
//!
//! Contract: as for lines. The bytes are those of a run with a journal that nothing has disturbed:
//! its memory is divided in the same way. The tables have frequent keys, nulls and long texts.

use super::*;

/// A table as CSV with three columns: a key with `values` different numbers (one of them frequent),
/// a text, and the number of the row.
fn csv(count: u64, values: u64, is_sorted: bool) -> String {
    let mut numbers = Numbers(31);
    let rows = (0..count).map(|place| {
        let drawn = numbers.next();
        let key = match drawn % 20 {
            _ if is_sorted => place.to_string(),
            0 => String::new(),
            1..=5 => "77".to_owned(),
            _ => (numbers.next() % values).to_string(),
        };
        let text = match drawn % 11 {
            0 => String::new(),
            1 => format!("{drawn:0200x}"),
            _ => format!("{:x}", drawn % 5000),
        };
        format!("{key},{text},{place}\n")
    });
    format!("key,text,place\n{}", rows.collect::<String>())
}

/// A job on this table with scratch next to the output.
fn table_job(table: &str, verb: &str, names: [&'static str; 2], options: &str) -> Resumed {
    let place = TestDir::in_memory();
    let [source, output] = names;
    place.write("made.csv", table.as_bytes());
    if source == "in.csv" {
        std::fs::rename(place.path("made.csv"), place.path(source)).unwrap();
    } else {
        let rows = if source.ends_with("csv") {
            ""
        } else {
            " --group-rows 9000"
        };
        let line = format!("convert made.csv -o {source}{rows}");
        place.run(&line.split(' ').collect::<Vec<_>>()).ok();
        std::fs::remove_file(place.path("made.csv")).unwrap();
    }
    let command = format!("{verb} {source} -o {output} --drive . --resume {options}");
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    place.run(&command).ok();
    let (input, expected) = (place.read(source), place.read(output));
    let job = Resumed {
        place,
        names,
        input,
        expected,
        command,
        operations: OnceCell::new(),
    };
    job.remove_output();
    job
}

const PARQUET: [&str; 2] = ["in.parquet", "out.parquet"];

#[test]
fn a_sort_of_a_table_that_is_killed_anywhere_resumes_to_the_same_bytes() {
    for (values, options) in [
        (1 << 40, "--by key --memory 24MiB --threads 1"),
        (
            1 << 40,
            "--by text:desc --by key --memory 28MiB --threads 2",
        ),
        (300, "--by key --stable --memory 28MiB --threads 2"),
        (90_000, "--by key --unique --memory 28MiB --threads 1"),
    ] {
        let job = table_job(&csv(150_000, values, false), "sort", PARQUET, options);
        let (kept, _) = job.walk("kill");
        assert!(kept > 2, "{options}: {kept}");
    }
}

#[test]
fn a_table_that_is_sorted_already_is_resumed() {
    let table = csv(150_000, 1, true);
    let job = table_job(
        &table,
        "sort",
        PARQUET,
        "--by key --memory 28MiB --threads 2",
    );
    let (kept, _) = job.walk("kill");
    assert!(kept > 2, "{kept}");
}

#[test]
fn other_formats_of_tables_are_resumed() {
    let table = csv(150_000, 1 << 40, false);
    for (names, options) in [
        (["in.parquet", "out.csv"], "--threads 2"),
        (["in.csv", "out.parquet"], "--threads 1"),
        (["in.arrow", "out.arrow"], "--threads 2"),
        (["in.parquet", "out.jsonl.zst"], "--threads 1"),
    ] {
        let options = format!("--by key --memory 28MiB {options}");
        let job = table_job(&table, "sort", names, &options);
        let (kept, _) = job.walk("kill");
        assert!(kept > 2, "{names:?}: {kept}");
    }
}

#[test]
fn shuffles_and_selections_of_tables_are_resumed() {
    let table = csv(150_000, 90_000, false);
    for (verb, options) in [
        ("shuffle", "--seed 4 --threads 2"),
        ("shuffle", "--by key --threads 1"),
        ("unique", "--by key --threads 2"),
    ] {
        let options = format!("{options} --memory 28MiB");
        let job = table_job(&table, verb, PARQUET, &options);
        let (kept, _) = job.walk("kill");
        assert!(kept > 2, "{verb} {options}: {kept}");
    }
}

/// Walks a job on tables, whose rows must be those of a run without a journal.
fn walk_of(table: &str, verb: &str, options: &str) {
    let job = table_job(table, verb, PARQUET, options);
    let rows_of = |resume: &str| {
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.filter(|word| *word != resume).collect();
        job.place.run(&words).ok();
        job.place.run(&["convert", "out.parquet"]).ok().stdout
    };
    let rows = rows_of("--resume");
    job.remove_output();
    assert!(rows_of("") == rows, "{verb} {options}: other rows");
    job.remove_output();
    let (kept, operations) = job.walk_few("kill");
    println!("{verb} {options}: {operations} operations, {kept} resumed");
    assert!(kept > 1, "{verb} {options}: {kept}");
}

#[test]
fn groups_of_a_table_are_resumed() {
    let table = csv(150_000, 90_000, false);
    for options in [
        "--by key --agg sum(place),count,first(text) --memory 24MiB --threads 2",
        "--by text --by key:desc --agg median(place),count_distinct(key) --memory 28MiB --threads 1",
        "--by place --agg mean(key),arg_max(text,key) --memory 24MiB --threads 3",
    ] {
        walk_of(&table, "group-by", options);
    }
    walk_of(
        &csv(150_000, 1, true),
        "group-by",
        "--by key --agg max(text) --memory 24MiB --threads 2",
    );
}

#[test]
fn joins_of_tables_are_resumed() {
    let right = TestDir::in_memory();
    let mut rows = "key,place,more\n,5,none\n77,6,x\n77,7,y\n".to_owned();
    for number in 0..40_000 {
        rows.push_str(&format!("{},{number},{:x}\n", number * 3, number * number));
    }
    right.write("right.csv", rows.as_bytes());
    let table = csv(120_000, 90_000, false);
    for options in [
        "--on key --memory 28MiB --threads 2",
        "--on key --how full --memory 28MiB --threads 1",
        "--on key --how anti --memory 24MiB --threads 3",
        "--on key --asof place --memory 28MiB --threads 2",
    ] {
        let options = format!("{} {options}", right.path("right.csv").display());
        walk_of(&table, "join", &options);
    }
}

#[test]
fn a_key_whose_partners_go_to_scratch_is_resumed() {
    let right = TestDir::in_memory();
    let rows = (0..6_000).map(|number| format!("77,{number:0400}\n"));
    let rows = format!("key,more\n{}", rows.collect::<String>());
    right.write("right.csv", rows.as_bytes());
    let rows = (0..90_000).map(|place| format!("{},{place:060}\n", place / 30));
    let table = format!("key,text\n{}", rows.collect::<String>());
    let options = "--on key --memory 24MiB --threads 2";
    let options = format!("{} {options}", right.path("right.csv").display());
    walk_of(&table, "join", &options);
}

#[test]
fn tables_without_duplicates_are_resumed() {
    let table = csv(150_000, 90_000, false);
    for options in [
        "--by key --memory 16MiB --threads 2",
        "--by text --by key --keep last --memory 16MiB --threads 1",
        "--by key --keep text:desc --memory 20MiB --threads 3",
        "--memory 24MiB --threads 2",
    ] {
        walk_of(&table, "dedup", options);
    }
}

#[test]
fn window_columns_are_resumed() {
    let table = csv(150_000, 90_000, false);
    for options in [
        "--by key --order place:desc --add row_number,lag(text),cum_sum(place) --memory 28MiB --threads 2",
        "--by text --add rank,lead(place,3) --order key --memory 28MiB --threads 1",
        "--by key --order text --first 1 --memory 28MiB --threads 3",
    ] {
        walk_of(&table, "window", options);
    }
}

#[test]
fn tables_without_near_duplicates_are_resumed() {
    let mut numbers = Numbers(61);
    let rows = (0..20_000).map(|place| {
        let drawn = numbers.next();
        let text = (0..4).map(|word| match numbers.next() % 12 {
            0 => format!("{} ", numbers.next() % 50),
            _ => format!("w{} ", (drawn % 3_000) * 31 + word),
        });
        format!("{},{place}\n", text.collect::<String>())
    });
    let table = format!("text,place\n{}", rows.collect::<String>());
    for options in [
        "--near text --jaccard 0.5 --shingles words:2 --memory 16MiB --threads 2",
        "--near text --jaccard 0.5 --shingles words:2 --keep last --seed 5 --memory 16MiB --threads 1",
    ] {
        walk_of(&table, "dedup", options);
    }
}

/// A job whose output has many parts, and a kill after some of them are recorded.
fn killed_behind_parts(names: [&'static str; 2]) -> Resumed {
    let rows = match names[1].ends_with("parquet") {
        true => "--group-rows 2000 --codec none",
        false => "",
    };
    let options = format!("--by text --memory 24MiB --threads 1 {rows}");
    let job = table_job(&csv(150_000, 1 << 40, false), "sort", names, &options);
    // The kills come later and later, because the pace of checkpoints depends on the machine.
    for nth in (30..240).step_by(6).chain((33..240).step_by(3)) {
        let answer = job.run_with(&format!("kill@{nth}:sync"));
        let listed = job.place.run(&["scratch", "list", "."]).ok().text();
        let done = listed.split("resumable at ").nth(1);
        let done = done.and_then(|text| text.split(' ').next()?.parse::<u32>().ok());
        if answer.code.is_none() && done.is_some_and(|done| (55..100).contains(&done)) {
            return job;
        }
        let clean = ["scratch", "clean", ".", "--resumable"];
        job.place.run(&clean).ok();
        let _ = std::fs::remove_file(job.place.path(names[1]));
    }
    panic!("no kill leaves parts of the output");
}

#[test]
fn a_resumed_table_goes_on_behind_what_is_written() {
    for names in [PARQUET, ["in.parquet", "out.csv"]] {
        let job = killed_behind_parts(names);
        let answer = job.resume().ok();
        assert!(answer.stderr.contains("continues the run"), "{answer:?}");
        assert!(!answer.stderr.contains("was changed"), "{answer:?}");
        job.is_whole("behind its parts");
    }
}

#[test]
fn a_changed_unfinished_table_is_written_again() {
    let job = killed_behind_parts(PARQUET);
    let dirs = job.place.names();
    let output = dirs.iter().map(|dir| job.place.path(dir).join("output-0"));
    let output = output.into_iter().find(|path| path.exists()).unwrap();
    let mut bytes = std::fs::read(&output).unwrap();
    bytes[5000] ^= 4;
    std::fs::write(&output, bytes).unwrap();
    let answer = job.resume().ok();
    assert!(answer.stderr.contains("was changed"), "{answer:?}");
    job.is_whole("changed");
}

#[test]
fn another_group_join_or_choice_is_refused_with_the_difference() {
    let table = csv(150_000, 1 << 40, false);
    for (verb, options, other, difference) in [
        (
            "group-by",
            "--by key --agg count --memory 24MiB",
            "--agg sum(place)",
            "its aggregates was count = Count()",
        ),
        (
            "join",
            "in.parquet --on place --memory 24MiB",
            "--how left",
            "its kind of join was inner, and is left now",
        ),
        (
            "dedup",
            "--by key --memory 16MiB",
            "--keep last",
            "its choice of the kept row was first, and is last now",
        ),
        (
            "dedup",
            "--near text --memory 20MiB",
            "--seed 9",
            "its seed was 1, and is 9 now",
        ),
        (
            "window",
            "--by key --add rank --order place --memory 28MiB",
            "--first 2",
            "its number of first rows was all, and is 2 now",
        ),
    ] {
        let options = format!("{options} --threads 1");
        let job = table_job(&table, verb, PARQUET, &options);
        killed_late(&job);
        let kept = job.place.names();
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.filter(|word| *word != "count").collect();
        let words: Vec<&str> = words.into_iter().filter(|word| *word != "--agg").collect();
        let words = [&words[..], &other.split(' ').collect::<Vec<_>>()].concat();
        job.place.run(&words).fails(2, &[difference], "begin anew");
        assert_eq!(job.place.names(), kept, "nothing is removed");
        let listed = job.place.run(&["scratch", "list", "."]).ok().text();
        assert!(listed.contains(&format!("{verb} in.parquet")), "{listed}");
        job.resume().ok();
        job.is_whole(verb);
    }
}

#[test]
fn another_job_on_the_table_is_refused_with_the_difference() {
    let table = csv(150_000, 1 << 40, false);
    let job = table_job(
        &table,
        "sort",
        PARQUET,
        "--by key --memory 24MiB --threads 1",
    );
    killed_late(&job);
    let kept = job.place.names();
    let with = |more: &[&str]| {
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        job.place.run(&words)
    };
    with(&["--stable"]).fails(
        2,
        &["its order was by key, and is by key, stable now"],
        "begin anew",
    );
    let other = "shuffle in.parquet -o out.parquet --drive . --resume --memory 24MiB";
    let other: Vec<&str> = other.split(' ').collect();
    job.place.run(&other).fails(
        2,
        &["kind of job was sort of a table, and is shuffle of a table now"],
        "begin anew",
    );
    with(&["--by", "place"]).fails(2, &["its order was by key, and is by key,place now"], "");
    with(&["--codec", "none"]).fails(2, &["its form of output was"], "begin anew");
    with(&["--columns", "key"]).fails(2, &["its choice of columns was"], "begin anew");
    with(&["--memory", "16MiB"]).fails(6, &["the plan of the killed job needs"], "--memory");
    let listed = job.place.run(&["scratch", "list", "."]).ok().text();
    assert!(
        listed.contains("sort in.parquet -o out.parquet --drive . --resume --by key"),
        "{listed}"
    );
    assert_eq!(job.place.names(), kept, "nothing is removed");
    let written = std::fs::File::options()
        .append(true)
        .open(job.place.path("in.parquet"));
    written
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    with(&[]).fails(
        2,
        &["another one", "/in.parquet was written to"],
        "begin anew",
    );
    assert_eq!(job.place.names(), kept, "nothing is removed");
}

#[test]
fn a_resumed_table_needs_the_memory_of_the_killed_run_and_takes_any_threads() {
    let table = csv(150_000, 1 << 40, false);
    let job = table_job(
        &table,
        "sort",
        PARQUET,
        "--by key --memory 24MiB --threads 2",
    );
    for more in [
        ["--memory", "300MiB"],
        ["--threads", "1"],
        ["--threads", "7"],
    ] {
        killed_late(&job);
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more).collect();
        job.place.run(&words).ok();
        job.is_whole(more[1]);
    }
}

#[test]
fn tables_that_cannot_be_resumed_reject_the_option() {
    let place = TestDir::in_memory();
    place.write("in.csv", b"a,b\n2,x\n1,y\n");
    place.run(&["convert", "in.csv", "-o", "in.parquet"]).ok();
    place.run(&["convert", "in.csv", "-o", "in.csv.gz"]).ok();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("sort in.parquet --by a --resume").fails(2, &["one file"], "-o");
    run("sort in.parquet --by a -o dir --parts 2 --resume").fails(2, &["one file"], "");
    run("sort in.csv.gz --infer --by a -o o.parquet --resume").fails(
        2,
        &["a compressed input"],
        "",
    );
    run("shuffle in.parquet -n 1 -o o.parquet --resume").fails(2, &["--resume"], "");
    run("unique in.parquet --by a --keep-order -o o.parquet --resume").fails(2, &["--resume"], "");
    run("dedup in.parquet --by a --removed r.parquet -o o.parquet --resume").fails(
        2,
        &["--resume"],
        "",
    );
    run("dedup in.parquet --near b --removed r.parquet -o o.parquet --resume").fails(
        2,
        &["--resume"],
        "",
    );
    run("dedup in.parquet --substring 9 --of b -o o.parquet --resume").fails(2, &["--resume"], "");
    run("join in.parquet in.csv --on a --unordered -o o.parquet --resume").fails(
        2,
        &["--resume"],
        "",
    );
    run("group-by in.parquet --by a --resume").fails(2, &["one file"], "-o");
    assert_eq!(place.names(), ["in.csv", "in.csv.gz", "in.parquet"]);
}
