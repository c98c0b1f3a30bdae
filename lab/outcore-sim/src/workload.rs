//! Workloads: synthetic generators and lists of requests, closed or open loop.
//!
//! Model: the generators are MQSim's (uniform, hot/cold and streaming addresses; fixed or normal
//! sizes; a fixed number outstanding, or Poisson arrivals), drawn from the same random stream, so
//! a workload file gives the same requests here as there. A list replays given requests in order,
//! keeping `depth` outstanding or at their recorded times.
//!
//! Invariant: a flow submits each of its requests once; completed requests are counted by flow.

use crate::drive::params::Params;
use crate::drive::{Done, Drive, Host, Op, QueueConfig};
use crate::quantities::{NS, Ps};
use crate::report::FlowStats;
use crate::rng::Rng;

/// How addresses are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Addresses {
    /// One after the other from a random start.
    Streaming,
    /// Anywhere in the working set.
    Uniform,
    /// `(1 - ratio)` of the requests go to the first `ratio` of the working set.
    HotCold {
        /// Share of the working set that is hot.
        ratio: f64,
    },
}

/// How sizes are drawn, in sectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    /// All alike.
    Fixed(u32),
    /// Normal, at least one sector.
    Normal {
        /// Mean.
        mean: u32,
        /// Standard deviation.
        deviation: u32,
    },
}

impl Sizes {
    /// Mean size in sectors.
    pub(crate) fn mean(&self) -> u32 {
        match self {
            Sizes::Fixed(sectors) | Sizes::Normal { mean: sectors, .. } => *sectors,
        }
    }
}

/// When requests are issued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many outstanding.
    Depth(u32),
    /// Poisson arrivals with this mean distance in nanoseconds.
    Interval(u64),
}

/// A generator.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Share of the flow's range that is touched, above 0 and at most 1; the queue's
    /// [`QueueConfig::working_set`] must agree.
    pub working_set: f64,
    /// Closed or open loop.
    pub pace: Pace,
    /// Share of reads.
    pub read_ratio: f64,
    /// Addresses.
    pub addresses: Addresses,
    /// Start addresses are multiples of this many sectors; 0 leaves them as drawn.
    pub align_sectors: u32,
    /// Sizes.
    pub sizes: Sizes,
    /// Seed.
    pub seed: i32,
    /// No request is generated after this time; 0 means no such limit.
    pub stop_at: Ps,
    /// Requests to generate when `stop_at` is 0.
    pub requests: u64,
}

/// One request of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListItem {
    /// When it is issued (open loop).
    pub at: Ps,
    /// What.
    pub op: Op,
    /// First sector.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
}

/// A list of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The requests, in the order of issue.
    pub items: Vec<ListItem>,
    /// Keep this many outstanding; 0 issues each at its time.
    pub depth: u32,
    /// How often the list is replayed.
    pub rounds: u32,
}

/// Where a flow's requests come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// A generator.
    Synthetic(Synthetic),
    /// A list.
    List(List),
}

/// One flow: a source of requests with a queue pair of its own.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// For reports.
    pub name: String,
    /// Queue pair.
    pub queue: QueueConfig,
    /// Requests.
    pub origin: Origin,
}

/// Random streams of a generator, in MQSim's order of seeds.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) kind: Rng,
    pub(crate) address: Rng,
    pub(crate) hot_address: Option<Rng>,
    pub(crate) hot_cold: Option<Rng>,
    pub(crate) size: Option<Rng>,
    interval: Option<Rng>,
    compat: bool,
}

impl Streams {
    pub(crate) fn new(spec: &Synthetic, p: &Params) -> Self {
        let compat = p.compat;
        let mut seed = spec.seed;
        let mut next = || {
            seed = seed.wrapping_add(1);
            Rng::new(seed.wrapping_sub(1))
        };
        let kind = next();
        let address = next();
        let hot = matches!(spec.addresses, Addresses::HotCold { .. });
        let hot_address = hot.then(&mut next);
        let hot_cold = hot.then(&mut next);
        let mut size = matches!(spec.sizes, Sizes::Normal { .. }).then(&mut next);
        if let Some(rng) = size.as_mut().filter(|_| p.normal_starts_at_mean) {
            rng.start_normal_at_mean();
        }
        let interval = matches!(spec.pace, Pace::Interval(_)).then(&mut next);
        Streams {
            kind,
            address,
            hot_address,
            hot_cold,
            size,
            interval,
            compat,
        }
    }

    /// Draws a size in sectors. MQSim turns a negative one into an unsigned number, of which the
    /// command carries the lower 16 bits: a request of almost 32 MiB.
    pub(crate) fn draw_size(&mut self, sizes: Sizes) -> u32 {
        let (Sizes::Normal { mean, deviation }, Some(rng)) = (sizes, self.size.as_mut()) else {
            return sizes.mean();
        };
        let drawn = libm::ceil(rng.normal(f64::from(mean), f64::from(deviation)));
        if self.compat {
            (drawn as i64 as u32).max(1)
        } else {
            drawn.max(1.0) as u32
        }
    }
}

