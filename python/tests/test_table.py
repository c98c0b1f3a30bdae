"""Tables: files and tables of other libraries in, sorted, deduplicated and filtered, and out again.

The results are compared with pyarrow, Polars and pandas; tests of a missing library are skipped.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import outcore
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


def rows(count: int, seed: int = 1) -> Any:
    draw = random.Random(seed)
    names = ["de", "fr", "us", None, "", "Straße"]
    return pa.table(
        {
            "name": pa.array([draw.choice(names) for _ in range(count)]),
            "score": pa.array([draw.choice([None, *range(50)]) for _ in range(count)], pa.int64()),
            "tags": pa.array([[draw.randrange(9)] * draw.randrange(3) for _ in range(count)]),
            "x": pa.array(range(count)),
        }
    )


def write(path: Path, table: Any) -> str:
    pq.write_table(table, path, row_group_size=1000)
    return str(path)


def test_a_drive_that_is_missing_is_named_with_a_next_step(here: Path) -> None:
    Path("rows.csv").write_text("a\n1\n")
    with pytest.raises(outcore.NotFoundError, match="nosuch.*drives=") as missing:
        outcore.sort("rows.csv", by="a", drives=["nosuch"])
    assert missing.value.path == "nosuch"


def test_files_are_sorted_by_columns_and_read_back_by_pyarrow(here: Path) -> None:
    table = rows(5000)
    write(here / "t.parquet", table)
    by = ["name", "score:desc", "x"]
    done = outcore.table("t.parquet", memory="64MiB").sort(by).write("s.parquet")
    assert isinstance(done, outcore.WriteSummary)
    assert done.records == 5000
    keys = [("name", "ascending", "at_end"), ("score", "descending", "at_end"), ("x", "ascending", "at_end")]
    expected = table.sort_by([key[:2] for key in keys])
    assert pq.read_table("s.parquet").equals(expected)
    whole = outcore.sort("t.parquet", "s2.parquet", by=by)
    assert whole.records_in == 5000
    assert pq.read_table("s2.parquet").equals(expected)


def test_steps_follow_one_another_and_leave_nothing(here: Path) -> None:
    table = rows(4000, 2)
    write(here / "a.parquet", table.slice(0, 1500))
    write(here / "b.parquet", table.slice(1500))
    made = outcore.table("*.parquet", drives=here)
    made = made.filter("score > 10", "name in ('de', 'us')").map(double="score * 2").sort("double:desc")
    expected = [
        row for row in table.to_pylist() if (row["score"] or 0) > 10 and row["name"] in ("de", "us")
    ]
    found = pa.table(made).to_pylist()
    assert sorted(row["x"] for row in found) == sorted(row["x"] for row in expected)
    doubles = [row["double"] for row in found]
    assert doubles == sorted((row["score"] * 2 for row in expected), reverse=True)
    assert sum(batch.num_rows for batch in made.batches()) == len(expected)
    assert made.summary is not None and made.summary.records == len(expected)
    # A stream that is still referenced continues after the table is gone.
    stream = pa.RecordBatchReader.from_stream(made.select("x"))
    del made
    assert sorted(stream.read_all()["x"].to_pylist()) == sorted(row["x"] for row in expected)
    del stream
    # The resources of a stream are released by the next call at the latest.
    outcore.table("a.parquet").head(1)
    assert sorted(path.name for path in here.iterdir()) == ["a.parquet", "b.parquet"]


def test_duplicates_go_and_what_is_removed_is_written(here: Path) -> None:
    table = rows(3000, 3)
    write(here / "t.parquet", table)
    done = outcore.dedup("t.parquet", "d.parquet", "name", keep="last", removed="r.parquet")
    kept: dict[object, int] = {}
    for row in table.to_pylist():
        kept[row["name"]] = row["x"]
    assert pq.read_table("d.parquet")["x"].to_pylist() == sorted(kept.values())
    assert done.removed == 3000 - len(kept) == pq.read_table("r.parquet").num_rows
    names = pa.table(outcore.table("t.parquet").unique("name"))["name"].to_pylist()
    assert names == ["", "Straße", "de", "fr", "us", None]


def test_passages_that_occur_before_are_cut(here: Path) -> None:
    passage = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
    texts = [f"One. {passage}", None, f"{passage} Two.", "Three."]
    write(here / "t.parquet", pa.table({"text": texts}))
    cut = outcore.table("t.parquet").dedup_substring("text", removed="r.parquet")
    assert pa.table(cut)["text"].to_pylist() == [texts[0], None, " Two.", "Three."]
    expected = {"row": 2, "start": 0, "length": len(passage), "first_row": 0, "text": passage}
    assert pq.read_table("r.parquet").to_pylist() == [expected]
    assert isinstance(cut.summary, outcore.DedupSummary) and cut.summary.cuts == 1
    with pytest.raises(outcore.UsageError, match="7 bytes"):
        outcore.table("t.parquet").dedup_substring("text", 7)


def test_tables_in_memory_come_in_and_go_out_as_streams(here: Path) -> None:
    table = rows(2500, 4)
    expected = table.sort_by([("x", "descending")])
    sources = {
        "table": table,
        "reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(100)),
        "sliced": pa.table(outcore.table(table).head(2500)),
    }
    for name, source in sources.items():
        found = outcore.table(source, drives=here).sort("x:desc")
        assert pa.table(found).equals(expected), name
    dataset = pytest.importorskip("pyarrow.dataset")
    write(here / "t.parquet", table)
    found = outcore.table(dataset.dataset("t.parquet")).sort("x:desc")
    assert pa.table(found).equals(expected)
    sorted_table = outcore.sort(table, by="x:desc")
    assert isinstance(sorted_table, outcore.Table)
    assert pa.table(sorted_table).equals(expected)


def test_frames_of_polars_come_in_and_go_out(here: Path) -> None:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    frame = polars.from_arrow(rows(2000, 5).drop(["tags"]))
    found = polars.DataFrame(outcore.table(frame).sort(["name", "x"]))
    assert found.equals(frame.sort("name", "x", nulls_last=True))


def test_shuffles_and_samples_depend_on_the_seed_alone(here: Path) -> None:
    write(here / "t.parquet", rows(3000, 6))
    orders = [
        pa.table(outcore.table("t.parquet", threads=threads).shuffle(seed))["x"].to_pylist()
        for seed, threads in [(1, 1), (1, 3), (2, 1)]
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(3000))
    drawn = pa.table(outcore.table("t.parquet").sample(100, seed=7))["x"].to_pylist()
    assert len(drawn) == 100 and drawn == sorted(set(drawn))


def test_what_is_wrong_is_named_and_leaves_nothing(here: Path) -> None:
    write(here / "t.parquet", rows(100, 7))
    table = outcore.table("t.parquet")
    with pytest.raises(outcore.UsageError, match="`nmae`"):
        table.sort("nmae")
    with pytest.raises(outcore.UsageError, match="no column `nmae`"):
        table.filter("nmae == 'a'")
    with pytest.raises(outcore.UsageError, match="it is an input"):
        outcore.convert("t.parquet", "t.parquet", force=True)
    with pytest.raises(outcore.UsageError, match="exists"):
        (here / "o.parquet").write_bytes(b"")
        outcore.convert("t.parquet", "o.parquet")
    with pytest.raises(outcore.UsageError, match="does not give the format"):
        table.write("o.txt")
    with pytest.raises(outcore.UsageError, match="no file matches"):
        outcore.table("*.nothing")
    with pytest.raises(outcore.UsageError, match="not the scheme of a store"):
        outcore.table("hdfs://bucket/t.parquet").sort("x")

    class LazyFrame:
        def collect(self) -> Any: ...

    with pytest.raises(outcore.UsageError, match="LazyFrame") as raised:
        outcore.table(LazyFrame())  # type: ignore[arg-type]
    assert "collect()" in str(raised.value.hint)

    def broken() -> Any:
        yield rows(10).to_batches()[0]
        raise RuntimeError("the source broke")

    reader = pa.RecordBatchReader.from_batches(rows(10).schema, broken())
    with pytest.raises(outcore.UsageError, match="the source broke"):
        outcore.table(reader, drives=here)
    (here / "cut.parquet").write_bytes((here / "t.parquet").read_bytes()[:-20])
    with pytest.raises(outcore.CorruptError, match="cut.parquet"):
        outcore.table("cut.parquet").sort("x")
    names = sorted(path.name for path in here.iterdir())
    assert names == ["cut.parquet", "o.parquet", "t.parquet"]


def test_groups_are_those_of_pyarrow(here: Path) -> None:
    table = rows(6000, 5)
    grouped = outcore.table(table, drives=here).group_by("name", "count", "max(score)", total="sum(score)")
    made = pa.table(grouped).to_pydict()
    expected = table.group_by("name").aggregate([([], "count_all"), ("score", "max"), ("score", "sum")])
    expected = expected.sort_by([("name", "ascending")])
    assert made["name"] == expected["name"].to_pylist()
    assert made["count"] == expected["count_all"].to_pylist()
    assert made["max(score)"] == expected["score_max"].to_pylist()
    assert made["total"] == expected["score_sum"].to_pylist()
    counted = pa.table(outcore.table(table, drives=here).group_by(["name"])).to_pydict()
    assert counted == {"name": made["name"], "count": made["count"]}


def test_windows_are_those_of_plain_loops(here: Path) -> None:
    table = rows(5000, 6)
    made = outcore.table(table, drives=here).window(
        "name", "row_number", order="score:desc", before="lag(score,2)", total="cum_sum(score)"
    )
    groups: dict[str | None, list[Any]] = {}
    for row in table.to_pylist():
        groups.setdefault(row["name"], []).append(row)
    expected = []
    for name in sorted(groups, key=lambda name: (name is None, name)):
        ranked = sorted(groups[name], key=lambda row: (row["score"] is None, -(row["score"] or 0)))
        total = None
        for number, row in enumerate(ranked):
            if row["score"] is not None:
                total = (total or 0) + row["score"]
            before = ranked[number - 2]["score"] if number >= 2 else None
            expected.append({**row, "row_number": number + 1, "before": before, "total": total})
    assert pa.table(made).to_pylist() == expected
    best = outcore.table(table, drives=here).window("name", order="score:desc", first=1)
    assert pa.table(best).to_pylist() == [
        {name: row[name] for name in table.column_names} for row in expected if row["row_number"] == 1
    ]
    with pytest.raises(outcore.UsageError, match="ntile"):
        outcore.table(table, drives=here).window("name", "ntile(4)")


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins_are_those_of_pyarrow(here: Path, how: str, ordered: bool) -> None:
    left = rows(900, 7)
    right = pa.table({"key": [3, 3, 5, 70, None, 8, 9], "y": list("abcdefg"), "x": [0] * 7})
    write(here / "right.parquet", right)
    joined = outcore.table(left, drives=here).join("right.parquet", "score=key", how=how, ordered=ordered)
    kind = f"left {how}" if how in ("semi", "anti") else f"{how} outer" if how not in ("inner",) else how
    # pyarrow cannot join tables with lists.
    plain = left.drop_columns(["tags"])
    expected = plain.join(right, "score", "key", join_type=kind, right_suffix="_right")
    made = pa.table(joined).drop_columns(["tags"])
    # For a right join, pyarrow keeps the right table's name of the key.
    names = ["score" if name == "key" else name for name in expected.column_names]
    expected = expected.rename_columns(names).select(made.column_names)

    def in_order(table: Any) -> list[str]:
        return sorted(repr(row) for row in table.to_pylist())

    assert in_order(made) == in_order(expected)
    scores = [score for score in made["score"].to_pylist() if score is not None]
    assert not ordered or scores == sorted(scores)


def test_an_as_of_join_is_that_of_pandas(here: Path) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    draw = random.Random(3)
    left = pa.table({"t": sorted(draw.randrange(1000) for _ in range(300)), "k": [draw.choice("ab") for _ in range(300)]})
    right = pa.table({"t": sorted(draw.randrange(1000) for _ in range(90)), "k": [draw.choice("ab") for _ in range(90)], "v": list(range(90))})
    made = outcore.table(left, drives=here).join(right, "k", asof="t", tolerance=25)
    expected = pd.merge_asof(left.to_pandas(), right.to_pandas(), on="t", by="k", tolerance=25)
    found = pa.table(made).to_pydict()
    wanted = sorted((k, t, None if v != v else int(v)) for k, t, v in zip(expected.k, expected.t, expected.v))
    assert sorted(zip(found["k"], found["t"], found["v"]), key=repr) == sorted(wanted, key=repr)


def test_what_is_wrong_with_a_join_is_said(here: Path) -> None:
    left = outcore.table(rows(10), drives=here)
    with pytest.raises(outcore.UsageError, match="`scoer`"):
        left.join(rows(10), "scoer")
    with pytest.raises(outcore.UsageError, match="cannot be compared"):
        left.join(rows(10), "name=x")
    with pytest.raises(outcore.UsageError, match="outer"):
        left.join(rows(10), "x", how="outer")


def test_near_duplicates_are_removed_and_name_the_row_that_is_kept(here: Path) -> None:
    draw = random.Random(4)
    families = [" ".join(f"w{draw.randrange(10**6)}" for _ in range(150)) for _ in range(30)]
    texts = [f"{family} end{row}" for row in range(3) for family in families]
    table = outcore.table(pa.table({"text": texts}), drives=here)
    made = table.dedup_near("text", 0.8, removed=here / "r.arrow")
    assert pa.table(made)["text"].to_pylist() == texts[:30]
    assert isinstance(made.summary, outcore.DedupSummary) and made.summary.removed == 60
    removed = pa.table(outcore.table("r.arrow"))
    assert removed["duplicate_of"].to_pylist() == [*range(30), *range(30)]
    last = table.dedup_near("text", shingles="chars:12", keep="last")
    assert pa.table(last)["text"].to_pylist() == texts[60:]
    with pytest.raises(outcore.UsageError, match="similarity"):
        table.dedup_near("text", 80)
    with pytest.raises(outcore.UsageError, match="first or the last"):
        table.dedup_near("text", keep="text:desc")


def test_csv_and_json_lines_are_tables(here: Path) -> None:
    rows = [f'{row},"a ""{row}"",\nb",{row / 4},2024-01-{row % 28 + 1:02}' for row in range(300)]
    (here / "t.csv").write_text("id,text,x,day\n" + "\n".join(rows) + "\n")
    table = outcore.table("t.csv", schema={"x": "decimal(8,2)"}, memory="64MiB")
    told = pa.table(table)
    assert [str(kind) for kind in told.schema.types] == ["int64", "string", "decimal128(8, 2)", "date32[day]"]
    assert told.column("text").to_pylist()[7] == 'a "7",\nb'
    table.sort("id:desc").write("s.jsonl.gz")
    back = pa.table(outcore.table("s.jsonl.gz", schema="x:decimal(8,2),day:date"))
    assert back.equals(told.sort_by([("id", "descending")]))
    from pyarrow import csv, json

    outcore.convert("s.jsonl.gz", "u.csv")
    parsed = csv.read_csv("u.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
    assert parsed.column("id").to_pylist() == list(range(299, -1, -1))
    outcore.convert("t.csv", "v.jsonl")
    assert json.read_json("v.jsonl").column("text").equals(told.column("text"))
    with pytest.raises(outcore.CorruptError, match="line 2: column `x`") as caught:
        (here / "bad.csv").write_text("x\ny\n")
        outcore.convert("bad.csv", "w.parquet", schema="x:i64")
    assert "x:text" in str(caught.value)


def test_sorted_files_are_merged_and_values_counted(here: Path) -> None:
    table = rows(3000, 5)
    for part in range(3):
        write(here / f"{part}.parquet", table.slice(part * 1000, 1000).sort_by("x"))
    merged = pa.table(outcore.table(["2.parquet", "0.parquet", "1.parquet"]).merge("x"))
    assert merged.equals(table.sort_by("x"))
    with pytest.raises(outcore.CorruptError, match="row"):
        outcore.table("*.parquet").merge("x:desc")
    counts = pa.table(outcore.table("*.parquet").count_by("name", by_count=True)).to_pylist()
    expected = {name: table.column("name").to_pylist().count(name) for name in (row["name"] for row in counts)}
    assert {row["name"]: row["count"] for row in counts} == expected
    assert [row["count"] for row in counts] == sorted(expected.values(), reverse=True)


def test_what_differs_between_two_tables_is_a_table(here: Path) -> None:
    old = pa.table({"id": [1, 2, 3, None], "x": ["a", "b", "c", "d"], "y": [1.0, 2.0, 3.0, 4.0]})
    new = pa.table({"id": [4, 3, None, 1], "x": ["e", "C", "d", "a"], "y": [5.0, 3.5, 4.0, 1.0]})
    write(here / "old.parquet", old)
    changes = outcore.table("old.parquet").diff(new, "id")
    assert pa.table(changes).to_pylist() == [
        {"diff": "left", "diff_columns": None, "id": 2, "x_left": "b", "x_right": None, "y_left": 2.0, "y_right": None},
        {"diff": "changed", "diff_columns": "x,y", "id": 3, "x_left": "c", "x_right": "C", "y_left": 3.0, "y_right": 3.5},
        {"diff": "right", "diff_columns": None, "id": 4, "x_left": None, "x_right": "e", "y_left": None, "y_right": 5.0},
    ]
    assert changes.summary is not None and changes.summary.records == 3
    assert pa.table(outcore.table(old).diff(outcore.table("old.parquet"))).num_rows == 0
    with pytest.raises(outcore.UsageError, match="column"):
        outcore.table(old).diff(new.drop_columns(["y"]), "id")


def test_odd_names_of_columns_stand_in_backquotes(here: Path) -> None:
    table = outcore.table(pa.table({"": [2, 1, 3], "a:desc": ["b", "c", "a"]}), drives=here)
    assert pa.table(table.sort("``"))[""].to_pylist() == [1, 2, 3]
    assert pa.table(table.sort("`a:desc`", descending=True))["a:desc"].to_pylist() == ["c", "b", "a"]


def test_what_a_format_has_not_is_an_error_and_categories_stay(here: Path) -> None:
    numbers = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    union = outcore.table(pa.table({"u": numbers}), drives=here)
    with pytest.raises(outcore.UsageError, match="`u`.*Union"):
        union.shuffle(seed=1).write(here / "u.parquet")
    words = pa.array(["b", "a", "b"]).dictionary_encode()
    table = outcore.table(pa.table({"k": words, "n": [1, 2, 3]}), drives=here)
    grouped = pa.table(table.group_by("k", "sum(n)"))
    assert pa.types.is_dictionary(grouped.schema.field("k").type)
    assert grouped["k"].to_pylist() == ["a", "b"]


def test_bad_rows_and_null_texts_of_csv_are_read_as_asked_for_and_told(here: Path) -> None:
    (here / "bad.csv").write_bytes(b"k,v\r1,10\r2,x\r1,NA\r3\r")
    with pytest.raises(outcore.CorruptError, match="line 3"):
        outcore.table("bad.csv", schema="v:i64", null="NA").sort(by="k")
    for on_error, rows_count in (("skip", 2), ("null", 4)):
        table = outcore.table("bad.csv", schema="v:i64", null=["NA"], on_error=on_error)
        with pytest.warns(UserWarning, match="bad row|bad value"):
            assert pa.table(table).num_rows == rows_count
        with pytest.warns(UserWarning, match="line 3"):
            done = table.sort(by="k")
        assert done.summary is not None and done.summary.records == rows_count
        inferred, left_out = done.summary.notes
        assert "; schema=" in inferred and "line 3" in left_out
    back = pa.table(outcore.table("bad.csv", schema="v:text", null="pandas", on_error="null"))
    assert back["v"].to_pylist() == ["10", "x", None, None]
    with pytest.raises(outcore.UsageError, match="on_error"):
        outcore.table("bad.csv", on_error="drop").head(1)


def test_a_table_without_rows_is_read_back_from_json_lines(here: Path) -> None:
    table = outcore.table(pa.table({"a": pa.array([], pa.int64())}))
    table.write("none.jsonl")
    assert pa.table(outcore.table("none.jsonl", schema="a:i64")).num_rows == 0


def test_tables_of_text_are_sorted_by_all_columns_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b:c\n10,2\n9,1\n10,1\n9,1\n")
    table = outcore.table(path)
    assert table.sort().to_arrow().to_pydict() == {"a": [9, 9, 10, 10], "b:c": [1, 1, 1, 2]}
    assert table.unique().to_arrow().to_pydict() == {"a": [9, 10, 10], "b:c": [1, 1, 2]}
