"""For PyTorch: a dataset that gives batches of a shuffled file, to each worker and rank its own.

    >>> from outcore.torch import ShuffledDataset
    >>> data = ShuffledDataset("train.npy", batch_size=1024, seed=7)
    >>> loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=4)

Nothing is written: each worker fetches its part of the order straight from the files. PyTorch is
needed for this module alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch.utils.data import (  # type: ignore[import-not-found, unused-ignore]
    IterableDataset,
    get_worker_info,
)

from ._errors import usage
from ._shuffle import Shuffled, shuffled

__all__ = ["ShuffledDataset"]


class ShuffledDataset(IterableDataset):  # type: ignore[misc, unused-ignore]
    """Batches of records in a random order, as tensors.

    Args:
        src: As `outcore.shuffled` takes it.
        batch_size: Records in a batch; use `batch_size=None` in the `DataLoader`.
        transform: Called with the NumPy array of a batch in place of `torch.from_numpy`.
        rank, world_size: This process's part; by default those of `torch.distributed`.
        drop_last: Leave out a last batch of a part that is shorter.
        options: `dtype`, `record`, `seed`, `memory` and so on, as `outcore.shuffled` takes them.
            Each worker has `memory` of its own.
    """

    def __init__(
        self,
        src: Any,
        *,
        batch_size: int,
        transform: Callable[[Any], Any] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._source: Shuffled = shuffled(src, **options)
        self._batch_size = batch_size
        self._transform = transform or torch.from_numpy
        self._rank, self._world_size = _process(rank, world_size)
        self._drop_last = drop_last
        self._starts: dict[int, int] = {}
        self._positions: dict[int, Callable[[], int]] = {}

    def __len__(self) -> int:
        """Batches of this process, as far as it can be known before workers share them."""
        count = len(self._source)
        here = count * (self._rank + 1) // self._world_size - count * self._rank // self._world_size
        return here // self._batch_size if self._drop_last else -(-here // self._batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Another order, from its begin; before the loader is iterated again."""
        self._source = self._source.with_epoch(epoch)
        self._starts, self._positions = {}, {}

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        batches = self._source.batches(
            self._batch_size,
            shard=self._rank * workers + worker,
            shards=self._world_size * workers,
            start=self._starts.get(worker, 0),
            drop_last=self._drop_last,
        )
        self._positions[worker] = lambda: batches.position
        return map(self._transform, batches)

    def state_dict(self) -> dict[str, Any]:
        """Where this process (with `DataLoader` workers: this worker) is, to go on from there."""
        positions = {worker: position() for worker, position in self._positions.items()}
        return {"epoch": self._source.epoch, "positions": {**self._starts, **positions}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken, with as many ranks and workers as then."""
        if state["epoch"] != self._source.epoch:
            self.set_epoch(state["epoch"])
        self._starts, self._positions = dict(state["positions"]), {}


def _process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise usage("shard data", "a rank or a world size alone", "give both, or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
