//! The parity of a dataset that is being written.
//!
//! Contract: any thread adds the bytes that it is about to write, each byte once, in any order.
//! [`ParityWriter::add`] returns the parity stripe of a group when all bytes of the group have been
//! added, and the caller writes it. When the data are complete, the last group, and groups for
//! which there was no memory, may still lack their parity. [`super::writer`] reads the data of
//! these groups back. So the parity is right for any order and any memory; only the cost differs.
//!
//! No crash leaves parity that disagrees with its data: data and parity are durable before the
//! commit that publishes the dataset, and neither changes afterwards.
//!
//! Bounds: [`POOL_BYTES`] of parity stripes, or four stripes if that is more, and two bits per
//! group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::striped::StripedVolume;
use outcore_io::error::Result;
use outcore_io::memory::{Budget, Buf, Pool, Reservation};

/// Memory for the parity of groups that are being written.
pub(super) const POOL_BYTES: usize = 16 << 20;
/// Smallest number of words of a set that is reserved at once.
const WORDS_STEP: usize = 1 << 10;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds `bytes` to a parity: XOR, in place.
pub(super) fn add_to(sum: &mut [u8], bytes: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= byte;
    }
}

/// The parity of a dataset that is being written. Threads share it.
pub(super) struct ParityWriter {
    striped: StripedVolume,
    pool: Pool,
    budget: Budget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, OpenGroup>,
    additions: u64,
    /// Groups whose parity has been handed out.
    done: NumberSet,
    /// Groups that found no memory.
    skipped: NumberSet,
    reservations: Vec<Reservation>,
}

/// A group that is being written.
struct OpenGroup {
    sum: Arc<Mutex<Sum>>,
    last_addition: u64,
}

struct Sum {
    /// The parity so far; `None` once it is complete.
    buf: Option<Buf>,
    /// Its first bytes that have been set; the others are undefined.
    set_bytes: usize,
    added_bytes: u64,
}

impl Sum {
    /// Adds bytes at an offset of the stripe. The first bytes in order are only copied.
    fn add(&mut self, buf: &mut [u8], at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if at == self.set_bytes {
            buf[at..end].copy_from_slice(bytes);
            self.set_bytes = end;
            return;
        }
        if end > self.set_bytes {
            buf[self.set_bytes..].fill(0);
            self.set_bytes = buf.len();
        }
        add_to(&mut buf[at..], bytes);
    }
}

/// The parity of a group, and its address.
pub(super) struct ParityStripe {
    pub(super) address_bytes: u64,
    pub(super) buf: Buf,
}

/// The result of adding bytes.
pub(super) struct Added {
    /// How many bytes were added: those of the first group.
    pub(super) len_bytes: usize,
    /// The parity of that group, if it is complete.
    pub(super) parity: Option<ParityStripe>,
}

impl ParityWriter {
    /// The parity of the dataset on `striped`; `None` if its layout has none.
    pub(super) fn of(striped: &StripedVolume, budget: &Budget) -> Result<Option<Self>> {
        let map = striped.map();
        if map.end_bytes() == map.len_bytes() {
            return Ok(None);
        }
        let stripe_bytes = map.stripe_bytes() as usize;
        let slots = (POOL_BYTES / stripe_bytes).max(4);
        Ok(Some(ParityWriter {
            striped: striped.clone(),
            pool: Pool::new(budget, "parity", stripe_bytes, slots)?,
            budget: budget.clone(),
            state: Mutex::default(),
        }))
    }

    /// Whether bytes at this address find memory. If not, a caller that waits until a parity stripe
    /// has been written avoids reading the group back.
    pub(super) fn has_room(&self, at_bytes: u64) -> bool {
        let group = self.group_at(at_bytes);
        self.pool.free_slots() > 0 || lock(&self.state).open.contains_key(&group)
    }

