"""The campaigns on jobs of their own: flipped bits, two jobs on one output, inputs that change.

Contract: as `campaigns.py`. A `Yard` is a directory with inputs of all kinds that follow from the
seed 1, so that each case begins from the same files. A few MiB; no process is left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from campaign_jobs import LIMIT_SECONDS, Answer, shown, states

SMALL = "--memory 8MiB --drive . --threads 1"
VERIFIED = [
    "sort big --type u64 -o out --memory 4MiB --drive . --threads 1",
    "sort in --type u64 -o out --memory 64MiB --threads 2",
    "sort in --record 8 --key 0:3 --stable -o out --memory 64MiB",
    "unique in --type u64 -o out --memory 64MiB",
    "shuffle in --type u64 -o out --memory 16MiB --drive .",
    "sort biglines -o out --memory 4MiB --drive .",
    "sort lines -n -r -o out --memory 64MiB",
    "unique lines -o out --memory 64MiB",
    "shuffle lines -o out --memory 64MiB",
    "sort rows.csv --csv --by k -o out.csv --memory 64MiB",
    "shuffle rows.csv --csv -o out.csv --memory 64MiB",
    "sort rows.jsonl --jsonl --by k -o out.jsonl --memory 64MiB",
]
CHECKSUMMED = [
    "view cat v.view",
    "view cat lines.view",
    "graph pagerank g.graph -o out.npy",
    "graph cc g.graph -o out.npy",
    "graph export g.graph -o out.npz",
    "volume get @d out --volume drives.toml",
]
# Jobs that run at once with one output; {in} is `in` or `in2`, {rows} is `rows` or `rows2`, and so on.
RACES = [
    ("sort {in} --type u64 -o out --memory 8MiB --drive .",),
    ("sort {in} --type u64 -o out",),
    ("sort {lines} -o out", "shuffle {lines} -o out"),
    ("sort {rows}.csv --csv --by k -o out.csv --memory 16MiB",),
    ("sort {rows}.csv --by k -o out.parquet",),
    ("sort {in} --type u64 -o {{drive}}/out --drive a --drive b",),
    ("convert {rows}.csv -o parts --parts 3",),
    ("convert {rows}.csv -o out.parquet",),
    ("view build {in} -o w.view --type u64",),
    ("graph convert {edges} -o h.graph --type u32",),
    ("partition 'x % 3' --parts 3 {in} -o part-{{part}} --type u64",),
    ("unique {lines} -o out", "map x*2 {in} -o out --type u64", "scan sum {in} -o out --type u64"),
    ("sort {in} --type u64 -o out --resume --memory 8MiB --drive .",),
    ("volume put {in} @e --volume drives.toml",),
    ("split {rows}.csv -o by-v --by v",),
    ("sort {in} --type u64 -o out", "sort {lines} -o out", "shuffle {in} --type u64 -o out"),
]
CHANGED = [
    ("in", "sort in --type u64 -o out " + SMALL),
    ("in", "sort in --type u64 -o out --threads 1"),
    ("in", "shuffle in --type u64 -o out --memory 16MiB --drive . --threads 1"),
    ("in", "unique in --type u64 -o out --threads 1"),
    ("in", "map x*2 in -o out --type u64 --threads 1"),
    ("in", "reduce sum in --type u64 --threads 1"),
    ("in", "partition 'x % 3' --parts 3 in -o part-{part} --type u64 --threads 1"),
    ("in", "view build in -o w.view --type u64 --threads 1"),
    ("in", "sort in --type u64 -o out --verify-output --threads 1"),
    ("lines", "sort lines -o out " + SMALL),
    ("lines", "unique lines -o out --threads 1"),
    ("lines", "shuffle lines -o out --threads 1"),
    ("rows.csv", "sort rows.csv --csv --by k -o out.csv --threads 1"),
    ("rows.csv", "convert rows.csv -o out.parquet --threads 1"),
    ("rows.parquet", "sort rows.parquet --by k -o out.parquet --threads 1"),
    ("rows.parquet", "group-by rows.parquet --by v --agg n=count -o out.csv --threads 1"),
    ("rows.parquet", "join rows.parquet rows2.parquet --on k -o out.parquet --threads 1"),
    ("edges", "graph convert edges -o h.graph --type u32 --threads 1"),
]


@dataclass
class Outcome:
    """The result of a case."""

    kind: str
    what: str
    why: str = ""

    @staticmethod
    def right(what: str, why: str = "") -> Outcome:
        """The result is that of an undisturbed run."""
        return Outcome("right", what, why)

    @staticmethod
    def refused(what: str, why: str = "") -> Outcome:
        """An error, and nothing is left."""
        return Outcome("refused", what, why)

    @staticmethod
    def wrong(what: str, why: str) -> Outcome:
        """Anything else."""
        return Outcome("wrong", what, why)


class Yard:
    """A directory with inputs, in which commands run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="outcore-campaign-", dir=options.directory))
        self.command = str(Path(options.command).resolve())
        self.variables = {"PATH": os.defpath, "HOME": str(self.place.parent), "LC_ALL": "C.UTF-8",
                          "OUTCORE_CONFIG": "", "XDG_CACHE_HOME": str(self.place.parent)}
        draw = random.Random(1)
        # Larger than the least memory, for jobs with scratch.
        (self.place / "big").write_bytes(draw.randbytes(8 * 700_000))
        lines = [f"{draw.randrange(10**9)}\n" for _ in range(200_000)]
        (self.place / "biglines").write_text("".join(lines))
        for end in ("", "2"):
            (self.place / f"in{end}").write_bytes(draw.randbytes(8 * 150_000))
            lines = [f"{draw.randrange(30_000)} x{line}\n" for line in range(40_000)]
            (self.place / f"lines{end}").write_text("".join(lines))
            rows = [(draw.randrange(9_000), draw.randrange(7)) for _ in range(12_000)]
            (self.place / f"rows{end}.csv").write_text(
                "k,v\n" + "".join(f"{key},v{value}\n" for key, value in rows))
            edges = [draw.randrange(700) for _ in range(8_000)]
            (self.place / f"edges{end}").write_bytes(struct.pack(f"<{len(edges)}I", *edges))
        (self.place / "rows.jsonl").write_text(
            "".join(f'{{"k":{key},"v":"v{value}"}}\n' for key, value in rows))
        for name in ("a", "b", "c", "d1", "d2", "d3"):
            (self.place / name).mkdir()
        drives = [f'[[drive]]\nname = "{name}"\ndir = "{name}"\n' for name in ("d1", "d2", "d3")]
        (self.place / "drives.toml").write_text("\n".join(drives))
        for line in ("convert rows.csv -o rows.parquet", "convert rows2.csv -o rows2.parquet",
                     "view build in -o v.view --type u64", "view build lines -o lines.view --lines",
                     "graph convert edges -o g.graph --type u32",
                     "volume create --volume drives.toml", "volume put in @d --volume drives.toml"):
            answer = self.run(line)
            if answer.code != 0:
                raise RuntimeError(f"{line}: {answer.said}")
        self.before = states(self.place)
        self.seen = self.look()
        self.known: dict[str, tuple[dict[str, bytes], set[str], str]] = {}

    def words(self, line: str) -> list[str]:
        """The words of a command."""
        return [self.command, *shlex.split(line)]

    def start(self, line: str, fault: str | None = None) -> subprocess.Popen[str]:
        """Starts a command."""
        variables = dict(self.variables, **({"OUTCORE_FAULT": fault} if fault else {}))
        return subprocess.Popen(self.words(line), cwd=self.place, env=variables, text=True,
                                errors="replace", stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process: subprocess.Popen[str]) -> Answer:
        """Waits for a command; the answer has the messages of a failed command, or else its
        output."""
        try:
            out, said = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Answer(-1000, f"still running after {LIMIT_SECONDS} s")
        return Answer(process.returncode, said if process.returncode else out)

    def run(self, line: str, fault: str | None = None) -> Answer:
        """Runs a command."""
        return self.finish(self.start(line, fault))

    def restore(self) -> None:
        """Brings the inputs back, and removes all else."""
        now = states(self.place)
        for name in sorted(set(now) - set(self.before), reverse=True):
            path = self.place / name.rstrip("/")
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for name, content in sorted(self.before.items()):
            if now.get(name) != content:
                path = self.place / name.rstrip("/")
                if name.endswith("/"):
                    path.mkdir(exist_ok=True)
                else:
                    path.unlink(missing_ok=True)
                    path.write_bytes(content)

    def whole(self, line: str) -> tuple[dict[str, bytes], set[str], str]:
        """The names that a command makes, the names whose contents vary, and the text that it prints."""
        if line not in self.known:
            found = []
            for _ in range(2):
                answer = self.run(line)
                if answer.code != 0:
                    raise RuntimeError(f"{line}: exit code {answer.code}: {answer.said}")
                found.append((self.look(), answer.said))
                self.restore()
            (first, said), (second, _) = found
            names = set(first) | set(second)
            varying = {name for name in names if first.get(name) != second.get(name)}
            self.known[line] = (first, varying, said)
        return self.known[line]

    def look(self) -> dict[str, bytes]:
        """The state of the directory. For the volume, whose files have other names each time, it
        has the number of files and the contents of each dataset."""
        found = shown(self.place, self.command)
        files = [name for name in found if "/outcore-volume/" in name and not name.endswith("/")]
        datasets = {Path(name).stem for name in files if Path(name).parent.name == "datasets"}
        found = {name: content for name, content in found.items() if name not in files}
        found["volume"] = str(len(files)).encode()
        for name in sorted(datasets):
            with tempfile.TemporaryDirectory(dir=self.place.parent) as folder:
                answer = self.run(f"volume get @{name} {folder}/got --volume drives.toml")
                path = Path(folder) / "got"
                found[f"@{name}"] = path.read_bytes() if answer.code == 0 else answer.said.encode()
        return found

    def is_state(self, now: dict[str, bytes], whole: dict[str, bytes], varying: set[str]) -> bool:
        """Whether the directory is in a state, except for names whose contents vary."""
        fixed = lambda state: {name: content for name, content in state.items()  # noqa: E731
                               if name not in varying}
        return fixed(now) == fixed(whole)

    def close(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.place, ignore_errors=True)


