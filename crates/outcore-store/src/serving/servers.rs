//! Server threads: each serves some drives for all submitters of a volume.
//!
//! Contract: [`ServerThreads::start`] starts them once. They sleep while they have nothing to do.
//! The volume joins them when it ends. A [`Link`] is a submitter's connection: it hands over lists
//! of pieces, one per server and batch, and takes back finished pieces. Pieces of all submitters
//! wait in one sorted queue per drive, so adjacent pieces are merged, even those of different
//! submitters. A sleeping thread is woken at most once per batch: by a condition variable while it
//! has nothing in flight, otherwise by its queue's [`Waker`].
//!
//! Each drive has one server. Each NUMA node gets servers in proportion to the number of its
//! drives. If the machine has several nodes, a server whose drives are all in one node runs on that
//! node's processors.
//!
//! Failure: a failed transfer is an error of its pieces. If a server's queue itself fails, or its
//! thread panics, every [`Link::poll`] of the volume fails from then on, and memory in flight is
//! leaked rather than returned too early.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::service::{RequestPart, Returned, Service};
use crate::stripe::StripedDrive;
use outcore_io::drive::{Device, Waker};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::nodes;
use outcore_io::port::WAIT_MAX;
use outcore_io::threads::spawn;

/// Longest wait that no other thread can end: for slots of other threads, or in a queue without a
/// waker.
const DEAF_WAIT_MAX: Duration = Duration::from_millis(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a server waits, which determines how it is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// It does not wait, and checks its inbox before the next wait.
    Awake,
    /// It has nothing in flight.
    Idle,
    /// It waits for its transfers.
    InQueue,
}

/// Where submitters put work for a server.
struct Inbox {
    letters: Mutex<Letters>,
    came: Condvar,
}

struct Letters {
    pieces: Vec<RequestPart>,
    /// Clients that want back pieces that have not started.
    leaving: Vec<u32>,
    sleep: Sleep,
    is_stopping: bool,
}

impl Inbox {
    fn new() -> Self {
        Inbox {
            letters: Mutex::new(Letters {
                pieces: Vec::new(),
                leaving: Vec::new(),
                sleep: Sleep::Awake,
                is_stopping: false,
            }),
            came: Condvar::new(),
        }
    }

    /// Adds something, and ends the server's wait.
    fn put(&self, waker: Option<&Waker>, write: impl FnOnce(&mut Letters)) {
        let mut letters = lock(&self.letters);
        write(&mut letters);
        let sleep = std::mem::replace(&mut letters.sleep, Sleep::Awake);
        drop(letters);
        match sleep {
            Sleep::Awake => {}
            Sleep::Idle => self.came.notify_one(),
            Sleep::InQueue => waker.into_iter().for_each(Waker::wake),
        }
    }

    /// Takes everything that has arrived. Waits for at least one item only if the server `is_idle`;
    /// false at the end.
    fn take(&self, is_idle: bool, pieces: &mut Vec<RequestPart>, leaving: &mut Vec<u32>) -> bool {
        let mut letters = lock(&self.letters);
        let is_empty = |letters: &Letters| letters.pieces.is_empty() && letters.leaving.is_empty();
        while is_idle && is_empty(&letters) && !letters.is_stopping {
            letters.sleep = Sleep::Idle;
            letters = self
                .came
                .wait(letters)
                .unwrap_or_else(PoisonError::into_inner);
        }
        letters.sleep = match is_empty(&letters) {
            true => Sleep::InQueue,
            false => Sleep::Awake,
        };
        std::mem::swap(pieces, &mut letters.pieces);
        std::mem::swap(leaving, &mut letters.leaving);
        !letters.is_stopping
    }
}

/// Where a submitter finds its finished pieces.
#[derive(Default)]
struct Mailbox {
    mail: Mutex<Mail>,
    came: Condvar,
}

#[derive(Default)]
struct Mail {
    returned: Vec<Returned>,
    is_waited_for: bool,
}

