//! Items to read, grouped by drive.
//!
//! Contract: a [`ByDrive`] has one queue per drive, in the order of insertion, and selects the next
//! drive. This is the drive with the fewest requests of the calling port, in rotation among equals.
//! So all drives read at once, and a slow one delays only its own items.

use std::collections::VecDeque;

use outcore_io::port::Port;

/// Items to read, by drive.
#[derive(Debug)]
pub(crate) struct ByDrive<T> {
    drives: Vec<(usize, VecDeque<T>)>,
    next: usize,
}

impl<T> ByDrive<T> {
    /// Items, each with the index of its drive.
    pub(crate) fn of(things: impl IntoIterator<Item = (usize, T)>) -> Self {
        let mut drives: Vec<(usize, VecDeque<T>)> = Vec::new();
        for (drive_index, thing) in things {
            match drives.iter_mut().find(|(known, _)| *known == drive_index) {
                Some((_, queue)) => queue.push_back(thing),
                None => drives.push((drive_index, VecDeque::from([thing]))),
            }
        }
        ByDrive { drives, next: 0 }
    }

    /// Whether all items have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.drives.iter().all(|(_, queue)| queue.is_empty())
    }

    /// The queue of the next drive, from which the caller takes one item; `None` once all are
    /// empty.
    pub(crate) fn next(&mut self, port: &Port) -> Option<&mut VecDeque<T>> {
        let count = self.drives.len();
        let turns = (0..count).map(|step| (self.next + step) % count);
        let turn = turns
            .filter(|turn| !self.drives[*turn].1.is_empty())
            .min_by_key(|turn| port.backlog(self.drives[*turn].0))?;
        self.next = (turn + 1) % count;
        Some(&mut self.drives[turn].1)
    }
}
