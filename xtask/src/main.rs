//! `cargo xtask`: the project's own tools, one subcommand each.
//!
//! Contract: `tidy` prints every breach of the house rules as
//! `file:line: [check] what; why; do: what to do`. It exits with 1 if there was a breach, and with
//! 2 if it could not run. Paths after `tidy` limit the output (never the input), so that one folder
//! can be cleaned at a time. `tidy --lower` rewrites the list of ceilings with the present numbers
//! where they are lower.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use xtask::tidy::{self, Severity, Tree};

const USAGE: &str = "usage: cargo xtask tidy [PATH]...
       cargo xtask tidy --lower

  tidy    check layers, circles of imports, lengths, unit suffixes, unsafe code, file
          contracts, dead files, unused public names, unfinished code, links and paths;
          PATHs limit the printout
  --lower lower the ceilings of xtask/ceilings.toml to the present numbers";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let tool = arguments.next();
    let arguments: Vec<String> = arguments.collect();
    match tool.as_deref() {
        Some("tidy") if arguments.as_slice() == ["--lower"] => lower_ceilings(),
        Some("tidy") => run_tidy(&arguments),
        Some("-h" | "--help" | "help") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn lower_ceilings() -> ExitCode {
    let lowered = xtask::repository_root().and_then(|root| {
        let (path, text) = tidy::lowered_ceilings(&Tree::read(&root)?)?;
        std::fs::write(root.join(path), text).map_err(|e| format!("{path}: {e}"))
    });
    match lowered {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidy could not lower the ceilings: {error}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy(places: &[String]) -> ExitCode {
    let started = Instant::now();
    let report = xtask::repository_root()
        .and_then(|root| Tree::read(&root))
        .and_then(|tree| tidy::check(&tree));
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy could not run: {error}");
            return ExitCode::from(2);
        }
    };
    let is_wanted = |path: &str| {
        places.is_empty()
            || places
                .iter()
                .any(|place| Path::new(path).starts_with(trim(place)))
    };
    let findings: Vec<_> = report
        .findings
        .iter()
        .filter(|f| is_wanted(&f.path))
        .collect();
    for finding in &findings {
        println!("{finding}");
    }
    let error_count = findings
        .iter()
        .filter(|f| f.severity == Severity::Error)
        .count();
    eprintln!(
        "tidy: {error_count} errors, {} warnings in {} files ({} allowances with reasons), {:.2} s",
        findings.len() - error_count,
        report.files_count,
        report.allowances_count,
        started.elapsed().as_secs_f64(),
    );
    if error_count == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn trim(place: &str) -> &str {
    place.trim_start_matches("./").trim_end_matches('/')
}
