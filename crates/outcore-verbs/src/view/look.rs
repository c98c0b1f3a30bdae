//! `view info`, `verify` and `mount`.
//!
//! Contract: only reads. A check reads every block, without a merge.

use outcore::runs::ViewType;
use outcore::{Error, Result};
use outcore_front::text::order::OrderSpec;
use outcore_io::units;

use super::page::{ViewCheck, ViewInfoArgs, ViewMountArgs, ViewReport, ViewRun, ViewVerifyArgs};
use super::{Opened, counted, is_csv, rate_text, show_plan, type_name};
use crate::host::{Host, Mounted, Weight, watch};
use crate::option::{ResourceArgs, TraceArgs};
use crate::report::{JobSummary, Moved, Phase, Place, Stopwatch, report};
use crate::verb::{Verb, Words};

/// `info`: describes a view.
pub(super) struct Info;

impl Verb for Info {
    const NAME: &'static str = "view info";
    const LENDS_DRIVES: bool = false;
    type Args = ViewInfoArgs;
    type Report = ViewReport;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &ViewInfoArgs) -> Result<ViewReport> {
        let stopwatch = Stopwatch::start();
        let (none, no_trace) = (ResourceArgs::default(), TraceArgs::default());
        let Opened { resources, view } = Opened::of(host, &args.dir, &none, &no_trace, false)?;
        let info = view.info();
        let order = match (info.order.descending, info.order.stable) {
            (false, false) => "ascending",
            (true, false) => "descending",
            (false, true) => "ascending, stable",
            (true, true) => "descending, stable",
        };
        let order_name = match &info.what {
            ViewType::Lines(lines) => Some(OrderSpec::of_name(&lines.order_name)?.to_string()),
            #[cfg(feature = "tables")]
            ViewType::Rows(_) => Some(super::table::order_of(&view)?),
            #[cfg(not(feature = "tables"))]
            ViewType::Rows(_) => return Err(crate::verb::without_tables()),
            ViewType::Records(_) => None,
        };
        let what = match &order_name {
            Some(name) => format!("in order {name}"),
            None => format!("of type {}", type_name(&info.what)),
        };
        // The names of a table's columns already tell which of them descend.
        let order = match info.what {
            ViewType::Rows(_) => String::new(),
            ViewType::Records(_) | ViewType::Lines(_) => format!(", {order}"),
        };
        let mut text = format!(
            "{}: {} {what}, {}{order}\n{}, blocks of {}, index of {}; opened in {:.1} ms\n",
            args.dir.display(),
            counted(&info.what, info.records),
            units::bytes(view.len_bytes()),
            units::counted(info.runs.len() as u64, "run"),
            units::bytes(info.block_bytes as u64),
            units::bytes(info.index_bytes),
            stopwatch.seconds() * 1e3,
        );
        let mut runs = Vec::with_capacity(info.runs.len());
        for (path, drive, records) in info.runs {
            let counted = counted(&info.what, records);
            let path = Place(path);
            text += &format!("  {counted} in {} on drive {drive}\n", path.0.display());
            runs.push(ViewRun {
                path,
                drive,
                records,
            });
        }
        let moved = Moved {
            records: info.records,
            ..Moved::default()
        };
        Ok(ViewReport {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            r#type: type_name(&info.what),
            order: order_name,
            bytes: view.len_bytes(),
            descending: info.order.descending,
            stable: info.order.stable,
            block_bytes: info.block_bytes as u64,
            index_bytes: info.index_bytes,
            runs,
            text,
        })
    }

    fn say(_args: &ViewInfoArgs, report: &ViewReport, words: &mut Words) {
        words.data.push_str(&report.text);
    }

    fn headline(report: &ViewReport) -> String {
        report.text.lines().next().unwrap_or_default().to_owned()
    }
}

/// `verify`: checks a view.
pub(super) struct Verify;

impl Verb for Verify {
    const NAME: &'static str = "view verify";
    const LENDS_DRIVES: bool = false;
    type Args = ViewVerifyArgs;
    type Report = ViewCheck;
    const PHASES: &'static [Weight] = &[("verify", 1.0)];

    fn run(host: &dyn Host, args: &ViewVerifyArgs) -> Result<ViewCheck> {
        let stopwatch = Stopwatch::start();
        let opened = Opened::of(host, &args.dir, &args.resources, &args.trace, args.explain)?;
        let Opened { resources, view } = opened;
        if args.explain {
            show_plan(host, &view, "read view -> verify", view.plan_verify());
        }
        let control = &view.job().control;
        let done = watch(host, control, Self::PHASES, || view.verify())?;
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            passes: 1,
            ..Moved::default()
        };
        let text = format!(
            "{} in {}, undamaged and in order: {}",
            counted(view.what(), done.records),
            units::counted(done.blocks, "block"),
            rate_text(done.read_bytes, done.seconds),
        );
        Ok(ViewCheck {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            blocks: done.blocks,
            phases: Phase::of_engine([&done.phase]),
            text,
        })
    }

    fn say(args: &ViewVerifyArgs, report: &ViewCheck, words: &mut Words) {
        words.lines(&report.text);
        words.phases(&report.phases, args.explain);
    }

    fn headline(report: &ViewCheck) -> String {
        report.text.clone()
    }
}

report! {
    /// A view that was mounted.
    pub(crate) struct MountReport {
        [used: JobSummary],
        /// Bytes of the file.
        bytes: u64,
    }
}

/// `mount`: serves a view as a file until it is unmounted or the user stops it.
pub(super) struct Mount;

impl Verb for Mount {
    const NAME: &'static str = "view mount";
    const LENDS_DRIVES: bool = false;
    type Args = ViewMountArgs;
    type Report = MountReport;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &ViewMountArgs) -> Result<MountReport> {
        let is_plain =
            |name: &String| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        if let Some(name) = args.name.as_ref().filter(|name| !is_plain(name)) {
            let cause = format!("`{name}` is not a name for a file");
            return Err(Error::usage("mount view", cause).hint("give a plain name with --name"));
        }
        let stopwatch = Stopwatch::start();
        let opened = Opened::of(host, &args.dir, &args.resources, &args.trace, false)?;
        let Opened { resources, view } = opened;
        let name = match (&args.name, view.what()) {
            (Some(name), ViewType::Records(_) | ViewType::Lines(_)) => name,
            (None, ViewType::Records(_)) => "sorted.bin",
            (None, ViewType::Lines(lines)) if is_csv(lines) => "sorted.csv",
            (None, ViewType::Lines(_)) => "sorted.txt",
            (_, ViewType::Rows(_)) => {
                return Err(
                    Error::usage("mount view", "a view of a table is not a file")
                        .path(&args.dir)
                        .hint("write it with `outcore view materialize`"),
                );
            }
        };
        let moved = Moved {
            records: view.len(),
            ..Moved::default()
        };
        let bytes = view.len_bytes();
        host.mount(Mounted {
            view,
            mountpoint: &args.mountpoint,
            name,
            is_direct: args.direct,
            threads: resources.config.threads.value,
        })?;
        Ok(MountReport {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            bytes,
        })
    }

    fn say(_args: &ViewMountArgs, _report: &MountReport, _words: &mut Words) {}

    fn headline(report: &MountReport) -> String {
        format!("served {}", units::bytes(report.bytes))
    }
}
