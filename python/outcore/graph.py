"""Graphs far larger than memory: edges are converted once, and algorithms read them from the drives.

    >>> import outcore
    >>> g = outcore.graph.convert("soc-LiveJournal1.txt", "lj.graph", memory="2GiB")
    >>> ranks = g.pagerank(alpha=0.85)

Algorithms keep a few bytes for each vertex in memory. Names, defaults and results are those of
networkx, as NumPy arrays with an entry a vertex; they are the same for any memory and threads.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _outcore
from ._api import _SEED, Paths, Size, StrPath, _path, _paths, _resources
from ._errors import usage
from ._neighbors import Features, NeighborBatch, NeighborLoader, random_walks
from ._progress import Watcher, telling
from ._units import whole
from ._requests import GraphConvertRequest, GraphKernelRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TABLES = (".parquet", ".pq", ".parq", ".arrow", ".arrows", ".feather", ".ipc")

__all__ = ["Graph", "NeighborBatch", "NeighborLoader", "convert", "from_scipy"]


class Graph:
    """A graph that `convert` or the command `outcore graph convert` has made.

    Args:
        path: Its directory, or `"@name"` of a dataset on all drives of a volume.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of the volume with the dataset, if `OUTCORE_VOLUME` does not name it.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        memory: Size | None = None,
        threads: SupportsIndex | None = None,
        io: str | None = None,
        volume: StrPath | None = None,
    ) -> None:
        self._path = _path(path)
        self._resources = _resources(memory, threads, (), io, None, _SEED, volume)
        self._facts: dict[str, Any] = json.loads(_outcore.graph_info(self._path, self._resources))

    @property
    def vertices(self) -> int:
        """Number of vertices; they are the numbers from 0 on."""
        return int(self._facts["vertices"])

    @property
    def edges(self) -> int:
        """Number of edges, each counted once."""
        return int(self._facts["edges"])

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return bool(self._facts["directed"])

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return bool(self._facts["weighted"])

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"<Graph {self._path!r}: {self.vertices} vertices, {self.edges} edges, {kind}>"

    def _run(
        self,
        kernel: str,
        dtype: str,
        *,
        number: SupportsIndex = 0,
        alpha: float = 0.0,
        tol: float = 0.0,
        max_iter: SupportsIndex = 0,
        targets: list[tuple[int, float]] | None = None,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[Any]:
        import numpy

        request = GraphKernelRequest(
            graph=self._path,
            kernel=kernel,
            number=whole("number", number),
            alpha=float(alpha),
            tolerance=float(tol),
            iterations=whole("max_iter", max_iter),
            targets=targets or [],
            resources=self._resources,
        )
        with telling(progress, (kernel,)) as tell:
            return numpy.frombuffer(_outcore.graph_kernel(request, tell), dtype)

    def vertex(self, name: str | SupportsIndex) -> int:
        """The vertex that the edges called `name`, where ids were relabelled."""
        found = _outcore.graph_vertices(self._path, [str(name)], self._resources)[0]
        if found is None:
            raise usage("find a vertex", f"{name!r} is not a vertex of the graph", "see names()")
        return found

    def _vertex(self, vertex: SupportsIndex | str) -> int:
        if isinstance(vertex, str):
            return self.vertex(vertex)
        number = whole("source", vertex)
        if number >= self.vertices:
            raise usage("search", f"{number} is not a vertex", f"there are {self.vertices}")
        return number

    def _starts(
        self, source: SupportsIndex | str | Iterable[SupportsIndex | str]
    ) -> list[tuple[int, float]]:
        # An array of NumPy has an index, too, so that this does not tell one source from several.
        sources: Iterable[SupportsIndex | str]
        if isinstance(source, str) or not isinstance(source, Iterable):
            sources = [source]
        else:
            sources = source
        starts = [(self._vertex(vertex), 1.0) for vertex in sources]
        if not starts:
            raise usage("search", "there is no source to start from", "name a vertex, or several")
        return starts

    def names(self, vertices: npt.ArrayLike | None = None) -> npt.NDArray[Any] | None:
        """The original id of each vertex, or of some `vertices`, if ids were relabelled: an array of numbers, or of
        strings (as objects), in which a vertex is found by `vertex`."""
        import numpy

        if not self._facts["relabelled"]:
            return None
        if self._facts.get("text_names") is None:
            numbers = self._run("names", "<u8")
            return numbers if vertices is None else numbers[numpy.asarray(vertices)]
        wanted = None if vertices is None else [self._vertex(v) for v in numpy.asarray(vertices).tolist()]
        names = _outcore.graph_names(self._path, wanted, self._resources)
        return numpy.array(names, dtype=object)

    def components(self, *, progress: Watcher | bool | None = None) -> npt.NDArray[np.uint32]:
        """The smallest vertex of the component of each vertex, whatever the directions of edges."""
        return self._run("components", "<u4", progress=progress)

    def bfs(
        self,
        source: SupportsIndex | str | Iterable[SupportsIndex | str],
        *,
        parents: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.int64]:
        """The number of edges from `source`, or the nearest of several, to each vertex, or the vertex before each; -1 for
        none. Where ids are names, a source may be a name."""
        kernel = "parents" if parents else "levels"
        found = self._run(kernel, "<u4", targets=self._starts(source), progress=progress)
        wide: npt.NDArray[np.int64] = found.astype("i8")
        wide[wide == 0xFFFF_FFFF] = -1
        return wide

    def pagerank(
        self,
        alpha: float = 0.85,
        *,
        tol: float = 1e-6,
        max_iter: SupportsIndex = 100,
        personalization: Mapping[int, float] | Mapping[str, float] | None = None,
        weighted: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """The rank of each vertex; they sum to 1. A `tol` of 0 runs `max_iter` iterations. Weights are not looked at, as
        in networkx with `weight=None`, unless `weighted`: then edges are followed in proportion to their weights, which must
        be 0 or more.

        With `personalization`, the surfer jumps to its vertices only, each as often as its weight says.
        """
        targets = None
        if personalization is not None:
            weights = personalization.items()
            targets = [(self._vertex(vertex), float(weight)) for vertex, weight in weights]
            if not targets:
                raise usage("PageRank", "personalization names no vertex", "name one, or leave it out")
        return self._run(
            "weighted_pagerank" if weighted else "pagerank",
            "<f8",
            alpha=alpha,
            tol=tol,
            max_iter=max_iter,
            targets=targets,
            progress=progress,
        )

    def label_propagation(
        self, *, max_iter: SupportsIndex = 100, progress: Watcher | bool | None = None
    ) -> npt.NDArray[np.uint32]:
        """The smallest vertex of the community of each vertex, where each has the label that most of its neighbours
        have, or as near to that as `max_iter` rounds come."""
        return self._run("label_propagation", "<u4", max_iter=max_iter, progress=progress)

    def louvain_communities(
        self,
        *,
        resolution: float = 1.0,
        threshold: float = 1e-7,
        seed: SupportsIndex = _SEED,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """The smallest vertex of the community of each vertex, by Louvain's method; of undirected graphs, by weights if
        there are any. A `resolution` above 1 makes smaller communities."""
        return self._run(
            "louvain",
            "<u4",
            number=seed,
            alpha=resolution,
            tol=threshold,
            progress=progress,
        )

    def hits(
        self,
        max_iter: SupportsIndex = 1000,
        tol: float = 1e-8,
        *,
        progress: Watcher | bool | None = None,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """How good each vertex is as a hub, and as an authority; each sum to 1. A `tol` of 0 runs `max_iter` iterations.

        These are steps of the power method; those of networkx are of ARPACK, which needs fewer. Weights are not looked at."""
        both = self._run("hits", "<f8", tol=tol, max_iter=max_iter, progress=progress)
        return both[: self.vertices], both[self.vertices :]

    def strongly_connected_components(
        self, *, progress: Watcher | bool | None = None
    ) -> npt.NDArray[np.uint32]:
        """The smallest vertex of the strongly connected component of each vertex."""
        return self._run("strong", "<u4", progress=progress)

    def triangles(self, *, progress: Watcher | bool | None = None) -> npt.NDArray[np.uint64]:
        """The number of triangles that each vertex is in; their sum is three times that of all triangles."""
        return self._run("triangles", "<u8", progress=progress)

    def shortest_path_length(
        self,
        source: SupportsIndex | str | Iterable[SupportsIndex | str],
        *,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """The least sum of weights of a path from `source`, or the nearest of several, to each vertex; infinity where
        there is none. Edges without weights count 1."""
        return self._run("lengths", "<f8", targets=self._starts(source), progress=progress)

    def core_number(self, *, progress: Watcher | bool | None = None) -> npt.NDArray[np.uint32]:
        """The largest k for which each vertex is in the k-core."""
        return self._run("core_number", "<u4", progress=progress)

    def k_core(
        self, k: SupportsIndex, *, progress: Watcher | bool | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether each vertex is in the k-core."""
        found = self._run("k_core", "<u4", number=k, progress=progress)
        return found.astype(bool)

    def neighbor_loader(
        self,
        vertices: npt.ArrayLike | None = None,
        num_neighbors: Sequence[SupportsIndex] = (10, 10),
        *,
        batch_size: SupportsIndex = 1024,
        features: Features | None = None,
        shuffle: bool = False,
        incoming: bool = True,
        seed: SupportsIndex = _SEED,
        workers: SupportsIndex = 0,
    ) -> NeighborLoader:
        """Batches of vertices with sampled neighbours, for training: as PyTorch Geometric's `NeighborLoader`, with
        edges and features on the drives.

        Args:
            vertices: What batches are made of; all vertices if not given.
            num_neighbors: Neighbours to draw of each vertex, a number a hop; -1 for all of them.
            batch_size: Vertices of a batch.
            features: A file of rows (`.npy`) or an array; those of a batch's vertices come with it.
            shuffle: Another order in each epoch.
            incoming: Draw along the edges that come to a vertex, not those that leave it.
            seed: Decides, with the epoch, about order and draws.
            workers: Threads that make the next batches meanwhile, two each; without them a batch is made when it is asked for.

        Each pass over the loader is an epoch; `set_epoch` chooses it. Batches are the same for any memory, threads and workers.
        """
        graph = self._path, self._resources, self.vertices
        return NeighborLoader(
            graph,
            vertices,
            num_neighbors,
            batch_size=batch_size,
            features=features,
            shuffle=shuffle,
            incoming=incoming,
            seed=seed,
            workers=workers,
        )

    def random_walks(
        self,
        starts: npt.ArrayLike | None = None,
        length: SupportsIndex = 10,
        *,
        incoming: bool = False,
        seed: SupportsIndex = _SEED,
    ) -> npt.NDArray[np.int64]:
        """A walk of `length` steps from each of `starts`, or from every vertex: a row of vertices each, -1 behind a dead
        end. Each edge of a vertex is as likely as any other."""
        graph = self._path, self._resources, self.vertices
        return random_walks(graph, starts, length, incoming, seed)

    def degrees(self, *, incoming: bool = False) -> npt.NDArray[np.uint32]:
        """The number of edges that leave each vertex, or come to it."""
        return self._run("in_degrees" if incoming else "out_degrees", "<u4")

    def to_scipy(self) -> Any:
        """The graph as a SciPy array in CSR form, in memory; parallel edges are summed.

        Weights are `float32`, and 1 where the graph has none. Undirected edges are in both
        directions.
        """
        import numpy

        sparse = importlib.import_module("scipy.sparse")
        fields = [("source", "<u4"), ("target", "<u4"), ("weight", "<f4")]
        edges = numpy.frombuffer(self._run("edges", "u1").data, fields)
        rows, columns, weights = edges["source"], edges["target"], edges["weight"]
        if not self.directed:
            back = rows != columns
            both = numpy.concatenate([rows, columns[back]]), numpy.concatenate([columns, rows[back]])
            rows, columns = both
            weights = numpy.concatenate([weights, weights[back]])
        shape = (self.vertices, self.vertices)
        return sparse.coo_array((weights, (rows, columns)), shape=shape).tocsr()


def convert(
    edges: Paths,
    path: StrPath,
    *,
    type: str | None = None,
    undirected: bool = False,
    weights: bool | str = False,
    relabel: bool | str = False,
    dedup: bool = False,
    drop_loops: bool = False,
    vertices: SupportsIndex | None = None,
    header: bool = True,
    columns: Sequence[str] = (),
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Graph:
    """Converts edges to a graph, within the memory that is allowed.

    Args:
        edges: Files of edges, all of one format: pairs of numbers, text (SNAP, `.el`, `.wel`), `.csv`,
            `.mtx`, `.sg`, `.wsg`, `.npz` of SciPy, or tables (Parquet, Arrow).
        path: The graph's directory, which is made, or `"@name"` for a dataset on all drives of a volume.
        type: The format, if names do not tell: `"u32"`, `"u64"`, `"text"`, `"csv"`, `"mtx"`, `"sg"`, `"wsg"`,
            `"graph500"`, `"npz"`.
        undirected: Edges have no direction.
        weights: Edges have weights; the name of their column for CSV and tables.
        relabel: Ids are not 0, 1, 2, ...: number the vertices in their order. They are `"numbers"` below 2**48 or,
            in text and CSV, `"text"` of up to 4 KiB; `True` looks at the first lines.
        dedup: Merge parallel edges; of several weights the least is kept.
        drop_loops: Leave out edges from a vertex to itself.
        vertices: Number of vertices; by default one more than the largest id.
        columns: Of tables, those of source and target; by default the first two.
        header: The first line of CSV names the columns, unless it begins with two numbers.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        drives: Directories for scratch; by default it lies beside the graph.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        force: Replace a graph that exists.
        volume: The drives file of the volume, for a dataset; by default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress`.
    """
    inputs = _paths(edges)
    request = GraphConvertRequest(
        inputs=inputs,
        output=_path(path),
        format=type,
        undirected=bool(undirected),
        weights=bool(weights),
        weight_column=weights if isinstance(weights, str) else None,
        relabel=relabel if isinstance(relabel, str) else "auto" if relabel else None,
        no_header=not header,
        is_table=type is None and bool(inputs) and inputs[0].lower().endswith(_TABLES),
        columns=list(columns),
        dedup=bool(dedup),
        drop_loops=bool(drop_loops),
        vertices=None if vertices is None else whole("vertices", vertices),
        force=bool(force),
        resources=_resources(memory, threads, drives, io, None, _SEED, volume),
    )
    with telling(progress, ("distribute", "sort")) as tell:
        _outcore.graph_convert(request, tell)
    return Graph(path, memory=memory, threads=threads, io=io, volume=volume)


def from_scipy(
    matrix: Any,
    path: StrPath,
    *,
    undirected: bool = False,
    weights: bool = False,
    drop_loops: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
) -> Graph:
    """Makes a graph of a SciPy sparse matrix: an edge for each stored entry.

    With `undirected`, entries (i, j) and (j, i) are one edge.
    """
    import numpy

    entries = matrix.tocoo()
    names = [("source", "<u4"), ("target", "<u4")]
    if weights:
        names.append(("weight", "<f4"))
    pairs = numpy.empty(entries.nnz, dtype=names)
    pairs["source"], pairs["target"] = entries.row, entries.col
    if weights:
        pairs["weight"] = entries.data
    beside = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=beside, suffix=".u32") as file:
        pairs.tofile(file.name)
        return convert(
            file.name,
            path,
            type="u32",
            undirected=undirected,
            weights=weights,
            dedup=undirected,
            drop_loops=drop_loops,
            vertices=max(matrix.shape),
            memory=memory,
            threads=threads,
            io=io,
            force=force,
            volume=volume,
        )
