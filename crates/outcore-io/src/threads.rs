//! Creates threads; a thread that cannot be created is an error.
//!
//! Contract: [`spawn`] and [`spawn_scoped`] start a thread with a name that tools show. The system
//! may refuse a thread because of a limit on processes or because it has no memory for the stack.
//! The error then names the thread and the number of threads, and says what to try next. Nothing
//! panics. A caller that can work with fewer threads continues without that thread.

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};

/// Items that [`each`] works on at once: more parallel syncs of one drive gain nothing.
const EACH_MAX: usize = 64;
/// What to try if the system refuses a thread.
const HINT: &str = "use fewer --threads, or raise the limit on processes (ulimit -u, or pids.max of \
                    the control group)";

/// The error for a thread that the system refuses.
pub fn refused(name: &str, error: &io::Error) -> Error {
    let mut said = Error::io(format!("start thread {name}"), error);
    if said.next_step().is_none() || error.kind() == io::ErrorKind::WouldBlock {
        said = said.hint(HINT);
    }
    said
}

/// Starts a thread.
///
/// # Errors
/// The system refuses the thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let thread = Builder::new().name(name.to_string()).spawn(work);
    thread.map_err(|error| refused(name, &error))
}

/// Starts a thread that may borrow from around `scope`. If the start fails, the threads that were
/// started before keep running. Their scope waits for them, so the caller must stop them.
///
/// # Errors
/// The system refuses the thread.
pub fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let thread = Builder::new()
        .name(name.to_string())
        .spawn_scoped(scope, work);
    thread.map_err(|error| refused(name, &error))
}

/// Runs `work` in `count` threads at once, each with its number, and waits for all. `work` runs
/// only if all threads could be created, so the threads may wait for each other.
///
/// # Errors
/// The system refuses a thread.
pub fn together<T: Send>(
    name: &str,
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<Result<T>>> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(count);
        let mut starts = Vec::with_capacity(count);
        for number in 0..count {
            let (start, started) = channel::<()>();
            let run = move || match started.recv() {
                Ok(()) => work(number),
                // The system refused a later thread.
                Err(_) => Err(Error::interrupted()),
            };
            let name = format!("{name} {} of {count}", number + 1);
            running.push(spawn_scoped(scope, &name, run)?);
            starts.push(start);
        }
        for start in starts {
            // A thread that does not receive has panicked, which is reported below.
            let _ = start.send(());
        }
        let panicked = |panic| Err(Error::panicked(name, panic));
        let joined = running.into_iter();
        Ok(joined
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect())
    })
}

/// Calls `work` for all of `items`, up to [`EACH_MAX`] at once, or fewer if the system refuses
/// threads. All calls are done on return.
///
/// # Errors
/// The error of the first item whose `work` fails.
///
/// # Panics
/// If `work` panics.
pub fn each<T: Sync>(
    name: &str,
    items: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    if let [only] = items {
        return work(only);
    }
    let next = AtomicUsize::new(0);
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else {
                return;
            };
            if let Err(error) = work(item) {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                let is_first = failure.as_ref().is_none_or(|(known, _)| number < *known);
                if is_first {
                    *failure = Some((number, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let others = 1..items.len().min(EACH_MAX);
        let started = others.map_while(|_| spawn_scoped(scope, name, run).ok());
        let started: Vec<_> = started.collect();
        run();
        for thread in started {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let failure = failure.into_inner();
    let failure = failure.unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_refused_is_named_with_what_to_try() {
        let text = refused("outcore-2 of 8", &io::Error::from_raw_os_error(11)).to_string();
        let wanted = "start thread outcore-2 of 8: Resource temporarily unavailable";
        assert!(text.starts_with(wanted), "{text}");
        assert!(
            text.contains("--threads") && text.contains("pids.max"),
            "{text}"
        );
    }

    #[test]
    fn each_item_is_done_and_the_first_failure_told() {
        let done = std::sync::atomic::AtomicU32::new(0);
        let count = |item: &u32| {
            done.fetch_add(1 << item, std::sync::atomic::Ordering::Relaxed);
            match item {
                0 | 3 => Ok(()),
                item => Err(Error::usage("test", item.to_string())),
            }
        };
        assert_eq!(each("t", &[0, 1, 2, 3], count).unwrap_err().cause(), "1");
        assert_eq!(done.into_inner(), 15);
        assert!(each("t", &[0_u32], |_| Ok(())).is_ok());
        assert!(each("t", &[], |_: &u32| Ok(())).is_ok());
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let many: Vec<usize> = (0..10 * EACH_MAX).collect();
        let failed = each("t", &many, |item| {
            most.fetch_max(
                running.fetch_add(1, Ordering::Relaxed) + 1,
                Ordering::Relaxed,
            );
            std::thread::yield_now();
            running.fetch_sub(1, Ordering::Relaxed);
            match item {
                0..100 => Ok(()),
                item => Err(Error::usage("test", item.to_string())),
            }
        });
        assert_eq!(failed.unwrap_err().cause(), "100");
        assert!((1..=EACH_MAX).contains(&most.into_inner()));
    }

    #[test]
    fn threads_have_names_and_give_what_they_come_to() {
        let name = || std::thread::current().name().map(str::to_string);
        let alone = spawn("alone", name).map(JoinHandle::join);
        assert_eq!(alone.unwrap().unwrap().as_deref(), Some("alone"));
        let scoped = std::thread::scope(|scope| {
            spawn_scoped(scope, "scoped", name).map(ScopedJoinHandle::join)
        });
        assert_eq!(scoped.unwrap().unwrap().as_deref(), Some("scoped"));
    }
}
