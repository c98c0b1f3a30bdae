//! Datasets of Rust programs against vectors: typed values, lines, records by expression, buckets.
//!
//! Contract: every expected result comes from the standard library; nothing is left on the drives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::Output;
use outcore::dataset::{Context, Mode, Step, field};
use outcore::key::{NpyHeader, RecordFormat};
use outcore::primitives::{Inclusion, Reduction, Scalar};
use outcore::sort::SortOptions;
use outcore::{Error, Kind};

use super::kit::{bytes_of, numbers};

/// A directory with `items` in two files, and a context with its scratch there.
struct Here {
    dir: tempfile::TempDir,
    ctx: Context,
    items: Vec<u64>,
}

impl Here {
    fn of(count: usize) -> Self {
        Here::with(count, "48MiB", 2)
    }

    fn with(count: usize, memory: &str, threads: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let items = numbers(count, 3);
        let (front, behind) = items.split_at(count / 3);
        std::fs::write(dir.path().join("keys-0.bin"), bytes_of(front)).unwrap();
        std::fs::write(dir.path().join("keys-1.bin"), bytes_of(behind)).unwrap();
        std::fs::create_dir(dir.path().join("scratch")).unwrap();
        let ctx = Context::builder().memory(memory).threads(threads);
        let ctx = ctx.drive(dir.path().join("scratch")).build().unwrap();
        Here { dir, ctx, items }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn keys(&self) -> PathBuf {
        self.path("keys-*.bin")
    }

    fn check_scratch(&self) {
        let left: Vec<_> = walk(&self.path("scratch"));
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

fn u64s(path: &Path) -> Vec<u64> {
    bytemuck::pod_collect_to_vec(&std::fs::read(path).unwrap())
}

#[test]
fn steps_fuse_and_a_sort_can_stand_anywhere() {
    let here = Here::of(60_000);
    let even = here
        .ctx
        .read::<u64>(here.keys())
        .unwrap()
        .filter(|x| x % 2 == 0);
    let mut expected: Vec<u64> = here.items.iter().copied().filter(|x| x % 2 == 0).collect();
    expected.sort_unstable();

    let done = even.clone().sort().write(here.path("even.bin")).unwrap();
    assert_eq!(u64s(&here.path("even.bin")), expected);
    assert_eq!(done.records, expected.len() as u64);
    assert_eq!(done.passes, 1, "filtered and sorted in memory");

    // Further steps follow the sort, without a file of the user in between.
    let thirds: Vec<u64> = expected
        .iter()
        .map(|x| x / 3)
        .filter(|x| x % 5 == 1)
        .collect();
    let behind = even.clone().sort().map(|x| x / 3).filter(|x| x % 5 == 1);
    assert_eq!(behind.clone().collect().unwrap(), thirds);
    assert_eq!(behind.clone().first().unwrap(), thirds.first().copied());
    assert_eq!(behind.clone().count().unwrap(), thirds.len() as u64);
    assert_eq!(
        behind.clone().sum().unwrap(),
        thirds.iter().map(|x| u128::from(*x)).sum()
    );
    assert_eq!(
        behind.explain(),
        "read u64 -> filter -> sort\nread -> map -> filter"
    );
    let mut found = Vec::new();
    let take = |items: &[u64]| {
        found.extend_from_slice(items);
        Ok(())
    };
    even.clone().sort().for_each_in_order(take).unwrap();
    assert_eq!(found, expected);
    here.check_scratch();
}

#[test]
fn a_sort_behind_steps_takes_items_from_their_pass_with_no_file_between() {
    const COUNT: usize = 3_000_000;
    let dir = tempfile::tempdir().unwrap();
    let items = numbers(COUNT, 8);
    std::fs::write(dir.path().join("keys.bin"), bytes_of(&items)).unwrap();
    let ctx = Context::builder().memory("12MiB").threads(2);
    let ctx = ctx.drive(dir.path()).build().unwrap();
    let keys = || ctx.read::<u64>(dir.path().join("keys.bin")).unwrap();
    let out = dir.path().join("out.bin");
    let input_bytes = 8.0 * COUNT as f64;

    // All items are read once, written to scratch, read back, and written to the output.
    let mut expected: Vec<u64> = items.iter().map(|x| x.rotate_left(7)).collect();
    expected.sort_unstable();
    let done = keys().map(|x| x.rotate_left(7)).sort().write_over(&out);
    let done = done.unwrap();
    assert!(u64s(&out) == expected);
    assert_eq!((done.records, done.passes), (COUNT as u64, 2));
    let moved = (done.read_bytes as f64, done.written_bytes as f64);
    assert!(moved.0 < 2.3 * input_bytes, "reads {moved:?}");
    assert!(moved.1 < 2.2 * input_bytes, "writes {moved:?}");

    // The plan predicts the bytes that the pass reads, but not the bytes that the pass makes from
    // them.
    let halves = keys().map(|x| x as u32).sort().write_over(&out).unwrap();
    let mut phases = halves.phases.iter();
    let first = phases.find(|phase| phase.name == "distribute").unwrap();
    let planned_bytes = first
        .predicted
        .as_ref()
        .unwrap()
        .read_bytes
        .bytes()
        .unwrap();
    let slack_bytes = input_bytes as u64 / 10;
    assert!(
        first.read_bytes.abs_diff(planned_bytes) < slack_bytes,
        "{first:?}"
    );

    // A few items, mostly close together, so that evenly spread samples miss them: a bucket that
    // the plan did not foresee is split.
    let is_taken = |(index, _): &(u64, u64)| (1000..400_000).contains(index) || index % 1009 == 0;
    let numbered = items.iter().copied().enumerate();
    let taken = numbered
        .map(|(index, x)| (index as u64, x))
        .filter(is_taken);
    let mut expected: Vec<u64> = taken.map(|(_, x)| x % 5000).collect();
    expected.sort_unstable();
    let few = || {
        let numbered = keys().enumerate().filter(is_taken);
        numbered.map(|(_, x)| x % 5000)
    };
    few().sort().write_over(&out).unwrap();
    assert!(u64s(&out) == expected);
    expected.dedup();
    few().unique().write_over(&out).unwrap();
    assert!(u64s(&out) == expected);

    // The items go to a closure. After that, an empty dataset is sorted.
    let mut found = Vec::new();
    let take = |items: &[u64]| {
        found.extend_from_slice(items);
        Ok(())
    };
    few().unique().for_each_in_order(take).unwrap();
    assert_eq!(found, expected);
    let none = keys().filter(|_| false).sort().collect().unwrap();
    assert!(none.is_empty());

    // An error of the function fails the sort.
    let late = AtomicU64::new(0);
    let failing = keys().map(|x| match late.fetch_add(1, Ordering::Relaxed) {
        2_000_000.. => panic!("on purpose"),
        _ => x,
    });
    let error = failing.sort().write(dir.path().join("none.bin"));
    assert!(error.unwrap_err().to_string().contains("on purpose"));
    assert!(!dir.path().join("none.bin").exists());
    drop(ctx);
    assert_eq!(walk(dir.path()).len(), 2, "{:?}", walk(dir.path()));
}

#[test]
fn items_are_zipped_numbered_reversed_scanned_and_windowed() {
    let here = Here::of(10_000);
    let all = || here.ctx.read::<u64>(here.keys()).unwrap();
    let items = &here.items;
    let numbered = all().enumerate().map(|(index, x)| index ^ x);
    let expected: Vec<u64> = (0..)
        .zip(items)
        .map(|(index, x): (u64, &u64)| index ^ x)
        .collect();
    assert_eq!(numbered.collect().unwrap(), expected);
    let pairs = all()
        .zip(all().reverse())
        .map(|(a, b)| [a, b])
        .collect()
        .unwrap();
    let reversed: Vec<u64> = items.iter().rev().copied().collect();
    let expected: Vec<[u64; 2]> = items.iter().zip(&reversed).map(|(a, b)| [*a, *b]).collect();
    assert_eq!(pairs, expected);
    let odd = all().filter(|x| x % 2 == 1).reverse().collect().unwrap();
    let expected: Vec<u64> = reversed.iter().copied().filter(|x| x % 2 == 1).collect();
    assert_eq!(odd, expected);
    let sums = all()
        .scan(0, u64::wrapping_add, Inclusion::Inclusive)
        .collect()
        .unwrap();
    let add = |sum: &mut u64, x: &u64| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    };
    assert_eq!(sums, items.iter().scan(0, add).collect::<Vec<u64>>());
    let steps = all()
        .windows::<2>()
        .map(|[a, b]| b.wrapping_sub(a))
        .collect()
        .unwrap();
    let expected: Vec<u64> = items.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert_eq!(steps, expected);
    let twice = all().flat_map(|x| [x, x]).unique().collect().unwrap();
    let mut expected = items.clone();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(twice, expected);
    let largest = all().top_k(3, u64::cmp).unwrap();
    let mut all_sorted = items.clone();
    all_sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(largest, all_sorted[..3]);
    let mut shuffled = all().shuffle(5).collect().unwrap();
    assert_ne!(&shuffled, items);
    shuffled.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(shuffled, all_sorted);
    let sums = all().map(|x| (x as usize % 10, 1u64));
    let counts = sums.reduce_by_index(10, 0, |a, b| a + b).unwrap();
    assert_eq!(
        counts,
        all()
            .map(|x| x as usize % 10)
            .histogram_by_index(10)
            .unwrap()
    );
    assert_eq!(counts.iter().sum::<u64>(), items.len() as u64);
    here.check_scratch();
}

#[test]
fn records_of_a_program_are_sorted_by_the_keys_of_a_format() {
    let here = Here::of(3000);
    let pairs = here.ctx.tabulate(3000, |i| [i % 7, 3000 - i]);
    let by_first = RecordFormat::parse_record(16, &["0:8:u64:desc"]).unwrap();
    let found = pairs
        .clone()
        .sort_by(&by_first, SortOptions::default())
        .collect()
        .unwrap();
    let mut expected: Vec<[u64; 2]> = (0..3000).map(|i| [i % 7, 3000 - i]).collect();
    expected.sort_unstable_by(|a, b| {
        b[0].cmp(&a[0])
            .then(a[1].to_le_bytes().cmp(&b[1].to_le_bytes()))
    });
    assert_eq!(found, expected);
    expected.sort_unstable();
    assert_eq!(pairs.clone().sort().collect().unwrap(), expected);
    let wrong = RecordFormat::parse_type("u64").unwrap();
    let error = pairs
        .sort_by(&wrong, SortOptions::default())
        .collect()
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

#[test]
fn files_that_are_in_order_are_merged_in_one_pass() {
    let here = Here::of(30_000);
    let put = |order: fn(&u64, &u64) -> std::cmp::Ordering| {
        let (front, behind) = here.items.split_at(10_000);
        for (name, part) in [("keys-0.bin", front), ("keys-1.bin", behind)] {
            let mut part = part.to_vec();
            part.sort_unstable_by(order);
            std::fs::write(here.path(name), bytes_of(&part)).unwrap();
        }
        let mut all = here.items.clone();
        all.sort_unstable_by(order);
        all
    };
    let mut expected = put(u64::cmp);
    let all = || here.ctx.read::<u64>(here.keys()).unwrap();
    let done = all().merge().write(here.path("merged.bin")).unwrap();
    assert!(u64s(&here.path("merged.bin")) == expected);
    assert_eq!((done.records, done.passes), (30_000, 1));
    // Between other steps, the result of a merge is on scratch, like that of a sort.
    let odd = all().merge().filter(|x| x % 2 == 1);
    assert_eq!(odd.explain(), "read u64 -> merge\nread -> filter");
    expected.retain(|x| x % 2 == 1);
    assert!(odd.collect().unwrap() == expected);

    // In descending order, and by the keys of a format.
    let falling = put(|a, b| b.cmp(a));
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let options = SortOptions {
        descending: true,
        ..SortOptions::default()
    };
    assert!(all().merge_by(&u64s, options).collect().unwrap() == falling);

    let error = all().map(|x| x + 1).merge().count().unwrap_err();
    assert!(
        error.to_string().contains("before any other step"),
        "{error}"
    );
    let u32s = RecordFormat::parse_type("u32").unwrap();
    let error = all().merge_by(&u32s, options).count().unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    here.check_scratch();
}

#[test]
fn lines_are_sorted_by_fields_counted_and_read_while_they_are_made() {
    let here = Here::of(10);
    let lines: Vec<String> = (0..5000)
        .map(|i| format!("w{} {}.5", i % 13, (i * 7919) % 5000))
        .collect();
    std::fs::write(here.path("log"), lines.join("\n")).unwrap();
    let log = || here.ctx.lines(here.path("log")).unwrap();
    let mut expected = lines.clone();
    let number = |line: &String| line.split(' ').nth(1).unwrap().parse::<f64>().unwrap();
    expected.sort_by(|a, b| number(b).total_cmp(&number(a)).then(a.cmp(b)));
    let by_number = field(2).numeric().descending();
    log().sort_by(by_number).write(here.path("sorted")).unwrap();
    let sorted = std::fs::read_to_string(here.path("sorted")).unwrap();
    assert!(sorted.lines().eq(expected.iter().map(String::as_str)));
    let mut found = Vec::new();
    let done = log().sort_by(by_number).for_each(|line| {
        found.push(String::from_utf8_lossy(line).into_owned());
        Ok(())
    });
    assert_eq!((found, done.unwrap().records), (expected, 5000));
    assert_eq!(log().count().unwrap(), 5000);
    let mut seen = 0;
    let error = log().shuffle(1).for_each(|_| {
        seen += 1;
        match seen {
            10 => Err(Error::usage("read", "enough")),
            _ => Ok(()),
        }
    });
    assert_eq!(error.unwrap_err().kind(), Kind::Usage);
    assert_eq!(seen, 10);
    assert!(
        log()
            .sort()
            .explain()
            .unwrap()
            .contains("read lines -> sort")
    );
    here.check_scratch();
}

#[test]
fn items_of_a_size_known_only_when_it_runs_go_through_expressions() {
    let here = Here::of(20_000);
    let format = RecordFormat::parse_type("u64").unwrap();
    let all = || here.ctx.records(here.keys(), &format).unwrap();
    let run =
        |dataset: outcore::dataset::Dataset| dataset.execute(Arc::new(here.ctx.clone()), Mode::Run);
    let odd = all().filter("x % 2 == 1").map("x // 3");
    let (found, done) = run(odd)
        .reduce(&[Reduction::Sum, Reduction::Count])
        .unwrap();
    let expected = here
        .items
        .iter()
        .filter(|x| *x % 2 == 1)
        .map(|x| i128::from(x / 3));
    let count = here.items.iter().filter(|x| *x % 2 == 1).count();
    assert_eq!(
        found,
        [Scalar::Int(expected.sum()), Scalar::Int(count as i128)]
    );
    assert_eq!(done.passes, 1);
    let sorted = all().then(Step::Sort {
        by: None,
        options: SortOptions::default(),
    });
    let mut execution = run(sorted.map("x * 2"));
    execution.take_steps().unwrap();
    let output = Output::File {
        path: here.path("doubled"),
        header: None,
    };
    let done = execution.write(output, false).unwrap();
    let mut expected: Vec<u64> = here.items.clone();
    expected.sort_unstable();
    let expected: Vec<u64> = expected.into_iter().map(|x| x.wrapping_mul(2)).collect();
    assert_eq!(u64s(&here.path("doubled")), expected);
    assert_eq!((done.records, done.passes), (20_000, 2));
    drop(execution);
    here.check_scratch();
}

#[test]
fn buckets_that_were_distributed_are_changed_by_as_many_threads_as_there_is_memory_for() {
    for (memory, threads) in [("64MiB", 16), ("32MiB", 16), ("48MiB", 5)] {
        let here = Here::with(30_000, memory, threads);
        let all = here.ctx.read::<u64>(here.keys()).unwrap();
        let buckets = all.distribute(16, |x| (x % 16) as usize).unwrap();
        let changed = buckets.update(
            |_| true,
            |_, items| {
                items.iter_mut().for_each(|item| *item = !*item);
                Ok(())
            },
        );
        changed.unwrap().write(here.path("out")).unwrap();
        let mut found = u64s(&here.path("out"));
        found.sort_unstable();
        let mut expected: Vec<u64> = here.items.iter().map(|item| !item).collect();
        expected.sort_unstable();
        assert!(found == expected, "{memory}, {threads} threads");
        here.check_scratch();
    }
}

#[test]
fn a_bucket_that_does_not_fit_names_the_memory_that_is_enough() {
    let change = |memory: &str| {
        let here = Here::with(600_000, memory, 2);
        let all = here.ctx.read::<u64>(here.keys()).unwrap();
        all.distribute(1, |_| 0)?.update(|_| true, |_, _| Ok(()))?;
        Ok::<(), outcore::Error>(())
    };
    let error = change("14MiB").unwrap_err();
    assert_eq!(error.operation(), "load a bucket", "{error}");
    let hint = error.next_step().unwrap();
    let enough = hint.split("allow ").nth(1).unwrap();
    change(enough.split(' ').next().unwrap()).unwrap();
}

#[test]
fn buckets_are_changed_by_themselves_and_read_one_after_another() {
    let here = Here::of(30_000);
    let all = here.ctx.read::<u64>(here.keys()).unwrap();
    let buckets = all.distribute(8, |x| (x % 8) as usize).unwrap();
    let counts: Vec<u64> = (0..8)
        .map(|b| here.items.iter().filter(|x| *x % 8 == b).count() as u64)
        .collect();
    assert_eq!(buckets.counts(), counts);
    let sorted = buckets.update(
        |bucket| bucket != 3,
        |_, items| {
            items.sort_unstable();
            Ok(())
        },
    );
    sorted.unwrap().write(here.path("out")).unwrap();
    let mut expected = Vec::new();
    for bucket in 0..8 {
        let mut items: Vec<u64> = here
            .items
            .iter()
            .copied()
            .filter(|x| x % 8 == bucket)
            .collect();
        if bucket != 3 {
            items.sort_unstable();
        }
        expected.extend(items);
    }
    assert_eq!(u64s(&here.path("out")), expected);
    let all = here.ctx.read::<u64>(here.keys()).unwrap();
    let sums = all
        .distribute_indexed(4, |index, _| (index % 4) as usize)
        .unwrap();
    let sums = sums
        .map(|bucket, items| Ok(vec![[bucket as u64, items.len() as u64]]))
        .unwrap();
    let found = sums.dataset().collect().unwrap();
    assert_eq!(found, [[0, 7500], [1, 7500], [2, 7500], [3, 7500]]);
    here.check_scratch();
}

#[test]
fn what_makes_no_sense_is_refused_with_a_next_step() {
    let here = Here::of(100);
    let ctx = &here.ctx;
    let error = ctx.read::<u64>(here.path("none-*.bin")).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    let all = || ctx.read::<u64>(here.keys()).unwrap();
    let error = all().write(here.path("keys-0.bin")).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    assert!(all().write(here.path("out.npy")).is_err());
    let small = Context::builder().memory("nothing").build();
    assert_eq!(small.err().unwrap().kind(), Kind::Usage);
    assert_eq!(u64s(&here.path("keys-0.bin")), here.items[..33]);
    let header = outcore::key::NpyHeader::of_format(&RecordFormat::parse_type("f32").unwrap(), 3);
    let mut array = header.unwrap().encode(3);
    array.extend_from_slice(bytemuck::cast_slice(&[1.0f32, 2.0, 3.0]));
    std::fs::write(here.path("a.npy"), array).unwrap();
    assert_eq!(
        ctx.read::<f32>(here.path("a.npy")).unwrap().sum().unwrap(),
        6.0
    );
    assert!(ctx.read::<f64>(here.path("a.npy")).is_err());
}

#[test]
fn arrays_of_other_numbers_are_refused_and_manifests_mean_their_shards() {
    let here = Here::of(3_000);
    let array = here.path("keys.npy");
    let format = RecordFormat::parse_type("u64").unwrap();
    let header = NpyHeader::of_format(&format, 3_000).unwrap();
    std::fs::write(
        &array,
        [header.encode(3_000), bytes_of(&here.items)].concat(),
    )
    .unwrap();
    let read = here.ctx.read::<u64>(&array).unwrap();
    assert_eq!(read.collect().unwrap(), here.items);
    // Files of the same number of bytes hold other numbers; a type of the caller means whatever the
    // caller says.
    for error in [
        here.ctx.read::<f64>(&array).err().unwrap(),
        here.ctx.read::<i64>(&array).err().unwrap(),
        here.ctx
            .records(&array, &RecordFormat::parse_type("f64").unwrap())
            .err()
            .unwrap(),
    ] {
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.cause().contains("its header says u64"), "{error}");
    }
    let pairs = here.ctx.read::<[u8; 8]>(&array).unwrap();
    assert_eq!(pairs.count().unwrap(), 3_000);
    let shards = Output::Shards {
        paths: ["0.bin", "1.bin"].map(|name| here.path(name)).to_vec(),
        manifest: here.path("sorted.outcore.json"),
    };
    let all = here.ctx.read::<u64>(here.keys()).unwrap();
    all.sort().write_to(shards, false).unwrap();
    let mut sorted = here.items.clone();
    sorted.sort_unstable();
    let read = here
        .ctx
        .read::<u64>(here.path("sorted.outcore.json"))
        .unwrap();
    assert_eq!(read.collect().unwrap(), sorted);
    // A file in the place of a shard is not that shard.
    std::fs::write(here.path("1.bin"), bytes_of(&[1, 2, 3])).unwrap();
    let error = here
        .ctx
        .read::<u8>(here.path("sorted.outcore.json"))
        .err()
        .unwrap();
    assert!(error.cause().contains("the manifest says"), "{error}");
}
