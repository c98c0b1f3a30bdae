//! Predictions of passes equal what drives then move.
//!
//! Contract: each phase of each pass has a forecast, except for samples and publishing. If the
//! forecast is a number of bytes, that many are moved, apart from border blocks; if it is a bound,
//! at most that many. If no number can be known, the forecast has none.

use outcore::key::CheckOptions;
use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::primitives::group::{group, plan_group};
use outcore::primitives::table::Table;
use outcore::primitives::write::{Fate, plan_of, produce};
use outcore::primitives::{
    BucketFiles, GroupedBy, Grouping, Inclusion, Reduction, Summary, gather, merge, partition,
    read, reduce_table, reverse, scan, top_k, windows, write,
};
use outcore::runs::{BuildOptions, build};
use outcore::sort::SortOptions;
use outcore::verify::verify;
use outcore::{Forecast, Input, Output, Phase, PhasePlan, Sequence};

use super::kit::{bytes_of, file, numbers, piped, put, ram_job};

/// Items of the data, a few pieces on each drive.
const ITEMS: usize = 1 << 20;
const DATA_BYTES: u64 = 8 * ITEMS as u64;

/// Checks that `phases` moved the predicted bytes.
fn check(what: &str, phases: &[Phase]) {
    assert!(!phases.is_empty(), "{what}");
    for phase in phases {
        if ["publish", "sample", "prepare"].contains(&phase.name) {
            continue;
        }
        let plan = phase.predicted.clone();
        let plan = plan.unwrap_or_else(|| panic!("{what}: {phase:?} is not planned"));
        // Adjacent pieces share a block; for a sort, the sample determines how much stays in
        // memory.
        let share = match phase.name {
            "distribute" | "sort" => 10,
            _ => 20,
        };
        let slack_bytes = DATA_BYTES / share + (64 << 10);
        for (got, predicted) in [
            (phase.read_bytes, plan.read_bytes),
            (phase.written_bytes, plan.written_bytes),
        ] {
            let is_right = match predicted {
                Forecast::About(bytes) => got.abs_diff(bytes) <= slack_bytes,
                Forecast::AtMost(bytes) => got <= bytes,
                Forecast::Unknown => true,
            };
            assert!(is_right, "{what}: {got} is not {predicted}: {phase:?}");
        }
        let is_known = plan.read_bytes.bytes().is_some() && plan.written_bytes.bytes().is_some();
        assert_eq!(plan.seconds.is_some(), is_known, "{what}: {plan:?}");
    }
    let moved: u64 = phases.iter().map(|phase| phase.read_bytes).sum();
    assert!(moved > 0, "{what}");
}

fn names(done: &Summary) -> Vec<&'static str> {
    done.phases.iter().map(|phase| phase.name).collect()
}

fn predicted(done: &Summary, name: &str) -> PhasePlan {
    let phase = done.phases.iter().find(|phase| phase.name == name);
    phase.and_then(|phase| phase.predicted.clone()).unwrap()
}

/// The numbers on three drives.
fn on_drives(device: &outcore_io::drive::testing::RamDevice, items: &[u64]) -> Vec<Input> {
    let third = items.len() / 3;
    let parts = [
        &items[..third],
        &items[third..2 * third],
        &items[2 * third..],
    ];
    let files = parts.iter().enumerate().map(|(drive, part)| {
        let path = format!("/d{drive}/in");
        device.put(&path, bytes_of(part));
        Input::raw(path)
    });
    files.collect()
}

fn shards(name: &str) -> Output {
    Output::Shards {
        paths: (0..3)
            .map(|drive| format!("/d{drive}/{name}").into())
            .collect(),
        manifest: format!("/d0/{name}.json").into(),
    }
}

#[test]
fn a_bound_has_room_for_the_last_block() {
    let (device, job) = ram_job(1, 20_000, 1);
    let inputs = put(&device, "in", &bytes_of(&numbers(1000, 5)), 8, &[], 0);
    let different = read::<u64>(&inputs).filter(|_| true);
    let done = write(&job, &different, &file("/d0/out"), false).unwrap();
    let written = done.phases.iter().find(|phase| phase.name == "write");
    assert_eq!(written.unwrap().written_bytes, 8192);
    let most = Forecast::AtMost(8192);
    assert_eq!(predicted(&done, "write").written_bytes, most);
}

