"""What jobs did and found: frozen values with the names of the command's JSON.

`as_dict()` gives plain numbers, texts, lists and dictionaries, ready for JSON or a data frame.
`repr` is one line for people; `str` says more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from . import _units as units
from ._replies import (
    JobReply,
    PhaseReply,
    PlanReply,
    ShuffleReply,
    SortReply,
    WriteReply,
)

_Reply = TypeVar("_Reply", bound="JobSummary")


@dataclass(frozen=True)
class Phase:
    """A part of a job, beside what its plan predicted of it (`None` where it says nothing)."""

    name: str
    seconds: float
    #: Bytes read from all drives meanwhile.
    read_bytes: int
    #: Bytes written to all drives meanwhile.
    written_bytes: int
    predicted_seconds: float | None
    predicted_read_bytes: int | None
    predicted_written_bytes: int | None
    #: Whether the plan says only that it will not be more.
    predicted_is_bound: bool


@dataclass(frozen=True)
class DriveTraffic:
    """What a drive served."""

    name: str
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class IoTrace:
    """A trace that was recorded (`record_io=`)."""

    path: Path
    #: Reads, writes, syncs and freed ranges in it.
    requests: int
    #: Its length.
    bytes: int


@dataclass(frozen=True)
class Rates:
    """How fast a plan takes one drive to be, and who says so."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    requests_per_s: float
    #: "assumed; not measured", "from the drives file" or "measured on" a day.
    origin: str
    #: The same of what the processors compute.
    computing_origin: str


@dataclass(frozen=True)
class Plan:
    """How a sort will be done, or was; `str` of it is what `outcore sort --explain` prints."""

    #: Times that the data are read and written.
    passes: int
    #: Buckets of one distribution.
    bucket_count: int
    #: Size of a write to scratch.
    segment_bytes: int
    #: Size of a read of the input.
    read_block_bytes: int
    #: The largest bucket that is sorted at once.
    bucket_bytes_max: int
    #: Data that may stay in memory between the two phases.
    resident_bytes: int
    #: Scratch that will be written, about.
    scratch_bytes: int
    predicted_read_bytes: int
    predicted_written_bytes: int
    #: At `rates`.
    predicted_seconds: float
    drive_count: int
    rates: Rates
    #: For people.
    text: str

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """The plan's numbers."""
        numbers = asdict(self)
        del numbers["text"]
        return numbers


@dataclass(frozen=True, repr=False)
class JobSummary:
    """What every job says about itself."""

    #: Records of the result.
    records: int
    #: Wall time, syncing included.
    seconds: float
    #: Bytes read from all drives.
    read_bytes: int
    #: Bytes written to all drives.
    written_bytes: int
    #: User and system time of the whole process meanwhile.
    cpu_seconds: float
    #: The most memory that the process ever had resident.
    peak_rss_bytes: int | None
    #: Times that the data were read, or made.
    passes: int
    #: Share of the drives' bandwidth; `None` where it was not measured.
    bandwidth_fraction: float | None
    #: What each drive served.
    drives: tuple[DriveTraffic, ...]
    #: The trace of its I/O; `None` where it was not recorded.
    io_trace: IoTrace | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values under the names of the command's JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def _headline(self) -> str:
        said: str | None = getattr(self, "_said", None)
        return said or f"{units.counted(self.records, 'record')} in {units.seconds_text(self.seconds)}"

    def __repr__(self) -> str:
        return f"<outcore.{type(self).__name__}: {self._headline()}>"

    def __str__(self) -> str:
        return self._headline()


