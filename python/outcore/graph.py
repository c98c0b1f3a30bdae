"""Graphs far larger than memory: edges are converted once, and algorithms read them from the drives.

    >>> import outcore
    >>> g = outcore.graph.convert("soc-LiveJournal1.txt", "lj.graph", memory="2GiB")
    >>> ranks = g.pagerank(alpha=0.85)

Algorithms keep a few bytes per vertex in memory. Names, defaults and results are those of networkx.
Results are NumPy arrays with an entry per vertex, and are the same for any memory and number of
threads.

With `dst`, a name that ends in `.npy`, a result is written to that file, and the array is mapped
from it. With `resume=True`, the state is then kept after passes, next to the file. If the call is
killed or fails, the same call continues after the last state. `force=True` replaces the file.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _outcore
from ._array_verbs import run_on_arrays
from ._arguments import SEED, Paths, Size, StrPath, path_text, resources_of
from ._equivalents import unknown_attribute, unknown_name
from ._errors import usage
from ._neighbors import Features, NeighborBatch, NeighborLoader, vertices_of
from ._progress import Watcher
from ._units import counted, whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
        self._path = path_text(path)
        self._resources = resources_of(memory, threads, (), io, None, SEED, volume)
        self._given = {"memory": memory, "threads": threads, "io": io, "volume": volume}
        self._facts, _ = run_on_arrays("graph info", self._path, self._given)

    @property
    def vertices(self) -> int:
        """Number of vertices; vertices are numbered from 0."""
        return int(self._facts["vertices"])

    @property
    def edges(self) -> int:
        """Number of edges, each counted once."""
        return int(self._facts["records"])

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return bool(self._facts["directed"])

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return bool(self._facts["weighted"])

    @property
    def weight_type(self) -> str | None:
        """How weights are stored: `"float32"`, `"float64"` or `"int64"`; None without weights."""
        types = {"f32": "float32", "f64": "float64", "i64": "int64"}
        return types[self._facts["weight_type"]] if self.weighted else None

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        vertices, edges = counted(self.vertices, "vertex"), counted(self.edges, "edge")
        return f"<Graph {self._path!r}: {vertices}, {edges}, {kind}>"

    def _run(
        self, verb: str, vertices: npt.ArrayLike | None = None, weights: Iterable[float] = (), **given: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """The arrays that a verb computes from some vertices."""
        from ._numpy import numpy

        arrays = {"weights": numpy.array(list(weights), "=f8").tobytes()}
        if vertices is not None:
            arrays["vertices"] = numpy.asarray(vertices, "=u4").tobytes()
        return run_on_arrays(f"graph {verb}", self._path, {**self._given, **given}, arrays)[1]

    def _values(
        self, verb: str, dst: StrPath | None = None, resume: bool = False, **given: Any
    ) -> npt.NDArray[Any]:
        """The values that an algorithm computes; they are also in the file `dst` if there is one."""
        if dst is None:
            if resume:
                cause = "only a result in a file is continued after a kill"
                raise usage("resume", cause, "name the file: dst='ranks.npy'")
            return self._run(verb, **given)["values"]
        from ._numpy import numpy

        if not path_text(dst).endswith(".npy"):
            raise usage("create output", f"{dst} is not the name of an array", "end it in .npy")
        self._run(verb, dst=dst, resume=resume, **given)
        values: npt.NDArray[Any] = numpy.load(dst, mmap_mode="r")
        return values

    def vertex(self, name: str | SupportsIndex) -> int:
        """The vertex with the original id `name`, if ids were relabelled."""
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
    ) -> list[int]:
        # A NumPy array also has `__index__`, so `SupportsIndex` does not distinguish one source
        # from several.
        sources: Iterable[SupportsIndex | str]
        if isinstance(source, str) or not isinstance(source, Iterable):
            sources = [source]
        else:
            sources = source
        starts = [self._vertex(vertex) for vertex in sources]
        if not starts:
            raise usage("search", "there is no source to start from", "name a vertex, or several")
        return starts

    def names(self, vertices: npt.ArrayLike | None = None) -> npt.NDArray[Any] | None:
        """The original id of each vertex, or of some `vertices`, if ids were relabelled: an array
        of numbers, or of strings (as objects). `vertex` is the inverse.

        In `vertices`, -1 means no vertex, as in the results of `bfs` and `random_walks`. The result
        then has -1 if names are numbers, and None if they are strings. Numbers are int64, or
        objects if an id is 2^63 or more."""
        from ._numpy import numpy

        if not self._facts["relabelled"]:
            return None
        if not self._facts["named"]:
            numbers = numpy.frombuffer(_outcore.graph_ids(self._path, self._resources), "<u8")
            if vertices is None:
                return numbers
            wanted, is_none = self._or_none(vertices)
            found = numbers[wanted]
            if found.size and int(found.max()) >= 1 << 63:
                wide: npt.NDArray[Any] = found.astype(object)
                wide[is_none] = None
                return wide
            signed: npt.NDArray[Any] = found.astype("i8")
            signed[is_none] = -1
            return signed
        if vertices is None:
            return numpy.array(_outcore.graph_names(self._path, None, self._resources), dtype=object)
        wanted, is_none = self._or_none(vertices)
        flat = [int(vertex) for vertex in wanted[~is_none].tolist()]
        names = numpy.full(wanted.shape, None, dtype=object)
        names[~is_none] = _outcore.graph_names(self._path, flat, self._resources)
        return names

    def _or_none(self, vertices: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """The vertices, with 0 in place of -1, and a mask of those that are -1."""
        from ._numpy import numpy

        array = numpy.asarray(vertices)
        if array.size and array.dtype.kind not in "ui":
            raise usage("find names", "vertices are not whole numbers", "give numbers of vertices")
        array = array.astype("i8")
        is_none = array == -1
        if array.size and (array.min() < -1 or array.max() >= self.vertices):
            cause = f"a number is not a vertex: there are {self.vertices}"
            raise usage("find names", cause, "name vertices of the graph, or -1 for none")
        return numpy.where(is_none, 0, array), is_none

    def components(
        self,
        *,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """For each vertex, the smallest vertex in its component; the directions of edges do not matter."""
        return self._values("cc", dst=dst, resume=resume, force=force, progress=progress)

    def bfs(
        self,
        source: SupportsIndex | str | Iterable[SupportsIndex | str],
        *,
        parents: bool = False,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.int64]:
        """The number of edges to each vertex from `source`, or from the nearest of several sources.
        With `parents`, the vertex before each vertex. -1 means none. If ids are names, a source may
        be a name."""
        return self._values(
            "bfs",
            vertices=self._starts(source),
            parents=parents,
            dst=dst,
            resume=resume,
            force=force,
            progress=progress,
        )

    def pagerank(
        self,
        alpha: float = 0.85,
        *,
        tol: float | None = None,
        max_iter: SupportsIndex = 100,
        personalization: Mapping[int, float] | Mapping[str, float] | None = None,
        weighted: bool = False,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """The rank of each vertex; they sum to 1. Iterations end when ranks change by less than
        `tol` per vertex on average, as in networkx; by default when all changes sum to less than
        1e-6. A `tol` of 0 runs `max_iter` iterations. Weights are ignored, as in networkx with
        `weight=None`, unless `weighted` is set: then edges are followed in proportion to their
        weights, which must be 0 or more.

        With `personalization`, the surfer jumps only to its vertices, in proportion to their
        weights.
        """
        jumps = None
        if personalization is not None:
            jumps = {self._vertex(vertex): float(weight) for vertex, weight in personalization.items()}
            if not jumps:
                raise usage("PageRank", "personalization names no vertex", "name one, or leave it out")
        if tol is not None and not tol >= 0:
            raise usage("PageRank", f"tol is {tol}", "it must be at least 0, or None for the default")
        return self._values(
            "pagerank",
            vertices=None if jumps is None else list(jumps),
            weights=() if jumps is None else jumps.values(),
            alpha=alpha,
            tolerance=tol,
            iterations=max_iter,
            weighted=weighted,
            dst=dst,
            resume=resume,
            force=force,
            progress=progress,
        )

    def label_propagation(
        self,
        *,
        max_iter: SupportsIndex = 100,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """For each vertex, the smallest vertex in its community. Each vertex takes the label that
        most of its neighbours have, until no label changes or `max_iter` rounds are over."""
        return self._values(
            "lp", rounds=max_iter, dst=dst, resume=resume, force=force, progress=progress
        )

    def louvain_communities(
        self,
        *,
        resolution: float = 1.0,
        threshold: float = 1e-7,
        seed: SupportsIndex = SEED,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """For each vertex, the smallest vertex in its community, by Louvain's method, for undirected
        graphs, with weights if there are any. A `resolution` above 1 makes smaller communities."""
        return self._values(
            "louvain",
            resolution=resolution,
            threshold=threshold,
            seed=seed,
            dst=dst,
            resume=resume,
            force=force,
            progress=progress,
        )

    def hits(
        self,
        max_iter: SupportsIndex = 1000,
        tol: float = 1e-8,
        *,
        progress: Watcher | bool | None = None,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """How good each vertex is as a hub, and as an authority; each array sums to 1. A `tol` of 0
        runs `max_iter` iterations.

        This is the power method. networkx uses ARPACK, which needs fewer iterations. Weights are
        ignored."""
        both = self._run("hits", tolerance=tol, iterations=max_iter, progress=progress)
        return both["values"], both["others"]

    def closeness(
        self,
        sources: SupportsIndex = 256,
        *,
        seed: SupportsIndex = 1,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """How near each vertex is to the vertices that reach it, as in networkx: the fraction of
        the other vertices that reach it, divided by their mean distance in edges. It is estimated
        from `sources` random vertices, and exact if these are all vertices."""
        return self._values(
            "closeness", sources=sources, seed=seed, dst=dst, resume=resume, force=force, progress=progress
        )

    def strongly_connected_components(
        self,
        *,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """For each vertex, the smallest vertex in its strongly connected component."""
        return self._values("scc", dst=dst, resume=resume, force=force, progress=progress)

    def triangles(
        self,
        *,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint64]:
        """The number of triangles that each vertex is in; the sum is three times the number of triangles."""
        return self._values("triangles", dst=dst, resume=resume, force=force, progress=progress)

    def shortest_path_length(
        self,
        source: SupportsIndex | str | Iterable[SupportsIndex | str],
        *,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """The smallest sum of weights on a path to each vertex from `source`, or from the nearest of
        several sources; infinity if there is no path. An edge without a weight has
        the length 1."""
        return self._values(
            "sssp", vertices=self._starts(source), dst=dst, resume=resume, force=force, progress=progress
        )

    def core_number(
        self,
        *,
        dst: StrPath | None = None,
        resume: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> npt.NDArray[np.uint32]:
        """The largest k for which each vertex is in the k-core."""
        return self._values("kcore", dst=dst, resume=resume, force=force, progress=progress)

    def k_core(
        self, k: SupportsIndex, *, progress: Watcher | bool | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether each vertex is in the k-core."""
        return self._values("kcore", k=k, progress=progress).astype(bool)

    def neighbor_loader(
        self,
        vertices: npt.ArrayLike | None = None,
        num_neighbors: Sequence[SupportsIndex] = (10, 10),
        *,
        batch_size: SupportsIndex = 1024,
        features: Features | None = None,
        shuffle: bool = False,
        incoming: bool = True,
        seed: SupportsIndex = SEED,
        workers: SupportsIndex = 0,
    ) -> NeighborLoader:
        """Batches of vertices with sampled neighbours, for training: as PyTorch Geometric's `NeighborLoader`, with
        edges and features on the drives.

        Args:
            vertices: The vertices of the batches: numbers, or a mask with a bool for each vertex;
                by default all vertices.
            num_neighbors: The number of neighbours to draw for each vertex, one number per hop; -1
                for all neighbours.
            batch_size: Vertices per batch.
            features: A file of rows (`.npy`) or an array; each batch has the rows of its vertices.
            shuffle: Use another order in each epoch.
            incoming: Draw incoming edges of a vertex, not outgoing ones.
            seed: Determines, with the epoch, the order and the draws.
            workers: Threads that make the next batches in the background, two each; without them, a
                batch is made on demand.

        Each pass over the loader is an epoch; `set_epoch` chooses it. Batches are the same for any
        memory and any number of threads and workers.
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

    # Type checkers know the attributes.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def random_walks(
        self,
        starts: npt.ArrayLike | None = None,
        length: SupportsIndex = 10,
        *,
        incoming: bool = False,
        seed: SupportsIndex = SEED,
    ) -> npt.NDArray[np.int64]:
        """A walk of `length` steps from each of `starts`, or from every vertex: one row of vertices
        per walk, with -1 after a dead end. Each edge of a vertex is equally likely."""
        vertices = vertices_of("starts", starts, self.vertices)
        walks = self._values("walk", vertices=vertices, steps_count=length, incoming=incoming, seed=seed)
        wide: npt.NDArray[np.int64] = walks.astype("i8").reshape(len(vertices), whole("length", length) + 1)
        wide[wide == 0xFFFF_FFFF] = -1
        return wide

    def degrees(self, *, incoming: bool = False) -> npt.NDArray[np.uint32]:
        """The number of outgoing or incoming edges of each vertex."""
        return self._values("degrees", incoming=incoming)

    def to_scipy(self) -> Any:
        """The graph as a SciPy array in CSR form, in memory; parallel edges are summed.

        Weights are `float32`, `float64` or `int64`, as the graph stores them, or 1 (`float32`) if
        it has none. Undirected edges are in both directions.
        """
        from ._numpy import numpy

        sparse = importlib.import_module("scipy.sparse")
        fields = [("source", "<u4"), ("target", "<u4")]
        if self.weight_type is not None:
            fields.append(("weight", numpy.dtype(self.weight_type).newbyteorder("<").str))
        edges = numpy.frombuffer(_outcore.graph_edges(self._path, self._resources), fields)
        rows, columns = edges["source"], edges["target"]
        weights = edges["weight"] if self.weighted else numpy.ones(len(edges), "<f4")
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
    dtype: str | None = None,
    format: str | None = None,
    undirected: bool = False,
    weights: bool | str = False,
    weight_type: str | None = None,
    bipartite: bool = False,
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
    """Converts edges to a graph, within the allowed memory.

    Args:
        edges: Files of edges, all of one format: pairs of numbers, text (SNAP, `.el`, `.wel`), `.csv`,
            `.mtx`, `.sg`, `.wsg`, `.npz` of SciPy, or tables (Parquet, Arrow).
        path: The directory of the new graph, or `"@name"` for a dataset on all drives of a volume.
        dtype: The files hold pairs of numbers of this type, `"u32"` or `"u64"`, little endian.
        format: The format, if file names do not identify it: `"text"`, `"csv"`, `"mtx"`, `"sg"`,
            `"wsg"`, `"graph500"`, `"npz"`.
        undirected: Edges have no direction.
        weights: Edges have weights; the name of their column for CSV and tables.
        weight_type: The type of stored weights: `"f32"`, `"f64"` or `"i64"`; by default the type in
            the files, and `"f64"` for text. A weight that does not fit is an error, except that
            `"f32"` rounds.
        bipartite: Rows and columns of a matrix (`.mtx`, `.npz`) are different vertices, and rows
            get the first numbers; without it, a matrix must be square.
        relabel: Ids are not 0, 1, 2, ...: number the vertices in their order. They are `"numbers"`
            below 2**64 or, in text and CSV, `"text"` of up to 4 KiB; `True` decides by the first
            lines.
        dedup: Merge parallel edges; the smallest of their weights is kept.
        drop_loops: Leave out edges from a vertex to itself.
        vertices: Number of vertices; by default one more than the largest id.
        columns: The columns of source and target in CSV and tables; by default the first two.
        header: The first line of CSV names the columns, unless it begins with two numbers.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        drives: Directories for scratch; by default scratch is next to the graph.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        force: Replace a graph that exists.
        volume: The drives file of the volume, for a dataset; by default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress`.
    """
    given = dict(locals(), dst=path, numbers=dtype, edge_format=format)
    given["weights"] = weights if isinstance(weights, str) else "" if weights else None
    given["relabel"] = relabel if isinstance(relabel, str) else "auto" if relabel else None
    run_on_arrays("graph convert", edges, given, phases=("distribute", "sort"))
    return Graph(path, memory=memory, threads=threads, io=io, volume=volume)


_TYPES = {"<f4": "f32", "<f8": "f64", "<i8": "i64"}


def _weights_of(data: npt.NDArray[Any], weight_type: str | None) -> npt.NDArray[Any]:
    """Entries of a matrix in a type of weights, without loss unless that is `"f32"`."""
    from ._numpy import numpy

    wrong = "convert edges"
    if data.dtype.kind not in "biuf":
        raise usage(wrong, f"entries of {data.dtype} are not weights", "give whole numbers or floats")
    natural = "i64" if data.dtype.kind in "biu" else "f64" if data.dtype.itemsize > 4 else "f32"
    chosen = weight_type or natural
    if chosen not in _TYPES.values():
        raise usage(wrong, f"weights cannot be {chosen!r}", "use 'f32', 'f64' or 'i64'")
    dtype = next(dtype for dtype, name in _TYPES.items() if name == chosen)
    with numpy.errstate(all="ignore"):
        stored = data.astype(dtype)
        back = stored.astype(data.dtype)
    if chosen == "f32":
        lost = (stored == 0) & (data != 0) | ~numpy.isfinite(stored)
    else:
        lost = (back != data) | ((stored < 0) != (data < 0))
    if lost.any():
        weight = data[lost][0]
        raise usage(wrong, f"the weight {weight} does not fit in {chosen}", "choose another weight_type")
    return stored


def from_scipy(
    matrix: Any,
    path: StrPath,
    *,
    undirected: bool = False,
    weights: bool = False,
    weight_type: str | None = None,
    bipartite: bool = False,
    drop_loops: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
) -> Graph:
    """Makes a graph from a SciPy sparse matrix, with an edge for each stored entry.

    With `undirected`, entries (i, j) and (j, i) are one edge. With `weights`, entries are weights:
    `float32` and `float64` keep their type, and whole numbers become `int64`; `weight_type`
    (`"f32"`, `"f64"`, `"i64"`) chooses another type. A matrix must be square, unless `bipartite`:
    then its rows and its columns are different vertices, and rows get the first numbers.
    """
    from ._numpy import numpy

    entries = matrix.tocoo()
    rows, columns = (int(side) for side in matrix.shape)
    if rows != columns and not bipartite:
        cause = (
            f"the matrix has {counted(rows, 'row')} and {counted(columns, 'column')}: "
            "row i and column i are not the same vertex"
        )
        raise usage("convert edges", cause, "pass bipartite=True if rows and columns are different vertices")
    names = [("source", "<u4"), ("target", "<u4")]
    stored = _weights_of(entries.data, weight_type) if weights else None
    if stored is not None:
        names.append(("weight", stored.dtype.str))
    pairs = numpy.empty(entries.nnz, dtype=names)
    pairs["source"], pairs["target"] = entries.row, entries.col
    if bipartite:
        pairs["target"] += numpy.uint32(rows)
    if stored is not None:
        pairs["weight"] = stored
    beside = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=beside, suffix=".u32") as file:
        pairs.tofile(file.name)
        return convert(
            file.name,
            path,
            dtype="u32",
            undirected=undirected,
            weights=weights,
            weight_type=None if stored is None else _TYPES[stored.dtype.str],
            dedup=undirected,
            drop_loops=drop_loops,
            vertices=rows + columns if bipartite else rows,
            memory=memory,
            threads=threads,
            io=io,
            force=force,
            volume=volume,
        )


# Type checkers know the names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise unknown_name(__name__, name, __all__, {'outcore.graph.Graph("g.graph")': Graph})
