//! Sorts of lines that are killed and continued.
//!
//! Contract: as for numbers, for each way in which lines are distributed and written: whole lines
//! and keys, counted and kept lines, short and long lines, one distribution and several. A sort
//! that cannot be continued is rejected by its name before anything is read.

use super::*;

/// `count` lines; `line` makes the text of each.
fn lines_of(count: u64, seed: u64, line: impl Fn(&mut Numbers, u64) -> String) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let lines = (0..count).map(|place| line(&mut numbers, place));
    lines.collect::<String>().into_bytes()
}

/// Lines of several lengths.
fn any_lines(count: u64) -> Vec<u8> {
    lines_of(count, 1, |numbers, _| {
        let (first, second) = (numbers.next(), numbers.next());
        match first % 3 {
            0 => format!("{first:x}\n"),
            1 => format!("{second:x}{first:x}{second:x}{second:o}\n"),
            _ => format!("{:x}{second:x}\n", first % 256),
        }
    })
}

/// A line of a number, some text and its place in the input.
fn fields(count: u64, values: u64) -> Vec<u8> {
    lines_of(count, 2, |numbers, place| {
        let value = numbers.next() % values;
        format!("{value},{:032x},{place}\n", numbers.next())
    })
}

#[test]
fn a_sort_of_lines_that_is_killed_anywhere_resumes_to_the_same_bytes() {
    let (kept, operations) = sort_of(any_lines(110_000), "--threads 1").walk("kill");
    assert!(kept > 5 && operations > 100, "{kept} {operations}");
}

#[test]
fn a_sort_by_keys_and_a_stable_one_are_resumed() {
    for (options, values) in [
        ("-t, -k1,1n --memory 6MiB --threads 1", 5000),
        ("-s -t, -k1,1n --memory 8MiB --threads 2", 300),
        ("-s -r -t, -k1,1n --memory 8MiB --threads 2", 50_000),
    ] {
        let (kept, _) = sort_of(fields(130_000, values), options).walk("kill");
        assert!(kept > 3, "{options}: {kept}");
    }
}

#[test]
fn a_descending_sort_with_frequent_lines_is_resumed() {
    let lines = lines_of(250_000, 3, |numbers, _| match numbers.next() % 2 {
        0 => "a frequent line\n".to_owned(),
        _ => format!("{:030x}\n", numbers.next()),
    });
    let job = sort_of(lines, "-r --memory 5MiB --threads 2");
    let (kept, _) = job.walk("kill");
    assert!(kept > 3, "{kept}");
}

#[test]
fn a_sort_that_keeps_one_line_per_key_is_resumed() {
    let lines = lines_of(120_000, 4, |numbers, place| {
        format!("{:030x} {}\n", numbers.next() % 60_000, place % 3)
    });
    for options in ["-u --threads 2", "-u -k1,1 --threads 2 --memory 6MiB"] {
        let (kept, _) = sort_of(lines.clone(), options).walk("kill");
        assert!(kept > 3, "{options}: {kept}");
    }
}

#[test]
fn lines_that_tables_hold_are_written_by_a_run_that_resumes() {
    // Two inputs: a few distinct lines that all fit in tables, so no item goes to a bucket; and
    // such lines among others.
    let few = lines_of(600_000, 7, |numbers, _| {
        format!("user{:05}\n", numbers.next() % 3000)
    });
    let mixed = lines_of(300_000, 8, |numbers, place| match numbers.next() % 3 {
        0 => "dup\n".to_owned(),
        1 => "dup2\n".to_owned(),
        _ => format!("{:020x} {place}\n", numbers.next()),
    });
    for options in [
        "-u --memory 6MiB --threads 1",
        "-u -r --memory 6MiB --threads 2",
    ] {
        for input in [&few, &mixed] {
            let (kept, _) = sort_of(input.clone(), options).walk("kill");
            assert!(kept > 3, "{options}: {kept}");
        }
    }
    for options in [
        "--memory 6MiB --threads 1",
        "--repeated --memory 6MiB --threads 2",
    ] {
        for input in [&few, &mixed] {
            let (kept, _) = job_of(input.clone(), "unique", options).walk("kill");
            assert!(kept > 3, "{options}: {kept}");
        }
    }
}

#[test]
fn lines_longer_than_a_buffer_are_resumed() {
    let lines = lines_of(2500, 5, |numbers, place| {
        let words = if place % 40 == 0 { 2500 } else { 125 };
        let words = (0..words).map(|_| format!("{:016x}", numbers.next()));
        words.collect::<String>() + "\n"
    });
    let (kept, _) = sort_of(lines, "--memory 5MiB --threads 2").walk("kill");
    assert!(kept > 3, "{kept}");
}

#[test]
fn a_line_longer_than_the_plan_allows_is_measured_and_the_sort_is_resumed() {
    let mut lines = any_lines(100_000);
    lines.extend(std::iter::repeat_n(b'y', 1 << 20));
    lines.push(b'\n');
    lines.extend(any_lines(9));
    let (kept, _) = sort_of(lines, "--memory 8MiB --threads 2").walk("kill");
    assert!(kept > 3, "{kept}");
}

#[test]
fn rows_of_csv_with_their_header_and_json_lines_are_resumed() {
    let header = b"number,text,place\n".to_vec();
    let csv = [header, fields(350_000, 4000)].concat();
    let json = lines_of(100_000, 6, |numbers, place| {
        let value = numbers.next() % 70_000;
        format!("{{\"a\":{value},\"text\":\"{place:020}\"}}\n")
    });
    for (input, options) in [
        (csv, "--csv --by text --force --memory 12MiB --threads 1"),
        (json, "--jsonl --by .a --force --memory 8MiB --threads 2"),
    ] {
        let (kept, _) = sort_of(input, options).walk("kill");
        assert!(kept > 3, "{options}: {kept}");
    }
}