#[derive(Debug)]
struct Generator {
    spec: Synthetic,
    streams: Streams,
    first: u64,
    last: u64,
    hot_last: u64,
    next_streaming: u64,
}

impl Generator {
    fn new(spec: &Synthetic, first: u64, last: u64, p: &Params) -> Self {
        let mut streams = Streams::new(spec, p);
        let hot_last = match spec.addresses {
            Addresses::HotCold { ratio } => first + ((last - first) as f64 * ratio) as u64,
            _ => last,
        };
        let mut next_streaming = 0;
        if spec.addresses == Addresses::Streaming {
            next_streaming = streams.address.between(first, last);
            if spec.align_sectors > 0 {
                next_streaming -= next_streaming % u64::from(spec.align_sectors);
            }
        }
        Generator {
            spec: spec.clone(),
            streams,
            first,
            last,
            hot_last,
            next_streaming,
        }
    }

    fn next(&mut self) -> (Op, u64, u32) {
        let streams = &mut self.streams;
        // The stream of kinds serves nothing else, and all it gives is below 1: no need to ask.
        let op = if self.spec.read_ratio >= 1.0 || streams.kind.unit() <= self.spec.read_ratio {
            Op::Read
        } else {
            Op::Write
        };
        let sectors = streams.draw_size(self.spec.sizes);
        let align = u64::from(self.spec.align_sectors);
        let mut lba = match self.spec.addresses {
            Addresses::Streaming => self.streaming(sectors),
            Addresses::Uniform => {
                let lba = self.streams.address.between(self.first, self.last);
                if lba + u64::from(sectors) > self.last {
                    self.first
                } else {
                    lba
                }
            }
            Addresses::HotCold { ratio } => {
                let cold = streams
                    .hot_cold
                    .as_mut()
                    .is_some_and(|rng| rng.unit() < ratio);
                match self.streams.hot_address.as_mut() {
                    Some(rng) if cold => rng.between((self.hot_last + 1).min(self.last), self.last),
                    Some(rng) => rng.between(self.first, self.hot_last),
                    None => self.first,
                }
            }
        };
        if align > 0 {
            lba -= lba % align;
        }
        if self.streams.compat {
            return (op, lba, (sectors & 0xffff).max(1));
        }
        // Nothing reaches beyond the flow's range: MQSim's patterns let some do.
        let sectors = u64::from(sectors).min(self.last - self.first + 1) as u32;
        if lba + u64::from(sectors) > self.last + 1 {
            lba = self.first;
        }
        (op, lba, sectors)
    }

    fn streaming(&mut self, sectors: u32) -> u64 {
        let size = u64::from(sectors);
        let align = u64::from(self.spec.align_sectors);
        let mut lba = self.next_streaming;
        if lba + size > self.last {
            lba = self.first;
        }
        self.next_streaming += size;
        if self.next_streaming > self.last {
            self.next_streaming = self.first;
        }
        if align > 0 {
            self.next_streaming = self.next_streaming.next_multiple_of(align);
        }
        lba
    }
}

#[derive(Debug)]
enum Running {
    Synthetic(Box<Generator>),
    List {
        list: List,
        next: usize,
        round: u32,
        round_start: Ps,
        first: u64,
        last: u64,
    },
}

/// A flow during a run.
#[derive(Debug)]
pub(crate) struct Flow {
    running: Running,
    generated: u64,
    /// It has made its last request.
    is_exhausted: bool,
    pub(crate) stats: FlowStats,
}

/// All flows of a run on one drive; the drive's [`Host`].
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) flows: Vec<Flow>,
    log: Option<Vec<Done>>,
}

impl Flows {
    /// Prepares the flows for `drive`, whose queues are those of the flows, in order. With
    /// `keep_log` every completed request is kept.
    pub(crate) fn new(configs: &[FlowConfig], drive: &Drive, keep_log: bool) -> Self {
        let flows =
            configs
                .iter()
                .enumerate()
                .map(|(at, config)| {
                    let (first, last) = drive.queue_sectors(at as u16);
                    let running =
                        match &config.origin {
                            Origin::Synthetic(spec) => Running::Synthetic(Box::new(
                                Generator::new(spec, first, last, &drive.p),
                            )),
                            Origin::List(list) => {
                                let list = list.clone();
                                Running::List {
                                    list,
                                    next: 0,
                                    round: 0,
                                    round_start: 0,
                                    first,
                                    last,
                                }
                            }
                        };
                    Flow {
                        is_exhausted: matches!(&running, Running::List { list, .. } if list.items.is_empty()),
                        running,
                        generated: 0,
                        stats: FlowStats::new(&config.name),
                    }
                })
                .collect();
        Flows {
            flows,
            log: keep_log.then(Vec::new),
        }
    }

