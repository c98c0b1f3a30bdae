"""Types: mypy accepts the package, its stubs and correct programs, and finds errors in incorrect ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import outcore

HONEST = """
from pathlib import Path

import numpy as np
import outcore
from outcore import OutcoreError, Progress, SortSummary
from outcore.sim import Simulator

def look(progress: Progress) -> None:
    print(progress.phase, progress.fraction)

def run(src: Path) -> SortSummary:
    outcore.gen("gensort", src, 10, ascii=True, first=1 << 70)
    outcore.gen(np.dtype([("a", "<u4")]), "x.npy", np.int64(3), dist="zipf:1.2")
    outcore.sort(src, "b.npy", dtype=[("id", "<u8"), ("x", "<f4")], key=["x", "id:desc"])
    outcore.sort([src, "c"], "d", record=(100, ["0:10"]), drives=[src], progress=True)
    outcore.sort(src, "d", dtype=np.float32, memory=1 << 30, scratch_limit="1GiB")
    plan: str = str(outcore.plan(src, dtype="f32x32", memory="2GiB"))
    same: bool | None = outcore.verify("d", dtype="<u8", against=src).same_records
    result = Simulator("p41", settings={"flash.channels": 4}).run([{"depth": 3}, {"read": 0.5}])
    late: float = float(result.response_ns.max()) + result.percentile_ns(50, flow=0)
    print(late, result.plot("a.svg", "iops").name, outcore.sim.presets()[0].toml)
    try:
        summary = outcore.sort(src, "e", dtype="u64", threads=2, progress=look)
    except OutcoreError as error:
        raise SystemExit(error.exit_code) from error
    assert summary.plan is not None and summary.output is not None
    print(plan, same, summary.plan.passes, summary.phases[0].seconds, summary.output.name)
    return summary
"""
DISHONEST = """
import outcore

outcore.sort("a")
outcore.sort("a", "b", dtyp="u64")
outcore.sort("a", "b", record="100")
outcore.sort("a", "b", progress=lambda: None)
outcore.verify("a").recordz
outcore.gen("u64", "a", "many")
outcore.sim.Simulator("p41").run(3)
"""


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_package_and_its_stubs_are_strictly_typed(here: Path) -> None:
    package = Path(outcore.__file__).parent
    assert (package / "py.typed").is_file()
    done = mypy("-p", "outcore")
    assert done.returncode == 0, done.stdout + done.stderr


def test_honest_programs_pass_and_dishonest_ones_do_not(here: Path) -> None:
    Path("honest.py").write_text(HONEST)
    done = mypy("honest.py")
    assert done.returncode == 0, done.stdout + done.stderr
    Path("dishonest.py").write_text(DISHONEST)
    done = mypy("dishonest.py")
    lines = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == {"4", "5", "6", "7", "8", "9", "10"}, done.stdout + done.stderr
