"""Summaries, plans, reports, progress: frozen values with the command's names that can be pickled."""

from __future__ import annotations

import dataclasses
import json
import pickle
import struct
from pathlib import Path

import pytest

import outcore

#: The keys that the JSON summary of every command has.
COMMON = {
    "records",
    "seconds",
    "read_bytes",
    "written_bytes",
    "cpu_seconds",
    "peak_rss_bytes",
    "passes",
    "bandwidth_fraction",
}


@pytest.fixture
def done(here: Path) -> tuple[outcore.GenSummary, outcore.SortSummary, outcore.VerifyReport]:
    made = outcore.gen("u64", "in.bin", 100_000)
    sorted_ = outcore.sort("in.bin", here / "out.bin", dtype="u64", memory="16MiB")
    return made, sorted_, outcore.verify("out.bin", dtype="u64")


def test_values_have_the_names_of_the_commands_json(
    done: tuple[outcore.JobSummary, ...], here: Path
) -> None:
    for value in done:
        plain = value.as_dict()
        assert COMMON | {"drives"} <= plain.keys()
        assert json.loads(json.dumps(plain)) == plain
        assert plain["records"] == value.records == 100_000
        assert plain["seconds"] > 0 and plain["cpu_seconds"] > 0
        assert plain["peak_rss_bytes"] > 1 << 20
    plain = done[1].as_dict()
    assert plain["output"] == str(here / "out.bin")
    assert {"output", "scratch_bytes", "phases", "plan"} <= plain.keys()
    assert [phase["name"] for phase in plain["phases"]][-1] == "publish"
    assert plain["plan"]["passes"] >= 1
    assert plain["plan"]["rates"]["origin"] and plain["plan"]["rates"]["read_bytes_per_s"] > 0
    for moved in ("read_bytes", "written_bytes"):
        assert sum(phase[moved] for phase in plain["phases"]) == plain[moved]
        predicted = sum(phase[f"predicted_{moved}"] or 0 for phase in plain["phases"])
        assert predicted == plain["plan"][f"predicted_{moved}"]
    assert {"ordered", "unordered", "duplicate_keys", "checksum"} <= done[2].as_dict().keys()


def test_values_can_be_pickled_and_not_be_changed(done: tuple[outcore.JobSummary, ...]) -> None:
    for value in done:
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.records = 0  # type: ignore[misc]


def test_values_show_themselves_in_a_line(
    done: tuple[outcore.GenSummary, outcore.SortSummary, outcore.VerifyReport],
) -> None:
    made, sorted_, verified = done
    assert repr(made).startswith("<outcore.GenSummary: generated 100,000 records, 78")
    assert repr(sorted_).startswith("<outcore.SortSummary: sorted 100,000 records, 781 KiB, in ")
    assert repr(verified).startswith("<outcore.VerifyReport: 100,000 records, in order, checksum ")
    assert all("\n" not in repr(value) for value in done)
    assert str(sorted_) in repr(sorted_)


def test_everything_public_says_where_it_is_and_what_it_does() -> None:
    for name in outcore.__all__:
        value = getattr(outcore, name)
        if name != "__version__":
            assert value.__module__ == "outcore" and value.__doc__
    assert outcore.__version__.count(".") == 2


def test_a_recorded_run_accounts_for_every_request(here: Path) -> None:
    # Whole blocks, so that reads request nothing beyond the end.
    outcore.gen("u64", "in.bin", 1 << 20)
    jobs: list[outcore.JobSummary] = [
        outcore.sort("in.bin", "out.bin", dtype="u64", memory="8MiB", record_io="sort.io"),
        outcore.verify("out.bin", dtype="u64", against="in.bin", record_io=here / "verify.io"),
        outcore.gen("u64", "more.bin", 1024, record_io="gen.io"),
    ]
    for job in jobs:
        trace = job.io_trace
        assert trace is not None and trace.path.stat().st_size == trace.bytes
        moved = {"read": 0, "write": 0}
        requests = 0
        # The format of docs/formats/io-trace.md: 64 bytes per record after the header.
        data = trace.path.read_bytes()
        (json_bytes,) = struct.unpack_from("<I", data, 12)
        for record in range(16 + json_bytes, len(data), 64):
            (len_bytes,) = struct.unpack_from("<I", data, record + 52)
            kind = data[record + 63]
            requests += kind in (1, 2, 3, 4)
            if kind in (1, 2):
                moved["read" if kind == 1 else "write"] += len_bytes
        assert moved == {"read": job.read_bytes, "write": job.written_bytes}
        assert requests == trace.requests
        assert job.as_dict()["io_trace"]["path"] == str(trace.path)
    assert outcore.gen("u64", "untraced.bin", 10).io_trace is None


def test_a_trace_overwrites_nothing_unasked(here: Path) -> None:
    outcore.gen("u64", "in.bin", 1000)
    Path("there").write_bytes(b"mine")
    for name, words in [("there", "force=True"), ("in.bin", "one of the inputs"), ("out.bin", "name of the output")]:
        with pytest.raises(outcore.UsageError, match=words):
            outcore.sort("in.bin", "out.bin", dtype="u64", record_io=name)
    with pytest.raises(outcore.UsageError, match="force=True"):
        outcore.verify("in.bin", dtype="u64", record_io="there")
    assert Path("there").read_bytes() == b"mine" and not Path("out.bin").exists()
    assert outcore.verify("in.bin", dtype="u64", record_io="there", force=True).io_trace
