//! Rules for values and records of text that do not fit the columns.
//!
//! Contract: [`Rules`] defines which texts are null and what happens to bad rows. A [`Tally`]
//! counts skipped rows and values that became null, and keeps the first cause. Pure.

use outcore_io::{Error, units};

/// The texts that `pandas.read_csv` takes as missing values. An empty field is always null.
const PANDAS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];
/// The name of that list.
const PANDAS_NAME: &str = "pandas";

/// The treatment of rows that do not fit the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadRow {
    /// The job fails and reports the first such row.
    #[default]
    Fail,
    /// They are skipped and counted.
    Skip,
    /// Values that do not fit, and missing fields, become null and are counted. A record with too
    /// many fields, and a line that is not one JSON object, are skipped and counted.
    Null,
}

/// Returns the null texts of a list; the item `pandas` adds the null texts of pandas.
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

/// How text is converted to values.
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

/// The number of skipped rows and of values that became null.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows_count: u64,
    values_count: u64,
    /// The first cause, with its byte offset in the file.
    pub(super) first: Option<Error>,
}

impl Tally {
    /// Counts a row that is skipped.
    pub(super) fn row(&mut self, why: impl FnOnce() -> Error) {
        self.rows_count += 1;
        self.first.get_or_insert_with(why);
    }

    /// Counts values that become null.
    pub(super) fn values(&mut self, count: u64, why: impl FnOnce() -> Error) {
        self.values_count += count;
        self.first.get_or_insert_with(why);
    }

    /// Adds the counts of a later tally.
    pub(super) fn add(&mut self, other: Tally) {
        self.rows_count += other.rows_count;
        self.values_count += other.values_count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }

    /// A sentence for the user, if there is anything to report; `first` is the first cause with its
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
