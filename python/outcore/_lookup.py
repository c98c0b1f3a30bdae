"""Keys looked up in sorted files.

    >>> import outcore
    >>> ranks = outcore.lookup("sorted.npy", [17, 42])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from . import _api as api
from ._dataset import Paths, open

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def lookup(
    src: Paths,
    values: npt.ArrayLike,
    side: str = "left",
    *,
    dtype: npt.DTypeLike | None = None,
    index: api.StrPath | None = None,
    memory: api.Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
) -> npt.NDArray[np.int64]:
    """The ranks of `values` in sorted files, as `numpy.searchsorted` has them.

    Args:
        src: Sorted files, in order, as one sequence.
        values: Numbers of the files' type, in any order.
        side: `"left"` for the number of items that are less, `"right"` for those that are not greater.
        dtype: The items' type, where the files do not say it.
        index: A file with the first item of each block of the files, which is made if it is not there: then one block is read
            for each value. It belongs to the files as they are.
        memory, threads, io: As in `sort`.

    Raises: What `sort` raises; `UsageError` for values that the items' type does not hold, and where items are seen not
        to ascend.
    """
    found = open(src, dtype=dtype, memory=memory, threads=threads, io=io)
    return found.searchsorted(values, side, index=index)
