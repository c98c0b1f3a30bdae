"""The campaign `power`: snapshots of a file system while a job with --resume writes to it.

Contract: as `campaigns.py`. The images are files on an XFS that is itself an image in memory, so
that a clone of an image (`FICLONE`) is atomic. Like a drive after a power loss, a clone has the data
that had reached the drive at that moment, without the data that the file system still held in
memory. A case starts a job on ext4, XFS or btrfs, clones the image once or several times, kills the
job, mounts a clone in place of the image and runs the same command. The output must be that of an
undisturbed run, and nothing else may be left. Needs root, loop devices and the tools of the file
systems; file systems whose tools are missing are left out. About 1.5 GiB of memory. Everything is
under one directory and removed in `close`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from campaign_races import Outcome

MAKERS = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
IMAGE_BYTES = 320 << 20  # XFS needs at least 300 MiB.
OUTER_BYTES = 6 << 30
TOOL_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
JOBS = {
    "numbers": "sort in -o out --type u64 --memory 6MiB --drive . --resume --threads 2",
    "records": "sort in -o out --record 16 --key 0:4 --stable --memory 6MiB --drive . --resume",
    "shuffle": "shuffle in -o out --type u64 --memory 8MiB --drive . --resume",
    "lines": "sort lines -o out --memory 6MiB --drive . --resume",
    "unique": "unique lines -o out --memory 6MiB --drive . --resume",
    "plain": "sort in -o out --type u64 --memory 6MiB --drive .",
}


def skip_reason() -> str | None:
    """Why this machine cannot take snapshots; None if it can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("losetup", "mount", "mkfs.xfs"):
        if shutil.which(tool, path=TOOL_PATH) is None:
            return f"{tool} is not installed"
    if not Path("/dev/loop-control").exists():
        return "no loop devices"
    return None


