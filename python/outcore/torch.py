"""Datasets for PyTorch: batches of shuffled files or tables, with a separate part for each rank and
worker.

    >>> import torch
    >>> from outcore.torch import ShuffledDataset, ShuffledTableDataset
    >>> data = ShuffledDataset("train.npy", batch_size=1024, seed=7)
    >>> loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=4)
    >>> for epoch in range(10):
    ...     data.set_epoch(epoch)
    ...     for batch in loader:
    ...         ...

`ShuffledTableDataset` does the same for a set of Parquet files:

    >>> data = ShuffledTableDataset("shuffled/", batch_size=1024, columns=["text"])

Nothing is written: each worker reads its part of the order straight from the files. Every rank has
the same number of batches, of the same sizes; `len(loader)` is that number for any number of
workers. `set_epoch` also works with persistent workers. Only this module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

try:
    import torch  # type: ignore[import-not-found, unused-ignore]
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    text = "outcore.torch needs PyTorch, which is not installed; install it: python -m pip install torch"
    raise ModuleNotFoundError(text, name="torch") from None
from torch.utils.data import (  # type: ignore[import-not-found, unused-ignore]
    IterableDataset,
    get_worker_info,
)

from ._arguments import truth
from ._errors import UsageError, usage
from ._parts import Part, resumed
from ._shuffle import Batches, Shuffled, shuffled
from ._shuffled_table import ShuffledTable
from ._units import whole

__all__ = ["ShuffledDataset", "ShuffledTableDataset"]

_STATE = "restore state"
#: The places of numbers that all workers share. `_EPOCH` has the epoch. For the next restart,
#: `_TAKEN` has the batches that were taken before, `_TAKEN_WORKERS` the workers of the loader that
#: took them, and `_RESTART` its number. `_WORKERS` has the number of running workers, and `_BEGAN`
#: the number of batches that were taken when these workers began. From `_DONE`, each worker has a
#: place for the number of the last restart that it has made.
_EPOCH, _TAKEN, _TAKEN_WORKERS, _RESTART, _WORKERS, _BEGAN, _DONE = range(7)
_WORKERS_MAX = 4096


class ShuffledDataset(IterableDataset):  # type: ignore[misc, unused-ignore]
    """Batches of records in a random order, as tensors.

    Every rank has the same number of batches. If the records do not divide evenly, some records
    from the beginning of the order come again at its end, as in
    `torch.utils.data.DistributedSampler`; with `drop_last`, the excess records are left out
    instead.

    Args:
        src: As in `outcore.shuffled`.
        batch_size: Records in a batch; use `batch_size=None` in the `DataLoader`.
        transform: Called with the NumPy array of a batch in place of `torch.from_numpy`.
        rank, world_size: This process's part; by default those of `torch.distributed`, which may be
            initialised later than this.
        drop_last: Give whole batches only, and no record twice.
        options: `dtype`, `record`, `seed`, `memory` and so on, as in `outcore.shuffled`. Each
            worker has a `memory` of its own.
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
        self._source: Shuffled | ShuffledTable = self._open(src, options)
        self._transform = transform or self._tensors
        self._ranks = _given(rank, world_size)
        self._batch_size = whole("batch_size", batch_size)
        self._drop_last = truth("drop_last", drop_last)
        len(self)  # Invalid shares are rejected here.
        # Workers, forked or spawned, see these values before they begin an epoch.
        self._shared = torch.zeros(_DONE + _WORKERS_MAX, dtype=torch.int64).share_memory_()
        self._shared[_EPOCH] = _epoch(self._source.epoch)
        self._running: _Stream | None = None
        self._restored: tuple[int, int] | None = None

    @staticmethod
    def _open(src: Any, options: dict[str, Any]) -> Shuffled | ShuffledTable:
        return shuffled(src, **options)

    @staticmethod
    def _tensors(batch: Any) -> Any:
        if batch.dtype.kind == "V" and batch.dtype.itemsize == 2 and not batch.dtype.names:
            # NumPy has no bfloat16: files of it have elements of two bytes without a type.
            return torch.from_numpy(batch.view("<i2")).view(torch.bfloat16)
        # Tensors have the byte order of the machine.
        return torch.from_numpy(batch.astype(batch.dtype.newbyteorder("="), copy=False))

    def _batches(self, places: tuple[int, int], start: int) -> Iterator[Any]:
        assert isinstance(self._source, Shuffled)
        return Batches(self._source, self._batch_size, places, start, False)

    def __getstate__(self) -> dict[str, Any]:
        # A read in progress continues in this process, not in a worker that is spawned. That worker
        # cannot ask `torch.distributed`, so the ranks are stored.
        return {**self.__dict__, "_running": None, "_ranks": self._ranks or _distributed()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # The state of a worker is already shared; a plain copy gets its own.
        self._shared.share_memory_()

    @property
    def _part(self) -> Part:
        # The rank is asked for each time, because the process group may be made after the dataset.
        rank, world_size = self._ranks or _distributed() or (0, 1)
        return Part(len(self._source), self._batch_size, rank, world_size, self._drop_last)

    def __len__(self) -> int:
        """Batches of an epoch, the same on each rank and with any number of workers."""
        return self._part.batches

    @property
    def epoch(self) -> int:
        """The number of the order that the next iteration uses."""
        return int(self._shared[_EPOCH])

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Chooses another order. Call it on each rank before the loader is iterated again.

        It reaches persistent workers too. After `load_state_dict`, the epoch of that state
        continues at its position. Any other epoch starts at its beginning.
        """
        number = _epoch(epoch)
        if number != self.epoch:
            self._go_to(number, 0, 0)
        self._shared[_WORKERS] = 0
        self._running = None

    def _go_to(self, epoch: int, taken: int, workers: int) -> None:
        self._shared[_EPOCH] = epoch
        self._shared[_TAKEN], self._shared[_TAKEN_WORKERS] = taken, workers
        self._shared[_RESTART] += 1

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        share, given = self._begin(worker, workers)
        self._shared[_WORKERS] = 0 if info is None else workers
        if self._source.epoch != self.epoch:
            self._source = self._source.with_epoch(self.epoch)
        part = self._part
        places = part.places(part.share(share, workers))
        start = min(given * part.batch_size, places[1] - places[0])
        self._running = _Stream(self._batches(places, start), self._transform, share, given)
        return self._running

    def _begin(self, worker: int, workers: int) -> tuple[int, int]:
        """The number of the share that this worker reads, and the number of batches of that share that were taken
        before."""
        if self._restored is not None:
            restored, self._restored = self._restored, None
            return restored
        if worker >= _WORKERS_MAX:
            raise usage("share batches", f"{workers} workers", f"at most {_WORKERS_MAX} are possible")
        taken = 0
        restart = int(self._shared[_RESTART])
        if int(self._shared[_DONE + worker]) != restart:
            taken = int(self._shared[_TAKEN])
            before = int(self._shared[_TAKEN_WORKERS])
            if taken and before != workers:
                cause = f"the state is of a loader with {_workers(before)}, and this one has {workers}"
                raise usage(_STATE, cause, f"use num_workers={before}, or start an epoch")
        self._shared[_BEGAN] = taken
        self._shared[_DONE + worker] = restart
        return resumed(taken, worker, workers)

    def state_dict(self, taken: SupportsIndex | None = None) -> dict[str, Any]:
        """The position of the reader, from which `load_state_dict` continues in the same sequence.
        The loader must keep the order of its workers (`in_order=True`, the default).

        Args:
            taken: How many batches were taken from the `DataLoader` since its iteration began. It
                is needed if the loader has workers, because workers read ahead. It is not needed
                without workers, or with the `StatefulDataLoader` of torchdata, which asks each
                worker for its position.
        """
        info = get_worker_info()
        count = None if taken is None else whole("taken", taken)
        if info is not None:
            share, given = self._here(info.id, info.num_workers)
            return self._state(info.num_workers, share, given)
        if workers := int(self._shared[_WORKERS]):
            if count is None:
                cause = "its workers read ahead, so it is not known how many batches were taken"
                hint = "give state_dict(taken=...), or use torchdata's StatefulDataLoader"
                raise usage("save state", cause, hint)
            return self._state(workers, None, int(self._shared[_BEGAN]) + count)
        if count is not None:
            began = self._pending() if self._running is None else int(self._shared[_BEGAN])
            return self._state(1, None, began + count)
        if self._running is None and self._restored is None and self._pending():
            return self._state(int(self._shared[_TAKEN_WORKERS]), None, self._pending())
        return self._state(1, None, self._here(0, 1)[1])

    def _pending(self) -> int:
        """Batches that were taken before a restart that is still to come."""
        is_made = int(self._shared[_DONE]) == int(self._shared[_RESTART])
        return 0 if is_made else int(self._shared[_TAKEN])

    def _here(self, worker: int, workers: int) -> tuple[int, int]:
        if self._restored is not None:
            return self._restored
        if self._running is not None:
            return self._running.share, self._running.given
        return resumed(self._pending(), worker, workers)

    def _state(self, workers: int, share: int | None, batches: int) -> dict[str, Any]:
        return {**self._identity(), "epoch": self.epoch, "workers": workers, "share": share, "batches": batches}

    def _identity(self) -> dict[str, Any]:
        """The values that must match for a state to be loaded."""
        part = self._part
        return {
            "records": part.records,
            "seed": self._source.seed,
            "batch_size": part.batch_size,
            "world_size": part.world_size,
            "drop_last": part.drop_last,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at the position of `state_dict`, with the same numbers of ranks and workers.
        The state of one rank is valid for all ranks."""
        missing = {*self._identity(), "epoch", "workers", "share", "batches"} - set(state)
        if missing:
            cause = f"it has no {', '.join(sorted(missing))}"
            raise usage(_STATE, cause, "give what state_dict() of this version returned")
        for name, value in self._identity().items():
            if state[name] != value:
                raise _unlike(name, state[name], value)
        share, batches, workers = state["share"], int(state["batches"]), int(state["workers"])
        info = get_worker_info()
        self._running = None
        if info is not None:
            if workers != info.num_workers:
                raise _unlike("num_workers", workers, info.num_workers)
            self._shared[_EPOCH] = int(state["epoch"])
            self._restored = resumed(batches, info.id, workers) if share is None else (share, batches)
            return
        if share is not None and workers > 1:
            cause = f"the state is that of one worker of {workers}"
            raise usage(_STATE, cause, "give the state to the StatefulDataLoader that returned it")
        self._go_to(int(state["epoch"]), batches, workers)
        self._shared[_WORKERS] = 0


class ShuffledTableDataset(ShuffledDataset):
    """Batches of the rows of a Parquet set in a random order, as dictionaries of tensors.

    Each column of numbers or booleans without nulls becomes a tensor, and any other one a list. Ranks, workers,
    epochs and restarts are those of `ShuffledDataset`.

    Args:
        src: Parquet files or directories, as `outcore.ShuffledTable` takes them.
        batch_size, rank, world_size, drop_last: As in `ShuffledDataset`.
        transform: Called with the `pyarrow.Table` of a batch instead.
        options: `seed`, `epoch` and `columns`, as `outcore.ShuffledTable` takes them. Each worker holds one row group.
    """

    @staticmethod
    def _open(src: Any, options: dict[str, Any]) -> Shuffled | ShuffledTable:
        return ShuffledTable(src, **options)

    @staticmethod
    def _tensors(batch: Any) -> Any:
        from pyarrow import types  # type: ignore[import-not-found, import-untyped, unused-ignore]

        made = {}
        for name in batch.column_names:
            column = batch[name]
            kind = column.type
            is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            if is_number and not column.null_count:
                # A copy, because Arrow's memory must not be changed.
                made[name] = torch.from_numpy(column.to_numpy().copy())
            else:
                made[name] = column.to_pylist()
        return made

    def _batches(self, places: tuple[int, int], start: int) -> Iterator[Any]:
        assert isinstance(self._source, ShuffledTable)
        first, last = places
        return self._source._between(self._batch_size, first + start, last, False)


class _Stream(Iterator[Any]):
    """The batches of a share, counted."""

    def __init__(
        self, batches: Iterator[Any], transform: Callable[[Any], Any], share: int, given: int
    ) -> None:
        self._batches = batches
        self._transform = transform
        self.share = share
        #: The number of batches of the share that have been returned.
        self.given = given

    def __iter__(self) -> _Stream:
        return self

    def __next__(self) -> Any:
        made = self._transform(next(self._batches))
        self.given += 1
        return made


def _epoch(number: SupportsIndex) -> int:
    epoch = whole("epoch", number)
    if epoch >= 1 << 63:
        raise usage("set epoch", f"{epoch} is out of range", "give at most 2**63 - 1")
    return epoch


def _unlike(name: str, of_state: Any, here: Any) -> UsageError:
    cause = f"the state has {name}={of_state}, but this dataset has {here}"
    return usage(_STATE, cause, "open the dataset as it was then, or start an epoch")


def _workers(count: int) -> str:
    return "1 worker or none" if count == 1 else f"{count} workers"


def _given(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    if (rank is None) != (world_size is None):
        raise usage("shard data", "only one of rank and world_size is given", "give both, or neither")
    return None if rank is None or world_size is None else (rank, world_size)


def _distributed() -> tuple[int, int] | None:
    """The rank of this process and the number of ranks, if there is a process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None
