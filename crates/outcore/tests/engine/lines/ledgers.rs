//! Scaled-down sorts of lines draw only what their plans list.
//!
//! Contract: a reservation outside the ledger fails an assertion in the engine, so a correct result
//! shows that plan and run agree ([`outcore_io::memory::Ledger`]).

use outcore::key::sort_key::Tie;

use super::jobs::{LineJob, TestOrder};
use super::texts::{TEXTS, text};
use crate::support::is_long;

#[test]
fn every_text_is_sorted_within_its_ledger_whatever_the_memory_and_the_threads() {
    let memories_mib: &[u64] = match is_long() {
        true => &[0, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48],
        false => &[0, 7, 16],
    };
    let threads: &[usize] = if is_long() { &[1, 2, 3, 4, 8] } else { &[1, 3] };
    let orders = [
        TestOrder::Bytes { descending: false },
        TestOrder::Length {
            descending: true,
            tie: Tie::Position,
        },
        TestOrder::Length {
            descending: false,
            tie: Tie::Bytes,
        },
    ];
    let bytes = if is_long() { 3_000_000 } else { 400_000 };
    let mut turn = 0;
    for kind in TEXTS {
        for &memory_mib in memories_mib {
            for &threads in threads {
                turn += 1;
                let mut job = LineJob::of(orders[turn % orders.len()], text(kind, bytes, b'\n', 1));
                job.memory_bytes = memory_mib << 20;
                job.threads = threads;
                job.drives = 1 + turn % 2;
                job.to_pipe = turn.is_multiple_of(5);
                job.options.unique = turn.is_multiple_of(3);
                job.options.count = turn % 3 == 1;
                let summary = job.check();
                let plan = summary.plan.unwrap();
                assert!(plan.ledger().bytes() <= plan.size.memory_bytes, "{plan}");
            }
        }
    }
}
