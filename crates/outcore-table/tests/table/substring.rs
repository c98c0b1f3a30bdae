//! Repeated passages of texts.
//!
//! Contract: the naive twin looks up every passage of every text in a map of the earlier ones, byte
//! by byte. Texts consist of pieces that repeat, also within a text, with characters of one to four
//! bytes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray,
};
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{PassageUnit, Substring, SubstringSummary, TableEnds, dedup_substring};
use outcore_table::output::{OutputOptions, TableFormat};
use proptest::prelude::*;

use PassageUnit::{Bytes, Tokens};

use crate::common::{self, Draw, read_parquet, write_parquet};

/// The summary; the remaining texts; and for each cut its row, start, length, first row and text.
type Cut = (SubstringSummary, RecordBatch, RecordBatch);

fn cut(
    batch: &RecordBatch,
    group_rows: usize,
    (memory_bytes, threads): (u64, usize),
    (len, unit): (usize, PassageUnit),
) -> Result<Cut> {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("in.parquet")];
    write_parquet(&inputs[0], batch, group_rows);
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
    let wanted = Substring {
        column: "text".to_owned(),
        units_count: len,
        unit,
    };
    let done = dedup_substring(&job, &ends, &wanted, Some((&removed, &writes)));
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let done = done.inspect_err(|_| assert_eq!(names, 1, "nothing is left"))?;
    assert_eq!(names, 3, "two outputs, and no scratch");
    Ok((done, read_parquet(&outputs[0]), read_parquet(&removed)))
}

/// Returns the remaining texts and, for each text, which of its bytes are cut.
fn twin(texts: &[Option<String>], len_bytes: usize) -> Vec<(Option<String>, Vec<bool>)> {
    let mut known: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut left = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        let Some(text) = text else {
            left.push((None, Vec::new()));
            continue;
        };
        let mut is_cut = vec![false; text.len()];
        for start in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            let mut ends = start + len_bytes..=text.len();
            let Some(end) = ends.find(|&end| text.is_char_boundary(end)) else {
                continue;
            };
            match known.get(&text[start..end]) {
                None => {
                    known.insert(&text[start..end], (row, start));
                }
                Some(&(first_row, first)) => {
                    let first_end = if first_row == row {
                        first + end - start
                    } else {
                        0
                    };
                    is_cut[start.max(first_end)..end].fill(true);
                }
            }
        }
        let kept = text.bytes().zip(&is_cut).filter(|(_, is_cut)| !**is_cut);
        let kept = String::from_utf8(kept.map(|(byte, _)| byte).collect()).unwrap();
        left.push((Some(kept), is_cut));
    }
    left
}

/// Texts of pieces, some of which repeat often.
fn texts(draw: &mut Draw, count: usize, units: &[char]) -> Vec<Option<String>> {
    let piece = |draw: &mut Draw| -> String {
        let len = draw.below(40);
        (0..len).map(|_| units[draw.below(units.len())]).collect()
    };
    let pool: Vec<String> = (0..6).map(|_| piece(draw)).collect();
    let text = |_| {
        (!draw.one_in(9)).then(|| {
            let parts = 0..draw.below(6);
            parts
                .map(|_| match draw.one_in(3) {
                    true => piece(draw),
                    false => pool[draw.below(pool.len())].clone(),
                })
                .collect()
        })
    };
    (0..count).map(text).collect()
}

