//! What becomes of values and records of text that are not as the columns have them.
//!
//! Contract: [`Rules`] says which texts are null and what bad rows become; a [`Tally`] counts what
//! was left out or became null, and keeps the first. Pure.

use outcore_io::{Error, units};

/// The texts that `pandas.read_csv` takes for missing values; an empty field is null in any case.
const PANDAS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];
/// The name of that list.
const PANDAS_NAME: &str = "pandas";

/// What becomes of rows that are not as the columns have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadRow {
    /// The job fails and names the first.
    #[default]
    Fail,
    /// They are left out and counted.
    Skip,
    /// Their values that do not fit, and the fields that they lack, are null and counted. A record
    /// with too many fields, and a line that is not one JSON object, are left out and counted.
    Null,
}

/// The null texts of a list, in which `pandas` stands for those of pandas.
pub fn null_texts(list: &[String]) -> Vec<String> {
    let mut texts = Vec::new();
    for text in list {
        match text == PANDAS_NAME {
            true => texts.extend(PANDAS.map(str::to_owned)),
            false => texts.push(text.clone()),
        }
    }
    texts
}

/// How text becomes values.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Texts of fields that are null.
    pub(super) nulls: Vec<String>,
    pub(super) on_bad: OnBadRow,
}

impl Rules {
    pub(super) fn is_null(&self, text: &str) -> bool {
        self.nulls.iter().any(|null| null == text)
    }
}

/// What was left out, and what became null.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows_count: u64,
    values_count: u64,
    /// What was wrong first, at which byte of the file.
    pub(super) first: Option<Error>,
}

impl Tally {
    /// Counts a row that is left out.
    pub(super) fn row(&mut self, why: impl FnOnce() -> Error) {
        self.rows_count += 1;
        self.first.get_or_insert_with(why);
    }

    /// Counts values that become null.
    pub(super) fn values(&mut self, count: u64, why: impl FnOnce() -> Error) {
        self.values_count += count;
        self.first.get_or_insert_with(why);
    }

    /// Counts what another has counted of what comes after.
    pub(super) fn add(&mut self, other: Tally) {
        self.rows_count += other.rows_count;
        self.values_count += other.values_count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }

    /// A sentence for people, if there is anything to say; `first` is the first cause with its
    /// place.
    pub(super) fn sentence(&self, first: &str) -> Option<String> {
        let rows = units::counted(self.rows_count, "bad row");
        let values = units::counted(self.values_count, "bad value");
        let done = match (self.rows_count, self.values_count) {
            (0, 0) => return None,
            (_, 0) => format!("left out {rows}"),
            (0, _) => format!("read {values} as null"),
            (_, _) => format!("left out {rows} and read {values} as null"),
        };
        Some(format!("{done}; the first: {first}"))
    }
}