def tool(*words: str) -> str:
    """Runs a tool; its output."""
    done = subprocess.run(words, env={**os.environ, "PATH": TOOL_PATH}, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Image:
    """A mounted image."""

    def __init__(self, file: Path, mount: Path, kind: str) -> None:
        self.mount = mount
        self.device = tool("losetup", "--find", "--show", str(file)).strip()
        try:
            # A clone of XFS or btrfs has the identity of its source.
            options = ["-o", "nouuid"] if kind == "xfs" else []
            tool("mount", *options, self.device, str(mount))
        except RuntimeError:
            tool("losetup", "--detach", self.device)
            raise

    def close(self) -> None:
        """Unmounts and detaches it."""
        ends = time.monotonic() + 10
        while True:
            try:
                tool("umount", str(self.mount))
                break
            except RuntimeError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
        tool("losetup", "--detach", self.device)


class Power:
    """See the module."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.command = str(Path(options.command).resolve())
        self.place = Path(tempfile.mkdtemp(prefix="outcore-power-", dir=options.directory))
        self.open: list[Image] = []
        self.seconds: dict[str, float] = {}
        self.whole: dict[str, bytes] = {}
        self.resumed = 0
        self.anew = 0
        for name in ("outer", "disk"):
            (self.place / name).mkdir()
        self._image(self.place / "outer.img", OUTER_BYTES, MAKERS["xfs"])
        self.outer = Image(self.place / "outer.img", self.place / "outer", "xfs")
        known = list(MAKERS)[:1] if options.name == "slice" else list(MAKERS)
        self.kinds = [kind for kind in known if shutil.which(MAKERS[kind][0], path=TOOL_PATH)]
        self.jobs = ["numbers"] if options.name == "slice" else sorted(JOBS)
        try:
            for kind in self.kinds:
                self._begin(kind)
        except BaseException:
            self.close()
            raise

    def _image(self, path: Path, len_bytes: int, maker: tuple[str, ...]) -> None:
        with path.open("wb") as file:
            file.truncate(len_bytes)
        tool(*maker, str(path))

    def _begin(self, kind: str) -> None:
        """Makes an image with inputs; the first one also runs all jobs once."""
        path = self.place / "outer" / f"{kind}.img"
        self._image(path, IMAGE_BYTES, MAKERS[kind])
        image = self._mount(path, kind)
        draw = random.Random(2)
        work = self.place / "disk"
        (work / "in").write_bytes(draw.randbytes(9_600_000))
        lines = [f"{draw.randrange(10**6)} {draw.randrange(10**9)}\n" for _ in range(300_000)]
        (work / "lines").write_text("".join(lines))
        for name in self.jobs:
            line = JOBS[name]
            if name not in self.whole:
                started = time.monotonic()
                done = self._start(line)
                _, said = done.communicate()
                if done.returncode != 0:
                    raise RuntimeError(f"{line}: {said.decode()}")
                self.seconds[name] = time.monotonic() - started
                self.whole[name] = (work / "out").read_bytes()
                (work / "out").unlink()
        os.sync()
        self._unmount(image)

    def _mount(self, path: Path, kind: str) -> Image:
        image = Image(path, self.place / "disk", kind)
        self.open.append(image)
        return image

    def _unmount(self, image: Image) -> None:
        image.close()
        self.open.remove(image)

    def _start(self, line: str) -> subprocess.Popen[bytes]:
        variables = {"PATH": os.defpath, "HOME": str(self.place), "OUTCORE_CONFIG": "",
                     "XDG_CACHE_HOME": str(self.place)}
        return subprocess.Popen([self.command, *line.split()], cwd=self.place / "disk",
                                env=variables, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _clone(self, source: Path, target: Path) -> None:
        tool("cp", "--reflink=always", str(source), str(target))

    def case(self, draw: random.Random) -> Outcome:
        """One snapshot during one job."""
        kind, name = draw.choice(self.kinds), draw.choice(self.jobs)
        what = f"{JOBS[name]} on {kind}"
        base, image_file = self.place / "outer" / f"{kind}.img", self.place / "outer" / "now.img"
        shot = self.place / "outer" / "shot.img"
        self._clone(base, image_file)
        image = self._mount(image_file, kind)
        process = self._start(JOBS[name])
        try:
            time.sleep(self.seconds[name] * draw.uniform(0.02, 1.15))
            self._clone(image_file, shot)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self._unmount(image)
        image_file.unlink()
        try:
            image = self._mount(shot, kind)
        except RuntimeError as error:
            return Outcome.wrong(what, f"the snapshot cannot be mounted: {error}")
        try:
            return self._judge(name, what)
        finally:
            self._unmount(image)
            shot.unlink()

    def _judge(self, name: str, what: str) -> Outcome:
        """Runs the job again after the power loss."""
        work = self.place / "disk"
        is_there = (work / "out").exists()
        if is_there and (work / "out").read_bytes() != self.whole[name]:
            return Outcome.wrong(what, "the output is not whole")
        said = ""
        if not is_there or name != "plain":
            done = self._start(JOBS[name])
            _, errors = done.communicate()
            said = errors.decode(errors="replace")
            if done.returncode != 0:
                return Outcome.wrong(what, f"exit code {done.returncode}: {said}")
        else:
            subprocess.run([self.command, "scratch", "clean", "."], cwd=work, check=True,
                           capture_output=True)
        is_resumed = "continues the run" in said
        self.resumed += is_resumed
        self.anew += not is_resumed
        if (work / "out").read_bytes() != self.whole[name]:
            return Outcome.wrong(what, f"the output is wrong: {said}")
        left = sorted(set(os.listdir(work)) - {"in", "lines", "out", "lost+found"})
        if left:
            return Outcome.wrong(what, f"{left} is left: {said}")
        return Outcome.right(what, "resumed" if is_resumed else "begun anew or done")

    def close(self) -> None:
        """Unmounts and removes everything."""
        for image in self.open[::-1]:
            self._unmount(image)
        self.outer.close()
        shutil.rmtree(self.place, ignore_errors=True)
        print(f"{self.resumed} resumed, {self.anew} begun anew or done")
