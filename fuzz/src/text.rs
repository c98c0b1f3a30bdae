//! Checks of the fuzz targets for expressions and for text. A panic also fails each of them.
//!
//! Contract: each function takes arbitrary bytes. The first line is a user's text (an expression, a
//! key), and the rest is data. An expression that compiles gives each row the same number whatever
//! rows are next to it. Comparing two lines by their keys gives the reverse result if the lines are
//! exchanged. The ends of CSV records do not depend on how the text is cut into pieces. Uses the
//! engine and `outcore-front` alone: the tests of that package run these checks too.

use std::cmp::Ordering;

use outcore::key::expr::{Expr, Program, Rows, Schema};
use outcore::key::record::NumberType;
use outcore::key::sort_key::{SortKey, compare_items};
use outcore_front::text::csv::{ColumnOptions, Columns, Framer, names};
use outcore_front::text::gnu::{GnuOrder, GnuSort, Key};
use outcore_front::text::json::JsonFields;

const ROWS: usize = 48;

/// The first line, and the bytes after it.
fn split(data: &[u8]) -> (String, &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let end = end.unwrap_or(data.len());
    let first = String::from_utf8_lossy(&data[..end]).into_owned();
    (first, data.get(end + 1..).unwrap_or(&[]))
}

/// The bytes as two lines.
fn two(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    data.split_at(end.unwrap_or(data.len() / 2))
}

/// An expression over an integer and a float.
pub fn expression(data: &[u8]) {
    let (text, rest) = split(data);
    let schema = Schema {
        has_index: true,
        ..Schema::of_columns(&[("x", NumberType::U64), ("y", NumberType::F64)])
    };
    let Ok(expr) = text.parse::<Expr>() else {
        return;
    };
    let Ok(program) = Program::compile(&expr, &schema) else {
        return;
    };
    let mut numbers = [0; 2 * ROWS * 8];
    for (byte, from) in numbers.iter_mut().zip(rest.iter().cycle()) {
        *byte = *from;
    }
    let (x, y) = numbers.split_at(ROWS * 8);
    let mut space = program.space();
    let mut run = |from: usize, to: usize| {
        let rows = Rows {
            first: from as u64,
            count: to - from,
            inputs: &[&x[from * 8..to * 8], &y[from * 8..to * 8]],
        };
        let column = program.run(&mut space, &rows).ok()?;
        Some(column.bytes.to_vec())
    };
    let (all, first, rest) = (run(0, ROWS), run(0, 17), run(17, ROWS));
    let Some(all) = all else {
        // If the expression has no value for all rows, it has none for at least one of the parts.
        assert!(first.is_none() || rest.is_none());
        return;
    };
    assert_eq!(all.len(), ROWS * program.kind().bytes());
    let parts = [first, rest].map(Option::unwrap_or_default);
    assert_eq!(all, parts.concat());
}

/// Fails unless `order` gives reverse results for `a`, `b` and for `b`, `a`.
fn check_order(order: &dyn SortKey, a: &[u8], b: &[u8]) {
    for line in [a, b] {
        if let Ok(same) = compare_items(order, line, line) {
            assert_eq!(same, Ordering::Equal);
        }
    }
    if let (Ok(one), Ok(other)) = (compare_items(order, a, b), compare_items(order, b, a)) {
        assert_eq!(one, other.reverse());
    }
}

/// A key of GNU sort.
pub fn line_key(data: &[u8]) {
    let (text, lines) = split(data);
    let Ok(key) = Key::parse(&text) else {
        return;
    };
    let sort = GnuSort {
        keys: vec![key],
        separator: lines.first().copied().filter(|byte| *byte == b','),
        ..GnuSort::default()
    };
    if let Ok(order) = GnuOrder::new(&sort) {
        let (a, b) = two(lines);
        check_order(&order, a, b);
    }
}

/// CSV: a column, and a text.
pub fn csv(data: &[u8]) {
    let (column, text) = split(data);
    let ends_in = |piece_bytes: usize| {
        let (mut framer, mut ends, mut at) = (Framer::new(b','), Vec::new(), 0);
        for piece in text.chunks(piece_bytes) {
            let mut rest = piece;
            while let Some(len) = framer.end_of_record(rest) {
                at += len;
                ends.push(at);
                rest = &rest[len..];
            }
            at += rest.len();
        }
        (ends, framer.is_whole())
    };
    let whole = ends_in(text.len().max(1));
    assert_eq!(whole, ends_in(1));
    assert_eq!(whole, ends_in(7));
    let end = whole.0.first().copied().unwrap_or(text.len());
    let (header, rest) = text.split_at(end);
    let Ok(names) = names(header, b',') else {
        return;
    };
    let by = [column];
    let columns = Columns::new(&ColumnOptions {
        by: &by,
        names: Some(&names),
        separator: b',',
        global: outcore_front::text::gnu::Ordering::default(),
        stable: false,
        seed: 1,
    });
    if let Ok(columns) = columns {
        let (a, b) = two(rest);
        check_order(&columns, a, b);
    }
}

/// JSON lines: a path, and two lines.
pub fn json(data: &[u8]) {
    let (path, lines) = split(data);
    if let Ok(order) = JsonFields::new(&[path], false, false) {
        let (a, b) = two(lines);
        check_order(&order, a, b);
    }
}
