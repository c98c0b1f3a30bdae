#!/usr/bin/env python3
"""Builds and removes an array of throttled drives on one machine.

Each drive is an image file, a loop device over it (`losetup --direct-io=on`), an ext4 file system and a mount. The
limit is cgroup v1's blkio throttle, separately for reads and writes. A process that joins the group sees drives of RATE
bytes/s in each direction; every other process (and the builder) sees them at full speed. With images on tmpfs the array
behaves like a number of slow SSDs, so that scaling with drives can be measured on a machine that has only one.

    loop_drives.py up 4 --rate 50MB --size 2GiB     # build; prints JSON with the mount points and how to join
    echo $$ > /sys/fs/cgroup/blkio/NAME/cgroup.procs   # join, then run what is to be throttled
    loop_drives.py down                             # remove everything, whoever built it

Facts behind the design (kernel 6.18):
- raw /dev/loopN at requests above 512 KiB is charged twice; with a file system on top it is charged once;
- version 1 throttles only direct I/O; write-back belongs to no process, so it runs unthrottled;
- the throttle works in slices of 100 ms, so latencies on these drives have no meaning;
- images are written in full and never discarded, so their memory is charged to the builder. Otherwise the memory limit
  of the measured process would include its files.

Invariants: everything is under `--dir`. The group's name and the mounts follow from that path alone, so `down` needs no
state and works after a crash. Needs root, loop devices and cgroup v1's blkio controller; without them it prints the
reason and exits with 77 (skipped). Bounds: `N * size` bytes in `--dir`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

DEFAULT_DIR = Path("/dev/shm/outcore-drives")
EXIT_SKIPPED = 77
DRIVES_MAX = 64
IMAGE_BYTES_MIN = 64 << 20
BUSY_TIMEOUT_S = 10.0
ZEROS_BYTES = 4 << 20
_SIZE_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}


class ArrayFailure(RuntimeError):
    """The array could not be built or removed; the text has the step and its cause."""


@dataclass
class Drive:
    """One drive of the array."""

    mount: Path
    image: Path
    device: str
    number: str  # MAJ:MIN


def skip_reason() -> str | None:
    """Why this machine cannot build such an array; None if it can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if shutil.which(tool, path=_tool_path()) is None:
            return f"{tool} is not installed (util-linux, e2fsprogs)"
    if not Path("/dev/loop-control").exists():
        return "no loop devices (/dev/loop-control is missing)"
    root = blkio_root()
    if root is None:
        return "cgroup v1's blkio controller is not mounted"
    if not (root / "blkio.throttle.read_bps_device").exists():
        return "the kernel has no blkio throttle (CONFIG_BLK_DEV_THROTTLING)"
    if not os.access(root, os.W_OK):
        return f"{root} is not writable"
    return None


