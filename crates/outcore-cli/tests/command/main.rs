//! The command as its users see it: a process with arguments, files, pipes and signals.
//!
//! Contract: every test runs the built binary in a directory of its own, without settings of the
//! user, and checks exit code, streams and files. One binary holds all of them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod checksum;
mod comm;
mod conformance;
mod content;
mod devices;
mod errors;
mod expressions;
mod fastq;
mod faults;
mod first_tries;
mod full_stdout;
mod generate;

mod gnu;
mod grammar;
mod graphs;
mod group;
mod headers;
mod json;
mod kill_walks;
mod kills;
mod lab;
mod lines;
mod lookups;
#[allow(dead_code, reason = "the tests of `outcore-lab` need more of it")]
mod loops;
mod memory_grid;
mod messy_csv;
mod messy_json;
mod npy;
mod odd_text;
mod options;
mod other;
mod places;
mod plans;
mod recording;
mod replaced;
mod resumes;
mod routes;
mod rows;
mod safety;
mod sample_tables;
mod sequence;
mod sets;
mod shards;
mod signals;
mod sort;
mod split;
mod stdout;
mod streams;
mod support;
mod table_answers;
mod table_errors;
mod table_keys;
mod table_pipes;
mod tables;
mod tail;
mod threads;
mod traffic;
mod unique;
mod vectors;
mod verify;
mod verify_output;
mod view;
mod view_csv;
mod view_lines;
mod view_tables;
mod volume;
mod volume_campaign;
mod volume_damage;
mod volume_drives;
mod volume_parity;
mod volume_tables;
mod what;

/// The command under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_outcore");
