//! The list of expressions of the conformance kit through the command.
//!
//! Contract: for records, the input is an array of NumPy, and each expression has a run of its own.
//! For tables, the input is CSV, and one run has all expressions that give values. Numbers are
//! compared as numbers, whatever their text.

use self::list::{A, B, Line, N, X, Y, lines};
use crate::npy::{header, parts};
use crate::support::*;

#[path = "../../../outcore/tests/conformance/expressions.rs"]
mod list;

const SCHEMA: &str = "a:i64,b:i64,x:f64,y:f64,n:u64";

/// The rows as text.
fn table() -> String {
    let row = |row: usize| {
        format!(
            "{},{},{:?},{:?},{}\n",
            A[row], B[row], X[row], Y[row], N[row]
        )
    };
    "a,b,x,y,n\n".to_owned() + &(0..A.len()).map(row).collect::<String>()
}

/// The rows as an array of records.
fn records() -> Vec<u8> {
    let names = "[('a', '<i8'), ('b', '<i8'), ('x', '<f8'), ('y', '<f8'), ('n', '<u8')]";
    let mut bytes = header(names, &format!("({},)", A.len()));
    for row in 0..A.len() {
        bytes.extend(A[row].to_le_bytes());
        bytes.extend(B[row].to_le_bytes());
        bytes.extend(X[row].to_le_bytes());
        bytes.extend(Y[row].to_le_bytes());
        bytes.extend(N[row].to_le_bytes());
    }
    bytes
}

/// The values of an array of numbers as texts.
fn values_of(array: &[u8]) -> Vec<String> {
    let (head, data) = parts(array);
    let kind = head.split("'descr': '").nth(1).unwrap();
    let kind = &kind[1..kind.find('\'').unwrap()];
    let width: usize = kind[1..].parse().unwrap();
    let shown = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(bytes);
        match &kind[..1] {
            "f" if width == 8 => format!("{:?}", f64::from_le_bytes(wide)),
            "b" => (bytes[0] != 0).to_string(),
            "i" => (i64::from_le_bytes(wide) << (64 - 8 * width) >> (64 - 8 * width)).to_string(),
            _ => u64::from_le_bytes(wide).to_string(),
        }
    };
    data.chunks(width).map(shown).collect()
}

/// Whether two texts are one value.
fn is_same(found: &str, expected: &str) -> bool {
    let is_float = |text: &str| text.contains(['.', 'N', 'i', 'e']);
    let number = |text: &str| text.parse::<f64>().ok();
    match (number(found), number(expected)) {
        // Truth values of records are bytes.
        (Some(1.0), None) if expected == "true" => true,
        (Some(0.0), None) if expected == "false" => true,
        (Some(one), Some(other)) if is_float(expected) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        _ => found == expected || found.is_empty() && expected == "null",
    }
}

fn check(line: &Line, found: &[String], wrong: &mut Vec<String>) {
    let mut both = found.iter().zip(&line.expected);
    if found.len() != line.expected.len() || !both.all(|(one, other)| is_same(one, other)) {
        wrong.push(format!("{} gives {}", line.text, found.join(" ")));
    }
}

/// The error is a usage error with a cause and a hint.
fn check_error(line: &Line, answer: &Answer, cause: &str, wrong: &mut Vec<String>) {
    let said = &answer.stderr;
    if answer.code != Some(2) || !said.contains(cause) || !said.contains("hint: ") {
        wrong.push(format!("{}: {answer:?}", line.text));
    }
}

#[test]
fn the_list_of_expressions_holds_for_records_of_the_command() {
    let place = TestDir::new();
    place.write("in.npy", &records());
    let mut wrong = Vec::new();
    for line in lines() {
        let answer = place.run(&["map", &line.text, "in.npy", "-o", "out.npy", "--force"]);
        match &line.records_fail {
            Some(cause) => check_error(&line, &answer, cause, &mut wrong),
            None if answer.code == Some(0) => {
                check(&line, &values_of(&place.read("out.npy")), &mut wrong);
            }
            None => wrong.push(format!("{}: {answer:?}", line.text)),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_list_of_expressions_holds_for_tables_of_the_command() {
    let place = TestDir::new();
    place.write("in.csv", table().as_bytes());
    let mut wrong = Vec::new();
    let run = |expressions: &str| {
        let words = [
            "map",
            expressions,
            "in.csv",
            "-o",
            "out.csv",
            "--force",
            "--schema",
            SCHEMA,
        ];
        place.run(&words)
    };
    let (fine, failing): (Vec<Line>, Vec<Line>) = lines()
        .into_iter()
        .partition(|line| line.tables_fail.is_none());
    for line in &failing {
        let answer = run(&format!("e = {}", line.text));
        let cause = line.tables_fail.as_deref().unwrap_or_default();
        check_error(line, &answer, cause, &mut wrong);
    }
    for lines in fine.chunks(40) {
        let named = lines.iter().enumerate();
        let named: Vec<String> = named
            .map(|(at, line)| format!("e{at} = {}", line.text))
            .collect();
        run(&named.join(", ")).ok();
        let text = String::from_utf8(place.read("out.csv")).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|row| row.split(',').collect())
            .collect();
        for (at, line) in lines.iter().enumerate() {
            let found = rows
                .iter()
                .map(|row| row[5 + at].trim_matches('"').to_owned());
            check(line, &found.collect::<Vec<_>>(), &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