def blkio_root() -> Path | None:
    """The mount point of cgroup v1's blkio controller."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, options = line.split()[:4]
        if kind == "cgroup" and "blkio" in options.split(","):
            return Path(target)
    return None


def group_path(directory: Path) -> Path | None:
    """The throttled group of the array in `directory`, named after the path."""
    root = blkio_root()
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:8]
    return root / f"outcore-drives-{name}" if root else None


def _tool_path() -> str:
    # Mount tools are in sbin, which may be missing in a plain user's PATH.
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _run(*command: str) -> str:
    """Runs a tool and returns its output. Raises ArrayFailure with the tool's own message."""
    environment = {**os.environ, "PATH": _tool_path(), "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise ArrayFailure(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise ArrayFailure(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _build_drive(directory: Path, index: int, size_bytes: int) -> Drive:
    image = directory / f"drive-{index}.img"
    mount = directory / f"drive-{index}"
    descriptor = os.open(image, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        # Allocated room is not memory yet: the first measured write would fetch each page, possibly from a hypervisor.
        zeros = bytes(ZEROS_BYTES)
        for offset in range(0, size_bytes, ZEROS_BYTES):
            os.pwrite(descriptor, zeros[: size_bytes - offset], offset)
    except OSError as error:
        raise ArrayFailure(f"no room for {size_bytes} bytes in {directory}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    device = _run("losetup", "--find", "--show", "--direct-io=on", str(image)).strip()
    # No lazy initialisation and no discard: neither background writes nor freed image pages during a measurement.
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device)
    mount.mkdir()
    _run("mount", "-t", "ext4", "-o", "noatime,nodiscard", device, str(mount))
    shutil.rmtree(mount / "lost+found", ignore_errors=True)
    number = os.stat(device).st_rdev
    return Drive(mount, image, device, f"{os.major(number)}:{os.minor(number)}")


def build(count: int, rate_bytes_s: int, size_bytes: int, directory: Path = DEFAULT_DIR) -> list[Drive]:
    """Builds `count` drives of `rate_bytes_s` in each direction (0: unthrottled) and `size_bytes` each under
    `directory`.

    An array from an earlier run there is removed first. A failure leaves nothing behind.
    """
    reason = skip_reason()
    if reason:
        raise ArrayFailure(reason)
    if not 1 <= count <= DRIVES_MAX:
        raise ArrayFailure(f"{count} drives: 1 to {DRIVES_MAX} are possible")
    if size_bytes < IMAGE_BYTES_MIN:
        raise ArrayFailure(f"a drive of {size_bytes} bytes is too small, the least is {IMAGE_BYTES_MIN}")
    remove(directory)
    directory.mkdir(parents=True, mode=0o700)
    try:
        drives = [_build_drive(directory, index, size_bytes) for index in range(count)]
        group = group_path(directory)
        assert group is not None  # skip_reason saw the controller
        group.mkdir()
        for drive in drives if rate_bytes_s else []:
            for direction in ("read", "write"):
                limits = group / f"blkio.throttle.{direction}_bps_device"
                limits.write_text(f"{drive.number} {rate_bytes_s}")
    except BaseException:
        remove(directory)
        raise
    return drives


def remove(directory: Path = DEFAULT_DIR) -> bool:
    """Unmounts, detaches and deletes what `build` made under `directory`. It searches for these, so it also works after
    a crash.

    Processes in the array's group continue but are moved out of it. Returns whether there was anything to remove.
    """
    directory = directory.resolve()
    found = directory.exists()
    for mount in _mounts_under(directory):
        until_free("umount", mount)
    for device in _loops_under(directory):
        until_free("losetup", "--detach", device)
    group = group_path(directory)
    if group is not None and group.exists():
        _remove_group(group)
        found = True
    if directory.exists():
        _delete_images(directory)
    return found


def until_free(*command: str) -> None:
    """Repeats a command that fails while another process (one that is just ending) still holds the drive."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            _run(*command)
            return
        except ArrayFailure:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _mounts_under(directory: Path) -> list[str]:
    """Mount points below the directory, innermost first. The mount table writes a blank as \\040."""
    targets = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        target = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), line.split()[1])
        if Path(target).parent == directory:
            targets.append(target)
    return targets[::-1]


def _loops_under(directory: Path) -> list[str]:
    """Loop devices whose image is in the directory, including deleted images."""
    devices = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            image = backing.read_text().strip().removesuffix(" (deleted)")
            if Path(image).parent == directory:
                devices.append(f"/dev/{backing.parts[3]}")
    return devices


def _remove_group(group: Path) -> None:
    for line in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(line)
    try:
        group.rmdir()
    except OSError as error:
        raise ArrayFailure(f"cannot remove {group}: {error.strerror}") from error


def _delete_images(directory: Path) -> None:
    """Deletes only images and empty mount points; other files stay and are reported."""
    for image in directory.glob("drive-*.img"):
        image.unlink()
    for mount in directory.glob("drive-*"):
        with contextlib.suppress(OSError):
            mount.rmdir()
    try:
        directory.rmdir()
    except OSError as error:
        left = ", ".join(path.name for path in directory.iterdir())
        raise ArrayFailure(f"{directory} is not empty ({left}): {error.strerror}") from error


def parse_bytes(text: str) -> int:
    """The number of bytes in `50MB`, `2GiB` or `4096`."""
    match = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text.strip())
    if not match or match.group(2).upper() not in _SIZE_UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 50MB, 2GiB or 4096")
    return int(match.group(1)) * _SIZE_UNITS[match.group(2).upper()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Build or remove an array of throttled loop drives.")
    parser.add_argument("action", choices=["up", "down", "check"], help="check: only say whether this machine can")
    parser.add_argument("count", nargs="?", type=int, default=4, metavar="N", help="drives (default 4)")
    parser.add_argument(
        "--rate",
        type=parse_bytes,
        default=50 * 10**6,
        metavar="BYTES",
        help="bytes per second and drive, each way; 0: unthrottled (default 50MB)",
    )
    parser.add_argument("--size", type=parse_bytes, default=1 << 30, metavar="BYTES", help="of a drive (default 1GiB)")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIR, help=f"for images and mounts (default {DEFAULT_DIR})")
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    # `kill` and a closed terminal clean up in the same way as Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    reason = skip_reason()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return EXIT_SKIPPED
    try:
        if arguments.action == "up":
            drives = build(arguments.count, arguments.rate, arguments.size, arguments.dir)
            group = group_path(arguments.dir)
            described = [{key: str(value) for key, value in asdict(drive).items()} for drive in drives]
            print(json.dumps({"group": str(group), "rate_bytes_s": arguments.rate, "drives": described}, indent=2))
            print(f"join with:  echo $$ > {group}/cgroup.procs", file=sys.stderr)
        elif arguments.action == "down":
            print("removed" if remove(arguments.dir) else "nothing to remove", file=sys.stderr)
    except ArrayFailure as error:
        print(f"loop_drives: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
