"""The batches of a shuffled order that each process and each of its workers reads.

Every rank has the same number of records and of batches, so that processes that wait for each other
after each batch never wait for ever. If the order is too short for this, it continues from its
beginning (as `DistributedSampler` pads it); with `drop_last`, its end is left out instead. The
workers of a rank share its batches: each has a contiguous part, so that files are read in long
stretches. The loader takes batches from its workers alternately, so its batch `k` is batch `k //
workers` of worker `k % workers`. A restart therefore continues in the same sequence, given only the
number of batches taken.

Pure: neither PyTorch nor NumPy is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import usage

_SHARD = "share batches"


@dataclass(frozen=True)
class Part:
    """The part of an order that one rank reads."""

    #: Records of the whole order.
    records: int
    batch_size: int
    rank: int
    world_size: int
    drop_last: bool

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise usage(_SHARD, f"batches of {self.batch_size} records", "give at least 1")
        if not 0 <= self.rank < self.world_size:
            cause = f"rank {self.rank} of {self.world_size} processes"
            raise usage(_SHARD, cause, "count ranks from 0")

    @property
    def count(self) -> int:
        """Records of each rank; some come twice if the order has too few, unless `drop_last`."""
        if self.drop_last:
            return self.records // self.world_size
        return -(-self.records // self.world_size)

    @property
    def batches(self) -> int:
        """Batches of each rank."""
        if self.drop_last:
            return self.count // self.batch_size
        return -(-self.count // self.batch_size)

    def share(self, worker: int, workers: int) -> range:
        """The batches of a worker, in the numbering of the rank; the first workers may have one batch more than the
        others."""
        each, more = divmod(self.batches, workers)
        start = worker * each + min(worker, more)
        return range(start, start + each + (worker < more))

    def places(self, batches: range) -> tuple[int, int]:
        """The positions of batches in the order: the first one and the one after the last.
        Positions beyond the end continue from the beginning."""
        base = self.rank * self.count
        start, stop = batches.start * self.batch_size, batches.stop * self.batch_size
        return base + min(start, self.count), base + min(stop, self.count)


def resumed(taken: int, worker: int, workers: int) -> tuple[int, int]:
    """The share that a worker reads after a restart, and how many of the `taken` batches came from that share. Worker 0
    gets the share that comes next, because a loader always begins with worker 0."""
    share = (worker + taken) % workers
    return share, (taken - share + workers - 1) // workers
