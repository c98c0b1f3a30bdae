"""The progress of a job: for functions, notebooks and terminals.

The native module reports raw numbers a few times per second, and once more with the phase `done`
when the job has succeeded. Here these become a `Progress`, with rates over about a second and the
fraction of the whole job. In this fraction, all phases count as equally long. An exception in a
function stops the job.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _units as units
from ._errors import usage
from ._requests import Tell

#: The last phase that is reported.
DONE = "done"
_RATE_WINDOW_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """The state of a running job."""

    #: The current phase: `sample`, `distribute`, `sort`, ..., and `done` at the end.
    phase: str
    #: Bytes of the phase that are done.
    done_bytes: int
    #: Bytes of the phase in all; 0 if there is nothing to count.
    total_bytes: int
    #: Bytes read from drives so far.
    read_bytes: int
    #: Bytes written to drives so far.
    written_bytes: int
    #: Bytes read per second, over about the last second.
    read_bytes_per_s: float
    #: Bytes written per second, over about the last second.
    write_bytes_per_s: float
    #: Time since the start.
    seconds: float
    #: Fraction of the whole job that is done; `None` in phases that are not counted.
    fraction: float | None
    #: Time left if the rest goes as fast; `None` while there is no estimate.
    eta_seconds: float | None
    #: The drive that the others wait for; `None` if there is one drive, or all are equally fast.
    slowest_drive: str | None = None

    def __str__(self) -> str:
        if self.phase == DONE:
            return f"done in {units.seconds_text(self.seconds)}"
        parts = [self.phase] if self.fraction is None else [f"{self.phase} {self.fraction:4.0%}"]
        if self.read_bytes or self.written_bytes:
            parts.append(f"read {units.rate_text(self.read_bytes_per_s, 1)}")
            parts.append(f"write {units.rate_text(self.write_bytes_per_s, 1)}")
        if self.slowest_drive is not None:
            parts.append(f"slowest: {self.slowest_drive}")
        if self.eta_seconds is not None:
            parts.append(f"{units.seconds_text(self.eta_seconds)} left")
        return "  ".join(parts)


#: `True` shows a bar (tqdm's, if it is installed), a function is called with a `Progress`.
Watcher = Callable[[Progress], object]


@contextmanager
def telling(progress: Watcher | bool | None, phases: tuple[str, ...]) -> Iterator[Tell | None]:
    """The function that the native module calls; `phases` are the phases that count for the fraction."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bar = _Bar() if sys.stderr is None or _tqdm() is None else _TqdmBar()
        try:
            yield _Meter(bar.show, phases).tell
        finally:
            bar.close()
    elif callable(progress):
        yield _Meter(progress, phases).tell
    else:
        cause = f"progress={progress!r} is neither True nor a function"
        raise usage("read arguments", cause, "give progress=True, or a function of a Progress")


class _Meter:
    """Turns raw numbers into a `Progress`."""

    def __init__(self, watcher: Watcher, phases: tuple[str, ...]) -> None:
        self._watcher = watcher
        self._phases = phases
        self._seen = (0.0, 0, 0)
        self._rates = (0.0, 0.0)

    def tell(
        self,
        phase: str,
        done_bytes: int,
        total_bytes: int,
        read_bytes: int,
        written_bytes: int,
        seconds: float,
        slowest_drive: str | None,
    ) -> None:
        """Takes the state and passes it on."""
        self._update(seconds, read_bytes, written_bytes)
        fraction = self._fraction(phase, done_bytes, total_bytes)
        eta_seconds = None
        if fraction is not None and fraction > 0.01:
            eta_seconds = seconds * (1.0 - fraction) / fraction
        self._watcher(
            Progress(
                phase=phase,
                done_bytes=done_bytes,
                total_bytes=total_bytes,
                read_bytes=read_bytes,
                written_bytes=written_bytes,
                read_bytes_per_s=self._rates[0],
                write_bytes_per_s=self._rates[1],
                seconds=seconds,
                fraction=fraction,
                eta_seconds=eta_seconds,
                slowest_drive=slowest_drive,
            )
        )

    def _update(self, seconds: float, read_bytes: int, written_bytes: int) -> None:
        step_seconds = seconds - self._seen[0]
        if step_seconds <= 0.0:
            return
        share = min(step_seconds / _RATE_WINDOW_SECONDS, 1.0)
        moved = (max(read_bytes - self._seen[1], 0), max(written_bytes - self._seen[2], 0))
        read, write = (
            old + share * (count / step_seconds - old) for old, count in zip(self._rates, moved)
        )
        self._rates = (read, write)
        self._seen = (seconds, read_bytes, written_bytes)

    def _fraction(self, phase: str, done_bytes: int, total_bytes: int) -> float | None:
        if phase == DONE:
            return 1.0
        if phase not in self._phases:
            return None
        within = min(done_bytes / total_bytes, 1.0) if total_bytes else 0.0
        return (self._phases.index(phase) + within) / len(self._phases)


def _tqdm() -> Any:
    """tqdm for terminals and notebooks, if it is installed."""
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None


class _TqdmBar:
    """A bar of tqdm, which restarts for each phase that has bytes to count."""

    def __init__(self) -> None:
        self._bar = _tqdm()(unit="B", unit_scale=True, unit_divisor=1024)
        self._phase = ""

    def show(self, progress: Progress) -> None:
        """Draws it."""
        is_new = progress.phase != self._phase
        self._phase = progress.phase
        if is_new and progress.total_bytes and progress.phase != DONE:
            self._bar.reset(total=progress.total_bytes)
        if is_new:
            self._bar.set_description(progress.phase)
        is_full = not progress.total_bytes or progress.phase == DONE
        done_bytes = (self._bar.total or 0) if is_full else progress.done_bytes
        self._bar.update(done_bytes - self._bar.n)

    def close(self) -> None:
        """Restores the terminal."""
        self._bar.close()


class _Bar:
    """A line on standard error: rewritten on a terminal, otherwise one line per phase."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._phase = ""
        self._width = 0

    def show(self, progress: Progress) -> None:
        """Writes it."""
        line = str(progress)
        if self._is_terminal:
            self._say("\r" + line.ljust(self._width))
            self._width = len(line)
        elif progress.phase != self._phase:
            self._say(line + "\n")
        self._phase = progress.phase

    def close(self) -> None:
        """Ends the line."""
        if self._width:
            self._say("\n")

    def _say(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
