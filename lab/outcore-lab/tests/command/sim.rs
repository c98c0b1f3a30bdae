//! The simulator as a command.
//!
//! Contract: the computations are tested in their own crate. These tests check that the command
//! reaches them, and that a run recorded by `sort` can be replayed on simulated drives.

use crate::outcore;
use crate::support::*;

#[test]
fn a_recorded_sort_is_replayed_on_other_drives() {
    let place = TestDir::new();
    let Some(outcore) = outcore() else { return };
    place.write("in", &random_u64(1_000_000, 71));
    outcore
        .run(
            &place,
            &[
                "sort",
                "in",
                "-o",
                "out",
                "--type",
                "u64",
                "--memory",
                "8MiB",
                "--record-io",
                "run.iotrace",
            ],
        )
        .ok();
    let replay = |drives| {
        let replay = [
            "sim",
            "replay",
            "run.iotrace",
            "--preset",
            "p41",
            "--json",
            "--drives",
        ];
        let answer = place.run(&[&replay[..], &[drives]].concat()).ok();
        serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap()
    };
    let (one, four) = (replay("1"), replay("4"));
    let moved = |summary: &serde_json::Value| summary["write_bytes"].as_u64().unwrap();
    assert!(moved(&one) > 8_000_000, "output and scratch");
    assert_eq!(moved(&one), moved(&four));
    assert_eq!(four["drives"].as_array().unwrap().len(), 4);
    let seconds = |summary: &serde_json::Value| summary["seconds"].as_f64().unwrap();
    assert!(seconds(&four) <= seconds(&one));
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    let place = TestDir::new();
    let mut command = place.command(&["sim", "run", "--flow", "requests=1000"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let answer = Answer::of(command.stdout(writer).output().unwrap());
    assert_eq!(answer.code, Some(141), "{answer:?}");
    assert_eq!(answer.stderr, "");
}

#[test]
fn a_result_that_standard_output_cannot_take_is_an_error_and_no_panic() {
    let place = TestDir::new();
    for command in [
        &["sim", "presets"][..],
        &["sim", "presets", "p41", "--toml"],
        &["sim", "run", "--flow", "requests=1000"],
        &["sim", "run", "--flow", "requests=1000", "--json"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let answer = Answer::of(place.command(command).stdout(full).output().unwrap());
        assert_eq!(answer.code, Some(5), "{command:?}: {answer:?}");
        assert!(answer.stderr.contains("standard output"), "{answer:?}");
        assert!(!answer.stderr.contains("panicked"), "{answer:?}");
    }
}

#[test]
fn activesort_says_which_values_were_fitted_and_heeds_a_throttle() {
    let place = TestDir::new();
    let job = [
        "sim",
        "activesort",
        "--size",
        "4GB",
        "--memory",
        "1GB",
        "--preset",
    ];
    let text = place.run(&[&job[..], &["throttled"]].concat()).ok().text();
    let fitted = text.find("Fitted: ").unwrap();
    let predicted = text.find("Predicted").unwrap();
    assert!(fitted < text.find("Table 1").unwrap() && text.find("Table 1").unwrap() < predicted);
    assert!(predicted < text.find("Table 2").unwrap(), "{text}");
    let json = place
        .run(&[&job[..], &["throttled", "--json"]].concat())
        .ok()
        .text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["table_1_fitted_by"].as_array().unwrap().len(), 4);
    // Two passes move 3 + 2 times 4 GB at 50 MB/s.
    let seconds = json["modern"][0]["report"]["seconds"].as_f64().unwrap();
    assert!((seconds / 400.0 - 1.0).abs() < 0.01, "{seconds}");
}

#[test]
fn a_request_beyond_all_drives_is_refused_by_its_number() {
    let place = TestDir::new();
    place.write(
        "far.jsonl",
        b"{\"id\":7,\"op\":\"read\",\"offset\":18446744073709551615,\"bytes\":4096}\n",
    );
    place
        .run(&["sim", "replay", "far.jsonl"])
        .fails(2, &["request 7", "2^64"], "");
    place.write("huge.csv", b"7,R,0,9223372036854775807,1\n7,R,0,4096,2\n");
    for command in ["replay", "run"] {
        let trace = if command == "run" {
            &["--trace"][..]
        } else {
            &[]
        };
        let sim = [
            &["sim", command][..],
            trace,
            &["huge.csv", "--format", "alibaba"],
        ]
        .concat();
        place.run(&sim).fails(2, &["request 1", "longer than"], "");
    }
}

#[test]
fn a_drive_larger_than_its_product_or_than_memory_is_rejected_with_a_size_that_works() {
    let place = TestDir::new();
    let too_large = ["sim", "run", "--preset", "throttled", "--drive-size"];
    place.run(&[&too_large[..], &["100TiB"]].concat()).fails(
        2,
        &["100 TiB are requested"],
        "--drive-size",
    );
    place.write("one.csv", b"7,R,0,4096,1\n");
    place
        .run(&[
            "sim",
            "replay",
            "one.csv",
            "--drives=4096",
            "--drive-size=1TB",
        ])
        .fails(6, &["4096 drives of", "of memory"], "--drive-size");
}

#[test]
fn a_trace_in_milliseconds_is_replayed_and_rejected_where_it_is_taken_for_nanoseconds() {
    let place = TestDir::new();
    let trace = b"0.000000 0 303567 7 0\n26.214 0 55590 6 1\n1500.0 0 8 8 1\n";
    place.write("t.disksim", trace);
    for sim in [
        &["replay", "--summary", "t.disksim"][..],
        &["sim", "replay", "t.disksim"],
        &["sim", "run", "--trace", "t.disksim"],
    ] {
        place.run(sim).ok();
        let as_mqsim = [sim, &["--format", "mqsim"]].concat();
        place
            .run(&as_mqsim)
            .fails(4, &["line 1", "decimals"], "--time-unit");
        place
            .run(&[&as_mqsim[..], &["--time-unit", "ms"]].concat())
            .ok();
    }
    for (unit, duration) in [(None, "1.500 s"), (Some("--time-unit=s"), "1500.000 s")] {
        let words = ["replay", "--summary", "t.disksim"].into_iter().chain(unit);
        let answer = place.run(&words.collect::<Vec<_>>());
        let wanted = format!("duration       {duration}");
        assert!(answer.text().contains(&wanted), "{answer:?}");
    }
}

#[test]
fn a_drive_that_is_unknown_is_refused_with_a_way_on() {
    let place = TestDir::new();
    place
        .run(&["sim", "run", "--preset", "pm9a4"])
        .fails(2, &["pm9a4"], "pm9a3");
    place
        .run(&["sim", "replay", "missing", "--preset", "p41"])
        .fails(3, &["missing"], "");
}

#[test]
fn a_plan_measures_what_a_record_costs_unless_it_is_said() {
    let place = TestDir::new();
    let plan = |more: &[&str]| {
        let job = [
            "sim",
            "plan",
            "sort",
            "--size",
            "1TB",
            "--memory",
            "64GB",
            "--record-bytes",
            "4096",
            "--json",
        ];
        place.run(&[&job[..], more].concat()).ok()
    };
    let cpu = |answer: &Answer| {
        let plan: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(plan["phases"][1]["name"], "distribute");
        plan["phases"][1]["cpu_seconds"].as_f64().unwrap()
    };
    let measured = plan(&[]);
    assert!(
        measured.stderr.contains("as measured here"),
        "{}",
        measured.stderr
    );
    let said = plan(&["--distribute-ns", "0.001", "--sort-ns", "0.001"]);
    assert!(!said.stderr.contains("measur"), "{}", said.stderr);
    assert!(cpu(&measured) > cpu(&said));
}

#[test]
fn a_plan_says_how_often_the_data_go_to_scratch_and_which_memory_makes_it_once() {
    let place = TestDir::new();
    let plan = |memory: &str| {
        let job = ["sim", "plan", "--size", "200GiB", "--record-bytes", "8"];
        let costs = [
            "--distribute-ns=1",
            "--sort-ns=1",
            "--cores=4",
            "--memory",
            memory,
        ];
        place.run(&[&job[..], &costs].concat()).ok().text()
    };
    let twice = plan("1GiB");
    let (_, line) = twice.split_once("\n2 distributions: ").unwrap();
    let (_, line) = line.split_once("; --memory ").unwrap();
    let (memory, _) = line.split_once(" is enough\n").unwrap();
    let once = plan(memory);
    assert!(
        once.contains("\n1 distribution: the data go to scratch once\n"),
        "{once}"
    );
}

#[test]
fn results_never_take_the_place_of_others_unasked() {
    let place = TestDir::new();
    place.write(
        "probe",
        b"[[drive]]\ndir = \"/d\"\nread_bandwidth = \"7GB/s\"\n",
    );
    let run = ["sim", "run", "--flow", "requests=500"];
    let sweep = [
        "sim",
        "sweep",
        "--vary",
        "flow.depth=1,2",
        "--flow",
        "requests=500",
    ];
    let policies = [
        "sim",
        "policies",
        "mechanisms",
        "--burst",
        "--requests",
        "500",
    ];
    for (command, option, name) in [
        (&run[..], "--requests", "requests.csv"),
        (&run, "--latency-svg", "latency.svg"),
        (&run, "--iops-svg", "iops.svg"),
        (&sweep, "--csv", "points.csv"),
        (&sweep, "--svg", "points.svg"),
        (&run, "-o", "run.html"),
        (&sweep, "-o", "sweep.html"),
        (&["sim", "calibrate", "probe"], "-o", "drive.toml"),
        (&policies, "--out", "policies.csv"),
    ] {
        let target = if option == "--out" { "." } else { name };
        let command = [command, &[option, target]].concat();
        place.write(name, b"another's");
        place
            .run(&command)
            .fails(2, &[name, "exists already"], "--force");
        assert_eq!(place.read(name), b"another's", "{name}");
        place.run(&[&command[..], &["--force"]].concat()).ok();
        assert_ne!(place.read(name), b"another's", "{name}");
    }
    let names = place.names();
    assert!(
        !names.iter().any(|name| name.ends_with(".part")),
        "{names:?}"
    );
}

#[test]
fn runs_sweeps_and_replays_are_pages_with_the_figures_that_are_printed() {
    let place = TestDir::new();
    place.write(
        "t.csv",
        b"128166372003061629,hm,0,Read,383496192,32768,1331\n\
          128166372016382155,hm,0,Write,2822144,65536,736\n",
    );
    let flow = ["--flow", "requests=2000", "--flow", "depth=4"];
    let run = [
        &["sim", "run", "--json", "-o", "a.html", "-o", "a.json"][..],
        &flow,
    ]
    .concat();
    let printed = place.run(&run).ok().text();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let page = place.read("a.html");
    let page = String::from_utf8_lossy(&page);
    for text in [
        "p41, simulated",
        "2,000 requests in",
        "<svg",
        "flash dies",
        "depth=4",
        "response time over time",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let report: serde_json::Value = serde_json::from_slice(&place.read("a.json")).unwrap();
    assert_eq!(report["headlines"][0]["value"], printed["total"]["iops"]);
    let flows = &report["sections"][0]["tables"][0]["rows"];
    assert_eq!(flows.as_array().map(Vec::len), Some(1));
    let charts = report["sections"][0]["charts"].as_array().unwrap();
    let response = charts.iter().find(|chart| chart["id"] == "response");
    let points = response.and_then(|chart| chart["series"][0]["points"].as_array());
    assert_eq!(points.map(Vec::len), Some(10), "200 requests per point");
    let sweep = ["sim", "sweep", "--vary", "flow.depth=1,8", "-o", "s.json"];
    let printed = place.run(&[&sweep[..], &flow[..2]].concat()).ok().text();
    let one = [&sweep[..], &flow[..2], &["--threads", "1", "--force"]].concat();
    assert_eq!(
        place.run(&one).ok().text(),
        printed,
        "independent of threads"
    );
    let none = [&sweep[..4], &["--threads", "0"]].concat();
    place.run(&none).fails(2, &["--threads", "0"], "");
    let report: serde_json::Value = serde_json::from_slice(&place.read("s.json")).unwrap();
    let points = &report["sections"][0]["tables"][0]["rows"];
    assert_eq!((&points[0][0], &points[1][0]), (&"1".into(), &"8".into()));
    assert!(points[0][1].as_f64() < points[1][1].as_f64(), "{points}");
    let replay = ["sim", "replay", "t.csv", "--drives", "2", "-o", "r.html"];
    place.run(&replay).ok();
    let page = place.read("r.html");
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("t.csv on 2 simulated drives") && page.contains("The limit:"));
    let wrong = place.run(&[&replay[..6], &["r.pdf"]].concat());
    wrong.fails(2, &["unknown form `pdf`"], ".html");
}

#[test]
fn a_divided_drive_shows_what_its_parts_wrote_and_which_requests_failed() {
    let place = TestDir::new();
    place.write(
        "d.toml",
        b"precondition = true\n[flash]\nblocks = 64\npages = 32\n[namespaces]\nsizes = [\"256MiB\", \"0B\"]\n\
          [fdp]\nhandles = 2\n[zones]\nnamespaces = [1]\n",
    );
    let run = [
        "sim",
        "run",
        "--ssd",
        "d.toml",
        "--flow",
        "read=0",
        "--flow",
        "requests=500",
    ];
    let zoned = [&run[..], &["--flow", "namespace=1", "--flow", "handle=1"]].concat();
    let log = [&zoned[..], &["--flow", "pattern=streaming", "-o", "a.json"]].concat();
    let printed = place.run(&log).ok().text();
    for line in [
        "namespace 1: write amplification 1.000",
        "handle 1:",
        "zones: ",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let report: serde_json::Value = serde_json::from_slice(&place.read("a.json")).unwrap();
    let sections = report["sections"].as_array().unwrap();
    let parts = sections
        .iter()
        .find(|section| section["id"] == "parts")
        .unwrap();
    assert_eq!(parts["tables"].as_array().map(Vec::len), Some(2));
    // Random writes are no writes of zones.
    let random = place.run(&zoned).ok();
    assert!(
        random.stderr.contains("failed: Zone Invalid Write"),
        "{}",
        random.stderr
    );
    let none = [&run[..], &["--flow", "namespace=2"]].concat();
    place.run(&none).fails(2, &["names namespace 2"], "");
    place.write(
        "r.jsonl",
        b"{\"id\":1,\"drive\":0,\"op\":\"read\",\"offset\":0,\"bytes\":4096,\"after\":[]}\n",
    );
    let replay = [
        "sim", "replay", "r.jsonl", "--ssd", "d.toml", "--drives", "1",
    ];
    place
        .run(&replay)
        .fails(2, &["has namespaces, but is used as a whole"], "");
}

#[test]
fn a_signal_ends_a_simulation_as_it_ends_every_command() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = TestDir::new();
    for (signal, json) in [(Signal::INT, false), (Signal::TERM, true)] {
        let words = ["sim", "run", "--flow", "requests=100000000"];
        let words = [&words[..], if json { &["--json"] } else { &[] }].concat();
        let mut child = place.spawn(&words);
        let status = || {
            let path = format!("/proc/{}/status", child.id());
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let catches = |status: String| {
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigCgt:"))
                .map(str::trim);
            mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
                .is_some_and(|mask| mask & 2 != 0)
        };
        wait_until("the handlers", || catches(status()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(wait_for(&mut child).code(), Some(130));
        let answer = Answer::of(child.wait_with_output().unwrap());
        match json {
            true => assert_eq!(answer.event("error")["kind"], "interrupted"),
            false => assert!(answer.stderr.contains("interrupted"), "{answer:?}"),
        }
    }
}

#[test]
fn values_of_a_flow_may_come_in_any_order() {
    let place = TestDir::new();
    let run = |flows: [&str; 2]| {
        let words = ["sim", "run", "--flow", "requests=1000", "--json", "--flow"];
        let words = [&words[..], &[flows[0], "--flow", flows[1]]].concat();
        place.run(&words).ok().text()
    };
    let without_time = |text: String| text.replace(char::is_whitespace, "");
    let one = without_time(run(["depth=0", "interval=20us"]));
    assert_eq!(one, without_time(run(["interval=20us", "depth=0"])));
}

#[test]
fn a_preset_in_a_file_is_the_drive_that_is_simulated_by_name() {
    let place = TestDir::new();
    let words = ["sim", "presets", "p41", "--toml", "--drive-size", "16GiB"];
    let file = place.run(&words).ok().text();
    place.write("drive.toml", file.as_bytes());
    let run = |drive: [&str; 2]| {
        let words = ["sim", "run", "--flow", "requests=2000", "--json"];
        place.run(&[&words[..], &drive].concat()).ok().text()
    };
    assert_eq!(run(["--ssd", "drive.toml"]), run(["--preset", "p41"]));
}

#[test]
fn a_sort_for_which_there_is_too_little_memory_is_refused_as_by_the_engine() {
    let place = TestDir::new();
    let words = [
        "sim",
        "plan",
        "--size",
        "8PB",
        "--memory",
        "1MiB",
        "--sort-ns",
        "1",
    ];
    let answer = place.run(&[&words[..], &["--distribute-ns", "1"]].concat());
    assert_eq!(answer.code, Some(6), "{answer:?}");
    assert!(
        answer.stderr.contains("allow at least --memory"),
        "{answer:?}"
    );
}
