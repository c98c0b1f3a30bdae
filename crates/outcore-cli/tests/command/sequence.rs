//! The primitives as commands: their outputs, pipes, plans and errors.
//!
//! Contract: expected results come from iterators over the whole data.

use crate::support::*;

const COUNT: usize = 200_000;

pub(crate) fn keys(bytes: &[u8]) -> Vec<u64> {
    let number = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
    bytes.chunks(8).map(number).collect()
}

pub(crate) fn bytes(keys: impl IntoIterator<Item = u64>) -> Vec<u8> {
    keys.into_iter().flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn place_with_keys() -> (TestDir, Vec<u64>) {
    let place = TestDir::new();
    let random = random_u64(COUNT, 5);
    place.write("in", &random);
    (place, keys(&random))
}

fn text(answer: Answer) -> String {
    String::from_utf8(answer.ok().stdout).unwrap()
}

#[test]
fn map_filter_and_zip_write_what_iterators_give() {
    let (place, keys) = place_with_keys();
    let u64s = ["--type", "u64", "--memory", "64MiB"];
    let run = |arguments: &[&str]| place.run(&[arguments, &u64s[..]].concat());
    run(&["map", "x * 2 + 1", "in", "-o", "mapped"]).ok();
    let mapped = keys.iter().map(|x| x.wrapping_mul(2).wrapping_add(1));
    assert!(place.read("mapped") == bytes(mapped));
    run(&["filter", "x > 10 and x % 2 == 0", "in", "-o", "even"]).ok();
    let even: Vec<u64> = keys
        .iter()
        .copied()
        .filter(|x| *x > 10 && x % 2 == 0)
        .collect();
    assert!(place.read("even") == bytes(even.clone()));
    run(&["zip", "in", "--zip", "mapped", "-o", "zipped"]).ok();
    let zipped = keys
        .iter()
        .flat_map(|x| [*x, x.wrapping_mul(2).wrapping_add(1)]);
    assert!(place.read("zipped") == bytes(zipped));
    // Inputs in a row are one input: that is not a zip.
    run(&["zip", "in", "mapped", "-o", "row"]).fails(2, &["a second file"], "--zip");
    assert!(!place.path("row").exists());
    let piped = place.run_with_input(
        &[
            "map",
            "x ^ 1",
            "-",
            "-o",
            "-",
            "--type",
            "u64",
            "--where",
            "x % 2 == 0",
        ],
        &place.read("in"),
    );
    let expected = keys.iter().filter(|x| *x % 2 == 0).map(|x| x ^ 1);
    assert!(piped.ok().stdout == bytes(expected));
    place
        .run(&[
            "map",
            "index * index",
            "--integers",
            "1000",
            "-o",
            "squares",
        ])
        .ok();
    assert!(place.read("squares") == bytes((0..1000).map(|i| i * i)));
    let names = place.names();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

#[test]
fn folds_are_printed_exactly() {
    let (place, keys) = place_with_keys();
    let run = |arguments: &[&str]| text(place.run(&[arguments, &["in", "--type", "u64"]].concat()));
    let sum: u128 = keys.iter().map(|x| u128::from(*x)).sum();
    assert_eq!(run(&["reduce", "sum"]), format!("{sum}\n"));
    let odd = keys.iter().filter(|x| *x % 2 == 1).count();
    assert_eq!(
        run(&["reduce", "count", "--where", "x % 2 == 1"]),
        format!("{odd}\n")
    );
    let (least, greatest) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
    assert_eq!(
        run(&["reduce", "min,max"]),
        format!("min\t{least}\nmax\t{greatest}\n")
    );
    let all = keys.iter().fold(0, |a, b| a ^ b);
    assert_eq!(run(&["reduce", "a ^ b"]), format!("{all}\n"));
    assert_eq!(run(&["reduce", "max", "--map", "x % 100"]), "99\n");
    assert_eq!(run(&["reduce", "max", "--where", "x < 0"]), "none\n");
    let answer = place.run(&["reduce", "sum", "in", "--type", "u64", "--json"]);
    let summary = answer.event("summary");
    assert_eq!(summary["results"][0]["value"], sum.to_string());
    assert_eq!(summary["records"], COUNT);
}

#[test]
fn scans_selections_and_buckets_match_naive_ones() {
    let (place, keys) = place_with_keys();
    let run = |arguments: &[&str]| place.run(&[arguments, &["in", "--type", "u64"]].concat());
    run(&["scan", "sum", "-o", "sums"]).ok();
    let sums = keys.iter().scan(0_u64, |sum, x| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    });
    assert!(place.read("sums") == bytes(sums));
    let mut sorted = keys.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let top: String = sorted[..3].iter().map(|x| format!("{x}\n")).collect();
    assert_eq!(text(run(&["top", "-n", "3"])), top);
    let small = ["--memory", "4MiB", "--threads", "1"];
    let many = text(run(&[&["top", "-n", "150000"], &small[..]].concat()));
    let expected: String = sorted[..150_000].iter().map(|x| format!("{x}\n")).collect();
    assert!(many == expected, "more than memory holds come from a sort");
    let wanted = format!("x == {}", keys[COUNT / 2]);
    assert_eq!(text(run(&["find", &wanted])), format!("{}\n", COUNT / 2));
    let answer = run(&["find", "x == 1 and x == 2"]);
    assert_eq!((answer.code, answer.stdout.len()), (Some(1), 0));
    let found = text(run(&[
        "histogram",
        "--map",
        "x % 10",
        "--bins",
        "5",
        "--range",
        "0:10",
    ]));
    let counts: Vec<&str> = found
        .lines()
        .map(|line| line.rsplit('\t').next().unwrap())
        .collect();
    let expected = |bin: u64| {
        keys.iter()
            .filter(|x| *x % 10 / 2 == bin)
            .count()
            .to_string()
    };
    assert_eq!(counts, (0..5).map(expected).collect::<Vec<_>>());
    run(&[
        "partition",
        "x % 3",
        "--parts",
        "3",
        "-o",
        "part-{part}.bin",
    ])
    .ok();
    for part in 0..3 {
        let expected = keys.iter().copied().filter(|x| x % 3 == part);
        assert!(place.read(&format!("part-{part}.bin")) == bytes(expected));
    }
    assert!(place.path("part.bin.outcore.json").exists());
    let positions: Vec<u64> = (0..5000).map(|i| i * 7919 % COUNT as u64).collect();
    place.write("at", &bytes(positions.clone()));
    run(&["gather", "--at", "at", "-o", "gathered"]).ok();
    assert!(place.read("gathered") == bytes(positions.iter().map(|p| keys[*p as usize])));
}

#[test]
fn npy_files_keep_their_types_and_names() {
    let place = TestDir::new();
    let dict = "{'descr': [('id', '<u4'), ('at', '<f4')], 'fortran_order': False, 'shape': (3,), }";
    let header = format!("{dict:<85}\n");
    let header = [&b"\x93NUMPY\x01\x00"[..], &[86, 0], header.as_bytes()].concat();
    let rows: Vec<u8> = [(1_u32, 0.5_f32), (2, 8.0), (3, 2.0)]
        .iter()
        .flat_map(|(id, at)| [id.to_le_bytes(), at.to_le_bytes()].concat())
        .collect();
    place.write("rows.npy", &[header, rows.clone()].concat());
    assert_eq!(
        text(place.run(&["reduce", "sum", "rows.npy", "--map", "id * 2"])),
        "12\n"
    );
    place
        .run(&["filter", "at > 1", "rows.npy", "-o", "late.npy"])
        .ok();
    assert!(place.read("late.npy").ends_with(&rows[8..]));
    assert_eq!(
        text(place.run(&["reduce", "mean", "late.npy", "--map", "at"])),
        "5.0\n"
    );
    let dict = "{'descr': [('value', '>f8')], 'fortran_order': False, 'shape': (3,), }";
    let header = format!("{dict:<85}\n");
    let header = [&b"\x93NUMPY\x01\x00"[..], &[86, 0], header.as_bytes()].concat();
    let values: Vec<u8> = [1.0_f64, 2.0, 3.0]
        .iter()
        .flat_map(|v| v.to_be_bytes())
        .collect();
    place.write("swapped.npy", &[header, values].concat());
    assert_eq!(text(place.run(&["reduce", "sum", "swapped.npy"])), "6.0\n");
}

#[test]
fn plans_are_shown_and_nonsense_is_refused_with_a_hint() {
    let (place, _) = place_with_keys();
    let u64s = ["in", "--type", "u64"];
    let run = |arguments: &[&str]| place.run(&[arguments, &u64s[..]].concat());
    let plan = text(run(&["filter", "x > 1", "-o", "out", "--dry-run"]));
    assert!(
        plan.contains("where x > 1") && plan.contains("once"),
        "{plan}"
    );
    for (arguments, wanted) in [
        (&["map", "x +", "-o", "out"][..], "a value is missing"),
        (&["map", "y", "-o", "out"][..], "`y` is unknown"),
        (&["map", "x", "-o", "in"][..], "one of the inputs"),
        (&["reduce", "a > b"][..], "cast it back"),
        (&["partition", "x % 2", "-o", "plain"][..], "{part}"),
        (
            &["partition", "x", "-o", "part-{part}"][..],
            "there are 2 parts, 0 to 1",
        ),
    ] {
        let answer = run(arguments);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(wanted), "{answer:?}");
        assert!(answer.stderr.contains("hint:"), "{answer:?}");
    }
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn what_stands_on_a_border_of_bins_counts_for_the_bin_above() {
    let place = TestDir::new();
    let values = (0..=49).map(|number| f64::from(number) / 49.0);
    let values: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
    place.write("in", &values);
    let counted = place.run(&["histogram", "--bins", "49", "in", "--type", "f64"]);
    let counts = text(counted);
    let counts: Vec<&str> = counts
        .lines()
        .filter_map(|l| l.rsplit('\t').next())
        .collect();
    // The last bin has both of its borders.
    assert_eq!(counts, [vec!["1"; 48], vec!["2"]].concat());
}

#[test]
fn ranges_wider_and_narrower_than_numbers_have_bins_too() {
    let place = TestDir::new();
    let write = |values: &[f64]| {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        place.write("in", &bytes);
    };
    let counts = || {
        let found = text(place.run(&["histogram", "--bins", "4", "in", "--type", "f64"]));
        let count = |line: &str| line.rsplit('\t').next().unwrap().to_string();
        let counts: Vec<String> = found.lines().map(count).collect();
        assert!(!found.contains("NaN") && !found.contains("inf"), "{found}");
        counts.join(" ")
    };
    let most = f64::MAX;
    write(&[
        -most,
        -most * 0.75,
        -most * 0.4,
        -1.0,
        0.0,
        1.0,
        most * 0.4,
        most * 0.6,
        most,
    ]);
    assert_eq!(counts(), "2 2 3 2");
    let least = f64::from_bits(1);
    write(&[0.0, least, least * 2.0, least * 3.0, least * 4.0]);
    assert_eq!(counts(), "1 1 1 2");
}

#[test]
fn a_partition_does_not_take_the_place_of_its_input() {
    let place = TestDir::new();
    let data = bytes(0..100_u64);
    place.write("part-0.bin", &data);
    let partition = [
        "partition",
        "x % 2",
        "part-0.bin",
        "--type",
        "u64",
        "--parts",
        "2",
    ];
    for more in [&[] as &[&str], &["--force"]] {
        let refused = place.run(&[&partition[..], &["-o", "part-{part}.bin"], more].concat());
        refused.fails(2, &["one of the inputs", "part-0.bin"], "another name");
    }
    assert!(place.read("part-0.bin") == data);
    assert_eq!(place.names(), ["part-0.bin"]);
}

/// A `.npy` file of `rows` of 16 numbers (f32), which count up from row to row.
fn npy_of_rows(rows: usize) -> Vec<u8> {
    let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 16), }}");
    let header = format!("{dict:<85}\n");
    let values = (0..rows * 16).flat_map(|value| (value as f32).to_le_bytes());
    let header = [&b"\x93NUMPY\x01\x00"[..], &[86, 0], header.as_bytes()].concat();
    header.into_iter().chain(values).collect()
}