@dataclass
class InYard:
    """A campaign in a yard."""

    options: argparse.Namespace
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.yard = Yard(self.options)

    def case(self, draw: random.Random) -> Outcome:
        """Runs a case and brings the inputs back."""
        try:
            return self.attack(draw)
        finally:
            self.yard.restore()

    def attack(self, draw: random.Random) -> Outcome:
        """One case; each campaign has its own."""
        return Outcome.wrong("no attack", f"{type(self).__name__} has none, drawn {draw.random()}")

    def close(self) -> None:
        """Removes the yard."""
        self.yard.close()

    def after_fault(self, what: str, line: str, answer: Answer) -> Outcome:
        """The outcome of a command that met a fault, or was too fast for it."""
        whole, varying, said = self.yard.whole(line)
        now = self.yard.look()
        is_same = self.yard.is_state(now, whole, varying) and answer.said == said
        if answer.code == 0 and is_same:
            return Outcome.right(what)
        if answer.code > 0 and "error" in answer.said and now == self.yard.seen:
            return Outcome.refused(what, answer.said.strip().splitlines()[0])
        left = sorted(name for name in set(now) ^ set(self.yard.seen))
        return Outcome.wrong(what, f"exit code {answer.code}, {left}: {answer.said}")


class Flips(InYard):
    """A flipped bit of a write with --verify-output, or of a read of checksummed data."""

    def attack(self, draw: random.Random) -> Outcome:
        line, kind = draw.choice([(f"{line} --verify-output", "write") for line in VERIFIED]
                                 + [(line, "read") for line in CHECKSUMMED])
        self.yard.whole(line)
        if line not in self.counts:
            high = 8
            while self.yard.run(line, f"kill@{high}:{kind}").code == -9:
                self.yard.restore()
                high *= 2
            self.counts[line] = high
            self.yard.restore()
        fault = f"flip@{draw.randint(1, self.counts[line])}:{kind}"
        return self.after_fault(f"OUTCORE_FAULT={fault} {line}", line, self.yard.run(line, fault))


