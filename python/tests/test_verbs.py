"""Commands as functions: what they write and what they report."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import outcore
import pytest
from outcore import _part_verbs, _record_verbs, _row_verbs, _table_verbs, _verbs
from outcore._summary import JobReport

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

NUMBERS = [5, 1, 9, 7, 3, 8]


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    numpy.save("n.npy", numpy.array(NUMBERS, "<u8"))
    return "n.npy"


def written(name: str, done: Any) -> list[Any]:
    """The items of a file, for comparison with the report."""
    assert type(done) is outcore.WriteSummary and done.unit == "record"
    items: list[Any] = numpy.load(name).tolist()
    assert done.records == len(items)
    return items


def test_functions_write_what_they_make_of_records(numbers: str) -> None:
    x = outcore.x
    assert written("f.npy", outcore.filter(numbers, "x > 4", "f.npy")) == [5, 9, 7, 8]
    kept = outcore.filter(numbers, x > 4, "g.npy", where=[x < 9, "x != 7"])
    assert written("g.npy", kept) == [5, 8]
    assert written("m.npy", outcore.map(numbers, "x * y", "m.npy", zip=numbers)) == [x * x for x in NUMBERS]
    both = [number for x in NUMBERS for number in (x, x + 1)]
    assert written("b.npy", outcore.flat_map(numbers, ["x", "x + 1"], "b.npy")) == both
    assert written("r.npy", outcore.reverse(numbers, "r.npy")) == NUMBERS[::-1]
    sums = numpy.cumsum(NUMBERS).tolist()
    assert written("s.npy", outcore.scan(numbers, "sum", "s.npy")) == sums
    twice = outcore.scan(numbers, "max", "t.npy", map="2 * x", force=True)
    assert written("t.npy", twice) == [2 * x for x in numpy.maximum.accumulate(NUMBERS)]
    numpy.save("at.npy", numpy.array([4, 0]))
    assert written("a.npy", outcore.gather(numbers, "a.npy", "at.npy")) == [3, 5]
    assert outcore.windows(numbers, "w.npy", 2).records == 5
    assert numpy.load("w.npy").tolist() == [list(pair) for pair in zip(NUMBERS, NUMBERS[1:])]
    assert outcore.zip(numbers, "z.npy", zip=["r.npy"]).records == 6
    assert outcore.enumerate(numbers, "e.npy").records == 6
    assert numpy.load("e.npy")["position"].tolist() == list(range(6))
    numpy.save("p.npy", numpy.array([2, 4], "<u8"))
    numpy.save("q.npy", numpy.array([1, 9], "<u8"))
    assert written("o.npy", outcore.merge(["p.npy", "q.npy"], "o.npy")) == [1, 2, 4, 9]


def test_functions_report_what_they_find_in_records(numbers: str) -> None:
    reduced = outcore.reduce(numbers, "sum,max", where="x > 4").results
    assert [(one.how, one.value) for one in reduced] == [("sum", 29), ("max", 9)]
    assert outcore.top(numbers, count=2).results == (9, 8)
    assert outcore.top(numbers, count=2, smallest=True, map="x % 5").results == (0, 1)
    found = outcore.histogram(numbers, bins=2, range=(0, 10))
    assert (found.range, found.counts) == ((0, 10), (2, 4))
    assert outcore.find(numbers, outcore.x == 7).position == 3
    missing = outcore.find(numbers, "x == 4")
    assert missing.position is None and missing.is_found is False
    assert outcore.partition(numbers, "x > 4", "part-{part}.npy").counts == (2, 4)
    assert numpy.load("part-0.npy").tolist() == [1, 3]
    numpy.save("sorted.npy", numpy.sort(numpy.array(NUMBERS, "<u8")))
    ranks = outcore.lookup_file("sorted.npy", "ranks.npy", numbers, side="right")
    assert ranks.keys == 6 and numpy.load("ranks.npy").tolist() == [3, 1, 6, 4, 2, 5]


def test_values_are_counted_in_a_report_or_a_file(numbers: str) -> None:
    counted = outcore.count_by(numbers, by="x % 3")
    assert isinstance(counted, outcore.UniqueSummary) and counted.groups is not None
    assert [(one.value, one.count) for one in counted.groups] == [(0, 2), (1, 2), (2, 2)]
    done = outcore.count_by(numbers, "c.npy", "x % 2")
    assert isinstance(done, outcore.UniqueSummary) and done.groups is None
    assert numpy.load("c.npy").tolist() == [(0, 1), (1, 5)]


def test_only_tables_need_no_output(numbers: str) -> None:
    for job in (outcore.filter, outcore.map):
        with pytest.raises(outcore.UsageError, match="no output is given"):
            job(numbers, "x > 4")
    for name in ("merge", "unique"):
        with pytest.raises(outcore.UsageError, match="no output is given"):
            getattr(outcore, name)(numbers)
    with pytest.raises(outcore.UsageError, match="neither the name of a file"):
        outcore.top(numpy.arange(3), count=2)  # type: ignore[arg-type]
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pyarrow.table({"a,b": [3, 1, 2], "c": ["x", "y", "x"]})
    few = outcore.filter(table, "`a,b` < 3")
    assert pyarrow.table(few)["c"].to_pylist() == ["y", "x"]
    assert pyarrow.table(outcore.map(few, "d = `a,b` * 2"))["d"].to_pylist() == [2, 4]
    counts = pyarrow.table(outcore.count_by(table, by=["c", "a,b"]))
    assert counts.column_names == ["c", "a,b", "count"] and len(counts) == 3
    Path("semi.txt").write_text("a;b\n2;x\n1;y\n")
    rows = outcore.filter("semi.txt", "a > 1", csv=True, separator=";")
    assert pyarrow.table(rows).to_pylist() == [{"a": 2, "b": "x"}]
    checked = outcore.verify(table, by="c")
    assert checked.ordered is False


def test_lines_are_split_as_the_command_splits_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = b"".join(b"line %d\n" % number for number in range(1000))
    Path("l.txt").write_bytes(text)
    cuts: list[dict[str, Any]] = [
        {"parts": 3},
        {"by_lines": 300},
        {"bytes": 1000},
        {"line_bytes": "2KiB"},
    ]
    for cut in cuts:
        done = outcore.split("l.txt", "p-{part}", force=True, **cut)
        parts = [Path(part).read_bytes() for part in done.parts]
        assert b"".join(parts) == text and done.files == len(parts) > 2
        for part in done.parts:
            Path(part).unlink()
    done = outcore.split("l.txt", "p-{part}", parts=2, filter="wc -l > $FILE")
    assert done.files == 0
    assert sum(int(Path(part).read_text()) for part in done.parts) == 1000
    with pytest.raises(OSError, match="exit status: 7"):
        outcore.split("l.txt", "q-{part}", parts=2, filter="cat > /dev/null; exit 7")


def test_comm_compares_arrays_as_multisets(numbers: str) -> None:
    numpy.save("o.npy", numpy.array([7, 7, 2, 1], "<u8"))
    done = outcore.comm(numbers, "o.npy", "both.npy", not_left=True, not_right=True)
    assert numpy.load("both.npy").tolist() == [1, 7]
    assert (done.first, done.second, done.both) == (4, 2, 2)
    with pytest.raises(ValueError, match="one of the three columns"):
        outcore.comm(numbers, "o.npy", "none.npy")


def test_types_and_kinds_that_contradict_the_input_are_rejected(numbers: str) -> None:
    for take in (outcore.head, outcore.tail, outcore.sample):
        with pytest.raises(ValueError, match="its header says u64, not u32"):
            take(numbers, "h.bin", count=2, dtype="u32")
    Path("t.csv").write_text("id\n1\n")
    with pytest.raises(ValueError, match="csv.*cannot be used with|cannot be used with.*csv"):
        outcore.head("t.csv", "h.csv", lines=True, csv=True)
    Path("l.txt").write_text("id\n1\n")
    with pytest.raises(ValueError, match="inputs of one kind"):
        outcore.comm("l.txt", "t.csv", "c.txt")


#: Arguments that functions of verbs need, next to files and an output.
NEEDED: dict[str, dict[str, Any]] = {
    "lookup_file": {"keys": "wanted.txt"},
    "sample": {"count": 2},
    "split": {"dst": "part-{part}.txt", "parts": 2},
}
WITH_LINES = sorted(
    name
    for module in (_verbs, _part_verbs, _row_verbs, _table_verbs, _record_verbs)
    for name in module.__all__
    if "lines" in inspect.signature(getattr(module, name)).parameters
)


@pytest.mark.parametrize("name", WITH_LINES)
def test_every_verb_of_lines_takes_the_values_of_lines_that_it_names(name: str, here: Path) -> None:
    Path("a.bin").write_bytes(b"apple\nbanana\npear\n")
    Path("b.bin").write_bytes(b"banana\npear\n")
    Path("wanted.txt").write_bytes(b"pear\nbanana\n")
    function = getattr(outcore, name)
    parameters = inspect.signature(function).parameters
    sources = {"left": "a.bin", "right": "b.bin"} if "left" in parameters else {"src": "a.bin"}
    given: dict[str, Any] = dict(sources)
    if "dst" in parameters:
        given |= {"dst": "out.npy" if name == "lookup_file" else "out.txt", "force": True}
    given |= NEEDED.get(name, {})
    values: list[Any] = [True]
    if "LinesHow" in str(parameters["lines"].annotation):
        values.append("any")
    for lines in values:
        assert isinstance(function(lines=lines, **given), JobReport)
    if name == "lookup_file":
        assert numpy.load("out.npy").tolist() == [2, 1]
