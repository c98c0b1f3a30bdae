//! Decides who serves the drives: the submitting thread, or server threads if they help.
//!
//! Contract: a [`Route`] takes pieces of one submitter's requests and returns each once, from
//! [`Route::poll`] of the same submitter, no matter which thread served it. The rules:
//! - Up to the volume's low mark (requests in flight and in the batch, before splitting) the
//!   submitter serves through its own ring, and no thread is woken. Above it, server threads serve
//!   if [`Servers`] says so; with `Auto`, only while the submitter is the bottleneck and cores are
//!   idle (`controller`).
//! - A submitter's pieces are either all with its own thread or all with servers. Before this
//!   changes, new pieces are held back until everything in flight has returned. Thus, if two
//!   requests touch the same bytes and one of them is a write, the first completes before the
//!   second starts.
//! - Only a server, which always collects completions, starts a transfer with pieces of several
//!   submitters. If a submitter carried a piece for another, it would wait for a thread that may be
//!   busy with other work.
//! - Threads start with their first piece, sleep when there is nothing to do, and end with the
//!   volume. A submitter that is dropped takes back pieces that have not started, and waits for the
//!   others.
//!
//! `service` is the work itself, on either side; `servers` are the threads and their mailboxes;
//! `shared` is what all submitters of a volume have in common. Model: Falcon (Kumar and Huang, ATC
//! 2017, section 3.3). Decision: docs/decisions/0010.

mod controller;
mod servers;
mod service;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use controller::{Controller, CoreTicks, Instruments};
use servers::{Link, Served};
use service::Service;

use crate::stripe::{Servers, StripedDrive, with_own_slots};
use outcore_io::error::Result;
use outcore_io::memory::Pool;

pub(super) use servers::ServerThreads;
pub(super) use service::{RequestPart, Returned, Ticket};
pub(crate) use shared::Shared;

/// Largest number of server threads that `Auto` starts: passing a request on takes a submitter
/// about an eighth of the time of serving it.
const AUTO_SERVERS_MAX: usize = 8;

/// See the head of this file.
pub(super) struct Route {
    // Declared first, so dropped first: it waits for the transfers in flight.
    own: Service,
    link: Option<Link>,
    shared: Arc<Shared>,
    controller: Controller,
    servers: Servers,
    low_mark: usize,
    /// Which side holds the requests in flight, and which one will get new ones.
    is_served: bool,
    is_to_be_served: bool,
    /// Pieces held back while the side in use is not the chosen side.
    held: Vec<RequestPart>,
    pieces_out: usize,
}

impl Route {
    pub(super) fn new(shared: Arc<Shared>, low_mark: usize) -> Result<Self> {
        let own = Self::service(&shared, &shared.drives)?;
        let servers = shared.options.servers;
        Ok(Self::of(shared, own, servers, low_mark))
    }

    /// A route with slots of its own, which the submitter serves.
    pub(super) fn apart(shared: Arc<Shared>) -> Result<Self> {
        let own = Self::service(&shared, &with_own_slots(&shared.drives))?;
        Ok(Self::of(shared, own, Servers::Never, usize::MAX))
    }

    fn service(shared: &Shared, drives: &[StripedDrive]) -> Result<Service> {
        let depth = drives.iter().map(|drive| drive.tags.limit()).sum();
        let device = Arc::clone(&shared.device);
        Service::new(device, drives, shared.options.is_merging, depth)
    }

    fn of(shared: Arc<Shared>, own: Service, servers: Servers, low_mark: usize) -> Self {
        Route {
            own,
            link: None,
            controller: Controller::new(),
            servers,
            shared,
            low_mark,
            is_served: false,
            is_to_be_served: false,
            held: Vec::new(),
            pieces_out: 0,
        }
    }

    /// Lets the submitter's own ring keep the pool. A server's ring would keep it as long as the
    /// volume lives.
    pub(super) fn keep(&mut self, pool: &Pool) {
        self.own.keep(pool);
    }

