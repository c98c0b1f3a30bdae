"""Drives, scratch and settings as functions.

Contract: the values are those of the command.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import outcore

COMMAND = ["python", "-m", "outcore"]


def events(*words: str) -> list[dict[str, object]]:
    """The events of the command."""
    text = subprocess.run([*COMMAND, *words, "--json"], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def test_settings_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTCORE_THREADS", "3")
    found = {setting.key: (setting.value, setting.source) for setting in outcore.settings()}
    listed = [event for event in events("config", "show") if event["event"] == "setting"]
    assert found["threads"][0] == "3"
    assert set(found) == {event["key"] for event in listed}
    assert found["threads"] == next((e["value"], e["source"]) for e in listed if e["key"] == "threads")


def test_scratch_that_is_left_over_is_listed_and_removed(tmp_path: Path) -> None:
    # A maker that was killed before it had a lock leaves an empty directory.
    left = tmp_path / ".outcore-0123456789ab"
    left.mkdir(mode=0o700)
    listed = outcore.list_scratch(tmp_path)
    assert [(entry.path, entry.in_use, entry.resume) for entry in listed] == [(left, False, None)]
    removed = outcore.clean_scratch([tmp_path])
    assert [entry.path for entry in removed] == [left]
    assert not left.exists()
    assert len(outcore.list_scratch(tmp_path)) == 0


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(outcore.NotFoundError, match="look for scratch"):
        outcore.list_scratch(tmp_path / "none")


def test_drives_are_measured_and_the_file_is_one_for_jobs(tmp_path: Path) -> None:
    file = tmp_path / "drives.toml"
    report = outcore.probe_drives(tmp_path, file, size="8MiB", step="20ms")
    (drive,) = report
    assert drive.dir == tmp_path.resolve()
    assert drive.read_bytes_per_s and drive.write_bytes_per_s
    assert [rate.depth for rate in drive.iops_by_depth] == sorted(rate.depth for rate in drive.iops_by_depth)
    assert file.read_text() == report.drives_file
    with pytest.raises(outcore.UsageError):
        outcore.probe_drives(tmp_path, file, size="8MiB", step="20ms")
    (tmp_path / "in").write_bytes(bytes(range(256)) * 8)
    outcore.sort(tmp_path / "in", tmp_path / "out", dtype="u64", drives=file)
    assert (tmp_path / "out").stat().st_size == 2048
