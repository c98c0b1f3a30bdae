"""What all tests share: an environment without settings, and a folder of their own to work in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on what is configured where it runs."""
    for name in list(os.environ):
        if name.startswith("OUTCORE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCORE_CONFIG", "")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, made the current one; no scratch may be left in it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not [path.name for path in tmp_path.rglob(".outcore*")]
