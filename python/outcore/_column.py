"""Expressions written as Python: `x * 2 + 1` with `x` a placeholder, run in Rust.

`outcore.x` is the item of a dataset of plain numbers, `outcore.col("name")` a field. Python's
operators turn them into text that the engine compiles; `and`, `or` and `not` are written `&`, `|`
and `~`, as in NumPy.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from ._equivalents import unknown_attribute
from ._errors import usage

#: The engine reads this literal as infinity: it is larger than all other numbers.
_INFINITE = "1e999"
#: The largest number of characters of an expression: far more than the engine accepts.
_TEXT_MAX = 1 << 16
Operand = Union["Column", bool, int, float, str, datetime.date]
#: An expression in text, or one that Python's operators have made.
Expression = Union[str, "Column"]
Expressions = Union[Expression, Iterable[Expression]]


class Column:
    """An expression over the fields of a record."""

    __slots__ = ("_is_truth", "_text")

    #: NumPy numbers leave their operators to this class.
    __array_ufunc__ = None
    #: A `Column` has elements by number, but a loop over these would not end.
    __iter__ = None

    def __init__(self, text: str, is_truth: bool = False) -> None:
        if len(text) > _TEXT_MAX:
            cause = f"it has more than {_TEXT_MAX:,} characters"
            raise usage("make expression", cause, "split it into several steps: map(...).map(...)")
        self._text = text
        self._is_truth = is_truth

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<outcore.Column: {self._text}>"

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: write & | ~ for and, or, not")

    def __getitem__(self, element: int) -> Column:
        return Column(f"{self._text}[{int(element)}]")

    # Type checkers know the attributes.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

        def __call__(self, *_: object, **__: object) -> Any:
            step = 'a function is a part of a text, as in t.filter("starts_with(country, \'d\')")'
            if self._text == "index":
                step = "outcore.index_vectors makes an index of a file of vectors"
            raise TypeError(f"{self!r} is a column, not a function; {step}")

    def astype(self, name: str) -> Column:
        """This expression, cast to a type of outcore: `"f64"`."""
        return Column(f"{name}({self._text})")

    def _binary(self, operator: str, other: Operand, is_truth: bool = False) -> Column:
        return Column(f"({self._text} {operator} {text(other)})", is_truth)

    def _reflected(self, operator: str, other: Operand) -> Column:
        return Column(f"({text(other)} {operator} {self._text})")

    def __add__(self, other: Operand) -> Column:
        return self._binary("+", other)

    def __radd__(self, other: Operand) -> Column:
        return self._reflected("+", other)

    def __sub__(self, other: Operand) -> Column:
        return self._binary("-", other)

    def __rsub__(self, other: Operand) -> Column:
        return self._reflected("-", other)

    def __mul__(self, other: Operand) -> Column:
        return self._binary("*", other)

    def __rmul__(self, other: Operand) -> Column:
        return self._reflected("*", other)

    def __truediv__(self, other: Operand) -> Column:
        return self._binary("/", other)

    def __rtruediv__(self, other: Operand) -> Column:
        return self._reflected("/", other)

    def __floordiv__(self, other: Operand) -> Column:
        return self._binary("//", other)

    def __rfloordiv__(self, other: Operand) -> Column:
        return self._reflected("//", other)

    def __mod__(self, other: Operand) -> Column:
        return self._binary("%", other)

    def __rmod__(self, other: Operand) -> Column:
        return self._reflected("%", other)

    def __pow__(self, other: Operand) -> Column:
        return self._binary("**", other)

    def __rpow__(self, other: Operand) -> Column:
        return self._reflected("**", other)

    def __and__(self, other: Operand) -> Column:
        return self._binary("&", other, self._is_truth)

    def __rand__(self, other: Operand) -> Column:
        return self._reflected("&", other)

    def __or__(self, other: Operand) -> Column:
        return self._binary("|", other, self._is_truth)

    def __ror__(self, other: Operand) -> Column:
        return self._reflected("|", other)

    def __xor__(self, other: Operand) -> Column:
        return self._binary("^", other, self._is_truth)

    def __rxor__(self, other: Operand) -> Column:
        return self._reflected("^", other)

    def __lshift__(self, other: Operand) -> Column:
        return self._binary("<<", other)

    def __rshift__(self, other: Operand) -> Column:
        return self._binary(">>", other)

    def __neg__(self) -> Column:
        return Column(f"(-{self._text})")

    def __invert__(self) -> Column:
        return Column(f"(not {self._text})" if self._is_truth else f"(~{self._text})", self._is_truth)

    def __abs__(self) -> Column:
        return Column(f"abs({self._text})")

    def __lt__(self, other: Operand) -> Column:
        return self._binary("<", other, True)

    def __le__(self, other: Operand) -> Column:
        return self._binary("<=", other, True)

    def __gt__(self, other: Operand) -> Column:
        return self._binary(">", other, True)

    def __ge__(self, other: Operand) -> Column:
        return self._binary(">=", other, True)

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._binary("==", other, True)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._binary("!=", other, True)  # type: ignore[arg-type]


def text(operand: Operand) -> str:
    """An operand as the engine reads it."""
    if isinstance(operand, Column):
        return str(operand)
    if isinstance(operand, bool):
        return "true" if operand else "false"
    if operand is None:
        step = "t.filter(\"price is null\") keeps rows without a value"
        raise TypeError(f"None has no literal that compares with a column; {step}")
    if isinstance(operand, datetime.date):
        return _time(operand.isoformat())
    if type(operand).__name__ == "datetime64":
        return _time(_numpy_time(operand))
    if isinstance(operand, str):
        return "'" + operand.replace("'", "''") + "'"
    if isinstance(operand, int):
        return _signed(int.__repr__(operand))
    if isinstance(operand, float):
        if math.isnan(operand):
            raise usage("make expression", "NaN has no literal", "ask with isnan(...), as in 'isnan(x)'")
        # `float.__repr__` gives `2.0` even for a NumPy number, whose own `repr` would be `np.float64(2.0)`.
        return _signed(float.__repr__(operand).replace("inf", _INFINITE))
    # Numbers of NumPy.
    item = getattr(operand, "item", None)
    if callable(item):
        return text(item())
    kind = type(operand).__qualname__
    raise TypeError(f"{operand!r} is of the type {kind}, which expressions do not have: use numbers, texts and columns")


def expression_text(given: Any) -> str:
    """An expression as the engine reads it.

    Raises:
        TypeError: It is neither a text nor a `Column`.
    """
    if isinstance(given, (str, Column)):
        return str(given)
    what = "a function" if callable(given) else f"an object of type {type(given).__qualname__}"
    raise TypeError(f'an expression is a text or a column, not {what}: write "price > 100" or outcore.col("price") > 100')


def _time(written: str) -> str:
    """A date or a time as the engine reads it. A text next to a column of dates is a date, so a time of day needs
    a timestamp. Digits beyond microseconds, which `timestamp` does not keep, are only in a text."""
    day_time = written.partition("T")[2]
    is_finer = bool(re.search(r"\.\d{6}\d*[1-9]", day_time))
    is_text = is_finer or not day_time.strip("0:.")
    return f"'{written}'" if is_text else f"timestamp('{written}')"


def _numpy_time(operand: Any) -> str:
    """A `datetime64` as a date, or as a time with seconds."""
    unit = operand.dtype.str.partition("[")[2].rstrip("]")
    if unit in ("Y", "M", "W"):
        operand = operand.astype("datetime64[D]")
    elif unit not in ("D", "s", "ms", "us", "ns"):
        operand = operand.astype("datetime64[us]")
    return str(operand)


def _signed(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def col(name: str) -> Column:
    """The field of that name; `outcore.x` is the item of a dataset of plain numbers. A text next to it is a value:
    `col("country") == "Spain"`."""
    return Column(name)


#: The item of a dataset of plain numbers.
x = Column("x")
#: The position of an item in the whole input.
index = Column("index")
