"""Compares expressions with NumPy: division and remainder over grids, vectors, powers, and their limits."""

from __future__ import annotations

import datetime
import itertools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

FLOATS = ["f4", "f8"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
OPERATORS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("//", np.floor_divide),
    ("%", np.remainder),
    ("/", np.true_divide),
    ("*", np.multiply),
    ("-", np.subtract),
]


def computed(expression: Any, *columns: np.ndarray) -> np.ndarray:
    """The engine's result for columns, which it calls `x`, `y`."""
    names = [f"column-{number}.npy" for number in range(len(columns))]
    for name, column in zip(names, columns):
        np.save(name, column)
    data = [outcore.open(name, memory="32MiB", threads=1) for name in names]
    return np.asarray((data[0].zip(*data[1:]) if data[1:] else data[0]).map(expression))


def assert_same(made: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Equal to the bit, except that all NaNs are equal."""
    assert made.dtype == (np.dtype("u1") if wanted.dtype == bool else wanted.dtype), what
    assert made.shape == wanted.shape, what
    is_like = made == wanted
    if wanted.dtype.kind == "f":
        is_like &= np.signbit(made) == np.signbit(wanted)
        is_like |= np.isnan(made) & np.isnan(wanted)
    at = np.argwhere(~is_like)
    assert not len(at), f"{what} at {at[0]}: {made[tuple(at[0])]!r}, not {wanted[tuple(at[0])]!r}"


def float_grid(dtype: str) -> np.ndarray:
    of = np.finfo(dtype)
    some = [0.0, 1, 1.5, 2, 3, 7, 0.1, 0.3, 1e10, of.max, of.tiny, of.smallest_subnormal, np.inf]
    random = np.random.default_rng(5).standard_normal(40) * 10.0 ** np.arange(-20, 20)
    values = np.array([*some, of.tiny / 4, of.max / 3, np.nextafter(of.dtype.type(1), 0), *random])
    return np.concatenate([values, -values, [np.nan]]).astype(dtype)


def integer_grid(dtype: str) -> np.ndarray:
    of = np.iinfo(dtype)
    some = [of.min, of.min + 1, of.min // 2, -100, -7, -3, -2, -1, 0, 1, 2, 3, 7, 64, 100]
    values = [*some, of.max // 2, of.max - 1, of.max]
    return np.array([value for value in values if of.min <= value <= of.max], dtype=dtype)


def pairs(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = zip(*itertools.product(grid, grid))
    return np.array(a, grid.dtype), np.array(b, grid.dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_operators_are_those_of_numpy_for_all_kinds_of_numbers(here: Path, dtype: str) -> None:
    all_a, all_b = pairs(float_grid(dtype) if dtype in FLOATS else integer_grid(dtype))
    for name, function in OPERATORS:
        # An integer divided by zero has no value.
        is_taken = np.full(len(all_b), dtype in FLOATS or name not in ("//", "%")) | (all_b != 0)
        a, b = all_a[is_taken], all_b[is_taken]
        with np.errstate(all="ignore"):
            wanted = function(a, b)
        assert_same(computed(f"x {name} y", a, b), wanted, f"{dtype}: x {name} y")
        assert_same(computed(eval(f"outcore.x {name} outcore.col('y')"), a, b), wanted, name)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_constants_divide_as_columns_do(here: Path, dtype: str) -> None:
    grid = float_grid(dtype) if dtype in FLOATS else integer_grid(dtype)
    for by in (-3, -1, 0, 1, 2, 7, 100):
        if (by < 0 and dtype[0] == "u") or (by == 0 and dtype in INTEGERS):
            continue
        for name, function in OPERATORS[:2]:
            with np.errstate(all="ignore"):
                wanted = function(grid, np.array(by, dtype))
            text = f"x {name} {float(by)!r}" if dtype in FLOATS else f"x {name} {by}"
            assert_same(computed(text, grid), wanted, f"{dtype}: {text}")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_divided_by_zero_are_an_error_where_the_result_is_used(
    here: Path, dtype: str
) -> None:
    a, b = np.array([6, 7, 8], dtype), np.array([2, 0, 3], dtype)
    for expression in ("x // y", "x % y", "x // 0", "1 + x % 0"):
        with pytest.raises(outcore.UsageError, match="divided by zero"):
            computed(expression, a, b)
    with pytest.raises(outcore.UsageError, match="divisor of item 1 is 0"):
        computed("x // y", a, b)
    safe = np.array([3, 9, 2], dtype)
    assert_same(computed("where(y == 0, 9, x // y)", a, b), safe, "where")
    wanted = np.array([True, False, False])
    assert_same(computed("y != 0 and x // y == 3", a, b), wanted, "and")


def test_nan_is_larger_than_all_numbers_as_in_a_sort(here: Path) -> None:
    for dtype in FLOATS:
        values = np.array([1.0, np.nan, np.inf, -np.inf], dtype)
        for expression, wanted in [
            ("x == x", [True, True, True, True]),
            ("x > 1e999", [False, True, False, False]),
            ("x < 2", [True, False, False, True]),
            ("x != x", [False] * 4),
        ]:
            assert_same(computed(expression, values), np.array(wanted), expression)


VECTORS: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    ("x * 2", lambda v: v * 2),
    ("x // 2.5 % 3", lambda v: v // v.dtype.type(2.5) % 3),
    ("-x", operator.neg),
    ("abs(x - 7)", lambda v: np.abs(v - 7)),
    ("x > 5", lambda v: v > 5),
    ("where(x > 5, x, 0)", lambda v: np.where(v > 5, v, v.dtype.type(0))),
    ("x - x[1]", lambda v: v - v[:, 1:2]),
    ("f64(x) * index", lambda v: v.astype("f8") * np.arange(len(v))[:, None]),
    ("sqrt(x)", np.sqrt),
    ("i32(x) & 3", lambda v: v.astype("i4") & 3),
    ("x == x[0] or x > 100", lambda v: (v == v[:, :1]) | (v > 100)),
]


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8"])
@pytest.mark.parametrize("shape", [(1, 2), (1000, 16), (2500, 3), (7, 1500)])
def test_a_map_of_rows_is_that_of_numpy(here: Path, dtype: str, shape: tuple[int, int]) -> None:
    rows = np.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
    for expression, function in VECTORS:
        wanted = function(rows)
        # NumPy computes in the machine's byte order; results have the byte order of the input.
        wanted = wanted.astype(wanted.dtype.newbyteorder(dtype[0]))
        assert_same(computed(expression, rows), wanted, expression)


def test_rows_go_on_as_rows_through_all_steps(here: Path) -> None:
    rows = np.random.default_rng(1).integers(-100, 100, (3000, 5)).astype("i4")
    np.save("rows.npy", rows)
    x = outcore.x
    data = outcore.open("rows.npy", memory="32MiB", threads=2)
    kept = rows[rows[:, 2] > 0] * 3 - 1
    steps = data.filter(x[2] > 0).map(x * 3).map(x - 1)
    assert steps.dtype == np.dtype(("<i4", (5,)))
    assert np.array_equal(np.asarray(steps), kept)
    assert steps.map(x[4]).sum() == int(kept[:, 4].sum())
    in_order = np.array(sorted(kept.tolist()))
    assert np.array_equal(np.asarray(steps.sort()), in_order)
    steps.write("out.npy")
    assert np.array_equal(np.load("out.npy"), kept)
    twice = data.map(lambda batch: batch * 2).map("x + 1")
    assert np.array_equal(np.asarray(twice), rows * 2 + 1)
    np.save("one.npy", rows[:, 0])
    one = outcore.open("one.npy", memory="32MiB")
    assert np.array_equal(np.asarray(data.zip(one).map("x * y")), rows * rows[:, :1])
    # A structured dtype may also contain vectors.
    records = np.zeros(50, dtype=[("id", "<u2"), ("at", "<f4", (3,))])
    records["id"], records["at"] = np.arange(50), np.arange(150).reshape(50, 3)
    np.save("records.npy", records)
    made = outcore.open("records.npy", memory="32MiB").map("at + id")
    assert np.array_equal(np.asarray(made), records["at"] + records["id"][:, None])


def test_where_one_value_is_wanted_a_vector_is_refused_with_what_to_write(here: Path) -> None:
    np.save("rows.npy", np.ones((10, 16), "f4"))
    np.save("short.npy", np.ones((10, 8), "f4"))
    data = outcore.open("rows.npy", memory="32MiB")
    x = outcore.x
    questions: list[Callable[[], Any]] = [
        lambda: data.filter(x > 1),
        lambda: data.filter("x"),
        lambda: data.find(x > 1),
        lambda: data.partition(x > 1, "part-{part}.bin"),
        lambda: data.sum(),
        lambda: data.max(),
        lambda: data.mean(),
        lambda: data.map(x * 2).sum(),
        lambda: data.map_reduce(x * 2, "sum"),
        lambda: data.scan(),
        lambda: data.top(3),
        lambda: data.histogram(),
    ]
    for question in questions:
        with pytest.raises(outcore.UsageError) as refused:
            question()
        assert "x[0]" in str(refused.value) and "--" not in str(refused.value)
    with pytest.raises(outcore.UsageError, match="16 numbers and `y` has 8"):
        data.zip(outcore.open("short.npy")).map("x + y")
    assert sorted(path.name for path in here.iterdir()) == ["rows.npy", "short.npy"]


def test_integers_have_no_negative_powers(here: Path) -> None:
    x = outcore.x
    numbers = np.arange(-3, 4, dtype="i8")
    for expression in ("x ** -1", x**-1, 2**x, "x ** x", "1 ** -1 + x"):
        with pytest.raises(outcore.UsageError, match="negative power"):
            computed(expression, numbers)
    with pytest.raises(outcore.UsageError, match="item 1 is -2, .*f64"):
        computed("2 ** x", np.array([5, -2], "i8"))
    assert_same(computed("x ** 3", numbers), numbers**3, "x ** 3")
    assert_same(computed("f64(x + 4) ** -1", numbers), (numbers + 4.0) ** -1, "f64(x) ** -1")
    positive = outcore.tabulate(10, memory="32MiB")
    assert positive.filter("x >= 3").map("2 ** x").sum() == sum(2**n for n in range(3, 10))


def test_no_expression_is_too_deep_to_be_refused(here: Path) -> None:
    data = outcore.tabulate(10, memory="32MiB")
    many = 30_000

    def chained(step: Callable[[Any], Any]) -> Any:
        made = outcore.x
        for _ in range(many):
            made = step(made)
        return made

    for step in (lambda x: x + outcore.x, lambda x: -x, lambda x: ~x, abs, lambda x: 1 + x):
        with pytest.raises(outcore.UsageError, match="several steps"):
            data.map(chained(step))
    for text in (
        "x" + "+x" * many,
        "(" * many + "x" + ")" * many,
        "-" * many + "x",
        "not " * many + "x",
    ):
        for question in (data.map, data.filter, data.find, data.reduce):
            with pytest.raises(outcore.UsageError) as refused:
                question(text)
            assert len(str(refused.value)) < 1000
    deep = outcore.x
    for _ in range(100):
        deep = deep + 1
    assert data.map(deep).sum() == 45 + 1000


def test_expressions_are_no_sequences_and_win_over_numbers_of_numpy() -> None:
    with pytest.raises(TypeError):
        iter(outcore.x)
    with pytest.raises(TypeError):
        sum(outcore.x)
    assert str(np.float64(2) * outcore.x) == "(2.0 * x)"
    assert str(outcore.x + np.int64(3)) == "(x + 3)"
    assert str(np.uint8(200) - outcore.x) == "(200 - x)"
    assert str(outcore.x > np.float32(-1.5)) == "(x > (-1.5))"
    with pytest.raises(outcore.UsageError, match="isnan"):
        outcore.x == float("nan")


def test_infinity_is_a_number_in_expressions(here: Path) -> None:
    numbers = np.array([-np.inf, -1, 0, 1, np.inf], "f4")
    assert_same(computed(outcore.x < np.inf, numbers), numbers < np.inf, "x < inf")
    assert_same(computed(outcore.x * -np.inf, numbers[1:2]), numbers[1:2] * -np.inf, "x * -inf")


LIST = Path(__file__).parents[2] / "crates/outcore/tests/conformance/expressions.txt"
ROWS: dict[str, list[Any]] = {
    "a": [7, -7, 0, 2**63 - 1, -(2**63), 5],
    "b": [2, 2, 3, 1, 1, -3],
    "x": [1.5, -2.5, np.nan, np.inf, -0.0, 3.0],
    "y": [2.0, np.nan, np.nan, 1.0, 0.0, -3.0],
    "n": [0, 1, 2, 2**64 - 1, 9, 3],
}
TYPES = {"a": "<i8", "b": "<i8", "x": "<f8", "y": "<f8", "n": "<u8"}


def listed() -> list[tuple[str, list[str], dict[str, str]]]:
    """The expressions of the conformance kit, their values, and the cause of each failure."""
    lines = []
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        fields = line.split(" | ")
        fails = {}
        who, colon, cause = fields[-1].partition(":")
        if colon and who in ("records", "tables", "both"):
            fields.pop()
            fails = {each: cause.strip() for each in ("records", "tables") if who in (each, "both")}
        values = fields.pop().split(" ")
        lines.append((" | ".join(fields), values * 6 if len(values) == 1 else values, fails))
    return lines


def is_like(found: Any, wanted: str) -> bool:
    """Whether a value equals the value in a text."""
    if wanted in ("true", "false", "null") or found is None:
        return found == {"true": True, "false": False, "null": None}.get(wanted, wanted)
    if isinstance(found, (float, np.floating)):
        is_same = float(found) == float(wanted) and np.signbit(found) == np.signbit(float(wanted))
        return is_same or bool(np.isnan(found) and np.isnan(float(wanted)))
    if isinstance(found, datetime.datetime):
        return found == datetime.datetime.fromisoformat(wanted)
    return str(found) == wanted


def test_the_list_of_expressions_holds_for_records() -> None:
    rows = np.zeros(6, dtype=list(TYPES.items()))
    for name, values in ROWS.items():
        rows[name] = values
    np.save("in.npy", rows)
    wrong = []
    for text, wanted, fails in listed():
        try:
            outcore.map("in.npy", text, "out.npy", force=True)
        except outcore.OutcoreError as error:
            if "records" not in fails or fails["records"] not in str(error):
                wrong.append(f"{text}: {error}")
            continue
        found = np.load("out.npy")
        if "records" in fails or not all(map(is_like, found, wanted)):
            wrong.append(f"{text} gives {found}")
    assert not wrong, "\n".join(wrong)


def test_the_list_of_expressions_holds_for_tables() -> None:
    pa = pytest.importorskip("pyarrow")
    kinds = {"<i8": pa.int64(), "<f8": pa.float64(), "<u8": pa.uint64()}
    table = pa.table({name: pa.array(values, kinds[TYPES[name]]) for name, values in ROWS.items()})
    wrong = []
    for text, wanted, fails in listed():
        try:
            found = pa.table(outcore.map(table, f"e = {text}"))["e"].to_pylist()
        except outcore.OutcoreError as error:
            if "tables" not in fails or fails["tables"] not in str(error):
                wrong.append(f"{text}: {error}")
            continue
        if "tables" in fails or not all(map(is_like, found, wanted)):
            wrong.append(f"{text} gives {found}")
    assert not wrong, "\n".join(wrong)