@dataclass(frozen=True, repr=False)
class SortSummary(JobSummary):
    """What a sort did."""

    #: The file, or the manifest of the shards.
    output: Path
    #: Bytes of the input's records.
    data_bytes: int
    #: Most scratch in use at once.
    scratch_bytes: int
    #: The parts of the job in order.
    phases: tuple[Phase, ...]
    #: The plan that it followed.
    plan: Plan

    def _headline(self) -> str:
        took = units.seconds_text(self.seconds)
        rate = units.rate_text(self.data_bytes, self.seconds)
        passes = units.counted(self.passes, "pass")
        size = units.bytes_text(self.data_bytes)
        return f"sorted {units.counted(self.records, 'record')}, {size}, in {took} ({rate}, {passes})"

    def __str__(self) -> str:
        moved = [units.bytes_text(count) for count in (self.read_bytes, self.written_bytes)]
        phases = [f"{phase.name} {units.seconds_text(phase.seconds)}" for phase in self.phases]
        scratch = units.bytes_text(self.scratch_bytes)
        return (
            f"{self._headline()}\n"
            f"  read {moved[0]}, wrote {moved[1]}, {scratch} of scratch\n"
            f"  {', '.join(phases)}"
        )


@dataclass(frozen=True, repr=False)
class ShuffleSummary(JobSummary):
    """What a shuffle did."""

    #: The file, or the manifest of the shards.
    output: Path
    #: Bytes of the output's records.
    data_bytes: int
    #: Most scratch in use at once.
    scratch_bytes: int
    #: The parts of the job in order.
    phases: tuple[Phase, ...]
    #: The plan that it followed, for people.
    plan_text: str

    def _headline(self) -> str:
        took = units.seconds_text(self.seconds)
        rate = units.rate_text(self.data_bytes, self.seconds)
        size = units.bytes_text(self.data_bytes)
        return f"shuffled {units.counted(self.records, 'record')}, {size}, in {took} ({rate})"


@dataclass(frozen=True, repr=False)
class WriteSummary(JobSummary):
    """What a dataset wrote; of lines, `records` are those."""

    #: The file, or the manifest of the shards.
    output: Path
    #: Lines without a key that `on_error="skip"` left out.
    skipped: int
    #: The parts of all passes, in order.
    phases: tuple[Phase, ...]

    def _headline(self) -> str:
        took = units.seconds_text(self.seconds)
        size = units.bytes_text(self.written_bytes)
        rate = units.rate_text(self.read_bytes + self.written_bytes, self.seconds)
        left_out = f", left out {self.skipped:,}" if self.skipped else ""
        return f"wrote {units.counted(self.records, 'record')}, {size}, in {took} ({rate}){left_out}"


def plan_of(reply: PlanReply) -> Plan:
    """The value of a reply."""
    values: dict[str, Any] = {**reply, "rates": Rates(**reply["rates"])}
    return Plan(**values)


def _phases(replies: list[PhaseReply]) -> tuple[Phase, ...]:
    return tuple(Phase(**reply) for reply in replies)


def sorted_of(reply: SortReply) -> SortSummary:
    """The value of a reply."""
    phases = _phases(reply["phases"])
    plan = plan_of(reply["plan"])
    return _value(SortSummary, reply, output=Path(reply["output"]), phases=phases, plan=plan)


def shuffled_of(reply: ShuffleReply) -> ShuffleSummary:
    """The value of a reply."""
    phases = _phases(reply["phases"])
    return _value(ShuffleSummary, reply, output=Path(reply["output"]), phases=phases)


def written_of(reply: WriteReply) -> WriteSummary:
    """The value of a reply."""
    return _value(
        WriteSummary, reply, output=Path(reply["output"]), phases=_phases(reply["phases"])
    )


def _value(kind: type[_Reply], reply: JobReply, **more: object) -> _Reply:
    values: dict[str, Any] = {**reply, **reply["used"], **more}
    del values["used"]
    values["drives"] = tuple(DriveTraffic(**drive) for drive in reply["used"]["drives"])
    if (trace := reply["used"]["io_trace"]) is not None:
        values["io_trace"] = IoTrace(Path(trace["path"]), trace["requests"], trace["bytes"])
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Plan):
        return value.as_dict()
    if isinstance(value, (Phase, DriveTraffic, IoTrace)):
        return {name: _plain(part) for name, part in asdict(value).items()}
    return value
