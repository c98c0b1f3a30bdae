//! Checks that the name of a measured number ends with its unit.
//!
//! Contract. The rule, in order:
//! 1. The rule applies to named fields, function parameters, constants and statics whose type is a
//!    number (or an option, list, slice, cell or atomic of numbers) in shipped Rust code, and to
//!    Python parameters annotated `int` or `float`. Types that carry their unit (`Duration`, a
//!    newtype), names that a foreign trait dictates, and test code are exempt.
//! 2. Words at the end of the name that only say *which* (`min`, `max`, `total`, `p99`, `start`,
//!    numbers, ...) are ignored.
//! 3. If the last remaining word is a quantity without a unit (the table below), that is a finding:
//!    `timeout` -> `timeout_ms`, `block_size` -> `block_bytes`, `offset_max` -> `offset_bytes_max`
//!    or `offset_max_bytes`, `len` -> `key_bytes` or `keys_count`.
//!
//! `with_capacity(capacity)` counts elements, as everywhere in the standard library. Any other last
//! word is accepted: it is a unit, or the name counts things or is not a measure at all
//! (`size_class`, `memory_share`, `offset_index`).

use super::dead::Modules;
use super::rust::Sources;
use super::tree::Tree;
use super::{Finding, Severity, python};

/// Quantities that could be in several units, with the suffixes to choose from.
const QUANTITIES: [(&[&str], &str); 3] = [
    (
        &[
            "size",
            "sizes",
            "len",
            "lens",
            "length",
            "lengths",
            "offset",
            "offsets",
            "capacity",
            "capacities",
            "memory",
            "footprint",
            "filesize",
        ],
        "_bytes, _records, _blocks, _sectors, _count",
    ),
    (
        &[
            "time",
            "times",
            "timeout",
            "timeouts",
            "latency",
            "latencies",
            "delay",
            "delays",
            "duration",
            "durations",
            "elapsed",
            "deadline",
            "deadlines",
            "interval",
            "intervals",
            "now",
            "timestamp",
            "timestamps",
            "eta",
        ],
        "_ns, _us, _ms, _seconds",
    ),
    (
        &[
            "bandwidth",
            "bandwidths",
            "throughput",
            "throughputs",
            "speed",
            "speeds",
        ],
        "_bytes_per_second, _gib_per_second, _iops",
    ),
];

/// Words that select one of several values and do not name the quantity.
const WHICH: [&str; 32] = [
    "min", "max", "minimum", "maximum", "mean", "median", "avg", "average", "total", "sum",
    "limit", "used", "free", "left", "low", "high", "read", "write", "reads", "writes", "before",
    "after", "first", "last", "start", "end", "begin", "old", "new", "default", "p50", "p99",
];

/// Checks Rust and Python names.
pub(super) fn check(tree: &Tree, sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources
        .all()
        .iter()
        .filter(|source| !modules.is_test_file(&source.path))
    {
        for value in source.values.iter().filter(|value| value.is_number) {
            if !source.is_test_line(value.line) {
                let (path, line) = (source.path.as_str(), value.line);
                findings.extend(judge(path, line, &value.item, &value.name));
            }
        }
    }
    let is_shipped = |path: &str| !path.split('/').any(|part| part == "tests");
    for file in tree
        .files()
        .iter()
        .filter(|f| f.extension() == "py" && is_shipped(&f.path))
    {
        for function in python::functions(&file.text) {
            for name in &function.number_parameters {
                let item = format!("{}({name})", function.name);
                findings.extend(judge(&file.path, function.line, &item, name));
            }
        }
    }
    findings
}

fn judge(path: &str, line: usize, item: &str, name: &str) -> Option<Finding> {
    if item.ends_with("with_capacity(capacity)") {
        return None;
    }
    let (word, suffixes) = quantity_of(name)?;
    Some(Finding {
        path: path.to_owned(),
        line,
        check: "units",
        item: item.to_owned(),
        what: format!("`{item}` is a number of unknown unit"),
        why: "a size in the wrong unit compiles, and fails on the largest input",
        fix: format!("end `{word}` in its unit: {suffixes}"),
        severity: Severity::Error,
    })
}

/// The quantity at the end of a name, if no unit follows it.
fn quantity_of(name: &str) -> Option<(String, &'static str)> {
    let name = name.to_lowercase();
    let says_which = |word: &&str| {
        WHICH.contains(word)
            || word.chars().all(|sign| sign.is_ascii_digit())
            || word.strip_prefix('p').is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|sign| sign.is_ascii_digit())
            })
    };
    let mut words = name
        .split('_')
        .filter(|word| !word.is_empty())
        .rev()
        .peekable();
    while words.next_if(says_which).is_some() {}
    let word = words.next()?;
    let (_, suffixes) = QUANTITIES.iter().find(|(known, _)| known.contains(&word))?;
    Some((word.to_owned(), suffixes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let manifest = ("crates/a/Cargo.toml", "[package]\nname='a'");
        let tree = Tree::of(&[manifest, (path, text)]);
        let sources = Sources::of(&tree);
        let modules = Modules::of(&tree, &sources);
        check(&tree, &sources, &modules)
            .into_iter()
            .map(|f| f.item)
            .collect()
    }

    #[test]
    fn a_measure_without_a_unit_is_found() {
        let text = "struct S { size: u64, timeout: Option<f64>, offsets: Vec<u64> }\n\
                    enum E { A { latency_p99: f64 } }\n\
                    const BLOCK_SIZE: usize = 1; static MEMORY_MAX: u64 = 2;\n\
                    impl S { fn f(&self, len: usize, now: u64) {} }";
        let expected = [
            "S.size",
            "S.timeout",
            "S.offsets",
            "E::A.latency_p99",
            "BLOCK_SIZE",
            "MEMORY_MAX",
            "S::f(len)",
            "S::f(now)",
        ];
        assert_eq!(found("crates/a/src/lib.rs", text), expected);
    }

    #[test]
    fn units_counts_and_typed_quantities_pass() {
        let text = "struct S { block_bytes: u64, timeout: Duration, latency_us_p99: f64,\n\
                    latency_max_ns: u64, depth_max: u32, size_class: u8, memory: Bytes, len: T,\n\
                    bandwidth_fraction: f64, keys_count: usize, time_limit: Instant }\n\
                    impl io::Seek for S { fn f(&self, offset: u64) {} }\n\
                    impl S { fn with_capacity(capacity: usize) {} }\n\
                    #[cfg(test)] mod tests { fn g(size: usize) {} }";
        assert_eq!(found("crates/a/src/lib.rs", text), [""; 0]);
        assert_eq!(
            found("crates/a/tests/t.rs", "fn f(size: usize) {}"),
            [""; 0]
        );
    }

    #[test]
    fn python_numbers_are_held_to_the_same() {
        let text = "def f(timeout: float, memory: str, size: int = 1, size_bytes: int = 2): pass\n";
        assert_eq!(
            found("python/outcore/x.py", text),
            ["f(timeout)", "f(size)"]
        );
        assert_eq!(found("python/tests/x.py", text), [""; 0]);
    }
}
