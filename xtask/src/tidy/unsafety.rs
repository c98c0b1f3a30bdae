//! Where unsafe code may stand, and that it argues why it is sound.
//!
//! Contract: `unsafe` in any form, and attributes that let it in, appear only in the places below.
//! A claim (`unsafe {}`, `unsafe impl`, an unsafe attribute) has a comment with `SAFETY:` on its
//! line or right above its statement; a duty (`unsafe fn`, `unsafe trait`) documents `# Safety`.
//! Comments are seen by line, tokens by the lexer, so the word in prose or strings is no matter.

use super::rust::{Source, Sources};
use super::tokens::UnsafeKind;
use super::{Finding, Severity};

/// Files and folders (ending in `/`) that may hold unsafe code, and what for.
const PLACES: [(&str, &str); 13] = [
    ("crates/outcore/src/memory.rs", "aligned buffers"),
    ("crates/outcore/src/memory/", "aligned buffers"),
    ("crates/outcore/src/drive/uring.rs", "io_uring's rings"),
    (
        "crates/outcore/src/data/record.rs",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/data/record/",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/data/view.rs",
        "records as bytes and back",
    ),
    (
        "crates/outcore/src/algo/partition/kernel.rs",
        "hot loops that measurements demanded",
    ),
    (
        "crates/outcore/src/algo/partition/kernel/",
        "hot loops that measurements demanded",
    ),
    (
        "crates/outcore/examples/volume_depth1.rs",
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
        "crates/outcore-sim/src/hot.rs",
        "hints to the processor's caches",
    ),
    ("python/src/", "where PyO3 asks for it"),
];

/// Lines of a statement above `unsafe` that are passed on the way to its comment.
const STATEMENT_LINES_MAX: usize = 6;

/// Checks every source.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.all() {
        let is_place = PLACES
            .iter()
            .any(|(place, _)| is_within(&source.path, place));
        let uses = source.tokens.unsafes.iter().map(|(line, _)| *line);
        if !is_place {
            for line in uses.chain(source.tokens.unsafe_permits.iter().copied()) {
                findings.push(finding(
                    source,
                    line,
                    "unsafe code outside the places kept for it",
                    "write it safely, or propose the file in xtask/src/tidy/unsafety.rs",
                ));
            }
            continue;
        }
        for (line, kind) in &source.tokens.unsafes {
            if !is_argued(source, *line, *kind) {
                let (what, fix) = match kind {
                    UnsafeKind::Claim => ("unsafe without a SAFETY argument", "// SAFETY: above"),
                    UnsafeKind::Duty => ("an unsafe duty that is not documented", "/// # Safety"),
                };
                findings.push(finding(
                    source,
                    *line,
                    what,
                    &format!("say why it holds: `{fix}`"),
                ));
            }
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

fn is_argued(source: &Source, line: usize, kind: UnsafeKind) -> bool {
    let argues = |text: &str| match kind {
        UnsafeKind::Claim => text.contains("SAFETY:"),
        UnsafeKind::Duty => text.contains("# Safety") || text.contains("SAFETY:"),
    };
    let text = |line: usize| source.lines.get(line - 1).map_or("", |text| text.trim());
    if text(line)
        .split_once("//")
        .is_some_and(|(_, comment)| argues(comment))
    {
        return true;
    }
    let mut statement_lines = 0;
    for above in (1..line).rev() {
        let above = text(above);
        let is_comment = above.starts_with("//");
        if is_comment && argues(above) {
            return true;
        }
        let is_attribute = above.starts_with("#[");
        if !is_comment && !is_attribute {
            let is_other = above.is_empty() || above.ends_with([';', '{', '}']);
            statement_lines += 1;
            if is_other || statement_lines > STATEMENT_LINES_MAX {
                return false;
            }
        }
    }
    false
}

fn finding(source: &Source, line: usize, what: &str, fix: &str) -> Finding {
    Finding {
        path: source.path.clone(),
        line,
        check: "unsafe",
        item: String::new(),
        what: what.to_owned(),
        why: "what no compiler proves must be little, in known places, and argued",
        fix: fix.to_owned(),
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
        assert_eq!(found("crates/outcore/src/algo/sort.rs", text), [4, 1]);
        assert_eq!(found("crates/outcore/tests/t.rs", text), [4, 1]);
        assert_eq!(found("crates/outcore/src/memory.rs", text), [0; 0]);
        assert_eq!(found("crates/outcore/src/memory_map.rs", text), [4, 1]);
    }

    #[test]
    fn unsafe_without_its_argument_is_found() {
        let text = "// SAFETY: of another\nfn f() {\n unsafe { g() };\n let a =\n  unsafe { h() };\n}\n\
                    unsafe impl Send for S {}\n/// Does.\npub unsafe fn k() {}\n";
        assert_eq!(
            found("crates/outcore/src/drive/uring.rs", text),
            [3, 5, 7, 9]
        );
    }

    #[test]
    fn arguments_are_seen_beside_and_above() {
        let text = "fn f() {\n // SAFETY: checked above,\n // twice.\n #[inline]\n let a =\n\
                    b(unsafe { h() });\n unsafe { g() } // SAFETY: as before\n}\n\
                    // SAFETY: owned\nunsafe impl Send for S {}\n/// # Safety\n/// Call once.\n\
                    #[inline]\npub unsafe fn k() {}\n";
        assert_eq!(
            found("crates/outcore/src/algo/partition/kernel.rs", text),
            [0; 0]
        );
    }
}
