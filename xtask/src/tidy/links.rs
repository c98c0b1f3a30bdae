//! Checks links between our own Markdown pages: the file exists, and so does the heading.
//!
//! Contract: inline links, images and reference definitions outside code are checked. Addresses
//! with a scheme are ignored, because tests must not need the network. A link may lead to a file or
//! folder that git keeps, never out of the repository. Anchors of headings follow GitHub's rules.

use super::tree::{Tree, joined};
use super::{Finding, Severity};

/// One link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    line: usize,
    target: String,
}

impl Link {
    /// The file part, without the anchor.
    pub(super) fn file(&self) -> &str {
        self.target.split('#').next().unwrap_or_default()
    }

    fn anchor(&self) -> Option<&str> {
        self.target.split_once('#').map(|(_, anchor)| anchor)
    }
}

/// Checks every page.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree
        .files()
        .iter()
        .filter(|f| f.extension() == "md" && !f.is_fixture())
    {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in links_of(&page.text) {
            let path = match link.file() {
                "" => page.path.clone(),
                file => joined(folder, file),
            };
            let fault = if !tree.holds(&path) {
                format!("`{}` leads to no file of the repository", link.target)
            } else if !has_anchor(tree.text(&path), link.anchor()) {
                format!("`{}` leads to no heading of {path}", link.target)
            } else {
                continue;
            };
            findings.push(Finding {
                path: page.path.clone(),
                line: link.line,
                check: "links",
                item: link.target.clone(),
                what: fault,
                why: "a reader who follows it is lost",
                fix: "correct the target, or write the path as code if it is elsewhere".to_owned(),
                severity: Severity::Error,
            });
        }
    }
    findings
}

fn has_anchor(page: Option<&str>, anchor: Option<&str>) -> bool {
    match (page, anchor) {
        (Some(page), Some(anchor)) => anchors_of(page).iter().any(|known| known == anchor),
        _ => true,
    }
}

/// The relative links of a page outside code.
pub(super) fn links_of(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in prose_lines(text) {
        let mut rest = prose.as_str();
        if let Some((name, target)) = rest.trim_start().split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            push(&mut links, line, target);
            continue;
        }
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let end = closing(rest);
            push(&mut links, line, &rest[..end]);
            rest = &rest[end..];
        }
    }
    links
}

/// The end of the bracket that is open at the start.
fn closing(text: &str) -> usize {
    let mut open_count = 1;
    for (index, sign) in text.char_indices() {
        match sign {
            '(' => open_count += 1,
            ')' => open_count -= 1,
            _ => {}
        }
        if open_count == 0 {
            return index;
        }
    }
    text.len()
}

fn push(links: &mut Vec<Link>, line: usize, target: &str) {
    let target = target.split_whitespace().next().unwrap_or_default();
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if !target.is_empty() && !is_elsewhere {
        links.push(Link {
            line,
            target: target.replace("%20", " "),
        });
    }
}

/// Lines outside fenced code, with inline code blanked.
pub(super) fn prose_lines(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<String> = None;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark: String = start
            .chars()
            .take_while(|c| start.starts_with(*c) && "`~".contains(*c))
            .collect();
        match &fence {
            Some(open) if mark.starts_with(open.as_str()) => fence = None,
            Some(_) => {}
            None if mark.len() >= 3 => fence = Some(mark),
            None => prose.push((index + 1, without_code(line))),
        }
    }
    prose
}

fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |index: usize| index % 2 == 1 && index + 1 < parts.len();
    let kept = parts
        .iter()
        .enumerate()
        .map(|(at, part)| if is_code(at) { "" } else { part });
    kept.collect::<Vec<_>>().join("`")
}

/// The anchors of a page's headings; repeated ones are numbered.
fn anchors_of(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        let is_heading = title.len() < line.len() && title.starts_with(' ');
        if fenced || !is_heading {
            continue;
        }
        let base = slug(title.trim());
        let earlier = anchors
            .iter()
            .filter(|known| is_repeat(known, &base))
            .count();
        anchors.push(if earlier == 0 {
            base
        } else {
            format!("{base}-{earlier}")
        });
    }
    anchors
}

fn is_repeat(known: &str, base: &str) -> bool {
    let rest = known.strip_prefix(base);
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('-')
                .is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

fn slug(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c })
        .collect::<String>()
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            ("docs/page.md", text),
            (
                "docs/other.md",
                "# One thing\n## `code`, and more!\n## One thing\n",
            ),
            ("src/lib.rs", ""),
        ]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let text = "a [b](gone.md)\n\n![c](../img/gone.svg)\n\n[d]: ../gone/\n\n\
                    [out](../../shared/x.md)\n";
        assert_eq!(broken(text), [1, 3, 5, 7]);
    }

    #[test]
    fn an_anchor_without_a_heading_is_found() {
        let text = "[a](other.md#two)\n[b](#here)\n[c](other.md#one-thing-2)\n";
        assert_eq!(broken(text), [1, 2, 3]);
    }

    #[test]
    fn links_that_resolve_pass() {
        let text = "# Here\n[a](other.md) [b](other.md#one-thing) [c](#here) [d](../src/)\n\
                    [e](other.md#code-and-more) [f](other.md#one-thing-1 \"title\")\n\
                    [g](https://example.org/x(y)) <mailto:a@b.c> [h](../src/lib.rs)\n";
        assert_eq!(broken(text), [0; 0]);
    }

    #[test]
    fn code_is_not_read_as_links() {
        let text =
            "`[a](b.md)`\n```\n[c](d.md)\n```\nlet x = a[i](j); is prose\n~~~\n[e](f)\n~~~\n";
        assert_eq!(broken(text), [5]);
    }
}
