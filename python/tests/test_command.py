"""The commands that the wheel brings: the same answers, streams and exit codes as the programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

SCRIPTS = Path(sysconfig.get_path("scripts"))


def run(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, input=given, capture_output=True, timeout=60)


@pytest.mark.parametrize("words", [[str(SCRIPTS / "outcore")], [sys.executable, "-m", "outcore"]])
def test_the_wheel_has_the_command(words: list[str]) -> None:
    done = run(*words, "sort", "-n", given=b"10\n9\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"9\n10\n", b"")


def test_the_wheel_has_the_lab_under_both_names() -> None:
    alone = run(str(SCRIPTS / "outcore-lab"), "sim", "presets")
    through = run(str(SCRIPTS / "outcore"), "sim", "presets")
    assert alone.returncode == 0 and b"pm9a3" in alone.stdout
    assert through.stdout == alone.stdout


def test_a_failure_of_the_command_has_its_message_and_exit_code(tmp_path: Path) -> None:
    done = run(str(SCRIPTS / "outcore"), "sort", str(tmp_path / "absent.txt"))
    assert done.returncode == 3
    assert b"absent.txt" in done.stderr and b"Traceback" not in done.stderr


def test_names_that_are_not_utf_8_reach_the_command(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(name)).write_bytes(b"b\na\n")
    done = subprocess.run([SCRIPTS / "outcore", "sort", os.fsdecode(name)], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"a\nb\n")


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    source = f"'{SCRIPTS / 'outcore'}' gen documents -n 20000 | head -n 1"
    done = run("sh", "-c", source)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1
    assert done.stderr == b""


def wait_until_caught(pid: int, number: signal.Signals) -> None:
    """Waits until the process has a handler of its own for a signal; the interpreter has none for
    SIGTERM."""
    for _ in range(1000):
        status = Path(f"/proc/{pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.02)
    raise AssertionError("the command did not start")


def test_an_interrupt_ends_the_command_with_130() -> None:
    words = [str(SCRIPTS / "outcore"), "sort", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdin is not None
        wait_until_caught(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in said and b"Traceback" not in said
