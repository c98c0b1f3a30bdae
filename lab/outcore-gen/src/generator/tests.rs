//! Tests of the generator: distributions, known records, and valsort's output for gensort's
//! records.
//!
//! Contract: lines, exit codes and checksums are those that valsort 1.5 printed for the same
//! records.

use super::*;
use outcore::key::{CheckOptions, CheckReport, Checker};
use outcore::key::{Order, OrderOptions};
use outcore::verify::verify;
use outcore::{Input, IoMode, Job, JobOptions};
use proptest::prelude::*;

const COUNT: usize = 3000;

fn format(text: &str) -> RecordFormat {
    RecordFormat::parse_type(text).unwrap()
}

fn make(text: &str, distribution: &str, seed: u64) -> Result<Vec<u8>> {
    let format = format(text);
    let distribution = distribution.parse()?;
    let options = GenerateOptions {
        distribution,
        seed,
        records: COUNT as u64,
    };
    let mut out = vec![0; COUNT * format.record_bytes()];
    Generator::new(&format, options)?.fill(0, &mut out);
    Ok(out)
}

fn u64s(distribution: &str) -> Vec<u64> {
    let bytes = make("u64", distribution, 1).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect()
}

fn f64s(distribution: &str) -> Vec<f64> {
    let bytes = make("f64", distribution, 1).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() / COUNT as f64
}

#[test]
fn edges_of_rmat_fall_into_quarters_as_often_as_they_must_and_other_types_are_refused() {
    let bytes = make("u32x2", "rmat:12", 3).unwrap();
    let ids: Vec<u32> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|id| u32::from_le_bytes(*id))
        .collect();
    assert!(ids.iter().all(|id| *id < 1 << 12));
    for (bit, wanted) in [
        (11, [0.57, 0.19, 0.19, 0.05]),
        (0, [0.57, 0.19, 0.19, 0.05]),
    ] {
        let mut counts = [0; 4];
        for edge in ids.as_chunks::<2>().0 {
            counts[(edge[0] >> bit & 1) as usize * 2 + (edge[1] >> bit & 1) as usize] += 1;
        }
        for (count, wanted) in counts.iter().zip(wanted) {
            let share = f64::from(*count) / COUNT as f64;
            assert!(
                (share - wanted).abs() < 0.04,
                "bit {bit}: {share}, not {wanted}"
            );
        }
    }
    // The two vertices of a record belong to one edge, wherever a block begins.
    let options = GenerateOptions {
        distribution: "rmat:12".parse().unwrap(),
        seed: 3,
        records: COUNT as u64,
    };
    let mut one = vec![0; 8];
    let generator = Generator::new(&format("u32x2"), options).unwrap();
    generator.fill(777, &mut one);
    assert_eq!(one, bytes[777 * 8..778 * 8]);
    // Kronecker has the same edges with the vertices permuted.
    for scale in [1, 5, 12] {
        let plain = make("u32x2", &format!("rmat:{scale}"), 3).unwrap();
        let named = make("u32x2", &format!("kronecker:{scale}"), 3).unwrap();
        let ids = |bytes: &[u8]| -> Vec<u32> {
            let (ids, _) = bytes.as_chunks();
            ids.iter().map(|id| u32::from_le_bytes(*id)).collect()
        };
        let mut names = std::collections::BTreeMap::new();
        for (id, name) in ids(&plain).into_iter().zip(ids(&named)) {
            assert!(name < 1 << scale);
            assert_eq!(*names.entry(id).or_insert(name), name);
        }
        let distinct: std::collections::BTreeSet<u32> = names.values().copied().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(scale == 1 || names.iter().any(|(id, name)| id != name));
    }
    for text in ["u32", "u32x3", "f32x2", "u8x2"] {
        assert!(make(text, "rmat:12", 1).is_err(), "{text}");
    }
}