impl Mailbox {
    fn put(&self, returned: impl Iterator<Item = Returned>) {
        let mut mail = lock(&self.mail);
        mail.returned.extend(returned);
        let is_waited_for = std::mem::take(&mut mail.is_waited_for);
        drop(mail);
        if is_waited_for {
            self.came.notify_one();
        }
    }

    fn take(&self, wait: Option<Duration>, returned: &mut Vec<Returned>) {
        let mut mail = lock(&self.mail);
        if let Some(limit) = wait
            && mail.returned.is_empty()
        {
            mail.is_waited_for = true;
            let came = self
                .came
                .wait_timeout_while(mail, limit, |mail| mail.is_waited_for);
            mail = came.unwrap_or_else(PoisonError::into_inner).0;
            mail.is_waited_for = false;
        }
        returned.append(&mut mail.returned);
    }
}

/// The submitters of a volume that have handed something over, by number; and the failure of the
/// servers, if any.
#[derive(Default)]
struct Clients {
    mailboxes: Mutex<HashMap<u32, Arc<Mailbox>>>,
    next: AtomicU32,
    /// The reason why the servers have ended.
    failure: Mutex<Option<(Kind, String)>>,
}

impl Clients {
    /// Delivers all pieces to their submitters and leaves `returned` empty.
    fn deliver(&self, returned: &mut Vec<Returned>) {
        while let Some(last) = returned.last() {
            let client = last.ticket.client;
            let others = |returned: &Returned| returned.ticket.client != client;
            let from = returned.iter().rposition(others).map_or(0, |at| at + 1);
            let mailbox = lock(&self.mailboxes).get(&client).cloned();
            match mailbox {
                Some(mailbox) => mailbox.put(returned.drain(from..)),
                // After a failure, a submitter can end without its memory.
                None => returned.truncate(from),
            }
        }
    }

    fn fail(&self, kind: Kind, why: String) {
        lock(&self.failure).get_or_insert((kind, why));
        for mailbox in lock(&self.mailboxes).values() {
            mailbox.put(std::iter::empty());
        }
    }
}

/// Informs the clients when a server's thread panics.
struct Obituary<'a>(&'a Clients);

impl Drop for Obituary<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Kind::Io, "a server thread panicked".to_owned());
        }
    }
}

struct Server {
    inbox: Arc<Inbox>,
    waker: Option<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// The threads, once they run.
pub(super) struct Running {
    servers: Vec<Server>,
    /// The server of each drive.
    server_of: Vec<usize>,
    clients: Arc<Clients>,
}

/// The drives that server threads serve, and how.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) device: &'a Arc<dyn Device>,
    pub(super) drives: &'a [StripedDrive],
    pub(super) is_merging: bool,
}

/// The server threads of a volume.
#[derive(Default)]
pub(crate) struct ServerThreads(Mutex<Option<Arc<Running>>>);

impl ServerThreads {
    /// Number of running threads.
    pub(crate) fn count(&self) -> usize {
        let running = lock(&self.0);
        running.as_ref().map_or(0, |running| running.servers.len())
    }

    /// The running threads; if there are none, starts `count` of them, at least one and at most one
    /// per drive.
    ///
    /// # Errors
    /// A thread or its queue cannot be made; then none runs.
    pub(super) fn start(&self, served: Served<'_>, count: usize) -> Result<Arc<Running>> {
        let drives = served.drives;
        let mut running = lock(&self.0);
        if let Some(running) = &*running {
            return Ok(Arc::clone(running));
        }
        let nodes: Vec<_> = drives.iter().map(|drive| drive.limits.numa_node).collect();
        let server_of = deal(&nodes, count.clamp(1, drives.len()));
        let mut started = Running {
            servers: Vec::new(),
            clients: Arc::default(),
            server_of,
        };
        for number in 0..=started.server_of.iter().copied().max().unwrap_or(0) {
            let own = |drive: usize| started.server_of[drive] == number;
            let own: Vec<usize> = (0..drives.len()).filter(|drive| own(*drive)).collect();
            let plan = Plan {
                device: Arc::clone(served.device),
                drives: drives.to_vec(),
                is_merging: served.is_merging,
                depth: own.iter().map(|drive| drives[*drive].tags.limit()).sum(),
                node: nodes[own[0]].filter(|node| own.iter().all(|d| nodes[*d] == Some(*node))),
            };
            let server = plan.start(number, Arc::clone(&started.clients))?;
            started.servers.push(server);
        }
        Ok(Arc::clone(running.insert(Arc::new(started))))
    }

