//! A queue that creates its ring or threads only when a request needs them.
//!
//! Contract: implements [`Queue`]. The submitting thread itself performs reads and writes of small
//! files, and reads of files in memory. Creating and closing a ring would take longer than a copy
//! to or from the page cache. At the first other request the submitting thread creates the queue of
//! the engine, which serves all requests from then on.

use std::time::Duration;

use super::open_files::{FileTable, OpenFile};
use super::psync::{PsyncQueue, transfer};
use super::uring::UringQueue;
use super::{Completion, Op, Queue, Request, Waker};
use crate::error::Result;
use crate::memory::Pool;

/// The system interface that moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// Blocking pread/pwrite in a few threads.
    Psync,
}

pub(super) struct LateQueue {
    files: FileTable,
    depth_max: usize,
    /// The required engine; if `None`, a ring if one can be created.
    engine: Option<Engine>,
    queue: Option<Box<dyn Queue>>,
    /// Completions of requests that were done without the engine's queue.
    done: Vec<Completion>,
    /// Pools whose buffers will be used repeatedly.
    kept: Vec<Pool>,
}

impl LateQueue {
    pub(super) fn new(files: FileTable, depth_max: usize, engine: Option<Engine>) -> Self {
        LateQueue {
            files,
            depth_max,
            engine,
            queue: None,
            done: Vec::new(),
            kept: Vec::new(),
        }
    }

    fn queue(&mut self) -> &mut dyn Queue {
        let (files, depth_max, engine) = (&self.files, self.depth_max, self.engine);
        let kept = &mut self.kept;
        let queue = self.queue.get_or_insert_with(|| {
            let ring = match engine {
                Some(Engine::Psync) => None,
                Some(Engine::Uring) | None => UringQueue::new(files.clone(), depth_max).ok(),
            };
            let mut queue: Box<dyn Queue> = match ring {
                Some(ring) => Box::new(ring),
                None => Box::new(PsyncQueue::new(files.clone(), depth_max)),
            };
            for pool in kept.drain(..) {
                queue.keep(&pool);
            }
            queue
        });
        &mut **queue
    }
}

impl Queue for LateQueue {
    fn submit(&mut self, request: Request) {
        let is_read = request.op == Op::Read;
        let is_at_once = |file: &OpenFile| file.is_small() || (is_read && file.is_in_memory());
        if self.queue.is_none()
            && let Ok(file) = self.files.get(request.file)
            && is_at_once(&file)
        {
            assert!(
                self.done.len() < self.depth_max,
                "no more than depth_max requests in flight"
            );
            self.done.push(transfer(request, &file));
            return;
        }
        self.queue().submit(request);
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let wait = wait.filter(|_| self.done.is_empty());
        done.append(&mut self.done);
        match &mut self.queue {
            Some(queue) => queue.complete(wait, done),
            None => Ok(()),
        }
    }

    fn in_flight(&self) -> usize {
        let in_queue = self.queue.as_ref().map_or(0, |queue| queue.in_flight());
        self.done.len() + in_queue
    }

    fn keep(&mut self, pool: &Pool) {
        match &mut self.queue {
            Some(queue) => queue.keep(pool),
            None => self.kept.push(pool.clone()),
        }
    }

    fn waker(&mut self) -> Option<Waker> {
        self.queue().waker()
    }
}
