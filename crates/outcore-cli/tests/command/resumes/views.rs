//! Builds of views that are killed and continued with `--resume`.
//!
//! Contract: the view has the same records as that of a build without a kill, and nothing else is
//! left. A killed build repeats one step.

use super::*;

const VIEW: &str = "v.view";

/// A build of a view in a directory in memory, and the sorted data.
struct Build {
    place: TestDir,
    inputs: Vec<String>,
    command: Vec<String>,
    expected: Vec<u8>,
}

impl Killed for Build {
    fn place(&self) -> &TestDir {
        &self.place
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    #[track_caller]
    fn is_whole(&self, when: &str) {
        let found = self.place.run(&["view", "cat", VIEW]).ok().stdout;
        assert!(found == self.expected, "{when}: wrong");
        let verified = self.place.run(&["view", "verify", VIEW]);
        assert_eq!(verified.code, Some(0), "{when} {verified:?}");
        let inside = names_in(&self.place.path(VIEW));
        assert!(
            inside.iter().all(|name| !name.starts_with('.')),
            "{when} {inside:?}"
        );
        std::fs::remove_dir_all(self.place.path(VIEW)).unwrap();
        assert_eq!(self.place.names(), self.inputs, "{when}");
    }
}

impl Build {
    /// A build of these files.
    fn of(files: &[&[u8]], options: &str) -> Self {
        let place = TestDir::in_memory();
        let names: Vec<String> = (0..files.len())
            .map(|number| format!("in{number}"))
            .collect();
        for (name, bytes) in names.iter().zip(files) {
            place.write(name, bytes);
        }
        let command = format!("view build {} -o {VIEW} {options}", names.join(" "));
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        place.run(&command).ok();
        let expected = place.run(&["view", "cat", VIEW]).ok().stdout;
        std::fs::remove_dir_all(place.path(VIEW)).unwrap();
        Build {
            inputs: place.names(),
            place,
            command: [command, vec!["--resume".to_owned()]].concat(),
            expected,
        }
    }

    fn numbers(threads: usize) -> Self {
        let options = format!("--type u64 --run-size 64KiB --memory 48MiB --threads {threads}");
        Build::of(
            &[&random_u64(500_000, 5), &random_u64(200_000, 6)],
            &options,
        )
    }

    fn is_kept(&self) -> bool {
        let listed = self.place.run(&["scratch", "list", "."]).ok().text();
        listed.contains("resumable")
    }

    /// Kills the build after about half of its steps, and leaves what it has kept.
    fn killed_late(&self) {
        let mut nth = 8;
        let mut kept_at = None;
        loop {
            let answer = self.run_with(&format!("kill@{nth}:sync"));
            let is_over = answer.code.is_some() || self.place.path(VIEW).exists();
            if !is_over && self.is_kept() {
                kept_at = Some(nth);
            }
            self.give_up();
            if is_over {
                break;
            }
            nth *= 2;
        }
        let nth = kept_at.unwrap();
        assert!(self.run_with(&format!("kill@{nth}:sync")).code.is_none());
        assert!(self.is_kept());
    }

