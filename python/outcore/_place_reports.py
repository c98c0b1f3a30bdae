"""Reports of verbs on volumes, drives, scratch and settings: frozen values with the names of the command's JSON.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._reports import JobSummary
from ._summary import Report


@dataclass(frozen=True, repr=False)
class VolumeReport(JobSummary):
    """A volume that was made."""

    #: The identity of the volume.
    volume: str
    #: The number of drives that it uses.
    drive_count: int
    #: Bytes of a stripe.
    stripe_bytes: int
    #: What replaces a lost drive: `none`, `parity` or `mirror`.
    redundancy: str


@dataclass(frozen=True)
class DriveStatus(Report):
    """A drive of a volume."""

    #: Its name.
    drive: str
    #: Its directory.
    dir: Path
    #: Whether it is present: mounted, with its label.
    is_present: bool
    #: Bytes of datasets on it.
    used_bytes: int
    #: Free bytes on its file system.
    free_bytes: int
    #: Bytes of datasets that it would have if `rebalance` could move all of them.
    share_bytes: int
    #: `full` if it takes new data, `leaving` if it is being removed, `lost` if it was missing when its
    #: removal began.
    standing: str


@dataclass(frozen=True)
class DatasetRisk(Report):
    """What one more lost drive would cost a dataset."""

    #: The dataset.
    name: str
    #: Bytes of data.
    bytes: int
    #: `none` if it can be read without any one drive, `single` if each of `drives` holds a part of it alone,
    #: `incomplete` if its redundancy is incomplete, `unreadable` if it cannot be read.
    risk: str
    #: The drives that are missing or have lost its file; for `single`, the drives that hold the only copy of
    #: a part.
    drives: tuple[str, ...]
    #: Whether `rebalance` would move it.
    is_unequal: bool


@dataclass(frozen=True, repr=False)
class VolumeStatus(JobSummary):
    """The state of a volume."""

    #: The drives; each is an event `drive`.
    members: tuple[DriveStatus, ...]
    #: The identity of the volume.
    volume: str
    #: Bytes of a stripe.
    stripe_bytes: int
    #: What replaces a lost drive: `none`, `parity` or `mirror`.
    redundancy: str
    #: The number of datasets.
    datasets: int
    #: The number of datasets that are damaged and cannot be read.
    damaged: int
    #: The number of datasets that need a missing drive.
    unreachable: int
    #: The number of datasets that can be read although a drive is missing, and that another missing drive
    #: would make unreadable.
    at_risk: int
    #: The number of files that belong to no dataset.
    orphans: int
    #: Bytes of these files.
    orphan_bytes: int
    #: The datasets and what one more lost drive would cost; each is an event `risk`.
    risks: tuple[DatasetRisk, ...]
    #: The number of datasets that `rebalance` would move.
    unequal: int
    #: Bytes of data of these datasets.
    unequal_bytes: int

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[DriveStatus]:
        return iter(self.members)

    def __getitem__(self, at: int) -> DriveStatus:
        return self.members[at]


@dataclass(frozen=True)
class Damage(Report):
    """A damaged range of bytes."""

    #: The dataset; empty where the label of a drive is damaged.
    dataset: str
    #: The drive.
    drive: str
    #: The file on the drive.
    path: str
    #: The position in the file where the damaged part begins; a checksum covers this part.
    offset_bytes: int
    #: Bytes of this part.
    len_bytes: int
    #: Whether it has been restored from other drives: labels and manifests, and the data of a volume with
    #: parity or a mirror.
    is_repaired: bool


@dataclass(frozen=True)
class Orphan(Report):
    """A file on a drive that belongs to no dataset."""

    #: The drive.
    drive: str
    #: The file on the drive.
    path: Path
    #: Its length.
    len_bytes: int


@dataclass(frozen=True, repr=False)
class ScrubReport(JobSummary):
    """The result of reading all datasets."""

    #: Checksum blocks and files that are damaged or cannot be read; each is an event `damage`.
    damages: tuple[Damage, ...]
    #: Files that belong to no dataset, since its manifest is lost; each is an event `orphan`.
    orphans: tuple[Orphan, ...]
    #: Bytes of orphans that were removed; none if that was not requested.
    freed_bytes: int | None

    def __len__(self) -> int:
        return len(self.damages)

    def __iter__(self) -> Iterator[Damage]:
        return iter(self.damages)

    def __getitem__(self, at: int) -> Damage:
        return self.damages[at]


@dataclass(frozen=True, repr=False)
class ReplacementReport(JobSummary):
    """A drive that was replaced."""

    #: Its name.
    drive: str
    #: Its new directory.
    dir: Path
    #: Bytes that were rebuilt, without those of earlier runs.
    rebuilt_bytes: int
    #: Contents that were given up; each is an event `damage`.
    damages: tuple[Damage, ...]

    def __len__(self) -> int:
        return len(self.damages)

    def __iter__(self) -> Iterator[Damage]:
        return iter(self.damages)

    def __getitem__(self, at: int) -> Damage:
        return self.damages[at]


@dataclass(frozen=True, repr=False)
class AdditionReport(JobSummary):
    """Drives that joined a volume."""

    #: Their names.
    added: tuple[str, ...]
    #: The number of datasets that `rebalance` would move.
    unequal: int
    #: Bytes of data of these datasets.
    unequal_bytes: int


@dataclass(frozen=True, repr=False)
class DriveRemovalReport(JobSummary):
    """A drive that left a volume."""

    #: Its name.
    drive: str
    #: The number of datasets that were written anew, without those of earlier runs.
    moved: int
    #: Bytes of data of these datasets.
    moved_bytes: int
    #: Datasets that were given up; each is an event `damage`.
    damages: tuple[Damage, ...]

    def __len__(self) -> int:
        return len(self.damages)

    def __iter__(self) -> Iterator[Damage]:
        return iter(self.damages)

    def __getitem__(self, at: int) -> Damage:
        return self.damages[at]


@dataclass(frozen=True, repr=False)
class RebalanceReport(JobSummary):
    """Datasets that were moved."""

    #: The number of datasets that were moved.
    moved: int
    #: Bytes of data of these datasets.
    moved_bytes: int


@dataclass(frozen=True, repr=False)
class TransferSummary(JobSummary):
    """The result of a transfer between files and datasets."""

    #: Bytes of data.
    bytes: int
    #: Files and symbolic links.
    files: int
    #: Sockets, pipes and devices of a directory that were left out, since they hold no data.
    left_out: int


@dataclass(frozen=True)
class DatasetEntry(Report):
    """A dataset, or a file, a symbolic link or an empty directory packed in one."""

    #: Its name. In names of packed files, `\xHH` replaces unprintable bytes.
    name: str
    #: Bytes of data.
    bytes: int
    #: Packed files; 1 for a file.
    files: int
    #: Its kind, in words.
    contents: str
    #: Whether it is a packed directory, or an empty directory in one.
    is_directory: bool
    #: Missing drives that hold a part of it.
    missing_drives: tuple[str, ...]
    #: Whether it can be read as a whole without the missing drives.
    is_readable: bool


@dataclass(frozen=True, repr=False)
class VolumeListing(JobSummary):
    """The datasets of a volume, or the files that are packed in one."""

    #: The datasets in the order of their names, or the files packed in one dataset; each is an event
    #: `dataset`.
    entries: tuple[DatasetEntry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[DatasetEntry]:
        return iter(self.entries)

    def __getitem__(self, at: int) -> DatasetEntry:
        return self.entries[at]


@dataclass(frozen=True, repr=False)
class RemovalReport(JobSummary):
    """The result of removing datasets."""

    #: Bytes of the drives that are free again.
    freed_bytes: int
    #: The number of files that belong to no dataset.
    orphans: int
    #: Bytes of these files.
    orphan_bytes: int


@dataclass(frozen=True)
class RateAtDepth(Report):
    """A rate with a number of requests in flight."""

    #: Requests in flight.
    depth: int
    #: Bytes or requests per second.
    per_s: int


@dataclass(frozen=True)
class MeasuredDrive(Report):
    """A drive that was measured."""

    #: Its name.
    name: str
    #: A directory on the drive.
    dir: Path
    #: Bytes per second of sequential reads.
    read_bytes_per_s: int | None
    #: Bytes per second of sequential writes.
    write_bytes_per_s: int | None
    #: Random reads of 4 KiB per second at the best depth.
    read_iops: int | None
    #: The smallest number of requests in flight that reaches nearly all of the bandwidth.
    depth: int | None
    #: Whether direct I/O works in the directory.
    is_direct: bool
    #: Alignment of offsets and lengths for direct I/O.
    alignment_bytes: int | None
    #: Alignment of buffers for direct I/O.
    memory_alignment_bytes: int | None
    #: Features of the system, such as `io_uring`.
    features: tuple[str, ...]
    #: The group of drives that share a limit.
    group: str | None
    #: Sequential reads of 1 MiB: bytes per second (`per_s`) by requests in flight (`depth`).
    read_by_depth: tuple[RateAtDepth, ...]
    #: Random reads of 4 KiB: reads per second (`per_s`) by requests in flight (`depth`).
    iops_by_depth: tuple[RateAtDepth, ...]
    #: Size of the file that was measured.
    file_bytes: int
    #: Whether the file is in memory.
    is_in_memory: bool
    #: An earlier name of the same drive.
    same_as: str | None
    #: Doubts about these figures.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TogetherRates(Report):
    """The bandwidth of all drives at the same time."""

    #: Bytes per second of reads.
    read_bytes_per_s: int
    #: Bytes per second of writes.
    write_bytes_per_s: int
    #: Reads as a share of the sum of the single drives.
    read_share: float
    #: Writes as a share of the sum of the single drives.
    write_share: float


@dataclass(frozen=True)
class DriveGroup(Report):
    """A limit that drives share."""

    #: Its name.
    name: str
    #: Bytes per second of reads of all its drives.
    read_bytes_per_s: int | None
    #: Bytes per second of writes of all its drives.
    write_bytes_per_s: int | None


@dataclass(frozen=True, repr=False)
class ProbeReport(JobSummary):
    """The measurements of drives."""

    #: The drives; each is an event `drive`.
    members: tuple[MeasuredDrive, ...]
    #: All drives at the same time; none if there is only one. `read_bytes_per_s`, `write_bytes_per_s`, and
    #: these as shares of the sum of the single drives (`read_share`, `write_share`).
    together: TogetherRates | None
    #: Limits that drives share: `name`, `read_bytes_per_s` and `write_bytes_per_s`.
    groups: tuple[DriveGroup, ...]
    #: The file that was written; none if the result went to standard output.
    output: Path | None
    #: The drives file, as text.
    drives_file: str
    #: The measurements as a table for people.
    text: str

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[MeasuredDrive]:
        return iter(self.members)

    def __getitem__(self, at: int) -> MeasuredDrive:
        return self.members[at]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ResumableJob(Report):
    """A job that can be resumed."""

    #: The command that continues it.
    command: str
    #: The time since its last checkpoint.
    age_seconds: int | None
    #: The part of the job that is done, of 100.
    done_percent: int | None


@dataclass(frozen=True)
class ScratchEntry(Report):
    """A directory or an upload that a job has made for itself."""

    #: The directory, or the object of the upload.
    path: Path
    #: Whether a running job uses it.
    in_use: bool
    #: The input file, if the only copy of some of its parts is here.
    kept_for: Path | None
    #: The job that can be resumed with it: `command`, `age_seconds` and `done_percent`.
    resume: ResumableJob | None
    #: The reason why it is never removed.
    left_alone: str | None
    #: Bytes that its files occupy.
    bytes: int


@dataclass(frozen=True, repr=False)
class ScratchListing(JobSummary):
    """The scratch on some drives."""

    #: Directories and uploads; each is an event `scratch`.
    directories: tuple[ScratchEntry, ...]

    def __len__(self) -> int:
        return len(self.directories)

    def __iter__(self) -> Iterator[ScratchEntry]:
        return iter(self.directories)

    def __getitem__(self, at: int) -> ScratchEntry:
        return self.directories[at]


@dataclass(frozen=True)
class RemovedScratch(Report):
    """A directory or an upload that was removed."""

    #: The directory, or the object of the upload.
    path: Path


@dataclass(frozen=True, repr=False)
class ScratchRemoval(JobSummary):
    """The scratch that was removed."""

    #: Directories and uploads; each is an event `removed`.
    directories: tuple[RemovedScratch, ...]

    def __len__(self) -> int:
        return len(self.directories)

    def __iter__(self) -> Iterator[RemovedScratch]:
        return iter(self.directories)

    def __getitem__(self, at: int) -> RemovedScratch:
        return self.directories[at]


@dataclass(frozen=True)
class Setting(Report):
    """A setting."""

    #: Its name in the file of settings.
    key: str
    #: The value, written as in that file.
    value: str
    #: The source of the value.
    source: str


@dataclass(frozen=True, repr=False)
class Settings(JobSummary):
    """All settings."""

    #: The settings; each is an event `setting`.
    settings: tuple[Setting, ...]
    #: The file that was read; none if no file exists.
    file: Path | None

    def __len__(self) -> int:
        return len(self.settings)

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __getitem__(self, at: int) -> Setting:
        return self.settings[at]


__all__ = [
    "VolumeReport",
    "DriveStatus",
    "DatasetRisk",
    "VolumeStatus",
    "Damage",
    "Orphan",
    "ScrubReport",
    "ReplacementReport",
    "AdditionReport",
    "DriveRemovalReport",
    "RebalanceReport",
    "TransferSummary",
    "DatasetEntry",
    "VolumeListing",
    "RemovalReport",
    "RateAtDepth",
    "MeasuredDrive",
    "TogetherRates",
    "DriveGroup",
    "ProbeReport",
    "ResumableJob",
    "ScratchEntry",
    "ScratchListing",
    "RemovedScratch",
    "ScratchRemoval",
    "Setting",
    "Settings",
]
