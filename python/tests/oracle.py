"""A naive oracle: the order of records, defined as plainly as possible without any code of outcore.

The rules (from the manual): by key. Numbers are ordered by value, -0.0 before 0.0, NaNs after all numbers and equal to
each other; then by the bits of NaNs; then by all bytes of the record, ascending even if keys descend. A descending job
reverses the direction of every key. `stable` replaces the bytes by the position in the input.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[Any]
#: A part of a key: a function that extracts it from a record, and whether it descends.
Part = tuple[Callable[[Any], Any], bool]


def value_order(value: Any, *, by_bits: bool = False) -> Any:
    """An object that compares in the order of the value; with `by_bits`, NaNs compare by their bits."""
    if isinstance(value, np.ndarray):
        return [value_order(part, by_bits=by_bits) for part in value]
    if isinstance(value, np.complexfloating):
        parts = np.frombuffer(value.tobytes(), value.real.dtype)
        return value_order(parts, by_bits=by_bits)
    if isinstance(value, np.floating):
        # There is no cast here: a cast would turn signalling NaNs into quiet ones.
        bits = int.from_bytes(value.tobytes(), sys.byteorder)
        if math.isnan(value):
            return (1, bits if by_bits else 0, 0)
        return (0, float(value), math.copysign(1, value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return int(value.astype(np.int64))
    if isinstance(value, np.bytes_):
        return bytes(value)
    return value.item()


def sorted_records(
    records: Records,
    keys: Sequence[tuple[str | None, bool]] = ((None, False),),
    *,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
) -> Records:
    """The records in order; `keys` are fields (`None` is the whole record) that may descend."""

    def part(index: int, field: str | None, *, by_bits: bool = False) -> Any:
        record = records[index]
        value = record if field is None else record[field]
        return value_order(value, by_bits=by_bits)

    order = list(range(len(records)))
    if not stable:
        order.sort(key=lambda index: records[index].tobytes())
        for field, is_descending in reversed(keys):
            turned = is_descending != descending
            order.sort(key=lambda index: part(index, field, by_bits=True), reverse=turned)  # noqa: B023
    for field, is_descending in reversed(keys):
        order.sort(key=lambda index: part(index, field), reverse=is_descending != descending)
    if unique:
        seen: list[Any] = []
        kept = []
        for index in order:
            key = [part(index, field) for field, _ in keys]
            if not seen or seen[-1] != key:
                kept.append(index)
                seen = [key]
        order = kept
    return records[order]


def same_bytes(found: Records, wanted: Records) -> bool:
    """Whether all bits are the same; distinguishes NaNs and zeros of either sign."""
    return found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
