//! The functions and casts of expressions: names, arguments, results.
//!
//! Contract: a single list, from which the parser, both evaluators, the help of the command and the
//! guide are built. A function of [`Place::Tables`] works on texts, times or nulls, which records
//! do not have.

use outcore_io::Error;

use crate::key::record::NumberType;

/// The operation in errors about calls of unknown functions, or with wrong arguments.
pub(super) const READ: &str = "read expression";

/// Which evaluators support a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Records and tables.
    Both,
    /// Only tables.
    Tables,
}

/// A function of the list.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The function.
    pub function: Function,
    /// The names of the function, the first of which the help shows.
    pub names: &'static [&'static str],
    /// Names of the arguments; `[...]` encloses optional arguments, `...` means any number of
    /// further ones.
    pub values: &'static str,
    /// The result of the function, in words.
    pub text: &'static str,
    /// The group in which the help shows the function.
    pub group: Group,
    /// The evaluators that support the function.
    pub place: Place,
}

/// Groups of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Numbers,
    Choices,
    Texts,
    Times,
}

impl Group {
    /// All groups, in the order of the help.
    pub const ALL: [Group; 4] = [Group::Numbers, Group::Choices, Group::Texts, Group::Times];

    /// The heading of the group.
    pub const fn title(self) -> &'static str {
        match self {
            Group::Numbers => "Numbers",
            Group::Choices => "Choices",
            Group::Texts => "Texts",
            Group::Times => "Dates and times",
        }
    }
}

macro_rules! functions {
    ($($group:ident $place:ident $function:ident $names:tt ($values:literal) $text:literal;)*) => {
        /// A function by its effect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Function {
            $($function,)*
        }

        /// All functions.
        pub const FUNCTIONS: &[Entry] = &[
            $(Entry {
                function: Function::$function,
                names: &$names,
                values: $values,
                text: $text,
                group: Group::$group,
                place: Place::$place,
            },)*
        ];
    };
}

