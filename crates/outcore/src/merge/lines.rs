//! Merging sorted pieces of lines: a loser tree over the first bytes of their keys.
//!
//! Contract: as [`super`]; a piece holds whole lines with their terminators. The output may end inside
//! a line: the next call goes on with it. Equal first bytes are decided by the whole keys, which are
//! kept of the line at the head of each run, then by the lines as their order wants, then by the runs.
//!
//! Memory: a key a run where lines are not their own keys.

use std::cmp::Ordering;

use super::{ENDED, LoserTree, Merge, Merged, Node, Pieces};
use crate::error::Result;
use crate::runs::LineRule;
use crate::sort::lines::word_of;

/// The line at the head of a run.
#[derive(Debug, Clone, Default)]
struct Head {
    /// Where it begins in the piece, and where its terminator is.
    at: usize,
    end: usize,
    /// Its key, if that is not the line.
    key: Vec<u8>,
}

/// Lines in the order of a rule.
pub(crate) struct Lines {
    rule: LineRule,
    heads: Vec<Head>,
    tree: LoserTree<u64>,
    /// Bytes of the winner's line that have been put out.
    given: usize,
}

/// The merge for lines.
pub(crate) fn merge_of_lines(rule: LineRule) -> Box<dyn Merge> {
    Box::new(Lines {
        rule,
        heads: Vec::new(),
        tree: LoserTree { nodes: Vec::new() },
        given: 0,
    })
}

impl Lines {
    /// Looks at the line at the head of a run.
    fn look(&mut self, piece: &[u8], at: usize, run: usize) -> Node<u64> {
        if at >= piece.len() {
            return Node {
                key: u64::MAX,
                run: run as u32 | ENDED,
            };
        }
        let len = memchr::memchr(self.rule.terminator, &piece[at..]);
        let end = len.map_or(piece.len(), |len| at + len);
        let head = &mut self.heads[run];
        (head.at, head.end) = (at, end);
        let line = &piece[at..end];
        self.rule.key(line, &mut head.key);
        let key = if self.rule.is_whole { line } else { &head.key };
        let word = word_of(key, 0);
        Node {
            key: match self.rule.is_descending() {
                true => !word,
                false => word,
            },
            run: run as u32,
        }
    }
}

/// Whether the line of `a` comes before that of `b`.
#[inline(always)]
fn is_before(
    (rule, heads): (&LineRule, &[Head]),
    pieces: &Pieces<'_>,
    a: &Node<u64>,
    b: &Node<u64>,
) -> bool {
    if a.key != b.key {
        return a.key < b.key;
    }
    tie((rule, heads), pieces, a, b).is_lt()
}

#[inline(never)]
fn tie(
    (rule, heads): (&LineRule, &[Head]),
    pieces: &Pieces<'_>,
    a: &Node<u64>,
    b: &Node<u64>,
) -> Ordering {
    if (a.run | b.run) & ENDED != 0 {
        return (a.run & ENDED)
            .cmp(&(b.run & ENDED))
            .then(a.run.cmp(&b.run));
    }
    let both = |node: &Node<u64>| {
        let head = &heads[node.run as usize];
        let line = &pieces.pieces[node.run as usize][head.at..head.end];
        (line, &head.key[..])
    };
    let (a_line, b_line) = (both(a), both(b));
    rule.rank
        .by_key(a_line, b_line)
        .then_with(|| rule.rank.by_tie(a_line.0, b_line.0))
        .then(a.run.cmp(&b.run))
}

impl Merge for Lines {
    fn encode(&self, _payload: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, pieces: &Pieces<'_>) -> Result<()> {
        let runs = pieces.heads.len();
        self.given = 0;
        self.heads = vec![Head::default(); runs];
        let mut nodes = Vec::with_capacity(runs);
        for run in 0..runs {
            nodes.push(self.look(pieces.pieces[run], pieces.heads[run], run));
        }
        let known = (&self.rule, &self.heads[..]);
        self.tree = LoserTree::new(&nodes, u64::MAX, |a, b| is_before(known, pieces, a, b));
        Ok(())
    }

    fn advance(&mut self, pieces: &Pieces<'_>, run: usize) -> Result<()> {
        let node = self.look(pieces.pieces[run], pieces.heads[run], run);
        let known = (&self.rule, &self.heads[..]);
        self.tree
            .replace(node, |a, b| is_before(known, pieces, a, b));
        Ok(())
    }

    fn merge(&mut self, pieces: &mut Pieces<'_>, out: &mut [u8]) -> Result<Merged> {
        let mut filled = 0;
        while filled < out.len() {
            let run = (self.tree.winner().run & !ENDED) as usize;
            let piece = pieces.pieces[run];
            let next = (self.heads[run].end + 1).min(piece.len());
            let rest = &piece[self.heads[run].at + self.given..next];
            let len = rest.len().min(out.len() - filled);
            out[filled..filled + len].copy_from_slice(&rest[..len]);
            filled += len;
            if len < rest.len() {
                self.given += len;
                break;
            }
            self.given = 0;
            pieces.heads[run] = next;
            if next >= piece.len() {
                let used_up = Some(run);
                return Ok(Merged {
                    bytes: filled,
                    used_up,
                });
            }
            let node = self.look(piece, next, run);
            let (known, pieces) = ((&self.rule, &self.heads[..]), &*pieces);
            self.tree
                .replace(node, |a, b| is_before(known, pieces, a, b));
        }
        Ok(Merged {
            bytes: filled,
            used_up: None,
        })
    }
}
