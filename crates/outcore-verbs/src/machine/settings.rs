//! `config show`: every setting, its value and its source.
//!
//! Contract: lists the settings of a job without options, in the order of [`outcore_io::config`].

use outcore::Result;
use outcore_front::resources::ResourcesRequest;
use outcore_io::units;
use serde_json::json;

use super::page::{Setting, Settings, ShowArgs};
use crate::host::Host;
use crate::report::{Listed, Moved, Place, Stopwatch};
use crate::verb::{Verb, Words};

/// The verb.
pub(super) struct Show;

impl Verb for Show {
    const NAME: &'static str = "config show";
    type Args = ShowArgs;
    type Report = Settings;

    fn run(host: &dyn Host, _args: &ShowArgs) -> Result<Settings> {
        let stopwatch = Stopwatch::start();
        let resources = host.load(&ResourcesRequest::default())?;
        let rows = resources.config.rows().into_iter().map(|row| Setting {
            key: row.key.to_owned(),
            value: row.value,
            source: row.source,
        });
        let settings: Vec<Setting> = rows.collect();
        let width_of = |of: fn(&Setting) -> &str| {
            let widths = settings.iter().map(|setting| of(setting).len());
            widths.max().unwrap_or(0)
        };
        let key_columns = width_of(|setting| &setting.key);
        let value_columns = width_of(|setting| &setting.value);
        for setting in &settings {
            let Setting { key, value, source } = setting;
            let line = format!("{key:key_columns$}  {value:value_columns$}  {source}\n");
            host.item("setting", json!(setting), &line);
        }
        Ok(Settings {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            settings: Listed(settings),
            file: resources.config.file.clone().map(Place),
        })
    }

    fn say(_args: &ShowArgs, _report: &Settings, _words: &mut Words) {}

    fn headline(report: &Settings) -> String {
        units::counted(report.settings.0.len() as u64, "setting")
    }
}
