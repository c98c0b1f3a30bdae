"""Verbs: a function for each, and what it reports.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, SupportsIndex

from ._arguments import Keys, Paths, Record, Size, StrPath
from ._progress import Watcher
from ._summary import JobSummary, Phase
from ._words import Words

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, repr=False)
class GenSummary(JobSummary):
    """What was generated."""

    #: The file, or the manifest of the shards.
    output: Path
    #: Bytes of the records.
    data_bytes: int
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]


def gen(
    dtype: npt.DTypeLike,
    dst: StrPath,
    count: SupportsIndex,
    *,
    dist: str = "uniform",
    seed: SupportsIndex = 1,
    ascii: bool = False,
    skewed: bool = False,
    first: SupportsIndex | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    force: bool = False,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> GenSummary:
    """Generate records for tests and measurements.

    The records depend only on type, count, distribution and seed.

    Args:
        dtype: Record type, as in `sort dtype=`; gensort makes the records of sortbenchmark.org's gensort 1.5,
            byte for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort key=`. Any dtype of NumPy's
            says it too. `u8` and `i8` mean one thing here and another to NumPy, and are rejected.
        dst: Output: a file (.npy gets a header), - for standard output, or one shard per drive if the name
            contains {drive}.
        count: Number of records.
        dist: Distribution of the keys: uniform (the whole range: of floats all finite ones, so distances
            between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA, zipf:S[:RANKS], normal
            and clusters:K (vectors around K centres; both of floats and of integers up to 32 bits),
            rmat:SCALE (edges of a graph of 2^SCALE vertices, for u32x2 and the like), kronecker:SCALE (the
            same with vertices in no order, as Graph500 has it), sorted, reversed, equal.
        seed: Random seed.
        ascii: Printable records.
        skewed: Keys that share prefixes.
        first: Number of the first record.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        drives: A directory on a drive; repeat for more drives. Scratch is spread over all of them, and so is
            an output with {drive} in its name. Default: scratch goes beside the output, or to /var/tmp if the
            output is in memory.
        force: Replace an existing file.
        explain: Print the plan (predicted traffic and time), then run.
        record_io: Record every read, write and sync of this run, with times, in FILE (an I/O trace; see
            docs/formats/io-trace.md). FILE appears only if the run succeeds; an existing file needs
            force=True.
        volume: The drives file of a volume: where a file is taken, `"@name"` is a dataset on it. By default
            that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress` a few times a second. What
            it raises stops the job.

    Raises: What `sort` raises.
    """
    words = Words()
    words.dtype(dtype)
    words.number("--count", count)
    words.path("--output", dst)
    words.text("--dist", dist)
    words.number("--seed", seed)
    words.flag("--ascii", ascii)
    words.flag("--skewed", skewed)
    words.number("--first", first)
    words.size("--memory", memory)
    words.number("--threads", threads)
    words.text("--io", io)
    words.drives(drives)
    words.flag("--force", force)
    words.flag("--explain", explain)
    words.path("--record-io", record_io)
    return words.run("gen", GenSummary, volume, progress, ("generate",))


@dataclass(frozen=True, repr=False)
class VerifyReport(JobSummary):
    """What a look at all records, or rows, found."""

    #: The looks at the records, and at those of `against`.
    phases: tuple[Phase, ...]
    #: Whether no record is out of order; none where no order was asked of a table.
    ordered: bool | None
    #: Records that may not follow the record before them; of a table none.
    unordered: int | None
    #: Number of the first of those, counted from 0.
    first_unordered: int | None
    #: Records whose key equals the key of the record before.
    duplicate_keys: int | None
    #: Sum of the hashes of all records, in hexadecimal; it does not depend on their order.
    checksum: str
    #: Whether `against` holds the same records; none where it was not given.
    same_records: bool | None
    #: Records of `against`.
    against_records: int | None
    #: Checksum of `against`.
    against_checksum: str | None
    #: Whether all that was asked is so: in order, and the same records. As valsort does, not so for gensort's
    #: records where there are none.
    ok: bool
    #: The result in words: of records the lines that sortbenchmark.org's valsort prints.
    text: str
    #: The comparison with `against` in words; none where it was not given.
    against_text: str | None

    def __str__(self) -> str:
        return self.text


def verify(
    src: Paths,
    *,
    against: Paths = (),
    by: Keys | None = None,
    columns: Keys | None = None,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    unique: bool = False,
    ties: bool = False,
    explain: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    record_io: StrPath | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> VerifyReport:
    """Check that files are sorted, and that they hold the records of others.

    Reports the number of records, a checksum that does not depend on their order, and the number of equal
    keys, in the words of sortbenchmark.org's valsort. What is found is an answer, not an error: the command
    exits with 1 if a record is out of order, and Python's report has `ok`.

    Args:
        src: Files to check, in order, as one input.
        against: Files that must hold the same records in any order: the input of the sort.
        by: Tables only: column of the expected order, COLUMN:desc for the largest first; repeat for several.
        columns: Tables only: look at these columns and no others.
        null: Texts of CSV fields that are null, besides empty fields, as in NA,NULL. The name pandas stands
            for the list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types.
        dtype: Record type: u8..u128, i8..i64, f32 or f64, with the suffix `be` for big-endian (u64be); a
            vector such as f32x32; bytes such as bytes16; a NumPy dtype such as <u8, uint64 (u8 alone is one
            byte) or "[('id', '<u4'), ('name', '|S8')]"; or gensort (100 bytes, of which the first 10 are the
            key). .npy files carry their type. Any dtype of NumPy's says it too. `u8` and `i8` mean one thing
            here and another to NumPy, and are rejected.
        record: Record size in bytes, for records without a type of their own. A tuple gives the keys as well:
            `(100, "0:10")`.
        key: Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number type;
            for structured .npy the name of a field, NAME[:desc]. Repeat for secondary keys; most significant
            first. Default: the whole record.
        descending: Expect the reverse order (largest first).
        unique: Report equal keys as out of order.
        ties: Expect records with equal keys to be ordered by their bytes, as `sort` writes them without
            stable=True.
        explain: Print the plan (predicted traffic and time), then run.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        record_io: Record every read, write and sync of this run, with times, in FILE (an I/O trace; see
            docs/formats/io-trace.md). FILE appears only if the run succeeds; an existing file needs
            force=True.
        force: Replace an existing trace.
        volume: The drives file of a volume: where a file is taken, `"@name"` is a dataset on it. By default
            that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress` a few times a second. What
            it raises stops the job.

    Raises: What `sort` raises.
    """
    words = Words()
    words.operands(src)
    words.paths("--against", against)
    words.texts("--by", by)
    words.texts("--columns", columns)
    words.texts("--null", null)
    words.text("--on-error", on_error)
    words.records(dtype, record, key)
    words.flag("--descending", descending)
    words.flag("--unique", unique)
    words.flag("--ties", ties)
    words.flag("--explain", explain)
    words.size("--memory", memory)
    words.number("--threads", threads)
    words.text("--io", io)
    words.path("--record-io", record_io)
    words.flag("--force", force)
    return words.run("verify", VerifyReport, volume, progress, ("verify",))


__all__ = [
    "GenSummary",
    "gen",
    "VerifyReport",
    "verify",
]