#[test]
fn distributions_have_the_means_they_must() {
    let close = |mean: f64, wanted: f64| {
        assert!(
            (mean / wanted - 1.0).abs() < 0.1,
            "{mean} is not near {wanted}"
        );
    };
    close(
        mean(u64s("uniform").iter().map(|value| *value as f64)),
        2_f64.powi(63),
    );
    close(
        mean(u64s("uniform:1000").iter().map(|value| *value as f64)),
        499.5,
    );
    close(mean(f64s("uniform:1000").into_iter()), 500.0);
    close(
        mean(u64s("exponential:0.001").iter().map(|value| *value as f64)),
        999.5,
    );
    close(mean(f64s("exponential:2").into_iter()), 0.5);
    assert!(u64s("uniform:1000").iter().all(|value| *value < 1000));
    assert!(u64s("equal").iter().all(|value| *value == 42));
    let ones = u64s("zipf:1.5").iter().filter(|value| **value == 1).count() as f64;
    // 1 / zeta(1.5)
    close(ones / COUNT as f64, 0.3828);
    assert!(u64s("zipf:0:7").iter().all(|value| (1..=7).contains(value)));
}

#[test]
fn gaussian_numbers_and_clusters_have_the_deviations_they_must() {
    let values = f64s("normal");
    let count = values.len() as f64;
    assert!(mean(values.iter().copied()).abs() < 4.0 / count.sqrt());
    let square = mean(values.iter().map(|value| value * value));
    assert!((square - 1.0).abs() < 6.0 / count.sqrt(), "{square}");
    // A fifth of all values are beyond 1.2816 on either side.
    let tails = values.iter().filter(|value| value.abs() > 1.281_55).count() as f64 / count;
    assert!((tails - 0.2).abs() < 2.0 / count.sqrt(), "{tails}");
    // Rows of eight around three centres: each row is near one of them, and all centres occur.
    let bytes = make("f64x8", "clusters:3", 5).unwrap();
    let numbers = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes));
    let numbers: Vec<f64> = numbers.collect();
    let rows: Vec<&[f64]> = numbers.chunks(8).collect();
    let far = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum()
    };
    // Two rows of one centre have a squared distance of 16 on average.
    let mut centres: Vec<&[f64]> = Vec::new();
    for row in &rows {
        if centres.iter().all(|centre| far(centre, row) > 80.0) {
            centres.push(row);
        }
    }
    assert_eq!(centres.len(), 3);
}

#[test]
fn gaussian_integers_fill_the_range_of_their_type() {
    for (text, middle, deviation) in [
        ("u8", 128.0, 32.0),
        ("i8", 0.0, 32.0),
        ("u16", 32768.0, 8192.0),
    ] {
        let bytes = make(text, "normal", 3).unwrap();
        let number = |bytes: &[u8]| match bytes {
            [byte] if text == "i8" => f64::from(*byte as i8),
            [byte] => f64::from(*byte),
            bytes => f64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        };
        let step = bytes.len() / COUNT;
        let values: Vec<f64> = bytes.chunks(step).map(number).collect();
        let off = mean(values.iter().map(|value| value - middle)) / deviation;
        assert!(off.abs() < 0.1, "{text}: {off}");
        let square = mean(
            values
                .iter()
                .map(|value| ((value - middle) / deviation).powi(2)),
        );
        assert!((square - 1.0).abs() < 0.1, "{text}: {square}");
    }
    // Rows of the same centre differ less than rows of different ones.
    let bytes = make("i8x16", "clusters:2", 3).unwrap();
    let rows: Vec<&[u8]> = bytes.chunks(16).collect();
    let far = |one: &[u8], other: &[u8]| -> i32 {
        let each = one.iter().zip(other);
        each.map(|(a, b)| (i32::from(*a as i8) - i32::from(*b as i8)).pow(2))
            .sum()
    };
    let near = rows
        .iter()
        .filter(|row| far(rows[0], row) < 16 * 64 * 6)
        .count();
    assert!(near > COUNT / 3 && near < COUNT * 2 / 3, "{near}");
    for text in ["u64", "i64", "16/0:8:bytes"] {
        assert!(make(text, "normal", 1).is_err(), "{text}");
        assert!(make(text, "clusters:4", 1).is_err(), "{text}");
    }
    assert!(make("u8x4", "clusters:0", 1).is_err());
}

#[test]
fn floats_are_finite_and_both_signs_occur() {
    assert!(f64s("uniform").iter().all(|value| value.is_finite()));
    assert!(f64s("uniform").iter().any(|value| *value < 0.0));
    let bytes = make("f32be", "uniform", 1).unwrap();
    let mut floats = bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_be_bytes(*bytes));
    assert!(floats.all(f32::is_finite));
}

