//! Deduplication of texts that are nearly the same.
//!
//! Contract: the naive twin compares the shingles of every pair. Texts of one family differ in a
//! few words, so each pair in a family is far above the threshold, and every other pair far below
//! it.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use outcore::Result;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{DedupSummary, Near, Shingles, TableEnds, dedup_near};
use outcore_table::output::{OutputOptions, TableFormat};

use crate::common::{self, Draw, read_parquet, write_parquet};

/// The summary, the kept rows, and the removed rows with those that were kept instead.
type Deduped = (DedupSummary, Vec<i64>, Vec<(i64, u64)>);

/// Returns the kept rows, and the removed rows with those that were kept instead.
fn deduped(
    batch: &RecordBatch,
    (memory_bytes, threads): (u64, usize),
    near: &Near,
) -> Result<Deduped> {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("in.parquet")];
    write_parquet(&inputs[0], batch, 100);
    let outputs: [PathBuf; 1] = [dir.path().join("out.parquet")];
    let removed = dir.path().join("removed.parquet");
    let writes = OutputOptions::new(TableFormat::Parquet);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(memory_bytes, threads);
    let done = dedup_near(&job, &ends, near, Some((&removed, &writes)));
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let done = done.inspect_err(|_| assert_eq!(names, 1, "nothing is left"))?;
    assert_eq!(names, 3, "two outputs, and no scratch");
    let ids = |batch: &RecordBatch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    let kept = ids(&read_parquet(&outputs[0]));
    let others = read_parquet(&removed);
    let stands = others.column_by_name("duplicate_of").unwrap();
    let stands = stands.as_primitive::<UInt64Type>().values().to_vec();
    Ok((done, kept, ids(&others).into_iter().zip(stands).collect()))
}

fn shingles(text: &str) -> BTreeSet<Vec<String>> {
    let words: Vec<String> = text
        .split(|unit: char| !unit.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.windows(5).map(<[String]>::to_vec).collect()
}

/// Families of texts of a few hundred words, in a random order, mixed with nulls and texts without
/// words.
fn texts(families: usize, seed: u64) -> (RecordBatch, Vec<Option<usize>>) {
    let draw = &mut Draw::new(seed);
    let mut rows: Vec<(Option<String>, Option<usize>)> = Vec::new();
    for family in 0..families {
        let words: Vec<String> = (0..300)
            .map(|_| format!("w{}", draw.below(100_000)))
            .collect();
        for _ in 0..1 + draw.below(5) {
            let mut own = words.clone();
            // A changed word affects five shingles.
            let place = draw.below(300);
            own[place] = format!("Changed{}", draw.below(1000));
            let blanks = [" ", ", ", "\n"][draw.below(3)];
            rows.push((Some(own.join(blanks)), Some(family)));
        }
    }
    rows.extend([
        (None, None),
        (None, None),
        (Some(String::new()), None),
        (Some("?!".to_owned()), None),
    ]);
    for place in (1..rows.len()).rev() {
        rows.swap(place, draw.below(place + 1));
    }
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let text: StringArray = rows.iter().map(|(text, _)| text.as_deref()).collect();
    let columns: Vec<(&str, ArrayRef, bool)> =
        vec![("id", ids, false), ("text", Arc::new(text), true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    (batch, rows.into_iter().map(|(_, family)| family).collect())
}

#[test]
fn one_of_each_family_is_kept_and_the_others_name_it() {
    let (batch, families) = texts(150, 3);
    // Pairs above the threshold must be exactly the families.
    let text = batch.column(1).as_string::<i32>();
    let sets: Vec<_> = text
        .iter()
        .map(|text| shingles(text.unwrap_or("")))
        .collect();
    for (one, other) in (0..60).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let both = sets[one].intersection(&sets[other]).count() as f64;
        let all = sets[one].union(&sets[other]).count() as f64;
        let is_family = families[one].is_some() && families[one] == families[other];
        assert_eq!(both / all.max(1.0) > 0.8, is_family, "{one} {other}");
    }
    for keeps_last in [false, true] {
        let near = Near {
            keeps_last,
            ..Near::new("text", 0.8)
        };
        let (done, kept, removed) = deduped(&batch, (64 << 20, 2), &near).unwrap();
        let mut stands: HashMap<usize, i64> = HashMap::new();
        let mut expected = Vec::new();
        let rows: Vec<usize> = match keeps_last {
            false => (0..families.len()).collect(),
            true => (0..families.len()).rev().collect(),
        };
        for row in rows {
            match families[row] {
                Some(family) if stands.contains_key(&family) => {}
                Some(family) => {
                    stands.insert(family, row as i64);
                    expected.push(row as i64);
                }
                None => expected.push(row as i64),
            }
        }
        expected.sort_unstable();
        assert_eq!(kept, expected);
        assert_eq!(done.removed, removed.len() as u64);
        for (row, stand) in &removed {
            let family = families[*row as usize].unwrap();
            assert_eq!(stands[&family], *stand as i64, "row {row}");
        }
        assert_eq!(kept.len() + removed.len(), families.len());
        for (memory_bytes, threads) in [(16 << 20, 1), (256 << 20, 3)] {
            let again = deduped(&batch, (memory_bytes, threads), &near).unwrap();
            assert_eq!((&again.1, &again.2), (&kept, &removed), "{threads} threads");
        }
    }
}

#[test]
fn what_is_far_stays_and_characters_are_compared_where_there_are_no_blanks() {
    let (batch, families) = texts(60, 9);
    let all: BTreeSet<_> = families.iter().flatten().collect();
    let alone = families.iter().filter(|family| family.is_none()).count();
    let near = Near {
        shingles: Shingles::Chars(12),
        ..Near::new("text", 0.8)
    };
    let (_, kept, _) = deduped(&batch, (64 << 20, 2), &near).unwrap();
    assert_eq!(kept.len(), all.len() + alone);
    // Only texts with identical shingles.
    let near = Near::new("text", 1.0);
    let (_, kept, _) = deduped(&batch, (64 << 20, 2), &near).unwrap();
    assert!(kept.len() > all.len() + alone);
    let error = deduped(&batch, (64 << 20, 1), &Near::new("id", 0.8)).unwrap_err();
    assert!(error.to_string().contains("texts"), "{error}");
    let error = deduped(&batch, (64 << 20, 1), &Near::new("txet", 0.8)).unwrap_err();
    assert!(error.to_string().contains("`text`"), "{error}");
}
