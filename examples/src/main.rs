//! Runs an example: `cargo run --release -p outcore-examples -- NAME FILE...`
//!
//! Contract: files hold text, or little-endian numbers of the types that the example names.

use std::path::Path;
use std::process::ExitCode;

use outcore::{Context, Error, IoMode, Job, JobOptions};
use outcore_examples as ex;

const USAGE: &str = "\
usage: outcore-examples NAME FILE...
  samplesort    IN OUT          u64
  semisort      IN OUT          (key, value) as u64
  prefix-sums   IN OUT          u64
  histogram     IN              f64
  kth-largest   IN K            u64
  word-count    IN OUT          text
  deduplicate   IN FIELD OUT    lines of JSON; .text
  shuffle       IN OUT          u64
  join          LEFT RIGHT OUT  (key, value) as u64
  inverted-index IN OUT         text, a document a line
  bfs           EDGES N SOURCE  (from, to) as u32
  label-propagation GRAPH       as `outcore graph convert` makes it";

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
        text.parse::<u64>()
            .map_err(|_| Error::usage("read arguments", format!("`{text}` is not a number")))
    };
    let context = Context::of_job(job);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let path = Path::new::<str>;
    let line = |count| format!("{count}\n");
    match words[..] {
        ["samplesort", from, to] => ex::samplesort(job, path(from), path(to)).map(nothing),
        ["semisort", from, to] => ex::semisort(&context, path(from), path(to)).map(nothing),
        ["prefix-sums", from, to] => ex::prefix_sums(job, path(from), path(to)).map(nothing),
        ["histogram", from] => {
            let (low, high, counts) = ex::histogram_of(job, path(from), 20)?;
            Ok(format!("{low} to {high}: {counts:?}\n"))
        }
        ["kth-largest", from, k] => {
            ex::kth_largest(job, path(from), number(k)?).map(|found| format!("{found:?}\n"))
        }
        ["word-count", from, to] => ex::word_count(job, path(from), path(to)).map(line),
        ["deduplicate", from, field, to] => {
            ex::deduplicate(job, path(from), field, path(to)).map(line)
        }
        ["shuffle", from, to] => ex::global_shuffle(job, path(from), path(to), 1).map(nothing),
        ["join", left, right, to] => ex::join(job, path(left), path(right), path(to)).map(line),
        ["inverted-index", from, to] => ex::inverted_index(job, path(from), path(to)).map(line),
        ["bfs", edges, count, source] => {
            let (count, source) = (number(count)? as usize, number(source)? as u32);
            let depths = ex::bfs(job, path(edges), count, source)?;
            Ok(format!("{} reached\n", depths.iter().flatten().count()))
        }
        ["label-propagation", g] => Ok(format!("{:?}\n", ex::label_propagation(job, path(g))?)),
        _ => Err(Error::usage("read arguments", USAGE)),
    }
}

fn nothing<T>(_: T) -> String {
    String::new()
}
