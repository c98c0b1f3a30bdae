//! Jobs in passes that are killed and continued: kernels of graphs, k-means, indexes and
//! neighbours.
//!
//! Contract: as for sorts. A job continues after the last state that its journal vouches for.

use super::*;

/// Jobs in passes in one directory in memory, and the names of their inputs.
struct Passes {
    place: TestDir,
    inputs: Vec<String>,
}

/// A job, and the bytes that it must write.
struct Job<'p> {
    passes: &'p Passes,
    command: Vec<String>,
    expected: Vec<u8>,
}

const OUTPUT: &str = "out.npy";

impl Passes {
    /// An undirected graph with a long path, and random edges with weights near it.
    fn of_graph() -> Self {
        let place = TestDir::in_memory();
        let mut numbers = Numbers(51);
        let mut edges = String::new();
        for vertex in 0..2_000_u64 {
            let far = vertex + 1 + numbers.next() % 50;
            let weight = 1 + numbers.next() % 90;
            edges += &format!("{vertex} {} {weight}\n", vertex + 1);
            edges += &format!("{vertex} {far} {weight}\n");
            edges += &format!("{far} {} 9\n", numbers.next() % 300);
        }
        place.write("edges.txt", edges.as_bytes());
        let convert = "graph convert edges.txt -o g.graph --undirected --weights --drop-loops";
        place.run(&words(convert)).ok();
        place
            .run(&words("graph convert edges.txt -o d.graph --weights"))
            .ok();
        Passes::in_place(place)
    }

    /// Random vectors.
    fn of_vectors() -> Self {
        let place = TestDir::in_memory();
        let mut numbers = Numbers(52);
        let floats = (0..2_500 * 8).flat_map(|_| ((numbers.next() % 4096) as f32).to_le_bytes());
        let header = [2_500_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat();
        let floats: Vec<u8> = floats.collect();
        place.write("base.fbin", &[header, floats].concat());
        Passes::in_place(place)
    }

    fn in_place(place: TestDir) -> Self {
        let inputs = place.names();
        Passes { place, inputs }
    }

    fn job(&self, command: &str) -> Job<'_> {
        let plain = words(command);
        self.place.run(&plain).ok();
        let expected = self.place.read(OUTPUT);
        std::fs::remove_file(self.place.path(OUTPUT)).unwrap();
        let resume = std::iter::once("--resume".to_owned());
        Job {
            passes: self,
            command: plain.into_iter().chain(resume).collect(),
            expected,
        }
    }
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

impl Killed for Job<'_> {
    fn place(&self) -> &TestDir {
        &self.passes.place
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    #[track_caller]
    fn is_whole(&self, when: &str) {
        let place = &self.passes.place;
        let mut names = place.names();
        names.retain(|name| name != OUTPUT);
        assert_eq!(names, self.passes.inputs, "{when}");
        assert!(place.read(OUTPUT) == self.expected, "{when}: wrong");
        std::fs::remove_file(place.path(OUTPUT)).unwrap();
    }
}

impl Job<'_> {
    fn with(&self, more: &[&str]) -> Answer {
        let words = self.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        self.passes.place.run(&words)
    }

    /// Kills a run after about half of its states or more, and leaves the files that the run has
    /// kept. Under a fault, a run keeps a state after each pass, and each state needs two syncs.
    fn killed_late(&self) {
        let leaves_a_state = |syncs: u64| {
            let answer = self.run_with(&format!("kill@{syncs}:sync"));
            let is_over = answer.code.is_some() || self.passes.place.path(OUTPUT).exists();
            let leaves = !is_over && self.is_kept();
            assert!(leaves || is_over, "{syncs} {answer:?}");
            leaves
        };
        let mut syncs = 2;
        while leaves_a_state(2 * syncs) {
            self.give_up();
            syncs *= 2;
        }
        self.give_up();
        assert!(leaves_a_state(syncs), "no kill leaves a state");
    }

    fn is_kept(&self) -> bool {
        let listed = self.passes.place.run(&["scratch", "list", "."]).ok().text();
        listed.contains("resumable")
    }

