"""Fixtures of all tests: an environment without settings, and a separate working folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are independent of the configuration of the machine."""
    for name in list(os.environ):
        if name.startswith("OUTCORE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCORE_CONFIG", "")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as the current one; checks that no scratch is left in it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not [path.name for path in tmp_path.rglob(".outcore*")]
