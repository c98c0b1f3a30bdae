"""Vectors far larger than memory: exact nearest neighbours and k-means.

Files of vectors are read where they lie; arrays in memory are written to a temporary file first,
since every search is a pass over a file. Results are the same for any memory and threads.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _outcore
from ._api import _SEED, Paths, Size, StrPath, _path, _resources
from ._errors import UsageError, usage
from ._progress import Watcher, telling
from ._units import whole
from ._wire import (
    IndexRequest,
    KmeansRequest,
    KnnRequest,
    LabelRequest,
    RangeRequest,
    VectorConvertRequest,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_METRICS = ("l2", "ip", "cos", "hamming")
_STARTS = ("k-means++", "k-means||", "random")
_RECALL_QUERIES = 100
_ELEMENTS = ("f16", "f32", "f64", "i8", "u8", "i32", "i64")
_TABLES = (".parquet", ".pq", ".parq", ".arrow", ".feather", ".ipc", ".arrows")
_KINDS = ("float16", "float32", "float64", "int8", "uint8")


def _rows_of(vectors: Any, name: str) -> npt.NDArray[Any]:
    """An array whose rows are vectors, of numbers that a file of vectors can have."""
    import numpy

    operation = f"read {name}"
    if hasattr(vectors, "toarray"):
        raise usage(operation, "a sparse array is not supported", "give a dense one: .toarray()")
    array = numpy.asarray(vectors)
    if array.dtype.kind == "O":
        # What is no number is NumPy's TypeError or ValueError.
        array = array.astype(numpy.float64)
    if array.dtype == bool:
        array = array.astype(numpy.uint8)
    if array.dtype.kind == "c":
        hint = "give the real and the imaginary parts as columns"
        raise usage(operation, "Complex data not supported", hint)
    if array.dtype.kind not in "fiu":
        raise usage(operation, f"an array of {array.dtype}", "give an array of numbers")
    if array.dtype.name not in _KINDS:
        array = array.astype(numpy.float64)
    if array.ndim != 2:
        hint = "Reshape your data to two dimensions: a row for each vector"
        raise usage(operation, f"an array of shape {array.shape}", hint)
    for what, count in zip(("sample", "feature"), array.shape, strict=True):
        if count == 0:
            cause = f"0 {what}(s) (shape={array.shape}) while a minimum of 1 is required."
            raise usage(operation, cause, "give at least one vector of one number")
    return numpy.ascontiguousarray(array)


@contextlib.contextmanager
def _file_of(vectors: Any, name: str) -> Iterator[str]:
    """The path of a file with these vectors: theirs, or a copy of an array for as long as it is needed."""
    if isinstance(vectors, (str, os.PathLike)):
        yield _path(vectors)
        return
    import numpy

    array = _rows_of(vectors, name)
    with tempfile.TemporaryDirectory(prefix="outcore-") as place:
        path = os.path.join(place, f"{name}.npy")
        numpy.save(path, array)
        yield path


def knn(
    base: Any,
    queries: Any = None,
    k: SupportsIndex = 10,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    subset: StrPath | None = None,
    index: StrPath | None = None,
    nprobe: SupportsIndex | None = None,
    facts: dict[str, Any] | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Finds the exact nearest neighbours of vectors, by one pass over the base.

        >>> distances, ids = outcore.knn("base.fbin", queries, k=10)

    Args:
        base: The vectors that are searched: a file (`.npy`, `.fbin`, `.fvecs` and their kin, or raw
            numbers with `dtype`), or an array.
        queries: The vectors whose neighbours are looked for, likewise; by default those of the base,
            none of which is its own neighbour.
        k: Neighbours of each query.
        metric: `"l2"` (the squared Euclidean distance), `"ip"` (the inner product, largest first), `"cos"` (one
            minus the cosine) or `"hamming"` (the bits that differ, of arrays of `uint8` as `numpy.packbits` makes
            them).
        dtype: The type of raw numbers, such as `"f32x768"`.
        subset: A file with a byte for each row of the base: those with 0 are not neighbours.
        index: A file that `index_vectors` has made of the base, which is read in its stead. The result is the same.
        nprobe: Of an index with lists, how many are read for each query. The result is exact among their vectors; without a
            number all are read.
        facts: A dictionary that gets how the search went, such as `"read_bytes"`. With `nprobe`, the exact
            neighbours of the first 100 queries are then looked for, too, by one more read of the base, and
            `"recall"` is the part of them that was found.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, of which files may be datasets (`"@name"`); by default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Returns:
        Distances and row numbers, a row for each query, the nearest first; equal distances by row.

    Raises:
        UsageError: Dimensions differ, there are fewer rows than neighbours, or a number is NaN.
        MemoryBudgetError: The memory allowed is too little.
    """
    import numpy

    if metric not in _METRICS:
        raise usage("search neighbours", f"metric {metric!r} is unknown", "give l2, ip, cos or hamming")
    with contextlib.ExitStack() as files:
        request = KnnRequest(
            base=files.enter_context(_file_of(base, "base")),
            queries=None if queries is None else files.enter_context(_file_of(queries, "queries")),
            type_name=dtype,
            k=whole("k", k),
            metric=metric,
            subset=None if subset is None else _path(subset),
            index=None if index is None else _path(index),
            nprobe=None if nprobe is None else whole("nprobe", nprobe),
            recall_queries=0 if facts is None else _RECALL_QUERIES,
            resources=_resources(memory, threads, (), io, None, _SEED, volume),
        )
        with telling(progress, ("search",)) as tell:
            ids, distances, told = _outcore.vector_knn(request, tell)
    if facts is not None:
        facts.update(json.loads(told))
    shape = (-1, whole("k", k))
    return (
        numpy.frombuffer(distances, "<f8").reshape(shape),
        numpy.frombuffer(ids, "<i8").reshape(shape),
    )


