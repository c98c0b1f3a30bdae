"""Shuffling files, and reading them in a shuffled order without writing it.

An order depends only on the seed, the epoch, the bytes of the input and the size of a record. So
`Shuffled` has the same order in ten processes, on other machines and after a restart, and it is the
order that `shuffle` writes.
"""

from __future__ import annotations

import io as _io
import operator
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _kinds
from . import _outcore
from ._arguments import SEED, Keys, Paths, Record, Size, StrPath, number, path_texts, resources_of
from ._arrays import gathered
from ._errors import usage
from ._records import records
from ._requests import OrderRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def shuffled(
    src: Paths,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    seed: SupportsIndex = SEED,
    epoch: SupportsIndex = 0,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
) -> Shuffled:
    """The records of files in the order that `shuffle` would write, read straight from them.

    Opening draws a random number for every record, a few nanoseconds each, and reads none of them.

    Args:
        src: Files of records of one size, or `.npy`.
        dtype, record, key: The type of a record, as in `sort`.
        seed, epoch: Choose the order.
        memory: The memory for reading, including batches.
        threads, io, volume: As in `sort`.

    Raises: What `sort` raises.
    """
    names, resources = path_texts(src), resources_of(memory, threads, (), io, None, seed, volume)
    if dtype is None and record is None and _kinds.what(names, resources, table=True) in _kinds.TABLES:
        hint = "outcore.ShuffledTable reads Parquet files in a random order, and outcore.table(src).shuffle() a table"
        raise usage("shuffled", f"it reads records of one size, but the input is a table ({names[0]})", hint)
    request = OrderRequest(
        inputs=names,
        records=records(dtype, record, key),
        resources=resources,
        epoch=number("epoch", epoch),
    )
    return Shuffled(request)


