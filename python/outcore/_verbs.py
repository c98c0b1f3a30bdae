"""Verbs on all of the lines, records or rows: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from ._arguments import Keys, LinesHow, Paths, Record, Size, StrPath
from ._held import TableSource
from ._progress import Watcher
from ._reports import CommSummary, ShuffleSummary, SortSummary, UniqueSummary, VerifyReport
from ._words import Option, report_on_tables, run_on_tables

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table import Table

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "against": Option("paths", "--against", ()),
    "all_repeated": Option("flag", "--all-repeated", False),
    "bloom": Option("columns", "--bloom", None),
    "by": Option("keys", "--by", None),
    "check_chars": Option("number", "--check-chars", None),
    "checksum": Option("flag", "--checksum", False),
    "codec": Option("text", "--codec", None),
    "columns": Option("columns", "--columns", None),
    "comment": Option("texts", "--comment", None),
    "unique.count": Option("flag", "--count", False),
    "count": Option("number", "--count", None),
    "csv": Option("flag", "--csv", False),
    "descending": Option("flag", "--descending", False),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "epoch": Option("number", "--epoch", 0),
    "explain": Option("flag", "--explain", False),
    "fastq": Option("flag", "--fastq", False),
    "force": Option("flag", "--force", False),
    "group_rows": Option("number", "--group-rows", None),
    "header": Option("unless", "--no-header", True),
    "header_lines": Option("number", "--header", None),
    "infer": Option("flag", "--infer", False),
    "io": Option("text", "--io", None),
    "jsonl": Option("flag", "--jsonl", False),
    "keep_order": Option("flag", "--keep-order", False),
    "key": Option("texts", "--key", None),
    "lines": Option("lines", "--lines", False),
    "memory": Option("size", "--memory", None),
    "not_both": Option("flag", "--not-both", False),
    "not_left": Option("flag", "--not-left", False),
    "not_right": Option("flag", "--not-right", False),
    "null": Option("texts", "--null", None),
    "on_error": Option("text", "--on-error", None),
    "order": Option("letters", "--order", ""),
    "parts": Option("number", "--parts", None),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "repeated": Option("flag", "--repeated", False),
    "replace": Option("flag", "--replace", False),
    "resume": Option("flag", "--resume", False),
    "schema": Option("schema", "--schema", None),
    "scratch_limit": Option("size", "--scratch-limit", None),
    "shuffle.seed": Option("number", "--seed", 1),
    "seed": Option("number", "--seed", None),
    "separator": Option("text", "--field-separator", None),
    "skip_chars": Option("number", "--skip-chars", None),
    "skip_fields": Option("number", "--skip-fields", None),
    "stable": Option("flag", "--stable", False),
    "threads": Option("number", "--threads", None),
    "ties": Option("flag", "--ties", False),
    "total": Option("flag", "--total", False),
    "union": Option("flag", "--union", False),
    "unique": Option("flag", "--unique", False),
    "verify_output": Option("flag", "--verify-output", False),
    "zero_terminated": Option("flag", "--zero-terminated", False),
}


@overload
def sort(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    unique: bool = False, separator: str | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, by: Keys | None = None, header: bool = True,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, replace: bool = False, explain: bool = False, seed: SupportsIndex | None = None,
    resume: bool = False, verify_output: bool = False, checksum: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SortSummary: ...


@overload
def sort(
    src: TableSource, dst: None = None, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    unique: bool = False, separator: str | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, by: Keys, header: bool = True,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, replace: bool = False, explain: bool = False, seed: SupportsIndex | None = None,
    resume: bool = False, verify_output: bool = False, checksum: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def sort(
    src: TableSource, dst: StrPath | None = None, *, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, order: str = "", descending: bool = False,
    stable: bool = False, unique: bool = False, separator: str | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, by: Keys | None = None, header: bool = True,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, replace: bool = False, explain: bool = False, seed: SupportsIndex | None = None,
    resume: bool = False, verify_output: bool = False, checksum: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SortSummary | Table:
    """Sort lines, records or tables, larger than memory if need be.

    Parquet and Arrow files, and CSV and JSON lines with by=, are tables, whose rows are sorted. Inputs with a
    type (dtype=, record=, .npy or a manifest) are sorted as records: by key, then by all of their bytes. All
    other text is sorted as lines, as GNU sort does in the C locale, byte for byte. Compressed text (gzip,
    zstd, bzip2 or xz, detected by content) is decompressed, and `dst` is compressed if its name ends in .gz,
    .zst, .bz2 or .xz. outcore rejects other binary data unless you pass its type, or lines=. `dst` appears
    whole or not at all. Inputs never change, unless you pass replace=True.

    Examples:
        >>> outcore.sort("keys.bin", "sorted.bin", dtype="u64", memory="2GiB")
        >>> outcore.sort("log.bin", "by-time.bin", record=64, key="8:8:u64", stable=True)
        >>> outcore.sort("points.npy", "sorted.npy", descending=True)
        >>> outcore.sort("big.bin", "sorted-{drive}.bin", dtype="gensort", drives=["/mnt/a", "/mnt/b"])
        >>> outcore.sort("big.bin", "out.bin", dtype="u64", record_io="out.iotrace")
        >>> outcore.sort("t.parquet", "by-url.parquet", by=["url", "time:desc"])
        >>> outcore.sort("big.csv", "by-second-column.csv", key="2,2n", separator=",", memory="2GiB")
        >>> outcore.sort("sales.csv", "by-price.csv", csv=True, by=["country", "price:nr"])
        >>> outcore.sort("events.jsonl.zst", "by-user.jsonl.zst", jsonl=True, by=".user.id")
        >>> outcore.sort("calls.vcf", "sorted.vcf", key=["1,1V", "2,2n"], comment="#")
        >>> outcore.sort("reads.fastq.gz", "by-length.fastq.gz", by="length:desc")

    Args:
        src: Files to sort, in order: lines, tables, records, .npy, or a manifest (.outcore.json) of shards.
        dst: Output: a file, or one shard per drive if the name contains {drive}, as in 'sorted-{drive}.bin'.
            Without it the result is a `Table`.
        dtype: Record type: u8..u128, i8..i64, f32 or f64, with the suffix `be` for big-endian (u64be); a
            vector such as f32x32; bytes such as bytes16; a NumPy dtype such as <u8, uint64 (u8 alone is one
            byte) or "[('id', '<u4'), ('name', '|S8')]"; or gensort (100 bytes, of which the first 10 are the
            key). .npy files carry their type. A dtype of NumPy also works. `u8` and `i8` mean one thing here
            and another to NumPy, and are rejected.
        record: Record size in bytes, for records without a type of their own. A tuple gives the keys as well:
            `(100, "0:10")`.
        key: Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number type;
            for structured .npy the name of a field, NAME[:desc]. Several keys are a list, the most
            significant first. Default: the whole record. For lines, keys as GNU sort's `-k` has them:
            `"2,2n"`.
        order: For lines and CSV, letters of GNU sort for keys without letters of their own: `"n"` compares
            numbers, `"g"` floating-point numbers, `"h"` sizes such as 2K, `"M"` months, `"V"` versions, `"f"`
            ignores case, `"b"` ignores leading blanks, `"d"` compares only blanks, letters and digits, `"i"`
            only printable characters, `"R"` is a random order that keeps equal keys together, `"r"` reverses.
        descending: Reverse the key order (largest first).
        stable: Keep the input order of equal keys.
        unique: Keep one line, record or row for each key: the first in output order.
        separator: Field separator, one byte. Default: a field begins with the spaces and tabs in front of it.
        lines: Treat the input as lines, whatever its content and name. Otherwise Parquet and Arrow files are
            tables, .npy files records, and other binary data (NULs, .npz, ...) is rejected. Compressed files
            (gzip, zstd, bzip2, xz, detected by content) are decompressed either way. `True` accepts only text
            as lines, and `"any"` accepts any bytes.
        zero_terminated: Lines end with NUL instead of newline.
        header_lines: The first N lines of each file are a header: they stay unchanged at the front of the
            output, once. With comment=, N does not include comments. Several inputs must have the same
            header.
        comment: Lines at the front of each file that begin with TEXT are comments: they stay unchanged at the
            front of the output, once. A list for several texts. Several inputs must have the same comments.
        csv: Input is CSV: quoted fields may contain separators and newlines, and the first line names the
            columns and stays first. separator= is by default inferred from a sample of the records. Columns
            are compared as text; the form price:n compares numbers.
        jsonl: Input is JSON lines: one JSON value per line. Types are ordered null, false, true, numbers,
            strings, arrays, objects.
        fastq: Input is FASTQ: records of four lines. Keys are name, sequence, quality and length; without a
            key, the name.
        by: Sort keys, most significant first: a name, or for CSV the number (from 1) of a column, for JSON
            lines a path such as .user.id or .tags[0], for .npy a field. After colons, in any order: a type as
            in price:f64, asc or desc, nulls-first or nulls-last; for CSV also the letters of `order`, as in
            price:nr. Null is an empty field of CSV. A name in backquotes may hold commas and colons.
        header: `False` means: CSV inputs have no header line.
        columns: Keep these columns, in this order; the others are not read. st.a is the field a of objects
            st. A name in backquotes may contain commas, or be empty.
        union: Accept files with different columns: missing ones become null, and columns of different types
            get a common type: the wider integer, a float, a decimal with all digits, the finer timestamp.
        codec: Compression of `dst`: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
            Default: zstd:1 for Parquet, lz4 for Arrow.
        group_rows: Maximum number of rows in a row group.
        bloom: Columns that get a bloom filter, in Parquet.
        schema: Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
            time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other columns are
            inferred from a sample.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample. This is the
            default if `dst` is Parquet or Arrow, and for functions that take only tables.
        null: Texts of CSV fields that are null, in addition to empty fields, as in NA,NULL. `pandas` is the
            list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types (and, where lines are sorted by a field, with lines that lack it).
        parts: Write this many Parquet files of equal numbers of rows to the directory `dst`.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        drives: Directories on drives, or the name of a drives.toml. outcore spreads scratch, and an output
            with {drive} in its name, over all of them. Default: scratch goes next to the output, or to
            /var/tmp if the output is in memory.
        scratch_limit: Limit on scratch space, over all drives together. Default: all free space.
        record_io: Record every read, write and sync of this run, with times, in this file (an I/O trace). It
            appears only if the run succeeds; an existing file needs force=True.
        force: Replace an existing output.
        replace: Let the output replace an input: `dst` is one of the inputs.
        explain: Print the plan on `sys.stderr`, then run.
        seed: Seed for sampling, drive choice and the random order of `R`. Without a seed, that order differs
            in each run. Only the output of `R` depends on the seed.
        resume: Keep a journal. If the job is killed or fails, the same command with resume= continues it and
            writes the same bytes. For lines, records and tables that go from files to one file. outcore keeps
            what it has done for 7 days (OUTCORE_RESUME_DAYS).
        verify_output: Before the output gets its name, read it back from its drive, and compare its number of
            items, checksum and order with those of the input. If they differ, there is no output. For lines
            and records that go from files to a plain file or shards, and for tables that go to a Parquet or
            Arrow file.
        checksum: Report the checksum of the items as `verify` computes it for records, and `verify lines=`
            for lines, from the same pass: the output is not read again. A record of CSV counts as one line,
            and a header does not count. For lines and records of up to 1 MiB.
        volume: The drives file of a volume. In place of a file, `"@name"` is then a dataset on the volume.
            Default: `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress` a few times per second. An
            exception that it raises stops the job.

    Raises:
        UsageError: The request is invalid, or an existing file is in the way.
        MemoryBudgetError: The allowed memory is too small; the text names an amount that is enough.
        NoSpaceError: Too little room for scratch or output.
        IoError: The system failed an operation.
        CorruptError: Scratch or an input is damaged, or an input changed while it was read.
        KeyboardInterrupt: Ctrl-C; nothing is left behind.
    """
    return run_on_tables("sort", SortSummary, ("distribute", "sort"), _OPTIONS, locals())


@overload
def unique(
    src: TableSource, dst: StrPath, *, force: bool = False, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, order: str = "", count: bool = False,
    repeated: bool = False, unique: bool = False, all_repeated: bool = False, keep_order: bool = False,
    skip_fields: SupportsIndex | None = None, skip_chars: SupportsIndex | None = None,
    check_chars: SupportsIndex | None = None, descending: bool = False, separator: str | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, csv: bool = False, jsonl: bool = False, fastq: bool = False,
    by: Keys | None = None, header: bool = True, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    resume: bool = False, verify_output: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary: ...


@overload
def unique(
    src: TableSource, dst: None = None, *, force: bool = False, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, order: str = "", count: bool = False,
    repeated: bool = False, unique: bool = False, all_repeated: bool = False, keep_order: bool = False,
    skip_fields: SupportsIndex | None = None, skip_chars: SupportsIndex | None = None,
    check_chars: SupportsIndex | None = None, descending: bool = False, separator: str | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, csv: bool = False, jsonl: bool = False, fastq: bool = False,
    by: Keys | None = None, header: bool = True, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    resume: bool = False, verify_output: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def unique(
    src: TableSource, dst: StrPath | None = None, *, force: bool = False, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, order: str = "", count: bool = False,
    repeated: bool = False, unique: bool = False, all_repeated: bool = False, keep_order: bool = False,
    skip_fields: SupportsIndex | None = None, skip_chars: SupportsIndex | None = None,
    check_chars: SupportsIndex | None = None, descending: bool = False, separator: str | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, csv: bool = False, jsonl: bool = False, fastq: bool = False,
    by: Keys | None = None, header: bool = True, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, explain: bool = False,
    resume: bool = False, verify_output: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary | Table:
    """Keep one of each line, record or row, in order, or count them.

    The output is in order. With count=, each line follows its count, as GNU uniq writes it, and each record
    precedes an 8-byte count. With keys (key=, or by= for columns), one line or record is kept per key; for
    lines and FASTQ, it is the first in the input.

    outcore compares all lines of the input, as `sort | uniq` does. With skip_fields, skip_chars or
    check_chars, the compared part of a line is its key, and lines are in the order of their keys.

    Examples:
        >>> outcore.unique("urls.txt", "distinct.txt")
        >>> outcore.unique("urls.txt", "first-of-each.txt", keep_order=True)
        >>> outcore.unique("reads.fastq", "distinct.fastq", by="sequence")
        >>> outcore.unique("keys.bin", "distinct.bin", dtype="u64")
        >>> outcore.unique("ids.npy", "counts.npy", count=True)

    Args:
        src: Files to read, in order, as one input: lines, tables, .npy, or raw records with dtype=.
            Compressed lines (gzip, zstd, bzip2 or xz, detected by content) are decompressed.
        dst: Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Without it the
            result is a `Table`.
        count: Put the number of equal lines before each line, or the number of equal records after each
            record.
        repeated: Keep only lines, records or keys that occur more than once, one of each.
        unique: Keep only lines, records or keys that occur once.
        all_repeated: Keep all lines whose key occurs more than once, and not only one of each.
        keep_order: Keep the first of equal lines, in input order, as `awk '!seen[$0]++'` does. A table keeps
            the first row of each key, in input order.
        skip_fields: Do not compare the first N fields. A field is a run of spaces and tabs, and the text up
            to the next space or tab.
        skip_chars: Do not compare the first N bytes, counted after the skipped fields.
        check_chars: Compare at most N bytes of a line.
        force, dtype, record, key, order, descending, separator, lines, zero_terminated, header_lines,
            comment, csv, jsonl, fastq, by, header, columns, union, codec, group_rows, bloom, schema, infer,
            null, on_error, memory, threads, io, drives, scratch_limit, record_io, explain, resume,
            verify_output, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("unique", UniqueSummary, ("sample", "count"), _OPTIONS, locals())


