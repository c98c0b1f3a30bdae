//! The conformance kit of expressions: six rows, and the values of a list of expressions for them.
//!
//! Contract: `expressions.txt` contains the expressions with their values or words of their errors.
//! The evaluators (`crates/outcore-table/tests/table/expressions.rs`), the command and Python
//! (`python/tests/test_expressions.py`) run all cases.

pub(crate) const A: [i64; 6] = [7, -7, 0, i64::MAX, i64::MIN, 5];
pub(crate) const B: [i64; 6] = [2, 2, 3, 1, 1, -3];
pub(crate) const X: [f64; 6] = [1.5, -2.5, f64::NAN, f64::INFINITY, -0.0, 3.0];
pub(crate) const Y: [f64; 6] = [2.0, f64::NAN, f64::NAN, 1.0, 0.0, -3.0];
pub(crate) const N: [u64; 6] = [0, 1, 2, u64::MAX, 9, 3];

/// A line of the list.
pub(crate) struct Line {
    /// The expression.
    pub(crate) text: String,
    /// The value of the expression in each row.
    pub(crate) expected: Vec<String>,
    /// Words of the error for records, if there is one.
    pub(crate) records_fail: Option<String>,
    /// Words of the error for tables, if there is one.
    pub(crate) tables_fail: Option<String>,
}

/// All lines.
pub(crate) fn lines() -> Vec<Line> {
    let lines = include_str!("expressions.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            // The first field may contain the separator itself.
            let mut fields: Vec<&str> = line.split(" | ").collect();
            let last = fields.last().copied().unwrap_or_default();
            let fails = ["records:", "tables:", "both:"].into_iter();
            let fault = fails
                .into_iter()
                .find_map(|who| Some((who, last.strip_prefix(who)?)));
            fields.truncate(fields.len() - usize::from(fault.is_some()));
            let values: Vec<String> = fields
                .pop()
                .unwrap()
                .split(' ')
                .map(str::to_owned)
                .collect();
            let of = |who: &str| {
                let fault = fault.filter(|(failing, _)| *failing == who || *failing == "both:");
                fault.map(|(_, cause)| cause.trim().to_owned())
            };
            Line {
                text: fields.join(" | "),
                expected: match &values[..] {
                    [only] => vec![only.clone(); A.len()],
                    _ => values,
                },
                records_fail: of("records:"),
                tables_fail: of("tables:"),
            }
        })
        .collect()
}
