//! Words of SQL, pandas, NumPy and awk, and their equivalents in this language.
//!
//! Contract: provides only the next steps of errors. No name here is part of the language.

use outcore_io::units;

use super::functions::{Cast, Entry, FUNCTIONS as FUNCTIONS_HERE};

/// The verbs that compute aggregates.
const AGGREGATES: &str = "aggregates are for the verbs group-by and window, and for records reduce";
/// The hint about columns, for users who call or index a name.
pub(super) const NAME_ALONE: &str =
    "write the column's name alone, as in price > 1; in backquotes if it has a blank: `a b`";
const WINDOWS: &str =
    "functions of other rows are for the verb window; `index` is the number of the row";

/// The hint about quotes, for users whose program writes curly quotes.
const STRAIGHT: &str = "write straight quotes: 'Spain'";

/// The functions in place of SQL's `extract`.
pub(super) const PARTS_OF_TIMES: &str =
    "year(t), month(t), day(t) and hour(t) are the parts of a time";

/// Functions of other languages.
const FUNCTIONS: [(&[&str], &str); 38] = [
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
            "sum",
            "avg",
            "mean",
            "count",
            "median",
            "stddev",
            "std",
            "var",
            "nunique",
            "count_distinct",
            "quantile",
            "percentile",
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
            "row_index",
            "rownum",
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
    (
        &["notnull", "notna", "isnotnull", "exists"],
        "x is not null",
    ),
    (&["is_in"], "x in ('a', 'b')"),
    (&["between", "is_between"], "x between 1 and 9"),
    (
        &["clip", "clamp"],
        "least(greatest(x, 0), 100) is x within 0 and 100",
    ),
    (
        &["md5", "sha1", "sha256", "crc32"],
        "hash(x) is a number of 64 bits; there are no other hashes",
    ),
    (&["col", "column", "field"], NAME_ALONE),
    (
        &["ifnull", "nvl", "fillna", "fill_null", "fill_nan"],
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
            "str", "string", "varchar", "int", "integer", "float", "double", "astype",
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

/// The next step for a function whose name is almost one of another language.
pub(super) fn nearly(name: &str) -> Option<&'static str> {
    let known = FUNCTIONS.iter().flat_map(|(names, _)| names.iter());
    let known: Vec<&str> = known.copied().collect();
    units::nearest(name, &known).and_then(function)
}

/// The next step where an operator is expected; `before` is what was read, `rest` what follows.
pub(super) fn operator(before: &str, rest: &str) -> Option<String> {
    let word = |of: &str| rest.to_ascii_lowercase().starts_with(of);
    let name = before.rsplit(|c: char| !is_of_path(c)).next().unwrap_or("");
    if let Some(behind) = rest.strip_prefix('(')
        && let Some((of, called)) = name.rsplit_once('.')
    {
        return Some(method(of, called, behind));
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
        _ if let Some(step) = clause(name) => step,
        _ if rest.starts_with("??") => "coalesce(a, b) is the first that is not null",
        _ if word("if ") => "where(condition, a, b) is a if the condition is true, otherwise b",
        _ if word("contains ") => "write contains(name, 'part')",
        _ if word("startswith ") || word("starts_with ") => "write starts_with(name, 'part')",
        _ if word("endswith ") || word("ends_with ") => "write ends_with(name, 'part')",
        '\u{2018}'..='\u{201f}' => STRAIGHT,
        '?' => "where(condition, a, b) is a if the condition is true, otherwise b",
        ',' => {
            "one expression is expected: `and` joins conditions, and for records the verb flat-map \
             computes several values"
        }
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
        '=' if before.ends_with(['+', '-', '*', '/']) => {
            Some("there is no += and the like: write price = price + 1")
        }
        '[' | '{' => Some(NAME_ALONE),
        '\u{2018}'..='\u{201f}' => Some(STRAIGHT),
        _ => None,
    }
}

/// The next step where a computed column has no name; `rest` is what follows.
pub(super) fn name(rest: &str) -> &'static str {
    let is_quoted = rest.starts_with(['"', '\'']);
    // `unit price = price`: a name of several words.
    let is_apart = rest.starts_with(char::is_alphabetic) && rest.contains('=');
    match is_quoted || is_apart {
        true => "a name with a blank is written in backquotes: `unit price` = price",
        false => "write name = expression, for example total = price * n",
    }
}

/// The next step for a column that no input has, if the name is a value of another language;
/// `names` are the columns.
pub fn column<N: AsRef<str>>(name: &str, names: &[N]) -> Option<String> {
    let is_known = |name: &str| names.iter().any(|known| known.as_ref() == name);
    let step = match name.to_ascii_lowercase().as_str() {
        "nan" => "isnan(x) tests for NaN",
        "none" | "nil" | "na" | "undefined" => "write x is null, or x is not null",
        "row_index" | "rownum" | "row_number" => "`index` is the number of the row, from 0",
        "current_date" | "current_timestamp" | "today" | "now" => {
            "write the time: timestamp '2024-12-01'"
        }
        _ => {
            let (_, alone) = name.split_once('.').filter(|(_, alone)| is_known(alone))?;
            return Some(format!("write the column's name alone: {alone}"));
        }
    };
    Some(step.to_owned())
}

