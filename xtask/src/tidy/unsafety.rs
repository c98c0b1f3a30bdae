//! Restricts unsafe code to listed places.
//!
//! Contract: `unsafe` in any form, and attributes that permit it, appear only in the places below.
//! Each place is needed: some file with unsafe code is in it and in no other place. Clippy checks
//! that each use argues its soundness (`SAFETY:`, `# Safety`). The check uses the lexer, so the
//! word in prose or strings is ignored.

use super::rust::{Source, Sources};
use super::{Finding, Severity};

/// Files and folders (ending in `/`) that may contain unsafe code, with the reason.
const PLACES: [(&str, &str); 13] = [
    ("crates/outcore-io/src/memory.rs", "aligned buffers"),
    ("crates/outcore-io/src/memory/", "aligned buffers"),
    ("crates/outcore-io/src/drive/uring.rs", "io_uring's rings"),
    (
        "crates/outcore/src/partition/kernel.rs",
        "hot loops that measurements demanded",
    ),
    (
        "crates/outcore/src/key/byte_order.rs",
        "one vector instruction per record",
    ),
    (
        "crates/outcore/src/read/terminators.rs",
        "vectors that find the ends of lines",
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
        "crates/outcore-front/src/allocator.rs",
        "settings of the C library's allocator",
    ),
    (
        "crates/outcore-terminal/src/closed.rs",
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
    ("python/src/capsule.rs", "streams of other Python libraries"),
];

/// This file, for findings about its own list.
const OWN_PATH: &str = "xtask/src/tidy/unsafety.rs";

/// Checks every source, and every place in the list.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_needed = [false; PLACES.len()];
    for source in sources.all() {
        let tokens = &source.tokens;
        let mut lines = tokens
            .unsafes
            .iter()
            .chain(&tokens.unsafe_permits)
            .peekable();
        if lines.peek().is_none() {
            continue;
        }
        let mut places = (0..PLACES.len()).filter(|at| is_within(&source.path, PLACES[*at].0));
        match (places.next(), places.next()) {
            (Some(only), None) => is_needed[only] = true,
            (Some(_), Some(_)) => {}
            (None, _) => findings.extend(lines.map(|line| finding(source, *line))),
        }
    }
    if sources.get(OWN_PATH).is_some() {
        let idle = PLACES.iter().zip(is_needed).filter(|(_, needed)| !needed);
        findings.extend(idle.map(|((place, _), _)| not_needed(place)));
    }
    findings
}

fn not_needed(place: &str) -> Finding {
    Finding {
        path: OWN_PATH.to_owned(),
        line: 1,
        check: "unsafe",
        item: place.to_owned(),
        what: format!(
            "`{place}` may hold unsafe code, and has none that another entry does not allow"
        ),
        why: "a permission that nothing needs lets unsafe code in unnoticed",
        fix: "take the entry out".to_owned(),
        severity: Severity::Error,
    }
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
        why: "code that no compiler checks must be short, and in known places",
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
    fn a_place_that_needs_no_permission_is_found() {
        let text = "fn f() { unsafe { g() } }";
        let in_place = |place: &str| match place.ends_with('/') {
            true => format!("{place}x.rs"),
            false => place.to_owned(),
        };
        let paths: Vec<String> = PLACES.iter().map(|(place, _)| in_place(place)).collect();
        let idle = |files: &[(&str, &str)]| -> Vec<String> {
            let found = check(&Sources::of(&Tree::of(files)));
            found.into_iter().map(|finding| finding.item).collect()
        };
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), text)).collect();
        files.push((OWN_PATH, ""));
        assert_eq!(idle(&files), [""; 0]);
        // The first place has no unsafe code.
        files[0].1 = "fn f() {}";
        assert_eq!(idle(&files), [PLACES[0].0]);
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
