//! Tests a drive's queue against a naive model: every entry goes out once, within the slots, merged
//! only with adjacent entries. A reader of the drive cannot distinguish the order from that of
//! arrival.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn policy(merge_bytes_max: usize) -> Policy {
    Policy {
        merge_bytes_max,
        segments_max: 128,
        reserved_slots: 1,
        sorts: true,
    }
}

fn span(op: Op, class: Class, block: u64, blocks: usize) -> Span {
    Span {
        op,
        class,
        file: FileId(0),
        offset_bytes: block * 4096,
        len_bytes: blocks * 4096,
    }
}

fn read(block: u64) -> Span {
    span(Op::Read, Class::Foreground, block, 1)
}

fn write(block: u64) -> Span {
    span(Op::Write, Class::Foreground, block, 1)
}

fn queue(tags: usize) -> DriveQueue<usize> {
    DriveQueue::new(policy(512 << 10), Arc::new(TagPool::new(tags)), None)
}

/// Every transfer that may start now.
fn start(queue: &mut DriveQueue<usize>) -> Vec<(Span, Vec<usize>)> {
    let mut started = Vec::new();
    let mut cargo = Vec::new();
    while let Some(span) = queue.poll(|one| cargo.push(one)) {
        started.push((span, std::mem::take(&mut cargo)));
    }
    started
}

#[test]
fn neighbours_are_merged_whoever_sent_them_and_in_whatever_order_they_came() {
    let mut queue = queue(8);
    for (index, block) in [7, 3, 5, 4, 1, 6].into_iter().enumerate() {
        queue.submit(read(block), index);
    }
    queue.submit(write(2), 6);
    let started = start(&mut queue);
    let seen: Vec<(u64, usize, Op)> = started
        .iter()
        .map(|(span, _)| (span.offset_bytes / 4096, span.len_bytes / 4096, span.op))
        .collect();
    assert_eq!(
        seen,
        [(1, 1, Op::Read), (2, 1, Op::Write), (3, 5, Op::Read)]
    );
    assert_eq!(started[2].1, [1, 3, 2, 5, 0]);
}

#[test]
fn a_merge_ends_at_its_cap_in_bytes_and_in_pieces() {
    for (merge_bytes_max, segments_max, wanted) in [
        (16 << 10, 128, vec![4, 4, 2]),
        (512 << 10, 3, vec![3, 3, 3, 1]),
        (0, 128, vec![1; 10]),
    ] {
        let policy = Policy {
            segments_max,
            ..policy(merge_bytes_max)
        };
        let mut queue = DriveQueue::new(policy, Arc::new(TagPool::new(32)), None);
        (0..10).for_each(|block| queue.submit(read(block), 0));
        let lens: Vec<usize> = start(&mut queue)
            .iter()
            .map(|(_, cargo)| cargo.len())
            .collect();
        assert_eq!(lens, wanted);
    }
}

#[test]
fn a_slot_is_taken_when_a_transfer_starts_and_not_before() {
    let tags = Arc::new(TagPool::new(2));
    let mut queue: DriveQueue<usize> = DriveQueue::new(policy(0), Arc::clone(&tags), None);
    for block in 0..5 {
        queue.submit(read(block * 2), 0);
    }
    assert_eq!((tags.taken(), queue.waiting()), (0, 5));
    let started = start(&mut queue);
    assert_eq!((tags.taken(), queue.waiting(), started.len()), (2, 3, 2));
    queue.finish(&started[0].0);
    assert_eq!(tags.taken(), 1);
    assert_eq!(start(&mut queue).len(), 1);
}

#[test]
fn a_controllers_slots_are_shared_and_a_refused_transfer_takes_none() {
    let group = Arc::new(TagPool::new(3));
    let own: Vec<_> = (0..2).map(|_| Arc::new(TagPool::new(2))).collect();
    let mut queues: Vec<DriveQueue<usize>> = own
        .iter()
        .map(|tags| DriveQueue::new(policy(0), Arc::clone(tags), Some(Arc::clone(&group))))
        .collect();
    for queue in &mut queues {
        (0..4).for_each(|block| queue.submit(read(block * 2), 0));
    }
    let first = start(&mut queues[0]);
    assert_eq!((first.len(), start(&mut queues[1]).len()), (2, 1));
    assert_eq!((group.taken(), own[0].taken(), own[1].taken()), (3, 2, 1));
    queues[0].finish(&first[0].0);
    assert_eq!(start(&mut queues[1]).len(), 1);
}

#[test]
fn a_read_finds_a_slot_where_background_writes_wait() {
    let mut queue = queue(4);
    for block in 0..10 {
        queue.submit(span(Op::Write, Class::Background, block * 2, 1), 0);
    }
    assert_eq!(start(&mut queue).len(), 3);
    queue.submit(read(100), 1);
    let started = start(&mut queue);
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].0.op, Op::Read);
}

