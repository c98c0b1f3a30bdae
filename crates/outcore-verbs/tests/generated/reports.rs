//! Python's modules of reports: a dataclass for each report.
//!
//! Contract: a class has the fields of its report, in their order, with their comments. The
//! parts of a report come before it; its base is the report that it extends. A report that lists
//! items is a sequence of these items.

use std::fmt::Write as _;

use outcore_verbs::report::{Class, WriteSummary};
use outcore_verbs::verb::{Inputs, Verb, VerbVisitor, group_of};
use outcore_verbs::visit_verbs;

use super::python::is_of_command;
use super::wrapped;

const HEAD: &str = r#""""Reports of verbsKIND: frozen values with the names of the command's JSON.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._summary import JobReport, Report
"#;
/// The report that all reports of verbs extend.
const JOB: &str = "JobSummary";

/// The import of the classes that the reports on places extend.
const IMPORT: &str = "from ._reports import JobSummary\nfrom ._summary import Report\n";

/// The names of all classes.
pub(crate) fn names() -> Vec<String> {
    let (of_data, of_places) = classes();
    let names = of_data.names.into_iter().chain(of_places.names);
    names.map(str::to_owned).collect()
}

/// The reports of verbs on data, and those of verbs on volumes and on the machine.
fn classes() -> (Module, Module) {
    let mut of_data = Module::default();
    of_data.class(Class::of::<WriteSummary>());
    visit_verbs(&mut of_data);
    let mut of_places = Module {
        is_of_places: true,
        known: of_data.names.clone(),
        ..Module::default()
    };
    visit_verbs(&mut of_places);
    (of_data, of_places)
}

/// The whole modules, in the same order.
pub(crate) fn modules() -> [String; 2] {
    let (of_data, of_places) = classes();
    let head_of_places = HEAD
        .replace("KIND", " on volumes, drives, scratch and settings")
        .replace("from ._summary import JobReport, Report\n", IMPORT);
    let heads = [HEAD.replace("KIND", ""), head_of_places];
    let text = |(head, module): (String, Module)| {
        let names = module.names.iter().map(|name| format!("    \"{name}\",\n"));
        let names: String = names.collect();
        format!("{head}{}\n\n__all__ = [\n{names}]\n", module.text)
    };
    let [data, places] = heads;
    [text((data, of_data)), text((places, of_places))]
}

/// Whether the verb `name` is one on volumes or on the machine.
pub(crate) fn is_of_places(name: &str) -> bool {
    let group = group_of(name).map(|(group, _)| group);
    matches!(group, Some("config" | "drives" | "scratch" | "volume"))
}

/// A module that grows.
#[derive(Default)]
struct Module {
    text: String,
    names: Vec<&'static str>,
    is_of_places: bool,
    /// The classes of another module.
    known: Vec<&'static str>,
}

impl VerbVisitor for Module {
    fn visit<V: Verb>(&mut self) {
        // Programs get arrays for them.
        let is_here = is_of_places(V::NAME) == self.is_of_places;
        if is_here && V::INPUTS != Inputs::Arrays && !is_of_command(V::NAME) {
            self.class(Class::of::<V::Report>());
        }
    }
}

impl Module {
    fn class(&mut self, class: Class) {
        if self.names.contains(&class.name) || self.known.contains(&class.name) {
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
