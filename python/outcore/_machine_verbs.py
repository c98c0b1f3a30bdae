"""Verbs on drives, scratch and settings: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations


from ._arguments import Paths, Size, StrPath
from ._place_reports import ProbeReport, ScratchListing, ScratchRemoval, Settings
from ._words import Option, run

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "dirs": Option("paths", "dirs", ()),
    "drives probe.dirs": Option("paths", "dirs", ...),
    "dst": Option("path", "--output", None),
    "force": Option("flag", "--force", False),
    "io": Option("text", "--io", None),
    "resumable": Option("flag", "--resumable", False),
    "size": Option("size", "--size", "1GiB"),
    "step": Option("text", "--step", "1s"),
}


def probe_drives(
    dirs: Paths, dst: StrPath | None = None, *, io: str | None = None, size: Size = "1GiB", step: str = "1s",
    force: bool = False,
) -> ProbeReport:
    """Measure bandwidth, IOPS by queue depth, alignment, features and shared limits of drives.

    Measures each drive alone, then all together, on a file in a private directory that is removed afterwards.
    The result is a drives file, which drives= takes.

    Args:
        dirs: A directory on each drive, or a drives file (.toml) to measure again.
        dst: File to write, for drives=; its name ends in .toml.
        io: I/O mode: auto, direct (O_DIRECT) or buffered.
        size: Size of the file on each drive, at most a quarter of the free space.
        step: Time for each step; there are about seven steps per drive.
        force: As in `get`.

    Raises: What `sort` raises.
    """
    return run("drives probe", ProbeReport, (), _OPTIONS, locals())


def list_scratch(
    dirs: Paths = (),
) -> ScratchListing:
    """List scratch directories (.outcore-*) and say whether a running job owns them.

    Args:
        dirs: Directories to search, and the directories directly inside them, or places of a store such as
            s3://bucket. Default: the configured drives, or the current directory.

    Raises: What `sort` raises.
    """
    return run("scratch list", ScratchListing, (), _OPTIONS, locals())


def clean_scratch(
    dirs: Paths = (), *, resumable: bool = False,
) -> ScratchRemoval:
    """Remove scratch directories (.outcore-*) that no running job owns.

    Every job does this by itself in the directories that it uses. If a killed job was publishing several
    files, that is finished first. Jobs that can be resumed stay, unless resumable= is given. In a store,
    uploads of ended jobs are aborted.

    Args:
        resumable: Also remove what jobs that can be resumed have left.
        dirs: As in `list_scratch`.

    Raises: What `sort` raises.
    """
    return run("scratch clean", ScratchRemoval, (), _OPTIONS, locals())


def settings(
   
) -> Settings:
    """List every setting and where it comes from.

    Raises: What `sort` raises.
    """
    return run("config show", Settings, (), _OPTIONS, locals())


__all__ = [
    "probe_drives",
    "list_scratch",
    "clean_scratch",
    "settings",
]
