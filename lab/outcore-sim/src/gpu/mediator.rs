//! The path of requests through the host: threads that handle them, and copies of their data.
//!
//! Model: the thread that is free first handles the next request; copies in one direction follow
//! each other. Contract: times are reserved in the order of the calls. Bounds: 8 bytes per thread.

use super::Path;
use crate::quantities::{Ps, SECOND};

/// Which way data is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToHost,
    ToGpu,
}

/// Reservations of host threads and copies.
#[derive(Debug)]
pub(super) struct Mediator {
    path: Path,
    cpu_free: Vec<Ps>,
    to_host_free: Ps,
    to_gpu_free: Ps,
}

impl Mediator {
    pub(super) fn new(path: Path) -> Self {
        let cpus = match path {
            Path::InStorage => 0,
            Path::Mediated { cpus, .. } => cpus as usize,
        };
        Mediator {
            path,
            cpu_free: vec![0; cpus],
            to_host_free: 0,
            to_gpu_free: 0,
        }
    }

    /// Whether requests go through the host.
    pub(super) const fn is_used(&self) -> bool {
        matches!(self.path, Path::Mediated { .. })
    }

    /// The end time of the software of a request that may start at `ready`.
    pub(super) fn handled_at(&mut self, ready: Ps) -> Ps {
        let Path::Mediated { cpu_ps, .. } = self.path else {
            return ready;
        };
        match self.cpu_free.iter_mut().min() {
            Some(free) => {
                *free = ready.max(*free) + cpu_ps;
                *free
            }
            None => ready,
        }
    }

    /// The end time of a copy of `sectors` that may start at `from`.
    pub(super) fn copied_at(&mut self, from: Ps, sectors: u32, direction: Direction) -> Ps {
        let Path::Mediated {
            copy_ps,
            copy_bytes_per_s,
            ..
        } = self.path
        else {
            return from;
        };
        let bytes = u128::from(sectors) * 512;
        let moving = (bytes * u128::from(SECOND) / u128::from(copy_bytes_per_s)) as Ps;
        let free = match direction {
            Direction::ToHost => &mut self.to_host_free,
            Direction::ToGpu => &mut self.to_gpu_free,
        };
        *free = from.max(*free) + moving;
        *free + copy_ps
    }
}