functions! {
    Numbers Both Abs ["abs"] ("x") "the absolute value";
    Numbers Both Sqrt ["sqrt"] ("x") "the square root";
    Numbers Both Exp ["exp"] ("x") "e to the power of x";
    Numbers Both Log ["log", "ln"] ("x") "the natural logarithm";
    Numbers Both Log2 ["log2"] ("x") "the logarithm to base 2";
    Numbers Both Floor ["floor"] ("x") "the next whole number at or below x";
    Numbers Both Ceil ["ceil"] ("x") "the next whole number at or above x";
    Numbers Both Round ["round"] ("x[, digits]") "the nearest whole number; ties go to the even one; with digits, f64: round(x * 10 ** digits) / 10 ** digits";
    Numbers Both IsNan ["isnan"] ("x") "whether x is NaN";
    Numbers Both Hash ["hash"] ("x") "64 mixed bits (u64), the same for equal values of a type";
    Choices Both Min ["min", "least"] ("a, ...") "the smallest value; nulls do not count";
    Choices Both Max ["max", "greatest"] ("a, ...") "the largest value; nulls do not count";
    Choices Both Where ["where", "if"] ("condition, a, b") "`a` if the condition is true, otherwise `b`";
    Choices Both IsIn ["isin"] ("x, ...") "x in (...)";
    Choices Tables IsNull ["is_null"] ("x") "x is null";
    Choices Tables IsNotNull ["is_not_null"] ("x") "x is not null";
    Choices Tables Coalesce ["coalesce"] ("a, ...") "the first value that is not null";
    Choices Tables NullIf ["nullif"] ("a, b") "null if `a` equals `b`, otherwise `a`";
    Texts Tables Contains ["contains"] ("s, part") "whether the text contains the part";
    Texts Tables StartsWith ["starts_with"] ("s, part") "whether the text begins with the part";
    Texts Tables EndsWith ["ends_with"] ("s, part") "whether the text ends with the part";
    Texts Tables Like ["like"] ("s, pattern") "whether the pattern matches: % matches any text, _ matches any character; also s like p";
    Texts Tables Ilike ["ilike"] ("s, pattern") "like, ignoring case";
    Texts Tables Lower ["lower"] ("s") "the text in lower case";
    Texts Tables Upper ["upper"] ("s") "the text in upper case";
    Texts Tables Length ["length"] ("s") "the number of characters of a text, of bytes, or of elements of a list";
    Texts Tables Substr ["substr", "substring"] ("s, first[, count]") "the characters from position `first` on, `count` of them if given; positions count from 1, or from the end if negative";
    Texts Tables Trim ["trim"] ("s[, characters]") "the text without white space, or these characters, at both ends";
    Texts Tables Ltrim ["ltrim"] ("s[, characters]") "as trim, but only at the beginning";
    Texts Tables Rtrim ["rtrim"] ("s[, characters]") "as trim, but only at the end";
    Texts Tables Replace ["replace"] ("s, from, to") "the text with each `from` replaced by `to`";
    Texts Tables SplitPart ["split_part"] ("s, separator, number") "the part with this number, counted from 1, or from the end if negative; empty if there is none";
    Texts Tables Concat ["concat"] ("a, ...") "all values as texts, one after the other, without nulls";
    Texts Tables RegexpMatches ["regexp_matches"] ("s, pattern[, options]") "whether the regular expression matches a part of the text";
    Texts Tables RegexpReplace ["regexp_replace"] ("s, pattern, to[, options]") "the first match replaced, all of them with the option 'g'; \\1 is a group";
    Texts Tables RegexpExtract ["regexp_extract"] ("s, pattern[, group]") "the first match, or a group of it; empty if there is none";
    Times Tables Year ["year"] ("t") "the year";
    Times Tables Quarter ["quarter"] ("t") "the quarter, from 1";
    Times Tables Month ["month"] ("t") "the month, from 1";
    Times Tables Week ["week"] ("t") "the week of the ISO year";
    Times Tables Day ["day"] ("t") "the day of the month, from 1";
    Times Tables Yearday ["dayofyear"] ("t") "the day of the year, from 1";
    Times Tables Weekday ["weekday"] ("t") "the day of the week; Monday is 0";
    Times Tables Hour ["hour"] ("t") "the hour";
    Times Tables Minute ["minute"] ("t") "the minute";
    Times Tables Second ["second"] ("t") "the second";
    Times Tables TimeBucket ["time_bucket"] ("width, t[, origin]") "the beginning of the time's bucket, as in time_bucket('15 minutes', t)";
    Times Tables DateTrunc ["date_trunc"] ("unit, t") "the beginning of the time's second, minute, hour, day, week, month, quarter or year";
    Times Tables DateDiff ["date_diff"] ("unit, a, b") "the number of units that begin after `a`, up to `b`";
    Times Tables Epoch ["epoch"] ("t") "seconds since 1970; for a difference of times, its seconds";
    Times Tables Strftime ["strftime"] ("t, format") "the time as text, as in strftime(t, '%Y-%m-%d')";
    Times Tables Strptime ["strptime"] ("s, format") "the time that the text gives in this format";
    Times Tables TryStrptime ["try_strptime"] ("s, format") "strptime, with null for texts of another format";
}

/// The result type of a cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastType {
    /// Truth values.
    Bool,
    /// Numbers; never half precision or 128 bits.
    Number(NumberType),
    /// Texts.
    Text,
    /// Days.
    Date,
    /// Microseconds, in UTC.
    Timestamp,
    /// Months, days and parts of a day.
    Interval,
    /// Decimals with this many digits, and this many of them after the point.
    Decimal {
        /// Number of digits.
        digits: u8,
        /// Digits after the point.
        scale: u8,
    },
}

/// A cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// The result type of the cast.
    pub to: CastType,
    /// Whether an impossible conversion becomes null.
    pub is_tried: bool,
}

