//! The reference of JSON: a table for each report.
//!
//! Contract: a report has the fields that its struct has, in their order, with their comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use outcore::primitives::Scalar;
use outcore_verbs::report::{
    Described, DriveTraffic, Field, IoTrace, JobSummary, Phase, Plan, Rates, WriteSummary,
};
use outcore_verbs::sequence::{Number, ReducedValue, ValueCount};
use outcore_verbs::verb::{Verb, VerbVisitor};
use outcore_verbs::visit_verbs;
use serde_json::json;

/// The tables.
pub(crate) fn sections() -> String {
    let mut text = String::new();
    table::<JobSummary>("### Every report\n\nEvery report begins with", &mut text);
    table::<DriveTraffic>("A drive of `drives` has", &mut text);
    table::<IoTrace>("`io_trace` has", &mut text);
    table::<Phase>("A phase of `phases` has", &mut text);
    table::<WriteSummary>(
        "### Verbs that write\n\nThe report of a verb that writes also has",
        &mut text,
    );
    table::<Plan>("A `plan` has", &mut text);
    table::<Rates>("The `rates` of a plan are", &mut text);
    table::<ValueCount>("A value of the `groups` of `count-by` has", &mut text);
    table::<ReducedValue>("A value of the `results` of `reduce` has", &mut text);
    let mut reports = Reports {
        text,
        told: BTreeMap::new(),
    };
    visit_verbs(&mut reports);
    reports.text
}

/// The tables of verbs.
struct Reports {
    text: String,
    /// The verb whose section has the table of a report, by the name of the report.
    told: BTreeMap<&'static str, &'static str>,
}

impl VerbVisitor for Reports {
    fn visit<V: Verb>(&mut self) {
        let head = format!("### `{}`", V::NAME);
        let is_empty = V::Report::fields().iter().all(|field| field.is_flat);
        let shared = match (V::Report::NAME, self.told.get(V::Report::NAME)) {
            (WriteSummary::NAME, _) => {
                format!("The report has the keys of {EVERY} and of {WRITE}, and no others.")
            }
            _ if is_empty => format!("The report has the keys of {EVERY}, and no others."),
            (_, Some(verb)) => format!("The report has the keys of {}.", link(verb)),
            (name, None) => {
                let fields = V::Report::fields();
                let mut bases = fields.iter().filter(|field| field.is_flat);
                let base = bases.find_map(|base| match &base.python_type[..] {
                    WriteSummary::NAME => Some(WRITE.to_owned()),
                    name => self.told.get(name).map(|verb| link(verb)),
                });
                let more =
                    base.map(|base| format!("\n\nThe report has the keys of {base}, and these:"));
                table::<V::Report>(&(head + &more.unwrap_or_default()), &mut self.text);
                for field in fields.iter().filter(|field| field.is_listed) {
                    if let Some(class) = &field.class {
                        let head = format!("An item of `{}` has", field.name);
                        table_of(&class.fields, &head, &mut self.text);
                    }
                }
                self.told.insert(name, V::NAME);
                return;
            }
        };
        let _ = writeln!(self.text, "{head}\n\n{shared}\n");
    }
}

/// Links to the tables that the reports of many verbs share.
const EVERY: &str = "[every report](#every-report)";
const WRITE: &str = "[verbs that write](#verbs-that-write)";

/// A link to the section of a verb.
fn link(verb: &str) -> String {
    format!("[`{verb}`](#{})", verb.replace(' ', "-"))
}

fn table<T: Described>(head: &str, text: &mut String) {
    table_of(&T::fields(), head, text);
}

fn table_of(fields: &[Field], head: &str, text: &mut String) {
    let _ = writeln!(text, "{head}\n\n| key | type | meaning |\n|---|---|---|");
    for field in fields.iter().filter(|field| !field.is_flat) {
        let lines = field.doc.lines().map(str::trim);
        let doc = lines.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            field.name,
            match field.is_listed {
                true => "number".to_owned(),
                false => json_type(&field.python_type),
            },
            doc.trim().trim_end_matches('.')
        );
    }
    text.push('\n');
}

/// A type in the words of JSON.
fn json_type(python: &str) -> String {
    let (kind, or_null) = match python.strip_suffix(" | None") {
        Some(kind) => (kind, " or `null`"),
        None => (python, ""),
    };
    let word = match kind {
        "int" | "float" => "number",
        "str" | "Path" => "text",
        "int | float | str" => "number, text",
        "bool" => "boolean",
        kind if kind.starts_with("tuple[") => "list",
        _ => "object",
    };
    format!("{word}{or_null}")
}

#[test]
fn a_number_that_json_does_not_have_is_text() {
    let wide = i128::from(u64::MAX) + 1;
    for (scalar, expected) in [
        (Scalar::Int(i128::from(u64::MAX)), json!(u64::MAX)),
        (Scalar::Int(-7), json!(-7)),
        (Scalar::Int(wide), json!(wide.to_string())),
        (Scalar::Float(0.5), json!(0.5)),
        (Scalar::Float(f64::INFINITY), json!("inf")),
        (Scalar::Float32(f32::NAN), json!("NaN")),
        (Scalar::None, json!(null)),
    ] {
        assert_eq!(json!(Number(scalar)), expected);
    }
}
