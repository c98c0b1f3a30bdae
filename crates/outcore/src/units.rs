//! Units in text: sizes, rates and durations, parsed and printed; nearest-word suggestions.
//!
//! Contract: pure functions over text and numbers, no state.

/// The word of `known` that `word` most likely meant: at most a third of its letters differ.
/// Ties go to a word of the same letters, then to the earlier one. Cost: `known.len()` edit distances.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let wanted = word.to_ascii_lowercase();
    let letters = sorted_letters(&wanted);
    let (distance, _, closest) = known
        .iter()
        .map(|candidate| {
            let lower = candidate.to_ascii_lowercase();
            let has_other_letters = sorted_letters(&lower) != letters;
            (
                edit_distance(&wanted, &lower),
                has_other_letters,
                *candidate,
            )
        })
        .min_by_key(|(distance, has_other_letters, _)| (*distance, *has_other_letters))?;
    let longest = wanted.chars().count().max(closest.chars().count());
    (distance * 3 <= longest.max(3)).then_some(closest)
}

fn sorted_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Insertions, deletions, substitutions and swaps of neighbours between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if is_swap {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour_and_nonsense_finds_none() {
        let known = ["u32", "u64", "f32", "gensort"];
        assert_eq!(nearest("U64", &known), Some("u64"));
        assert_eq!(nearest("gnesort", &known), Some("gensort"));
        assert_eq!(nearest("u46", &known), Some("u64"));
        assert_eq!(nearest("banana", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
