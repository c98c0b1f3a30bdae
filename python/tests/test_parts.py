"""The batches of each rank and worker: equal counts, everything read, restarts in sequence."""

from __future__ import annotations

import itertools

import pytest

import outcore
from outcore._parts import Part, resumed

CASES = [
    (records, batch, world, drop_last)
    for records in (0, 1, 2, 5, 7, 8, 9, 100, 1201)
    for batch in (1, 3, 8, 600)
    for world in (1, 2, 3, 8)
    for drop_last in (False, True)
]


def places_of(part: Part, workers: int) -> list[list[int]]:
    """The positions of each batch of a loader, which asks its workers alternately."""
    shares = [list(part.share(worker, workers)) for worker in range(workers)]
    turns = itertools.zip_longest(*shares)
    return [
        list(range(*part.places(range(batch, batch + 1))))
        for turn in turns
        for batch in turn
        if batch is not None
    ]


@pytest.mark.parametrize("records, batch, world, drop_last", CASES)
def test_all_ranks_have_equally_many_batches_and_together_everything(
    records: int, batch: int, world: int, drop_last: bool
) -> None:
    parts = [Part(records, batch, rank, world, drop_last) for rank in range(world)]
    for workers in (1, 2, 3, 5):
        given = [places_of(part, workers) for part in parts]
        sizes = [[len(places) for places in batches] for batches in given]
        assert all(one == sizes[0] for one in sizes), "sizes differ between ranks"
        assert all(len(batches) == part.batches for batches, part in zip(given, parts))
        seen = [place for batches in given for places in batches for place in places]
        if drop_last:
            assert all(size == batch for size in sizes[0])
            assert len(set(seen)) == len(seen) <= records
            assert max(seen, default=-1) < records
            assert records - len(seen) < world * batch + world
        else:
            assert {place % max(records, 1) for place in seen} == set(range(records))
            assert len(seen) - records in range(world), "no more than one record a rank is repeated"


def test_two_ranks_of_1201_records_wait_for_each_other_as_often() -> None:
    ranks = [Part(1201, 600, rank, 2, False) for rank in range(2)]
    assert [part.batches for part in ranks] == [2, 2]
    assert [part.places(range(part.batches)) for part in ranks] == [(0, 601), (601, 1202)]


def test_a_restart_goes_on_in_the_same_sequence() -> None:
    for batches, workers in itertools.product((0, 1, 5, 12, 13), (1, 2, 3, 5)):
        part = Part(batches * 10, 10, 0, 1, False)
        shares = [list(part.share(worker, workers)) for worker in range(workers)]
        sequence = [shares[number % workers][number // workers] for number in range(batches)]
        assert sorted(sequence) == list(range(batches))
        for taken in range(batches + 1):
            left = []
            for worker in range(workers):
                share, given = resumed(taken, worker, workers)
                left.append(shares[share][given:])
            rest = [
                batch
                for turn in itertools.zip_longest(*left)
                for batch in turn
                if batch is not None
            ]
            assert rest == sequence[taken:], (batches, workers, taken)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(outcore.UsageError, match="batches of 0 records"):
        Part(10, 0, 0, 1, False)
    with pytest.raises(outcore.UsageError, match="rank 2 of 2"):
        Part(10, 1, 2, 2, False)
