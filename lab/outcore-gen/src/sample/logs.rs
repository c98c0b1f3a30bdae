//! Log entries of a web server.
//!
//! Contract: as in [`super`]. Requests are nearly in the order of time, as if several processes had
//! written them. A few pages and visitors make most of the requests. Their lines have the combined
//! log format of Apache's HTTP server.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field};
use chrono::DateTime;
use outcore::Result;

use super::words::{Words, pick};
use super::{FROM_US, SECOND_US, time_field};
use crate::random::{Draws, Stream, Zipf};

/// Requests per second, on average.
const PER_SECOND: i64 = 200;
const PAGES: u64 = 50_000;
const VISITORS: u64 = 1 << 16;
const METHODS: [&str; 10] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "GET", "POST", "HEAD", "PUT",
];
const STATUSES: [i64; 16] = [
    200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 304, 304, 301, 404, 404, 500,
];
const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1",
    "curl/8.7.1",
    "ExampleBot/2.1 (+https://example.com/bot)",
];
/// The networks of RFC 5737.
const NETWORKS: [&str; 3] = ["192.0.2", "198.51.100", "203.0.113"];

/// The log; see the module.
#[derive(Debug)]
pub(super) struct Logs {
    stream: Stream,
    words: Words,
    pages: Zipf,
    visitors: Zipf,
}

struct Request {
    time_us: i64,
    ip: String,
    user: Option<String>,
    method: &'static str,
    path: String,
    status: i64,
    bytes: i64,
    ms: f64,
    referer: Option<String>,
    agent: &'static str,
}

/// The columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        time_field("time"),
        Field::new("ip", DataType::Utf8, false),
        Field::new("user", DataType::Utf8, true),
        Field::new("method", DataType::Utf8, false),
        Field::new("path", DataType::Utf8, false),
        Field::new("status", DataType::Int64, false),
        Field::new("bytes", DataType::Int64, false),
        Field::new("ms", DataType::Float64, false),
        Field::new("referer", DataType::Utf8, true),
        Field::new("agent", DataType::Utf8, false),
    ]
}

impl Logs {
    pub(super) fn new(seed: u64) -> Result<Self> {
        Ok(Logs {
            stream: Stream::new(seed, 2),
            words: Words::new()?,
            pages: Zipf::new(1.0, PAGES)?,
            visitors: Zipf::new(0.9, VISITORS)?,
        })
    }

    fn request(&self, number: u64) -> Request {
        let mut draws = self.stream.draws(number);
        let late_us = draws.below(2 * SECOND_US as u64) as i64;
        let visitor = self.visitors.rank(&mut draws);
        let network = NETWORKS[visitor as usize % NETWORKS.len()];
        let is_known = visitor.is_multiple_of(5);
        let status = STATUSES[draws.below(STATUSES.len() as u64) as usize];
        let has_body = status == 200;
        let bytes = if has_body {
            200 + (draws.below(1 << 16) * draws.below(64)) as i64 / 16
        } else {
            0
        };
        Request {
            time_us: FROM_US + number as i64 * SECOND_US / PER_SECOND + late_us,
            ip: format!("{network}.{}", 1 + visitor / 3 % 254),
            user: is_known.then(|| self.words.word((visitor % 4000) as u32).to_owned()),
            method: pick(&METHODS, &mut draws),
            path: self.path(&mut draws),
            status,
            bytes,
            ms: (1 + draws.below(1000) * draws.below(1000) / 100) as f64 / 10.0,
            referer: (draws.below(3) == 0)
                .then(|| format!("https://example.com{}", self.path(&mut draws))),
            agent: AGENTS[(visitor % AGENTS.len() as u64) as usize],
        }
    }

    fn path(&self, draws: &mut Draws) -> String {
        let page = self.pages.rank(draws);
        let word = |place: u64| self.words.word((place % 20_000) as u32);
        match page % 4 {
            0 => format!("/{}/{}", word(page % 50), word(page)),
            1 => format!("/{}/{}.html", word(page % 50), word(page)),
            2 => format!("/img/{}.png", word(page)),
            _ => format!("/search?q={}&page={}", word(page), 1 + page % 7),
        }
    }

    pub(super) fn columns(&self, numbers: Range<u64>) -> Vec<ArrayRef> {
        let count = (numbers.end - numbers.start) as usize;
        let text = |bytes: usize| StringBuilder::with_capacity(count, count * bytes);
        let mut time = TimestampMicrosecondArray::builder(count);
        let (mut ip, mut user, mut method) = (text(12), text(2), text(4));
        let (mut path, mut referer, mut agent) = (text(20), text(14), text(60));
        let mut status = Int64Builder::with_capacity(count);
        let mut bytes = Int64Builder::with_capacity(count);
        let mut ms = Float64Builder::with_capacity(count);
        for number in numbers {
            let request = self.request(number);
            time.append_value(request.time_us);
            ip.append_value(request.ip);
            user.append_option(request.user);
            method.append_value(request.method);
            path.append_value(request.path);
            status.append_value(request.status);
            bytes.append_value(request.bytes);
            ms.append_value(request.ms);
            referer.append_option(request.referer);
            agent.append_value(request.agent);
        }
        vec![
            Arc::new(time.finish()),
            Arc::new(ip.finish()),
            Arc::new(user.finish()),
            Arc::new(method.finish()),
            Arc::new(path.finish()),
            Arc::new(status.finish()),
            Arc::new(bytes.finish()),
            Arc::new(ms.finish()),
            Arc::new(referer.finish()),
            Arc::new(agent.finish()),
        ]
    }

    pub(super) fn lines(&self, numbers: Range<u64>) -> StringArray {
        let mut line = String::new();
        let mut stamp = (i64::MIN, String::new());
        let lines = numbers.map(|number| {
            let request = self.request(number);
            let second = request.time_us.div_euclid(SECOND_US);
            if stamp.0 != second {
                let time = DateTime::from_timestamp(second, 0).unwrap_or_default();
                stamp = (second, time.format("%d/%b/%Y:%H:%M:%S +0000").to_string());
            }
            line.clear();
            // Writing to a string never fails.
            let _ = write!(
                line,
                "{} - {} [{}] \"{} {} HTTP/1.1\" {} {} \"{}\" \"{}\"",
                request.ip,
                request.user.as_deref().unwrap_or("-"),
                stamp.1,
                request.method,
                request.path,
                request.status,
                request.bytes,
                request.referer.as_deref().unwrap_or("-"),
                request.agent,
            );
            Some(line.clone())
        });
        lines.collect()
    }
}
