//! The rows of samples.
//!
//! Contract: the tests compare texts by pairs of words and use no hash of the engine.

use std::collections::{HashMap, HashSet};

use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_select::concat::concat_batches;

use super::{Sample, SampleKind};

#[test]
fn rows_are_the_same_however_they_are_cut_into_batches_and_others_for_another_seed() {
    for kind in SampleKind::ALL {
        let sample = Sample::new(kind, 7, 1000).unwrap();
        let whole = sample.batch(0..1000).unwrap();
        assert_eq!(whole.schema(), *sample.schema());
        let parts = [0..1, 1..437, 437..437, 437..1000];
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| sample.batch(part).unwrap())
            .collect();
        assert_eq!(
            concat_batches(sample.schema(), &parts).unwrap(),
            whole,
            "{kind}"
        );
        assert_eq!(
            Sample::new(kind, 7, 1000).unwrap().batch(0..1000).unwrap(),
            whole
        );
        let other = Sample::new(kind, 8, 1000).unwrap();
        assert_ne!(other.batch(0..1000).unwrap(), whole, "{kind}");
        let lines = sample.lines(0..1000).unwrap();
        assert_eq!(lines.is_some(), kind.has_lines());
        for line in lines
            .iter()
            .flat_map(|lines| lines.column(0).as_string::<i32>())
        {
            assert!(line.is_some_and(|line| !line.is_empty() && !line.contains('\n')));
        }
    }
}

fn texts(count: u64) -> StringArray {
    let documents = Sample::new(SampleKind::Documents, 1, count).unwrap();
    let batch = documents.batch(0..count).unwrap();
    batch
        .column_by_name("text")
        .unwrap()
        .as_string::<i32>()
        .clone()
}

#[test]
fn a_fifth_of_the_documents_repeat_others_nearly_or_exactly() {
    let texts = texts(4000);
    let mut exact = HashSet::new();
    let copies = texts
        .iter()
        .flatten()
        .filter(|text| !exact.insert(*text))
        .count();
    assert!((100..300).contains(&copies), "{copies}");
    // Near copies have most pairs of words in common with another document.
    let pairs = |text: &str| {
        let words: Vec<String> = text.split(' ').map(str::to_lowercase).collect();
        words
            .windows(2)
            .map(|pair| pair.join(" "))
            .collect::<HashSet<String>>()
    };
    let mut documents_of: HashMap<String, Vec<usize>> = HashMap::new();
    let mut near = 0;
    for (number, text) in texts.iter().flatten().enumerate() {
        let own = pairs(text);
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for other in own
            .iter()
            .filter_map(|pair| documents_of.get(pair))
            .flatten()
        {
            *shared.entry(*other).or_default() += 1;
        }
        let most = shared.values().max().copied().unwrap_or(0);
        near += usize::from(most * 10 >= own.len() * 7);
        for pair in own {
            documents_of.entry(pair).or_default().push(number);
        }
    }
    assert!((600..1000).contains(&near), "{near}");
}
