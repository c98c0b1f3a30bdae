"""Verbs on records: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, SupportsIndex

from ._arguments import Keys, Paths, Record, Size, StrPath
from ._column import Expression, Expressions
from ._progress import Watcher
from ._reports import FindSummary, GenSummary, HistogramSummary, LookupSummary, PartitionSummary, ReduceSummary, TopSummary, WriteSummary
from ._words import Option, run

if TYPE_CHECKING:
    import numpy.typing as npt

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "ascii": Option("flag", "--ascii", False),
    "at": Option("path", "--at", ...),
    "at_type": Option("text", "--at-type", None),
    "bins": Option("number", "--bins", 10),
    "codec": Option("text", "--codec", None),
    "condition": Option("text", "condition", ...),
    "gen.count": Option("number", "--count", ...),
    "count": Option("number", "--count", 10),
    "dist": Option("text", "--dist", None),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "gen.dtype": Option("dtype", "dtype", ...),
    "exclusive": Option("flag", "--exclusive", False),
    "explain": Option("flag", "--explain", False),
    "expression": Option("text", "expression", ...),
    "expressions": Option("joined", "expressions", ...),
    "first": Option("wide", "--first", None),
    "force": Option("flag", "--force", False),
    "how": Option("text", "how", ...),
    "index": Option("path", "--index", None),
    "io": Option("text", "--io", None),
    "key": Option("texts", "--key", None),
    "keys": Option("path", "--keys", ...),
    "length": Option("number", "--length", ...),
    "lines": Option("flag", "--lines", False),
    "map": Option("text", "--map", None),
    "memory": Option("size", "--memory", None),
    "op": Option("text", "op", ...),
    "partition.parts": Option("number", "--parts", 2),
    "parts": Option("number", "--parts", None),
    "range": Option("pair", "--range", None),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "scratch_limit": Option("size", "--scratch-limit", None),
    "seed": Option("number", "--seed", 1),
    "side": Option("text", "--side", "left"),
    "skewed": Option("flag", "--skewed", False),
    "smallest": Option("flag", "--smallest", False),
    "threads": Option("number", "--threads", None),
    "values": Option("flag", "--values", False),
    "where": Option("expressions", "--where", ()),
    "zero_terminated": Option("flag", "--zero-terminated", False),
    "zip": Option("paths", "--zip", ()),
}


def gen(
    dtype: npt.DTypeLike, dst: StrPath, count: SupportsIndex, *, dist: str | None = None,
    seed: SupportsIndex = 1, ascii: bool = False, skewed: bool = False, first: SupportsIndex | None = None,
    codec: str | None = None, parts: SupportsIndex | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (), force: bool = False,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> GenSummary:
    """Generate records and tables for tests, measurements and examples.

    The output depends only on type, count, distribution, seed and format.

    Tables: sales (what a shop sold), logs (requests to a web server) and documents (pages of text, a fifth of
    which repeat others, nearly or exactly). A name that ends in .log or .txt gets lines of text: logs in the
    combined log format of web servers, documents without their other columns.

    Examples:
        >>> outcore.gen("u64", "keys.bin", 1000000000, dist="zipf:1.2")
        >>> outcore.gen("sales", "sales.parquet", 1000000)
        >>> outcore.gen("logs", "access.log", 1000000)
        >>> outcore.gen("u32x2", "edges.u32", 16777216, dist="rmat:20")

    Args:
        dtype: Record type, as in `sort`; gensort makes the records of sortbenchmark.org's gensort 1.5, byte
            for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort`; sales, logs and documents are
            tables. A dtype of NumPy also works. `u8` and `i8` mean one thing here and another to NumPy, and
            are rejected.
        dst: Output: a file (.npy gets a header; a table is Parquet, Arrow, CSV or JSON lines by its name), or
            one shard per drive if the name contains {drive}.
        count: Number of records or rows.
        dist: Distribution of the keys: uniform (the whole range; for floats all finite values, so distances
            between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA, zipf:S[:RANKS], normal,
            clusters:K (vectors around K centres), rmat:SCALE (edges of a graph of 2^SCALE vertices, for pairs
            such as u32x2), kronecker:SCALE (the same with vertices in random order, as in Graph500), sorted,
            reversed, equal. normal and clusters are for floats and integers of up to 32 bits. Default:
            uniform.
        ascii: Make printable records.
        skewed: Make keys that share prefixes.
        first: Number of the first record.
        codec: Compression of a table, as in `convert codec=`.
        force: Replace an existing file.
        seed: As in `shuffle`.
        parts, memory, threads, io, drives, explain, record_io, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run("gen", GenSummary, ("generate",), _OPTIONS, locals())


def zip(
    src: Paths, dst: StrPath, *, zip: Paths = (), where: Expressions = (), dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    force: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Zip the records of several files.

    Record i of the output is record i of `src` followed by record i of each file given with zip=.

    Args:
        src: Files to read, in order, as one input: raw records, .npy, or a manifest (.outcore.json) of
            shards.
        dst: Output: a file (.npy gets a header), or one shard per drive if the name contains {drive}.
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.

    Raises: What `sort` raises.
    """
    return run("zip", WriteSummary, ("write",), _OPTIONS, locals())


def flat_map(
    src: Paths, expressions: Expressions, dst: StrPath, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Compute several numbers from each record.

    The output has the values of all expressions for the first record, then those for the second, and so on.
    All expressions must have the same type.

    Examples:
        >>> outcore.flat_map("keys.bin", "x, x + 1", "both.bin", dtype="u64")
        >>> outcore.flat_map("edges.bin", "key0,key1", "ends.bin", record=16, key=["0:8:u64", "8:8:u64"])

    Args:
        expressions: What to compute: a list of expressions, or a text of expressions separated by commas.
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("flat-map", WriteSummary, ("write",), _OPTIONS, locals())


def enumerate(
    src: Paths, dst: StrPath, *, zip: Paths = (), where: Expressions = (), dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    force: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Put the position of each record before it.

    Each record of the output is a position (8 bytes, from 0) followed by the record; a .npy output has the
    fields position and value. With where=, only records that are kept have positions.

    Args:
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("enumerate", WriteSummary, ("write",), _OPTIONS, locals())


def windows(
    src: Paths, dst: StrPath, length: SupportsIndex, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Write each record together with the records that follow it.

    Record i of the output is records i to i + K - 1 of the input, one after another. The input is read once,
    or up to K times if K - 1 records take more than 4 KiB.

    Args:
        length: Number of records in each window, 2 to 8.
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("windows", WriteSummary, ("write",), _OPTIONS, locals())


def reverse(
    src: Paths, dst: StrPath, *, zip: Paths = (), where: Expressions = (), dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    force: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Write the last record first.

    Args:
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("reverse", WriteSummary, ("write",), _OPTIONS, locals())


def reduce(
    src: Paths, how: Expression, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, map: Expression | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> ReduceSummary:
    """Reduce all records to one value: sum, count, min, max, mean or an expression.

    Sums of integers are exact, whatever their size. Sums of floats depend only on the input, never on threads
    or memory. With map=, the values of that expression for the records are reduced.

    Examples:
        >>> outcore.reduce("keys.bin", "sum,min,max,mean", dtype="u64")
        >>> outcore.reduce("keys.bin", "count", where="x % 2 == 0", dtype="u64")
        >>> outcore.reduce("keys.bin", "a ^ b", dtype="u64")
        >>> outcore.reduce("keys.bin", "sum", dtype="u64", map="x * x")

    Args:
        how: What to compute: sum, count, min, max or mean, several separated by commas, or an associative
            expression of a and b.
        map: Apply this expression to each record first.
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("reduce", ReduceSummary, ("reduce",), _OPTIONS, locals())


def scan(
    src: Paths, op: Literal["sum", "product", "min", "max"], dst: StrPath, *, zip: Paths = (),
    where: Expressions = (), dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, explain: bool = False, force: bool = False,
    map: Expression | None = None, exclusive: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Write prefix sums, products, minima or maxima.

    Number i of the output combines the numbers up to i, in their own type. Integers wrap around, so cast
    small types first: map='u64(x)'.

    Args:
        op: The operation.
        exclusive: Exclusive scan: start with the identity, and leave each number out of its own result.
        key: As in `comm`.
        zip, where, force: As in `map`.
        map: As in `reduce`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("scan", WriteSummary, ("write",), _OPTIONS, locals())


def histogram(
    src: Paths, *, zip: Paths = (), where: Expressions = (), dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    force: bool = False, map: Expression | None = None, bins: SupportsIndex = 10,
    range: tuple[float, float] | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> HistogramSummary:
    """Count numbers in bins of equal width.

    The report has the range of all bins, and the count of each; a terminal shows them as bars. Without range=
    the input is read twice.

    Args:
        bins: Number of bins.
        range: Count only numbers in this range, including its ends.
        key: As in `comm`.
        zip, where, force: As in `map`.
        map: As in `reduce`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("histogram", HistogramSummary, ("histogram",), _OPTIONS, locals())


def top(
    src: Paths, *, count: SupportsIndex = 10, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, map: Expression | None = None, smallest: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> TopSummary:
    """Find the largest numbers, largest first.

    Args:
        count: How many numbers to find.
        smallest: Find the smallest numbers, smallest first.
        key: As in `comm`.
        zip, where, force: As in `map`.
        map: As in `reduce`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("top", TopSummary, ("top",), _OPTIONS, locals())


def find(
    src: Paths, condition: Expression, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> FindSummary:
    """Find the first record for which an expression is true.

    Stops reading there. `position` is `None` if there is no such record.

    Args:
        key: As in `comm`.
        condition: As in `filter`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("find", FindSummary, ("find",), _OPTIONS, locals())


def partition(
    src: Paths, expression: Expression, dst: StrPath, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, parts: SupportsIndex = 2, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> PartitionSummary:
    """Write each record to one of several files.

    The expression computes the number of the file, from 0; a condition is 1 if it is true. Files keep the
    input order and appear together. {part} in the name becomes the number, zero-padded to the same width;
    files that end in .npy get a header.

    Expressions are those of `map`; with where= there is no index.

    Examples:
        >>> outcore.partition("keys.bin", "x >= 100", "part-{part}.bin", dtype="u64")
        >>> outcore.partition("keys.bin", "hash(x) % 8", "part-{part}.bin", dtype="u64", parts=8)
        >>> outcore.partition("log.bin", "index % 10 == 0", "{part}.bin", record=64, key="0:8:u64")

    Args:
        expression: The number of the file.
        dst: File name pattern: {part} in it becomes the number of the file.
        parts: Number of files.
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("partition", PartitionSummary, ("distribute",), _OPTIONS, locals())


def gather(
    src: Paths, dst: StrPath, at: StrPath, *, at_type: str | None = None, zip: Paths = (),
    where: Expressions = (), dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, explain: bool = False, force: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Write the records at given positions, in the order given.

    Positions are read in sorted order, each block once, at full queue depth.

    Args:
        at: File of positions, counted from 0: u64, or .npy of any integers. The positions need not fit in
            memory: outcore sorts them, reads the records in ascending order, and sorts the records back.
        at_type: Type of positions without a header: u64, i64, u32, i32, u16, i16, u8 or i8 [default: u64].
        key: As in `comm`.
        zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("gather", WriteSummary, ("write",), _OPTIONS, locals())


def lookup_file(
    src: Paths, dst: StrPath, keys: StrPath, *, side: Literal["left", "right"] = "left",
    index: StrPath | None = None, lines: bool = False, zero_terminated: bool = False, values: bool = False,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, zip: Paths = (), where: Expressions = (),
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> LookupSummary:
    """Find where keys belong in sorted files, as numpy.searchsorted does.

    The rank of a key is the number of smaller records; with side="right", the number of records that are not
    greater. Keys may be in any order; ranks are in the order of the keys.

    If keys are evenly spread, each takes two or three reads of 4 KiB, with many reads in flight. A rank can
    equal the number of records; then it is not a position. The keys have the same type as the file; with
    key=, a key is a whole record. Ranks are u64, so they can go to `gather` with at=. A directory is a view:
    outcore reads the blocks of its runs that have the keys, with many reads in flight.

    Examples:
        >>> outcore.lookup_file("sorted.bin", "ranks.npy", "wanted.bin", dtype="u64")
        >>> outcore.lookup_file("sorted.npy", "behind.npy", "wanted.npy", side="right")
        >>> outcore.lookup_file("sorted.npy", "ranks.npy", "wanted.npy", index="sorted.index")
        >>> outcore.lookup_file("words.txt", "ranks.npy", "queries.txt", lines=True)
        >>> outcore.lookup_file("by-time.view", "ranks.npy", "events.bin")

    Args:
        keys: File of keys of the same type: whole records, of which only the keys are compared, or whole
            lines. CSV may have its header.
        side: For keys that exist: the rank of the first record with the key, or the rank after the last.
        index: Use this index of the sorted files, so that a key takes one read of 4 KiB. If the index does
            not exist, it is made with one read of the files. It is valid only as long as the files do not
            change. If it exceeds a quarter of the memory, a key takes a few reads.
        lines: The input and the keys are lines. The input must be in the order of its bytes (as GNU sort
            orders them in the C locale); outcore reads the input once to check this.
        zero_terminated: As `lines`, for lines that end with NUL.
        values: Instead of ranks, write the records or lines with these keys: for each key all of its records,
            and nothing for a missing key.
        key: As in `comm`.
        force, zip, where: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, volume, progress: As in
            `sort`.
        src, dst: As in `zip`.

    Raises: What `sort` raises.
    """
    return run("lookup", LookupSummary, ("write",), _OPTIONS, locals())


__all__ = [
    "gen",
    "zip",
    "flat_map",
    "enumerate",
    "windows",
    "reverse",
    "reduce",
    "scan",
    "histogram",
    "top",
    "find",
    "partition",
    "gather",
    "lookup_file",
]
