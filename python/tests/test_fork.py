"""Forked children: objects with threads in the parent are rejected by name there, and never hang."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import outcore

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
COUNT = 1 << 21


@pytest.fixture
def keys(here: Path) -> Iterator[outcore.Dataset]:
    """More values than the iterators read ahead, so that their threads keep running."""
    np.arange(COUNT, dtype=np.uint64).tofile(here / "keys.bin")
    yield outcore.open("keys.bin", dtype="u64", memory="32MiB", threads=2)
    gc.collect()


def in_child(work: Callable[[], object]) -> str:
    """The result or error of `work` in a forked child that then exits normally."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of threads
        child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            try:
                said = str(work())
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
            status = 0
        finally:
            gc.collect()
            os._exit(status)
    os.close(writing)
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise AssertionError("the child hangs")
    with os.fdopen(reading) as said_by_child:
        said = said_by_child.read()
    assert status == 0, said
    return said


def test_a_child_is_refused_its_parents_iterator_by_name(keys: outcore.Dataset) -> None:
    batches = iter(keys)
    seen = [next(batches)]
    said = in_child(lambda: next(batches))
    assert said.startswith("UsageError") and "before a fork" in said, said
    assert "iterate over the dataset again in the child" in said
    # The parent continues undisturbed.
    assert np.array_equal(np.concatenate([*seen, *batches]), np.arange(COUNT, dtype=np.uint64))


def test_a_child_may_drop_its_parents_iterator(keys: outcore.Dataset) -> None:
    held = [iter(keys), keys.batches(1000), iter(keys.map("x * 2"))]
    for batches in held:
        next(batches)

    def drop() -> str:
        held.clear()
        batches = None
        gc.collect()
        return f"dropped {batches}"

    assert in_child(drop) == "dropped None"
    for batches in held:
        next(batches)


def test_a_child_reads_the_same_dataset_itself(keys: outcore.Dataset) -> None:
    batches = iter(keys)
    next(batches)
    assert in_child(keys.sum) == str(COUNT * (COUNT - 1) // 2)
    assert in_child(lambda: sum(len(batch) for batch in keys)) == str(COUNT)
    assert in_child(lambda: len(np.asarray(keys))) == str(COUNT)


def test_lines_are_refused_too(here: Path) -> None:
    Path("lines.txt").write_bytes(b"a line\n" * (1 << 20))
    batches = iter(outcore.open("lines.txt", lines=True, memory="32MiB"))
    next(batches)
    assert "before a fork" in in_child(lambda: next(batches))
    del batches


def test_a_shuffled_order_and_a_view_open_themselves_again(keys: outcore.Dataset) -> None:
    order = outcore.shuffled("keys.bin", dtype="u64", memory="32MiB", threads=2)
    first = order.read(0, 5).tolist()
    batches = order.batches(1000)
    next(batches)
    assert in_child(lambda: order.read(0, 5).tolist()) == str(first)
    assert in_child(lambda: next(order.batches(5)).tolist()) == str(first)
    assert "before a fork" in in_child(lambda: next(batches))
    batches.close()
    view = outcore.sort_view("keys.bin", "keys.view", dtype="u64", memory="32MiB")
    assert in_child(lambda: view[7]) == "7"
    assert in_child(lambda: view.split(2)[1][0]) == str(COUNT // 2)
    assert view[8] == 8


def test_a_child_that_ends_as_programs_end_does_not_hang(here: Path) -> None:
    import subprocess

    np.arange(COUNT, dtype=np.uint64).tofile("keys.bin")
    script = """
import os, sys, outcore
held = iter(outcore.open("keys.bin", dtype="u64", memory="32MiB"))
next(held)
child = os.fork()
if child == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sum(len(batch) for batch in held))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split()[:1] == ["7"], done.stderr
