"""Verbs on graphs and vectors, whose results are arrays in memory.

Contract: the engine reads the options and does the work; `OPTIONS` is generated from the engine's
definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._array_options import OPTIONS
from ._arguments import Paths
from ._words import Words

if TYPE_CHECKING:
    import numpy.typing as npt


def run_on_arrays(
    name: str,
    files: Paths,
    given: Mapping[str, Any],
    arrays: Mapping[str, bytes] | None = None,
    phases: tuple[str, ...] = (),
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Runs the verb `name` on files with the `given` options; returns its report, and its results by name."""
    from ._numpy import numpy

    words = Words()
    words.given(name, OPTIONS, given)
    words.operands(files)
    report, _, found = words.call(name, phases, given, arrays=dict(arrays or {}))
    return report, {name: numpy.frombuffer(data, dtype) for name, (dtype, data) in found.items()}