@overload
def comm(
    left: TableSource, right: TableSource, dst: StrPath, *, not_left: bool = False, not_right: bool = False,
    not_both: bool = False, total: bool = False, by: Keys | None = None, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, header: bool = True,
    separator: str | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, force: bool = False, explain: bool = False, csv: bool = False,
    jsonl: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> CommSummary: ...


@overload
def comm(
    left: TableSource, right: TableSource, dst: None = None, *, not_left: bool = False,
    not_right: bool = False, not_both: bool = False, total: bool = False, by: Keys | None = None,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, header: bool = True,
    separator: str | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, force: bool = False, explain: bool = False, csv: bool = False,
    jsonl: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def comm(
    left: TableSource, right: TableSource, dst: StrPath | None = None, *, not_left: bool = False,
    not_right: bool = False, not_both: bool = False, total: bool = False, by: Keys | None = None,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, header: bool = True,
    separator: str | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, force: bool = False, explain: bool = False, csv: bool = False,
    jsonl: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> CommSummary | Table:
    """Compare two inputs: lines, records or rows only in the first, only in the second, or in both.

    For lines the output is that of `comm <(sort `left`) <(sort `right`)` in the C locale: three columns, with
    tabs in front of the second and third. The inputs need not be sorted, so there is no check_order=. If a
    line occurs 3 times in `left` and 2 times in `right`, `dst` has it 2 times as a line of both and once as a
    line of `left` alone.

    Records are compared by their key, and tables, CSV and JSON lines by row. In both cases, keep one of the
    three columns. Null is equal to null.

    Examples:
        >>> outcore.comm("old.parquet", "new.parquet", "added.parquet", not_left=True, not_both=True)
        >>> outcore.comm("keys.bin", "done.bin", "left.bin", not_right=True, not_both=True, dtype="u64")

    Args:
        left: The first input: a file of lines or records, or a table. Compressed lines are decompressed.
        right: The second input.
        dst: Output: a file of lines, compressed if its name ends in .gz, .zst, .bz2 or .xz, of records, or a
            table. Without it the result is a `Table`.
        not_left: Leave out the first column: items only in `left`.
        not_right: Leave out the second column: items only in `right`.
        not_both: Leave out the third column: items in both.
        total: At the end, write the number of lines in each of the three columns.
        by: Key columns to match rows on, or fields of .npy files. Default: all columns. Rows in both tables
            are written as in `left`.
        key: Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number type;
            for structured .npy the name of a field, NAME[:desc]. Several keys are a list, the most
            significant first. Default: the whole record.
        header: `False` means: CSV inputs have no header line; their columns are called 1, 2, and so on.
        separator: Separator of the fields of CSV inputs. Default: inferred from a sample of the records.
        csv: Input is CSV, whatever its name: quoted fields may contain separators and newlines, and the first
            line of each file names the columns.
        jsonl: Input is JSON lines, whatever its name: one JSON object per line.
        dtype, record, lines, zero_terminated, header_lines, comment, columns, union, codec, group_rows,
            bloom, schema, infer, null, on_error, memory, threads, io, drives, scratch_limit, record_io,
            force, explain, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("comm", CommSummary, ("distribute", "sort"), _OPTIONS, locals())


@overload
def shuffle(
    src: TableSource, dst: StrPath, *, force: bool = False, replace: bool = False,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    count: SupportsIndex | None = None, seed: SupportsIndex = 1, epoch: SupportsIndex = 0,
    by: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, resume: bool = False, verify_output: bool = False, checksum: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> ShuffleSummary: ...


@overload
def shuffle(
    src: TableSource, dst: None = None, *, force: bool = False, replace: bool = False,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    count: SupportsIndex | None = None, seed: SupportsIndex = 1, epoch: SupportsIndex = 0,
    by: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, resume: bool = False, verify_output: bool = False, checksum: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def shuffle(
    src: TableSource, dst: StrPath | None = None, *, force: bool = False, replace: bool = False,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    count: SupportsIndex | None = None, seed: SupportsIndex = 1, epoch: SupportsIndex = 0,
    by: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, resume: bool = False, verify_output: bool = False, checksum: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> ShuffleSummary | Table:
    """Shuffle lines, records or rows into a uniformly random order.

    Every order is equally likely. The same seed, epoch and input give the same output, whatever the memory
    and the number of threads and drives.

    Examples:
        >>> outcore.shuffle("train.jsonl", "shuffled.jsonl", seed=7, memory="2GiB")
        >>> outcore.shuffle("train.jsonl", "epoch-3.jsonl", seed=7, epoch=3)
        >>> outcore.shuffle("table.csv", "shuffled.csv", csv=True)
        >>> outcore.shuffle("points.npy", "shuffled.npy")
        >>> outcore.shuffle("tokens.bin", "out.bin", dtype="u32x1024")
        >>> outcore.shuffle("visits.parquet", "shuffled.parquet", by="user")

    Args:
        count: Write only this many lines, records or rows, chosen at random. The chosen lines and records
            must fit in memory.
        seed: Random seed.
        epoch: Number of the epoch: each one gives an independent order for the same seed.
        by: Keep rows with equal values in these columns together, in input order, and put the groups in a
            random order.
        csv: Input is CSV, whatever its name: quoted fields may contain separators and newlines. The first
            line of each file names the columns. It comes first in every output, and only once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        fastq: Input is FASTQ, whatever its name: records of four lines.
        key, separator: As in `comm`.
        force, replace, dtype, record, lines, zero_terminated, header_lines, comment, header, columns, union,
            codec, group_rows, bloom, schema, infer, null, on_error, parts, memory, threads, io, drives,
            scratch_limit, record_io, explain, resume, verify_output, checksum, volume, progress: As in
            `sort`.
        src, dst: As in `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("shuffle", ShuffleSummary, ("distribute", "shuffle"), _OPTIONS, locals())


def verify(
    src: TableSource, *, against: Paths = (), by: Keys | None = None, columns: Keys | None = None,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, descending: bool = False, unique: bool = False,
    ties: bool = False, explain: bool = False, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, record_io: StrPath | None = None,
    force: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> VerifyReport:
    """Check that files are sorted, and that they have the same records as other files.

    Reports the number of records, a checksum that does not depend on their order, and the number of equal
    keys, in the words of sortbenchmark.org's valsort. A negative result is not an error: `ok` of the report
    is `False` if a record is out of order.

    With by=, a table must be in the order of these columns, and with unique=True no two rows may have equal
    keys. against= compares all rows, whatever their order, by their values.

    Examples:
        >>> outcore.verify("sorted.bin", against="keys.bin", dtype="u64")
        >>> outcore.verify("sorted.bin.outcore.json", dtype="gensort")
        >>> outcore.verify("s.parquet", against="t.parquet", by=["country", "time:desc"])

    Args:
        src: Files to check, in order, as one input.
        against: Files that must hold the same records in any order: the input of the sort.
        by: Tables only: columns of the expected order; COLUMN:desc for the largest first.
        columns: Tables only: check only these columns.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types.
        descending: Expect the reverse order (largest first).
        unique: Report equal keys as out of order.
        ties: Expect records with equal keys to be ordered by their bytes, as `sort` writes them unless it is
            `stable`.
        force: Replace an existing trace.
        key: As in `comm`.
        null, dtype, record, lines, zero_terminated, explain, memory, threads, io, record_io, volume,
            progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return report_on_tables("verify", VerifyReport, ("verify",), _OPTIONS, locals())


__all__ = [
    "sort",
    "unique",
    "comm",
    "shuffle",
    "verify",
]
