//! Restricts who submits and polls.
//!
//! Contract: only `outcore-io` runs a loop of submitting requests and polling for them. All other
//! crates use its `transfers`, which keeps windows full, names drive, file and offset in errors,
//! and takes back all requests in flight if a job ends early. A port, a submitter or a queue (by
//! its name) that is polled in the sources of another crate under `crates/` or `python/`, outside
//! tests, is a breach. Crates under `lab/` measure queues themselves and may poll them.

use super::rust::{Source, Sources};
use super::{Finding, Severity};

const CALL: &str = ".poll(";
/// Names of polled values: the last word in front of the call.
const POLLED: [&str; 4] = ["port", "submitter", "queue", "queues"];
/// Crates that are searched for such loops, except for those below.
const ROOMS: [&str; 2] = ["crates/", "python/"];
const OWNER: &str = "crates/outcore-io/";

/// Checks every source.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let looked_at = sources.all().iter().filter(|source| {
        let is_room = ROOMS.iter().any(|room| source.path.starts_with(room));
        is_room && !source.path.starts_with(OWNER)
    });
    looked_at.flat_map(of_source).collect()
}

fn of_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A call may be on a line below its receiver.
    let mut above = "";
    for (line, text) in (1..).zip(&source.lines) {
        let code = text.split("//").next().unwrap_or_default();
        if polls(above, code) && !source.is_test_line(line) {
            findings.push(finding(source, line));
        }
        above = code.trim_end();
    }
    findings
}

/// Whether a value in [`POLLED`] is polled on a line that follows another.
fn polls(above: &str, code: &str) -> bool {
    code.match_indices(CALL).any(|(at, _)| {
        let receiver = match code[..at].trim() {
            "" => above,
            front => front,
        };
        let mut words = receiver.rsplit(|sign: char| !sign.is_alphanumeric() && sign != '_');
        let word = words.find(|word| !word.is_empty());
        word.is_some_and(|word| POLLED.contains(&word))
    })
}

fn finding(source: &Source, line: usize) -> Finding {
    Finding {
        path: source.path.clone(),
        line,
        check: "polls",
        item: String::new(),
        what: "a loop of its own that submits and polls".to_owned(),
        why: "each such loop keeps another depth and names faults in another way",
        fix: "ask through `outcore_io::transfers`".to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    const TEXT: &str = "fn f() {\n  port.poll(true);\n  // port.poll(false)\n\
                        a.port()\n .poll(true);\n reader.poll(true)\n}\n\
                        #[cfg(test)]\nmod tests {\n  fn g() { port.poll(true) }\n}\n";

    fn found(path: &str) -> Vec<usize> {
        let findings = check(&Sources::of(&Tree::of(&[(path, TEXT)])));
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_poll_outside_the_crate_that_owns_it_is_found_but_not_in_tests_or_comments() {
        assert_eq!(found("crates/outcore/src/verify.rs"), [2, 5]);
        assert_eq!(found("python/src/files.rs"), [2, 5]);
        for path in [
            "crates/outcore-io/src/transfers.rs",
            "crates/outcore/tests/engine/sort/depth.rs",
            "lab/outcore-bench/src/replay/pace.rs",
        ] {
            assert_eq!(found(path), [0; 0], "{path}");
        }
    }
}
