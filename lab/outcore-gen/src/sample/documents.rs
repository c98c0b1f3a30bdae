//! Pages of text, some of which repeat others.
//!
//! Contract: as in [`super`]. About 5 % of the documents are copies of an earlier document. About
//! 15 % differ from an earlier document in about one word of thirty. Copies have addresses of their
//! own, so that only the text identifies them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field};
use outcore::Result;

use super::words::{Words, pick};
use super::{FROM_US, SECOND_US, time_field};
use crate::random::{Draws, Stream};

const LANGUAGES: [&str; 8] = ["en", "en", "en", "en", "de", "fr", "es", "ja"];
const WORDS_MIN: u64 = 20;
const WORDS_MORE: u64 = 280;
/// Copies and near copies among a hundred documents.
const COPIES: u64 = 5;
const NEAR: u64 = 15;
/// A near copy changes one word in this many.
const CHANGED_ONE_IN: u64 = 30;
/// Documents per block; a copy and its original are in the same block.
const BLOCK: u64 = 1 << 20;

/// The documents; see the module.
#[derive(Debug)]
pub(super) struct Documents {
    words: Words,
    /// Chooses the origin of a document, and its differences from the original.
    kinds: Stream,
    /// Chooses the words of an original.
    texts: Stream,
}

/// The origin of a document.
enum Origin {
    Original,
    Copy(u64),
    Near(u64),
}

/// The columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::new("id", DataType::Int64, false),
        Field::new("url", DataType::Utf8, false),
        Field::new("lang", DataType::Utf8, false),
        time_field("fetched"),
        Field::new("text", DataType::Utf8, false),
    ]
}

impl Documents {
    pub(super) fn new(seed: u64) -> Result<Self> {
        Ok(Documents {
            words: Words::new()?,
            kinds: Stream::new(seed, 3),
            texts: Stream::new(seed, 4),
        })
    }

    fn origin(&self, number: u64) -> Origin {
        let mut draws = self.kinds.draws(number);
        let kind = draws.below(100);
        let block = number / BLOCK * BLOCK;
        // An earlier document of the same block; the first of a block is always an original.
        let other = block + draws.below((number - block).max(1));
        match kind {
            _ if number == block => Origin::Original,
            kind if kind < COPIES => Origin::Copy(other),
            kind if kind < COPIES + NEAR => Origin::Near(other),
            _ => Origin::Original,
        }
    }

    /// The original document at the end of the chain of copies.
    fn original_of(&self, mut number: u64) -> u64 {
        loop {
            match self.origin(number) {
                Origin::Original => return number,
                // Each document in the chain comes before the one that repeats it.
                Origin::Copy(other) | Origin::Near(other) => number = other,
            }
        }
    }

    fn words_of(&self, number: u64) -> Vec<u32> {
        let original = self.original_of(number);
        let mut draws = self.texts.draws(original);
        let count = WORDS_MIN + draws.below(WORDS_MORE);
        let mut words: Vec<u32> = (0..count).map(|_| self.words.draw(&mut draws)).collect();
        if let Origin::Near(_) = self.origin(number) {
            let mut draws = self.kinds.draws(number);
            draws.word();
            draws.word();
            let changes = 1 + count / CHANGED_ONE_IN;
            for _ in 0..changes {
                let place = draws.below(count) as usize;
                words[place] = self.words.draw(&mut draws);
            }
        }
        words
    }

    /// Sentences of some words each.
    fn text(&self, number: u64) -> String {
        let words = self.words_of(number);
        let mut text = String::with_capacity(words.len() * 7);
        let (mut left, mut sentence) = (0, 0);
        for (place, word) in words.iter().enumerate() {
            let word = self.words.word(*word);
            if left == 0 {
                sentence += 1;
                left = 5 + (words[0] as usize + 7 * sentence) % 12;
                let mut letters = word.chars();
                text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
                text += letters.as_str();
            } else {
                text += word;
            }
            left -= 1;
            text += match (left, place + 1 == words.len()) {
                (_, true) => ".",
                (0, _) => ". ",
                _ => " ",
            };
        }
        text
    }

    pub(super) fn texts(&self, numbers: Range<u64>) -> StringArray {
        numbers.map(|number| Some(self.text(number))).collect()
    }

    pub(super) fn columns(&self, numbers: Range<u64>) -> Vec<ArrayRef> {
        let count = (numbers.end - numbers.start) as usize;
        let id = Int64Array::from_iter_values(numbers.clone().map(|number| number as i64));
        let mut url = StringBuilder::with_capacity(count, count * 40);
        let mut lang = StringBuilder::with_capacity(count, count * 2);
        let mut fetched = TimestampMicrosecondArray::builder(count);
        for number in numbers.clone() {
            let mut draws = self.kinds.draws(!number);
            url.append_value(self.url(number, &mut draws));
            lang.append_value(pick(&LANGUAGES, &mut draws));
            fetched.append_value(FROM_US + draws.below(30 * 86_400) as i64 * SECOND_US);
        }
        let text = self.texts(numbers);
        vec![
            Arc::new(id),
            Arc::new(url.finish()),
            Arc::new(lang.finish()),
            Arc::new(fetched.finish()),
            Arc::new(text),
        ]
    }

    fn url(&self, number: u64, draws: &mut Draws) -> String {
        let site = self.words.word(300 + draws.below(2000) as u32);
        let page = self.words.word(self.words.draw(draws));
        format!("https://{site}.example/{page}-{number}")
    }
}