#[test]
fn sorted_and_reversed_are_in_the_order_of_the_keys_for_any_type() {
    let formats = [
        "u8",
        "i8",
        "u16be",
        "i32",
        "u64",
        "u128be",
        "f32",
        "f64be",
        "f32x5",
        "bytes3",
        "bytes12",
        "24/8:8:i64:desc,0:4:u32",
        "9/1:1:u8,0:1",
    ];
    for text in formats {
        for (distribution, wanted) in [("sorted", true), ("reversed", false)] {
            let format = format(text);
            let order = Order::new(&format, OrderOptions::default());
            let bytes = make(text, distribution, 1).unwrap();
            let records: Vec<&[u8]> = bytes.chunks(format.record_bytes()).collect();
            let is_in_order = records.windows(2).all(|pair| {
                let ordering = order.compare_keys(pair[0], pair[1]);
                if wanted {
                    ordering.is_le()
                } else {
                    ordering.is_ge()
                }
            });
            assert!(is_in_order, "{text} {distribution}");
            let ends = order.compare_keys(records[0], records[COUNT - 1]);
            assert!(ends.is_ne(), "{text} {distribution}");
        }
    }
    assert_eq!(u64s("sorted")[..3], [0, 1, 2]);
    assert_eq!(u64s("reversed")[0], COUNT as u64 - 1);
}

#[test]
fn payload_is_random_and_seeds_differ() {
    let bytes = make("24/4:4:u32", "equal", 1).unwrap();
    assert_eq!(&bytes[4..8], &42_u32.to_le_bytes());
    assert_ne!(bytes[8..24], bytes[32..48]);
    assert_ne!(
        make("u64", "uniform", 1).unwrap(),
        make("u64", "uniform", 2).unwrap()
    );
    let gensort = make("gensort", "zipf:1.2", 1).unwrap();
    assert_eq!(gensort[..2], [0, 0]);
}

#[test]
fn impossible_parameters_are_refused() {
    for (format, distribution) in [
        ("u8", "uniform:257"),
        ("i8", "uniform:129"),
        ("u64", "uniform:0"),
        ("u64", "uniform:1.5"),
        ("u64", "uniform:nan"),
        ("f64", "uniform:inf"),
        ("u64", "exponential:0"),
        ("u64", "exponential:-1"),
        ("u64", "zipf:99"),
        ("u8", "zipf:1:256"),
        ("u64", "zipf:1:0"),
        ("u64", "gauss"),
        ("u64", "normal"),
        ("f64", "clusters:0"),
        ("u64", "clusters:3"),
        ("u64", "uniform:x"),
        ("u64", "equal:1"),
    ] {
        let error = make(format, distribution, 1).unwrap_err();
        assert_eq!(
            error.kind(),
            outcore::Kind::Usage,
            "{format} {distribution}"
        );
        assert!(error.next_step().is_some());
    }
    make("u8", "uniform:256", 1).unwrap();
    make("u64", "uniform:1e18", 1).unwrap();
}

#[test]
fn known_records_stay_what_they_are() {
    // Each version must be able to verify the files of earlier ones.
    assert_eq!(
        u64s("uniform")[..2],
        [736_442_933_886_495_122, 7_982_734_928_498_899_980]
    );
    assert_eq!(u64s("zipf:1.2")[..4], [1, 19_528, 3, 6]);
    assert_eq!(u64s("exponential:0.001")[..4], [465, 496, 1232, 8]);
    assert_eq!(
        f64s("uniform:1")[..2],
        [0.372_178_464_585_084_63, 0.391_046_777_163_479_6]
    );
}

type Flags = (bool, bool, bool);