    /// Begins to count anew, with what is in flight as generated and nothing as completed.
    pub(crate) fn restart_counters(&mut self) {
        for flow in &mut self.flows {
            let in_flight = flow.stats.generated - flow.stats.serviced;
            flow.stats = FlowStats::new(&flow.stats.name);
            flow.stats.generated = in_flight;
        }
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// Completed requests, when they are kept.
    pub(crate) fn take_log(&mut self) -> Vec<Done> {
        self.log.take().unwrap_or_default()
    }

    /// Whether every flow has made all of its requests, and all of those have been completed.
    pub(crate) fn have_ended(&self) -> bool {
        self.flows
            .iter()
            .all(|flow| flow.is_exhausted && flow.stats.serviced == flow.stats.generated)
    }

    /// Results of the flows.
    pub(crate) fn stats(&self) -> impl Iterator<Item = &FlowStats> + Clone {
        self.flows.iter().map(|flow| &flow.stats)
    }

    /// Sets the first timers.
    pub(crate) fn start(&mut self, drive: &mut Drive) {
        for (at, flow) in self.flows.iter_mut().enumerate() {
            let start = match &mut flow.running {
                Running::Synthetic(generator) => match generator.spec.pace {
                    Pace::Depth(_) => Some(NS),
                    Pace::Interval(mean) => Some(draw_interval(generator, mean)),
                },
                Running::List { list, .. } if list.items.is_empty() => None,
                Running::List { list, .. } if list.depth > 0 => Some(NS),
                Running::List { list, .. } => Some(list.items[0].at),
            };
            if let Some(start) = start {
                let start = drive.now().saturating_add(start);
                drive.set_timer(start, at as u32);
            }
        }
    }

    /// Generates and submits the next request of a flow; false when it has none left.
    fn submit_next(&mut self, drive: &mut Drive, at: usize) -> bool {
        let flow = &mut self.flows[at];
        let now = drive.now();
        flow.is_exhausted = true;
        let (op, lba, sectors) = match &mut flow.running {
            Running::Synthetic(generator) => {
                let spec = &generator.spec;
                let over = if spec.stop_at > 0 {
                    now > spec.stop_at
                } else {
                    flow.generated >= spec.requests
                };
                if over {
                    return false;
                }
                generator.next()
            }
            Running::List {
                list,
                next,
                round,
                round_start,
                first,
                last,
            } => {
                if *next == list.items.len() {
                    *round += 1;
                    *next = 0;
                    *round_start = now;
                }
                if *round >= list.rounds.max(1) || list.items.is_empty() {
                    return false;
                }
                let item = list.items[*next];
                *next += 1;
                // Addresses of a list count from the start of the flow's range, and wrap.
                let lba = if item.lba <= *last - *first {
                    *first + item.lba
                } else {
                    *first + item.lba % (*last - *first).max(1)
                };
                (item.op, lba, item.sectors)
            }
        };
        flow.is_exhausted = false;
        flow.generated += 1;
        flow.stats.generated += 1;
        drive.submit(at as u16, op, lba, sectors, now, 0);
        true
    }
}

fn draw_interval(generator: &mut Generator, mean_ns: u64) -> Ps {
    let ns = generator
        .streams
        .interval
        .as_mut()
        .map_or(0.0, |rng| rng.exponential(mean_ns as f64));
    (ns as u64).saturating_mul(NS)
}

impl Host for Flows {
    fn completed(&mut self, drive: &mut Drive, done: Done) {
        let at = usize::from(done.queue);
        let flow = &mut self.flows[at];
        flow.stats.record(&done);
        if let Some(log) = &mut self.log {
            log.push(done);
        }
        let closed = match &flow.running {
            Running::Synthetic(generator) => matches!(generator.spec.pace, Pace::Depth(_)),
            Running::List { list, .. } => list.depth > 0,
        };
        if closed {
            self.submit_next(drive, at);
        }
    }

    fn timer(&mut self, drive: &mut Drive, token: u32) {
        let at = token as usize;
        let depth = match &self.flows[at].running {
            Running::Synthetic(generator) => match generator.spec.pace {
                Pace::Depth(depth) => depth,
                Pace::Interval(_) => 0,
            },
            Running::List { list, .. } => list.depth,
        };
        if depth > 0 {
            for _ in 0..depth {
                if !self.submit_next(drive, at) {
                    break;
                }
            }
            return;
        }
        if !self.submit_next(drive, at) {
            return;
        }
        let next = match &mut self.flows[at].running {
            Running::Synthetic(generator) => match generator.spec.pace {
                Pace::Interval(mean) => {
                    Some(drive.now().saturating_add(draw_interval(generator, mean)))
                }
                Pace::Depth(_) => None,
            },
            Running::List {
                list,
                next,
                round,
                round_start,
                ..
            } => {
                if *next < list.items.len() {
                    Some(round_start.saturating_add(list.items[*next].at))
                } else if *round + 1 < list.rounds {
                    Some(drive.now().saturating_add(list.items[0].at))
                } else {
                    None
                }
            }
        };
        if let Some(next) = next {
            drive.set_timer(next, token);
        }
    }
}