#[test]
fn a_sort_of_lines_that_fails_keeps_its_checkpoints_and_resumes() {
    let job = sort_of(any_lines(90_000), "--threads 2");
    for fault in ["eio", "enospc"] {
        let (kept, _) = job.walk(fault);
        assert!(kept > 3, "{fault} {kept}");
    }
}

#[test]
fn lines_are_resumed_with_other_memory_and_threads_unless_the_memory_is_too_little() {
    let job = sort_of(
        fields(130_000, 300),
        "-s -t, -k1,1n --memory 8MiB --threads 2",
    );
    let with = |memory: &str, threads: &str| {
        let words = "sort in -o out --drive . --resume -s -t, -k1,1n --memory";
        let words = words.split(' ').chain([memory, "--threads", threads]);
        job.place.run(&words.collect::<Vec<_>>())
    };
    killed_late(&job);
    with("6MiB", "1").fails(6, &["the plan of the killed job needs"], "--memory 8MiB");
    with("64MiB", "4").ok();
    job.is_whole("more memory");
}

/// Some buckets are distributed again, and each run divides these in another way.
#[test]
fn a_sort_of_several_distributions_is_resumed_from_any_part_of_its_output() {
    let lines = lines_of(600_000, 9, |numbers, _| {
        format!("{:030x}\n", numbers.next())
    });
    let numbers = random_u64(3_000_000, 11);
    for (input, options) in [
        (lines, "--memory 5MiB --threads 2"),
        (numbers, "--type u64 --memory 5MiB --threads 2"),
    ] {
        let job = sort_of(input, options);
        let mut operations = 1024;
        while job.run_with(&format!("kill@{operations}")).code.is_none() {
            job.resume().ok();
            job.is_whole("a longer run");
            operations += operations / 4;
        }
        job.is_whole("an even longer run");
        let mut numbers = Numbers(12);
        let mut continued = 0;
        for _ in 0..12 {
            let faults = [0; 3].map(|_| format!("kill@{}", 1 + numbers.next() % operations));
            let mut answers = faults.iter().map(|fault| job.run_with(fault));
            let is_done = answers.any(|answer| {
                continued += u32::from(answer.stderr.contains("continues"));
                answer.code.is_some()
            });
            if !is_done {
                continued += u32::from(job.resume().ok().stderr.contains("continues"));
            }
            job.is_whole(&faults.join(", "));
        }
        assert!(continued > 8, "{options}: {continued}");
    }
}

#[test]
fn another_order_with_the_same_output_is_refused_and_a_run_without_resume_says_what_is_kept() {
    let job = sort_of(any_lines(110_000), "--threads 1");
    killed_late(&job);
    let with = |more: &[&str]| {
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        job.place.run(&words)
    };
    let difference = "its order was lines by their bytes, and is lines -n now";
    with(&["-n"]).fails(2, &[difference], "begin anew");
    with(&["-u"]).fails(
        2,
        &["one line per key was false, and is true"],
        "begin anew",
    );
    let listed = job.place.run(&["scratch", "list", "."]).ok().text();
    let command = "sort in -o out --drive . --memory 4MiB --resume --threads 1";
    assert!(listed.contains(command), "{listed}");
    let mut changed = job.input.clone();
    changed[9] ^= 1;
    job.place.write("in", &changed);
    with(&[]).fails(2, &["another one", "/in was written to"], "begin anew");
    let plain: Vec<&String> = job
        .command
        .iter()
        .filter(|word| *word != "--resume")
        .collect();
    let answer = job.place.run(&plain).ok();
    assert!(answer.stderr.contains("continue it with: "), "{answer:?}");
    assert!(job.is_kept());
    let cleaned = job.place.run(&["scratch", "clean", ".", "--resumable"]);
    cleaned.ok();
    assert_eq!(job.place.names(), ["in", "out"]);
}

#[test]
fn a_sort_of_lines_whose_output_is_in_place_has_nothing_left_to_do() {
    let job = sort_of(any_lines(110_000), "--threads 1");
    let mut found = false;
    let mut nth = 1;
    loop {
        let answer = job.run_with(&format!("kill@{nth}"));
        if answer.code == Some(0) {
            break;
        }
        found |= job.place.path("out").exists() && job.is_kept();
        let rest = job.resume().ok();
        assert_eq!(
            rest.stderr.contains("nothing is left to do"),
            found,
            "{nth}"
        );
        job.is_whole(&format!("{nth}"));
        if found {
            break;
        }
        nth += 1 + nth / 8;
    }
}

#[test]
fn sorts_of_lines_that_cannot_be_resumed_reject_the_option() {
    let place = TestDir::in_memory();
    place.write("lines", b"b\na\n");
    place.write("reads.fastq", b"@a\nAC\n+\nII\n");
    place.write("rows.csv", b"a,b\n1,\"2\n3\"\n");
    place.run(&["sort", "lines", "-o", "lines.gz"]).ok();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("sort lines --resume").fails(2, &["one file"], "-o");
    run("sort - -o o --lines --resume").fails(2, &["a stream"], "");
    run("sort lines.gz -o o --resume").fails(2, &["unpacked to scratch"], "");
    run("sort lines -o o.gz --resume").fails(2, &["compressed output"], "");
    run("sort -m lines -o o --resume").fails(2, &["a merge"], "-m");
    run("sort -R lines -o o --resume").fails(2, &["-R"], "--seed");
    run("sort reads.fastq --by length -o o --resume").fails(2, &["--resume"], "");
    run("sort rows.csv --csv --by a -o o --resume").fails(2, &["span lines"], "");
    let names = ["lines", "lines.gz", "reads.fastq", "rows.csv"];
    assert_eq!(place.names(), names);
}
