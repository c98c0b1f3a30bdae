"""Vectors far larger than memory: exact nearest neighbours; `KMeans` is in `_kmeans`.

Files of vectors are read in place. Arrays in memory are first written to a temporary file, since
every search is a pass over a file. Results are the same for any memory and number of threads.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._array_verbs import run_on_arrays
from ._arguments import Paths, Size, StrPath, path_text
from ._errors import OutcoreError, usage
from ._progress import Watcher
from ._units import whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_KINDS = ("float16", "float32", "float64", "int8", "uint8")


def _rows_of(vectors: Any, name: str) -> npt.NDArray[Any]:
    """An array whose rows are vectors, with a type of number that a file of vectors can have."""
    from ._numpy import numpy

    operation = f"read {name}"
    if hasattr(vectors, "toarray"):
        raise usage(operation, "a sparse array is not supported", "give a dense one: .toarray()")
    if numpy.ma.is_masked(vectors):
        raise usage(operation, "some values are masked", "fill them: .filled(value)")
    array = numpy.asarray(vectors)
    if array.dtype.kind == "O":
        # NumPy raises TypeError or ValueError for values that are not numbers.
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
    # Files of vectors are little-endian.
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
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
    """The path of a file with these vectors: the file itself, or a temporary copy of an array."""
    if isinstance(vectors, (str, os.PathLike)):
        yield path_text(vectors)
        return
    from ._numpy import numpy

    array = _rows_of(vectors, name)
    with tempfile.TemporaryDirectory(prefix="outcore-") as place:
        path = os.path.join(place, f"{name}.npy")
        numpy.save(path, array)
        try:
            yield path
        except OutcoreError as error:
            error.call_file(path, f"the array of {name}")
            raise


def _chosen(
    files: contextlib.ExitStack,
    subset: Any = None,
    where: str | None = None,
    table: StrPath | Sequence[StrPath] | None = None,
) -> dict[str, Any]:
    """Options for the rows of a base that may be found: all rows, the rows of a mask, or the rows for which a condition
    over tables holds."""
    from ._numpy import numpy

    if (where is None) != (table is None):
        hint = "give where, a condition, and table, the file with its columns"
        raise usage("choose vectors", "where and table go together", hint)
    if subset is not None and where is not None:
        raise usage("choose vectors", "both subset and where are given", "give one of them")
    if subset is not None and not isinstance(subset, (str, os.PathLike)):
        mask = numpy.asarray(subset)
        if mask.ndim != 1 or mask.dtype not in (bool, numpy.uint8):
            cause = f"a subset of shape {mask.shape} of {mask.dtype}"
            raise usage("choose vectors", cause, "give an array of bool with a value for each row of the base")
        subset = files.enter_context(_file_of(mask.reshape(-1, 1), "subset"))
    return {"subset": subset, "condition": where, "tables": () if table is None else table}


def knn(
    base: Any,
    queries: Any = None,
    k: SupportsIndex = 10,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    subset: Any = None,
    where: str | None = None,
    table: StrPath | Sequence[StrPath] | None = None,
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

        >>> queries = np.load("queries.npy")
        >>> distances, ids = outcore.knn("base.fbin", queries, k=10)

    Args:
        base: The vectors that are searched: a file (`.npy`, `.fbin`, `.fvecs` and similar formats,
            or raw numbers with `dtype`), or an array.
        queries: The vectors whose neighbours are searched, in the same forms; by default the
            vectors of the base; no vector is then its own neighbour.
        k: Neighbours of each query.
        metric: `"l2"` or `"euclidean"` (the squared Euclidean distance), `"ip"` or `"dot"` (the inner product, largest first),
            `"cos"` or `"cosine"` (one minus the cosine; 1 where a vector is zero) or `"hamming"` (the bits that differ, of arrays of `uint8` as `numpy.packbits` makes
            them).
        dtype: The type of raw numbers, such as `"f32x768"`.
        subset: An array of `bool` or `uint8` with a value for each row of the base, or a file of one: rows with 0 are not
            neighbours.
        where: A condition over the columns of `table`, such as `"lang == 'de' and year > 2020"`: other rows are not neighbours.
        table: A file of a table (Parquet or Arrow), or several, with a row for each vector of the base, in the same order.
        index: A file that `index_vectors` has made from the base, and that is read in place of the
            base. The result is the same.
        nprobe: For an index with lists, the number of lists that are read for each query. The
            result is exact among their vectors; without `nprobe`, all lists are read.
        facts: A dictionary that receives facts about the search, such as `"read_bytes"`. With
            `nprobe`, another read of the base then finds the exact neighbours of the first 100
            queries, and `"recall"` is the fraction of them that the search found.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, so that files may be its datasets (`"@name"`); by default the file that `OUTCORE_VOLUME` names.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Returns:
        Distances and row numbers, a row for each query, the nearest first; equal distances are
        ordered by row. If `subset` or `where` leaves fewer than `k` rows, the last places have the
        row -1 and an infinite distance.

    Raises:
        UsageError: Dimensions differ, the base has fewer rows than neighbours, or a number is NaN.
        MemoryBudgetError: The memory allowed is too little.
    """
    given = dict(locals())
    # The recall is measured only for facts.
    given.update(type_name=dtype, no_recall=nprobe is not None and facts is None)
    report, found = _search(base, queries, given, (subset, where, table))
    if facts is not None:
        facts.update(report, queries=report["records"])
    shape = (-1, whole("k", k))
    return found["distances"].reshape(shape), found["ids"].reshape(shape)


