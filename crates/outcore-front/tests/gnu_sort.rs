//! Lines in GNU sort's order: byte for byte the output of `sort` itself, for a generated corpus.
//!
//! Contract: each case is a set of options and a small odd file, drawn from a seed that is printed
//! with a failure. `sort` runs once per case under `LC_ALL=C`; without `sort`, the test is skipped
//! visibly. The order of `-R` differs in each run, so the tests only check that its equal keys stay
//! together.
//!
//! coreutils 9.1 differs from 9.0 and 9.2 in two points, so words that show them are left out for
//! 9.1. Under `-V`, it treats a name that is all suffix (`.a`) as a name without a stem (its NEWS:
//! "ls -v and sort -V go back to sorting .0 before .A"). Under `-g`, it compares NaNs by
//! uninitialised bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cmp::Ordering;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use outcore::key::sort_key::{SortKey, Tie, compare_items};
use outcore_front::text::gnu::{GnuOrder, GnuSort, Key, OptionScope};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const SEED: u64 = 20_261_122;
const CASES: u64 = 2_600;

/// Options, as `sort` and as the library have them.
#[derive(Debug, Default)]
struct Case {
    arguments: Vec<String>,
    keys: Vec<String>,
    global: String,
    separator: Option<u8>,
    stable: bool,
    unique: bool,
    zero: bool,
    input: Vec<u8>,
}

impl Case {
    fn draw(random: &mut SmallRng) -> Self {
        let mut case = Case {
            stable: random.random_bool(0.2),
            unique: random.random_bool(0.25),
            zero: random.random_bool(0.1),
            ..Case::default()
        };
        if random.random_bool(0.6) {
            let separators = b",,,,: \t;a0\0.";
            case.separator = separators.choose(random).copied();
        }
        let kind = draw_kind(random);
        case.global = draw_letters(random, kind, 0.5);
        for _ in 0..[0, 1, 1, 1, 2, 3].choose(random).copied().unwrap_or(0) {
            let kind = if random.random_bool(0.5) {
                kind
            } else {
                draw_kind(random)
            };
            case.keys.push(draw_key(random, kind));
        }
        if case.separator == Some(b'.') && !case.is_comparable(".a") {
            case.separator = Some(b',');
        }
        case.input = draw_input(random, &case);
        case.arguments = case.to_arguments();
        case
    }

    /// Whether `sort` orders the word as documented, wherever keys begin.
    fn is_comparable(&self, word: &str) -> bool {
        let has_letter = |letter| {
            self.keys.iter().any(|key| key.contains(letter)) || self.global.contains(letter)
        };
        if !GNU_VERSION.contains(" 9.1") {
            return true;
        }
        if has_letter('g') && word.to_ascii_lowercase().contains("nan") {
            return false;
        }
        if !has_letter('V') {
            return true;
        }
        let has_suffix = |word: &str| {
            let pairs = word.as_bytes().windows(2);
            let mut pairs = pairs.filter(|pair| pair[0] == b'.');
            pairs.any(|pair| pair[1].is_ascii_alphabetic() || pair[1] == b'~')
        };
        let is_cut = ['.', 'd', 'i'].into_iter().any(has_letter)
            || self.separator.is_some_and(|byte| b"a0.".contains(&byte));
        match is_cut {
            true => !has_suffix(word),
            false => !has_suffix(word.get(..2).unwrap_or_default()),
        }
    }

    fn to_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.keys.iter().map(|key| format!("-k{key}")).collect();
        arguments.extend(self.global.chars().map(|letter| format!("-{letter}")));
        arguments.extend(self.separator.map(|byte| match byte {
            0 => "-t\\0".to_string(),
            byte => format!("-t{}", char::from(byte)),
        }));
        let flags = [("-s", self.stable), ("-u", self.unique), ("-z", self.zero)];
        let set = flags.iter().filter(|(_, is_set)| *is_set);
        arguments.extend(set.map(|(flag, _)| (*flag).to_string()));
        arguments
    }

    fn to_order(&self) -> outcore::Result<GnuOrder> {
        let mut sort = GnuSort {
            separator: self.separator,
            stable: self.stable,
            unique: self.unique,
            ..GnuSort::default()
        };
        for letter in self.global.bytes() {
            assert!(sort.global.set(letter, OptionScope::Both));
        }
        for key in &self.keys {
            sort.keys.push(Key::parse(key)?);
        }
        GnuOrder::new(&sort)
    }

    fn terminator(&self) -> u8 {
        if self.zero { 0 } else { b'\n' }
    }

    /// The library's output for the input.
    fn sorted(&self, order: &GnuOrder) -> Vec<u8> {
        let mut lines: Vec<(Vec<u8>, &[u8])> = lines_of(&self.input, self.terminator())
            .map(|line| (key_of(order, line), line))
            .collect();
        lines.sort_by(|a, b| compare(order, a, b));
        if self.unique {
            lines.dedup_by(|a, b| a.0 == b.0);
        }
        let terminator = [self.terminator()];
        lines
            .iter()
            .flat_map(|(_, line)| [*line, &terminator].concat())
            .collect()
    }
}

