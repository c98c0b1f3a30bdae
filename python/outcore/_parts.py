"""Which batches of a shuffled order each process and each of its workers reads.

Every rank has the same number of records and of batches, so that processes which wait for each other
after each batch never wait in vain: the order goes on from its begin where it has too few for all (as
`DistributedSampler` pads it), or its end is left out with `drop_last`. The workers of a rank share its
batches: a contiguous part each, so that files are read in long stretches. The loader takes from its
workers by turns, so batch `k` that it gives is batch `k // workers` of worker `k % workers`; with that a
restart goes on in the same sequence, from the number of batches taken alone.

Pure: neither PyTorch nor NumPy is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import usage

_SHARD = "share batches"


@dataclass(frozen=True)
class Part:
    """What one rank reads of an order."""

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
            raise usage(_SHARD, cause, "count ranks from 0 on")

    @property
    def count(self) -> int:
        """Records of each rank; some twice where the order has too few, unless `drop_last`."""
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
        """The batches of a worker, as the rank counts them; the first workers have one more."""
        each, more = divmod(self.batches, workers)
        start = worker * each + min(worker, more)
        return range(start, start + each + (worker < more))

    def places(self, batches: range) -> tuple[int, int]:
        """Where batches are in the order: first place and the one behind the last. Places beyond
        the end are those from its begin on."""
        base = self.rank * self.count
        start, stop = batches.start * self.batch_size, batches.stop * self.batch_size
        return base + min(start, self.count), base + min(stop, self.count)


def resumed(taken: int, worker: int, workers: int) -> tuple[int, int]:
    """Whose share a worker reads after `taken` batches were taken from a loader, and how many of that
    share were among them: the loader's first turn is then that of the share that is next."""
    share = (worker + taken) % workers
    return share, (taken - share + workers - 1) // workers
