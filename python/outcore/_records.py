"""The type of records: translates the forms of a Python program to the two forms of the engine.

The engine has names of its own (`u64`, `f32x32`, `gensort`), and knows dtypes in the form of the
header of a `.npy` file. NumPy is used only for dtypes that are not text, so a program without NumPy
can also sort. `u8` and `i8` mean one byte in the engine and eight in NumPy, and are rejected as
text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._errors import UsageError, usage
from ._units import counted, whole
from ._requests import RecordsRequest

if TYPE_CHECKING:
    import numpy.typing as npt

_READ = "read dtype"
_AMBIGUOUS = {"u8": ("uint8", "uint64"), "i8": ("int8", "int64")}
_NAMES = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    **{f"{kind}{8 * size}": f"={kind[0]}{size}" for kind in ("uint", "int") for size in (2, 4, 8)},
    **{f"float{8 * size}": f"=f{size}" for size in (2, 4, 8)},
}
#: NumPy codes: with a byte order, or without one if no name of outcore is the same.
_CODE = re.compile(r"[<>=|].+|[uif][24]|[uib]1|f8|[SUV]\d+|[mM]8(\[\w+\])?|\?")
_NATIVE = "<" if sys.byteorder == "little" else ">"


def records(
    dtype: npt.DTypeLike | None,
    record: int | tuple[int, str | Iterable[str]] | None,
    key: str | Iterable[str] | None,
) -> RecordsRequest:
    """The request for these arguments of `sort`, `plan` and `verify`."""
    request = RecordsRequest(
        name=None, descr=None, row_shape=[], record_bytes=None, keys=_keys(key)
    )
    if record is not None:
        if dtype is not None:
            raise usage("choose type", "dtype cannot be used with record", "give one of the two")
        _read_record(record, request)
    elif dtype is not None:
        _read_dtype(dtype, request)
    return request


def _keys(key: str | Iterable[str] | None) -> list[str]:
    if key is None:
        return []
    keys = list(key) if isinstance(key, Iterable) and not isinstance(key, str) else [key]
    for one in keys:
        if not isinstance(one, str):
            raise usage(
                "read key", f"{one!r} is not text", "write a field's name or OFFSET:LEN[:TYPE][:desc]"
            )
    return keys


def _read_record(
    record: int | tuple[int, str | Iterable[str]], request: RecordsRequest
) -> None:
    if isinstance(record, tuple):
        if len(record) != 2:
            hint = "give the size and the key or keys: (100, '0:10')"
            raise usage("read record", f"{record!r} has {counted(len(record), 'part')}", hint)
        record, keys = record
        request["keys"] = _keys(keys) + request["keys"]
    request["record_bytes"] = whole("record", record)


def _read_dtype(dtype: npt.DTypeLike, request: RecordsRequest) -> None:
    if not isinstance(dtype, str):
        request["descr"], request["row_shape"] = _describe(dtype)
        return
    if dtype in _AMBIGUOUS:
        one, eight = _AMBIGUOUS[dtype]
        cause = f"`{dtype}` is one byte to outcore and eight to NumPy"
        raise usage(_READ, cause, f"write {one} or {eight}")
    code = _NAMES.get(dtype, dtype)
    if not _CODE.fullmatch(code):
        request["name"] = dtype
        return
    if code[0] not in "<>|":
        code = _NATIVE + code.lstrip("=")
    request["descr"] = repr(code)


def _describe(dtype: Any) -> tuple[str, list[int]]:
    """The text of a dtype in a `.npy` header, and the shape of a row if it has one."""
    try:
        import numpy
    except ImportError:
        hint = "install NumPy, or name the type in text: 'float64', '<f8', 'f64'"
        raise usage(_READ, f"{dtype!r} needs NumPy, which is not installed", hint) from None
    try:
        read = numpy.dtype(dtype)
        shape: tuple[int, ...] = ()
        if read.subdtype is not None:
            read, shape = read.subdtype
        # NumPy's own form; it rejects a dtype that a file cannot have.
        return repr(numpy.lib.format.dtype_to_descr(read)), list(shape)
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        hint = "give a dtype of numbers or fixed-size strings, or of fields with such types in the record's order"
        raise usage(_READ, str(error), hint) from error
