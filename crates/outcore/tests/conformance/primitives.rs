//! The conformance kit of the primitives: cases, their inputs, and their expected outputs.
//!
//! Contract: `primitives.json` lists the cases. Three drivers run each of them, through the engine,
//! the command and Python, against naive oracles in their own language (this one, and
//! `python/tests/test_conformance.py`). A case alone determines its input: item i is ((i + seed) *
//! 0x9E3779B97F4A7C15 mod 2^64 >> 1) % below; a line is its hexadecimal digits, repeated; each file
//! of a merge or of a segmented reduction is sorted. A shuffle has no naive oracle: its output is a
//! permutation with the digest of the case, for all drivers. `reduce_by_key` and `segmented_reduce`
//! count equal items, which the command and Python call `count-by`.

use serde_json::Value;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const TEXT: &str = include_str!("primitives.json");

/// A case.
pub(crate) struct Case(Value);

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(TEXT).unwrap();
    all.into_iter().map(Case).collect()
}

impl Case {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap()
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap()
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap()
    }

    pub(crate) fn is_lines(&self) -> bool {
        self.text("type") == "lines"
    }

    /// Whether the output is one shard per drive.
    pub(crate) fn is_sharded(&self) -> bool {
        self.number("drives") > 1 && !self.is_lines() && self.text("do") != "merge"
    }

    /// Whether each file of the input is sorted.
    fn is_in_order(&self) -> bool {
        ["merge", "segmented_reduce"].contains(&self.text("do"))
    }

    /// The condition of a case on `x`, if it has one.
    pub(crate) fn condition(&self) -> String {
        format!("x % {} == {}", self.number("mod"), self.number("is"))
    }

    /// The expression of a case that maps `x`.
    pub(crate) fn expression(&self) -> String {
        format!("x * {} + {}", self.number("a"), self.number("b"))
    }

    fn mapped(&self, item: u64) -> u64 {
        item.wrapping_mul(self.number("a"))
            .wrapping_add(self.number("b"))
    }

    fn holds(&self, item: u64) -> bool {
        item % self.number("mod") == self.number("is")
    }

    /// The numbers of the input; `further` is 1 for the input that it is zipped with.
    fn items(&self, further: u64) -> Vec<u64> {
        let (seed, below) = (self.number("seed") + further, self.number("below"));
        let item = |i: u64| ((i + seed).wrapping_mul(GOLDEN) >> 1) % below;
        (0..self.number("count")).map(item).collect()
    }

    fn width(&self) -> usize {
        match self.text("type") {
            "u32" => 4,
            _ => 8,
        }
    }

    /// Numbers in the type of the case.
    fn encode(&self, items: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let width = self.width();
        let bytes = |item: u64| item.to_le_bytes().into_iter().take(width);
        items.into_iter().flat_map(bytes).collect()
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        let line = |item: u64| format!("{item:x}").repeat((item % self.number("repeat")) as usize);
        let items = self.items(0).into_iter();
        items.map(|item| line(item).into_bytes()).collect()
    }

    /// The files of the input, in order; `further` as in [`Case::items`].
    pub(crate) fn files(&self, further: u64) -> Vec<Vec<u8>> {
        let count = self.number("count") as usize;
        let files = self.number("files") as usize;
        // The files have unequal lengths.
        let ends: Vec<usize> = (1..=files)
            .map(|file| count * file * file / (files * files))
            .collect();
        let mut lines = if self.is_lines() {
            self.lines()
        } else {
            Vec::new()
        };
        let mut items = self.items(further);
        let mut from = 0;
        ends.iter()
            .map(|end| {
                let range = std::mem::replace(&mut from, *end)..*end;
                if self.is_in_order() {
                    items[range.clone()].sort_unstable();
                    lines
                        .get_mut(range.clone())
                        .unwrap_or_default()
                        .sort_unstable();
                }
                if !self.is_lines() {
                    return self.encode(items[range].iter().copied());
                }
                let mut text = joined(&lines[range]);
                if !self.is("ends") && !text.is_empty() {
                    text.pop();
                }
                text
            })
            .collect()
    }

    /// The positions of a gather.
    pub(crate) fn positions(&self) -> Vec<u64> {
        let count = self.number("count");
        let position = |at: u64| at.wrapping_mul(2_654_435_761) % count;
        (0..self.number("positions")).map(position).collect()
    }

    /// Fails unless `output` is the expected one: bytes for items and lines, text for other
    /// results.
    pub(crate) fn check(&self, output: &[u8]) {
        let name = self.text("name");
        if self.text("do") != "shuffle" {
            let expected = self.expected();
            assert!(
                output == expected,
                "{name}: {} bytes, {} expected",
                output.len(),
                expected.len()
            );
            return;
        }
        let parts = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let mut parts: Vec<Vec<u8>> = match self.is_lines() {
                true => bytes
                    .split_inclusive(|b| *b == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect(),
                false => bytes.chunks(self.width()).map(<[u8]>::to_vec).collect(),
            };
            parts.sort_unstable();
            parts
        };
        let input = match self.is_lines() {
            true => joined(&self.lines()),
            false => self.encode(self.items(0)),
        };
        assert!(parts(output) == parts(&input), "{name}: a permutation");
        assert_eq!(digest(output), self.text("digest"), "{name}");
    }

    fn expected(&self) -> Vec<u8> {
        if self.is_lines() {
            return self.expected_lines();
        }
        let items = self.items(0);
        let text = |numbers: Vec<u64>| -> Vec<u8> {
            let lines = numbers.iter().map(|number| format!("{number}\n"));
            lines.collect::<String>().into_bytes()
        };
        match self.text("do") {
            "map" => self.encode(items.iter().map(|x| self.mapped(*x))),
            "filter" => self.encode(items.into_iter().filter(|x| self.holds(*x))),
            "reduce" => reduced(self.text("how"), &items).into_bytes(),
            "map_reduce" => {
                let bits = 8 * self.width() as u32;
                let mapped = items
                    .iter()
                    .map(|x| self.mapped(*x) & (u64::MAX >> (64 - bits)));
                reduced(self.text("how"), &mapped.collect::<Vec<_>>()).into_bytes()
            }
            "reverse" => self.encode(items.into_iter().rev()),
            "windows" => {
                let windows = items.windows(self.number("length") as usize);
                self.encode(windows.flatten().copied())
            }
            "flat_map" => self.encode(items.iter().flat_map(|x| [*x, self.mapped(*x)])),
            "enumerate" => (0_u64..)
                .zip(items)
                .flat_map(|(at, x)| [at.to_le_bytes().to_vec(), self.encode([x])].concat())
                .collect(),
            "scan" => self.encode(self.prefixes(&items)),
            "merge" => {
                let mut sorted = items;
                sorted.sort_unstable();
                self.encode(sorted)
            }
            "sort" => {
                let mut sorted = items;
                sorted.sort_unstable();
                if self.is("unique") {
                    sorted.dedup();
                }
                if self.is("descending") {
                    sorted.reverse();
                }
                self.encode(sorted)
            }
            "histogram" => text(self.bins(&items)),
            "top" => {
                let mut sorted = items;
                sorted.sort_unstable();
                if !self.is("smallest") {
                    sorted.reverse();
                }
                sorted.truncate(self.number("k") as usize);
                text(sorted)
            }
            "find" => {
                let found = items.iter().position(|x| self.holds(*x));
                text(found.map(|at| at as u64).into_iter().collect())
            }
            "partition" => {
                let parts = self.number("parts");
                let part = |part| items.iter().copied().filter(move |x| x % parts == part);
                self.encode((0..parts).flat_map(part))
            }
            "gather" => self.encode(self.positions().iter().map(|at| items[*at as usize])),
            "zip" => {
                let pairs = items.into_iter().zip(self.items(1));
                self.encode(pairs.flat_map(|(a, b)| [a, b]))
            }
            "unique" => self.encode(counted(items).into_iter().map(|(item, _)| item)),
            "count" | "reduce_by_key" | "segmented_reduce" => {
                self.encode(counted(items).into_iter().flat_map(|(item, n)| [item, n]))
            }
            other => panic!("{other} is not a primitive"),
        }
    }

    fn expected_lines(&self) -> Vec<u8> {
        let lines = self.lines();
        let groups = counted(lines.clone());
        match self.text("do") {
            "unique" => joined(&groups.into_iter().map(|(line, _)| line).collect::<Vec<_>>()),
            "count" => {
                let line = |(line, count): (Vec<u8>, u64)| {
                    [format!("{count:7} ").into_bytes(), line].concat()
                };
                joined(&groups.into_iter().map(line).collect::<Vec<_>>())
            }
            _ => {
                let mut sorted = lines;
                sorted.sort_unstable();
                let is_sort = self.text("do") == "sort";
                if is_sort && self.is("unique") {
                    sorted.dedup();
                }
                if is_sort && self.is("descending") {
                    sorted.reverse();
                }
                joined(&sorted)
            }
        }
    }

    fn prefixes(&self, items: &[u64]) -> Vec<u64> {
        type Fold = fn(u64, u64) -> u64;
        let bits = 8 * self.width() as u32;
        let most = u64::MAX >> (64 - bits);
        let (mut so_far, fold): (u64, Fold) = match self.text("op") {
            "sum" => (0, u64::wrapping_add),
            "product" => (1, u64::wrapping_mul),
            "min" => (most, Ord::min),
            _ => (0, Ord::max),
        };
        let step = |item: &u64| {
            let before = so_far;
            so_far = fold(so_far, *item) & most;
            if self.is("exclusive") { before } else { so_far }
        };
        items.iter().map(step).collect()
    }

    fn bins(&self, items: &[u64]) -> Vec<u64> {
        let (low, high, bins) = (self.number("low"), self.number("high"), self.number("bins"));
        let mut counts = vec![0; bins as usize];
        for item in items.iter().filter(|item| (low..=high).contains(item)) {
            counts[((item - low) * bins / (high - low)).min(bins - 1) as usize] += 1;
        }
        counts
    }
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    let ended = lines.iter().flat_map(|line| [&line[..], b"\n"]);
    ended.collect::<Vec<_>>().concat()
}

fn counted<T: Ord>(items: Vec<T>) -> Vec<(T, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// The result as the command prints it.
fn reduced(how: &str, items: &[u64]) -> String {
    let sum: u128 = items.iter().map(|item| u128::from(*item)).sum();
    let whole = |value: Option<u64>| value.map_or("none".to_string(), |value| value.to_string());
    let text = match how {
        "sum" => sum.to_string(),
        "count" => items.len().to_string(),
        "min" => whole(items.iter().copied().min()),
        "max" => whole(items.iter().copied().max()),
        "mean" if items.is_empty() => "none".to_string(),
        "mean" => format!("{:?}", sum as f64 / items.len() as f64),
        _ => whole(items.iter().copied().reduce(|a, b| a ^ b)),
    };
    format!("{text}\n")
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    format!("{:016x}", bytes.iter().fold(0xCBF2_9CE4_8422_2325, fold))
}
