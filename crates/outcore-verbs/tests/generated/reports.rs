//! Python's module of reports: a dataclass of each.
//!
//! Contract: a class has the fields of its report, in their order, with their comments. The
//! parts of a report come before it; its base is the report that it extends. A report that lists
//! something is a sequence of that.

use std::fmt::Write as _;

use outcore_verbs::report::{Class, WriteSummary};
use outcore_verbs::verb::{Inputs, Verb, VerbVisitor};
use outcore_verbs::visit_verbs;

use super::python::is_of_command;
use super::wrapped;

const HEAD: &str = r#""""Reports of verbs: frozen values with the names of the command's JSON.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._summary import JobReport, Report
"#;
/// The report that all reports of verbs go on from.
const JOB: &str = "JobSummary";

/// The names of all classes.
pub(crate) fn names() -> Vec<String> {
    let names = classes().names;
    names.into_iter().map(str::to_owned).collect()
}

fn classes() -> Module {
    let mut module = Module::default();
    module.class(Class::of::<WriteSummary>());
    visit_verbs(&mut module);
    module
}

/// The whole module.
pub(crate) fn module() -> String {
    let module = classes();
    let names = module.names.iter().map(|name| format!("    \"{name}\",\n"));
    let names: String = names.collect();
    format!("{HEAD}{}\n\n__all__ = [\n{names}]\n", module.text)
}

/// A module that grows.
#[derive(Default)]
struct Module {
    text: String,
    names: Vec<&'static str>,
}

impl VerbVisitor for Module {
    fn visit<V: Verb>(&mut self) {
        // Programs get arrays for them.
        if V::INPUTS != Inputs::Arrays && !is_of_command(V::NAME) {
            self.class(Class::of::<V::Report>());
        }
    }
}

impl Module {
    fn class(&mut self, class: Class) {
        if self.names.contains(&class.name) {
            return;
        }
        let base = class.fields.iter().find(|field| field.is_flat);
        let base = base.map(|field| field.python_type.clone());
        for field in &class.fields {
            if let Some(class) = &field.class {
                self.class(class.clone());
            }
        }
        self.names.push(class.name);
        let is_of_job = base.is_some() || class.name == JOB;
        let base = base.unwrap_or_else(|| match is_of_job {
            true => "JobReport".to_owned(),
            false => "Report".to_owned(),
        });
        // Reports of jobs are shown in a line.
        let shown = if is_of_job { ", repr=False" } else { "" };
        let _ = write!(
            self.text,
            "\n\n@dataclass(frozen=True{shown})\nclass {}({base}):\n",
            class.name
        );
        let _ = writeln!(self.text, "    \"\"\"{}\"\"\"\n", joined(class.doc));
        for field in class.fields.iter().filter(|field| !field.is_flat) {
            for line in wrapped(&joined(field.doc), "    #: ", "    #: ") {
                let _ = writeln!(self.text, "{line}");
            }
            let _ = writeln!(self.text, "    {}: {}", field.name, field.python_type);
        }
        if let Some(listed) = class.fields.iter().find(|field| field.is_listed) {
            let item = listed.class.as_ref().map_or("Any", |class| class.name);
            let _ = write!(
                self.text,
                "\n    def __len__(self) -> int:\n        return len(self.{0})\n\n    def \
                 __iter__(self) -> Iterator[{item}]:\n        return iter(self.{0})\n\n    def \
                 __getitem__(self, at: int) -> {item}:\n        return self.{0}[at]\n",
                listed.name
            );
        }
        if class.fields.iter().any(|field| field.name == "text") {
            self.text
                .push_str("\n    def __str__(self) -> str:\n        return self.text\n");
        }
    }
}

/// Lines of a comment as one.
fn joined(doc: &str) -> String {
    let lines = doc.lines().map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}
