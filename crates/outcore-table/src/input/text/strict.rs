//! Whether a line is one JSON object, strictly.
//!
//! Contract: [`check`] refuses whatever RFC 8259 does, what comes behind the object, and an object that has a name twice: of two
//! values one would be lost. Names inside of nested objects are not compared. Pure.
//!
//! Complexity: a look at each byte, and a comparison of each two names, or a hash of each where there are many.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

/// So many names are compared with each other.
const COMPARED_MAX: usize = 32;

/// What is wrong with a line that is not one object; nothing to be told where it ends too early or too late.
pub(super) fn check(line: &[u8]) -> Result<(), Option<String>> {
    let Err(error) = serde_json::from_slice::<Object>(line) else {
        return Ok(());
    };
    let cause = error.to_string();
    if error.is_eof() || cause.starts_with("trailing characters") {
        return Err(None);
    }
    // A line is one line, and where it is is told with the error.
    let cause = cause
        .rsplit_once(" at line")
        .map_or(&*cause, |(cause, _)| cause);
    Err(Some(format!("{cause} at column {}", error.column())))
}

/// An object, no name of which comes twice.
struct Object;

/// The name of a value.
struct Name<'n>(Cow<'n, str>);

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Object;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let (mut few, mut many): (Vec<Cow<'de, str>>, HashSet<Cow<'de, str>>) = Default::default();
        while let Some(Name(name)) = entries.next_key::<Name<'de>>()? {
            entries.next_value::<IgnoredAny>()?;
            if few.contains(&name) || many.contains(&name) {
                return Err(A::Error::custom(format!("the name \"{name}\" comes twice")));
            }
            match few.len() {
                COMPARED_MAX.. => {
                    many.insert(name);
                }
                _ => few.push(name),
            }
        }
        Ok(Object)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Names)
    }
}

struct NameText;

impl<'de> Visitor<'de> for NameText {
    type Value = Name<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(NameText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_one_object_is_refused() {
        let many: Vec<String> = (0..40).map(|n| format!("\"{n}\":{n}")).collect();
        let many = many.join(",");
        for line in [
            "{}",
            " {\"a\":1,\"b\":[1,{\"a\":2,\"a\":3}],\"\\u0061a\":-0.5e3}\n",
            &format!("{{{many}}}"),
        ] {
            assert_eq!(check(line.as_bytes()), Ok(()), "{line}");
        }
        for (line, cause) in [
            ("{\"a\":1 \"b\":2}", "expected `,` or `}` at column 8"),
            ("{\"a\":1,,\"b\":2}", "key must be a string"),
            ("{\"a\":2,}", "trailing comma"),
            ("{\"a\":01}", "invalid number"),
            ("{\"a\":1.}", "invalid number"),
            ("{\"a\":1,\"\\u0061\":5}", "\"a\" comes twice"),
            ("[1]", "expected an object"),
            (&format!("{{{many},\"39\":0}}"), "\"39\" comes twice"),
        ] {
            let found = check(line.as_bytes()).unwrap_err().unwrap();
            assert!(found.contains(cause), "{line}: {found}");
        }
        for line in ["{\"a\":1} {\"a\":2}", "{\"a\":", ""] {
            assert_eq!(check(line.as_bytes()), Err(None), "{line}");
        }
    }
}
