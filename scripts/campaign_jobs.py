"""The jobs of campaigns: every example of a help text that writes files, with a directory of its own.

Contract: `writing_jobs` walks the help texts (`help_examples.py`), so it finds each verb through its
definition. A `Bench` is one command in a directory with its inputs. `Bench.begin` runs the command
twice without a fault and keeps what it wrote; a file that differs between the two runs is only
required to exist. `Bench.judge` compares the directory with the states before and after such a run:
each file must be one or the other. `Bench.restore` brings the inputs back. Each directory holds a
few MiB.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import help_examples as examples
from example_inputs import small
from pages import Failure, Session

LIMIT_SECONDS = 60
# Words of a shell, in which a fault would hit more than one process.
SHELL = re.compile(r"[|<>;&$`(*?{]|^(?!outcore )")
# Commands that have no result to compare: measurements, servers, and commands on whole machines.
LEFT_OUT = (
    "bench", "demo", "replay", "sim", "drives", "chart", "traces", "view mount", "scratch",
    # A drive that joins or leaves has a state in between; `make volumes` disturbs these.
    "volume add", "volume remove", "volume rebalance", "volume replace",
)
# The commands that show directories whose file names differ each time.
SHOWN = {"view.json": "view cat {}"}
# Lists of files, whose contents include times.
MANIFEST = re.compile(r"\.outcore\.json$")


@dataclass
class Job:
    """An example that writes files."""

    text: examples.Help
    example: str

    def name(self) -> str:
        """The line as a reader types it."""
        return self.example


@dataclass
class Answer:
    """The end of a run; `code` is negative for a signal."""

    code: int
    said: str


@dataclass
class Verdict:
    """The faults of a directory, and whether all outputs are there."""

    faults: list[str] = field(default_factory=list)
    is_whole: bool = False
    is_as_before: bool = False


def writing_jobs(command: Path) -> list[Job]:
    """All examples that a campaign can repeat, in the order of the help texts."""
    found = []
    for text in examples.helps_of(command):
        if text.words.startswith(LEFT_OUT):
            continue
        for example in text.examples:
            line = shlex.join(shlex.split(example, comments=True))
            is_plain = not SHELL.search(re.sub(r"'[^']*'", "", example))
            if is_plain and not examples.not_run_entry(text, example) and line not in (
                    job.example for job in found):
                found.append(Job(text, example.split("  #")[0].strip()))
    return found


def states(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and its directories as names that end with a slash."""
    found: dict[str, bytes] = {}
    for path, names, files in os.walk(folder):
        for name in names:
            found[os.path.relpath(os.path.join(path, name), folder) + "/"] = b""
        for name in files:
            file = os.path.join(path, name)
            found[os.path.relpath(file, folder)] = Path(file).read_bytes()
    return found


def shown(folder: Path, command: str) -> dict[str, bytes]:
    """Like `states`, but with one entry per view: the contents that the view shows. The names of its files differ in
    each run."""
    found = states(folder)
    for path in [path for path in found if Path(path).name in SHOWN]:
        name = str(Path(path).parent)
        if path not in found or "/.outcore-" in f"/{path}":
            continue
        words = [command, *SHOWN[Path(path).name].format(name).split()]
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              env={"OUTCORE_CONFIG": "", "HOME": "/nowhere"}, check=False)
        for inside in [inside for inside in found if inside.startswith(f"{name}/")]:
            if "/.outcore-" not in f"/{inside}":
                del found[inside]
        found[name] = done.stdout if done.returncode == 0 else b"damaged: " + done.stderr
    return found


