//! Text: what a line is to its user, and how it is ordered.
//!
//! Contract: from what users write (options of GNU sort, a column of CSV, a field of JSON) to a
//! [`SortKey`](outcore::key::SortKey), the one thing that the engine knows of text. What
//! keys are made of stands in [`outcore::key::encode`].
//!
//! | file | does |
//! |---|---|
//! | [`compress`] | gzip and Zstandard, by the ends of names |
//! | [`csv`] | columns of CSV |
//! | [`csv_files`] | files of CSV as the engine can take them |
//! | [`gnu`] | `sort(1)` of GNU coreutils, in the C locale |
//! | [`json`] | fields of JSON |
//! | [`output`] | lines into what the engine does not write itself: compressed files, headers |
//! | [`order`] | an order of lines as text, for a file to hold |
//! | [`reader`] | lines or records as they come, compressed ones too |
//! | [`sample`] | some of them at random |

pub(crate) mod compress;
pub mod csv;
pub mod csv_files;
pub mod gnu;
pub mod json;
pub mod order;
pub mod output;
pub mod reader;
pub mod sample;
