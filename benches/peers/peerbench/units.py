"""Parses and prints sizes, fractions and times.

Invariants: parsing is exact (sizes are whole bytes, scales are fractions). Printed values are for tables and are never
parsed. `4GiB` is 2^30-based and `4GB` 10^9-based, as in the command.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

# An object of a JSON file; `to_json` of its creator documents its shape.
Json = dict[str, Any]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_UNITS = {
    "": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}


def parse_size(text: str) -> int:
    """Bytes of `512MiB`, `50MB`, `4096`. Raises ValueError with the accepted forms."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match.group(2).lower() not in _UNITS:
        raise ValueError(f"{text!r} is not a size: write 4096, 512MiB (2^20) or 50MB (10^6)")
    exact = Fraction(match.group(1)) * _UNITS[match.group(2).lower()]
    if exact.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(exact)


def parse_scale(text: str) -> Fraction:
    """A scale in (0, 1]: `1/16`, `0.125`, `1`."""
    try:
        scale = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text!r} is not a scale: write 1/16 or 0.125") from None
    if not 0 < scale <= 1:
        raise ValueError(f"scale {text} is not in (0, 1]")
    return scale


def format_size(count_bytes: int) -> str:
    """The shortest exact form in a binary unit if there is one (`512MiB`), otherwise two decimals."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count_bytes >= size:
            if count_bytes % size == 0:
                return f"{count_bytes // size}{unit}"
            return f"{count_bytes / size:.2f}{unit}"
    return f"{count_bytes}B"


def format_count(count: int) -> str:
    """`2^28` for a power of two from 2^10, `10^7` for a power of ten, digits otherwise."""
    if count >= 1024 and count & (count - 1) == 0:
        return f"2^{count.bit_length() - 1}"
    digits = str(count)
    if count >= 1000 and digits.rstrip("0") == "1":
        return f"10^{len(digits) - 1}"
    return digits


def median(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None if there is none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
