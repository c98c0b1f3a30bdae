//! Reports of measurements and simulations, and the options that say where they are written.
//!
//! Contract: [`Report`] is plain data; a [`Saver`] writes it to files. See [`report`].

pub mod report;

pub use report::{Cell, Column, Fact, Headline, Report, ReportArgs, Saver, Section, Table, diff};