    /// Removes what a killed run has left, and the output.
    fn give_up(&self) {
        let clean = ["scratch", "clean", ".", "--resumable"];
        self.passes.place.run(&clean).ok();
        std::fs::remove_file(self.passes.place.path(OUTPUT)).ok();
    }
}

#[test]
fn kernels_of_graphs_that_are_killed_anywhere_resume_to_the_same_bytes() {
    let passes = Passes::of_graph();
    for (kernel, least) in [
        ("pagerank g.graph --tolerance 0 --iterations 30", 5),
        ("pagerank g.graph --weighted --source 5 --source 9", 2),
        ("hits g.graph --iterations 40 --tolerance 0", 5),
        ("bfs g.graph --source 1999 --parents", 2),
        ("sssp g.graph --source 1999", 2),
        ("lp g.graph", 1),
        ("louvain g.graph --seed 3", 1),
        ("kcore g.graph", 2),
        ("kcore g.graph -k 4", 1),
        ("cc g.graph", 1),
        ("closeness g.graph --sources 300", 2),
        ("scc d.graph", 1),
        ("triangles g.graph", 2),
    ] {
        let mut continued = 0;
        for threads in [1, 2] {
            let command = format!("graph {kernel} -o {OUTPUT} --threads {threads}");
            continued += passes.job(&command).walk_twice();
        }
        assert!(continued >= least, "{kernel}: {continued}");
    }
}

#[test]
fn jobs_on_vectors_that_are_killed_anywhere_resume_to_the_same_bytes() {
    let passes = Passes::of_vectors();
    for (command, least) in [
        ("kmeans base.fbin -k 20 --max-iterations 12", 3),
        (
            "kmeans base.fbin -k 9 --spherical --init random --tolerance 0",
            3,
        ),
        ("knn base.fbin --self -k 20 --memory 5MiB --edges", 2),
    ] {
        let mut continued = 0;
        for threads in [1, 2] {
            let command = format!("{command} -o {OUTPUT} --threads {threads}");
            continued += passes.job(&command).walk_twice();
        }
        assert!(continued >= least, "{command}: {continued}");
    }
}

#[test]
fn an_index_with_lists_that_is_killed_does_not_cluster_again() {
    let passes = Passes::of_vectors();
    let index = format!("vector index base.fbin -o {OUTPUT} --nlist 30 --threads 2");
    // An index may not have the name of an array.
    let index = index.replace(OUTPUT, "out.vindex");
    passes.place.run(&words(&index)).ok();
    let expected = passes.place.read("out.vindex");
    std::fs::remove_file(passes.place.path("out.vindex")).unwrap();
    let resume = words(&format!("{index} --resume"));
    let mut continued = 0;
    for nth in 1.. {
        let mut command = passes.place.command(&resume);
        command.env("OUTCORE_FAULT", format!("kill@{}", 7 * nth));
        let killed = Answer::of(command.output().unwrap());
        if killed.code.is_none() {
            let answer = passes.place.run(&resume).ok();
            continued += u32::from(answer.stderr.contains("continues"));
        }
        assert!(passes.place.read("out.vindex") == expected, "{nth}");
        std::fs::remove_file(passes.place.path("out.vindex")).unwrap();
        assert_eq!(passes.place.names(), passes.inputs);
        if killed.code == Some(0) {
            break;
        }
    }
    assert!(continued > 2, "{continued}");
}

