//! Words of SQL, pandas, NumPy and awk, and how this language says the same.
//!
//! Contract: only next steps of errors. Nothing here is part of the language, and each name is
//! unknown to it.

/// The verbs that compute aggregates.
const AGGREGATES: &str = "aggregates are for the verbs group-by and window";
const WINDOWS: &str =
    "functions of other rows are for the verb window; `index` is the number of the row";

/// The functions in place of SQL's `extract`.
pub(super) const PARTS_OF_TIMES: &str =
    "year(t), month(t), day(t) and hour(t) are the parts of a time";

/// Functions of other languages.
const FUNCTIONS: [(&[&str], &str); 33] = [
    (&["pow", "power"], "x ** 2 is the power"),
    (&["mod", "fmod"], "x % 2 is the remainder"),
    (&["log10"], "log(x) / log(10) is the logarithm to base 10"),
    (&["ceiling"], "ceil(x) is the next whole number"),
    (
        &["truncate", "trunc"],
        "i64(x) cuts the digits after the point off",
    ),
    (
        &["random", "rand"],
        "the verb sample draws a share of the rows at random",
    ),
    (
        &[
            "sum", "avg", "mean", "count", "median", "stddev", "std", "var", "nunique",
        ],
        AGGREGATES,
    ),
    (
        &[
            "lag",
            "lead",
            "rank",
            "row_number",
            "cumsum",
            "first",
            "last",
            "shift",
        ],
        WINDOWS,
    ),
    (&["extract", "date_part", "datepart"], PARTS_OF_TIMES),
    (
        &["regexp", "regexp_like", "rlike", "match", "matches"],
        "regexp_matches(s, 'pattern') searches a text",
    ),
    (
        &["regexp_substr"],
        "regexp_extract(s, 'pattern') is the first match",
    ),
    (
        &["gsub", "sub"],
        "regexp_replace(s, 'pattern', 'new', 'g') replaces all matches",
    ),
    (&["isnull", "isna"], "x is null"),
    (&["notnull", "notna", "isnotnull"], "x is not null"),
    (
        &["ifnull", "nvl", "fillna"],
        "coalesce(a, b) is the first that is not null",
    ),
    (&["iif", "ifelse", "cond"], "where(condition, a, b)"),
    (&["startswith"], "starts_with(s, 'part')"),
    (&["endswith"], "ends_with(s, 'part')"),
    (
        &["len", "char_length", "character_length", "strlen"],
        "length(s) is the number of characters",
    ),
    (
        &["left", "mid", "right", "slice"],
        "substr(s, first, count) is a part of a text, counted from 1",
    ),
    (
        &["instr", "strpos", "position", "locate", "find"],
        "contains(s, 'part') finds a part of a text",
    ),
    (
        &["strip", "lstrip", "rstrip"],
        "trim(s), ltrim(s) and rtrim(s) remove white space",
    ),
    (
        &["split", "string_split"],
        "split_part(s, ',', 1) is the first part",
    ),
    (&["concat_ws"], "concat(a, ', ', b) joins texts"),
    (&["ucase", "toupper"], "upper(s)"),
    (&["lcase", "tolower"], "lower(s)"),
    (
        &["to_date", "str_to_date", "to_timestamp", "parse_date"],
        "strptime(s, '%Y-%m-%d') reads a time, date(s) a date",
    ),
    (
        &["to_char", "date_format", "format_date"],
        "strftime(t, '%Y-%m-%d') writes a time",
    ),
    (
        &["unix_timestamp", "to_unixtime"],
        "epoch(t) is the number of seconds since 1970",
    ),
    (
        &["datediff", "timestampdiff", "age"],
        "date_diff('day', a, b) counts days, and b - a is a duration",
    ),
    (
        &["dateadd", "date_add", "date_sub", "adddate"],
        "t + interval '1 day'",
    ),
    (
        &[
            "now",
            "today",
            "getdate",
            "current_date",
            "current_timestamp",
        ],
        "write the time: timestamp '2024-12-01'",
    ),
    (
        &[
            "str", "string", "varchar", "int", "integer", "float", "double",
        ],
        "casts are text(x), i64(x) and f64(x)",
    ),
];

