//! Where unsafe code may stand.
//!
//! Contract: `unsafe` in any form, and attributes that let it in, appear only in the places below.
//! That each argues why it is sound (`SAFETY:`, `# Safety`) is clippy's to check. Uses are seen by the
//! lexer, so the word in prose or strings is no matter.

use super::rust::{Source, Sources};
use super::{Finding, Severity};

/// Files and folders (ending in `/`) that may hold unsafe code, and what for.
const PLACES: [(&str, &str); 15] = [
    ("python/src/capsule.rs", "streams of other Python libraries"),
    ("crates/outcore-io/src/memory.rs", "aligned buffers"),
    ("crates/outcore-io/src/memory/", "aligned buffers"),
    ("crates/outcore-io/src/drive/uring.rs", "io_uring's rings"),
    (
        "crates/outcore/src/key/record.rs",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/key/record/",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/key/view.rs",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/partition/kernel.rs",
        "hot loops that measurements demanded",
    ),
    (
        "crates/outcore/src/partition/kernel/",
        "hot loops that measurements demanded",
    ),
    (
        "crates/outcore-store/examples/volume_depth1.rs",
        "a bare ring to measure against",
    ),
    (
        "crates/outcore/tests/heap.rs",
        "an allocator that counts, for one test",
    ),
    (
        "crates/outcore-cli/src/closed.rs",
        "a look at the standard streams before the runtime opens them",
    ),
    (
        "lab/outcore-sim/src/hot.rs",
        "hints to the processor's caches",
    ),
    (
        "crates/outcore-vector/src/product.rs",
        "the call of the matrix product",
    ),
    ("python/src/", "where PyO3 asks for it"),
];

/// Checks every source.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.all() {
        let is_place = PLACES
            .iter()
            .any(|(place, _)| is_within(&source.path, place));
        if is_place {
            continue;
        }
        let uses = source.tokens.unsafes.iter();
        for line in uses.chain(&source.tokens.unsafe_permits) {
            findings.push(finding(source, *line));
        }
    }
    findings
}

fn is_within(path: &str, place: &str) -> bool {
    if place.ends_with('/') {
        path.starts_with(place)
    } else {
        path == place
    }
}

fn finding(source: &Source, line: usize) -> Finding {
    Finding {
        path: source.path.clone(),
        line,
        check: "unsafe",
        item: String::new(),
        what: "unsafe code outside the places kept for it".to_owned(),
        why: "what no compiler proves must be little, and in known places",
        fix: "write it safely, or propose the file in xtask/src/tidy/unsafety.rs".to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Sources::of(&Tree::of(&[(path, text)])))
            .iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn unsafe_outside_its_places_is_found_even_if_argued() {
        let text = "#![allow(unsafe_code)]\nfn f() {\n // SAFETY: so\n unsafe { g() }\n}\n\
                    // unsafe in prose\nconst A: &str = \"unsafe\";";
        assert_eq!(found("crates/outcore/src/sort/mod.rs", text), [4, 1]);
        assert_eq!(found("crates/outcore/tests/t.rs", text), [4, 1]);
        assert_eq!(found("crates/outcore-io/src/memory.rs", text), [0; 0]);
        assert_eq!(found("crates/outcore-io/src/memory_map.rs", text), [4, 1]);
    }
}
