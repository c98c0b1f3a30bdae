"""Numbers as text and back: sizes, counts, times.

The forms are those of the command. Sizes in text go to the engine unchanged; it accepts `4GiB` and
`4GB`, and explains what is wrong with `4G`.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from ._errors import usage

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL_UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB")


def whole(name: str, value: SupportsIndex) -> int:
    """A count: a whole number that is not negative."""
    try:
        number = operator.index(value)
    except TypeError:
        raise usage(f"read {name}", f"{value!r} is not a whole number", "give one") from None
    if number < 0 or number >= 1 << 128:
        raise usage(f"read {name}", f"{number} is out of range", "give a number of at least 0")
    return number


def size_text(name: str, value: str | SupportsIndex | None) -> str | None:
    """A size for the engine: text unchanged, numbers as bytes."""
    if value is None or isinstance(value, str):
        return value
    return str(whole(name, value))


def bytes_text(count: float) -> str:
    """Bytes in powers of 1024 with three digits: `1.50 GiB`."""
    return _scaled(count, 1024, _BYTE_UNITS)


def rate_text(count: float, seconds: float) -> str:
    """Bytes per second in powers of 1000, as drives are rated: `812 MB/s`."""
    return _scaled(count / max(seconds, 1e-9), 1000, _DECIMAL_UNITS) + "/s"


def seconds_text(seconds: float) -> str:
    """A time with three digits: `12.5 ms`, `2 min 05 s`."""
    if seconds >= 59.95:
        total = round(seconds)
        if total < 3600:
            return f"{total // 60} min {total % 60:02} s"
        return f"{total // 3600} h {total // 60 % 60:02} min"
    return f"{_digits(seconds)} s" if seconds >= 0.9995 else f"{_digits(seconds * 1e3)} ms"


def counted(count: int, thing: str) -> str:
    """A number of things in the English singular or plural: `1 line`, `1,000 lines`, `2 passes`, `4
    vertices`."""
    if count == 1:
        return f"1 {thing}"
    if thing.endswith("ex"):
        return f"{count:,} {thing.removesuffix('ex')}ices"
    return f"{count:,} {thing}{'es' if thing.endswith('s') else 's'}"


def _scaled(count: float, step: int, units: tuple[str, ...]) -> str:
    index = 0
    while count >= step * 0.9995 and index + 1 < len(units):
        count /= step
        index += 1
    return f"{_digits(count) if index else f'{count:.0f}'} {units[index]}"


def _digits(value: float) -> str:
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"
