//! Expressions in the help of `map` and `filter`.
//!
//! Contract: functions and casts come from the engine's list, so the help is complete.

use outcore::key::expr::{CASTS, Entry, FUNCTIONS, Group, Place};

const LANGUAGE: &str = "\
Records and tables share one language of expressions. Operators: + - * / // % ** & | ^ ~ << >>,
== != <> < <= > >=, and, or, not, x in (...), x between a and b, s like p, x is null, and
case when c then a else b end. Texts, times and nulls are for tables; for records they are errors.";

const RECORDS: &str = "\
For records, a plain number is x; the keys of other records are key0, key1; fields of .npy have
their names; index is the position. Integers wrap around, as in NumPy. x[0] is an element of a
vector, and in `map`, x alone stands for all elements.";

const TABLES: &str = "\
For tables, names stand for columns (put unusual names in backquotes), st.a for the field a of the
objects st, and index for the position of the row. Next to a column of dates or times, a text in
quotes is a date or a time. A comparison with null is neither true nor false. try_i64(x) gives null
if i64(x) fails.";

/// Examples, and the text that is common to all expressions.
pub(super) fn help(examples: &str) -> String {
    let groups = Group::ALL.map(functions).join("\n\n");
    let casts: Vec<&str> = CASTS.iter().map(|(name, _)| *name).collect();
    let casts = format!("Casts: {}", casts.join(", "));
    format!("{examples}\n\n{LANGUAGE}\n\n{RECORDS}\n\n{TABLES}\n\n{groups}\n\n{casts}")
}

/// The functions of a group in two paragraphs: those for all inputs, and those for tables alone.
fn functions(group: Group) -> String {
    let entries = FUNCTIONS.iter().filter(|entry| entry.group == group);
    let of = |place| {
        let entries = entries.clone().filter(move |entry| entry.place == place);
        entries.map(Entry::form).collect::<Vec<_>>()
    };
    let (both, tables) = (of(Place::Both), of(Place::Tables));
    let lines = [("", both), (" of tables", tables)].into_iter();
    let lines = lines.filter(|(_, forms)| !forms.is_empty());
    let lines = lines.map(|(of, forms)| format!("{}{of}: {}", group.title(), forms.join(", ")));
    lines.collect::<Vec<_>>().join("\n\n")
}
