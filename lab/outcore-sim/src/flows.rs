//! Flows: workloads that run on a drive.
//!
//! Contract: a flow submits each of its requests once, in the order of its generator or list.
//! Completed requests are counted per flow.

use std::collections::VecDeque;

use crate::drive::{Done, Drive, Host};
use crate::flow_order::{Chips, Source, start_order};
use crate::quantities::{NS, Ps};
use crate::report::FlowStats;
use crate::workload::{
    Addresses, DrawRules, FlowConfig, List, Op, Origin, Pace, Streams, Synthetic,
};

#[derive(Debug)]
struct Generator {
    spec: Synthetic,
    streams: Streams,
    first: u64,
    last: u64,
    hot_last: u64,
    next_streaming: u64,
    zones: Option<ZoneWriter>,
}

/// The place of a flow that writes its zones in order.
#[derive(Debug)]
struct ZoneWriter {
    zone_sectors: u64,
    /// Writes are multiples of this.
    unit_sectors: u64,
    /// Its writes are appends.
    appends: bool,
    /// Zones to reset before the next write, by their first sectors.
    resets: VecDeque<u64>,
    has_begun: bool,
    /// The resets before the next write have been made.
    is_ready: bool,
}

impl Generator {
    fn new(spec: &Synthetic, first: u64, last: u64, rules: DrawRules) -> Self {
        let mut streams = Streams::new(spec, rules);
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
            zones: None,
        }
    }

    /// Lets a streaming generator write zones in order. It begins with a whole zone.
    fn in_zones(mut self, drive: &Drive, at: u16, appends: bool) -> Self {
        let zone_sectors = drive.zone_sectors(at);
        let is_writer = self.spec.read_ratio < 1.0;
        if zone_sectors > 0 && is_writer && self.spec.addresses == Addresses::Streaming {
            self.next_streaming -= (self.next_streaming - self.first) % zone_sectors;
            self.zones = Some(ZoneWriter {
                zone_sectors,
                unit_sectors: u64::from(drive.p.unit_sectors),
                appends,
                resets: VecDeque::new(),
                has_begun: false,
                is_ready: false,
            });
        }
        self
    }

    /// The next write of the zones, or a reset in front of it. Every zone is reset before its first
    /// write; with three zones or more, while the zone before it is written.
    fn next_in_zones(&mut self, sectors: u32) -> Option<(Op, u64, u32)> {
        let zones = self.zones.as_mut()?;
        let (first, after) = (self.first, self.last + 1);
        let inside = (self.next_streaming - first) % zones.zone_sectors;
        if inside == 0 && zones.resets.is_empty() && !zones.is_ready {
            let next = self.next_streaming + zones.zone_sectors;
            let next = if next >= after { first } else { next };
            let is_ahead = after - first > 2 * zones.zone_sectors;
            if !is_ahead || !zones.has_begun {
                zones.resets.push_back(self.next_streaming);
            }
            if is_ahead {
                zones.resets.push_back(next);
            }
            zones.has_begun = true;
            zones.is_ready = true;
        }
        if let Some(zone) = zones.resets.pop_front() {
            return Some((Op::Trim, zone, zones.zone_sectors as u32));
        }
        zones.is_ready = false;
        let sectors = u64::from(sectors).next_multiple_of(zones.unit_sectors);
        let sectors = sectors.min(zones.zone_sectors - inside);
        let lba = match zones.appends {
            true => self.next_streaming - inside,
            false => self.next_streaming,
        };
        self.next_streaming += sectors;
        if self.next_streaming >= after {
            self.next_streaming = first;
        }
        Some((Op::Write, lba, sectors as u32))
    }

    fn next(&mut self) -> (Op, u64, u32) {
        let streams = &mut self.streams;
        // This stream is used for nothing else and all its values are below 1, so a ratio of 1
        // needs no draw.
        let op = if self.spec.read_ratio >= 1.0 || streams.kind.unit() <= self.spec.read_ratio {
            Op::Read
        } else {
            Op::Write
        };
        let sectors = streams.draw_size(self.spec.sizes);
        if op == Op::Write
            && let Some(request) = self.next_in_zones(sectors)
        {
            return request;
        }
        let streams = &mut self.streams;
        let align = u64::from(self.spec.align_sectors);
        let mut lba = match self.spec.addresses {
            Addresses::Streaming if self.zones.is_none() => self.streaming(sectors),
            Addresses::Streaming | Addresses::Uniform => {
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
        if self.streams.is_compat {
            return (op, lba, (sectors & 0xffff).max(1));
        }
        // No request reaches beyond the flow's range, although some of MQSim's patterns would.
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
    /// True when it has made its last request.
    is_exhausted: bool,
    pub(crate) stats: FlowStats,
}

/// All flows of a run on one drive. Implements [`Host`] for the drive.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) flows: Vec<Flow>,
    log: Option<Vec<Done>>,
}

impl Flows {
    /// Prepares the flows for `drive`, whose queues belong to the flows in order. With `keep_log`
    /// every completed request is kept.
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
                                Generator::new(spec, first, last, drive.p.draw_rules())
                                    .in_zones(drive, at as u16, config.queue.append),
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

    /// Restarts the counters: requests in flight count as generated, none as completed.
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

    /// Completed requests, if they are kept.
    pub(crate) fn take_log(&mut self) -> Vec<Done> {
        self.log.take().unwrap_or_default()
    }

    /// Whether every flow has made all of its requests and all of them have been completed.
    pub(crate) fn have_ended(&self) -> bool {
        self.flows
            .iter()
            .all(|flow| flow.is_exhausted && flow.stats.serviced == flow.stats.generated)
    }

    /// Results of the flows.
    pub(crate) fn stats(&self) -> impl Iterator<Item = &FlowStats> + Clone {
        self.flows.iter().map(|flow| &flow.stats)
    }

    /// The flows in the order in which they start.
    fn start_order(&self, drive: &Drive) -> Vec<usize> {
        if !drive.p.compat {
            return (0..self.flows.len()).collect();
        }
        let chips = Chips {
            channels: drive.p.channels,
            per_channel: drive.p.chips,
        };
        let sources = self.flows.iter().map(|flow| match &flow.running {
            Running::List { list, .. } => match &list.file {
                Some(path) => Source::Trace(path),
                None => Source::Generator,
            },
            Running::Synthetic(_) => Source::Generator,
        });
        start_order(chips, sources)
    }

    /// Sets the first timers.
    pub(crate) fn start(&mut self, drive: &mut Drive) {
        for at in self.start_order(drive) {
            let flow = &mut self.flows[at];
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

    /// Generates and submits the next request of a flow. Returns false when it has none left.
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
