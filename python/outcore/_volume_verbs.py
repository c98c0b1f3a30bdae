"""Verbs on volumes, as methods: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from ._arguments import Paths, Size, StrPath
from ._progress import Watcher
from ._place_reports import AdditionReport, DriveRemovalReport, RebalanceReport, RemovalReport, ReplacementReport, ScrubReport, TransferSummary, VolumeListing, VolumeReport, VolumeStatus
from ._words import Option, run

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "dir": Option("path", "dir", ...),
    "drive": Option("text", "drive", ...),
    "drives": Option("paths", "drives", ...),
    "force": Option("flag", "--force", False),
    "limit": Option("size", "--limit", None),
    "mirror": Option("flag", "--mirror", False),
    "name": Option("dataset", "name", ...),
    "volume ls.name": Option("dataset", "name", None),
    "names": Option("datasets", "names", ...),
    "parity": Option("number", "--parity", 0),
    "record_io": Option("path", "--record-io", None),
    "remove_orphans": Option("flag", "--remove-orphans", False),
    "source": Option("path", "source", ...),
    "stripe": Option("size", "--stripe", "1MiB"),
    "target": Option("path", "target", ...),
}


class VolumeVerbs:
    """The verbs as methods."""

    def _means(self) -> dict[str, Any]:
        """Keywords that every call gets."""
        return {}

    def _create(
        self, *, stripe: Size = "1MiB", parity: SupportsIndex = 0, mirror: bool = False,
    ) -> VolumeReport:
        """Create an empty volume over the directories of a drives file.

        Makes a folder `outcore-volume` in each directory. The directories must exist: one that is missing is
        often a drive that is not mounted.

        Args:
            stripe: Stripe size: a power of two from 4KiB to 4MiB.
            parity: How many drives may be lost: 0, or 1 at the cost of one drive's room.
            mirror: Keep a copy of everything on another drive, so that one drive may be lost.

        Raises: What `sort` raises.
        """
        return run("volume create", VolumeReport, (), _OPTIONS, {**self._means(), **locals()})

    def status(
        self,
    ) -> VolumeStatus:
        """Show the drives of a volume, and what is at risk.

        For each drive, it shows the directory, the bytes of datasets, the share by weight if that differs, and
        the free bytes. Datasets that cannot be read, or whose redundancy is incomplete, are listed with the
        drives that are missing or have lost parts of them.

        Raises: What `sort` raises.
        """
        return run("volume status", VolumeStatus, (), _OPTIONS, {**self._means(), **locals()})

    def scrub(
        self, *names: str, remove_orphans: bool = False, limit: Size | None = None,
        progress: Watcher | bool | None = None,
    ) -> ScrubReport:
        """Read all datasets, or those named, and report damage.

        The report has dataset, drive, file and offset of each damage. Without names, orphans (files that belong
        to no dataset) are reported too. Damaged or lost labels and copies of manifests are restored from other
        drives. On a volume with parity or a mirror, damaged data are restored as well.

        Args:
            names: Datasets to read. Default: all.
            remove_orphans: Remove orphans: files that belong to no dataset.
            limit: Limit on bytes per second, such as 200MB/s, so that other jobs have the rest.
            progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume scrub", ScrubReport, ("scrub",), _OPTIONS, {**self._means(), **locals()})

    def replace(
        self, drive: str, dir: StrPath, *, force: bool = False, limit: Size | None = None,
        progress: Watcher | bool | None = None,
    ) -> ReplacementReport:
        """Rebuild a lost drive in another directory.

        Computes the contents of the drive from the other drives, verifies them, and writes them to the new
        directory, which then takes the drive's place in the drives file. The drive keeps its name. The new
        directory may be the same one, on a new drive that is mounted there. A command that was killed continues
        when it is repeated.

        Args:
            drive: The drive to replace, by its name in the drives file.
            dir: The directory that takes its place, on another drive.
            force: Give up contents that no other drive can replace: all of them, if the volume has neither parity
                nor a mirror.
            limit: As in `scrub`.
            progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume replace", ReplacementReport, ("rebuild",), _OPTIONS, {**self._means(), **locals()})

    def add(
        self, drives: Paths,
    ) -> AdditionReport:
        """Add drives to a volume.

        A new drive gets a label and the manifests, and the drives file names it. Datasets stay where they are;
        new ones use the drive, in proportion to its weight. `volume rebalance` moves the others. Naming a drive
        that is being removed cancels its removal. A command that was killed continues when it is repeated.

        Args:
            drives: Directories on new drives, or names that the drives file has already.

        Raises: What `sort` raises.
        """
        return run("volume add", AdditionReport, (), _OPTIONS, {**self._means(), **locals()})

    def remove(
        self, drive: str, *, force: bool = False, limit: Size | None = None,
        progress: Watcher | bool | None = None,
    ) -> DriveRemovalReport:
        """Remove a drive from a volume.

        Datasets that use the drive are written anew without it: from the drive, or, if it is missing, from the
        other drives. Then the command removes its label, and its name from the drives file. From the start, new
        datasets do not use the drive. A missing drive then does not prevent writes, and outcore ignores its
        contents if it comes back. A command that was killed continues when it is repeated; `volume add` cancels
        the removal of a drive that is present.

        Args:
            drive: The drive to remove, by its name in the drives file.
            force: Give up datasets that cannot be read without the drive, if it is missing.
            limit: As in `scrub`.
            progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume remove", DriveRemovalReport, ("move",), _OPTIONS, {**self._means(), **locals()})

    def rebalance(
        self, *, limit: Size | None = None, progress: Watcher | bool | None = None,
    ) -> RebalanceReport:
        """Move datasets so that every drive has its share by weight.

        Each dataset whose bytes are on the wrong drives is written anew under its name, and its old files are
        then removed. The dataset can be read all the time. A command that was killed continues when it is
        repeated.

        Args:
            limit: As in `scrub`.
            progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume rebalance", RebalanceReport, ("move",), _OPTIONS, {**self._means(), **locals()})

    def put(
        self, source: StrPath, name: str, *, force: bool = False, record_io: StrPath | None = None,
        progress: Watcher | bool | None = None,
    ) -> TransferSummary:
        """Store a file or a directory as a dataset.

        The dataset is striped over all drives, checksummed and sealed. A directory is packed with an index, so
        that its files can be read by name; symbolic links stay links, and sockets, pipes and devices are left out
        and counted. Permissions and times are kept.

        Args:
            source: A file or a directory.
            name: The dataset.
            force: Replace a dataset of that name.
            record_io, progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume put", TransferSummary, ("copy",), _OPTIONS, {**self._means(), **locals()})

    def get(
        self, name: str, target: StrPath, *, force: bool = False, record_io: StrPath | None = None,
        progress: Watcher | bool | None = None,
    ) -> TransferSummary:
        """Read a dataset, or one file of a packed directory.

        Args:
            name: The dataset, or name/file for a file packed in it.
            target: The file to write, the directory to make.
            force: Replace a file that exists.
            record_io, progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume get", TransferSummary, ("copy",), _OPTIONS, {**self._means(), **locals()})

    def ls(
        self, name: str | None = None,
    ) -> VolumeListing:
        """List the datasets of a volume, or the files packed in one.

        Marks a dataset that needs a missing drive.

        Args:
            name: A packed directory to list.

        Raises: What `sort` raises.
        """
        return run("volume ls", VolumeListing, (), _OPTIONS, {**self._means(), **locals()})

    def rm(
        self, *names: str,
    ) -> RemovalReport:
        """Remove datasets from a volume.

        Args:
            names: The datasets.

        Raises: What `sort` raises.
        """
        return run("volume rm", RemovalReport, (), _OPTIONS, {**self._means(), **locals()})

    def cp(
        self, source: StrPath, target: StrPath, *, force: bool = False, record_io: StrPath | None = None,
        progress: Watcher | bool | None = None,
    ) -> TransferSummary:
        """Copy between files and datasets, or from one dataset to another.

        Args:
            source: A file, or @NAME.
            target: A file, or @NAME.
            force: Replace what exists.
            record_io, progress: As in `sort`.

        Raises: What `sort` raises.
        """
        return run("volume cp", TransferSummary, ("copy",), _OPTIONS, {**self._means(), **locals()})