    /// Chooses the side that serves a batch. With the batch, `requests` are in flight;
    /// `requests_done` have completed so far.
    pub(super) fn choose(&mut self, requests: usize, requests_done: u64, now_ns: u64) {
        self.is_to_be_served = requests > self.low_mark
            && match self.servers {
                Servers::Never => false,
                Servers::Always(_) => true,
                Servers::Auto => self.controller.is_worth_it(&Instruments {
                    now_ns,
                    requests: requests_done,
                    thread_cpu_ns: &|| self.shared.device.thread_cpu_ns(),
                    core_ticks: &CoreTicks::read,
                }),
            }
            && self.is_connected();
        self.turn();
    }

    /// Takes a piece, which the next [`Route::send`] sends.
    pub(super) fn submit(&mut self, piece: RequestPart) {
        if self.is_served != self.is_to_be_served {
            self.held.push(piece);
            return;
        }
        self.pieces_out += 1;
        match &mut self.link {
            Some(link) if self.is_served => link.add(piece),
            _ => self.own.submit(piece),
        }
    }

    /// Starts the submitted pieces, or hands them over in one list per server.
    pub(super) fn send(&mut self) {
        match &mut self.link {
            Some(link) if self.is_served => link.send(),
            _ => self.own.start_now(),
        }
    }

    /// Moves finished pieces to `returned` and starts those that have waited for them. With `wait`,
    /// blocks until a piece is finished or the time is over; returns at once if nothing is in
    /// flight.
    ///
    /// # Errors
    /// The queue of the submitter or of a server failed; faults of transfers belong to their
    /// pieces.
    pub(super) fn poll(
        &mut self,
        wait: Option<Duration>,
        returned: &mut Vec<Returned>,
    ) -> Result<()> {
        let before = returned.len();
        let polled = match &mut self.link {
            Some(link) if self.is_served => {
                link.poll(wait.filter(|_| self.pieces_out > 0), returned)
            }
            _ => self.own.poll(wait, returned),
        };
        self.pieces_out -= returned.len() - before;
        if self.pieces_out == 0 && self.is_served != self.is_to_be_served {
            self.turn();
            self.send();
        }
        polled
    }

    /// Takes back pieces that have not started, and waits for the others.
    ///
    /// # Errors
    /// The errors of [`Route::poll`]; some pieces are then still out.
    pub(super) fn withdraw(&mut self, returned: &mut Vec<Returned>) -> Result<Vec<RequestPart>> {
        while self.pieces_out > 0 {
            let before = returned.len();
            match &mut self.link {
                Some(link) if self.is_served => link.withdraw(),
                _ => self.own.withdraw(|_| true, returned),
            }
            self.pieces_out -= returned.len() - before;
            self.is_to_be_served = self.is_served;
            self.poll(Some(outcore_io::port::WAIT_MAX), returned)?;
        }
        Ok(std::mem::take(&mut self.held))
    }

    /// Pieces that have been passed to servers so far.
    pub(super) fn handed_over(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::handed_over)
    }

    /// Lets the chosen side serve once the other has nothing left.
    fn turn(&mut self) {
        if self.pieces_out == 0 {
            self.is_served = self.is_to_be_served;
        }
        if self.is_served == self.is_to_be_served {
            for piece in std::mem::take(&mut self.held) {
                self.submit(piece);
            }
        }
    }

    /// Whether there are servers to hand pieces to; starts them if necessary.
    fn is_connected(&mut self) -> bool {
        if self.link.is_some() {
            return true;
        }
        let count = match self.servers {
            Servers::Never => return false,
            Servers::Auto => self.controller.idle_cores().min(AUTO_SERVERS_MAX),
            Servers::Always(count) => count,
        };
        let served = Served {
            device: &self.shared.device,
            drives: &self.shared.drives,
            is_merging: self.shared.options.is_merging,
        };
        match self.shared.servers.start(served, count) {
            Ok(running) => self.link = Some(Link::new(running)),
            // It continues without them: threads only add speed.
            Err(_) => {
                self.servers = Servers::Never;
                return false;
            }
        }
        true
    }
}