    /// Ends the threads and waits for them; no piece may be in flight.
    pub(crate) fn stop(&self) {
        drop(lock(&self.0).take());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for server in &self.servers {
            let waker = server.waker.as_ref();
            server
                .inbox
                .put(waker, |letters| letters.is_stopping = true);
        }
        for thread in self.servers.iter_mut().filter_map(|s| s.thread.take()) {
            // Clients with pieces there have been informed of a panic.
            let _ = thread.join();
        }
    }
}

/// The data that a thread needs to become a server.
struct Plan {
    device: Arc<dyn Device>,
    drives: Vec<StripedDrive>,
    is_merging: bool,
    depth: usize,
    /// The node to run on.
    node: Option<usize>,
}

impl Plan {
    fn start(self, number: usize, clients: Arc<Clients>) -> Result<Server> {
        let inbox = Arc::new(Inbox::new());
        let (ready, is_ready) = sync_channel(1);
        let theirs = Arc::clone(&inbox);
        let name = format!("outcore-serve{number}");
        let thread = spawn(&name, move || self.run(&theirs, &clients, &ready))?;
        let gone = |_| Err(Error::new(Kind::Io, "start server thread", "it panicked"));
        let waker = is_ready.recv().unwrap_or_else(gone)?;
        Ok(Server {
            inbox,
            waker,
            thread: Some(thread),
        })
    }

    /// The thread.
    fn run(self, inbox: &Inbox, clients: &Clients, ready: &SyncSender<Result<Option<Waker>>>) {
        let _obituary = Obituary(clients);
        if let Some(node) = self.node {
            nodes::run_on(node);
        }
        let made = Service::new(self.device, &self.drives, self.is_merging, self.depth);
        let mut service = match made {
            Ok(service) => service,
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        let waker = service.waker();
        let can_be_woken = waker.is_some();
        ready.send(Ok(waker)).unwrap_or_default();
        if let Err(error) = serve(inbox, clients, &mut service, can_be_woken) {
            clients.fail(error.kind(), format!("a server thread: {error}"));
        }
    }
}

/// Serves until it is stopped.
fn serve(
    inbox: &Inbox,
    clients: &Clients,
    service: &mut Service,
    can_be_woken: bool,
) -> Result<()> {
    let (mut pieces, mut leaving, mut returned) = (Vec::new(), Vec::new(), Vec::new());
    while inbox.take(service.is_idle(), &mut pieces, &mut leaving) {
        let wait = match (pieces.is_empty() && leaving.is_empty(), can_be_woken) {
            (false, _) => None,
            (true, true) if service.is_flying() => Some(WAIT_MAX),
            (true, _) => Some(DEAF_WAIT_MAX),
        };
        pieces.drain(..).for_each(|piece| service.submit(piece));
        for client in leaving.drain(..) {
            service.withdraw(|ticket| ticket.client == client, &mut returned);
        }
        service.start_now();
        service.poll(wait, &mut returned)?;
        clients.deliver(&mut returned);
    }
    Ok(())
}

/// A submitter's connection to the servers.
pub(super) struct Link {
    running: Arc<Running>,
    client: u32,
    mailbox: Arc<Mailbox>,
    /// The next list for each server.
    lists: Vec<Vec<RequestPart>>,
    handed_over: u64,
}

impl Link {
    pub(super) fn new(running: Arc<Running>) -> Self {
        let client = running.clients.next.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::<Mailbox>::default();
        lock(&running.clients.mailboxes).insert(client, Arc::clone(&mailbox));
        Link {
            client,
            mailbox,
            lists: running.servers.iter().map(|_| Vec::new()).collect(),
            handed_over: 0,
            running,
        }
    }

