"""Everything in one array, for `numpy.asarray`, if it fits in the allowed memory; and a check that
a conversion of an array was exact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _outcore
from ._errors import too_large
from ._units import bytes_text
from ._requests import ResourcesRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def gathered(
    parts: Iterable[bytes],
    resources: ResourcesRequest,
    least_bytes: int,
    as_read: np.dtype[Any],
    dtype: npt.DTypeLike | None,
    copy: bool | None,
) -> npt.NDArray[Any]:
    """The items of all parts, for `__array__(dtype, copy)`.

    The items take at least `least_bytes`; if these do not fit, nothing is read.
    """
    from ._numpy import numpy

    if copy is False:
        raise ValueError("the items are read from files, so an array of them is always a copy")
    limit_bytes = _outcore.memory_bytes(resources)
    data = bytearray()
    _check(least_bytes, limit_bytes)
    for part in parts:
        _check(len(data) + len(part), limit_bytes)
        data += part
    items = numpy.frombuffer(data, as_read)
    return items if dtype is None else items.astype(dtype, copy=False)


def _check(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        cause = f"an array of all items takes more than the {bytes_text(limit_bytes)} of memory allowed"
        hint = "take batches (for batch in dataset), write() a .npy file and map it, or allow more memory="
        raise too_large("make array", cause, hint)


def is_same(given: npt.NDArray[Any], keys: npt.NDArray[Any]) -> bool:
    """Whether a conversion has left all numbers unchanged."""
    same = given == keys.astype(given.dtype) if given.dtype.kind != "f" else given == keys
    if given.dtype.kind == "f" and keys.dtype.kind == "f":
        same = same | ((given != given) & (keys != keys))
    if given.dtype.kind in "ui" and keys.dtype.kind in "ui":
        same = same & ((given < 0) == (keys < 0))
    return bool(same.all())