class Bench:
    """One command in its directory."""

    def __init__(self, job: Job, inputs: Path, options: argparse.Namespace) -> None:
        self.job = job
        self.place = Path(tempfile.mkdtemp(prefix="outcore-campaign-", dir=options.directory))
        self.session = Session(job.name(), self.place, options)
        self.work = self.session.work
        self.words: list[str] = []
        self.before: dict[str, bytes] = {}
        self.seen: dict[str, bytes] = {}
        self.whole: dict[str, bytes] = {}
        self.varying: set[str] = set()
        self.operations: dict[str, int] = {}
        try:
            examples.prepare(self.session, self.place, job.text, inputs)
            for example in self._examples_before():
                line = small(example, self.work)
                for name in examples.outputs_of(line):
                    examples.remove(str(self.work / name))
                ends = "".join(f" || [ $? = {code} ]" for code, part in examples.ENDS.items()
                               if part in line)
                self.session.shell(f"cd '{self.work}'\n{line}{ends}\n")
            for name in examples.outputs_of(small(job.example, self.work)):
                examples.remove(str(self.work / name))
        except Failure as failure:
            self.close()
            raise RuntimeError(f"its inputs: {failure}") from None
        line = small(job.example, self.work)
        self.words = shlex.split(line, comments=True)
        # One thread: each operation then has the same number each time.
        self.words[0] = str(self.place / "bin" / "outcore")

    def _examples_before(self) -> list[str]:
        """The lines of the help before this one, which may make its inputs."""
        lines = []
        for example in self.job.text.examples:
            if example.startswith(self.job.example):
                break
            if not examples.not_run_entry(self.job.text, example):
                lines.append(example)
        return lines

    def close(self) -> None:
        """Removes the directory."""
        self.session.close()
        shutil.rmtree(self.place, ignore_errors=True)

    def variables(self, fault: str | None) -> dict[str, str]:
        """The environment of a run."""
        variables = dict(self.session.variables)
        if fault:
            variables["OUTCORE_FAULT"] = fault
        return variables

    def run(self, fault: str | None = None, words: list[str] | None = None) -> Answer:
        """Runs the command, or other words instead; the exit code -9 after `LIMIT_SECONDS` means a hang."""
        try:
            done = subprocess.run(words or self.words, cwd=self.work, env=self.variables(fault),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return Answer(-1000, f"still running after {LIMIT_SECONDS} s")
        return Answer(done.returncode, done.stderr)

    def begin(self) -> bool:
        """Records the files that the command writes; false if it writes nothing or fails."""
        self.before = states(self.work)
        self.seen = self.look()
        ends = []
        for _ in range(2):
            answer = self.run()
            if answer.code not in (0, 1):
                raise RuntimeError(f"exit code {answer.code}: {answer.said.strip()}")
            ends.append(self.look())
            self.restore()
        self.whole = ends[0]
        names = set(ends[0]) | set(ends[1])
        self.varying = {name for name in names if ends[0].get(name) != ends[1].get(name)}
        if {name for name in ends[0] if not self._is_varying_name(name)} != {
                name for name in ends[1] if not self._is_varying_name(name)}:
            raise RuntimeError("it writes other names each time")
        return self.whole != self.seen

    def look(self) -> dict[str, bytes]:
        """The state of the directory."""
        return shown(self.work, self.words[0])

    def _is_varying_name(self, name: str) -> bool:
        return MANIFEST.search(name) is not None

    def count(self, counted: str) -> int:
        """About how many operations of this kind the command has."""
        if counted not in self.operations:
            suffix = f":{counted}" if counted else ""
            low, high = 0, 16
            while self.run(f"kill@{high}{suffix}").code == -9:
                self.restore()
                low, high = high, 2 * high
            self.restore()
            while high - low > max(1, low // 16):
                middle = (low + high) // 2
                low, high = ((middle, high) if self.run(f"kill@{middle}{suffix}").code == -9
                             else (low, middle))
                self.restore()
            self.operations[counted] = high
        return self.operations[counted]

    def restore(self) -> None:
        """Brings the state before the command back."""
        now = states(self.work)
        for name in sorted(set(now) - set(self.before), reverse=True):
            path = self.work / name.rstrip("/")
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for name, content in sorted(self.before.items()):
            if now.get(name) == content:
                continue
            if name.endswith("/"):
                (self.work / name).mkdir(exist_ok=True)
            else:
                (self.work / name).unlink(missing_ok=True)
                (self.work / name).write_bytes(content)

    def clean(self) -> None:
        """Removes the leftovers of a killed run in all directories."""
        folders = ["."] + [name for name in states(self.work)
                           if name.endswith("/") and ".outcore-" not in name]
        self.run(words=[self.words[0], "scratch", "clean", *folders])

    def judge(self) -> Verdict:
        """Compares the directory with the states before and after the command."""
        now = self.look()
        verdict = Verdict()
        for name in sorted(set(now) | set(self.seen) | set(self.whole)):
            allowed = [known[name] for known in (self.seen, self.whole) if name in known]
            may_lack = name not in self.seen or name not in self.whole
            if name not in now:
                if not may_lack:
                    verdict.faults.append(f"{name} is gone")
            elif not allowed:
                verdict.faults.append(f"{name} is left")
            elif now[name] not in allowed and name not in self.varying:
                verdict.faults.append(f"{name} is not whole")
        same = lambda a, b: (set(a) == set(b)  # noqa: E731
                             and all(a[name] == b[name] or name in self.varying for name in a))
        verdict.is_whole = same(now, self.whole)
        verdict.is_as_before = same(now, self.seen)
        return verdict
