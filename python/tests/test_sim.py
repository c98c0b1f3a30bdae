"""The simulator: runs, requests as NumPy arrays, charts, replays and plans."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore
from outcore.sim import OPERATIONS, STATUSES, Result, Simulator, presets

#: A small drive with little to fill: a run takes milliseconds.
SMALL = """
precondition = true
[flash]
blocks = 128
pages = 32
over_provisioning = 0.25
"""


@pytest.fixture
def drive(here: Path) -> Simulator:
    Path("small.toml").write_text(SMALL)
    return Simulator("small.toml")


def test_the_requests_are_those_of_the_summary(drive: Simulator) -> None:
    flows = [
        {"name": "reads", "depth": 8, "requests": 3000},
        {"name": "log", "read": 0.0, "size": "16KiB", "pattern": "streaming", "requests": 500},
    ]
    result = drive.run(flows)
    requests = result.requests
    assert [flow["name"] for flow in result.summary["flows"]] == ["reads", "log"]
    assert len(requests) == result.summary["total"]["requests"] == 3500
    reads, log = (requests[requests["flow"] == flow] for flow in (0, 1))
    assert {OPERATIONS[op] for op in np.unique(reads["op"])} == {"read"}
    assert {OPERATIONS[op] for op in np.unique(log["op"])} == {"write"}
    assert set(log["sectors"]) == {32}
    assert (np.diff(requests["complete_ns"]) >= 0).all()
    assert (requests["arrival_ns"] <= requests["enqueue_ns"]).all()
    for at, flow in enumerate(result.summary["flows"]):
        times = result.response_ns[requests["flow"] == at]
        assert times.mean() == pytest.approx(flow["mean_response_ns"], rel=1e-9)
        exact = result.percentile_ns(99, flow=at)
        assert exact == pytest.approx(flow["p99_response_ns"], rel=2e-3)
        assert exact in times
    counts, edges = result.histogram(20)
    assert counts.sum() == 3500 and len(edges) == 21
    assert result.end_to_end_ns.mean() == pytest.approx(
        result.summary["total"]["mean_end_to_end_ns"], rel=1e-9
    )


def test_equal_runs_are_equal_and_the_summary_may_be_all_there_is(drive: Simulator) -> None:
    full = drive.run({"requests": 1000})
    short = drive.run({"requests": 1000}, requests=False)
    assert full.summary == short.summary
    assert len(short.requests) == 0
    with pytest.raises(outcore.UsageError, match="requests=True"):
        short.percentile_ns(50)


def test_charts_are_svg_without_any_library(drive: Simulator) -> None:
    result = drive.run([{"name": "first", "requests": 2000}, {"name": "second", "requests": 2000}])
    for view in ("latency", "iops"):
        name = result.plot(f"{view}.svg", view)
        root = ElementTree.fromstring(name.read_text())
        assert root.tag.endswith("svg")
        assert {"first", "second"} <= {text.strip() for text in root.itertext()}
    assert "<svg" in result._repr_html_()
    with pytest.raises(outcore.UsageError, match="latency"):
        result.svg("speed")


def test_drives_have_names_files_and_settings(here: Path) -> None:
    named = {preset.name: preset for preset in presets()}
    assert {"pm9a3", "p41", "mqsim-default", "throttled"} <= set(named)
    assert {value["provenance"] for value in named["pm9a3"].values} >= {"datasheet", "guessed"}
    Path("mine.toml").write_text(named["p41"].toml)
    workload = {"requests": 200, "depth": 1, "read": 0, "caching": "off"}
    small = {"flash.blocks": 64, "flash.pages": 64, "precondition": False}
    from_file = Simulator(Path("mine.toml"), settings=small).run(workload)
    slow = Simulator("mine.toml", settings={**small, "host.command_overhead": "900us"}).run(workload)
    assert slow.summary["total"]["mean_response_ns"] > from_file.summary["total"]["mean_response_ns"]
    for wrong, says in (("p42", "p41"), ("gone.toml", "gone.toml")):
        with pytest.raises(outcore.OutcoreError, match=says):
            Simulator(wrong).run()
    with pytest.raises(outcore.UsageError, match="did you mean"):
        Simulator("p41", settings={"flash.chanels": 3}).run()


def test_namespaces_have_zones_and_requests_have_a_status(here: Path) -> None:
    Path("small.toml").write_text(SMALL)
    parts = {"zones.namespaces": [1], "namespaces.sizes": ["1GiB", "0B"]}
    drive = Simulator("small.toml", settings=parts)
    log = {"namespace": 1, "read": 0, "size": "64KiB", "requests": 300}
    result = drive.run({**log, "pattern": "streaming"})
    assert result.summary["total"]["failed"] == 0
    assert result.summary["write_amplification"] == 1.0
    assert [part["name"] for part in result.summary["namespaces"]] == ["0", "1"]
    wrong = drive.run(log)
    statuses = {STATUSES[number] for number in np.unique(wrong.requests["status"])}
    assert "Zone Is Full" in statuses, "every zone is full before the run"
    failed = np.count_nonzero(wrong.requests["status"])
    assert failed == wrong.summary["total"]["failed"] > 0


def test_wrong_workloads_are_named(drive: Simulator) -> None:
    for wrong, says in (({"deph": 3}, "did you mean `depth`"), ({"read": 2}, "share from 0 to 1")):
        with pytest.raises(outcore.UsageError, match=says):
            drive.run(wrong)
    Path("workload.toml").write_text("[[flow]]\nrequests = 300\n")
    assert len(drive.run("workload.toml").requests) == 300
    with pytest.raises(outcore.UsageError, match="both"):
        drive.run("workload.toml", trace="x")
    with pytest.raises(outcore.NotFoundError):
        drive.run("gone.toml")


def test_a_trace_is_run_and_replayed(drive: Simulator) -> None:
    lines = [f"0,{at * 8},4096,R,{at * 0.001:.3f}" for at in range(200)]
    Path("trace.spc").write_text("\n".join(lines) + "\n")
    result = drive.run(trace="trace.spc", format="spc", depth=4)
    assert len(result.requests) == 200
    report = drive.replay("trace.spc", format="spc", drives=2, depth=8)
    assert report["requests"] == 200 and len(report["drives"]) == 2
    graph = [{"id": at, "drive": 0, "op": "read", "offset": at << 20, "bytes": 1 << 20}
             for at in range(8)]
    Path("graph.jsonl").write_text("".join(json.dumps(line) + "\n" for line in graph))
    one, two = (drive.replay("graph.jsonl", drives=n, stripe="64KiB", shared="100GB/s")
                for n in (1, 4))
    assert two["seconds"] < one["seconds"]
    Path("far.spc").write_text(f"0,8,4096,R,0.1\n0,{1 << 40},4096,R,0.2\n")
    with pytest.raises(outcore.UsageError, match='request 2 .*fit="wrap"'):
        drive.run(trace="far.spc", format="spc")
    for fit in ("wrap", "scale"):
        assert len(drive.run(trace="far.spc", format="spc", fit=fit).warnings) == 1
    with pytest.raises(outcore.UsageError, match="refuse, wrap or scale"):
        drive.replay("far.spc", format="spc", fit="squeeze")


def test_the_sort_of_a_recorded_run_is_replayed_and_planned(drive: Simulator) -> None:
    outcore.gen("u64", "keys.bin", 300_000)
    outcore.sort("keys.bin", "sorted.bin", dtype="u64", memory="16MiB", record_io="sort.iotrace")
    report = drive.replay("sort.iotrace", drives=4, cpu=0.5)
    assert report["seconds"] > 0 and len(report["drives"]) == 4
    assert report["read_bytes"] >= 300_000 * 8
    plan = drive.plan_sort("1TB", "64GB", drives=8, shared="20GB/s", cpu_from="sort.iotrace")
    assert plan["seconds"] == pytest.approx(sum(phase["seconds"] for phase in plan["phases"]))
    slow = drive.plan_sort("1TB", "64GB", drives=8, memory_rate="100MB/s", sort_ns=60,
                           distribute_ns=15)
    assert slow["bottleneck"] == "memory"


def test_what_a_record_costs_is_measured_where_nobody_says_it(drive: Simulator) -> None:
    size: dict[str, Any] = {"cores": 1, "record_bytes": 4096}
    said = drive.plan_sort("1TB", "64GB", distribute_ns=1e-3, sort_ns=1e-3, **size)
    here = drive.plan_sort("1TB", "64GB", **size)
    names = [phase["name"] for phase in said["phases"]]
    assert names == [phase["name"] for phase in here["phases"]] == ["sample", "distribute", "sort"]
    for a, b in zip(said["phases"][1:], here["phases"][1:], strict=True):
        assert a["cpu_seconds"] < b["cpu_seconds"]


def test_a_result_says_what_it_is(drive: Simulator) -> None:
    result: Result = drive.run({"requests": 100})
    assert repr(result).startswith("<outcore.sim.Result: 100 requests")
    assert repr(drive) == "<outcore.sim.Simulator of small.toml>"
    assert result.warnings == []


def test_a_trace_is_read_with_its_unit(drive: Simulator) -> None:
    Path("t.disksim").write_text("0.000000 0 8 8 1\n1500.000 0 16 8 0\n")
    assert 1.5 <= drive.replay("t.disksim")["seconds"] < 1.6
    # Without decimals, the fields are MQSim's, which count nanoseconds.
    Path("t.mqsim").write_text("0 0 8 8 1\n1500 0 16 8 0\n")
    assert drive.replay("t.mqsim")["seconds"] < 0.1
    seconds = drive.replay("t.mqsim", time_unit="ms")["seconds"]
    assert 1.5 <= seconds < 1.6
    assert drive.run(trace="t.disksim", time_unit="ms", depth=1).summary


def test_ctrl_c_stops_a_run(here: Path) -> None:
    Path("small.toml").write_text(SMALL)
    program = (
        "from outcore.sim import Simulator\n"
        "print('go', flush=True)\n"
        "Simulator('small.toml').run({'requests': 10**12}, requests=False)\n"
    )
    import signal

    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in stderr
    assert process.returncode != 0