/// Any record of 1 to 64 bytes with one to four key fields, which may overlap.
fn any_format() -> impl Strategy<Value = RecordFormat> {
    let kind = (0..NumberType::ALL.len(), any::<Flags>());
    let field = (any::<(u16, u16)>(), kind);
    let fields = proptest::collection::vec(field, 1..=4);
    (1usize..=64, fields).prop_map(|(record_bytes, fields)| {
        let key = |((offset, len), (number, flags)): ((u16, u16), (usize, Flags))| {
            let (is_big, is_bytes, descending) = flags;
            let endian = if is_big { Endian::Big } else { Endian::Little };
            let number = Number::new(NumberType::ALL[number], endian);
            let (unit, kind) = match number.bytes() <= record_bytes && !is_bytes {
                true => (number.bytes(), KeyKind::Numbers(number)),
                false => (1, KeyKind::Bytes),
            };
            let len_bytes = (1 + usize::from(len) % (record_bytes / unit)) * unit;
            KeyField {
                offset_bytes: usize::from(offset) % (record_bytes - len_bytes + 1),
                len_bytes,
                kind,
                descending,
            }
        };
        let keys = fields.into_iter().map(key).collect();
        RecordFormat::new(record_bytes, keys).unwrap()
    })
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        Just(Distribution::Whole),
        (1u8..100).prop_map(|mu| Distribution::Uniform { mu: f64::from(mu) }),
        (1u8..100).prop_map(|rate| Distribution::Exponential {
            lambda: f64::from(rate) / 1000.0
        }),
        (0u8..30).prop_map(|s| Distribution::Zipf {
            exponent: f64::from(s) / 10.0,
            rank_max: None
        }),
        Just(Distribution::Sorted),
        Just(Distribution::Reversed),
        Just(Distribution::Equal),
    ]
}

proptest! {
    #[test]
    fn any_split_gives_the_same_records(
        format in any_format(),
        distribution in any_distribution(),
        seed: u64,
        start in 0u64..1000,
        count in 1usize..400,
        cut: usize,
    ) {
        let options = GenerateOptions { distribution, seed, records: 500 };
        let generator = Generator::new(&format, options).unwrap();
        let record_bytes = format.record_bytes();
        let mut whole = vec![0; count * record_bytes];
        generator.fill(start, &mut whole);
        let cut = cut % (count + 1);
        let mut parts = vec![0xAA; count * record_bytes];
        let (before, after) = parts.split_at_mut(cut * record_bytes);
        generator.fill(start + cut as u64, after);
        generator.fill(start, before);
        prop_assert_eq!(parts, whole);
    }
}

fn check(format: &RecordFormat, options: CheckOptions, bytes: &[u8]) -> CheckReport {
    let mut checker = Checker::new(format, options);
    checker.push(bytes);
    checker.finish().unwrap()
}

fn gensort_records(count: usize) -> Vec<u8> {
    let mut records = vec![0; count * 100];
    Generator::gensort(GensortOptions::default()).fill(0, &mut records);
    records
}

#[test]
fn gensort_records_get_the_lines_and_exit_codes_of_valsort() {
    let format = RecordFormat::gensort();
    let mut records = gensort_records(1000);
    let report = check(&format, CheckOptions::default(), &records);
    // The output of valsort 1.5.
    let wanted = "First unordered record is record 2\nRecords: 1000\nChecksum: 1ea6370b955\n\
                  ERROR - there are 483 unordered records\n";
    assert_eq!(report.valsort_text(), wanted);
    assert_eq!(report.valsort_exit_code(), 1);

    let mut sorted: Vec<Vec<u8>> = records.chunks(100).map(<[u8]>::to_vec).collect();
    sorted.sort();
    sorted.insert(5, sorted[5].clone());
    records = sorted.concat();
    let report = check(&format, CheckOptions::default(), &records);
    let text = report.valsort_text();
    assert!(text.starts_with("Records: 1001\nChecksum: "), "{text}");
    let wanted = "\nDuplicate keys: 1\nSUCCESS - all records are in order\n";
    assert!(text.ends_with(wanted), "{text}");
    assert_eq!(report.valsort_exit_code(), 0);
    let nothing = check(&format, CheckOptions::default(), &[]);
    assert!(nothing.valsort_text().contains("at least one record"));
    assert_eq!(nothing.valsort_exit_code(), 1);
}

#[test]
fn a_gensort_file_on_disk_gets_the_checksum_of_gensort() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    std::fs::write(&path, gensort_records(1000)).unwrap();
    let options = JobOptions {
        threads: 2,
        memory_bytes: 8 << 20,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Auto);
    let format = RecordFormat::gensort();
    let report = verify(&job, &[Input::raw(&path)], &format, CheckOptions::default()).unwrap();
    assert_eq!(report.check.records, 1000);
    // The output of valsort for the first thousand records.
    assert_eq!(format!("{:x}", report.check.checksum), "1ea6370b955");
    assert_eq!(report.check.first_unordered, Some(2));
    assert_eq!(job.control.progress().done_bytes, 100_000);
}