/// Casts by name.
pub const CASTS: [(&str, CastType); 16] = [
    ("i8", CastType::Number(NumberType::I8)),
    ("i16", CastType::Number(NumberType::I16)),
    ("i32", CastType::Number(NumberType::I32)),
    ("i64", CastType::Number(NumberType::I64)),
    ("u8", CastType::Number(NumberType::U8)),
    ("u16", CastType::Number(NumberType::U16)),
    ("u32", CastType::Number(NumberType::U32)),
    ("u64", CastType::Number(NumberType::U64)),
    ("f32", CastType::Number(NumberType::F32)),
    ("f64", CastType::Number(NumberType::F64)),
    ("bool", CastType::Bool),
    ("text", CastType::Text),
    ("date", CastType::Date),
    ("timestamp", CastType::Timestamp),
    ("interval", CastType::Interval),
    (
        "decimal",
        CastType::Decimal {
            digits: 18,
            scale: 3,
        },
    ),
];

impl Cast {
    /// The cast of that name.
    pub fn named(name: &str) -> Option<Self> {
        let (is_tried, kind) = match name.strip_prefix("try_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let (_, to) = *CASTS.iter().find(|(known, _)| *known == kind)?;
        Some(Cast { to, is_tried })
    }

    /// Its name.
    pub fn name(self) -> String {
        let found = CASTS.iter().find(|(_, to)| *to == self.to);
        let name = found.map_or("decimal", |(name, _)| name);
        format!("{}{name}", if self.is_tried { "try_" } else { "" })
    }
}

impl Function {
    /// The function's entry in the list.
    pub fn entry(self) -> &'static Entry {
        // Entries are in the order of the enum.
        &FUNCTIONS[self as usize]
    }

    /// The name that the help shows.
    pub fn name(self) -> &'static str {
        self.entry().names[0]
    }
}

impl Entry {
    /// The function's signature, as `substr(s, first[, count])`.
    pub fn form(&self) -> String {
        format!("{}({})", self.names[0], self.values)
    }

    /// For a function of tables only: the type that it works on and that records lack.
    pub(super) fn lacked(&self) -> &'static str {
        match self.group {
            Group::Texts => "texts",
            Group::Times => "dates and times",
            Group::Numbers | Group::Choices => "nulls",
        }
    }

    /// Whether the function accepts this number of arguments.
    pub(super) fn takes(&self, count: usize) -> bool {
        let named = |text: &str| text.split(',').filter(|part| has_name(part)).count();
        let needed = self.values.split('[').next().map_or(0, named);
        let is_open = self.values.contains("...");
        count >= needed && (is_open || count <= named(self.values))
    }
}

/// Whether a part of the arguments' names is a name, and not the mark for further names.
pub(super) fn has_name(part: &str) -> bool {
    part.contains(|c: char| c.is_ascii_alphabetic())
}

/// The error for a feature that only tables have, with the reason.
pub(super) fn for_tables(what: &str, records_lack: &str) -> Error {
    let cause = format!("{what} is for tables: records have no {records_lack}");
    let both = FUNCTIONS.iter().filter(|entry| entry.place == Place::Both);
    let names: Vec<&str> = both.map(|entry| entry.names[0]).collect();
    Error::usage(READ, cause).hint(format!(
        "records have the functions {}; tables are Parquet, Arrow, CSV and JSON lines",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_at_its_place_in_the_list_and_has_a_name_of_its_own() {
        let mut names: Vec<&str> = CASTS.iter().map(|(name, _)| *name).collect();
        for (at, entry) in FUNCTIONS.iter().enumerate() {
            assert_eq!(entry.function as usize, at);
            assert_eq!(entry.function.entry().names, entry.names);
            assert!(!entry.text.is_empty() && !entry.text.ends_with('.'));
            for name in entry.names {
                assert!(!names.contains(name), "{name}");
                names.push(name);
            }
        }
    }

    #[test]
    fn functions_take_as_many_values_as_their_form_names() {
        let entry = |values| Entry {
            values,
            ..FUNCTIONS[0]
        };
        for (values, taken, not_taken) in [
            ("x", &[1][..], &[0, 2][..]),
            ("a, ...", &[1, 2, 9], &[0]),
            ("s, first[, count]", &[2, 3], &[0, 1, 4]),
            ("condition, a, b", &[3], &[2, 4]),
            ("", &[0], &[1]),
        ] {
            let entry = entry(values);
            assert!(taken.iter().all(|count| entry.takes(*count)), "{values}");
            assert!(
                !not_taken.iter().any(|count| entry.takes(*count)),
                "{values}"
            );
        }
    }
}
