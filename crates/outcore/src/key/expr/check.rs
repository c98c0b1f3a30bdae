//! Operations without a result, and the rows in which a result is needed.
//!
//! Contract: integers have no result for a division by zero or for a negative power, and records
//! have no null for it. A [`Guard`](super::registers::Guard) is a condition of the row under which
//! a result is used. A missing result is not a fault if one of the operation's guards does not
//! hold.

use super::column::{Space, Step, with_type};
use super::registers::view;
use super::tree::Binary;
use crate::key::record::NumberType;

/// A row in which an operation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    /// The index of the row in the batch.
    pub(super) at: usize,
    /// The right operand.
    pub(super) operand: i64,
}

impl Step {
    /// Whether this is an integer operation that has no result for some operands.
    pub(super) fn may_fail(&self) -> bool {
        let Step::Arithmetic { operator, kind, .. } = self else {
            return false;
        };
        match operator {
            Binary::Power => kind.is_signed_integer(),
            Binary::FloorDivide | Binary::Modulo => !kind.is_float(),
            _ => false,
        }
    }

    /// The first fault among `n` values, in a row in which it matters.
    #[allow(clippy::unnecessary_cast, reason = "of one of the types it is none")]
    pub(super) fn fault(&self, space: &Space, n: usize) -> Option<Fault> {
        if !self.may_fail() {
            return None;
        }
        let Step::Arithmetic {
            operator,
            kind,
            b,
            guards,
            ..
        } = self
        else {
            return None;
        };
        let matters = |at: usize| {
            let mut guards = guards.iter();
            guards.all(|guard| {
                (view::<u8>(&space.registers[guard.register], n)[at] != 0) == guard.is_so
            })
        };
        with_type!(*kind, T => {
            let operands = view::<T>(&space.registers[*b], n);
            let zero = 0 as T;
            #[allow(unused_comparisons)]
            let is_wrong = |operand: T| match operator {
                Binary::Power => operand < zero,
                _ => operand == zero,
            };
            // Branch-free loop: almost always there is no fault.
            if !operands.iter().fold(false, |any, operand| any | is_wrong(*operand)) {
                return None;
            }
            let mut faults = operands.iter().enumerate().filter(|(_, operand)| is_wrong(**operand));
            let (at, operand) = faults.find(|(at, _)| matters(*at))?;
            Some(Fault { at, operand: *operand as i64 })
        })
    }
}
