//! A limit on the time that a test may hang: no test waits forever.
//!
//! Contract: aborts the process with the test's name when the time is over; costs one thread per
//! test.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends the process with a message about what hung, unless it is dropped in time.
pub struct Watchdog {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the scope of this value: `limit` is generous, for machines under load.
    pub fn new(what: impl Into<String>, limit: Duration) -> Self {
        let what = what.into();
        let (alive, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("WATCHDOG: hung for {limit:?}: {what}");
                std::process::abort();
            }
        });
        Watchdog {
            alive: Some(alive),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
