"""Looks up keys in sorted files.

    >>> import outcore
    >>> ranks = outcore.lookup("sorted.npy", [17, 42])
    >>> ranks = outcore.lookup("words.txt", ["apple", "pear"], lines=True)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _arguments as arguments
from . import _kinds
from . import _outcore
from ._errors import usage
from ._open import Paths, open
from ._view import LineView

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NEWLINE = 10


def lookup(
    src: Paths,
    values: npt.ArrayLike | Sequence[bytes],
    side: str = "left",
    *,
    lines: bool = False,
    zero_terminated: bool = False,
    dtype: npt.DTypeLike | None = None,
    index: arguments.StrPath | None = None,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    volume: arguments.StrPath | None = None,
) -> npt.NDArray[np.int64]:
    """The ranks of `values` in sorted files, as in `numpy.searchsorted`.

    Args:
        src: Sorted files, in order, as one sequence; with `lines`, one file of lines.
        values: Numbers of the files' type, in any order; with `lines`, bytes or strings without newlines.
        side: `"left"` for the number of items that are less, `"right"` for the number of items that
            are not greater.
        lines: The file has lines in the order of their bytes; this is also the default for text.
            Compressed files are decompressed to scratch. The file is read once. For many lookups in
            the same lines, make a view (`sort_view`), whose `search` also takes many lines.
        zero_terminated: The same for lines that end with a zero byte.
        dtype: The items' type, if the files do not have it.
        index: A file with the first item of each block of the files, which is made if it does not
            exist. With it, one block is read for each value. It is valid only as long as the files
            do not change.
        memory, threads, io, volume: As in `sort`.

    Raises: What `sort` raises; `UsageError` for values that do not fit the items' type, and for
    items that are found
        out of order.
    """
    given = dict(locals())
    src = arguments.looked_at_twice(src)
    resources = arguments.resources_of(memory, threads, (), io, None, arguments.SEED, volume)
    is_typed = dtype is not None
    kind = _kinds.what(arguments.path_texts(src), resources, records=is_typed, lines=bool(lines))
    # Here all text is lines, whatever the name of its file is.
    kind = _kinds.LINES if kind in _kinds.TEXT else kind
    _kinds.check(lookup, kind, given)
    if kind == _kinds.VIEW:
        raise usage("look up keys", "it is a directory", "open a view with LineView, and search it")
    if kind != _kinds.LINES:
        found = open(src, dtype=dtype, memory=memory, threads=threads, io=io, volume=volume)
        return found.searchsorted(values, side, index=index)
    if not isinstance(src, (str, os.PathLike)):
        raise usage("look up keys", "several files of lines", "name one sorted file")
    if isinstance(values, (str, bytes)):
        raise usage("look up keys", "one string in place of many", f"give a list: [{values!r}]")
    path = arguments.path_text(src)
    end = 0 if zero_terminated else _NEWLINE
    view = LineView.__new__(LineView)
    view._open(path, resources, None, None, _outcore.sorted_lines(path, end, resources))
    keys: Any = values
    ranks: npt.NDArray[np.int64] = view.search([os.fsencode(line) for line in keys], side)
    return ranks