#[test]
fn another_job_in_passes_is_refused_with_the_difference() {
    let passes = Passes::of_graph();
    let command = format!("graph pagerank g.graph -o {OUTPUT} --iterations 60 --tolerance 0");
    let job = passes.job(&command);
    job.killed_late();
    let kept = passes.place.names();
    job.with(&["--alpha", "0.5"]).fails(
        2,
        &["another one", "its alpha was 0.85, and is 0.5 now"],
        "begin anew",
    );
    let run = |command: &str| passes.place.run(&words(command));
    run("graph hits g.graph -o out.npy --resume").fails(
        2,
        &["its command was graph pagerank, and is graph hits now"],
        "begin anew",
    );
    passes.place.write("numbers", &random_u64(700_000, 3));
    run("sort numbers -o out.npy --type u64 --memory 4MiB --resume --drive .").fails(
        2,
        &["another one", "passes"],
        "begin anew",
    );
    std::fs::remove_file(passes.place.path("numbers")).unwrap();
    // A second conversion of the same edges is another graph.
    run("graph convert edges.txt -o g.graph --undirected --weights --drop-loops --force").ok();
    job.resume()
        .fails(2, &["another one", "g.graph"], "begin anew");
    assert_eq!(passes.place.names(), kept, "nothing is removed");
    job.give_up();
    job.resume().ok();
}

#[test]
fn a_state_that_can_continue_is_listed_with_its_command() {
    let passes = Passes::of_graph();
    let command = format!("graph pagerank g.graph -o {OUTPUT} --iterations 60 --tolerance 0");
    let job = passes.job(&command);
    job.killed_late();
    let listed = passes.place.run(&["scratch", "list", "."]).ok().text();
    assert!(listed.contains("resumable at "), "{listed}");
    assert!(listed.contains(&format!("{command} --resume")), "{listed}");
    // Without the option the state stays, and the run begins anew.
    let answer = passes.place.run(&words(&command)).ok();
    assert!(answer.stderr.contains("continue it with: "), "{answer:?}");
    std::fs::remove_file(passes.place.path(OUTPUT)).unwrap();
    assert!(job.is_kept());
    let answer = job.resume().ok();
    assert!(answer.stderr.contains("continues"), "{answer:?}");
    job.is_whole("late");
}