class Shuffled:
    """Records in a random order: `len`, slices, and batches for any number of readers.

    Made by `shuffled`. It can be pickled; unpickling opens the files again.
    """

    def __init__(self, request: OrderRequest) -> None:
        from ._numpy import numpy

        self._request = request
        self._open()
        header = self._order.header
        if header is None:
            self.dtype, self._row = numpy.dtype(numpy.uint8), (self._order.record_bytes,)
        else:
            none = numpy.load(_io.BytesIO(header))
            self.dtype, self._row = none.dtype, none.shape[1:]

    def _open(self) -> None:
        self._process_id = os.getpid()
        self._held = _outcore.Order(self._request)

    @property
    def _order(self) -> _outcore.Order:
        """The open order; a forked child opens its own."""
        if self._process_id != os.getpid():
            self._open()
        return self._held

    def __reduce__(self) -> tuple[Any, ...]:
        return (Shuffled, (self._request,))

    def __len__(self) -> int:
        return self._order.count

    @property
    def epoch(self) -> int:
        """The number of this order among those of the seed."""
        return self._request["epoch"]

    @property
    def seed(self) -> int:
        """The seed of its orders."""
        return self._request["resources"]["seed"]

    def with_epoch(self, epoch: SupportsIndex) -> Shuffled:
        """Another order of the same records, independent of this one."""
        return Shuffled(OrderRequest({**self._request, "epoch": number("epoch", epoch)}))

    def read(self, start: SupportsIndex, count: SupportsIndex) -> npt.NDArray[Any]:
        """`count` records of the order, from position `start` on.

        Each call examines the position of every record once, so a few long reads are cheaper than
        many short ones. `batches` makes long reads.
        """
        from ._numpy import numpy

        held = self._order.read(number("start", start), number("count", count))
        return numpy.frombuffer(held, self.dtype).reshape(-1, *self._row)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """All records in one array, if they fit in the allowed memory."""
        from ._numpy import numpy

        as_read = numpy.dtype((self.dtype, self._row)) if self._row else self.dtype
        least_bytes = len(self) * as_read.itemsize
        parts = (batch.tobytes() for batch in self.batches(max(self._order.stretch // 2, 1)))
        return gathered(parts, self._request["resources"], least_bytes, as_read, dtype, copy)

    def __getitem__(self, index: slice | SupportsIndex) -> npt.NDArray[Any] | np.generic:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise usage("read shuffled", f"a step of {step}", "take all records, then choose some of them")
            return self.read(start, max(stop - start, 0))
        place = operator.index(index)
        place = place + len(self) if place < 0 else place
        if not 0 <= place < len(self):
            raise IndexError(f"record {place} of {len(self)}")
        record: npt.NDArray[Any] | np.generic = self.read(place, 1)[0]
        return record

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches(1024):
            yield from batch

    def batches(
        self,
        size: SupportsIndex,
        *,
        shard: SupportsIndex = 0,
        shards: SupportsIndex = 1,
        start: SupportsIndex = 0,
        drop_last: bool = False,
    ) -> Batches:
        """Arrays of `size` records (the last may be shorter). The next ones are read in the
        background.

        Args:
            size: Records in a batch.
            shard, shards: This reader's part of the order, and the number of parts. A contiguous
                part of a random order is a random sample. Parts differ by at most one record.
            start: Records of this part to skip: `Batches.position` of an iterator that stopped.
            drop_last: Leave out a last batch that is shorter.
        """
        records, of, parts = number("size", size), number("shard", shard), number("shards", shards)
        if records == 0 or not of < parts:
            cause = f"batches of {records}, shard {of} of {parts}"
            raise usage("read shuffled", cause, "count shards from 0, and batches from 1 record")
        places = len(self) * of // parts, len(self) * (of + 1) // parts
        return Batches(self, records, places, number("start", start), drop_last)

    def _read_round(self, start: int, count: int) -> npt.NDArray[Any]:
        """As `read`; after the last record comes the first again."""
        from ._numpy import numpy

        pieces = []
        while count > 0:
            start %= len(self)
            here = min(count, len(self) - start)
            pieces.append(self.read(start, here))
            start, count = start + here, count - here
        return pieces[0] if len(pieces) == 1 else numpy.concatenate(pieces)


class Batches(Iterator["npt.NDArray[Any]"]):
    """An iterator over batches; `position` is the place to continue from after a restart."""

    def __init__(
        self,
        source: Shuffled,
        batch_records: int,
        places: tuple[int, int],
        start: int,
        drop_last: bool,
    ) -> None:
        self._source = source
        self._size = batch_records
        self._base, self._end = places
        #: Records of this part that have been returned.
        self.position = start
        self._drop_last = drop_last
        self._process_id = os.getpid()
        # A stretch has half of the records that fit in memory at once, because one stretch is read while another is
        # returned.
        stretch = max(source._order.stretch // 2, 1)
        self._stretch = max(stretch // self._size, 1) * self._size
        self._reader: ThreadPoolExecutor | None = None
        self._held: npt.NDArray[Any] | None = None
        self._at = 0
        self._coming: Future[npt.NDArray[Any]] | None = None
        self._asked = min(self._base + self.position, self._end)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> npt.NDArray[Any]:
        if self._process_id != os.getpid():
            # The thread that reads ahead does not exist in this process.
            cause = f"the iterator was made by process {self._process_id} before a fork"
            raise usage("read after fork", cause, "ask for batches() again in the child")
        if self._held is None or self._at == len(self._held):
            self._turn_over()
        held = self._held
        if held is None:
            raise StopIteration
        batch = held[self._at : self._at + self._size]
        self._at += len(batch)
        if len(batch) < self._size and self._drop_last:
            self.close()
            raise StopIteration
        self.position += len(batch)
        return batch

    def _turn_over(self) -> None:
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, "outcore-batches")
        if self._coming is None:
            self._coming = self._ask()
        coming, self._held, self._at = self._coming, None, 0
        if coming is None:
            self.close()
            return
        self._held = coming.result()
        self._coming = self._ask()

    def _ask(self) -> Future[npt.NDArray[Any]] | None:
        count = min(self._stretch, self._end - self._asked)
        if count <= 0 or self._reader is None:
            return None
        start, self._asked = self._asked, self._asked + count
        return self._reader.submit(self._source._read_round, start, count)

    def close(self) -> None:
        """Stops reading ahead; the iterator ends."""
        self._held, self._coming, self._asked = None, None, self._end
        if self._reader is not None:
            self._reader.shutdown(wait=False, cancel_futures=True)
