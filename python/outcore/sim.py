"""The simulator: predicts what drives do, before you buy them.

    >>> from outcore.sim import Simulator
    >>> result = Simulator("pm9a3").run({"depth": 256, "requests": 20_000})
    >>> result.summary["total"]["iops"] > 500_000
    True

A run gives the summary that `outcore sim run --json` prints, every request as a NumPy array, and
charts as SVG. A run releases the interpreter, and Ctrl-C stops it at once. The same input gives the
same result on every machine. The project's docs/sim/validity.md describes how far the model can be
trusted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _outcore
from ._errors import usage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._requests import SimDriveRequest

__all__ = ["Preset", "Result", "Simulator", "presets"]

StrPath = Union[str, "os.PathLike[str]"]
#: A setting of a drive or a flow: a number, a text with a unit, a truth value, a list of numbers or
#: texts.
Setting = Union[str, int, float, bool, Sequence[int], Sequence[str]]
Flow = Mapping[str, Setting]
#: A TOML file or MQSim's XML, the settings of one flow, or those of several.
Workload = Union[StrPath, Flow, Sequence[Flow]]

#: Operations, by their numbers in `Result.requests["op"]`.
OPERATIONS = ("read", "write", "trim")
#: How requests end, by their numbers in `Result.requests["status"]`; the errors are those of zoned
#: namespaces.
STATUSES = (
    "Success",
    "Zone Invalid Write",
    "Zone Is Full",
    "Zone Boundary Error",
    "Too Many Active Zones",
)
_FIELDS = [
    ("arrival_ns", "f8"),
    ("enqueue_ns", "f8"),
    ("complete_ns", "f8"),
    ("lba", "u8"),
    ("sectors", "u4"),
    ("flow", "u2"),
    ("op", "u1"),
    ("status", "u1"),
]


class Preset:
    """A drive that is known by name."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        #: Its name.
        self.name: str = facts["name"]
        #: The product that it models.
        self.product: str = facts["product"]
        #: Every value with `table`, `key`, `value`, `provenance` (`datasheet`, `fitted`, `guessed`,
        #: `default` or `mqsim`) and `note`.
        self.values: list[dict[str, str]] = facts["values"]
        #: A file to start a drive of your own from.
        self.toml: str = facts["toml"]

    def __repr__(self) -> str:
        return f"<outcore.sim.Preset {self.name}: {self.product}>"


def presets() -> list[Preset]:
    """The drives that are known by name."""
    return [Preset(facts) for facts in json.loads(_outcore.sim_presets())]


