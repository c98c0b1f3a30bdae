//! Asks, before and during long waits, whether the user wants to stop.
//!
//! Contract: a [`Stop`] asks the flag of a signal, or the control of the job. It never blocks. The
//! default never stops.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// See the module.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Stops once `is_asked` returns true.
    pub fn new(is_asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Stop(Some(Arc::new(is_asked)))
    }

    /// Fails with [`crate::Kind::Interrupted`] once a stop was requested.
    ///
    /// # Errors
    /// As above.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(is_asked) if is_asked() => Err(Error::interrupted()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}
