"""Batches of sampled neighbours for training on graphs, with edges on the drives."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from . import _outcore
from ._arguments import truth
from ._errors import MemoryBudgetError, usage
from ._open import open
from ._units import whole
from ._requests import ResourcesRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Batches that each worker makes in advance.
_AHEAD = 2
_WORKERS_MAX = 256

#: Rows of features: a file of a two-dimensional array (`.npy`), or an array.
Features = Union[str, "os.PathLike[str]", "npt.ArrayLike"]


@dataclass(frozen=True)
class NeighborBatch:
    """A sampled subgraph; its parts have the names of PyTorch Geometric."""

    #: The vertices: first those of the batch, then those that each hop added.
    n_id: npt.NDArray[np.int64]
    #: Two rows: for each edge, the position in `n_id` of the neighbour, and the position of the vertex for which the
    #: neighbour was drawn.
    edge_index: npt.NDArray[np.int64]
    #: The number of vertices that the batch was drawn for.
    batch_size: int
    #: Edges of each hop.
    num_sampled_edges: list[int]
    #: The features of the vertices, if there are any.
    x: npt.NDArray[Any] | None


class NeighborLoader:
    """Batches of vertices with sampled neighbours; see `Graph.neighbor_loader`. Each iteration over the loader is an
    epoch."""

    def __init__(
        self,
        graph: tuple[str, ResourcesRequest, int],
        vertices: npt.ArrayLike | None,
        fanouts: Sequence[SupportsIndex],
        *,
        batch_size: SupportsIndex,
        features: Features | None,
        shuffle: bool,
        incoming: bool,
        seed: SupportsIndex,
        workers: SupportsIndex,
    ) -> None:
        path, resources, count = graph
        self._seeds = vertices_of("vertices", vertices, count)
        self._fanouts = [_fanout(fanout) for fanout in fanouts]
        self._batch = whole("batch_size", batch_size)
        if self._batch == 0:
            raise usage("sample neighbours", "batches of 0 vertices", "give batch_size at least 1")
        self._shuffle = truth("shuffle", shuffle)
        self._seed = whole("seed", seed)
        self._workers = whole("workers", workers)
        if self._workers > _WORKERS_MAX:
            cause = f"{self._workers} workers; at most {_WORKERS_MAX} are possible"
            raise usage("read workers", cause, "a few keep a drive busy")
        self._epoch = 0
        self._features = None if features is None else _rows(features, resources)
        self._sampler = _outcore.GraphSampler.open(path, truth("incoming", incoming), resources)

    def __len__(self) -> int:
        return -(-len(self._seeds) // self._batch)

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Makes this the epoch of the next pass. With the seed, it determines the order and the draws."""
        self._epoch = whole("epoch", epoch)

    def __iter__(self) -> Iterator[NeighborBatch]:
        from ._numpy import numpy

        epoch = self._epoch
        self._epoch += 1
        draw = numpy.random.default_rng([self._seed, epoch])
        order = draw.permutation(self._seeds) if self._shuffle else self._seeds

        def make(number: int) -> NeighborBatch:
            chosen = order[number * self._batch :][: self._batch]
            seed = numpy.random.SeedSequence([self._seed, epoch, number]).generate_state(1, "u8")[0]
            return self._sample(chosen, int(seed))

        if self._workers == 0:
            yield from map(make, range(len(self)))
            return
        pool = ThreadPoolExecutor(self._workers, "outcore-neighbors")
        ahead: deque[Future[NeighborBatch]] = deque()
        asked = 0
        try:
            for number in range(len(self)):
                while asked < min(number + self._workers * _AHEAD, len(self)):
                    ahead.append(pool.submit(make, asked))
                    asked += 1
                batch = ahead.popleft()
                try:
                    made = batch.result()
                except MemoryBudgetError:
                    # Other batches in progress have taken the memory that this batch needs.
                    wait(ahead)
                    made = make(number)
                yield made
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _sample(self, chosen: npt.NDArray[np.uint32], seed: int) -> NeighborBatch:
        from ._numpy import numpy

        found = self._sampler.neighbours(chosen.tobytes(), self._fanouts, seed)
        vertices, sources, targets = (numpy.frombuffer(part, "=u4").astype("i8") for part in found[:3])
        rows = None if self._features is None else self._features(vertices)
        edges = numpy.stack([sources, targets])
        return NeighborBatch(vertices, edges, len(numpy.unique(chosen)), found[3], rows)


def vertices_of(name: str, given: npt.ArrayLike | None, count: int) -> npt.NDArray[np.uint32]:
    """Vertices, as numbers or as a mask; all if none are given."""
    from ._numpy import numpy

    if given is None:
        return numpy.arange(count, dtype="=u4")
    array = numpy.asarray(given)
    if array.dtype == bool:
        # A mask, as in data sets: True for the selected vertices.
        if array.shape != (count,):
            cause = f"{name} is a mask of the shape {array.shape}, and there are {count} vertices"
            raise usage("sample neighbours", cause, "give a value for each vertex")
        array = numpy.flatnonzero(array)
    if array.ndim != 1 or array.size and array.dtype.kind not in "ui":
        raise usage("sample neighbours", f"{name} is not a list of vertices", "give whole numbers")
    if array.size and (array.min() < 0 or array.max() >= count):
        cause = f"{name} has a number that is not a vertex: there are {count}"
        raise usage("sample neighbours", cause, "name vertices of the graph")
    return numpy.ascontiguousarray(array, "=u4")


def _fanout(fanout: SupportsIndex) -> int | None:
    number = fanout.__index__()
    return None if number == -1 else whole("fanouts", number)


def _rows(features: Features, resources: ResourcesRequest) -> Any:
    from ._numpy import numpy

    if isinstance(features, (str, os.PathLike)):
        memory, threads, io = resources["memory"], resources["threads"], resources["io"]
        dataset = open(features, memory=memory, threads=threads, io=io)
        # Only one worker at a time gathers features, on all threads, so several workers need no more memory than one.
        turn = threading.Lock()

        def gather(vertices: npt.NDArray[np.int64]) -> Any:
            with turn:
                return dataset.gather(vertices)

        return gather
    array = numpy.asanyarray(features)
    return lambda vertices: array[vertices]
