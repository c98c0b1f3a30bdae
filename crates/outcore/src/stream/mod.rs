//! Streams over a volume: blocks in ([`source`]), bytes out at their final place ([`writer`]),
//! and random pieces for samples ([`sample`]).

pub mod sample;
pub mod source;
pub mod writer;
