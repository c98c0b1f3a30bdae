"""Without NumPy, functions that need it say how to install it, and all others work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import outcore
import pytest


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which NumPy is not installed."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "outcore._numpy", raising=False)


#: Calls of functions that hand out or take arrays.
OF_ARRAYS: dict[str, Callable[[], Any]] = {
    "head": lambda: outcore.open("n.bin", dtype="u64").head(2),
    "batches": lambda: list(outcore.open("n.bin", dtype="u64").batches(2)),
    "items": lambda: list(outcore.open("n.bin", dtype="u64")),
    "top": lambda: outcore.open("n.bin", dtype="u64").top(2),
    "map": lambda: outcore.open("n.bin", dtype="u64").map(lambda items: items + 1),
    "enumerate": lambda: outcore.open("n.bin", dtype="u64").enumerate(),
    "histogram": lambda: outcore.open("n.bin", dtype="u64").histogram(),
    "gather": lambda: outcore.open("n.bin", dtype="u64").gather([0]),
    "lookup": lambda: outcore.lookup("n.bin", [1], dtype="u64"),
    "filter": lambda: outcore.open("n.bin", dtype="u64").filter(lambda items: items > 1).write("out.bin"),
    "knn": lambda: outcore.knn("n.bin", "n.bin", 1, dtype="f32x2"),
    "range search": lambda: outcore.range_search("n.bin", "n.bin", 1.0, dtype="f32x2"),
    "shuffled": lambda: outcore.shuffled("n.bin", dtype="u64"),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_arrays_without_numpy_are_an_error_that_says_what_to_install(name: str, no_numpy: None, here: Path) -> None:
    Path("n.bin").write_bytes(bytes(range(32)))
    for _ in range(2):
        with pytest.raises(outcore.UsageError, match="numpy is not installed; .*pip install numpy"):
            OF_ARRAYS[name]()


def test_what_needs_no_arrays_works_without_numpy(no_numpy: None, here: Path) -> None:
    Path("n.bin").write_bytes(bytes(range(32)))
    numbers = outcore.open("n.bin", dtype="u64")
    assert numbers.reduce("count") == 4
    assert numbers.filter("x > 0").map("x % 2").write("out.bin").records == 4
    with pytest.raises(outcore.UsageError, match="install NumPy, or name the type in text"):
        outcore.open("n.bin", dtype=int)