/// The next step for a function that this language does not have.
pub(super) fn function(name: &str) -> Option<&'static str> {
    let is_it = |known: &&str| known.eq_ignore_ascii_case(name);
    let mut all = FUNCTIONS.iter();
    let found = all.find(|(names, _)| names.iter().any(is_it));
    found.map(|(_, step)| *step)
}

/// The next step where an operator is expected; `before` is what was read, `rest` what follows.
pub(super) fn operator(before: &str, rest: &str) -> Option<String> {
    let word = |of: &str| rest.to_ascii_lowercase().starts_with(of);
    let name = before.rsplit(|c: char| !is_of_path(c)).next().unwrap_or("");
    if rest.starts_with('(')
        && let Some((of, method)) = name.rsplit_once('.')
    {
        return Some(format!(
            "write {method}({of}): a function stands before its values"
        ));
    }
    if let Some(digits) = rest.strip_prefix(',')
        && is_grouped(before, digits)
    {
        return Some("write the number without commas: 1000 or 1_000".to_owned());
    }
    if name.eq_ignore_ascii_case("interval") {
        return Some("put the interval in quotes: interval '1 day'".to_owned());
    }
    let step = match rest.chars().next()? {
        '?' => "where(condition, a, b) is a if the condition is true, otherwise b",
        ';' => "separate several expressions with a comma",
        _ if word("regexp") || word("rlike") || word("matches") => {
            "write regexp_matches(name, 'pattern')"
        }
        _ => return None,
    };
    Some(step.to_owned())
}

/// The next step where a value is expected; `before` is what was read, `rest` what follows.
pub(super) fn value(before: &str, rest: &str) -> Option<&'static str> {
    match rest.chars().next()? {
        '$' => Some("write a column's name without $; `outcore info FILE` shows the names"),
        '>' | '<' if before.ends_with('=') => Some("write >= or <="),
        '=' if before.ends_with('=') => Some("write =="),
        _ => None,
    }
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Whether a comma stands between the digits of one number, as in `1,000`.
fn is_grouped(before: &str, digits: &str) -> bool {
    let count = digits.chars().take_while(char::is_ascii_digit).count();
    before.ends_with(|c: char| c.is_ascii_digit()) && count == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::expr::{CASTS, Expr, FUNCTIONS as OURS};

    #[test]
    fn no_name_of_another_language_is_one_of_ours() {
        let ours = OURS.iter().flat_map(|entry| entry.names.iter().copied());
        let ours: Vec<&str> = ours.chain(CASTS.iter().map(|(name, _)| *name)).collect();
        for (names, step) in FUNCTIONS {
            for name in names {
                assert!(!ours.contains(name), "{name}");
                let error = format!("{name}(x)").parse::<Expr>().unwrap_err();
                assert_eq!(error.next_step(), Some(step), "{name}");
            }
        }
    }

    #[test]
    fn the_syntax_of_other_languages_leads_to_ours() {
        for (text, step) in [
            ("$price > 1", "without $"),
            ("price => 1", ">="),
            ("price > 1,000", "1_000"),
            ("s regexp 'x'", "regexp_matches"),
            ("c > 1 ? a : b", "where("),
            ("s.upper() = 'A'", "upper(s)"),
            ("np.sqrt(x) > 1", "sqrt(np)"),
            ("t + interval 1 day", "interval '1 day'"),
            ("s[0:2] = 'ab'", "substr(s, 1, 2)"),
            ("extract(year from t) = 2024", "year(t)"),
            ("x == null", "is null"),
            ("isnul(x)", "is_null"),
        ] {
            let error = text.parse::<Expr>().unwrap_err();
            let given = error.next_step().unwrap_or_default();
            assert!(given.contains(step), "{text}: {error}");
        }
    }
}
