//! Registers of an expression: words viewed as numbers of any type, and loops over them.
//!
//! Contract: no allocation and no branch in the loops, so that the compiler can vectorise them.

/// A register of truth values, and the value for which a result matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    pub(super) register: usize,
    pub(super) is_so: bool,
}

pub(super) fn view<T: bytemuck::Pod>(register: &[u64], count: usize) -> &[T] {
    &bytemuck::cast_slice(register)[..count]
}

pub(super) fn view_mut<T: bytemuck::Pod>(register: &mut [u64], count: usize) -> &mut [T] {
    &mut bytemuck::cast_slice_mut(register)[..count]
}

pub(super) fn map1<A: Copy, T>(to: &mut [T], a: &[A], f: impl Fn(A) -> T) {
    for (to, a) in to.iter_mut().zip(a) {
        *to = f(*a);
    }
}

pub(super) fn map2<A: Copy, B: Copy, T>(to: &mut [T], a: &[A], b: &[B], f: impl Fn(A, B) -> T) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = f(*a, *b);
    }
}
