"""A running job: the interpreter is free, Ctrl-C stops it, progress is reported, many jobs run at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import outcore
from outcore._progress import telling

#: A job that takes far longer than a test: all zeros, without blocks on the drive.
ENDLESS_BYTES = 1 << 40
#: A sort that takes a while: also zeros.
LONG_BYTES = 2 << 30


def make_sparse(name: str, size_bytes: int) -> None:
    with open(name, "wb") as file:
        file.truncate(size_bytes)


class Enough(Exception):
    """Raised by a function that stops the job."""


def stop_after(count: int, seen: list[outcore.Progress]) -> Callable[[outcore.Progress], None]:
    """A function that stops the job at its `count`th call."""

    def look(progress: outcore.Progress) -> None:
        seen.append(progress)
        if len(seen) == count:
            raise Enough

    return look


def test_other_threads_run_while_a_job_does(here: Path) -> None:
    make_sparse("endless.bin", ENDLESS_BYTES)
    ticks = []
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(0.005):
            ticks.append(len(seen))

    seen: list[outcore.Progress] = []
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with pytest.raises(Enough):
            outcore.verify("endless.bin", dtype="u64", progress=stop_after(4, seen))
    finally:
        is_over.set()
        thread.join()
    # Without a free interpreter, there would be at most one check between two waits of 200 ms.
    for look in range(1, 4):
        assert ticks.count(look) > 5


def test_progress_is_told_and_grows(here: Path) -> None:
    make_sparse("endless.bin", ENDLESS_BYTES)
    seen: list[outcore.Progress] = []
    with pytest.raises(Enough):
        outcore.verify("endless.bin", dtype="u64", progress=stop_after(4, seen))
    assert {progress.phase for progress in seen} == {"verify"}
    assert all(progress.total_bytes == ENDLESS_BYTES for progress in seen)
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done) and done[-1] > done[0]
    last = seen[-1]
    assert last.seconds > seen[0].seconds > 0
    assert last.read_bytes_per_s > 0 and last.write_bytes_per_s == 0
    assert last.fraction == pytest.approx(last.done_bytes / ENDLESS_BYTES)
    assert str(last).startswith("verify ")


def test_the_last_look_says_that_it_is_done(here: Path) -> None:
    outcore.gen("u64", "in.bin", 1000)
    seen: list[outcore.Progress] = []
    outcore.sort("in.bin", "out.bin", dtype="u64", progress=seen.append)
    assert seen[-1].phase == "done" and seen[-1].fraction == 1.0
    assert str(seen[-1]).startswith("done in ")


def test_what_a_progress_function_raises_stops_the_sort_and_leaves_nothing(here: Path) -> None:
    make_sparse("long.bin", LONG_BYTES)
    with pytest.raises(Enough):
        outcore.sort("long.bin", "out.bin", dtype="u64", memory="64MiB", progress=stop_after(1, []))
    assert [path.name for path in here.iterdir()] == ["long.bin"]


def test_a_drive_that_the_others_wait_for_is_named() -> None:
    seen: list[outcore.Progress] = []
    with telling(seen.append, ("sort",)) as tell:
        assert tell is not None
        tell("sort", 1, 2, 10, 10, 1.0, None)
        tell("sort", 1, 2, 20, 20, 2.0, "nvme1")
    assert [look.slowest_drive for look in seen] == [None, "nvme1"]
    assert "slowest" not in str(seen[0]) and "slowest: nvme1" in str(seen[1])


def test_progress_is_shown_on_standard_error(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    outcore.gen("u64", "in.bin", 1_000_000)
    outcore.sort("in.bin", "out.bin", dtype="u64", memory="8MiB", progress=True)
    seen = capfd.readouterr()
    assert not seen.out
    assert seen.err.splitlines()[-1].startswith("done in ")


class FakeTqdm:
    """The part of tqdm that is used; stores its arguments."""

    shown: list[tuple[str, int, int | None]] = []

    def __init__(self, **options: object) -> None:
        self.n = 0
        self.total: int | None = None
        self.text = ""

    def reset(self, total: int) -> None:
        self.n, self.total = 0, total

    def set_description(self, text: str) -> None:
        self.text = text

    def update(self, step: int) -> None:
        self.n += step
        self.shown.append((self.text, self.n, self.total))

    def close(self) -> None:
        self.shown.append(("closed", 0, None))


def test_progress_is_shown_by_tqdm_where_it_is_installed(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("tqdm.auto")
    setattr(module, "tqdm", FakeTqdm)
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(FakeTqdm, "shown", [])
    outcore.gen("u64", "in.bin", 1000)
    assert outcore.verify("in.bin", dtype="u64", progress=True).records == 1000
    assert [text for text, _, _ in FakeTqdm.shown][-2:] == ["done", "closed"]
    FakeTqdm.shown.clear()
    with telling(True, ("distribute", "sort")) as tell:
        assert tell is not None
        for phase, done_bytes, total_bytes in [
            ("sample", 0, 0), ("distribute", 10, 80), ("distribute", 75, 80), ("sort", 5, 80),
            ("publish", 5, 0), ("done", 5, 0),
        ]:
            tell(phase, done_bytes, total_bytes, 0, 0, 1.0, None)
    assert FakeTqdm.shown == [
        ("sample", 0, None), ("distribute", 10, 80), ("distribute", 75, 80), ("sort", 5, 80),
        ("publish", 80, 80), ("done", 80, 80), ("closed", 0, None),
    ]
    assert capfd.readouterr().err == ""


PROGRAM = """
import outcore