fn lines_of(input: &[u8], terminator: u8) -> impl Iterator<Item = &[u8]> {
    let whole = input.strip_suffix(&[terminator]).unwrap_or(input);
    let is_empty = input.is_empty();
    whole
        .split(move |byte| *byte == terminator)
        .filter(move |_| !is_empty)
}

fn key_of(order: &GnuOrder, line: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    order.append_key(line, &mut key).unwrap();
    if order.is_item() {
        assert_eq!(key, line, "{order:?}");
    }
    key
}

fn compare(order: &GnuOrder, a: &(Vec<u8>, &[u8]), b: &(Vec<u8>, &[u8])) -> Ordering {
    let by_key = match order.is_descending() {
        false => a.0.cmp(&b.0),
        true => b.0.cmp(&a.0),
    };
    let compared = by_key.then_with(|| match order.tie() {
        Tie::Bytes => a.1.cmp(b.1),
        Tie::BytesDescending => b.1.cmp(a.1),
        Tie::Position => Ordering::Equal,
    });
    assert_eq!(Ok(compared), compare_items(order, a.1, b.1));
    compared
}

fn draw_kind(random: &mut SmallRng) -> Option<char> {
    let kinds = [
        None,
        None,
        Some('n'),
        Some('n'),
        Some('g'),
        Some('h'),
        Some('M'),
        Some('V'),
    ];
    kinds.choose(random).copied().flatten()
}

/// Mostly letters that may be combined, and sometimes others.
fn draw_letters(random: &mut SmallRng, kind: Option<char>, chance: f64) -> String {
    let mut letters = String::new();
    if random.random_bool(chance) {
        letters.extend(kind);
    }
    for (letter, chance) in [
        ('r', 0.3),
        ('b', 0.2),
        ('f', 0.2),
        ('d', 0.08),
        ('i', 0.08),
        ('n', 0.02),
    ] {
        if random.random_bool(chance) {
            letters.push(letter);
        }
    }
    letters
}

fn draw_key(random: &mut SmallRng, kind: Option<char>) -> String {
    let mut key = random.random_range(1..5).to_string();
    if random.random_bool(0.25) {
        key.push_str(&format!(".{}", random.random_range(1..6)));
    }
    key.push_str(&draw_letters(random, kind, 0.6));
    if random.random_bool(0.7) {
        key.push_str(&format!(",{}", random.random_range(1..5)));
        if random.random_bool(0.25) {
            key.push_str(&format!(".{}", random.random_range(0..6)));
        }
        if random.random_bool(0.3) {
            key.push_str(&draw_letters(random, None, 0.0));
        }
    }
    key
}

const WORDS: &[&str] = &[
    "",
    "",
    "a",
    "B",
    "b",
    "ab",
    "aB",
    "A b",
    "abc",
    "~",
    "_x",
    "#",
    "\u{e9}",
    "0",
    "00",
    "-0",
    "1",
    "01",
    "1.0",
    "2",
    "10",
    "100",
    "-1",
    "-10",
    "-1.5",
    "1.5",
    "1.50",
    ".5",
    "-.5",
    "5.",
    "1.05",
    "99999999999999999999",
    "100000000000000000000",
    "0.00000000000000000001",
    "1,000",
    "+1",
    "- 1",
    "--1",
    "1e3",
    "1E-3",
    "1e",
    "1e+",
    "0x1F",
    "0x1.8p3",
    "0x",
    "inf",
    "-INF",
    "infinity",
    "nan",
    "-nan",
    "NaN(12)",
    "1e400",
    "-1e400",
    "1e-400",
    "1e4932",
    "1.18973149535723176508e4932",
    "1.1897314953572317651e4932",
    "1e5000",
    "3.6e-4951",
    "1.8e-4951",
    "0.1",
    "0.10000000000000000000001",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551617",
    "1K",
    "1k",
    "2k",
    "1M",
    "1.5M",
    "10M",
    "1G",
    "999G",
    "-1K",
    "-1M",
    "0K",
    "0.0M",
    "1T",
    "1P",
    "1E",
    "1Z",
    "1Y",
    "1Ki",
    "1KB",
    "1m",
    "1 K",
    "1.K",
    "1..",
    "jan",
    "FEB",
    "Mar",
    "april",
    "MAYBE",
    "jun",
    "JUL",
    "Aug",
    "sepx",
    "oct",
    "nov",
    "dec",
    "ja",
    "  jan",
    "a1",
    "a01",
    "a2",
    "a10",
    "a1.tar.gz",
    "a2.tar",
    "a1~",
    "a1.0",
    "a1.00",
    "v1.2.3",
    "v1.2.10",
    "1.2~rc1",
    "1.2-3",
    "1.2.tar",
    ".",
    "..",
    ".a",
    ".b1",
    ".b10",
    "..a",
    "a.b.c",
    "a.1b",
    "x\r",
    "\u{1}",
    "tab\there",
    "zz9",
    "z10a",
];

