//! Runs an example: `cargo run --release -p outcore-examples -- NAME FILE...`
//!
//! Contract: files hold text, or little-endian numbers of the types that the example names; the last is
//! the output where there is one. What is found goes to standard output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outcore::Error;
use outcore::config::IoMode;
use outcore::job::{Job, JobOptions};
use outcore_examples as examples;

const USAGE: &str = "\
usage: outcore-examples NAME FILE...
  samplesort    IN OUT          u64
  prefix-sums   IN OUT          u64
  histogram     IN              f64
  kth-largest   IN K            u64
  word-count    IN OUT          text
  deduplicate   IN FIELD OUT    lines of JSON; .text
  shuffle       IN OUT          u64
  join          LEFT RIGHT OUT  (key, value) as u64
  inverted-index IN OUT         text, a document a line
  bfs           EDGES N SOURCE  (from, to) as u32";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let job = Job::new(JobOptions::default(), IoMode::Auto);
    match run(&job, &arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}

fn run(job: &Job, arguments: &[String]) -> outcore::Result<String> {
    let number = |text: &str| {
        let parsed = text.parse::<u64>();
        parsed.map_err(|_| Error::usage("read arguments", format!("`{text}` is no number")))
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let path = |text: &str| PathBuf::from(text);
    match words[..] {
        ["samplesort", from, to] => {
            examples::samplesort(job, &path(from), &path(to)).map(|_| String::new())
        }
        ["prefix-sums", from, to] => {
            examples::prefix_sums(job, &path(from), &path(to)).map(|_| String::new())
        }
        ["histogram", from] => {
            let (low, high, counts) = examples::histogram_of(job, Path::new(from), 20)?;
            Ok(format!("{low} to {high}: {counts:?}\n"))
        }
        ["kth-largest", from, k] => Ok(format!(
            "{:?}\n",
            examples::kth_largest(job, Path::new(from), number(k)?)?
        )),
        ["word-count", from, to] => {
            examples::word_count(job, &path(from), &path(to)).map(|n| format!("{n}\n"))
        }
        ["deduplicate", from, field, to] => {
            examples::deduplicate(job, &path(from), field, &path(to)).map(|n| format!("{n}\n"))
        }
        ["shuffle", from, to] => {
            examples::global_shuffle(job, &path(from), &path(to), 1).map(|_| String::new())
        }
        ["join", left, right, to] => {
            examples::join(job, &path(left), &path(right), &path(to)).map(|n| format!("{n}\n"))
        }
        ["inverted-index", from, to] => {
            examples::inverted_index(job, &path(from), &path(to)).map(|n| format!("{n}\n"))
        }
        ["bfs", edges, count, source] => {
            let depths = examples::bfs(
                job,
                Path::new(edges),
                number(count)? as usize,
                number(source)? as u32,
            )?;
            Ok(format!("{} reached\n", depths.iter().flatten().count()))
        }
        _ => Err(Error::usage("read arguments", USAGE)),
    }
}