class Races(InYard):
    """Two jobs on one output."""

    def attack(self, draw: random.Random) -> Outcome:
        shape = draw.choice(RACES)
        force = " --force" if draw.random() < 0.5 else ""
        lines = []
        for end in ("", "2"):
            names = {name: name + end for name in ("in", "lines", "rows", "edges")}
            lines.append(draw.choice(shape).format(**names) + force)
        known = [self.yard.whole(line) for line in lines]
        processes = []
        for line in lines:
            processes.append(self.yard.start(line))
            time.sleep(draw.choice([0, 0, 0.001, 0.005, 0.02]))
        answers = [self.yard.finish(process) for process in processes]
        what = f"{lines[0]} together with {lines[1]}"
        said = [f"exit code {answer.code}: {answer.said.strip()}" for answer in answers]
        for answer in answers:
            if answer.code < 0 or answer.code and "error" not in answer.said:
                return Outcome.wrong(what, "; ".join(said))
        now = self.yard.look()
        varying = known[0][1] | known[1][1]
        done = [whole for (whole, _, _), answer in zip(known, answers) if answer.code == 0]
        if not any(self.yard.is_state(now, whole, varying) for whole in done or [self.yard.seen]):
            left = sorted(name for name in set(now) ^ set(self.yard.seen))
            return Outcome.wrong(what, f"mixed, {left}: " + "; ".join(said))
        last = lines[0] if force else f"{lines[0]} --force"
        after = self.yard.run(last)
        if after.code != 0:
            return Outcome.wrong(what, f"the next command: exit code {after.code}: {after.said}")
        if not self.yard.is_state(self.yard.look(), known[0][0], varying):
            return Outcome.wrong(what, "the next command left something else")
        return Outcome.right(what) if done else Outcome.refused(what, "; ".join(said))


