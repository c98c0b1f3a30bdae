//! Tests of rows parsed from JSON lines.
//!
//! Contract: on thousands of lines with objects, some with changed bytes, outcore accepts the lines
//! that the JSON library accepts, with the same values, and rejects the others. Messages about a
//! line name its column. The cases in which outcore is stricter are listed.

use arrow_array::{Array, cast::AsArray};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::notation::parse;

/// Parses lines into rows, or returns the fault of one of them.
fn rows_of(schema: &str, lines: &[&str]) -> std::result::Result<StructArray, String> {
    let fields = parse(schema).unwrap();
    let fields = fields
        .into_iter()
        .map(|(name, data_type)| arrow_schema::Field::new(name, data_type, true));
    let fields = fields.collect::<Fields>();
    let mut rows = Rows::of(&fields, |_| true).unwrap();
    for line in lines {
        rows.take(line).map_err(|error| error.to_string())?;
    }
    Ok(StructArray::new(fields, rows.finish().unwrap(), None))
}

fn failure(schema: &str, line: &str) -> String {
    rows_of(schema, &[line]).unwrap_err()
}

#[test]
fn values_are_taken_as_they_stand_in_lists_and_objects_too() {
    let schema = "t:text,n:i64,d:decimal(20,3),l:list<struct<x:f64,y:list<bool>>>";
    let rows = rows_of(
        schema,
        &[
            r#" { "t" : "a\n\u00df\ud83d\ude00\"" , "n" : -7 , "d" : 12345678901234567.125, "l":[ ] }"#,
            r#"{"l":[{"y":[true,null,false],"x":1.5e3},null,{}],"t":1.50}"#,
            "{\"n\":null,\"t\":\"\u{df} and a longer text\",\"l\":null}\r\n",
            r#"{"\u0074":false,"n":"12"}"#,
            "{}",
        ],
    );
    let rows = rows.unwrap();
    let texts = rows.column(0).as_string::<i32>().iter().collect::<Vec<_>>();
    let long = "\u{df} and a longer text";
    assert_eq!(
        texts[..3],
        [Some("a\n\u{df}\u{1F600}\""), Some("1.50"), Some(long)]
    );
    assert_eq!(texts[3..], [Some("false"), None]);
    let numbers = rows
        .column(1)
        .as_primitive::<arrow_array::types::Int64Type>();
    assert_eq!(
        numbers.iter().collect::<Vec<_>>(),
        [Some(-7), None, None, Some(12), None]
    );
    let exact = rows
        .column(2)
        .as_primitive::<arrow_array::types::Decimal128Type>();
    assert_eq!(exact.value(0), 12_345_678_901_234_567_125);
    let lists = rows.column(3).as_list::<i32>();
    let lengths = (0..5).map(|row| lists.is_valid(row).then(|| lists.value_length(row)));
    assert_eq!(
        lengths.collect::<Vec<_>>(),
        [Some(0), Some(3), None, None, None]
    );
    let objects = lists.values().as_struct();
    let validity = (0..3).map(|item| objects.is_valid(item));
    assert_eq!(validity.collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(objects.column(1).as_list::<i32>().value(0).null_count(), 1);
}

#[test]
fn what_is_wrong_with_a_line_is_told_with_its_place() {
    let schema = "a:i64,b:struct<c:list<i64>>";
    for (line, cause) in [
        (
            "{\"a\":1 \"b\":2}",
            "not JSON: expected `,` or `}` at column 8",
        ),
        ("{\"a\":1,,\"b\":2}", "key must be a string at column"),
        ("{\"a\":2,}", "trailing comma at column 8"),
        ("{\"a\":01}", "invalid number at column 7"),
        ("{\"a\":1.}", "invalid number at column 8"),
        ("{\"a\":tru}", "expected ident at column 9"),
        ("{\"a\":\"\t\"}", "control character"),
        ("{\"a\":\"\\x\"}", "invalid escape at column 8"),
        ("{\"a\":\"\\ud800\"}", "hex escape at column 13"),
        ("{\"x\":1,\"a\":}", "expected value at column 12"),
        (
            "{\"a\":1,\"\\u0061\":5}",
            "the name \"a\" occurs twice at column 8",
        ),
        (
            "{\"b\":{\"c\":[],\"c\":[]}}",
            "the name \"c\" occurs twice at column 14",
        ),
        ("{\"a\":1} {\"a\":2}", "the line is not one JSON object"),
        ("{\"a\":", "the line is not one JSON object"),
        ("[1]", "the line is not one JSON object"),
        ("{\"late\":1}", "no row of the sample has the field `late`"),
        (
            "{\"b\":{\"late\":1}}",
            "no row of the sample has the field `b.late`",
        ),
        ("{\"a\":1.5}", "column `a` is i64, and `1.5` is not"),
        ("{\"a\":[1, 2]}", "column `a` is i64, and `[1, 2]` is not"),
        (
            "{\"b\":{\"c\":[1,\"x\"]}}",
            "column `b.c.item` is i64, and `x` is not",
        ),
        (
            "{\"b\":{\"c\":7}}",
            "column `b.c` is list<i64>, and `7` is not",
        ),
    ] {
        let found = failure(schema, line);
        assert!(found.contains(cause), "{line}: {found}");
    }
}

#[test]
fn what_nobody_wants_is_read_and_left() {
    let [a, b] = ["a", "b"].map(|name| arrow_schema::Field::new(name, DataType::Int64, true));
    let mut rows = Rows::of(&Fields::from(vec![a, b]), |place| place == 1).unwrap();
    rows.take(r#"{"a":{"x":[1,"]}"],"x":2},"b":5}"#).unwrap();
    let columns = rows.finish().unwrap();
    assert_eq!((columns.len(), columns[0].len()), (1, 1));
    rows.take(r#"{"a":[1 2],"b":5}"#).unwrap_err();
}

/// A line that is mostly an object, with some of its bytes changed.
fn line() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
        "true|false|null",
        any::<String>().prop_map(|text| Value::from(text).to_string()),
        "\"(\\\\(u[0-9a-fA-F]{4}|[\"\\\\/bfnrt])|[ -!#-\\[\\]-~]){0,20}\"",
    ];
    let fields = prop::collection::vec(("[a-d]", scalar, "[ \t\r]{0,2}"), 0..4);
    let edit = (any::<prop::sample::Index>(), "[\\x00-~\u{df}]{0,2}");
    (fields, prop::option::weighted(0.6, edit)).prop_map(|(fields, edit)| {
        let fields = fields
            .into_iter()
            .map(|(name, value, blank)| format!("{blank}\"{name}\":{blank}{value}{blank}"));
        let mut line = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        if let Some((place, put)) = edit {
            let letters = line.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            let at = *place.get(&letters);
            let end = line[at..]
                .chars()
                .next()
                .map_or(at, |letter| at + letter.len_utf8());
            line.replace_range(at..end, &put);
        }
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_line_is_what_the_json_library_says(line in line()) {
        let found = rows_of("a:text,b:text,c:text,d:text", &[&line]);
        // The library treats an object as a map, and takes the last of two values of a name.
        let wanted = serde_json::from_str::<serde_json::Map<String, Value>>(&line);
        match (found, wanted) {
            (Ok(rows), Ok(object)) => {
                for (column, name) in rows.columns().iter().zip(["a", "b", "c", "d"]) {
                    let texts = column.as_string::<i32>();
                    let text = texts.is_valid(0).then(|| texts.value(0));
                    match object.get(name) {
                        Some(Value::String(wanted)) => prop_assert_eq!(text, Some(&**wanted)),
                        None | Some(Value::Null) => prop_assert_eq!(text, None),
                        Some(Value::Bool(truth)) => prop_assert_eq!(text, Some(&*truth.to_string())),
                        Some(other) => {
                            prop_assert_eq!(&serde_json::from_str::<Value>(text.unwrap()).unwrap(), other);
                        }
                    }
                }
            }
            (Err(_), Err(_)) => {}
            (Err(error), Ok(_)) => {
                let is_stricter = ["occurs twice", "no row of the sample", "` is not"];
                prop_assert!(is_stricter.iter().any(|known| error.contains(known)), "{}: {}", line, error);
            }
            (Ok(_), Err(error)) => {
                // A number that no float holds is a text here.
                prop_assert!(error.to_string().contains("number out of range"), "{}: {}", line, error);
            }
        }
    }
}
