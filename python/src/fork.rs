//! Values that must not be touched after a fork.
//!
//! Contract: a forked child has the memory of its parent, but not the parent's threads; locks stay
//! as they were, and threads cannot be joined. A [`Here`] returns its value only in the process
//! that made it. In a child, using the value is an error with a hint, and dropping it leaks it.

use outcore::{Error, Result};

/// A value that works in one process.
#[derive(Debug)]
pub(crate) struct Here<T> {
    process_id: u32,
    held: Option<T>,
}

impl<T> Here<T> {
    /// A value that works in this process.
    pub(crate) fn new(held: T) -> Self {
        Here {
            process_id: std::process::id(),
            held: Some(held),
        }
    }

    fn is_here(&self) -> bool {
        self.process_id == std::process::id()
    }

    /// The held value. In a child, the error names it as `what` and gives `again` as its hint.
    pub(crate) fn get(&self, what: &str, again: &str) -> Result<&T> {
        match &self.held {
            Some(held) if self.is_here() => Ok(held),
            _ => {
                let cause = format!(
                    "{what} was made by process {} before a fork and does not work in its children",
                    self.process_id
                );
                Err(Error::usage("read after fork", cause).hint(again))
            }
        }
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        let held = self.held.take();
        if !self.is_here() {
            std::mem::forget(held);
        }
    }
}