    /// Adds a piece to the list of its drive's server.
    pub(super) fn add(&mut self, mut piece: RequestPart) {
        piece.ticket.client = self.client;
        self.lists[self.running.server_of[piece.drive_index]].push(piece);
    }

    /// Hands all lists over.
    pub(super) fn send(&mut self) {
        for (server, list) in self.running.servers.iter().zip(&mut self.lists) {
            if list.is_empty() {
                continue;
            }
            self.handed_over += list.len() as u64;
            server.inbox.put(server.waker.as_ref(), |letters| {
                if letters.pieces.is_empty() {
                    std::mem::swap(&mut letters.pieces, list);
                } else {
                    letters.pieces.append(list);
                }
            });
        }
    }

    /// Pieces passed on so far.
    pub(super) fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// Moves finished pieces to `returned`; with `wait`, blocks until there is one.
    ///
    /// # Errors
    /// A server is gone.
    pub(super) fn poll(&self, wait: Option<Duration>, returned: &mut Vec<Returned>) -> Result<()> {
        self.mailbox.take(wait, returned);
        if !returned.is_empty() {
            return Ok(());
        }
        match &*lock(&self.running.clients.failure) {
            Some((kind, why)) => Err(Error::new(*kind, "serve drives", why.clone())),
            None => Ok(()),
        }
    }

    /// Requests the pieces that have not started; they return with `ECANCELED`.
    pub(super) fn withdraw(&self) {
        for server in &self.running.servers {
            server.inbox.put(server.waker.as_ref(), |letters| {
                letters.leaving.push(self.client);
            });
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        lock(&self.running.clients.mailboxes).remove(&self.client);
    }
}

/// The server of each drive, from at most `servers`. Each node gets its share, at least one if
/// there are as many servers as nodes. Drives of one node are adjacent in the order.
fn deal(nodes: &[Option<usize>], servers: usize) -> Vec<usize> {
    let mut drives: Vec<usize> = (0..nodes.len()).collect();
    drives.sort_by_key(|drive| nodes[*drive]);
    let mut sets: Vec<&[usize]> = drives
        .chunk_by(|one, other| nodes[*one] == nodes[*other])
        .collect();
    if servers < sets.len() {
        sets = vec![&drives[..]];
    }
    let mut shares = vec![1; sets.len()];
    for _ in sets.len()..servers {
        // The next server goes to the node whose servers have the most drives each.
        let load = |set: &usize| sets[*set].len() * 1000 / shares[*set];
        let busiest = (0..sets.len()).rev().max_by_key(load).unwrap_or(0);
        shares[busiest] += 1;
    }
    let mut server_of = vec![0; nodes.len()];
    let mut first = 0;
    for (set, share) in sets.into_iter().zip(shares) {
        for (at, drive) in set.iter().enumerate() {
            server_of[*drive] = first + at * share / set.len();
        }
        first += share;
    }
    server_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_dealt_to_servers_by_node() {
        assert_eq!(deal(&[None; 4], 1), [0, 0, 0, 0]);
        assert_eq!(deal(&[None; 5], 2), [0, 0, 0, 1, 1]);
        assert_eq!(deal(&[None; 3], 3), [0, 1, 2]);
        let two = [1, 0, 0, 1, 0, 0].map(Some);
        assert_eq!(deal(&two, 1), [0; 6]);
        assert_eq!(deal(&two, 2), [1, 0, 0, 1, 0, 0]);
        assert_eq!(deal(&two, 3), [2, 0, 0, 2, 1, 1]);
        assert_eq!(deal(&two, 6), [4, 0, 1, 5, 2, 3]);
    }
}