def _search(
    base: Any, queries: Any, given: dict[str, Any], chosen: tuple[Any, ...]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Searches a base for queries, or for its own rows; row numbers are signed."""
    with contextlib.ExitStack() as files:
        names = [files.enter_context(_file_of(base, "base"))]
        if queries is not None:
            names.append(files.enter_context(_file_of(queries, "queries")))
        options = {**given, **_chosen(files, *chosen), "is_self": queries is None}
        report, found = run_on_arrays("knn", names, options, phases=("search",))
    return report, {**found, "ids": found["ids"].view("i8")}


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
        src: A file of vectors, or a table, in Parquet or Arrow: a file, or a directory of them.
        output: The file to write. Its name decides on the format, and on the kind of number if the
            format has only one.
        column: The column with lists of numbers; by default the only such column.
        dtype: As in `knn`.
        to: The kind of number of the output, such as `"f16"`, if its name does not decide on it.
            Numbers of a table keep their kind.
        force: Replace an existing file.
        memory, threads, io, volume, progress: As in `knn`.

    Returns:
        The number of vectors.

    Raises:
        UsageError: A number that does not fit the new kind; in a table, a null or lists of
            different lengths.
    """
    given = {**locals(), "dst": output, "type_name": dtype, "element": to}
    report, _ = run_on_arrays("vector convert", src, given, phases=("write",))
    return int(report["records"])


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
    resume: bool = False,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> int:
    """Makes an index of a file of vectors, so that `knn` reads a quarter as much, or a few lists.

        >>> outcore.index_vectors("base.fbin", "base.vindex")
        >>> queries = np.load("queries.npy")
        >>> distances, ids = outcore.knn("base.fbin", queries, index="base.vindex")
        >>> outcore.index_vectors("base.fbin", "base.lists", nlist=1024)
        >>> distances, ids = outcore.knn("base.fbin", queries, index="base.lists", nprobe=16)

    The index has a byte for each number, and for each vector a bound on the error of these bytes.
    The index changes the amount that is read, but not the result. It is valid only for the current
    state of the base: after a change, make it again.

    With `nlist` it has the vectors themselves, grouped by the nearest of that many centroids (IVF), and takes as
    much space as the base. A search of a few lists is exact among their vectors, and may miss others.

    Args:
        base: A file of vectors of `float32`, `float16` or `float64`; with `nlist`, also of `int8`
            or `uint8`.
        output: The index.
        nlist: The number of lists: about the square root of the number of vectors, or a few times
            that.
        spherical: Group by direction, for searches with `metric="cos"`.
        seed: The seed of the first centroids.
        dtype: As in `knn`.
        force: Replace an existing file.
        resume: With `nlist`, keep the clusters next to the output. If the call is killed or fails, the same call
            continues.
        memory, threads, io, volume, progress: As in `knn`.
        drives: Directories for scratch, one on each drive, if the vectors do not fit in memory; by
            default next to the output.

    Returns:
        The size of the index in bytes.

    Raises:
        UsageError: A number is infinite or NaN, or the output exists.
    """
    given = {**locals(), "dst": output, "type_name": dtype}
    report, _ = run_on_arrays("vector index", base, given, phases=("write",))
    return int(report["index_bytes"])


def range_search(
    base: Any,
    queries: Any = None,
    radius: float = 1.0,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    subset: Any = None,
    where: str | None = None,
    table: StrPath | Sequence[StrPath] | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Finds all vectors within a distance of queries, exactly.

        >>> queries = np.load("queries.npy")
        >>> limits, distances, ids = outcore.range_search("base.fbin", queries, 0.2, metric="cos")
        >>> ids[limits[3] : limits[4]]      # those of the fourth query

    Args:
        base, queries: As in `knn`.
        radius: The largest distance; for `"ip"`, the smallest inner product. Vectors exactly at the
            radius are included (in faiss they are not).
        metric, dtype, subset, where, table, memory, threads, io, volume, progress: As in `knn`.
            Results must fit in memory.

    Returns:
        The limits (where the results of each query begin, and where the last ones end), the
        distances, and the row numbers, in order for each query.

    Raises:
        UsageError: Dimensions differ, or a number is NaN.
        MemoryBudgetError: The memory allowed is too little.
    """
    given = {**locals(), "radius": float(radius), "type_name": dtype}
    _, found = _search(base, queries, given, (subset, where, table))
    return found["limits"].view("i8"), found["distances"], found["ids"]


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
        min_cos: The minimum cosine of a pair.
        max_l2: The largest squared Euclidean distance of a pair.
        max_hamming: The largest number of bits in which a pair differs, for packed bits. Give one
            of the three.
        dtype, memory, threads, io, volume, progress: As in `knn`. Pairs must fit in memory.

    Returns:
        Pairs of row numbers, the smaller first, in order; and the distances of the pairs: one minus
        the cosine, the squared Euclidean distance, or the number of bits that differ.
    """
    if sum(bound is not None for bound in (min_cos, max_l2, max_hamming)) != 1:
        hint = "give min_cos, max_l2 or max_hamming"
        raise usage("find pairs", "one bound is needed", hint)
    given = {**locals(), "type_name": dtype}
    with _file_of(base, "base") as name:
        _, found = run_on_arrays("vector pairs", name, given, phases=("search",))
    return found["ids"].view("i8").reshape(-1, 2), found["distances"]


def _is_same(file: StrPath, target: str) -> bool:
    return os.path.exists(target) and os.path.samefile(file, target)


def ground_truth(
    base: Any,
    queries: Any,
    path: StrPath,
    k: SupportsIndex = 100,
    *,
    metric: str = "l2",
    dtype: str | None = None,
    subset: Any = None,
    where: str | None = None,
    table: StrPath | Sequence[StrPath] | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: StrPath | None = None,
    force: bool = False,
) -> None:
    """Writes the exact neighbours of queries in the format of big-ann-benchmarks.

    The file has the numbers of queries and neighbours as two `uint32`, then all ids as `uint32`,
    then all distances as `float32`. It appears whole or not at all.

    Args:
        base, queries: As in `knn`.
        path: The file to write.
        k: Neighbours of each query.
        metric, dtype, subset, where, table, memory, threads, io, volume: As in `knn`.
        force: Replace a file that exists.
    """
    from ._numpy import numpy

    target = path_text(path)
    read = [file for file in (base, queries, subset, table) if isinstance(file, (str, os.PathLike))]
    if any(os.path.exists(file) and _is_same(file, target) for file in read):
        raise usage("create output", f"{target} is an input", "give another name")
    if os.path.lexists(target) and not force:
        raise usage("create output", f"{target} exists", "give force=True, or another name")
    limits = {"memory": memory, "threads": threads, "io": io, "volume": volume}
    chosen = {"subset": subset, "where": where, "table": table}
    distances, ids = knn(base, queries, k, metric=metric, dtype=dtype, **chosen, **limits)  # type: ignore[arg-type]
    if ids.size and int(ids.max()) >= 1 << 32:
        raise usage("create output", "ids beyond 32 bits", "use knn, whose ids have 64 bits")
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