#[test]
fn the_background_goes_even_if_the_foreground_never_ends() {
    let mut queue = queue(1);
    queue.submit(read(0), 0);
    queue.submit(span(Op::Write, Class::Background, 1000, 1), 1);
    let mut seen = 0;
    for block in 1..200 {
        queue.submit(read(block * 2), 0);
        let started = start(&mut queue);
        assert_eq!(started.len(), 1);
        seen += started[0].1[0];
        queue.finish(&started[0].0);
    }
    assert_eq!(seen, 1);
}

#[test]
fn what_goes_again_goes_next_and_alone() {
    let mut queue = queue(8);
    (0..4).for_each(|block| queue.submit(write(block), block as usize));
    let started = start(&mut queue);
    assert_eq!(started.len(), 1);
    queue.submit(write(1), 9);
    queue.finish(&started[0].0);
    for block in (0..4).rev() {
        queue.submit_alone(write(block), block as usize);
    }
    let again: Vec<Vec<usize>> = start(&mut queue)
        .into_iter()
        .map(|(_, cargo)| cargo)
        .collect();
    assert_eq!(again, [[0], [1], [2], [3]]);
    queue.finish(&write(1));
    assert_eq!(start(&mut queue)[0].1, [9]);
}

/// One step of a run.
#[derive(Debug, Clone)]
enum Step {
    Submit(Op, Class, u64, usize),
    Start,
    /// Ends the transfer at this place in the list.
    Finish(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    let class = prop_oneof![3 => Just(Class::Foreground), 1 => Just(Class::Background)];
    prop_oneof![
        4 => (op, class, 0u64..24, 1usize..5)
            .prop_map(|(op, class, block, blocks)| Step::Submit(op, class, block, blocks)),
        2 => Just(Step::Start),
        2 => any::<usize>().prop_map(Step::Finish),
    ]
}

/// The order of dependent entries: for each pair of entries that touch the same block, one of them
/// a write, the first is over before the second starts. Checked at every start against a list of
/// unfinished entries.
struct Model {
    spans: Vec<Span>,
    is_over: Vec<bool>,
    starts: HashMap<usize, usize>,
}

impl Model {
    fn check_start(&mut self, transfer: &Span, cargo: &[usize], merge_bytes_max: usize) {
        let mut at = transfer.offset_bytes;
        for number in cargo {
            let own = self.spans[*number];
            assert_eq!(
                (own.op, own.offset_bytes),
                (transfer.op, at),
                "side by side"
            );
            at = own.end();
            *self.starts.entry(*number).or_default() += 1;
            for earlier in 0..*number {
                let waits_for = self.spans[earlier].conflicts_with(&own);
                assert!(
                    !waits_for || self.is_over[earlier],
                    "{number} overtakes {earlier}"
                );
            }
        }
        assert_eq!(at, transfer.end());
        assert!(cargo.len() == 1 || transfer.len_bytes <= merge_bytes_max);
    }
}

proptest! {
    #[test]
    fn all_go_out_once_within_the_slots_and_none_overtakes_over_the_same_bytes(
        steps in proptest::collection::vec(any_step(), 1..120), tags in 1usize..6, blocks in 0usize..8,
        sorts: bool,
    ) {
        let pool = Arc::new(TagPool::new(tags));
        let policy = Policy { sorts, ..policy(blocks * 4096) };
        let mut queue: DriveQueue<usize> = DriveQueue::new(policy, Arc::clone(&pool), None);
        let mut model = Model { spans: Vec::new(), is_over: Vec::new(), starts: HashMap::new() };
        let mut flying: Vec<(Span, Vec<usize>)> = Vec::new();
        let end = (0..500).flat_map(|_| [Step::Start, Step::Finish(0)]);
        for step in steps.into_iter().chain(end) {
            match step {
                Step::Submit(op, class, block, blocks) => {
                    let span = span(op, class, block, blocks);
                    queue.submit(span, model.spans.len());
                    model.spans.push(span);
                    model.is_over.push(false);
                }
                Step::Start => {
                    for (transfer, cargo) in start(&mut queue) {
                        model.check_start(&transfer, &cargo, blocks * 4096);
                        flying.push((transfer, cargo));
                    }
                    prop_assert!(flying.len() <= tags);
                }
                Step::Finish(which) if !flying.is_empty() => {
                    let (transfer, cargo) = flying.swap_remove(which % flying.len());
                    queue.finish(&transfer);
                    cargo.into_iter().for_each(|number| model.is_over[number] = true);
                }
                Step::Finish(_) => {}
            }
            prop_assert_eq!(pool.taken(), flying.len());
        }
        prop_assert_eq!(queue.waiting(), 0);
        prop_assert!((0..model.spans.len()).all(|number| model.starts.get(&number) == Some(&1)));
    }
}
