"""Prepares values for comparison: with an expected output to the bit, and as keys in DuckDB.

Contract: [`bits`] turns floats and times, also inside nested values, into integers with the same bits, and dictionaries
into their values, so that pyarrow's `equals` distinguishes NaNs and zeros. [`key`] gives DuckDB a column that it
orders, or considers equal, as outcore documents. If a type does not exist in DuckDB (decimals beyond 38 digits, times
in other units), integers or texts of the same order replace it. Zeros and NaNs are each made one value.
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

INTEGERS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """An array that begins at the start of its buffers."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        chunks = [decoded(chunk) for chunk in column.chunks]
        array = pa.concat_arrays(chunks) if chunks else decoded(pa.array([], column.type))
    array = decoded(array)
    return array.take(pa.array(range(len(array)), pa.int64()))


def decoded(array: pa.Array) -> pa.Array:
    """The array with dictionaries looked up, and views converted to types whose rows pyarrow can take."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def bits(array: pa.Array) -> pa.Array:
    """See the module; takes an array from `whole`."""
    of = array.type
    if pa.types.is_floating(of):
        return pa.Array.from_buffers(INTEGERS[of.bit_width], len(array), array.buffers(), array.null_count, array.offset)
    if pa.types.is_temporal(of):
        return array.cast(pa.int32() if of.bit_width == 32 else pa.int64())
    if pa.types.is_struct(of):
        members = [bits(whole(array.field(place))) for place in range(of.num_fields)]
        names = [of.field(place).name for place in range(of.num_fields)]
        return pa.StructArray.from_arrays(members, names, mask=array.is_null())
    if pa.types.is_map(of) or pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        # Lists of lists of integers with the same lengths.
        lens = pc.fill_null(pc.list_value_length(_as_list(array)), 0).to_pylist()
        starts = [0]
        for len_rows in lens:
            starts.append(starts[-1] + len_rows)
        inner = bits(whole(_as_list(array).flatten()))
        made = pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), inner)
        return pa.StructArray.from_arrays([made], ["list"], mask=array.is_null())
    return array


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, entries, mask=mask)


def type_text(of: pa.DataType) -> str:
    """A type, independent of the names of list elements and of dictionaries."""
    if pa.types.is_dictionary(of):
        return type_text(of.value_type)
    if pa.types.is_struct(of):
        members = [of.field(place) for place in range(of.num_fields)]
        return "struct<" + ", ".join(f"{member.name}: {type_text(member.type)}" for member in members) + ">"
    if pa.types.is_map(of):
        return f"map<{type_text(of.key_type)}, {type_text(of.item_type)}>"
    if pa.types.is_fixed_size_list(of):
        return f"list<{type_text(of.value_type)}>[{of.list_size}]"
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"{'large_' if pa.types.is_large_list(of) else ''}list<{type_text(of.value_type)}>"
    return str(of)


def canonical(array: pa.Array) -> pa.Array:
    """Floats with one NaN and one zero, as doubles."""
    real = [None if value is None else (float("nan") if value != value else value + 0.0) for value in array.to_pylist()]
    return pa.array(real, pa.float64())


def _text_of(value: Any) -> str:
    """A nested value as a text; texts are equal if the bits are."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_text_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text_of, value)) + "]"
    return f"{type(value).__name__}:{value!r}"


def key(array: pa.Array) -> pa.Array:
    """A column in the form that DuckDB takes as a key; all NaNs are equal, and so are 0.0 and -0.0.

    Nested values become texts, whose order has no meaning.
    """
    of = array.type
    if pa.types.is_floating(of):
        return canonical(array)
    if pa.types.is_nested(of):
        texts = [None if value is None else _text_of(value) for value in bits(array).to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_decimal(of):
        if of.precision > 38 or of.scale > 38:
            # Text of fixed length: whole numbers without their sign.
            with decimal.localcontext(prec=90):
                wholes = [None if value is None else int(value.scaleb(of.scale)) + 10**77 for value in array.to_pylist()]
            return pa.array([None if value is None else f"{value:078d}" for value in wholes], pa.string())
        return array.cast(pa.decimal128(38, of.scale))
    if pa.types.is_temporal(of) and not pa.types.is_date32(of):
        return bits(array)
    return array.cast(pa.binary()) if pa.types.is_fixed_size_binary(of) else array
