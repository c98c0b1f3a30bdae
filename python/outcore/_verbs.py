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
class ShuffleSummary(WriteSummary):
    """What a shuffle did."""

    #: The seed.
    seed: int
    #: The epoch.
    epoch: int


def shuffle(
    inputs: Paths,
    *,
    dst: StrPath | None = None,
    force: bool = False,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    seed: SupportsIndex = 1,
    epoch: SupportsIndex = 0,
    by: Keys | None = None,
    is_lines: bool = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    no_header: bool = False,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom_filters: Keys | None = None,
    schema: str | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    from: Literal["arrow", "csv", "jsonl"] | None = None,
    to: Literal["arrow", "csv", "jsonl"] | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    limit_bytes: SupportsIndex | None = None,
    explain: bool = False,
    dry_run: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> ShuffleSummary:
    """Shuffle lines or records into a uniformly random order.

    Every order is equally likely. The same seed and epoch give the same output from the same input, whatever
    the number of threads and drives and the memory.

    Args:
        inputs: Files to read, in order, as one input: lines, .npy, or raw records with dtype=; - is standard
            input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected by content) are
            decompressed.
        dst: Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default: standard
            output.
        force: Replace an existing output.
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
        seed: Random seed.
        epoch: Number of the epoch: each one gives an independent order for the same seed.
        by: Keep rows of a table together that have equal values in these columns, in the order of the input;
            the groups come in a random order. Repeat for several columns.
        is_lines: Treat the input as lines, whatever it looks like and is called. Otherwise outcore rejects
            binary data (NULs, Parquet, Arrow, .npz, UTF-16, ...), and .npy files are records. Compressed
            files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way.
        zero_terminated: Lines end with NUL instead of newline.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines. The first line
            of each file names the columns, and comes first in every output, once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        no_header: The CSV has no header line.
        separator: Separator of CSV fields. Default: that of a sample of the records.
        columns: Keep these columns, in this order; the others are not read. st.a is the field a of objects
            st. A name in backquotes may hold commas, or be empty.
        union: Let files of one table lack columns, which are null there, or have columns of other types,
            which get a common type: the wider integer, a float, a decimal with all digits, the finer
            timestamp.
        codec: Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
            Default: zstd:1 for Parquet, lz4 for Arrow.
        group_rows: Maximum number of rows in a row group.
        bloom_filters: Columns that get a bloom filter, in Parquet.
        schema: Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
            time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other columns are
            inferred from a sample.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample. Default where OUT
            is Parquet or Arrow, and for commands that take only tables.
        null: Texts of CSV fields that are null, besides empty fields, as in NA,NULL. The name pandas stands
            for the list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types (and, where lines are sorted by a field, with lines that lack it).
        parts: Write N Parquet files of equal numbers of rows to the directory OUT.
        from: Standard input, for which IN is -, is a table in this format. It is copied to scratch first.
        to: Write a table in this format to standard output, for which OUT is -.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        drives: A directory on a drive; repeat for more drives. Scratch is spread over all of them, and so is
            an output with {drive} in its name. Default: scratch goes beside the output, or to /var/tmp if the
            output is in memory.
        limit_bytes: Limit on scratch space, over all drives together. Default: all free space.
        explain: Print the plan (passes, buffers, predicted traffic and time), then run.
        dry_run: Print the plan and stop.
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
    words.operands(inputs)
    words.path("--output", dst)
    words.flag("--force", force)
    words.records(dtype, record, key)
    words.number("--seed", seed)
    words.number("--epoch", epoch)
    words.texts("--by", by)
    words.flag("--lines", is_lines)
    words.flag("--zero-terminated", zero_terminated)
    words.flag("--csv", csv)
    words.flag("--jsonl", jsonl)
    words.flag("--no-header", no_header)
    words.text("--field-separator", separator)
    words.texts("--columns", columns)
    words.flag("--union", union)
    words.text("--codec", codec)
    words.number("--group-rows", group_rows)
    words.texts("--bloom", bloom_filters)
    words.text("--schema", schema)
    words.flag("--infer", infer)
    words.texts("--null", null)
    words.text("--on-error", on_error)
    words.number("--parts", parts)
    words.text("--from", from)
    words.text("--to", to)
    words.size("--memory", memory)
    words.number("--threads", threads)
    words.text("--io", io)
    words.drives(drives)
    words.number("--scratch-limit", limit_bytes)
    words.flag("--explain", explain)
    words.flag("--dry-run", dry_run)
    words.path("--record-io", record_io)
    return words.run("shuffle", ShuffleSummary, volume, progress, ("distribute","shuffle",))


@dataclass(frozen=True, repr=False)
class WriteSummary(JobSummary):
    """What a verb that writes did."""

    #: What `records` counts: `line`, `record` or `row`.
    unit: str
    #: The file, the manifest of its shards, or the directory of its parts; none where none was named.
    output: Path | None
    #: Records, lines or rows that were read; none where they were not counted.
    records_in: int | None
    #: Bytes of the inputs.
    data_bytes: int
    #: Bytes of the files that were written; none where they were not counted.
    output_bytes: int | None
    #: Files that were written.
    files: int
    #: Most bytes of scratch in use at once, copies of streams included.
    scratch_bytes: int
    #: Lines that were left out because they have no key.
    skipped: int
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The plan of the distribution; none where there was none, or several.
    plan: Plan | None
    #: What was left out of CSV and JSON lines, or read as null: a sentence per file.
    notes: tuple[str, ...]


def head(
    inputs: Paths,
    *,
    dst: StrPath | None = None,
    force: bool = False,
    count: SupportsIndex = 10,
    by: Keys | None = None,
    memory: Size | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    is_lines: bool = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    no_header: bool = False,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom_filters: Keys | None = None,
    schema: str | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    from: Literal["arrow", "csv", "jsonl"] | None = None,
    to: Literal["arrow", "csv", "jsonl"] | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary:
    """Print the first lines, records or rows of the input.

    Reads no more than it needs. Several files are read as one.

    Args:
        inputs: Files to read, in order, as one input: lines, .npy, or raw records with dtype=; - is standard
            input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected by content) are
            decompressed.
        dst: Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default: standard
            output.
        force: Replace an existing output.
        count: Number of lines or records to print.
        by: Take the first rows in the order of this column, or with COLUMN:desc the last ones; repeat for
            several columns. Needs -o.
        memory: Memory to use. Default: half of the free memory.
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
        is_lines: Treat the input as lines, whatever it looks like and is called. Otherwise outcore rejects
            binary data (NULs, Parquet, Arrow, .npz, UTF-16, ...), and .npy files are records. Compressed
            files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way.
        zero_terminated: Lines end with NUL instead of newline.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines. The first line
            of each file names the columns, and comes first in every output, once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        no_header: The CSV has no header line.
        separator: Separator of CSV fields. Default: that of a sample of the records.
        columns: Keep these columns, in this order; the others are not read. st.a is the field a of objects
            st. A name in backquotes may hold commas, or be empty.
        union: Let files of one table lack columns, which are null there, or have columns of other types,
            which get a common type: the wider integer, a float, a decimal with all digits, the finer
            timestamp.
        codec: Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
            Default: zstd:1 for Parquet, lz4 for Arrow.
        group_rows: Maximum number of rows in a row group.
        bloom_filters: Columns that get a bloom filter, in Parquet.
        schema: Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
            time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other columns are
            inferred from a sample.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample. Default where OUT
            is Parquet or Arrow, and for commands that take only tables.
        null: Texts of CSV fields that are null, besides empty fields, as in NA,NULL. The name pandas stands
            for the list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types (and, where lines are sorted by a field, with lines that lack it).
        parts: Write N Parquet files of equal numbers of rows to the directory OUT.
        from: Standard input, for which IN is -, is a table in this format. It is copied to scratch first.
        to: Write a table in this format to standard output, for which OUT is -.
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
    words.operands(inputs)
    words.path("--output", dst)
    words.flag("--force", force)
    words.number("--count", count)
    words.texts("--by", by)
    words.size("--memory", memory)
    words.records(dtype, record, key)
    words.flag("--lines", is_lines)
    words.flag("--zero-terminated", zero_terminated)
    words.flag("--csv", csv)
    words.flag("--jsonl", jsonl)
    words.flag("--no-header", no_header)
    words.text("--field-separator", separator)
    words.texts("--columns", columns)
    words.flag("--union", union)
    words.text("--codec", codec)
    words.number("--group-rows", group_rows)
    words.texts("--bloom", bloom_filters)
    words.text("--schema", schema)
    words.flag("--infer", infer)
    words.texts("--null", null)
    words.text("--on-error", on_error)
    words.number("--parts", parts)
    words.text("--from", from)
    words.text("--to", to)
    words.flag("--explain", explain)
    words.path("--record-io", record_io)
    return words.run("head", WriteSummary, volume, progress, ("head",))