#[test]
fn passes_move_what_they_predict() {
    let items = numbers(ITEMS, 3);
    let u64s = RecordFormat::parse_type("u64").unwrap();
    for threads in [1, 3] {
        let (device, job) = ram_job(threads, 20_000, 1);
        let inputs = on_drives(&device, &items);
        let all = read::<u64>(&inputs);
        let to = |name: &str| file(&format!("/d1/{name}"));

        let done = write(&job, &all.map(|x| x as u32), &to("map"), false).unwrap();
        check("map", &done.phases);
        assert_eq!(names(&done), ["write", "publish"]);
        let half = Forecast::About(DATA_BYTES / 2);
        assert_eq!(predicted(&done, "write").written_bytes, half);
        let even = read::<u64>(&inputs).filter(|x| x % 2 == 0);
        let done = write(&job, &even, &to("filter"), false).unwrap();
        check("filter", &done.phases);
        let most = Forecast::AtMost(DATA_BYTES);
        assert_eq!(predicted(&done, "write").written_bytes, most);
        let both = read::<u64>(&inputs).flat_map(|x| [x, x + 1]);
        let done = write(&job, &both, &to("flat"), false).unwrap();
        check("flat_map", &done.phases);
        assert_eq!(predicted(&done, "write").written_bytes, Forecast::Unknown);
        let mut piped_bytes = 0;
        piped(|output| {
            let done = write(&job, &read::<u64>(&inputs), output, false).unwrap();
            check("pipe", &done.phases);
            piped_bytes = done.phases[0].written_bytes;
        });
        assert_eq!(piped_bytes, DATA_BYTES);

        let add = u64::wrapping_add;
        let done = scan(
            &job,
            &read::<u64>(&inputs),
            0,
            add,
            Inclusion::Inclusive,
            &to("scan"),
            false,
        );
        check("scan", &done.unwrap().phases);
        let done = reverse(&job, &read::<u64>(&inputs), &to("reverse"), false);
        check("reverse", &done.unwrap().phases);
        let (_, done) = top_k(&job, &read::<u64>(&inputs), 10, u64::cmp).unwrap();
        check("top", &done.phases);
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
        let (_, done) = reduce_table(&job, &table, &[Reduction::Sum]).unwrap();
        check("reduce", &done.phases);
        assert_eq!(names(&done), ["reduce"]);
        let files = BucketFiles {
            paths: vec!["/d0/even".into(), "/d1/odd".into()],
            manifest: Some("/d0/parts.json".into()),
            replace: false,
            header: None,
        };
        let (_, done) = partition(&job, &read::<u64>(&inputs), |x| x % 2 == 0, &files).unwrap();
        check("partition", &done.phases);
        assert_eq!(names(&done), ["distribute", "publish"]);
        let positions: Vec<u64> = (0..20_000).map(|i| i * 37 % ITEMS as u64).collect();
        let (_, done) = gather(&job, &inputs, 8, &positions).unwrap();
        check("gather", &done.phases);
        let three = windows::<u64, 3>(&job, &inputs)
            .unwrap()
            .map(|[a, b, c]| a ^ b ^ c);
        let done = write(&job, &three, &to("windows"), false).unwrap();
        check("windows", &done.phases);
        let read_bytes = done.phases[0].read_bytes;
        assert!(
            read_bytes < DATA_BYTES + DATA_BYTES / 10,
            "read once: {read_bytes}"
        );
        let report = verify(&job, &inputs, &u64s, CheckOptions::default()).unwrap();
        check("verify", &report.phases);
        assert!(job.budget.used_bytes() == 0);
    }
}

#[test]
fn a_scan_over_several_drives_predicts_and_counts_both_reads() {
    let (device, job) = ram_job(2, 12_000, 1);
    let inputs = on_drives(&device, &numbers(4 * ITEMS, 4));
    let add = u64::wrapping_add;
    let done = scan(
        &job,
        &read::<u64>(&inputs),
        0,
        add,
        Inclusion::Exclusive,
        &shards("scan"),
        false,
    )
    .unwrap();
    check("scan", &done.phases);
    assert_eq!(names(&done), ["reduce", "write", "publish"]);
    assert_eq!(done.passes, 2);
    let read_bytes: u64 = done.phases.iter().map(|phase| phase.read_bytes).sum();
    assert_eq!(done.read_bytes, read_bytes, "both reads are counted");
    assert!(done.read_bytes > 6 * DATA_BYTES);
}

