//! Numbered slots for items in flight; the number travels as a token.
//!
//! Contract: a number identifies its value until the value is removed, and is reused afterwards. In
//! the steady state nothing is allocated.

/// Values by number.
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(value);
                index
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
