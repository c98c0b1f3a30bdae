//! SIGINT, SIGTERM and SIGHUP: the first asks the job to stop and clean up, the second ends the
//! process.
//!
//! Contract: a handler only sets a flag. Jobs check it as often as they check whether they are
//! cancelled (see [`crate::progress`]). If the flag is set already, the handler ends the process at
//! once with 130; the next run then removes the leftovers. Where no handler can be installed, the
//! signals keep their usual effect. Signals that were ignored when the process started (`nohup`, a
//! shell's background jobs) stay ignored. SIGXFSZ does not end the process: the write that caused
//! it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outcore::{Error, Kind, Result};
use outcore_io::drive::paths;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Whether the user asked to stop. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers.
    pub(crate) fn install() -> Self {
        let interrupt = Interrupt::default();
        let second = i32::from(Kind::Interrupted.exit_code());
        let ignored = ignored_signals();
        let is_wanted = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_wanted) {
            // The order matters: the first handler to run must see the old value of the flag.
            let _ = flag::register_conditional_shutdown(signal, second, Arc::clone(&interrupt.0))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.0)));
        }
        interrupt
    }

    /// Whether a signal arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag that the handlers set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Fails with [`Kind::Interrupted`] once a signal arrived.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }
}

/// From now on, a write beyond the limit of file sizes (`ulimit -f`) fails with an error instead of
/// ending the process.
pub(crate) fn survive_file_limit() {
    // Nothing reads this flag.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Signals that were ignored when the process started, signal n as bit n - 1.
fn ignored_signals() -> u64 {
    let status = paths::system_text("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
