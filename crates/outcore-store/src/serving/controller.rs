//! Decides when server threads are worth it: a submitter measures itself and tries them.
//!
//! Contract: the submitter calls [`Controller::is_worth_it`] with each batch above the low mark;
//! the answer comes from windows of [`WINDOW_NS`].
//! - Servers are tried when the submitting thread has run for nearly all of two windows in a row,
//!   so that the thread and not a drive is the bottleneck, and at least one core was idle in the
//!   second window.
//! - They stay if requests then return clearly faster than in the window before. Otherwise the
//!   submitter continues alone, and tries again at growing intervals.
//! - Every decision is reviewed after [`KEEP_NS`], because loads change.
//!
//! A device without a processor clock never gets servers.
//!
//! Cost: one comparison per batch; one system call per window; two reads of `/proc/stat` per trial.

use outcore_io::drive::paths;

/// Length of a measurement window.
const WINDOW_NS: u64 = 100_000_000;
/// How long a decision for servers is valid.
const KEEP_NS: u64 = 10_000_000_000;
/// Pause between two trials; each useless trial doubles it, up to [`PAUSE_NS_MAX`].
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_NS_MAX: u64 = 64_000_000_000;
/// Share of a window that the thread runs if nothing holds it up.
const BUSY_SHARE: f64 = 0.9;
/// Smallest speed-up for which servers stay.
const GAIN: f64 = 1.05;

/// Time that the machine's cores have spent since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreTicks {
    idle: u64,
    all: u64,
    cores: usize,
}

impl CoreTicks {
    /// The ticks up to now; `None` if the system does not report them.
    pub(super) fn read() -> Option<Self> {
        Self::parse(&paths::system_text("/proc/stat")?)
    }

    /// The first line is `cpu user nice system idle iowait ...` over all cores; one line per core
    /// follows.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split_ascii_whitespace();
        words.next().filter(|word| *word == "cpu")?;
        // User time already includes guest time.
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        Some(CoreTicks {
            idle: ticks.get(3)? + ticks.get(4)?,
            all: ticks.iter().sum(),
            cores: lines.take_while(|line| line.starts_with("cpu")).count(),
        })
    }

    /// Idle cores since `earlier`, rounded to a whole number.
    fn idle_cores_since(&self, earlier: &CoreTicks) -> usize {
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        (idle / all * self.cores as f64).round() as usize
    }
}

/// The controller's inputs.
pub(super) struct Instruments<'a> {
    /// The device's clock.
    pub(super) now_ns: u64,
    /// Completed requests since the submitter was made.
    pub(super) requests: u64,
    /// CPU time of the calling thread.
    pub(super) thread_cpu_ns: &'a dyn Fn() -> Option<u64>,
    /// Times of the machine's cores.
    pub(super) core_ticks: &'a dyn Fn() -> Option<CoreTicks>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The submitter serves; no trial starts before this time.
    Watching { not_before_ns: u64 },
    /// Its thread was busy for a window. Is it busy again, and is a core idle meanwhile?
    Suspecting { ticks: CoreTicks },
    /// Servers have started. The first window does not count, because the change happens in it.
    Starting { rate_before: f64 },
    /// Do servers help?
    Trying { rate_before: f64 },
    /// They do.
    Keeping { until_ns: u64 },
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Controller {
    state: State,
    pause_ns: u64,
    /// Idle cores at the last trial of servers.
    idle_cores: usize,
    /// The window: its start, and the counts at that time.
    from_ns: u64,
    from_cpu_ns: u64,
    from_requests: u64,
    last_ns: u64,
}

impl Controller {
    pub(super) fn new() -> Self {
        Controller {
            state: State::Watching { not_before_ns: 0 },
            pause_ns: PAUSE_NS,
            idle_cores: 0,
            from_ns: 0,
            from_cpu_ns: 0,
            from_requests: 0,
            last_ns: 0,
        }
    }

    /// Idle cores at the last trial of servers; the upper limit on their threads.
    pub(super) fn idle_cores(&self) -> usize {
        self.idle_cores
    }

    /// Whether servers are to have this batch.
    pub(super) fn is_worth_it(&mut self, seen: &Instruments<'_>) -> bool {
        let now_ns = seen.now_ns;
        // A submitter that pauses for long is not the bottleneck.
        let is_broken = now_ns.saturating_sub(self.last_ns) > WINDOW_NS / 2;
        self.last_ns = now_ns;
        let window_ns = now_ns.saturating_sub(self.from_ns);
        if (is_broken || window_ns >= WINDOW_NS)
            && let Some(cpu_ns) = (seen.thread_cpu_ns)()
        {
            let ran_ns = cpu_ns.saturating_sub(self.from_cpu_ns);
            let is_busy = !is_broken && ran_ns as f64 >= BUSY_SHARE * window_ns as f64;
            let requests = seen.requests.saturating_sub(self.from_requests);
            let rate = requests as f64 / window_ns.max(1) as f64;
            self.state = match is_broken {
                true => self.break_off(),
                false => self.next(is_busy, rate, seen),
            };
            (self.from_ns, self.from_cpu_ns) = (now_ns, cpu_ns);
            self.from_requests = seen.requests;
        }
        !matches!(
            self.state,
            State::Watching { .. } | State::Suspecting { .. }
        )
    }

    /// The next state after a window without a valid measurement.
    fn break_off(&self) -> State {
        match self.state {
            State::Watching { .. } | State::Keeping { .. } => self.state,
            _ => State::Watching { not_before_ns: 0 },
        }
    }

