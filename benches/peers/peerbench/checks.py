"""Checks an output twice: with `outcore verify` if the output is one raw file, and independently with NumPy.

The independent check (programs/check.py, run in the private environment) reads input and output once each. The input's
checksum is kept, so a case reads its input once for all compared tools. The result says which of the two checks ran.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .install import PROGRAMS_DIR, VENV_PYTHON, Installed
from .tools import Job, Outcore, last_line
from .units import Json


class Wrong(RuntimeError):
    """An output is not the sorted input; the text describes the difference."""


class Checker:
    """Checks the outputs of one case against its inputs."""

    def __init__(self, outcore: Outcore, installed: Installed) -> None:
        self._outcore = outcore
        self._installed = installed
        self._inputs: dict[tuple[object, ...], Json] = {}

    def check(self, job: Job, outputs: list[Path], mode: str) -> tuple[str, Json]:
        """Describes the checks, and returns the independent report. Raises Wrong when the output is wrong."""
        asked = []
        report: Json = {}
        if self._installed.reason("python") is None:
            report = self._independent(job, outputs, mode)
            asked.append("numpy")
        if mode != "parquet" and len(outputs) == 1:
            complaint = self._outcore.verify(outputs[0], job.kind, job.inputs)
            if complaint:
                raise Wrong(complaint)
            asked.append("outcore verify")
        return " + ".join(asked) or "not checked (no NumPy)", report

    def _independent(self, job: Job, outputs: list[Path], mode: str) -> Json:
        key = (job.kind, *map(str, job.inputs), *(path.stat().st_mtime_ns for path in job.inputs))
        if key not in self._inputs:
            self._inputs[key] = _report(job.kind, job.inputs, digest=False)
        expected = self._inputs[key]
        found = _report(mode, outputs, digest=job.kind == "gensort")
        for name in ("records", "sum", "mix"):
            if found[name] != expected[name]:
                raise Wrong(f"{name} is {found[name]}, the input's is {expected[name]}")
        if not found["sorted"]:
            raise Wrong(f"out of order at record {found['first_unsorted']}")
        return found


def _report(mode: str, paths: list[Path], digest: bool) -> Json:
    argv = [str(VENV_PYTHON), str(PROGRAMS_DIR / "check.py"), mode, *map(str, paths)]
    done = subprocess.run(
        [*argv, "--sha256"] if digest else argv, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise Wrong(f"the check itself failed: {last_line(done.stderr)}")
    report: Json = json.loads(done.stdout)
    return report