def convert_vectors(
    src: StrPath,
    output: StrPath,
    *,
    column: str | None = None,
    dtype: str | None = None,
    to: str | None = None,
    force: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> int:
    """Writes vectors in another format, or those in a column of a Parquet or Arrow table.

        >>> outcore.convert_vectors("sift_base.fvecs", "sift.fbin")
        >>> outcore.convert_vectors("docs.parquet", "embeddings.npy", column="embedding")

    Args:
        src: A file of vectors, or a table: one that ends in `.parquet`, `.arrow` or the like, a directory of such files, or any
            for which `column` is given.
        output: What is written; its name tells the format, and the kind of number where that has only one.
        column: The column with lists of numbers; by default the only one that there is.
        dtype: As in `knn`.
        to: The kind of number of the output, such as `"f16"`, where its name does not tell. Those of a table stay as they are.
        force: Replace an existing file.
        memory, threads, io, volume, progress: As in `knn`.

    Returns:
        How many vectors there are.

    Raises:
        UsageError: A number that the new kind does not hold; in a table, a null or lists of different lengths.
    """
    if to is not None and to not in _ELEMENTS:
        raise usage("convert vectors", f"{to!r} is not a kind of number", f"give {', '.join(_ELEMENTS)}")
    path = _path(src)
    is_table = column is not None or os.path.isdir(path) or path.endswith(_TABLES)
    if is_table and (to is not None or dtype is not None):
        cause = "the numbers of a table's column have a type, and stay as they are"
        raise usage("convert vectors", cause, "leave dtype and to out; convert the output afterwards")
    request = VectorConvertRequest(
        input=path,
        type_name=dtype,
        output=_path(output),
        element=to,
        is_table=is_table,
        column=column,
        force=force,
        resources=_resources(memory, threads, (), io, None, _SEED, volume),
    )
    with telling(progress, ("write",)) as tell:
        return _outcore.vector_convert(request, tell)


def index_vectors(
    base: StrPath,
    output: StrPath,
    *,
    nlist: SupportsIndex | None = None,
    spherical: bool = False,
    seed: SupportsIndex = 1,
    dtype: str | None = None,
    force: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> int:
    """Makes an index of a file of vectors, with which `knn` reads a quarter as much, or a few lists.

        >>> outcore.index_vectors("base.fbin", "base.vindex")
        >>> distances, ids = outcore.knn("base.fbin", queries, index="base.vindex")
        >>> outcore.index_vectors("base.fbin", "base.lists", nlist=1024)
        >>> distances, ids = outcore.knn("base.fbin", queries, index="base.lists", nprobe=16)

    The index has a byte for each number, and for each vector a proof of how far these bytes may be off; so it changes
    what is read, and no result. It belongs to the base as it is now: after a change, make it again.

    With `nlist` it has the vectors themselves, grouped by the nearest of that many centroids (IVF), and takes as
    much space as the base. A search of a few lists is exact among their vectors, and may miss others.

    Args:
        base: A file of vectors of `float32`, `float16` or `float64`; with `nlist`, of `int8` or `uint8`, too.
        output: The index.
        nlist: Lists, about the square root of the number of vectors, or a few times that.
        spherical: Group by direction, for searches with `metric="cos"`.
        seed: The seed of the first centroids.
        dtype: As in `knn`.
        force: Replace an existing file.
        memory, threads, io, volume, progress: As in `knn`.
        drives: Directories for scratch, one on each drive, where the vectors do not fit into memory; by default
            beside the output.

    Returns:
        The bytes of the index.

    Raises:
        UsageError: A number is infinite or NaN, or the output exists.
    """
    request = IndexRequest(
        base=_path(base),
        type_name=dtype,
        output=_path(output),
        nlist=None if nlist is None else whole("nlist", nlist),
        spherical=spherical,
        seed=whole("seed", seed),
        force=force,
        resources=_resources(memory, threads, drives, io, None, _SEED, volume),
    )
    with telling(progress, ("write",)) as tell:
        return _outcore.vector_index(request, tell)


def range_search(
    base: Any,
    queries: Any = None,
    radius: float = 1.0,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    subset: StrPath | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Finds all vectors within a distance of queries, exactly.

        >>> limits, distances, ids = outcore.range_search("base.fbin", queries, 0.2, metric="cos")
        >>> ids[limits[3] : limits[4]]      # those of the fourth query

    Args:
        base: As in `knn`.
        queries: As in `knn`.
        radius: The largest distance; for `"ip"`, the least inner product. Both are within. (In faiss they are
            not.)
        metric: As in `knn`.
        dtype: As in `knn`.
        subset: As in `knn`.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free. Results have to fit.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, of which files may be datasets (`"@name"`); by default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Returns:
        Where the results of each query begin, and where the last ones end; distances; and row numbers, in
        order for each query.

    Raises:
        UsageError: Dimensions differ, or a number is NaN.
        MemoryBudgetError: The memory allowed is too little.
    """
    limits = (memory, threads, io, volume)
    return _range(base, queries, radius, False, metric, dtype, subset, limits, progress)


def pairs(
    base: Any,
    *,
    min_cos: float | None = None,
    max_l2: float | None = None,
    max_hamming: int | None = None,
    dtype: str | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Finds all pairs of near vectors, exactly: near-duplicates.

        >>> pairs, distances = outcore.pairs("embeddings.npy", min_cos=0.95)

    Every vector is compared with every later one, so the time grows with the square of their number.

    Args:
        base: As in `knn`.
        min_cos: The least cosine of a pair.
        max_l2: The largest squared Euclidean distance of a pair.
        max_hamming: The most bits in which a pair differs, of packed bits. Give one of the three.
        dtype: As in `knn`.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free. Pairs have to fit.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, of which files may be datasets (`"@name"`); by default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Returns:
        Pairs of row numbers, the smaller first, in order; and their distances, one minus the cosine, the squared
        Euclidean or the bits that differ.
    """
    cosine = None if min_cos is None else 1.0 - min_cos
    bounds = {"cos": cosine, "l2": max_l2, "hamming": max_hamming}
    given = [(metric, bound) for metric, bound in bounds.items() if bound is not None]
    if len(given) != 1:
        hint = "give min_cos, max_l2 or max_hamming"
        raise usage("find pairs", "one bound is needed", hint)
    [(metric, radius)] = given
    limits = (memory, threads, io, volume)
    _, distances, ids = _range(base, None, radius, True, metric, dtype, None, limits, progress)
    return ids.reshape(-1, 2), distances


def _range(
    base: Any,
    queries: Any,
    radius: float,
    is_pairs: bool,
    metric: str,
    dtype: str | None,
    subset: StrPath | None,
    limits: tuple[Size | None, SupportsIndex | None, str | None, StrPath | None],
    progress: Watcher | bool | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    import numpy

    if metric not in _METRICS:
        raise usage("search within a radius", f"metric {metric!r} is unknown", "give l2, ip, cos or hamming")
    memory, threads, io, volume = limits
    with contextlib.ExitStack() as files:
        request = RangeRequest(
            base=files.enter_context(_file_of(base, "base")),
            queries=None if queries is None else files.enter_context(_file_of(queries, "queries")),
            type_name=dtype,
            radius=float(radius),
            metric=metric,
            subset=None if subset is None else _path(subset),
            is_pairs=is_pairs,
            resources=_resources(memory, threads, (), io, None, _SEED, volume),
        )
        with telling(progress, ("search",)) as tell:
            begins, ids, distances = _outcore.vector_range(request, tell)
    return (
        numpy.frombuffer(begins, "<i8"),
        numpy.frombuffer(distances, "<f8"),
        numpy.frombuffer(ids, "<i8"),
    )


def ground_truth(
    base: Any,
    queries: Any,
    path: StrPath,
    k: SupportsIndex = 100,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    force: bool = False,
) -> None:
    """Writes the exact neighbours of queries as big-ann-benchmarks has them.

    The file has the numbers of queries and neighbours as two `uint32`, then all ids as `uint32`,
    then all distances as `float32`. It appears whole or not at all.

    Args:
        base: As in `knn`.
        queries: As in `knn`.
        path: The file to write.
        k: Neighbours of each query.
        metric: As in `knn`.
        dtype: As in `knn`.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, of which files may be datasets (`"@name"`); by default that of `OUTCORE_VOLUME`.
        force: Replace a file that exists.
    """
    import numpy

    target = _path(path)
    if os.path.lexists(target) and not force:
        raise usage("create output", f"{target} exists", "give force=True, or another name")
    limits = {"memory": memory, "threads": threads, "io": io, "volume": volume}
    distances, ids = knn(base, queries, k, metric=metric, dtype=dtype, **limits)  # type: ignore[arg-type]
    if ids.size and int(ids.max()) >= 1 << 32:
        raise usage("create output", "ids beyond 32 bits", "use knn, which has 64 bits")
    beside = os.path.dirname(os.path.abspath(target))
    with tempfile.NamedTemporaryFile(dir=beside, delete=False) as file:
        try:
            numpy.array(ids.shape, "<u4").tofile(file)
            ids.astype("<u4").tofile(file)
            distances.astype("<f4").tofile(file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _as_not_fitted(error: UsageError) -> UsageError:
    """The error, which is also what scikit-learn raises in its place, where that is in use."""
    exceptions: Any = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return error
    kind: Any = type("NotFittedError", (UsageError, exceptions.NotFittedError), {})
    made: UsageError = kind(*error.args)
    made.operation, made.cause, made.hint = error.operation, error.cause, error.hint
    return made


class KMeans:
    """k-means over vectors on drives, with scikit-learn's names.

        >>> model = outcore.KMeans(64, memory="2GiB").fit("base.fbin")
        >>> model.cluster_centers_, model.inertia_

    Args:
        n_clusters: Clusters.
        init: `"k-means++"` (on a sample), `"k-means||"` (on all vectors, by three passes), `"random"`, or
            an array or file of centroids to start from.
        n_init: Runs from different starts, of which the one with the least inertia is kept.
        max_iter: Iterations, at most.
        tol: The run ends when the squares of all moves of centroids sum to no more than this part of
            the mean variance of the columns.
        random_state: Seed of the starts; the same result each time if it is `None`, too.
        spherical: Take vectors and centroids at norm 1.
        checkpoint: A file that has the centroids between iterations: the same call goes on from there if it was stopped. It goes when the
            run is done. Only of one run.
        dtype: The type of raw numbers, such as `"f32x768"`.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, of which files may be datasets (`"@name"`); by default that of `OUTCORE_VOLUME`.

    Attributes:
        cluster_centers_: Centroids, an array of `float64`.
        inertia_: The sum of the squared distances of all vectors to their centroids.
        n_iter_: Iterations.
        labels_: The cluster of each vector; a pass over the base when they are first asked for.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: int | None = None,
        spherical: bool = False,
        checkpoint: StrPath | None = None,
        dtype: str | None = None,
        memory: Size | None = None,
        threads: SupportsIndex | None = None,
        io: str | None = None,
        volume: StrPath | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.spherical = spherical
        self.dtype = dtype
        self.memory = memory
        self.threads = threads
        self.io = io
        self.volume = volume

    cluster_centers_: npt.NDArray[np.float64]
    _labels: npt.NDArray[np.int32] | None

    _PARAMETERS: tuple[str, ...] = (
        "n_clusters", "init", "n_init", "max_iter", "tol", "random_state", "spherical",
        "checkpoint", "dtype", "memory", "threads", "io", "volume",
    )  # fmt: skip

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments, by name."""
        return {name: getattr(self, name) for name in self._PARAMETERS}

    def set_params(self, **params: Any) -> KMeans:
        """Sets arguments by name."""
        for name, value in params.items():
            if name not in self._PARAMETERS:
                hint = f"there are {', '.join(self._PARAMETERS)}"
                raise usage("set parameters", f"{name!r} is unknown", hint)
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; only scikit-learn calls this, so it is there."""
        utils: Any = importlib.import_module("sklearn.utils")
        target_tags = utils.TargetTags(required=False)
        return utils.Tags(
            estimator_type="clusterer", target_tags=target_tags, input_tags=utils.InputTags()
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    def fit(self, X: Any, y: None = None) -> KMeans:
        """Clusters the vectors of a file or an array."""
        found = self._run(X, self.init)
        self.n_iter_ = int(found["iterations"])
        self._fitted = X
        self._labels = None
        return self

    def _batches(self) -> tuple[int | None, int | None]:
        """The rows of a batch, and how many batches in turn may bring no improvement."""
        return None, None

    def _run(
        self, X: Any, start: Any, row_counts: list[int] | None = None, *, is_partial: bool = False
    ) -> Any:
        """Clusters vectors, keeps what was found, and gives the facts of the run."""
        centroids, found = self._cluster(X, start, row_counts, is_partial=is_partial)
        self.cluster_centers_ = centroids
        self.inertia_ = float(found["inertia"])
        self.n_features_in_ = int(found["dimension"])
        return found

    def _cluster(
        self,
        X: Any,
        start: Any,
        row_counts: list[int] | None = None,
        *,
        is_partial: bool = False,
        iterations: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """Clusters vectors: centroids and the facts of the run."""
        import numpy

        with contextlib.ExitStack() as files:
            base = files.enter_context(_file_of(X, "vectors"))
            is_named = isinstance(start, str) and start in _STARTS
            init = start if is_named else files.enter_context(_file_of(start, "centroids"))
            is_kept = self.checkpoint is not None and iterations is None
            # Without iterations nothing moves, and there are no batches.
            batch_rows, patience = (None, None) if iterations == 0 else self._batches()
            request = KmeansRequest(
                base=base,
                type_name=self.dtype,
                k=whole("n_clusters", self.n_clusters),
                init=init,
                batch_rows=batch_rows,
                patience=patience,
                row_counts=row_counts,
                is_partial=is_partial,
                iterations=whole("max_iter", self.max_iter if iterations is None else iterations),
                tolerance=float(self.tol),
                runs=whole("n_init", self.n_init),
                seed=1 if self.random_state is None else whole("random_state", self.random_state),
                spherical=bool(self.spherical),
                checkpoint=_path(self.checkpoint) if is_kept else None,
                resources=self._limits(),
            )
            centroids, facts = _outcore.vector_kmeans(request, None)
        found = json.loads(facts)
        numbers = numpy.frombuffer(centroids, "<f8")
        return numbers.reshape(-1, found["dimension"]), found

    @property
    def labels_(self) -> npt.NDArray[np.int32]:
        """The cluster of each vector that was clustered."""
        self._check_fitted()
        if self._labels is None:
            self._labels = self.predict(self._fitted)
        return self._labels

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """The nearest centroid of each vector of a file or an array, as an array in memory."""
        import numpy

        with tempfile.TemporaryDirectory(prefix="outcore-") as place:
            labels = os.path.join(place, "labels.npy")
            self.label(X, labels)
            return numpy.load(labels)  # type: ignore[no-any-return]

    def label(self, X: Any, path: StrPath, *, force: bool = False) -> None:
        """Writes the nearest centroid of each vector to a file, whole or not at all."""
        self._check_fitted()
        X = self._check_features(X)
        with contextlib.ExitStack() as files:
            request = LabelRequest(
                base=files.enter_context(_file_of(X, "vectors")),
                type_name=self.dtype,
                centroids=files.enter_context(_file_of(self.cluster_centers_, "centroids")),
                spherical=bool(self.spherical),
                output=_path(path),
                force=bool(force),
                resources=self._limits(),
            )
            _outcore.vector_label(request, None)

    def score(self, X: Any, y: None = None) -> float:
        """The negative of the sum of the squared distances of the vectors of a file or an array to their centroids."""
        self._check_fitted()
        _, found = self._cluster(self._check_features(X), self.cluster_centers_, iterations=0)
        return -float(found["inertia"])

    def fit_predict(self, X: Any, y: None = None) -> npt.NDArray[np.int32]:
        """Clusters vectors, and gives the cluster of each."""
        return self.fit(X).labels_

    def _check_fitted(self) -> None:
        if not hasattr(self, "cluster_centers_"):
            error = usage("cluster vectors", "nothing has been clustered", "call fit first")
            raise _as_not_fitted(error)

    def _check_features(self, X: Any) -> Any:
        """The vectors, where they are an array, once it is known that they are like those that were clustered."""
        if isinstance(X, (str, os.PathLike)):
            return X
        array = _rows_of(X, "vectors")
        if array.shape[1] != self.n_features_in_:
            cause = (
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
            raise usage("cluster vectors", cause, "give vectors like those that were clustered")
        return array

    def _limits(self) -> Any:
        return _resources(self.memory, self.threads, (), self.io, None, _SEED, self.volume)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_clusters={self.n_clusters})"


class MiniBatchKMeans(KMeans):
    """k-means by mini-batches (Sculley 2010), with scikit-learn's names.

        >>> model = outcore.MiniBatchKMeans(4096, batch_size=65536).fit("base.fbin")
        >>> for batch in batches:
        ...     model.partial_fit(batch)

    Each step draws rows of the file at random and moves centroids to the means of all rows that they were
    given so far. `fit` reads the file once at the end, for the inertia.

    Args:
        n_clusters: Clusters.
        init: As in `KMeans`.
        n_init: As in `KMeans`.
        max_iter: Batches have this many times the rows of the file in all, at most.
        batch_size: Rows of a batch; at most those of the file.
        tol: As in `KMeans`, for the moves of one batch; by default it ends nothing.
        max_no_improvement: The run ends when this many batches in a row have not improved the smoothed
            distance; `None` for never.
        random_state: Seed of the start and the batches; the same result each time if it is `None`, too.
        spherical: As in `KMeans`.
        dtype: As in `KMeans`.
        memory: As in `KMeans`.
        threads: As in `KMeans`.
        io: As in `KMeans`.
        volume: As in `KMeans`.

    Attributes:
        cluster_centers_: Centroids, an array of `float64`.
        counts_: Rows that each centroid was given so far; after `fit`, the rows of each cluster.
        inertia_: As in `KMeans`; after `partial_fit`, that of the last batch before centroids moved.
        n_steps_: Batches.
        n_iter_: How often as many rows as the file has were drawn, rounded up.
        labels_: As in `KMeans`; after `partial_fit`, those of the last batch.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        batch_size: int = 1024,
        tol: float = 0.0,
        max_no_improvement: int | None = 10,
        random_state: int | None = None,
        spherical: bool = False,
        dtype: str | None = None,
        memory: Size | None = None,
        threads: SupportsIndex | None = None,
        io: str | None = None,
        volume: StrPath | None = None,
    ) -> None:
        super().__init__(
            n_clusters, init=init, n_init=n_init, max_iter=max_iter, tol=tol, random_state=random_state,
            spherical=spherical, dtype=dtype, memory=memory, threads=threads, io=io, volume=volume,
        )  # fmt: skip
        self.batch_size = batch_size
        self.max_no_improvement = max_no_improvement

    _PARAMETERS = (
        *(name for name in KMeans._PARAMETERS if name != "checkpoint"),
        "batch_size",
        "max_no_improvement",
    )

    def _batches(self) -> tuple[int | None, int | None]:
        most = self.max_no_improvement
        patience = None if most is None else whole("max_no_improvement", most)
        return whole("batch_size", self.batch_size), patience

    def fit(self, X: Any, y: None = None) -> MiniBatchKMeans:
        """Clusters the vectors of a file or an array."""
        found = self._run(X, self.init)
        self._take(X, found)
        self.n_steps_ = int(found["iterations"])
        drawn = self.n_steps_ * min(whole("batch_size", self.batch_size), found["rows"])
        self.n_iter_ = -(-drawn // found["rows"])
        return self

    def partial_fit(self, X: Any, y: None = None) -> MiniBatchKMeans:
        """Takes the vectors of a file or an array as one batch."""
        is_first = not hasattr(self, "cluster_centers_")
        X = X if is_first else self._check_features(X)
        start = self.init if is_first else self.cluster_centers_
        counts = None if is_first else [int(count) for count in self.counts_]
        self._take(X, self._run(X, start, counts, is_partial=True))
        self.n_steps_ = 1 if is_first else self.n_steps_ + 1
        return self

    def _take(self, X: Any, found: Any) -> None:
        import numpy

        self.counts_: npt.NDArray[np.int64] = numpy.array(found["row_counts"], "i8")
        self._fitted = X
        self._labels = None
