//! Text: what a line is to its user, and how it is ordered.
//!
//! Contract: from what users write (options of GNU sort, a column of CSV, a field of JSON) to a
//! [`LineOrder`](outcore::data::LineOrder), the one thing that the engine knows of text. Keys are
//! strings of bytes whose order is that of the lines; none is a prefix of another unless it ends
//! the whole key, so that several can stand one behind the other.
//!
//! | file | does |
//! |---|---|
//! | [`gnu`] | `sort(1)` of GNU coreutils, in the C locale |
//! | [`keys`] | what keys are made of: escaped strings, decimal numbers, complements |

pub mod gnu;
pub mod keys;