    /// Adds the first bytes of `bytes`, those of one group, which are written at `at_bytes`.
    ///
    /// # Errors
    /// No memory for two bits per group.
    pub(super) fn add(&self, at_bytes: u64, bytes: &[u8]) -> Result<Added> {
        let map = self.striped.map();
        let stripe_bytes = map.stripe_bytes();
        let number = self.group_at(at_bytes);
        let group = map.group(number);
        let left_bytes = group.stripes.end * stripe_bytes - at_bytes;
        let len_bytes = left_bytes.min(bytes.len() as u64) as usize;
        let mut added = Added {
            len_bytes,
            parity: None,
        };
        let Some(sum) = self.open(number)? else {
            return Ok(added);
        };
        let mut sum = lock(&sum);
        let Some(mut buf) = sum.buf.take() else {
            return Ok(added);
        };
        let mut inside = (at_bytes % stripe_bytes) as usize;
        let mut rest = &bytes[..len_bytes];
        while !rest.is_empty() {
            let (part, later) = rest.split_at(rest.len().min(buf.len() - inside));
            sum.add(&mut buf, inside, part);
            inside = 0;
            rest = later;
        }
        sum.added_bytes += len_bytes as u64;
        let group_bytes = (group.stripes.end - group.stripes.start) * stripe_bytes;
        if sum.added_bytes < group_bytes {
            sum.buf = Some(buf);
            return Ok(added);
        }
        let mut state = lock(&self.state);
        state.open.remove(&number);
        state.done.insert(number);
        added.parity = Some(ParityStripe {
            address_bytes: group.parity_stripe * stripe_bytes,
            buf,
        });
        Ok(added)
    }

    fn group_at(&self, at_bytes: u64) -> u64 {
        let map = self.striped.map();
        map.group_of(at_bytes / map.stripe_bytes())
    }

    /// The parity of a group so far; `None` if there is no memory for it, or was none before.
    fn open(&self, number: u64) -> Result<Option<Arc<Mutex<Sum>>>> {
        let state = &mut *lock(&self.state);
        state.make_room(number, &self.budget)?;
        state.additions += 1;
        if let Some(group) = state.open.get_mut(&number) {
            group.last_addition = state.additions;
            return Ok(Some(Arc::clone(&group.sum)));
        }
        if state.skipped.contains(number) {
            return Ok(None);
        }
        if self.pool.free_slots() == 0 {
            let oldest = state
                .open
                .iter()
                .min_by_key(|(_, group)| group.last_addition);
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                state.open.remove(&oldest);
                state.skipped.insert(oldest);
            }
        }
        let Some(buf) = self.pool.take() else {
            state.skipped.insert(number);
            return Ok(None);
        };
        let sum = Arc::new(Mutex::new(Sum {
            buf: Some(buf),
            set_bytes: 0,
            added_bytes: 0,
        }));
        let group = OpenGroup {
            sum: Arc::clone(&sum),
            last_addition: state.additions,
        };
        state.open.insert(number, group);
        Ok(Some(sum))
    }

    /// Forgets the groups that extend beyond `len_bytes`, because the bytes after it are written
    /// anew. Also forgets all groups that are not complete.
    pub(super) fn reopen_from(&self, len_bytes: u64) {
        let map = self.striped.map();
        let state = &mut *lock(&self.state);
        state.open.clear();
        let whole = match map.groups_in(len_bytes) {
            0 => 0,
            groups => {
                let end = map.group(groups - 1).stripes.end * map.stripe_bytes();
                groups - u64::from(end > len_bytes)
            }
        };
        state.done.truncate(whole);
        state.skipped.truncate(whole);
    }

    /// Whether the parity of a group has been handed out.
    pub(super) fn is_done(&self, number: u64) -> bool {
        lock(&self.state).done.contains(number)
    }
}

impl State {
    /// Reserves memory for the sets up to this number.
    fn make_room(&mut self, number: u64, budget: &Budget) -> Result<()> {
        let words = number as usize / 64 + 1;
        let len = self.done.words.len();
        if words > len {
            let more = (words - len).max(WORDS_STEP).max(len);
            let reservation = budget.reserve("parity", more as u64 * 16)?;
            self.reservations.push(reservation);
            self.done.words.resize(len + more, 0);
            self.skipped.words.resize(len + more, 0);
        }
        Ok(())
    }
}

/// A set of small numbers.
#[derive(Default)]
struct NumberSet {
    words: Vec<u64>,
}

impl NumberSet {
    fn contains(&self, number: u64) -> bool {
        let word = self.words.get(number as usize / 64).copied();
        word.unwrap_or(0) >> (number % 64) & 1 == 1
    }

    /// Adds a number for which there is room.
    fn insert(&mut self, number: u64) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Removes all numbers that are at least `end`.
    fn truncate(&mut self, end: u64) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let first = index as u64 * 64;
            let kept = end.saturating_sub(first).min(64);
            if kept < 64 {
                *word &= (1 << kept) - 1;
            }
        }
    }
}
