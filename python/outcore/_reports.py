"""Reports of verbs: frozen values with the names of the command's JSON.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._summary import JobReport, Report


@dataclass(frozen=True)
class DriveTraffic(Report):
    """Bytes that a drive served."""

    #: The drive's name, or a directory on it.
    name: str
    #: Bytes read.
    read_bytes: int
    #: Bytes written.
    written_bytes: int


@dataclass(frozen=True)
class IoTrace(Report):
    """A trace that was recorded."""

    #: The file.
    path: Path
    #: Reads, writes and syncs in the trace.
    requests: int
    #: Bytes that these moved.
    bytes: int


@dataclass(frozen=True, repr=False)
class JobSummary(JobReport):
    """The part of the report that all verbs share."""

    #: Records, lines or rows of the result.
    records: int
    #: Wall time in seconds.
    seconds: float
    #: Bytes read.
    read_bytes: int
    #: Bytes written.
    written_bytes: int
    #: Processor time in seconds, of all threads.
    cpu_seconds: float
    #: The largest resident memory of the process.
    peak_rss_bytes: int | None
    #: The number of times that the data were read, or generated.
    passes: int
    #: Share of the drives' measured bandwidth that was used; none if a drive was not measured.
    bandwidth_fraction: float | None
    #: Bytes that each drive served.
    drives: tuple[DriveTraffic, ...]
    #: The trace of the job's own reads and writes, if one was recorded.
    io_trace: IoTrace | None


@dataclass(frozen=True)
class Phase(Report):
    """A part of a job: what it did, and what its plan predicted."""

    #: Its name.
    name: str
    #: Wall time in seconds.
    seconds: float
    #: Bytes read.
    read_bytes: int
    #: Bytes written.
    written_bytes: int
    #: Seconds that the plan predicted; none without a prediction, or if the speed of a drive is assumed.
    predicted_seconds: float | None
    #: Bytes read that the plan predicted.
    predicted_read_bytes: int | None
    #: Bytes written that the plan predicted.
    predicted_written_bytes: int | None
    #: Whether the predictions are only upper bounds.
    predicted_is_bound: bool
    #: The resource that bounds the predicted time, as in "drive-1 bounds it: the output is there".
    predicted_bound: str | None


@dataclass(frozen=True)
class Rates(Report):
    """The assumed rates of a drive and of the processors, and their source."""

    #: Bytes per second that a drive reads.
    read_bytes_per_s: float
    #: Bytes per second that a drive writes.
    write_bytes_per_s: float
    #: Requests per second that a drive serves.
    requests_per_s: float
    #: "assumed; not measured", "from the drives file" or "measured on" a day.
    origin: str
    #: The origin of the costs of computing; none if the plan leaves them out.
    computing_origin: str | None


@dataclass(frozen=True)
class Plan(Report):
    """The plan of a distribution and a sort."""

    #: Times that the data are read and written.
    passes: int
    #: Buckets of one distribution.
    bucket_count: int
    #: Bytes of a write to scratch.
    segment_bytes: int
    #: Bytes of a read of the input.
    read_block_bytes: int
    #: Reads of the input that are under way at once.
    reads_in_flight: int
    #: Bytes of the largest bucket that is sorted at once.
    bucket_bytes_max: int
    #: Bytes of the data that may stay in memory between the phases.
    resident_bytes: int
    #: Approximate bytes of scratch that will be written.
    scratch_bytes: int
    #: Bytes that will be read.
    predicted_read_bytes: int
    #: Bytes that will be written.
    predicted_written_bytes: int
    #: Seconds that the job will take at `rates`.
    predicted_seconds: float
    #: Drives that share the scratch.
    drive_count: int
    #: The assumed rates of drives and processors.
    rates: Rates
    #: The plan in words.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class WriteSummary(JobSummary):
    """The result of a verb that writes."""

    #: What `records` counts: `line`, `record` or `row`.
    unit: str
    #: The file, the manifest of its shards, or the directory of its parts; none if no output was given.
    output: Path | None
    #: Records, lines or rows that were read; none if they were not counted.
    records_in: int | None
    #: Bytes of the inputs.
    data_bytes: int
    #: Bytes of the files that were written; none if they were not counted.
    output_bytes: int | None
    #: Files that were written.
    files: int
    #: Most bytes of scratch in use at once, copies of streams included; none if they were not counted.
    scratch_bytes: int | None
    #: Lines that were left out because they have no key.
    skipped: int
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The plan of the distribution; none if there was none, or several.
    plan: Plan | None
    #: Rows and values of CSV and JSON lines that were left out, or read as null: one sentence per file.
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class SortSummary(WriteSummary):
    """The result of a sort, or of a check of the order."""

    #: Whether the input is in order; none if it was sorted.
    is_sorted: bool | None
    #: The sum of the hashes of all items of the output, in hexadecimal: for records as `verify` computes it,
    #: for lines as `verify --lines`; none if it was not asked for.
    checksum: str | None


@dataclass(frozen=True)
class ValueCount(Report):
    """A value, and how often it occurs."""

    #: The value.
    value: int | float | str | None
    #: The number of its occurrences.
    count: int


@dataclass(frozen=True, repr=False)
class UniqueSummary(WriteSummary):
    """The result of finding different lines, records, rows or values, or of counting them."""

    #: The method that found equal records or values: `hash` or `sort`; none for lines and rows.
    by: str | None
    #: Each value and its count, in the order of the values; none if they were printed or written, and for
    #: `unique`.
    groups: tuple[ValueCount, ...] | None


@dataclass(frozen=True, repr=False)
class CommSummary(WriteSummary):
    """The result of a comparison of two inputs."""

    #: Lines or records of the first input alone; none for tables, for which only one column is computed.
    first: int | None
    #: Lines or records of the second input alone.
    second: int | None
    #: Lines or records of both inputs, each pair once.
    both: int | None


@dataclass(frozen=True, repr=False)
class ShuffleSummary(WriteSummary):
    """The result of a shuffle."""

    #: The seed.
    seed: int
    #: The epoch.
    epoch: int
    #: The sum of the hashes of all items, in hexadecimal: for records as `verify` computes it, for lines as
    #: `verify --lines`; none if it was not asked for.
    checksum: str | None


@dataclass(frozen=True, repr=False)
class SampleSummary(WriteSummary):
    """The result of a sample."""

    #: The seed.
    seed: int


@dataclass(frozen=True, repr=False)
class SplitSummary(WriteSummary):
    """The result of a split."""

    #: The files, in order, or the names that `filter` received; empty with `by`, where `partitions` has the
    #: number of directories.
    parts: tuple[Path, ...]
    #: Directories that were written; none without `by`.
    partitions: int | None
    #: Rows of the part test; none without `train`.
    test_rows: int | None
    #: The seed of `train` and `random`.
    seed: int
    #: The number of items of each part; none without `splitters` and `random`.
    counts: tuple[int, ...]
    #: The sum of the hashes of the items of each part, in hexadecimal: for records and rows as `verify`
    #: computes it, for lines as `verify --lines`.
    checksums: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class GenSummary(JobSummary):
    """The generated data."""

    #: What `records` counts: `record`, `row` or `line`.
    unit: str
    #: The file, or the manifest of the shards.
    output: Path
    #: Bytes of the records, or of the files of a table.
    data_bytes: int
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]


@dataclass(frozen=True, repr=False)
class VerifyReport(JobSummary):
    """The result of checking all records or rows."""

    #: The checks of the records, and of those of `against`.
    phases: tuple[Phase, ...]
    #: Whether all records are in order; none for a table without a requested order.
    ordered: bool | None
    #: The number of records that must not follow the record before them; none for a table.
    unordered: int | None
    #: Number of the first record out of order, counted from 0.
    first_unordered: int | None
    #: Records whose key equals the key of the record before.
    duplicate_keys: int | None
    #: Sum of the hashes of all records, in hexadecimal; it does not depend on their order. For a table with
    #: rows, it also depends on the names and types of the columns, but not on the order of the columns.
    checksum: str
    #: Whether `against` holds the same records; none if it was not given.
    same_records: bool | None
    #: Records of `against`.
    against_records: int | None
    #: Checksum of `against`.
    against_checksum: str | None
    #: Whether all checks passed: the order, and the same records. As in valsort, false for files of gensort
    #: without any record.
    ok: bool
    #: The result in words; for records, the lines that sortbenchmark.org's valsort prints.
    text: str
    #: The comparison with `against` in words; none if it was not given.
    against_text: str | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ReducedValue(Report):
    """A reduction, and its value."""

    #: The function: `sum`, `count`, `min`, `max`, `mean` or the expression.
    how: str
    #: The value; none for an empty input.
    value: int | float | str | None


@dataclass(frozen=True, repr=False)
class ReduceSummary(JobSummary):
    """The result of a reduction."""

    #: Records that were read; none if they were not counted.
    records_in: int | None
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The value of each reduction.
    results: tuple[ReducedValue, ...]


@dataclass(frozen=True, repr=False)
class HistogramSummary(JobSummary):
    """The number of values in each bin."""

    #: Records that were read; none if they were not counted.
    records_in: int | None
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The borders of all bins: the least and the greatest number that are counted.
    range: tuple[float, ...]
    #: How many numbers each bin has.
    counts: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class TopSummary(JobSummary):
    """The largest numbers."""

    #: Records that were read; none if they were not counted.
    records_in: int | None
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The numbers, in their order; none if they were printed.
    results: tuple[int | float | str | None, ...] | None


@dataclass(frozen=True, repr=False)
class FindSummary(JobSummary):
    """The place of the first record that matches."""

    #: Records that were read; none if they were not counted.
    records_in: int | None
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: Position of the record, counted from 0; none if the expression is true for no record.
    position: int | None
    #: Whether a record was found; none if only the plan was requested.
    is_found: bool | None


@dataclass(frozen=True, repr=False)
class PartitionSummary(WriteSummary):
    """The result of a partition."""

    #: The records of each file.
    counts: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class LookupSummary(WriteSummary):
    """The result of a lookup."""

    #: Keys that were looked up.
    keys: int


@dataclass(frozen=True)
class ViewPlan(Report):
    """The plan of a view."""

    #: Runs that the sort makes, before any merge.
    runs: int
    #: Bytes of a run.
    run_bytes: int
    #: Bytes of a block, which a reader reads at once.
    block_bytes: int
    #: Areas of memory that runs are sorted in.
    areas: int
    #: Bytes of an area.
    area_bytes: int
    #: For each merge that comes before the view, the number of runs that it combines.
    merges: tuple[int, ...]
    #: Bytes that will be read.
    predicted_read_bytes: int
    #: Bytes that will be written.
    predicted_written_bytes: int
    #: Seconds that the job will take at `rates`.
    predicted_seconds: float
    #: The assumed rates of drives and processors.
    rates: Rates
    #: The plan in words.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class ViewSummary(JobSummary):
    """The result of building a view, or of adding to one."""

    #: The directory of the view.
    output: Path
    #: The type of a record: a record type, `lines` or `table`.
    type: str
    #: Bytes that were sorted.
    data_bytes: int
    #: The number of runs that readers merge.
    runs: int
    #: Bytes of runs that were still in memory.
    resident_bytes: int
    #: The parts of the job, in order.
    phases: tuple[Phase, ...]
    #: The plan.
    plan: ViewPlan | None
    #: Rows and values of CSV and JSON lines that were left out, or read as null: one sentence per file.
    notes: tuple[str, ...]
    #: The report as text.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TableColumn(Report):
    """A column of a table."""

    #: Its name.
    name: str
    #: Its type, as `--schema` reads it.
    type: str
    #: Whether it may have nulls.
    nullable: bool


@dataclass(frozen=True, repr=False)
class InfoReport(JobSummary):
    """The contents of tables."""

    #: The columns, in order.
    columns: tuple[TableColumn, ...]
    #: Files of the tables.
    files: int
    #: Row groups, or batches, in all files.
    row_groups: int
    #: Bytes that the rows take as they are stored.
    stored_bytes: int
    #: The least memory that a reader needs.
    memory_min_bytes: int
    #: Rows and values of CSV and JSON lines that were left out, or read as null: one sentence per file.
    notes: tuple[str, ...]
    #: The report as text.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class DedupSummary(WriteSummary):
    """The result of a deduplication."""

    #: Rows that were left out; none if passages were removed.
    removed: int | None
    #: Passages that were removed; none if rows were left out.
    cuts: int | None
    #: Bytes that were removed; none if rows were left out, or if tokens were counted.
    cut_bytes: int | None
    #: Tokens that were cut.
    cut_tokens: int | None
    #: The table of removed rows; none if no file was named.
    removed_output: Path | None
    #: Length of this table in bytes.
    removed_bytes: int | None


@dataclass(frozen=True, repr=False)
class DiffSummary(WriteSummary):
    """The numbers of rows that differ and that do not."""

    #: Rows that the left table alone has.
    left_rows: int
    #: Rows that the right table alone has.
    right_rows: int
    #: Rows of both that differ in columns outside the key.
    changed_rows: int
    #: Rows of both that are equal.
    equal_rows: int


__all__ = [
    "DriveTraffic",
    "IoTrace",
    "JobSummary",
    "Phase",
    "Rates",
    "Plan",
    "WriteSummary",
    "SortSummary",
    "ValueCount",
    "UniqueSummary",
    "CommSummary",
    "ShuffleSummary",
    "SampleSummary",
    "SplitSummary",
    "GenSummary",
    "VerifyReport",
    "ReducedValue",
    "ReduceSummary",
    "HistogramSummary",
    "TopSummary",
    "FindSummary",
    "PartitionSummary",
    "LookupSummary",
    "ViewPlan",
    "ViewSummary",
    "TableColumn",
    "InfoReport",
    "DedupSummary",
    "DiffSummary",
]