#[test]
fn merges_move_what_they_predict() {
    let (device, job) = ram_job(2, 20_000, 1);
    let mut items = numbers(ITEMS, 5);
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let parts = items.chunks_mut(ITEMS / 4).map(|part| {
        part.sort_unstable();
        bytes_of(part)
    });
    let files = parts.enumerate().map(|(number, part)| {
        let path = format!("/d{}/in-{number}", number % 3);
        device.put(&path, part);
        Input::raw(path)
    });
    let inputs: Vec<Input> = files.collect();
    let done = merge(
        &job,
        &inputs,
        &u64s,
        SortOptions::default(),
        &file("/d1/out"),
    )
    .unwrap();
    check("merge", &done.phases);
    assert_eq!(names(&done), ["merge", "publish"]);
    assert_eq!(done.read_bytes, done.phases[0].read_bytes);
    assert_eq!(done.passes, 1);
    assert_eq!(done.drives.len(), 3, "each drive once: {:?}", done.drives);
    items.sort_unstable();
    assert!(device.get("/d1/out") == Some(bytes_of(&items)));
}

#[test]
fn groups_move_what_their_plan_predicts() {
    let u64s = RecordFormat::parse_type("u64").unwrap();
    for (distinct, by) in [(5000, GroupedBy::Hash), (u64::MAX, GroupedBy::Sort)] {
        let (device, job) = ram_job(2, 12_000, 1);
        let items: Vec<u64> = numbers(ITEMS, 6).iter().map(|x| x % distinct).collect();
        let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 0);
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
        let plan = plan_group(&job, &table, &u64s, Grouping::Counted, "count each").unwrap();
        assert_eq!(plan.by, by);
        let done = group(
            &job,
            &table,
            &u64s,
            Grouping::Counted,
            &file("/d1/counts"),
            false,
        )
        .unwrap();
        assert_eq!(done.by, by);
        let text = plan.to_string();
        assert!(text.contains("predicted: reads"), "{text}");
        for planned in &plan.pass.phases {
            let phase = done
                .pass
                .phases
                .iter()
                .find(|phase| phase.name == planned.name);
            assert!(
                phase.is_some(),
                "{planned:?} was not done: {:?}",
                done.pass.phases
            );
        }
        let phases: Vec<Phase> = done.pass.phases.clone();
        check("count each", &phases);
        let moved: u64 = phases.iter().map(|phase| phase.read_bytes).sum();
        assert_eq!(done.pass.read_bytes, moved);
    }
}

#[test]
fn views_move_what_they_predict() {
    let (device, job) = ram_job(2, 20_000, 1);
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let inputs = put(&device, "in", &bytes_of(&numbers(ITEMS, 7)), 8, &[], 0);
    let dir = tempfile::tempdir().unwrap();
    let options = BuildOptions::default();
    let (view, built) = build(&job, &inputs, dir.path(), &u64s, options).unwrap();
    check("view build", &built.phases);
    let written = view.write_file(&file("/d1/out"), false).unwrap();
    check("view", &written.phases);
    assert_eq!(written.phases[0].name, "merge");
    piped(|output| {
        let count = ITEMS as u64;
        let written = view.write_to(count / 4..count / 2, output, false).unwrap();
        check("part of a view", &written.phases);
        assert_eq!(written.phases[0].written_bytes, DATA_BYTES / 4);
    });
    let report = view.verify().unwrap();
    check("verify of a view", &[report.phase]);
}

#[test]
fn plans_say_before_what_summaries_say_after() {
    let (device, job) = ram_job(2, 20_000, 1);
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let inputs = put(&device, "in", &bytes_of(&numbers(ITEMS, 8)), 8, &[], 0);
    let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
    let mapped = table.map("x * 2").unwrap();
    let plan = plan_of(&job, &mapped, "write", &[Fate::Written]).unwrap();
    let done = produce(&job, &mapped, &file("/d0/out"), false).unwrap();
    let same = predicted(&done, "write");
    assert_eq!(plan.phases[0].read_bytes, same.read_bytes);
    assert_eq!(plan.phases[0].written_bytes, same.written_bytes);
    assert!(
        plan.predicted()
            .seconds
            .is_some_and(|seconds| seconds > 0.0)
    );
    let filtered = table.filter("x % 2 == 0").unwrap();
    let plan = plan_of(&job, &filtered, "write", &[Fate::Written]).unwrap();
    let text = plan.to_string();
    assert!(text.contains("writes at most 8.00 MiB, at most"), "{text}");
    assert!(text.contains("computing not counted"), "{text}");
    let many = table.flat_map(&["x".into(), "x".into()]).unwrap();
    let plan = plan_of(&job, &many, "write", &[Fate::Written]).unwrap();
    assert_eq!(plan.predicted().seconds, None);
    let text = plan.to_string();
    assert!(text.contains("not known in advance"), "{text}");
}