class Result:
    """The result of a run."""

    def __init__(self, native: _outcore.SimRun) -> None:
        self._native = native
        self._requests: npt.NDArray[np.void] | None = None
        #: The summary, as `outcore sim run --json` prints it.
        self.summary: dict[str, Any] = json.loads(native.summary)

    def __repr__(self) -> str:
        total = self.summary["total"]
        rate, mean = total["iops"], total["mean_response_ns"] / 1e3
        count = total["requests"]
        return f"<outcore.sim.Result: {count:,} requests, {rate:,.0f} IOPS, mean {mean:,.1f} us>"

    @property
    def warnings(self) -> list[str]:
        """Notes about the run."""
        found: list[str] = self.summary["warnings"]
        return found

    @property
    def requests(self) -> npt.NDArray[np.void]:
        """Every completed request, in the order of completion; read-only.

        A structured array: `arrival_ns` (the host wanted it), `enqueue_ns` (it entered the
        submission queue), `complete_ns`; `lba` and `sectors` of 512 bytes; `flow`; `op`, an index
        of `OPERATIONS`; `status`, an index of `STATUSES`. Empty if the run had `requests=False`.
        """
        if self._requests is None:
            from ._numpy import numpy

            self._requests = numpy.frombuffer(self._native.requests(), dtype=_FIELDS)
        return self._requests

    @property
    def response_ns(self) -> npt.NDArray[np.float64]:
        """Time of every request from the submission queue to its completion."""
        times: npt.NDArray[np.float64] = self.requests["complete_ns"] - self.requests["enqueue_ns"]
        return times

    @property
    def end_to_end_ns(self) -> npt.NDArray[np.float64]:
        """Time of every request from its arrival at the host to its completion."""
        times: npt.NDArray[np.float64] = self.requests["complete_ns"] - self.requests["arrival_ns"]
        return times

    def percentile_ns(self, percent: float, flow: int | None = None) -> float:
        """The response time that this percentage of the requests does not exceed, of one flow or all.

        It is one of the measured times; percentiles in the summary have three digits.
        """
        from ._numpy import numpy

        times = self.response_ns if flow is None else self.response_ns[self.requests["flow"] == flow]
        if times.size == 0:
            raise usage("percentile", "there are no requests", "run it with requests=True")
        return float(numpy.percentile(times, percent, method="inverted_cdf"))

    def histogram(
        self, bins: int = 50
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Counts of response times and the `bins + 1` edges in nanoseconds, in equal ratios."""
        from ._numpy import numpy

        times = self.response_ns
        if times.size == 0:
            raise usage("histogram", "there are no requests", "run it with requests=True")
        edges = numpy.geomspace(times.min(), max(times.max(), times.min() * 1.001), bins + 1)
        # Rounding of the edges must lose neither end.
        edges[0], edges[-1] = min(edges[0], times.min()), max(edges[-1], times.max())
        counts, _ = numpy.histogram(times, edges)
        return counts, edges

    def svg(self, view: str = "latency") -> str:
        """A chart as the text of an SVG file.

        `latency` shows response time over percentiles, `iops` requests per second over time, with a
        line for every flow.
        """
        return self._native.svg(view)

    def plot(self, path: StrPath, view: str = "latency") -> Path:
        """Writes the chart that `svg` draws to a file; returns its name."""
        path = Path(path)
        path.write_text(self.svg(view), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """Notebooks show the chart if there are requests."""
        import html

        text = html.escape(repr(self))
        return f"<p>{text}</p>{self.svg()}" if self._native.request_count else f"<p>{text}</p>"


class Simulator:
    """A drive to simulate: one known by name, or from a file.

    `drive` is a name of `presets()`, or a file (`.toml`, or MQSim's `.xml`). `size` is the amount
    of simulated flash of a named drive: a smaller drive is faster to build and fill, and has the
    same speed. `settings` changes values: `{"flash.channels": 16, "gc.policy": "rga"}`.
    `mqsim=True` reproduces MQSim's quirks.
    """

    def __init__(
        self,
        drive: StrPath = "p41",
        *,
        size: str = "16GiB",
        settings: Mapping[str, Setting] | None = None,
        mqsim: bool = False,
    ) -> None:
        name = os.fspath(drive)
        is_file = not isinstance(drive, str) or os.sep in name or name.endswith((".toml", ".xml"))
        self._drive: SimDriveRequest = {
            "preset": None if is_file else name,
            "file": name if is_file else None,
            "size": size,
            "settings": [f"{key}={_text(value)}" for key, value in (settings or {}).items()],
            "mqsim": mqsim,
        }

    def __repr__(self) -> str:
        return f"<outcore.sim.Simulator of {self._drive['file'] or self._drive['preset']}>"

    def run(
        self,
        workload: Workload | None = None,
        *,
        trace: StrPath | None = None,
        format: str | None = None,
        time_unit: str | None = None,
        depth: int | None = None,
        fit: str = "refuse",
        requests: bool = True,
    ) -> Result:
        """Runs a workload; by default random reads of 4 KiB.

        `workload` is a file (TOML, or MQSim's XML), or the settings of a flow (`{"read": 0.7,
        "size": "16KiB", "depth": 32}`), or a list of such settings. `trace` is a block trace instead, at its
        own times, or with `depth` requests in flight. A request beyond the drive is an error,
        unless `fit` is `"wrap"` or `"scale"`. `time_unit` is the unit of the times of the trace if it is not
        the unit of the format, such as `"ms"`. With `requests=False` only the summary
        is kept; otherwise a run keeps 80 bytes per request.
        """
        if workload is not None and trace is not None:
            raise usage("run", "both a workload and a trace are given", "leave one out")
        path: str | None = None
        flows: list[Flow] = []
        if isinstance(workload, (str, os.PathLike)):
            path = os.fspath(workload)
        elif isinstance(workload, Mapping):
            flows = [workload]
        elif workload is not None:
            flows = list(workload)
        settings = [[(key, _text(value)) for key, value in flow.items()] for flow in flows]
        return Result(
            _outcore.sim_run(
                {
                    "drive": self._drive,
                    "workload": path,
                    "flows": settings,
                    "trace": None if trace is None else os.fspath(trace),
                    "format": format,
                    "time_unit": time_unit,
                    "depth": depth,
                    "fit": fit,
                    "keep": requests,
                }
            )
        )

    def replay(
        self,
        trace: StrPath,
        *,
        drives: int | None = None,
        shared: str | None = None,
        stripe: str | None = None,
        fill: float = 0.5,
        fit: str = "refuse",
        window: float | None = None,
        cpu: float = 1.0,
        format: str | None = None,
        time_unit: str | None = None,
        speedup: float = 1.0,
        depth: int | None = None,
        limit: int = 0,
    ) -> dict[str, Any]:
        """Replays a job's I/O trace (`record_io=`) or a block trace on `drives` of this drive.

        Returns the report of `outcore sim replay --json`: predicted seconds, load by drive,
        bottleneck. `shared` is the rate of all drives together (`"146GB/s"`), `stripe="none"`
        keeps inputs and outputs whole on one drive, `speedup` is the command's `--speed`; the other arguments are those of the command.
        """
        report = _outcore.sim_replay(
            {
                "drive": self._drive,
                "trace": os.fspath(trace),
                "drives": drives,
                "shared": shared,
                "stripe": stripe,
                "fill": fill,
                "fit": fit,
                "window": window,
                "cpu": cpu,
                "format": format,
                "time_unit": time_unit,
                "speedup": speedup,
                "depth": depth,
                "limit": limit,
            }
        )
        found: dict[str, Any] = json.loads(report)
        return found

    def plan_sort(
        self,
        size: str,
        memory: str,
        *,
        drives: int = 30,
        cores: int = 64,
        record_bytes: int = 8,
        shared: str | None = None,
        memory_rate: str | None = None,
        cpu_from: StrPath | None = None,
        distribute_ns: float | None = None,
        sort_ns: float | None = None,
    ) -> dict[str, Any]:
        """Predicts a sort of `size` in `memory` on `drives` of this drive, from the plan alone.

        Returns the plan of `outcore sim plan --json`: phases, seconds, bottleneck. `distribute_ns`
        and `sort_ns` are core nanoseconds per record. If they are left out, they come from
        `cpu_from` (the trace of a sort, `record_io=`), or a sort in memory measures them, which
        takes seconds. `memory_rate` is the rate of the memory bus, such as "145GB/s".
        """
        plan = _outcore.sim_plan(
            {
                "drive": self._drive,
                "size": size,
                "memory": memory,
                "record_bytes": record_bytes,
                "cores": cores,
                "drives": drives,
                "shared": shared,
                "memory_rate": memory_rate,
                "cpu_from": None if cpu_from is None else os.fspath(cpu_from),
                "distribute_ns": distribute_ns,
                "sort_ns": sort_ns,
            }
        )
        found: dict[str, Any] = json.loads(plan)
        return found


def _text(value: Setting) -> str:
    """A setting in the form of the configuration."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    items = (json.dumps(item) if isinstance(item, str) else str(int(item)) for item in value)
    return f"[{', '.join(items)}]"