#[test]
fn a_damaged_state_is_found_and_a_damaged_journal_continues_nothing() {
    let passes = Passes::of_graph();
    let command = format!("graph pagerank g.graph -o {OUTPUT} --iterations 60 --tolerance 0");
    let job = passes.job(&command);
    let private = || {
        let mut names = passes.place.names();
        names.retain(|name| name.starts_with(".outcore-"));
        passes.place.path(&names[0])
    };
    job.killed_late();
    for name in ["state-0", "state-1"] {
        let path = private().join(name);
        if let Ok(mut bytes) = std::fs::read(&path) {
            bytes[4321] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let answer = job.resume();
    assert!(!answer.stderr.contains("continues"), "{answer:?}");
    let clean = "begin anew: outcore scratch clean --resumable .";
    answer.fails(4, &["state", "damaged"], clean);
    job.give_up();
    job.killed_late();
    for name in ["state-0", "state-1"] {
        std::fs::remove_file(private().join(name)).ok();
    }
    let answer = job.resume().ok();
    assert!(!answer.stderr.contains("continues"), "{answer:?}");
    assert!(
        answer.stderr.contains("is gone; it begins anew"),
        "{answer:?}"
    );
    job.is_whole("no state");
    job.killed_late();
    let journal = private().join("journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let answer = job.resume().ok();
    assert!(answer.stderr.contains("vouches for nothing"), "{answer:?}");
    job.is_whole("damaged journal");
}

#[test]
fn a_journal_of_passes_that_is_cut_is_named_and_the_way_out_once() {
    let passes = Passes::of_graph();
    for kernel in ["kcore g.graph", "cc g.graph"] {
        let job = passes.job(&format!("graph {kernel} -o {OUTPUT} --threads 1"));
        job.killed_late();
        let mut names = passes.place.names();
        names.retain(|name| name.starts_with(".outcore-"));
        let dir = passes.place.path(&names[0]);
        let journal = dir.join("journal");
        let bytes = std::fs::read(&journal).unwrap();
        if kernel.starts_with("kcore") {
            // The states of the first commits have been overwritten.
            std::fs::write(&journal, &bytes[..bytes.len() / 2 + 17]).unwrap();
        } else {
            for name in ["state-0", "state-1"] {
                let len_bytes = std::fs::read(dir.join(name)).map_or(0, |bytes| bytes.len());
                std::fs::write(dir.join(name), vec![7; len_bytes]).unwrap();
            }
        }
        let answer = job.resume();
        assert_eq!(
            answer.stderr.matches("give the killed job up").count(),
            1,
            "{answer:?}"
        );
        let cause = match kernel.starts_with("kcore") {
            true => "the journal of the killed job is torn or damaged",
            false => "the state of the killed job is damaged",
        };
        answer.fails(4, &[cause], "outcore scratch clean --resumable .");
        job.give_up();
        job.resume().ok();
        job.is_whole(kernel);
    }
}

#[test]
fn a_job_whose_last_state_is_damaged_or_gone_continues_from_the_one_before() {
    let passes = Passes::of_graph();
    let command = format!("graph pagerank g.graph -o {OUTPUT} --iterations 60 --tolerance 0");
    let job = passes.job(&command);
    let (mut damaged, mut gone) = (0, 0);
    for syncs in 20..32 {
        for (name, is_gone) in [("state-0", false), ("state-1", false), ("state-0", true)] {
            let killed = job.run_with(&format!("kill@{syncs}:sync"));
            assert!(killed.code.is_none(), "{syncs} {killed:?}");
            let mut names = passes.place.names();
            names.retain(|name| name.starts_with(".outcore-"));
            let path = passes.place.path(&names[0]).join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[4321] ^= 1;
            match is_gone {
                true => std::fs::remove_file(&path).unwrap(),
                false => std::fs::write(&path, bytes).unwrap(),
            }
            let answer = job.resume();
            if answer.code == Some(4) {
                // The kill came after the previous state had been overwritten.
                job.give_up();
                continue;
            }
            let answer = answer.ok();
            assert!(answer.stderr.contains("continues the run"), "{answer:?}");
            gone += u32::from(is_gone);
            damaged += u32::from(answer.stderr.contains("the one before is whole"));
            job.is_whole(&format!("{syncs} {name}"));
        }
    }
    assert!(damaged > 2 && gone > 2, "{damaged} {gone}");
}

#[test]
fn a_file_that_an_option_names_is_the_same_whatever_its_spelling() {
    let passes = Passes::of_vectors();
    let place = &passes.place;
    let first = "kmeans base.fbin -k 20 --max-iterations 2 -o init.npy";
    place.run(&words(first)).ok();
    std::os::unix::fs::symlink(".", place.path("here")).unwrap();
    let run = |init: &str, fault: Option<&str>| {
        let line = format!(
            "kmeans base.fbin -k 20 --init {init} --max-iterations 20 --tolerance 0 -o {OUTPUT} \
             --resume"
        );
        let mut command = place.command(&words(&line));
        if let Some(fault) = fault {
            command.env("OUTCORE_FAULT", fault);
        }
        Answer::of(command.output().unwrap())
    };
    run("init.npy", None).ok();
    let expected = place.read(OUTPUT);
    for other in ["./init.npy", "here/init.npy"] {
        std::fs::remove_file(place.path(OUTPUT)).unwrap();
        let killed = run("init.npy", Some("kill@12:sync"));
        assert!(killed.code.is_none(), "{killed:?}");
        let answer = run(other, None).ok();
        assert!(answer.stderr.contains("continues the run"), "{answer:?}");
        assert!(place.read(OUTPUT) == expected, "{other}");
    }
    std::fs::remove_file(place.path(OUTPUT)).unwrap();
    std::fs::copy(place.path("init.npy"), place.path("copy.npy")).unwrap();
    run("init.npy", Some("kill@12:sync"));
    run("copy.npy", None).fails(
        2,
        &["the killed job with this output is another one"],
        "begin anew",
    );
}

#[test]
fn a_finished_output_is_not_written_again_and_another_job_needs_force() {
    let passes = Passes::of_graph();
    let command = format!("graph lp g.graph -o {OUTPUT} --rounds 20");
    let job = passes.job(&command);
    let published = (1..300).find(|nth| {
        job.give_up();
        let answer = job.run_with(&format!("kill@{nth}:control"));
        answer.code.is_none() && passes.place.path(OUTPUT).exists() && job.is_kept()
    });
    assert!(
        published.is_some(),
        "no kill leaves an output and a journal"
    );
    let inode = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(passes.place.path(OUTPUT)).unwrap().ino()
    };
    let before = inode();
    let other = words(&format!("graph lp g.graph -o {OUTPUT} --rounds 7 --resume"));
    passes.place.run(&other).fails(2, &["exists"], "--force");
    let answer = job.resume().ok();
    assert!(answer.stderr.contains("nothing is written"), "{answer:?}");
    assert_eq!(inode(), before);
    job.is_whole("published");
}

#[test]
fn what_keeps_no_state_rejects_the_option() {
    let passes = Passes::of_graph();
    for (command, cause) in [
        ("graph degrees g.graph -o o.npy --resume", "--resume"),
        ("graph pagerank g.graph --top 3 --resume", "--output"),
        ("graph pagerank g.graph -o - --resume", "one file"),
        ("graph pagerank g.graph -o @ranks --resume", "plain file"),
        (
            "kmeans g.graph -o o.npy --labels l.npy --resume",
            "--labels",
        ),
        ("kmeans g.graph -o o.npy --batch 100 --resume", "--batch"),
        (
            "knn g.graph --self -o o.npy --distances d.npy --resume",
            "--distances",
        ),
        ("vector index g.graph -o o.vindex --resume", "--nlist"),
    ] {
        passes.place.run(&words(command)).fails(2, &[cause], "");
    }
    assert_eq!(passes.place.names(), passes.inputs);
}

#[test]
fn a_state_is_whole_for_a_run_with_other_memory() {
    let place = TestDir::in_memory();
    let edges = (0..60_000_u64).map(|vertex| format!("{vertex} {}\n", (vertex * 7 + 1) % 60_000));
    place.write("edges.txt", edges.collect::<String>().as_bytes());
    let convert = "graph convert edges.txt -o g.graph --memory 64MiB";
    place.run(&words(convert)).ok();
    let passes = Passes::in_place(place);
    let command = format!("graph pagerank g.graph -o {OUTPUT} --iterations 40 --tolerance 0");
    let expected = passes.job(&command).expected;
    for [first, second] in [["16MiB", "256MiB"], ["256MiB", "16MiB"]] {
        let job = passes.job(&format!("{command} --memory {first}"));
        job.killed_late();
        let command = format!("{command} --memory {second} --resume");
        let answer = passes.place.run(&words(&command)).ok();
        assert!(answer.stderr.contains("continues"), "{answer:?}");
        assert!(passes.place.read(OUTPUT) == expected, "{first} {second}");
        job.is_whole(&format!("{first} {second}"));
    }
}

#[test]
fn a_search_of_lists_keeps_the_state_of_the_whole_alone() {
    let passes = Passes::of_vectors();
    passes
        .place
        .run(&words("gen f32x8 -n 30000 --seed 4 -o many.npy"))
        .ok();
    passes
        .place
        .run(&words("gen f32x8 -n 3000 --seed 9 -o queries.npy"))
        .ok();
    let index = "vector index many.npy -o many.vindex --nlist 40";
    passes.place.run(&words(index)).ok();
    let passes = Passes::in_place(passes.place);
    let command = "knn many.npy queries.npy --index many.vindex --nprobe 3 -k 100 --memory 8MiB";
    let job = passes.job(&format!("{command} -o {OUTPUT} --threads 1 --json"));
    let plain: Vec<&String> = job
        .command
        .iter()
        .filter(|word| *word != "--resume")
        .collect();
    let recall = passes.place.run(&plain).ok().event("summary")["recall"].clone();
    std::fs::remove_file(passes.place.path(OUTPUT)).unwrap();
    let resumed = job.resume().ok();
    assert_eq!(resumed.event("summary")["recall"], recall);
    job.is_whole("not killed");
    job.killed_late();
    job.resume().ok();
    job.is_whole("killed");
}
