#!/usr/bin/env python3
"""All checks that a change must pass: `make test`, or parts of it.

Contract: runs the named parts (`lint`, `rust`, `python`, `pages`; all by default) one after the other, continues after
a failure, and ends with the line `N passed, N failed, N skipped`. If no part is named, Python's tests and then the
checks of style run at the same time as Rust's tests, once these are built, since no part keeps two processors busy.
Their output follows at the end. The exit code is 0 only if nothing failed. No step reads standard input; each is
stopped, with all that it started,
once it takes longer than its limit. Needs `scripts/setup.sh` to have run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Callable

from tally import CargoReader, Tally, pages_tally, pytest_tally

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
LIMIT_SECONDS = 45 * 60
# The running processes, which an interrupt stops, and whether an interrupt has come.
RUNNING: set[int] = set()
INTERRUPTED = threading.Event()
# The function that takes the output of the current thread.
PRINTS: ContextVar[Callable[[str], object]] = ContextVar(
    "PRINTS", default=lambda line: print(line, flush=True)
)


def say(line: str) -> None:
    """Prints a line, now or when its turn comes."""
    PRINTS.get()(line)


def environment() -> dict[str, str]:
    """One environment for all steps, so that cargo never builds the same thing twice."""
    variables = dict(os.environ)
    variables["VIRTUAL_ENV"] = str(VENV)
    variables["PYO3_PYTHON"] = str(VENV / "bin" / "python")
    # Tests that compare with NumPy need this variable. Without it, or with the empty one that make sets, they would be
    # skipped.
    variables["PYTHON"] = str(VENV / "bin" / "python")
    # The same setting as maturin's, so that cargo checks what maturin builds.
    variables["PYO3_BUILD_EXTENSION_MODULE"] = "1"
    variables["PATH"] = f"{VENV / 'bin'}{os.pathsep}{variables.get('PATH', '')}"
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables.pop("PYTHONPATH", None)
    return variables


def run(command: list[str], on_line: Callable[[str], bool] = lambda _line: True) -> int:
    """Runs a command from the root and prints the lines that `on_line` wants; its exit code."""
    say(f"\n$ {' '.join(command)}")
    if INTERRUPTED.is_set():
        return 1
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )

    def stop() -> None:
        print(f"\n$ {' '.join(command)}\nstopped after {LIMIT_SECONDS} s", flush=True)
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(LIMIT_SECONDS, stop)
    timer.start()
    RUNNING.add(process.pid)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if on_line(line):
                say(line.rstrip("\n"))
        return process.wait()
    except BaseException:
        INTERRUPTED.set()
        for pid in list(RUNNING):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        raise
    finally:
        RUNNING.discard(process.pid)
        timer.cancel()


def step(name: str, command: list[str]) -> Tally:
    """A step that succeeds or fails as a whole and counts only when it fails."""
    exit_code = run(command)
    return Tally() if exit_code == 0 else Tally(failed=[f"{name}: exit code {exit_code}"])


def is_there(*command: str) -> bool:
    """Whether a tool answers."""
    try:
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def skipped(what: str, reason: str) -> Tally:
    """A whole part that cannot run here; prints a message."""
    say(f"\nSKIP: {what}: {reason}")
    return Tally(skipped=[f"{what}: {reason}"])


def lint() -> Tally:
    """Format, clippy and the house rules; licences and dependencies if their tools are
    installed."""
    tally = Tally()
    add = "it is not installed; try `rustup component add"
    if is_there("cargo", "fmt", "--version"):
        tally.add(step("cargo fmt", ["cargo", "fmt", "--all", "--check"]))
    else:
        tally.add(skipped("cargo fmt", f"{add} rustfmt`"))
    if is_there("cargo", "clippy", "--version"):
        clippy = ["cargo", "clippy", "--workspace", "--all-targets", "--quiet", "--"]
        tally.add(step("cargo clippy", [*clippy, "-D", "warnings"]))
    else:
        tally.add(skipped("cargo clippy", f"{add} clippy`"))
    slim = ["cargo", "check", "--package", "outcore-cli", "--no-default-features", "--quiet"]
    tally.add(step("the command without tables", slim))
    tally.add(step("cargo xtask tidy", ["cargo", "xtask", "tidy"]))
    tables = ["python", "scripts/benchmark_tables.py", "--check"]
    tally.add(step("the tables of benchmarks", tables))
    # These tools take minutes to compile, so they run only if they are installed; `make deny`
    # installs both.
    if is_there("cargo", "deny", "--version"):
        # Advisories need the network, and a new one is not a fault of the change: `make deny` asks for them.
        deny = ["cargo", "deny", "--all-features", "check", "licenses", "bans", "sources"]
        tally.add(step("cargo deny", deny))
    else:
        tally.add(skipped("cargo deny", "it is not installed; try `make deny`"))
    if is_there("cargo", "machete", "--version"):
        tally.add(step("cargo machete", ["cargo", "machete"]))
    else:
        tally.add(skipped("cargo machete", "it is not installed; try `make deny`"))
    return tally


def rust() -> Tally:
    """Every test of every crate, documentation included."""
    reader = CargoReader()
    command = ["cargo", "test", "--workspace", "--no-fail-fast", "--", "--show-output"]
    return reader.finish(run(command, reader.read))


def side_by_side() -> Tally:
    """Runs all parts after Rust's tests are built, because the extension shares parts of that
    build."""
    tally = step("the build of the tests", ["cargo", "test", "--workspace", "--no-run"])
    lines: list[str] = []

    def beside() -> list[Tally]:
        PRINTS.set(lines.append)
        return [timed("python", python), timed("pages", pages), timed("lint", lint)]

    with ThreadPoolExecutor(max_workers=1) as threads:
        pending = threads.submit(beside)
        tally.add(timed("rust", rust))
    for line in lines:
        say(line)
    for done in pending.result():
        tally.add(done)
    return tally


def timed(name: str, part: Callable[[], Tally]) -> Tally:
    """Runs a part and prints how long it took."""
    started = time.monotonic()
    tally = part()
    say(f"\n{name}: {time.monotonic() - started:.0f} s")
    return tally


def python() -> Tally:
    """The tests of the scripts and benchmarks; then the extension, its stubs and its tests."""
    tally = Tally()
    for folder in ("scripts/tests", "benches/peers/tests"):
        if any((ROOT / folder).glob("test_*.py")):
            tally.add(pytest(folder))
    if not (ROOT / "python" / "pyproject.toml").is_file():
        tally.add(skipped("the Python package", "python/ has no pyproject.toml"))
        return tally
    build = step("maturin develop", ["maturin", "develop", "--manifest-path", "python/Cargo.toml"])
    tally.add(build)
    if build.failed:
        return tally
    stubtest = ["python", "-m", "mypy.stubtest", "--concise", "outcore"]
    # `outcore.torch` can be imported only if PyTorch is installed.
    stubtest += ["--allowlist", "python/stubtest-allowlist.txt", "--ignore-unused-allowlist"]
    tally.add(step("the stubs", stubtest))
    tally.add(pytest("python/tests"))
    return tally


def pages() -> Tally:
    """Every code block of the README and the guides, every example of a help text, and a slice of
    each campaign, with the commands that the tests built."""
    target = Path(environment().get("CARGO_TARGET_DIR") or ROOT / "target")
    if not all((target / "debug" / name).is_file() for name in ("outcore", "outcore-lab")):
        build = ["cargo", "build", "--quiet", "--package", "outcore-cli", "--package", "outcore-lab"]
        tally = step("the build of the commands", build)
        if tally.failed:
            return tally
    tally = Tally()
    scripts = ("scripts/pages.py", "scripts/help_examples.py", "scripts/campaigns.py slice")
    for script in scripts:
        lines: list[str] = []
        exit_code = run(["python", *script.split()], lambda line: lines.append(line) is None)
        tally.add(pages_tally(lines, exit_code, script))
    return tally


def pytest(folder: str) -> Tally:
    """One run of pytest."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        options = ["-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={report}"]
        exit_code = run(["python", "-m", "pytest", *options, folder])
        text = report.read_text(encoding="utf-8") if report.is_file() else ""
    return pytest_tally(text, exit_code)


def main(names: list[str]) -> int:
    """Runs the parts and prints the verdict."""
    parts = {"lint": lint, "rust": rust, "python": python, "pages": pages}
    chosen = {name: parts[name] for name in names if name in parts}
    unknown = [name for name in names if name not in parts]
    if unknown:
        print(f"unknown part {unknown[0]}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    # A program that starts this one in the background may make it ignore signals; the tests of signals would then
    # ignore them as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    tally = Tally()
    for name, part in (chosen or {"all": side_by_side}).items():
        tally.add(timed(name, part))
    for title, lines in (("skipped", tally.skipped), ("failed", tally.failed)):
        if lines:
            print(f"\n{title}:")
            for line in lines:
                print(f"  {line}")
    print(f"\n{tally.line()}", flush=True)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