fn draw_input(random: &mut SmallRng, case: &Case) -> Vec<u8> {
    let count = [0, 1, 2, 5, 12, 12, 30, 30, 60]
        .choose(random)
        .copied()
        .unwrap_or(0);
    let words: Vec<&str> = (0..random.random_range(2..30))
        .filter_map(|_| WORDS.choose(random).copied())
        .filter(|word| case.is_comparable(word))
        .collect();
    let words = if words.is_empty() { vec!["1"] } else { words };
    let blanks: &[&[u8]] = &[b" ", b" ", b"  ", b"\t", b" \t ", b",", b":", b"\0", b"\n"];
    let mut input = Vec::new();
    for index in 0..count {
        for field in 0..random.random_range(0..6) {
            if field > 0 {
                match case.separator {
                    Some(byte) if random.random_bool(0.85) => input.push(byte),
                    _ => input.extend_from_slice(blanks.choose(random).unwrap()),
                }
            }
            if random.random_bool(0.12) {
                input.extend_from_slice(blanks.choose(random).unwrap());
            }
            match random.random_bool(0.03) {
                true => input.extend((0..random.random_range(1..9)).map(|_| random.random::<u8>())),
                false => input.extend_from_slice(words.choose(random).unwrap().as_bytes()),
            }
        }
        if index + 1 < count || random.random_bool(0.8) {
            input.push(case.terminator());
        }
    }
    input
}

/// The output of `sort` for the input; nothing if `sort` rejects the options.
fn by_gnu(arguments: &[String], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new("sort")
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The input fits into the pipe, so this write ends even if `sort` rejects its options and reads
    // nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// The first line of `sort --version`; empty without it.
static GNU_VERSION: LazyLock<String> = LazyLock::new(|| {
    let said = Command::new("sort").arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    said.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
});

fn has_gnu_sort() -> bool {
    let is_there = GNU_VERSION.starts_with("sort (GNU coreutils)");
    if !is_there {
        println!("SKIP: there is no GNU sort to compare with");
    }
    is_there
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\n", "\n")
}

#[test]
fn output_is_that_of_gnu_sort_over_thousands_of_keys_options_and_odd_files() {
    if !has_gnu_sort() {
        return;
    }
    let threads = 2;
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let cases = (0..CASES).filter(|case| case % threads == thread);
                    cases.map(|case| ask(SEED + case)).collect::<Vec<_>>()
                })
            })
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    let wrong: Vec<&str> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Wrong(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} are wrong: {}",
        wrong.len(),
        wrong[..wrong.len().min(4)].join("\n")
    );
    let same_count = answers
        .iter()
        .filter(|answer| **answer == Answer::Same)
        .count();
    assert!(same_count >= 2_000, "{same_count} of {CASES} were compared");
}

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Same,
    BothRefuse,
    Wrong(String),
}

fn ask(seed: u64) -> Answer {
    let case = Case::draw(&mut SmallRng::seed_from_u64(seed));
    let wanted = by_gnu(&case.arguments, &case.input);
    let wrong = |text: String| {
        let (arguments, input) = (&case.arguments, show(&case.input));
        Answer::Wrong(format!(
            "seed {seed}: sort {arguments:?}: {text}\ninput:\n{input}\n"
        ))
    };
    match (case.to_order(), wanted) {
        (Err(_), None) => Answer::BothRefuse,
        (Ok(order), Some(wanted)) => match case.sorted(&order) {
            got if got == wanted => Answer::Same,
            got => wrong(format!(
                "\nwanted:\n{}\ngot:\n{}",
                show(&wanted),
                show(&got)
            )),
        },
        (Ok(_), None) => wrong("GNU sort refuses it".to_string()),
        (Err(error), Some(_)) => wrong(error.to_string()),
    }
}

#[test]
fn equal_keys_stay_together_in_random_order_and_a_seed_repeats_it() {
    let order = |seed| {
        let mut sort = GnuSort {
            seed,
            ..GnuSort::default()
        };
        sort.keys.push(Key::parse("2,2R").unwrap());
        GnuOrder::new(&sort).unwrap()
    };
    let lines: Vec<String> = (0..600)
        .map(|line| format!("{line} {}", line % 40))
        .collect();
    let sorted = |seed| {
        let order = order(seed);
        let mut lines = lines.clone();
        lines.sort_by(|a, b| compare_items(&order, a.as_bytes(), b.as_bytes()).unwrap());
        lines
    };
    let first = sorted(1);
    let mut groups: Vec<&str> = first
        .iter()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    groups.dedup();
    assert_eq!(groups.len(), 40);
    assert_eq!(first, sorted(1));
    assert_ne!(first, sorted(2));
}