def look(progress):
    print(progress.phase, flush=True)

try:
    {job}
except KeyboardInterrupt as error:
    print("stopped:", type(error) is KeyboardInterrupt, error, flush=True)
"""
JOBS = {
    "sort": "outcore.sort('long.bin', 'out.bin', dtype='u64', memory='64MiB', progress=look)",
    "dataset": "outcore.open('long.bin', dtype='u64', memory='64MiB').sort().map('x + 1').shuffle()"
    ".write('out.bin', progress=look)",
    "gen": "outcore.gen('u64', 'out.bin', 1 << 28, progress=look)",
    "verify": "outcore.verify('endless.bin', dtype='u64', progress=look)",
}


@pytest.mark.parametrize("name", JOBS)
def test_ctrl_c_stops_a_job_and_nothing_is_left_behind(here: Path, name: str) -> None:
    make_sparse("long.bin", LONG_BYTES)
    make_sparse("endless.bin", ENDLESS_BYTES)
    before = sorted(path.name for path in here.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(job=JOBS[name])], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() != "done"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert rest.splitlines()[-1] == "stopped: True job: interrupted; nothing was left behind"
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_job_on_long_values_keeps_to_its_memory_with_the_interpreter(here: Path) -> None:
    draw = random.Random(7)
    with open("long.jsonl", "w", encoding="ascii") as lines:
        for row in range(60):
            lines.write(f'{{"k": {row * 37 % 60}, "v": "{draw.randbytes(750_000).hex()}"}}\n')
    program = """
import re
import outcore

outcore.convert("long.jsonl", "long.parquet", memory="64MiB")
outcore.sort("long.parquet", "sorted.parquet", by="k", memory="64MiB")
assert outcore.verify("sorted.parquet", by="k", against="long.parquet", memory="64MiB").ok
# Since the program began: the mark of `getrusage` holds that of the parent, too.
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) << 10 <= (64 + 64) << 20


def test_ctrl_c_leaves_nothing_of_hundreds_of_mebibytes_of_scratch(here: Path) -> None:
    outcore.gen("u64", "in.bin", 40 << 20, memory="64MiB")
    before = Path("in.bin").stat()
    program = """
import outcore

def look(progress):
    print(progress.phase, progress.written_bytes, flush=True)

outcore.sort("in.bin", "out.bin", dtype="u64", memory="32MiB", progress=look)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        phase, written_bytes = line.split()
        if int(written_bytes) >= 200 << 20:
            break
    else:
        pytest.fail("it was over too soon")
    if phase == "distribute":
        held_bytes = sum(path.stat().st_blocks * 512 for path in here.glob(".outcore-*/*"))
        assert held_bytes >= 100 << 20
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt: job: interrupted; nothing was left behind" in err
    assert [path.name for path in here.iterdir()] == ["in.bin"]
    after = Path("in.bin").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_an_interrupted_program_ends_as_python_programs_do(here: Path) -> None:
    make_sparse("endless.bin", ENDLESS_BYTES)
    program = "import outcore; outcore.verify('endless.bin', dtype='u64', progress=print)"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt: job: interrupted" in err


def test_a_handler_of_ones_own_decides_what_is_raised(here: Path) -> None:
    make_sparse("endless.bin", ENDLESS_BYTES)

    def handle(number: int, frame: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGUSR1, handle)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Enough):
            outcore.verify("endless.bin", dtype="u64")
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_several_sorts_run_at_once(here: Path) -> None:
    def work(index: int) -> bool:
        name, out = f"in{index}", f"out{index}"
        outcore.gen("u32", name, 500_000, seed=index)
        outcore.sort(name, out, dtype="u32", memory="16MiB", threads=1, progress=lambda _: None)
        wanted = np.sort(np.fromfile(name, "<u4"))
        return np.array_equal(np.fromfile(out, "<u4"), wanted)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))