/// Whether both operands are whole numbers in decimal notation.
pub(super) fn are_decimal(one: &str, other: &str) -> bool {
    let is_decimal = |text: &str| {
        let digits = text.trim();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_decimal(one) && is_decimal(other)
}

/// The next step for a call of the method `called` on `of`; `behind` is the text after the
/// parenthesis.
fn method(of: &str, called: &str, behind: &str) -> String {
    if let Some(step) = function(called) {
        return step.to_owned();
    }
    let is_ours = |entry: &Entry| {
        entry
            .names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(called))
    };
    if !FUNCTIONS_HERE.iter().any(is_ours) && Cast::named(called).is_none() {
        return "functions come before their values: upper(name), not name.upper()".to_owned();
    }
    let given = behind.split(')').next().unwrap_or_default().trim();
    let of = of
        .strip_suffix(".str")
        .or(of.strip_suffix(".dt"))
        .unwrap_or(of);
    let is_module = matches!(of, "np" | "numpy" | "math" | "pl" | "pd" | "pc" | "F");
    let values = match (is_module, given) {
        (true, given) => given.to_owned(),
        (false, "") => of.to_owned(),
        (false, given) => format!("{of}, {given}"),
    };
    format!("write {called}({values}): a function comes before its values")
}

/// The verb for a word of SQL that begins a clause.
fn clause(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "limit" => "the verb head takes the first rows",
        "order" | "sort" => "the verb sort orders rows",
        "select" => "the verb convert keeps columns, map computes them",
        "where" => "write the condition alone",
        "group" => "the verb group-by makes groups",
        _ => return None,
    })
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Whether a comma separates the digits of one number, as in `1,000`.
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
    fn a_bit_pattern_may_be_written_in_hexadecimal() {
        for text in ["0xff ^ 0x0f", "x ^ 1", "(x ^ 0x10) > 2"] {
            assert!(text.parse::<Expr>().is_ok(), "{text}");
        }
    }

    #[test]
    fn names_that_no_column_has_may_be_values_of_other_languages() {
        let of = |name: &str| column(name, &["price", "time"]).unwrap_or_default();
        assert!(of("NaN").contains("isnan"));
        assert!(of("None").contains("is null"));
        assert_eq!(of("df.price"), "write the column's name alone: price");
        assert_eq!(of("df.cost"), "");
    }

    #[test]
    fn a_computed_column_has_one_name() {
        for (text, step) in [
            ("price as \"unit price\"", "backquotes"),
            ("unit price = price", "backquotes"),
            ("price * 2", "total = price * n"),
            ("price += 1", "price = price + 1"),
        ] {
            let error = super::super::Named::parse_all(text).unwrap_err();
            assert!(
                error.next_step().unwrap_or_default().contains(step),
                "{error}"
            );
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
            ("s.upper() = 'A'", "write upper(s)"),
            ("s.str.upper() = 'A'", "write upper(s)"),
            ("s.str.startswith('S')", "starts_with(s, 'part')"),
            ("s.starts_with('S')", "write starts_with(s, 'S')"),
            ("x.fill_null(0) > 1", "coalesce(a, b)"),
            ("x.astype(float) > 1", "casts are"),
            ("x.notnull()", "x is not null"),
            ("x.explode()", "come before their values"),
            ("np.sqrt(x) > 1", "write sqrt(x)"),
            ("2^10 > x", "write 2 ** 10"),
            ("x > 2 ^ 63", "write 2 ** 63"),
            ("price > 100 & s == 'a'", "`and` and `or` join conditions"),
            ("a < b < c", "a < b and b < c"),
            ("a ?? b", "coalesce(a, b)"),
            ("1 if c else 0", "where(condition, a, b)"),
            ("s is 'Spain'", "compare with ="),
            ("s contains 'img'", "contains(name, 'part')"),
            ("'img' in s", "contains(name, 'part')"),
            ("col('price') > 1", "name alone"),
            ("row['price'] > 1", "name alone"),
            ("[price] > 1", "name alone"),
            ("{price} > 1", "name alone"),
            ("x + 1, x + 2", "flat-map"),
            ("limit 5", "the verb head"),
            ("select price", "the verb convert"),
            ("where price > 1", "the condition alone"),
            ("s = \u{201c}Spain\u{201d}", "straight quotes"),
            ("ip = 192.0.2.1", "in quotes"),
            ("n > 1MB", "1_000_000"),
            ("t + interval 1 day", "interval '1 day'"),
            ("s[0:2] = 'ab'", "substr(s, 1, 2)"),
            ("extract(year from t) = 2024", "year(t)"),
            ("x == null", "is null"),
            ("isnul(x)", "x is null"),
        ] {
            let error = text.parse::<Expr>().unwrap_err();
            let given = error.next_step().unwrap_or_default();
            assert!(given.contains(step), "{text}: {error}");
        }
    }
}