fn table(texts: &[Option<String>], kind: usize) -> RecordBatch {
    let texts = texts.iter().map(Option::as_deref);
    let column: ArrayRef = match kind {
        0 => Arc::new(texts.collect::<StringArray>()),
        1 => Arc::new(texts.collect::<LargeStringArray>()),
        _ => Arc::new(texts.collect::<DictionaryArray<Int32Type>>()),
    };
    let ids = Int64Array::from_iter_values(0..column.len() as i64);
    let columns: [(&str, ArrayRef, bool); 2] =
        [("id", Arc::new(ids), false), ("text", column, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn check(
    texts: &[Option<String>],
    batch: &RecordBatch,
    len_bytes: usize,
    (done, out, removed): &Cut,
) {
    let expected = twin(texts, len_bytes);
    assert_eq!(out.schema(), batch.schema());
    assert_eq!(out.column(0), batch.column(0));
    let left = arrow_cast::cast(out.column(1), &arrow_schema::DataType::LargeUtf8).unwrap();
    for (row, (found, (kept, _))) in left.as_string::<i64>().iter().zip(&expected).enumerate() {
        assert_eq!(found, kept.as_deref(), "row {row} of {texts:?}");
    }
    let number = |place: usize| {
        removed
            .column(place)
            .as_primitive::<UInt64Type>()
            .values()
            .to_vec()
    };
    let [rows, starts, lens, firsts] = [0, 1, 2, 3].map(number);
    let said = removed.column(4).as_string::<i64>();
    let mut is_cut: Vec<Vec<bool>> = expected
        .iter()
        .map(|(_, cut)| vec![false; cut.len()])
        .collect();
    for place in 0..rows.len() {
        let (row, start) = (rows[place] as usize, starts[place] as usize);
        let end = start + lens[place] as usize;
        is_cut[row][start..end].fill(true);
        assert_eq!(&texts[row].as_ref().unwrap()[start..end], said.value(place));
        assert!(firsts[place] <= rows[place]);
    }
    assert!(is_cut.iter().eq(expected.iter().map(|(_, cut)| cut)));
    assert!(rows.is_sorted());
    assert_eq!(done.cuts, rows.len() as u64);
    assert_eq!(done.cut_units, lens.iter().sum::<u64>());
    assert_eq!(
        (done.table.rows_in, done.table.rows_out),
        (texts.len() as u64, texts.len() as u64)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_occurs_before_is_cut_and_nothing_else(seed in any::<u64>(), count in 0usize..40) {
        let mut draw = Draw::new(seed);
        let units: &[char] = [&['a', 'b'][..], &['a'], &['a', 'ö', '日', '\u{10ffff}'], &['x', 'y', 'z', ' ', 'q']][draw.below(4)];
        let texts = texts(&mut draw, count, units);
        let batch = table(&texts, draw.below(3));
        let len_bytes = [8, 9, 20, 50][draw.below(4)];
        let group_rows = [1, 7, 100][draw.below(3)];
        let how = [(64 << 20, 1), (64 << 20, 3), (256 << 20, 2)][draw.below(3)];
        let found = cut(&batch, group_rows, how, (len_bytes, Bytes)).unwrap();
        check(&texts, &batch, len_bytes, &found);
    }
}

/// Returns the remaining texts if tokens are cut: the tokens, and the white space after the last
/// one of each cut.
fn twin_of_tokens(texts: &[Option<String>], len: usize) -> Vec<Option<String>> {
    let mut known: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    let mut left = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        let Some(text) = text else {
            left.push(None);
            continue;
        };
        let tokens: Vec<&str> = text.split_whitespace().collect();
        let mut is_cut = vec![false; tokens.len()];
        for start in 0..(tokens.len() + 1).saturating_sub(len) {
            let passage = tokens[start..start + len].to_vec();
            match known.get(&passage) {
                None => {
                    known.insert(passage, (row, start));
                }
                Some(&(first_row, first)) => {
                    let first_end = if first_row == row { first + len } else { 0 };
                    is_cut[start.max(first_end)..start + len].fill(true);
                }
            }
        }
        // Each token with the white space after it; the white space before the first token stays.
        let begins: Vec<usize> = tokens
            .iter()
            .map(|token| token.as_ptr() as usize - text.as_ptr() as usize)
            .collect();
        let mut kept = text[..begins.first().copied().unwrap_or(text.len())].to_owned();
        for (place, begin) in begins.iter().enumerate() {
            let end = begins.get(place + 1).copied().unwrap_or(text.len());
            if !is_cut[place] {
                kept += &text[*begin..end];
            }
        }
        left.push(Some(kept));
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tokens_that_occur_before_are_cut_and_nothing_else(seed in any::<u64>(), count in 0usize..40) {
        let mut draw = Draw::new(seed);
        let units: &[char] = [&['a', ' '][..], &['a', 'b', ' ', '\n'], &['ö', '日', '\u{3000}', ' ']][draw.below(3)];
        let texts = texts(&mut draw, count, units);
        let batch = table(&texts, draw.below(3));
        let len = [2, 3, 5, 9][draw.below(4)];
        let group_rows = [1, 7, 100][draw.below(3)];
        let how = [(64 << 20, 1), (64 << 20, 3)][draw.below(2)];
        let (done, out, removed) = cut(&batch, group_rows, how, (len, Tokens)).unwrap();
        let left = arrow_cast::cast(out.column(1), &arrow_schema::DataType::LargeUtf8).unwrap();
        let left: Vec<Option<String>> =
            left.as_string::<i64>().iter().map(|text| text.map(str::to_owned)).collect();
        prop_assert_eq!(&left, &twin_of_tokens(&texts, len));
        // The remaining texts and the cuts together give the input.
        let number = |place: usize| removed.column(place).as_primitive::<UInt64Type>().values().to_vec();
        let (rows, starts, lens) = (number(0), number(1), number(2));
        let said = removed.column(4).as_string::<i64>();
        let mut tokens = 0;
        for place in 0..rows.len() {
            let text = texts[rows[place] as usize].as_deref().unwrap();
            let (start, end) = (starts[place] as usize, (starts[place] + lens[place]) as usize);
            prop_assert_eq!(&text[start..end], said.value(place));
            tokens += text[start..end].split_whitespace().count() as u64;
        }
        prop_assert_eq!((done.cuts, done.cut_units), (rows.len() as u64, tokens));
        let bytes = |texts: &[Option<String>]| texts.iter().flatten().map(String::len).sum::<usize>();
        prop_assert_eq!(bytes(&texts), bytes(&left) + lens.iter().sum::<u64>() as usize);
    }
}

#[test]
fn passages_that_do_not_fit_go_through_scratch_and_are_the_same_for_any_memory() {
    let mut draw = Draw::new(3);
    let words: Vec<String> = (0..4_000)
        .map(|_| {
            (0..60)
                .map(|_| char::from(b'a' + draw.below(26) as u8))
                .collect()
        })
        .collect();
    let texts: Vec<Option<String>> = (0..4_000)
        .map(|_| {
            Some(
                (0..8)
                    .map(|_| words[draw.below(words.len())].as_str())
                    .collect(),
            )
        })
        .collect();
    let batch = table(&texts, 0);
    let (done, small, removed) = cut(&batch, 200, (40 << 20, 2), (50, Bytes)).unwrap();
    assert!(done.table.scratch_bytes > 0);
    let all = cut(&batch, 200, (512 << 20, 1), (50, Bytes)).unwrap();
    assert_eq!(all.0.table.scratch_bytes, 0);
    assert!(small == all.1 && removed == all.2);
    check(&texts, &batch, 50, &all);
}

#[test]
fn what_cannot_be_cut_is_named_and_leaves_nothing() {
    let batch = table(&[Some("text".to_owned())], 0);
    let error = cut(&batch, 10, (64 << 20, 1), (7, Bytes)).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("7 bytes"), "{error}");
    let error = cut(&batch, 10, (64 << 20, 1), (1, Tokens)).unwrap_err();
    assert!(error.to_string().contains("1 token "), "{error}");
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let numbers = RecordBatch::try_from_iter([("text", ids)]).unwrap();
    let error = cut(&numbers, 10, (64 << 20, 1), (50, Bytes)).unwrap_err();
    assert!(error.to_string().contains("i64"), "{error}");
    assert_eq!(numbers.column(0).as_primitive::<Int64Type>().value(0), 1);
    let other = RecordBatch::try_from_iter([("txt", batch.column(1).clone())]).unwrap();
    let error = cut(&other, 10, (64 << 20, 1), (50, Bytes)).unwrap_err();
    assert!(error.to_string().contains("`txt`"), "{error}");
}