#[test]
fn a_merge_that_is_not_stable_checks_the_order_of_equal_keys() {
    let place = TestDir::new();
    place.write("a", b"AAAA0002AAAA0001BBBB0000");
    place.write("b", b"AAAA0000AAAA0003BBBB0009");
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    let key = "--record 8 --key 0:4";
    run(&format!("merge a b -o out {key}")).fails(
        4,
        &["record 2 comes before record 1", "all bytes decide"],
        "sort this file first",
    );
    run(&format!("merge a b -o out {key} --stable")).ok();
    assert_eq!(
        place.read("out"),
        b"AAAA0002AAAA0001AAAA0000AAAA0003BBBB0000BBBB0009"
    );
    run(&format!("sort a -o a {key} --replace")).ok();
    run(&format!("merge a b -o merged {key}")).ok();
    run(&format!("sort a b -o sorted {key}")).ok();
    assert!(place.read("merged") == place.read("sorted"));
}

#[test]
fn items_are_numbered_merged_turned_round_and_read_in_windows() {
    let (place, keys) = place_with_keys();
    let u64s = ["--type", "u64", "--memory", "64MiB"];
    let run = |arguments: &[&str]| place.run(&[arguments, &u64s[..]].concat());
    run(&["enumerate", "in", "-o", "odd", "--where", "x % 2 == 1"]).ok();
    let odd: Vec<u64> = keys.iter().copied().filter(|x| x % 2 == 1).collect();
    let numbered = (0..).zip(&odd).flat_map(|(at, x): (u64, &u64)| [at, *x]);
    assert!(place.read("odd") == bytes(numbered));
    run(&[
        "windows",
        "-n",
        "2",
        "in",
        "-o",
        "pairs",
        "--where",
        "x % 2 == 1",
    ])
    .ok();
    assert!(place.read("pairs") == bytes(odd.windows(2).flatten().copied()));
    run(&["windows", "-n", "9", "in", "-o", "no"]).fails(2, &["windows of 9"], "2 to 8");
    run(&["flat-map", "min(x, 7), x", "in", "-o", "both"]).ok();
    let both = keys.iter().flat_map(|x| [(*x).min(7), *x]);
    assert!(place.read("both") == bytes(both));
    for (name, part) in [("front", &keys[..1000]), ("behind", &keys[1000..])] {
        place.write(name, &bytes(part.iter().copied()));
        run(&["sort", name, "-o", &format!("sorted-{name}")]).ok();
    }
    let text = text(run(&[
        "merge",
        "sorted-front",
        "sorted-behind",
        "-o",
        "all",
        "--json",
    ]));
    assert!(text.contains(r#""passes":1"#), "{text}");
    let mut sorted = keys;
    sorted.sort_unstable();
    assert!(place.read("all") == bytes(sorted.iter().copied()));
    run(&["merge", "sorted-front", "behind", "-o", "no"]).fails(
        4,
        &["comes before record", "order of u64", "behind"],
        "sort this file first",
    );
    run(&["merge", "in", "-o", "no", "--where", "x > 1"]).fails(
        2,
        &["reads whole files"],
        "merge first",
    );
    run(&["reverse", "all", "-o", "reversed.npy", "--where", "x > 100"]).ok();
    let array = place.read("reversed.npy");
    let reversed = bytes(sorted.into_iter().rev().filter(|x| *x > 100));
    assert!(array.ends_with(&reversed) && array.starts_with(b"\x93NUMPY"));
}

#[test]
fn a_map_of_rows_makes_rows_and_all_else_asks_for_an_element() {
    let place = TestDir::new();
    place.write("rows.npy", &npy_of_rows(1000));
    place
        .run(&["map", "x * 2", "rows.npy", "-o", "twice.npy"])
        .ok();
    let twice = place.read("twice.npy");
    assert!(String::from_utf8_lossy(&twice[..128]).contains("'shape': (1000, 16)"));
    let wanted: Vec<u8> = (0..16_000)
        .flat_map(|value| (value as f32 * 2.0).to_le_bytes())
        .collect();
    assert!(twice.ends_with(&wanted));
    assert_eq!(
        text(place.run(&[
            "reduce",
            "sum",
            "twice.npy",
            "--map",
            "x[3]",
            "--where",
            "x[0] < 64"
        ])),
        "44.0\n"
    );
    let refused: [&[&str]; 10] = [
        &["filter", "x > 1", "rows.npy", "-o", "out.npy"],
        &["map", "x", "rows.npy", "--where", "x > 1", "-o", "out.npy"],
        &["reduce", "sum", "rows.npy"],
        &["reduce", "sum", "rows.npy", "--map", "x * 2"],
        &["scan", "sum", "rows.npy", "-o", "out.npy"],
        &["top", "-n", "3", "rows.npy"],
        &["histogram", "rows.npy"],
        &["find", "x > 1", "rows.npy"],
        &["partition", "x > 1", "rows.npy", "-o", "part-{part}"],
        &["reduce", "count", "rows.npy", "--where", "x > 1"],
    ];
    for arguments in refused {
        let answer = place.run(arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains("x[0]"), "{arguments:?}: {answer:?}");
    }
    assert_eq!(place.names(), ["rows.npy", "twice.npy"]);
}

#[test]
fn no_expression_is_too_long_to_be_refused() {
    let (place, _) = place_with_keys();
    let many = 30_000;
    for expression in [
        format!("x{}", "+x".repeat(many)),
        format!("{}x{}", "(".repeat(many), ")".repeat(many)),
        format!("{}x", "-".repeat(many)),
        format!("{}x", "~".repeat(many)),
    ] {
        for verb in [
            &["map", "-o", "out"][..],
            &["filter", "-o", "out"],
            &["reduce"],
            &["find"],
        ] {
            let arguments = [verb, &["--type", "u64", "--", &expression, "in"]].concat();
            let answer = place.run(&arguments);
            assert_eq!(
                answer.code,
                Some(2),
                "{}",
                &answer.stderr[..answer.stderr.len().min(500)]
            );
            assert!(answer.stderr.contains("several steps"), "{}", answer.stderr);
            assert!(answer.stderr.len() < 1000);
        }
    }
    // Steps call each other, also on the stack of a thread.
    let wheres = |count| ["--where", "x > 0"].repeat(count);
    let count = ["reduce", "count", "in", "--type", "u64"];
    assert_eq!(
        text(place.run(&[&count[..], &wheres(1000)].concat())),
        format!("{COUNT}\n")
    );
    let answer = place.run(&[&count[..], &wheres(30_000)].concat());
    assert_eq!(
        answer.code,
        Some(2),
        "{}",
        &answer.stderr[..answer.stderr.len().min(500)]
    );
    assert!(
        answer.stderr.contains("more than 1000 steps"),
        "{}",
        answer.stderr
    );
    let answer = place.run(&["map", "i64(x) ** -1", "in", "--type", "u64", "-o", "out"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("negative power"), "{answer:?}");
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn dtypes_of_numpy_are_types_too() {
    let (place, keys) = place_with_keys();
    let sum = text(place.run(&["reduce", "max", "in", "--type", "u64"]));
    assert_eq!(sum, format!("{}\n", keys.iter().max().unwrap()));
    for name in ["<u8", "=u8", "uint64", "u64le"] {
        assert_eq!(
            text(place.run(&["reduce", "max", "in", "--type", name])),
            sum,
            "{name}"
        );
    }
    let swapped = text(place.run(&["reduce", "max", "in", "--type", "u64be"]));
    assert_eq!(
        text(place.run(&["reduce", "max", "in", "--type", ">u8"])),
        swapped
    );
    for (name, count) in [
        ("u8", 8),
        ("|u1", 8),
        ("f4", 2),
        ("<f2", 4),
        ("double", 1),
        ("<f8x2", 0),
        ("|S16", 0),
    ] {
        let counted = text(place.run(&["reduce", "count", "in", "--type", name]));
        let wanted = if count > 0 { COUNT * count } else { COUNT / 2 };
        assert_eq!(counted, format!("{wanted}\n"), "{name}");
    }
    for name in ["<u9", "<f3", "|O", "<", "u3"] {
        let answer = place.run(&["reduce", "count", "in", "--type", name]);
        assert_eq!(answer.code, Some(2), "{name}: {answer:?}");
        assert!(answer.stderr.contains("unknown type"), "{answer:?}");
    }
    place
        .run(&[
            "sort", "in", "-o", "out", "--record", "8", "--key", "0:8:<u8",
        ])
        .ok();
}

#[test]
fn the_number_of_a_partition_may_be_of_the_position() {
    let (place, keys) = place_with_keys();
    let part = |name: &str, number: u64, of: u64| {
        let items = (0..).zip(&keys).filter(|(at, _)| at % of == number);
        assert!(
            place.read(name) == bytes(items.map(|(_, key)| *key)),
            "{name}"
        );
    };
    let partition = |more: &[&str]| {
        let words = [
            "partition",
            "index % 3",
            "in",
            "--type",
            "u64",
            "--parts",
            "3",
            "-o",
            "p-{part}",
        ];
        place.run(&[&words[..], more].concat())
    };
    partition(&["--memory", "64MiB"]).ok();
    for number in 0..3 {
        part(&format!("p-{number}"), number, 3);
    }
    let filtered = partition(&["--force", "--where", "x > 3"]);
    filtered.fails(2, &["`index` is unknown"], "known here");
    let help = place.run(&["partition", "--help"]).ok().text();
    assert!(help.contains("{part} in it becomes the number"), "{help}");
}

#[test]
fn results_of_big_endian_numbers_are_big_endian() {
    let place = TestDir::new();
    let numbers: Vec<u32> = (0..5_000_u32).map(|number| number * 7_907 % 97).collect();
    let big = |numbers: &mut dyn Iterator<Item = u32>| -> Vec<u8> {
        numbers.flat_map(u32::to_be_bytes).collect()
    };
    place.write("in", &big(&mut numbers.iter().copied()));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("map x*3 in -o mapped --type u32be").ok();
    assert!(place.read("mapped") == big(&mut numbers.iter().map(|x| x * 3)));
    run("flat-map x,x+1 in -o pairs --type u32be").ok();
    assert!(place.read("pairs") == big(&mut numbers.iter().flat_map(|x| [*x, x + 1])));
    run("scan sum in -o sums --type u32be").ok();
    let mut sum = 0_u32;
    let sums = numbers.iter().map(|x| {
        sum = sum.wrapping_add(*x);
        sum
    });
    let sums: Vec<u32> = sums.collect();
    assert!(place.read("sums") == big(&mut sums.into_iter()));
    run("scan max in -o most --type u32be --map x+1 --exclusive").ok();
    let mut most = 0;
    let before = numbers.iter().map(|x| {
        let before = most;
        most = most.max(x + 1);
        before
    });
    let before: Vec<u32> = before.collect();
    assert!(place.read("most") == big(&mut before.into_iter()));
    run("count-by x%7 in -o counts --type u32be").ok();
    let count = |rest: u32| numbers.iter().filter(|x| **x % 7 == rest).count() as u64;
    let counts = (0..7_u32).flat_map(|rest| {
        [
            rest.to_be_bytes().to_vec(),
            count(rest).to_le_bytes().to_vec(),
        ]
        .concat()
    });
    assert!(place.read("counts") == counts.collect::<Vec<u8>>());
    let lines: String = (0..7)
        .map(|rest| format!("{rest}\t{}\n", count(rest)))
        .collect();
    assert_eq!(text(run("count-by x%7 in --type u32be")), lines);
    // The header of an array shows the byte order.
    run("map f64(x) in -o real.npy --type u32be").ok();
    assert!(String::from_utf8_lossy(&place.read("real.npy")[..128]).contains("'>f8'"));
    assert_eq!(text(run("reduce max in --type u32be")), "96\n");
}

#[test]
fn nans_of_different_bits_are_one_key_wherever_equality_counts() {
    let place = TestDir::new();
    let (quiet, other) = (0x7FF8_0000_0000_0000_u64, 0xFFF8_0000_0000_0007_u64);
    let one = 1.0_f64.to_bits();
    let bits = [other, one, quiet, other, one, quiet];
    place.write("in", &bytes(bits));
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(text(run("count-by x in --type f64")), "1.0\t2\nNaN\t4\n");
    let distinct = bytes([one, quiet]);
    for command in [
        "unique in",
        "sort in --unique",
        "unique in --memory 16MiB --threads 2",
    ] {
        run(&format!("{command} -o out --force --type f64")).ok();
        assert!(place.read("out") == distinct, "{command}");
    }
    run("verify out --type f64 --unique").ok();
    // Bits break ties, unless the position does.
    run("sort in -o out --force --type f64").ok();
    assert!(place.read("out") == bytes([one, one, quiet, quiet, other, other]));
    run("sort in -o out --force --type f64 --stable").ok();
    assert!(place.read("out") == bytes([one, one, other, quiet, other, quiet]));
    // A second key decides between NaNs before their bits do.
    let records = [(other, 1), (quiet, 2), (quiet, 1), (one, 9), (other, 1)];
    let pack = |records: &[(u64, u64)]| bytes(records.iter().flat_map(|(a, b)| [*a, *b]));
    place.write("records", &pack(&records));
    run("sort records -o out --force --record 16 --key 0:8:f64 --key 8:8:u64").ok();
    let sorted = [(one, 9), (quiet, 1), (other, 1), (other, 1), (quiet, 2)];
    assert!(place.read("out") == pack(&sorted));
    run("unique records -o out --force --record 16 --key 0:8:f64 --key 8:8:u64").ok();
    assert!(place.read("out") == pack(&[(one, 9), (quiet, 1), (quiet, 2)]));
    assert_eq!(text(run("top -n 2 in --type f64 --smallest")), "1.0\n1.0\n");
    run("view build records -o view --record 16 --key 0:8:f64").ok();
    place.write("key", &pack(&[(0x7FF0_0000_0000_0001, 0)]));
    run("lookup view --keys key -o found --values").ok();
    assert_eq!(place.read("found").len(), 4 * 16);
}