    fn give_up(&self) {
        let clean = ["scratch", "clean", ".", "--resumable"];
        self.place.run(&clean).ok();
        std::fs::remove_dir_all(self.place.path(VIEW)).ok();
    }
}

#[test]
fn views_of_records_that_are_killed_anywhere_resume() {
    for threads in [1, 2] {
        let continued = Build::numbers(threads).walk_twice();
        assert!(continued > 5, "{continued}");
    }
    let records = Numbers(3).bytes(40_000 * 100);
    let options = "--record 100 --key 0:1 --stable -r --run-size 64KiB --memory 48MiB --threads 1";
    let continued = Build::of(&[&records], options).walk_twice();
    assert!(continued > 3, "{continued}");
}

#[test]
fn views_of_lines_that_are_killed_anywhere_resume() {
    let lines = others::lines(150_000, u64::MAX);
    // The last line of the first file has no newline.
    let unended = &lines[..lines.len() - 1];
    let more = others::lines(40_000, 900);
    let options = "--lines --run-size 64KiB --memory 48MiB --threads 1";
    let continued = Build::of(&[unended, &more], options).walk_twice();
    assert!(continued > 3, "{continued}");
}

#[test]
fn a_resumed_view_repeats_one_step_with_any_memory_and_threads() {
    let build = Build::numbers(1);
    let read_bytes = |answer: &Answer| answer.event("summary")["read_bytes"].as_u64().unwrap();
    let with = |more: &[&str]| {
        let words = build.command.iter().map(String::as_str);
        let words = words.filter(|word| !word.contains("MiB") && *word != "--memory");
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        build.place.run(&words)
    };
    let whole = read_bytes(&with(&["--memory", "48MiB", "--json"]).ok());
    build.is_whole("not killed");
    for memory in ["48MiB", "100MiB"] {
        build.killed_late();
        let answer = with(&["--memory", memory, "--json"]).ok();
        let rest = read_bytes(&answer);
        println!("reads {rest} of {whole}");
        assert!(rest < whole * 3 / 4, "{rest} {whole}");
        build.is_whole(memory);
    }
}

#[test]
fn another_view_is_refused_and_damage_is_named() {
    let build = Build::numbers(1);
    build.killed_late();
    let kept = build.place.names();
    let with = |more: &[&str]| {
        let words = build.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        build.place.run(&words)
    };
    with(&["-r"]).fails(
        2,
        &["another one", "descending order was false, and is true"],
        "outcore scratch clean --resumable .",
    );
    assert_eq!(build.place.names(), kept);
    let listed = build.place.run(&["scratch", "list", "."]).ok().text();
    assert!(listed.contains("resumable at "), "{listed}");
    // A journal without the position of the view.
    let private = kept.iter().find(|name| name.starts_with(".outcore-"));
    let journal = build.place.path(private.unwrap()).join("journal");
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &bytes[..4096 + 17]).unwrap();
    build.resume().fails(
        4,
        &["the journal of the killed job is damaged"],
        "outcore scratch clean --resumable .",
    );
    build.give_up();
    build.resume().ok();
    build.is_whole("given up");
    // Without the option, the killed run stays.
    build.killed_late();
    let words = build.command.iter().filter(|word| *word != "--resume");
    let words: Vec<&String> = words.collect();
    let answer = build.place.run(&words).ok();
    assert!(answer.stderr.contains("continue it with: "), "{answer:?}");
    assert!(build.is_kept());
    build
        .resume()
        .fails(2, &["exists already"], "another directory");
    std::fs::remove_dir_all(build.place.path(VIEW)).unwrap();
    build.resume().ok();
    build.is_whole("beside another build");
}

#[test]
fn a_view_that_is_in_place_is_not_built_again() {
    let build = Build::numbers(1);
    build.killed_late();
    let names = build.place.names();
    let private = names
        .iter()
        .find(|name| name.starts_with(".outcore-"))
        .unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(copied.unwrap().success());
    };
    // The state after a kill between the rename and the removal of the journal.
    let aside = TestDir::in_memory();
    copy(&build.place.path(private), &aside.path("kept"));
    build.resume().ok();
    copy(&aside.path("kept"), &build.place.path(private));
    std::fs::remove_dir_all(build.place.path(private).join("tree").join(VIEW)).unwrap();
    assert!(build.is_kept());
    let answer = build.resume().ok();
    assert!(
        answer.stderr.contains("nothing is left to do"),
        "{answer:?}"
    );
    build.is_whole("published");
    build.resume().ok();
    build
        .resume()
        .fails(2, &["exists already"], "another directory");
    build.is_whole("twice");
}

#[test]
fn views_that_cannot_be_resumed_reject_the_option() {
    let build = Build::numbers(1);
    build.place.make_dir("drive");
    build.place.write("t.csv", b"a,b\n1,2\n");
    build.place.write("span.csv", b"a,b\n\"1\n\",2\n");
    let run = |line: &str| build.place.run(&line.split(' ').collect::<Vec<_>>());
    let view = "view build in0 -o w.view --type u64 --resume";
    run(&format!("{view} --drive drive")).fails(2, &["own directory"], "--drive");
    run(&format!("{view} --cat")).fails(2, &["--cat"], "");
    run(&format!("{view} --force")).fails(2, &["--force"], "");
    run("view build - -o w.view --type u64 --resume").fails(2, &["a stream"], "");
    run("view build t.csv -o w.view --by a --resume").fails(2, &["--resume"], "table");
    run("view build span.csv -o w.view --csv --by a --resume").fails(
        2,
        &["span lines"],
        "--resume",
    );
    build
        .place
        .write("lines", &others::lines(190_000, u64::MAX));
    run("view build lines -o w.view --lines --resume --run-size 64KiB --memory 16MiB").fails(
        2,
        &["runs are merged before"],
        "longer runs",
    );
    assert!(!build.place.path("w.view").exists());
}
