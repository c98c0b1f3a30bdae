"""Shows where outcore spends its time in a case: one more run under perf, outside the measurements.

Used by `--profile` for cases that missed a target. The run has the case's input, drives and throttles, but no memory
limit, and contributes to no number. Output: the flat list of functions by samples and, above it, the shares of user and
kernel code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from .groups import joined
from .measure import drop_caches
from .rounds import Case, fresh_directory
from .tools import last_line

SAMPLES_PER_S = 499
TIMEOUT_S = 3600
LINE_CHARS_MAX = 160


def profile(case: Case, target: Path) -> str | None:
    """Profiles the case's first tool (outcore) into the text file `target`. Returns the reason if it could not."""
    perf = shutil.which("perf")
    if perf is None:
        return "perf is not installed (Debian: linux-perf)"
    with fresh_directory(case) as work:
        command = case.tools[0].command(case.job, work)
        data = work / "perf.data"
        drop_caches()
        record = [perf, "record", "-q", "-F", str(SAMPLES_PER_S), "-o", str(data), "--", *command.argv]
        reports = [
            [perf, "report", "-i", str(data), "--stdio", *options]
            for options in (
                ["--sort", "dso", "--percent-limit", "1"],
                ["--sort", "symbol,dso", "--percent-limit", "0.3"],
            )
        ]
        try:
            failure = _output(joined(record, case.joins), work)[1]
            if failure:
                return failure
            parts = [f"{case.key}: {case.title}\n", *[_output(report, work)[0] for report in reports]]
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    # perf pads its columns to the longest symbol, hundreds of characters.
    lines = [re.sub(r" {3,}", "   ", line).rstrip()[:LINE_CHARS_MAX] for part in parts for line in part.splitlines()]
    target.write_text("\n".join(line for line in lines if line and not re.fullmatch(r"#[ .]*", line)) + "\n")
    return None


def _output(argv: list[str], work: Path) -> tuple[str, str | None]:
    """The output of a command, and the failure if it failed."""
    done = subprocess.run(
        argv,
        cwd=work,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    failure = f"{Path(argv[0]).name} failed ({done.returncode}): {last_line(done.stderr)}" if done.returncode else None
    return done.stdout, failure