@dataclass(frozen=True, repr=False)
class SampleSummary(WriteSummary):
    """What was chosen."""

    #: The seed.
    seed: int


def sample(
    inputs: Paths,
    count: SupportsIndex,
    *,
    dst: StrPath | None = None,
    force: bool = False,
    seed: SupportsIndex = 1,
    memory: Size | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    is_lines: bool = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    no_header: bool = False,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom_filters: Keys | None = None,
    schema: str | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    from: Literal["arrow", "csv", "jsonl"] | None = None,
    to: Literal["arrow", "csv", "jsonl"] | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SampleSummary:
    """Print randomly chosen lines, records or rows, in input order.

    Reads the input once and keeps only the sample in memory. Every sample of that size is equally likely; the
    same seed gives the same sample.

    Args:
        inputs: Files to read, in order, as one input: lines, .npy, or raw records with dtype=; - is standard
            input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected by content) are
            decompressed.
        count: Number of lines or records to print; all of them, if there are fewer.
        dst: Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default: standard
            output.
        force: Replace an existing output.
        seed: Random seed.
        memory: Memory for the sample. Default: half of the free memory.
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
        is_lines: Treat the input as lines, whatever it looks like and is called. Otherwise outcore rejects
            binary data (NULs, Parquet, Arrow, .npz, UTF-16, ...), and .npy files are records. Compressed
            files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way.
        zero_terminated: Lines end with NUL instead of newline.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines. The first line
            of each file names the columns, and comes first in every output, once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        no_header: The CSV has no header line.
        separator: Separator of CSV fields. Default: that of a sample of the records.
        columns: Keep these columns, in this order; the others are not read. st.a is the field a of objects
            st. A name in backquotes may hold commas, or be empty.
        union: Let files of one table lack columns, which are null there, or have columns of other types,
            which get a common type: the wider integer, a float, a decimal with all digits, the finer
            timestamp.
        codec: Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
            Default: zstd:1 for Parquet, lz4 for Arrow.
        group_rows: Maximum number of rows in a row group.
        bloom_filters: Columns that get a bloom filter, in Parquet.
        schema: Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
            time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other columns are
            inferred from a sample.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample. Default where OUT
            is Parquet or Arrow, and for commands that take only tables.
        null: Texts of CSV fields that are null, besides empty fields, as in NA,NULL. The name pandas stands
            for the list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types (and, where lines are sorted by a field, with lines that lack it).
        parts: Write N Parquet files of equal numbers of rows to the directory OUT.
        from: Standard input, for which IN is -, is a table in this format. It is copied to scratch first.
        to: Write a table in this format to standard output, for which OUT is -.
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
    words.operands(inputs)
    words.path("--output", dst)
    words.flag("--force", force)
    words.number("--count", count)
    words.number("--seed", seed)
    words.size("--memory", memory)
    words.records(dtype, record, key)
    words.flag("--lines", is_lines)
    words.flag("--zero-terminated", zero_terminated)
    words.flag("--csv", csv)
    words.flag("--jsonl", jsonl)
    words.flag("--no-header", no_header)
    words.text("--field-separator", separator)
    words.texts("--columns", columns)
    words.flag("--union", union)
    words.text("--codec", codec)
    words.number("--group-rows", group_rows)
    words.texts("--bloom", bloom_filters)
    words.text("--schema", schema)
    words.flag("--infer", infer)
    words.texts("--null", null)
    words.text("--on-error", on_error)
    words.number("--parts", parts)
    words.text("--from", from)
    words.text("--to", to)
    words.flag("--explain", explain)
    words.path("--record-io", record_io)
    return words.run("sample", SampleSummary, volume, progress, ("sample",))


@dataclass(frozen=True, repr=False)
class SplitSummary(WriteSummary):
    """What became of the parts."""

    #: The files, in order; with `by` there are none, and `partitions` says how many.
    parts: tuple[Path, ...]
    #: Directories that were written; none without `by`.
    partitions: int | None
    #: Rows of the part test; none without `train`.
    test_rows: int | None
    #: The seed of `train`.
    seed: int


def split(
    dst: StrPath,
    inputs: Paths,
    *,
    parts: SupportsIndex | None = None,
    part_lines: SupportsIndex | None = None,
    part_bytes: SupportsIndex | None = None,
    train: str | None = None,
    by: Keys | None = None,
    seed: SupportsIndex = 1,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    is_lines: bool = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    no_header: bool = False,
    separator: str | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    force: bool = False,
    columns: Keys | None = None,
    schema: str | None = None,
    infer: bool = False,
    codec: str | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SplitSummary:
    """Split files into parts of whole lines, records or rows.

    The parts, concatenated, are the input. With -n, parts of records differ by at most one record; a line
    belongs to the part in which its first byte lies, as with `split -n l/K`, so that parts are of nearly
    equal length and some may be empty. Every part of CSV begins with the header. All parts appear at the end,
    or none.

    Args:
        dst: File name pattern: {part} becomes the part number, from 0; with by=, the name of a directory.
            Parts of lines are compressed if it ends in .gz, .zst, .bz2 or .xz; parts of records get a header
            if it ends in .npy.
        inputs: Files to split, in order, as one input. Default: standard input.
        parts: Number of parts.
        part_lines: Number of lines, records or rows in each part; the last part may have fewer.
        part_bytes: Tables only: approximate stored size of each part.
        train: Tables only: write a random SHARE of the rows, such as 0.9, to the part train, and the rest to
            the part test.
        by: Tables only: write a directory for each value of this column, as in OUT/country=de/part-0.parquet;
            repeat for nested directories.
        seed: Random seed of --train.
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
        is_lines: Treat the input as lines, whatever it looks like and is called. Otherwise outcore rejects
            binary data (NULs, Parquet, Arrow, .npz, UTF-16, ...), and .npy files are records. Compressed
            files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way.
        zero_terminated: Lines end with NUL instead of newline.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines. The first line
            of each file names the columns, and comes first in every output, once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        no_header: The CSV has no header line.
        separator: Separator of CSV fields. Default: that of a sample of the records.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        drives: A directory on a drive; repeat for more drives. Scratch is spread over all of them, and so is
            an output with {drive} in its name. Default: scratch goes beside the output, or to /var/tmp if the
            output is in memory.
        force: Replace existing parts.
        columns: Keep these columns, in this order; the others are not read.
        schema: Read CSV or JSON lines as a table with these column types; see `outcore convert`.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample.
        codec: Compression of the parts; see `outcore convert`.
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
    words.operands(inputs)
    words.path("--output", dst)
    words.number("--parts", parts)
    words.number("--by-lines", part_lines)
    words.number("--bytes", part_bytes)
    words.text("--train", train)
    words.texts("--by", by)
    words.number("--seed", seed)
    words.records(dtype, record, key)
    words.flag("--lines", is_lines)
    words.flag("--zero-terminated", zero_terminated)
    words.flag("--csv", csv)
    words.flag("--jsonl", jsonl)
    words.flag("--no-header", no_header)
    words.text("--field-separator", separator)
    words.size("--memory", memory)
    words.number("--threads", threads)
    words.text("--io", io)
    words.drives(drives)
    words.flag("--force", force)
    words.texts("--columns", columns)
    words.text("--schema", schema)
    words.flag("--infer", infer)
    words.text("--codec", codec)
    words.flag("--explain", explain)
    words.path("--record-io", record_io)
    return words.run("split", SplitSummary, volume, progress, ("split",))


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
    "ShuffleSummary",
    "shuffle",
    "WriteSummary",
    "head",
    "SampleSummary",
    "sample",
    "SplitSummary",
    "split",
    "GenSummary",
    "gen",
    "VerifyReport",
    "verify",
]