    fn next(&mut self, is_busy: bool, rate: f64, seen: &Instruments<'_>) -> State {
        let now_ns = seen.now_ns;
        let later = |pause_ns| State::Watching {
            not_before_ns: now_ns.saturating_add(pause_ns),
        };
        match self.state {
            State::Watching { not_before_ns } if is_busy && now_ns >= not_before_ns => {
                match (seen.core_ticks)() {
                    Some(ticks) => State::Suspecting { ticks },
                    None => later(u64::MAX),
                }
            }
            State::Watching { .. } => self.state,
            State::Suspecting { ticks } => {
                let idle = (seen.core_ticks)().map_or(0, |now| now.idle_cores_since(&ticks));
                self.idle_cores = idle;
                match is_busy && idle > 0 {
                    true => State::Starting { rate_before: rate },
                    false => later(PAUSE_NS),
                }
            }
            State::Starting { rate_before } => State::Trying { rate_before },
            State::Trying { rate_before } if rate >= GAIN * rate_before => {
                self.pause_ns = PAUSE_NS;
                State::Keeping {
                    until_ns: now_ns + KEEP_NS,
                }
            }
            State::Trying { .. } => {
                let pause_ns = self.pause_ns;
                self.pause_ns = (2 * pause_ns).min(PAUSE_NS_MAX);
                later(pause_ns)
            }
            State::Keeping { until_ns } if now_ns < until_ns => self.state,
            State::Keeping { .. } => later(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A submitter that submits one batch per millisecond.
    struct Flight {
        controller: Controller,
        now_ns: u64,
        cpu_ns: u64,
        requests: u64,
    }

    impl Flight {
        fn new() -> Self {
            Flight {
                controller: Controller::new(),
                now_ns: 0,
                cpu_ns: 0,
                requests: 0,
            }
        }

        /// Runs for this time, busy for `busy_percent` of it, completing `alone` or `served`
        /// requests per millisecond while `idle` of four cores are idle. Returns the number of
        /// milliseconds in which it was served.
        fn fly(&mut self, millis: u64, busy_percent: u64, rates: (u64, u64), idle: u64) -> u64 {
            let mut is_served = false;
            let mut served = 0;
            let reads = Cell::new(0);
            for _ in 0..millis {
                self.now_ns += 1_000_000;
                self.cpu_ns += 10_000 * busy_percent;
                self.requests += if is_served { rates.1 } else { rates.0 };
                let (cpu_ns, now_ns) = (self.cpu_ns, self.now_ns);
                is_served = self.controller.is_worth_it(&Instruments {
                    now_ns,
                    requests: self.requests,
                    thread_cpu_ns: &|| Some(cpu_ns),
                    core_ticks: &|| {
                        reads.set(reads.get() + 1);
                        Some(CoreTicks {
                            idle: now_ns / 10_000_000 * idle,
                            all: now_ns / 10_000_000 * 4,
                            cores: 4,
                        })
                    },
                });
                served += u64::from(is_served);
            }
            assert!(reads.get() <= 2 * (1 + millis / 1000), "rarely");
            served
        }
    }

    #[test]
    fn a_busy_submitter_beside_idle_cores_keeps_servers_that_bring_something() {
        let mut flight = Flight::new();
        let served = flight.fly(5000, 98, (100, 140), 2);
        assert!(served > 4500, "{served} of 5000 ms");
        assert_eq!(flight.controller.idle_cores(), 2);
    }

    #[test]
    fn servers_that_bring_nothing_are_tried_ever_less() {
        let mut flight = Flight::new();
        let (early, late) = (
            flight.fly(10_000, 98, (100, 80), 2),
            flight.fly(30_000, 98, (100, 80), 2),
        );
        assert!((400..1000).contains(&early), "{early} of 10000 ms");
        assert!(late < 700, "{late} of 30000 ms");
    }

    #[test]
    fn no_servers_where_the_thread_waits_or_no_core_idles() {
        assert_eq!(Flight::new().fly(5000, 60, (100, 200), 3), 0);
        assert_eq!(Flight::new().fly(5000, 98, (100, 200), 0), 0);
        let mut controller = Controller::new();
        for now_ns in (0..1000).map(|milli| milli * 1_000_000) {
            assert!(!controller.is_worth_it(&Instruments {
                now_ns,
                requests: now_ns,
                thread_cpu_ns: &|| None,
                core_ticks: &|| None,
            }));
        }
    }

    #[test]
    fn a_load_that_no_longer_keeps_the_thread_busy_loses_its_servers_at_the_next_look() {
        let mut flight = Flight::new();
        assert!(flight.fly(3000, 98, (100, 140), 2) > 2500);
        flight.fly(10_000, 50, (100, 140), 2);
        assert_eq!(flight.fly(3000, 50, (100, 140), 2), 0);
    }

    #[test]
    fn idle_cores_are_counted_from_the_systems_ticks() {
        let at = |idle, busy| {
            let text = format!("cpu {busy} 0 0 {idle} 0 0 0 0 7 7\ncpu0 1\ncpu1 1\nintr 5\n");
            CoreTicks::parse(&text).unwrap()
        };
        assert_eq!(at(150, 150).idle_cores_since(&at(100, 100)), 1);
        assert_eq!(at(120, 180).idle_cores_since(&at(100, 100)), 0);
        assert_eq!(CoreTicks::parse("nonsense"), None);
        assert!(CoreTicks::read().is_some_and(|ticks| ticks.cores > 0));
    }
}