def is_stopped(process: subprocess.Popen[str]) -> bool:
    """Waits until a process stops; false if it has ended."""
    ends = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < ends:
        try:
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            return False
        if state == "T":
            return True
        if state in ("Z", "X"):
            return False
        time.sleep(0.0005)
    return False


class Change(InYard):
    """An input that changes while it is read."""

    def changed(self, draw: random.Random, name: str, kind: str) -> bytes:
        """The new contents of an input."""
        old = self.yard.before[name]
        if kind == "cut":
            return old[:len(old) // 2 // 8 * 8]
        if kind == "extend":
            return old + old[-4096:]
        other = name.replace("rows", "rows2") if "rows" in name else f"{name}2"
        new = self.yard.before[other]
        return (new + old)[:len(old)] if kind == "overwrite" else new

    def attack(self, draw: random.Random) -> Outcome:
        name, line = draw.choice(CHANGED)
        kind = draw.choice(["cut", "extend", "overwrite", "replace"])
        new, path = self.changed(draw, name, kind), self.yard.place / name
        whole, varying, said = self.yard.whole(line)
        process = self.yard.start(line, f"stop@{draw.randint(1, 40)}:read")
        what = f"{kind} {name} during {line}"
        if is_stopped(process):
            if kind == "replace":
                (self.yard.place / "moved").write_bytes(new)
                (self.yard.place / "moved").replace(path)
            else:
                with path.open("r+b") as file:
                    file.write(new)
                    file.truncate(len(new))
            process.send_signal(signal.SIGCONT)
        answer = self.yard.finish(process)
        now = self.yard.look()
        now[name] = self.yard.before[name]
        if answer.code == 0 and self.yard.is_state(now, whole, varying) and answer.said == said:
            return Outcome.right(what, "as before")
        if answer.code in (2, 3, 4, 5) and "error" in answer.said and now == self.yard.seen:
            return Outcome.refused(what, answer.said.strip().splitlines()[0])
        if answer.code == 0 and self.is_of_new(name, new, line, now, answer):
            return Outcome.right(what, "as after")
        left = sorted(name for name in set(now) ^ set(self.yard.seen))
        return Outcome.wrong(what, f"exit code {answer.code}, {left}: {answer.said}")

    def is_of_new(self, name: str, new: bytes, line: str, now: dict[str, bytes],
                  answer: Answer) -> bool:
        """Whether the result is that of the new input."""
        self.yard.restore()
        (self.yard.place / name).write_bytes(new)
        again = self.yard.run(line)
        after = self.yard.look()
        after[name] = self.yard.before[name]
        varying = self.yard.known[line][1]
        return self.yard.is_state(now, after, varying) and again.said == answer.said


KINDS = {"flips": Flips, "races": Races, "change": Change}


def make(name: str, options: argparse.Namespace) -> InYard:
    """The campaign of this name."""
    return KINDS[name](options)
