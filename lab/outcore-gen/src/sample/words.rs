//! Invented words, and how often each is used.
//!
//! Contract: [`Words::new`] makes the same words each time. Rank 1 is the most frequent one, and
//! frequent words are short. Ranks follow Zipf's law, like the words of natural languages.

use outcore::Result;

use crate::random::{Draws, Stream, Zipf};

const BEGINNINGS: [&str; 20] = [
    "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "br", "dr", "gl", "pl",
    "st", "tr",
];
const MIDDLES: [&str; 10] = ["a", "e", "i", "o", "u", "ai", "ea", "io", "ou", "ua"];
const ENDINGS: [&str; 10] = ["", "", "l", "m", "n", "r", "s", "t", "nd", "rk"];
/// Words of ranks up to the first number have one syllable, those of ranks up to the second number
/// have two, and so on.
const LAST_RANKS: [u64; 3] = [300, 4000, 20_000];
/// Seed of the words, which are the same for every table.
const WORDS_SEED: u64 = 0x77_6F72_6473;

/// The words; see the module.
#[derive(Debug)]
pub(super) struct Words {
    words: Vec<String>,
    zipf: Zipf,
}

impl Words {
    /// All words.
    pub(super) fn new() -> Result<Self> {
        let count = LAST_RANKS[LAST_RANKS.len() - 1];
        let stream = Stream::new(WORDS_SEED, 0);
        Ok(Words {
            words: (1..=count)
                .map(|rank| word(rank, stream.draws(rank)))
                .collect(),
            zipf: Zipf::new(1.05, count)?,
        })
    }

    /// The word of rank `place` + 1.
    pub(super) fn word(&self, place: u32) -> &str {
        &self.words[place as usize]
    }

    /// Draws a word. Returns its rank minus 1.
    pub(super) fn draw(&self, draws: &mut Draws) -> u32 {
        (self.zipf.rank(draws) - 1) as u32
    }
}

fn word(rank: u64, mut draws: Draws) -> String {
    let syllables = 1 + LAST_RANKS.iter().filter(|last| rank > **last).count();
    let mut text = String::new();
    for _ in 0..syllables {
        for parts in [&BEGINNINGS[..], &MIDDLES, &ENDINGS] {
            text += pick(parts, &mut draws);
        }
    }
    text
}

/// One of several, all equally likely.
pub(super) fn pick<'t>(of: &[&'t str], draws: &mut Draws) -> &'t str {
    of[draws.below(of.len() as u64) as usize]
}
