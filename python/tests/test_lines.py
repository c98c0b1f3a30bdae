"""Compares datasets of lines with plain Python: orders, counts, samples, iteration, odd files."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import json
import operator
from pathlib import Path

import pytest

import outcore

WORDS = [b"%x" % (i * 0x9E3779B97F4A7C15 % 5003) * (i % 5) for i in range(40_000)]


@pytest.fixture
def text(here: Path) -> outcore.Lines:
    """Lines in two files; the last line of the second file has no line end."""
    (here / "part-0.txt").write_bytes(b"".join(word + b"\n" for word in WORDS[:15_000]))
    (here / "part-1.txt").write_bytes(b"\n".join(WORDS[15_000:]))
    return outcore.open("part-*.txt", lines=True, memory="64MiB", threads=2)


def all_of(lines: outcore.Lines) -> list[bytes]:
    """The lines in iteration order."""
    return [line for batch in lines for line in batch]


def test_lines_come_as_they_are_and_are_counted(text: outcore.Lines) -> None:
    assert all_of(text) == WORDS
    assert text.count() == len(WORDS)
    assert text.sort().count() == len(WORDS)
    for batch in text:
        assert isinstance(batch[0], bytes)
        break


def test_lines_are_sorted_as_gnu_sort_does(text: outcore.Lines, here: Path) -> None:
    summary = text.sort().write("sorted.txt")
    assert summary.records == len(WORDS)
    assert (here / "sorted.txt").read_bytes() == b"".join(w + b"\n" for w in sorted(WORDS))
    assert all_of(text.sort(descending=True, unique=True)) == sorted(set(WORDS), reverse=True)
    (here / "table").write_bytes(b"a,10\nb,9\nc,10\nd,-1\n")
    table = outcore.open("table", lines=True)
    by_number = all_of(table.sort("2,2n", separator=",", stable=True))
    assert by_number == [b"d,-1", b"b,9", b"a,10", b"c,10"]
    assert all_of(table.sort("2,2nr", separator=",", unique=True)) == [b"a,10", b"b,9", b"d,-1"]
    (here / "versions").write_bytes(b"v1.10\nv1.9\n")
    assert all_of(outcore.open("versions", lines=True).sort(order="V")) == [b"v1.9", b"v1.10"]


def test_lines_ended_by_nul_are_those_of_newlines_turned_round(here: Path) -> None:
    items = [b"%d\n%d" % (i * 7919 % 101, i) for i in range(3000)]
    (here / "names").write_bytes(b"".join(item + b"\0" for item in items[:2000]))
    (here / "more.gz").write_bytes(gzip.compress(b"\0".join(items[2000:])))
    names = outcore.open(["names", "more.gz"], lines=True, zero_terminated=True, memory="64MiB")
    assert all_of(names) == items and names.count() == 3000
    assert names.head(2) == items[:2] and names.sample(5000) == items
    assert all_of(names.sort()) == sorted(items)
    assert names.sort("1,1n").write("sorted").records == 3000
    by_number = sorted(items, key=lambda item: (int(item.split()[0]), item))
    assert (here / "sorted").read_bytes() == b"".join(item + b"\0" for item in by_number)
    assert sorted(all_of(names.shuffle(3))) == sorted(items)
    twice = outcore.open(["names", "names"], lines=True, zero_terminated=True).unique(counts=True)
    assert all_of(twice) == [b"      2 " + item for item in sorted(items[:2000])]
    assert twice.count() == 2000
    assert outcore.open("names", lines="any").count() == 2001
    with pytest.raises(outcore.UsageError, match="newlines"):
        names.sort(by="1", csv=True).write("none")
    with pytest.raises(outcore.UsageError, match="zero_terminated cannot be used with"):
        outcore.open("names", dtype="u8", zero_terminated=True)  # type: ignore[call-overload]


def test_files_in_order_are_merged_and_a_line_out_of_order_is_named(here: Path) -> None:
    parts = [sorted(WORDS[start::3]) for start in range(3)]
    for number, words in enumerate(parts):
        (here / f"run-{number}").write_bytes(b"".join(word + b"\n" for word in words))
    with gzip.open(here / "run-2.gz", "wb") as packed:
        packed.write((here / "run-2").read_bytes())
    runs = outcore.open(["run-0", "run-1", "run-2.gz"], lines=True, memory="64MiB")
    merged = runs.merge()
    assert all_of(merged) == sorted(WORDS) and "merge" in merged.explain()
    assert runs.merge(unique=True).write("each").records == len(set(WORDS))
    assert (here / "each").read_bytes() == b"".join(w + b"\n" for w in sorted(set(WORDS)))
    assert merged.unique().count() == len(set(WORDS))
    with pytest.raises(outcore.UsageError, match="a merge must be the first step"):
        runs.sort().merge()

    assert outcore.open("each", lines=True).check(unique=True) is None
    assert merged.check() is None
    # Files follow one another.
    found = runs.check()
    assert found == outcore.Disorder("run-1", 1, parts[1][0])
    (here / "odd.gz").write_bytes(gzip.compress(b"a 1\nb 3\nc 2\n"))
    odd = outcore.open("odd.gz", lines=True)
    assert odd.check() is None
    assert odd.check("2,2n") == ("odd.gz", 3, b"c 2")
    descending = odd.check("2,2nr")
    assert descending is not None and descending.line_number == 2
    (here / "same").write_bytes(b"x\nx\n")
    same = outcore.open("same", lines=True)
    assert same.check() is None and same.check(unique=True) == ("same", 2, b"x")
    (here / "a.csv").write_bytes(b'id,n\n1,"x\ny"\n3,z\n2,w\n')
    table = outcore.open("a.csv", lines=True)
    by_id = table.check(by="id:n", csv=True)
    assert by_id is not None and by_id.line == b"2,w"
    assert table.check(by="id:n", csv=True, unique=True, on_error="skip") is not None
    (here / "b.csv").write_bytes(b"id,n\n2,w\n4,v\n")
    (here / "c.csv").write_bytes(b"id,n\n1,u\n3,t\n")
    both = outcore.open(["b.csv", "c.csv"], lines=True).merge(by="id:n", csv=True)
    assert all_of(both) == [b"id,n", b"1,u", b"2,w", b"3,t", b"4,v"]


def test_lines_are_split_into_parts_that_make_up_the_whole(
    text: outcore.Lines, here: Path
) -> None:
    whole = b"".join(word + b"\n" for word in WORDS)
    names = text.split("part-of-{part}.txt", parts=7)
    assert names == [f"part-of-{part:02}.txt" for part in range(7)]
    parts = [(here / name).read_bytes() for name in names]
    assert b"".join(parts) == whole and all(part.endswith(b"\n") for part in parts)
    assert max(map(len, parts)) - min(map(len, parts)) < 2 * max(map(len, WORDS)) + 2
    few = text.sort().split("sorted-{part}.gz", lines=15_000)
    found = [outcore.open(name, lines=True).count() for name in few]
    assert found == [15_000, 15_000, 10_000]
    assert all_of(outcore.open(few, lines=True)) == sorted(WORDS)
    (here / "z").write_bytes(b"a\n1\0b\0c")
    nul = outcore.open("z", lines=True, zero_terminated=True)
    assert [Path(name).read_bytes() for name in nul.split("z-{part}", lines=2)] == [
        b"a\n1\0b\0",
        b"c\0",
    ]
    with pytest.raises(outcore.UsageError, match="exists already") as raised:
        text.split("part-of-{part}.txt", parts=7)
    assert raised.value.hint is not None and "force=True" in raised.value.hint
    assert text.split("part-of-{part}.txt", parts=7, force=True) == names
    (here / "own-01").write_bytes(whole)
    own = outcore.open("own-01", lines=True)
    for wrong in (
        lambda: text.split("same.txt", parts=2),
        lambda: text.split("p-{part}"),
        lambda: text.split("p-{part}", parts=2, lines=2),
        lambda: text.split("p-{part}", parts=0),
        # The output is never an input.
        lambda: own.split("own-{part}", parts=2, force=True),
    ):
        with pytest.raises(outcore.UsageError):
            wrong()
    assert not list(here.glob("p-*")) and (here / "own-01").read_bytes() == whole


def test_json_lines_are_sorted_by_a_field(here: Path) -> None:
    rows = [{"user": {"id": i * 37 % 101}, "n": i} for i in range(500)]
    (here / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = outcore.open("in.jsonl", lines=True).sort(by=".user.id", stable=True)
    expected = sorted(rows, key=lambda row: row["user"]["id"])
    assert [json.loads(line) for line in all_of(lines)] == expected
    with pytest.raises(outcore.CorruptError, match="line 1 has no key"):
        all_of(outcore.open("in.jsonl", lines=True).sort(by=".nobody"))
    done = outcore.sort("in.jsonl", "out.jsonl", lines=True, by=".user.id", stable=True)
    assert isinstance(done, outcore.WriteSummary)
    found = (here / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in found] == expected


def test_lines_without_the_field_are_skipped_and_counted(here: Path) -> None:
    (here / "odd.jsonl").write_bytes(b'{"a":2}\n{}\n\xff\xfe\n{"a":\n\n{"a":1}')
    odd = outcore.open("odd.jsonl", lines=True)
    with pytest.raises(outcore.CorruptError, match="line 2 has no key") as raised:
        odd.sort(by=".a").write("none")
    assert raised.value.path == "odd.jsonl"
    assert raised.value.hint is not None and 'on_error="skip"' in raised.value.hint
    kept = odd.sort(by=".a", on_error="skip")
    summary = kept.write("kept")
    assert (summary.skipped, summary.records) == (3, 2) and "left out 3" in str(summary)
    assert (here / "kept").read_bytes() == b'{"a":1}\n{"a":2}\n'
    # Later steps and queries also report the lines that were left out.
    assert kept.unique().write("later").skipped == 3
    for ask in (all_of, outcore.Lines.count, lambda lines: lines.sample(9)):
        with pytest.warns(UserWarning, match="3 lines"):
            ask(kept)
    assert not (here / "none").exists()


def csv_text(rows: list[list[str]], **how: str) -> bytes:
    """The rows in the notation of Python's csv module."""
    text = io.StringIO()
    csv.writer(text, **how).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()


def test_csv_is_sorted_by_columns_as_python_sorts_its_rows(here: Path) -> None:
    names = ["id", "full, name", "price"]
    odd = ["plain", "with, comma", 'with "quotes"', "two\nlines", "", "\u00fc"]
    rows = [[str(i * 7919 % 3001), odd[i % 6], str(i * 31 % 97 - 48)] for i in range(3000)]
    (here / "a.csv").write_bytes(csv_text([names, *rows[:1000]]))
    (here / "b.csv.gz").write_bytes(gzip.compress(csv_text([names, *rows[1000:]])))
    table = outcore.open(["a.csv", "b.csv.gz"], lines=True, memory="64MiB")

    def found(path: str) -> list[list[str]]:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    by_price = table.sort(by=["price:nr", "full, name"], csv=True, stable=True)
    assert by_price.write("sorted.csv").records == 3000
    expected = sorted(rows, key=lambda row: (-int(row[2]), row[1].encode()))
    assert found("sorted.csv") == [names, *expected]
    assert b"".join(line + b"\n" for line in all_of(by_price)) == Path("sorted.csv").read_bytes()
    table.sort(by="1", csv=True, order="n", descending=True).write("by-number.csv.zst")
    outcore.open("by-number.csv.zst", lines=True).write("by-number.csv")
    assert [row[0] for row in found("by-number.csv")][1:] == [str(i) for i in range(3000, -1, -1) if
                                                            str(i) in {row[0] for row in rows}]
    assert table.sort(by="full, name", csv=True, unique=True).write("each.csv").records == 6
    (here / "c.tsv").write_bytes(csv_text([["b", "2"], ["a", "1"]], delimiter="\t"))
    bare = outcore.open("c.tsv", lines=True).sort(by="2:n", csv=True, header=False)
    assert all_of(bare) == [b"a\t1\r", b"b\t2\r"]


def test_what_is_wrong_with_csv_is_named(here: Path) -> None:
    (here / "torn.csv").write_bytes(b'id,n\n1,a\n2,"b\n3,c\n')
    (here / "short.csv").write_bytes(b"id,n\n2,b\nx\n1,a\n")
    (here / "empty.csv").touch()
    torn, short = (outcore.open(name, lines=True) for name in ("torn.csv", "short.csv"))
    with pytest.raises(outcore.CorruptError, match="line 3 has a quote") as raised:
        torn.sort(by="id", csv=True).write("none")
    assert raised.value.path == "torn.csv"
    with pytest.raises(outcore.CorruptError, match="line 3 has no key") as raised:
        short.sort(by="n", csv=True).write("none")
    assert raised.value.path == "short.csv"
    kept = short.sort(by="n", csv=True, on_error="skip")
    assert kept.write("kept.csv").skipped == 1
    assert (here / "kept.csv").read_bytes() == b"id,n\n1,a\n2,b\n"
    with pytest.warns(UserWarning, match="left out 1 line "):
        assert all_of(kept) == [b"id,n", b"1,a", b"2,b"]
    with pytest.raises(outcore.UsageError, match="no column `x`") as raised:
        short.sort(by="x", csv=True).write("none")
    assert raised.value.hint is not None and "id, n" in raised.value.hint
    for wrong in (
        lambda: short.sort(by="n", csv=True).shuffle(1),
        lambda: short.sort(by="n", csv=True).count(),
        lambda: short.sort(csv=True),
        lambda: short.sort(by="n", csv=True, on_error="drop"),  # type: ignore[arg-type]
    ):
        with pytest.raises(outcore.UsageError):
            wrong()
    # Only the name of a column could be wrong, and no column is named.
    assert all_of(outcore.open("empty.csv", lines=True).sort(by="1", csv=True, header=False)) == []
    assert "sort" in short.sort(by="n", csv=True).explain()
    assert not (here / "none").exists()


def test_lines_are_mapped_and_reduced_to_any_values(text: outcore.Lines) -> None:
    counted = text.map_reduce(collections.Counter, operator.add)
    assert counted == collections.Counter(WORDS)
    joined = text.map_reduce(lambda lines: lines, operator.add)
    assert joined == WORDS, "in order"
    assert text.map_reduce(lambda lines: sum(map(len, lines)), max) <= sum(map(len, WORDS))


def test_the_first_lines_come_alone(text: outcore.Lines) -> None:
    assert text.head() == WORDS[:10]
    assert text.head(0) == [] and text.head(25_000) == WORDS[:25_000]
    assert text.head(10**9) == WORDS
    assert text.sort().head(3) == sorted(WORDS)[:3]


def test_shuffled_lines_are_those_of_the_function(text: outcore.Lines, here: Path) -> None:
    text.shuffle(5, epoch=2).write("lazy")
    outcore.shuffle(["part-0.txt", "part-1.txt"], "direct", lines=True, seed=5, epoch=2)
    assert (here / "lazy").read_bytes() == (here / "direct").read_bytes()
    lines = all_of(text.shuffle(5))
    assert lines != WORDS and sorted(lines) == sorted(WORDS)


def test_distinct_lines_are_found_and_counted(text: outcore.Lines) -> None:
    counts = sorted(collections.Counter(WORDS).items())
    assert all_of(text.unique()) == [line for line, _ in counts]
    assert all_of(text.unique(counts=True)) == [b"%7d " % n + line for line, n in counts]
    assert all_of(text.unique().shuffle(1).sort()) == [line for line, _ in counts]


def test_a_sample_is_in_order_and_repeatable(text: outcore.Lines) -> None:
    sample = text.sample(100, seed=3)
    assert len(sample) == 100 and sample == text.sample(100, seed=3) != text.sample(100, seed=4)
    places = iter(WORDS)
    assert all(line in places for line in sample), "in the order of the input"
    assert text.sample(10**6) == WORDS
    assert text.sample(0) == []


def test_packed_files_are_read_as_they_come(here: Path) -> None:
    (here / "in.gz").write_bytes(gzip.compress(b"b\na\n"))
    packed = outcore.open("in.gz", lines=True)
    assert (all_of(packed), packed.count(), packed.sample(9)) == ([b"b", b"a"], 2, [b"b", b"a"])


def test_packed_files_go_through_every_step_and_come_out_packed(here: Path) -> None:
    words = [b"%d" % (i * 7919 % 1000) for i in range(3000)]
    text = b"".join(word + b"\n" for word in words)
    (here / "plain").write_bytes(text)
    (here / "in.gz").write_bytes(gzip.compress(text))
    outcore.open("plain", lines=True).write("in.zst")
    for name in ("in.gz", "in.zst"):
        packed = outcore.open([name, "plain"], lines=True)
        assert all_of(packed.sort()) == sorted(words * 2)
        assert all_of(packed.unique()) == sorted(set(words))
        assert sorted(all_of(packed.shuffle(3))) == sorted(words * 2)
        assert all_of(packed.shuffle(3)) == all_of(
            outcore.open(["plain", "plain"], lines=True).shuffle(3)
        )
        assert packed.write("copy").records == 2 * len(words)
        assert (here / "copy").read_bytes() == text + text
        (here / "copy").unlink()
        outcore.shuffle([name], "direct", lines=True, seed=3, force=True)
        outcore.shuffle(["plain"], "direct.gz", lines=True, seed=3, force=True)
        assert gzip.decompress((here / "direct.gz").read_bytes()) == (here / "direct").read_bytes()
    summary = packed.sort().write("out.gz")
    assert summary.records == 2 * len(words)
    assert gzip.decompress((here / "out.gz").read_bytes()).splitlines() == sorted(words * 2)
    assert all_of(outcore.open("in.zst", lines=True)) == words
    with pytest.raises(outcore.UsageError, match="exists"):
        packed.write("out.gz")


def test_a_torn_packed_file_is_named_and_nothing_appears(here: Path) -> None:
    torn = gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(9000)))[:-20]
    (here / "torn.gz").write_bytes(torn)
    packed = outcore.open("torn.gz", lines=True, drives=[str(here)])
    for write in (
        lambda: packed.write("out"),
        lambda: packed.sort().write("out.gz"),
        lambda: packed.shuffle(1).write("out.zst"),
        lambda: outcore.shuffle("torn.gz", "out", lines=True),
        lambda: all_of(packed),
    ):
        with pytest.raises(outcore.CorruptError, match="ends in the middle") as raised:
            write()
        assert raised.value.path == "torn.gz"
    assert sorted(path.name for path in here.iterdir()) == ["torn.gz"]


def test_errors_name_the_packed_file_and_not_its_copy(here: Path) -> None:
    (here / "in.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n{"b": 1}\n'))
    lines = outcore.open("in.jsonl.gz", lines=True).sort(by=".a")
    with pytest.raises(outcore.CorruptError, match="line 2 has no key") as raised:
        lines.write("out.gz")
    assert raised.value.path == "in.jsonl.gz"


def test_writing_lines_copies_them(text: outcore.Lines, here: Path) -> None:
    assert text.write("all").records == len(WORDS)
    assert (here / "all").read_bytes() == b"\n".join(WORDS)
    (here / "torn").write_bytes(b"no end")
    with pytest.raises(outcore.UsageError, match="no terminator"):
        outcore.open(["torn", "part-0.txt"], lines=True).write("none")
    assert all_of(outcore.open(["torn", "torn"], lines=True)) == [b"no end", b"no end"]
    (here / "empty").touch()
    empty = outcore.open("empty", lines=True)
    assert (all_of(empty), empty.count(), all_of(empty.sort()), empty.sample(3)) == ([], 0, [], [])


def test_what_makes_no_sense_is_refused(text: outcore.Lines) -> None:
    for wrong in (
        lambda: outcore.open("part-0.txt", lines=True, dtype="u64"),  # type: ignore[call-overload]
        lambda: text.sort("1", by=".a"),
        lambda: text.sort("1", separator="ab"),
        lambda: text.sort(order="x"),
        lambda: text.sort("nothing"),
    ):
        with pytest.raises(outcore.UsageError):
            wrong()


def test_the_plan_of_lines_is_that_of_the_command(text: outcore.Lines, here: Path) -> None:
    assert "counted in a table" in text.unique(counts=True).explain()
    assert "sort" in text.sort("2,2n").explain() and "shuffle" in text.shuffle(2).explain()
    (here / "in.gz").write_bytes(gzip.compress(b"b\na\n"))
    assert outcore.open("in.gz", lines=True).sort().explain() == "read lines -> sort"


def test_csv_is_shuffled_sampled_split_and_made_unique_by_whole_records(here: Path) -> None:
    rows = [[f"{i}", f"na\nme {i % 10}" if i % 3 else f"name, {i % 10}"] for i in range(300)]
    names = ["id", "the\nname"]
    (here / "a.csv").write_bytes(csv_text([names, *rows[:100]]))
    (here / "b.csv.gz").write_bytes(gzip.compress(csv_text([names, *rows[100:]])))
    table = outcore.open(["a.csv", "b.csv.gz"], lines=True, memory="64MiB")

    def parsed(text: bytes) -> list[list[str]]:
        return list(csv.reader(io.StringIO(text.decode(), newline="")))

    def found(path: str) -> list[list[str]]:
        return parsed((here / path).read_bytes())

    table.shuffle(7, csv=True).write("shuffled.csv")
    assert found("shuffled.csv")[0] == names and found("shuffled.csv")[1:] != rows
    assert sorted(found("shuffled.csv")[1:]) == sorted(rows)
    lines = b"".join(line + b"\n" for line in all_of(table.shuffle(7, csv=True)))
    assert lines == (here / "shuffled.csv").read_bytes()
    (here / "b.csv").write_bytes(csv_text([names, *rows[100:]]))
    done = outcore.shuffle(["a.csv", "b.csv"], "again.csv", csv=True, seed=7)
    assert done.records == 300
    assert (here / "again.csv").read_bytes() == lines
    head = table.head(5, csv=True)
    assert [parsed(record)[0] for record in head] == [names, *rows[:5]]
    sample = [parsed(record)[0] for record in table.sample(20, csv=True)]
    assert sample[0] == names and len(sample) == 21
    assert sample[1:] == sorted(sample[1:], key=lambda row: int(row[0]))
    for part, name in enumerate(table.split("p-{part}.csv", lines=120, csv=True)):
        assert found(name) == [names, *rows[part * 120 : (part + 1) * 120]]
    table.unique(by="the\nname", csv=True).write("by.csv")
    firsts = {row[1]: row for row in reversed(rows)}
    assert found("by.csv") == [names, *(firsts[name] for name in sorted(firsts))]
    twice = outcore.open(["a.csv", "a.csv"], lines=True).unique(csv=True, counts=True)
    assert twice.write("counted.csv").records == 100
    counted = found("counted.csv")
    assert counted[0] == ["count", *names] and {row[0] for row in counted[1:]} == {"2"}
    with pytest.raises(outcore.UsageError, match="an earlier step"):
        table.shuffle().sample(3, csv=True)
    with pytest.raises(outcore.UsageError, match="csv"):
        table.head(3, separator=";")
    with pytest.raises(outcore.UsageError, match="last one"):
        table.shuffle(csv=True).count()
    (here / "c.csv").write_bytes(b"other,names\n1,2\n")
    with pytest.raises(outcore.UsageError, match=r"differs from the header of a\.csv"):
        outcore.open(["a.csv", "c.csv"], lines=True).sample(1, csv=True)
    (here / "in.jsonl").write_bytes(b'{"a":1,"b":2}\n{"a":1}\n{"b":1}\n')
    records = outcore.open("in.jsonl", lines=True)
    with pytest.warns(UserWarning, match="left out 1 line "):
        assert all_of(records.unique(by=".a", on_error="skip")) == [b'{"a":1,"b":2}']


def test_a_byte_order_mark_and_blank_lines_are_no_rows_of_json_lines(tmp_path):
    messy = b'\xef\xbb\xbf{"id":3}\n{"id":1}\n\n{"id":2}\n \t\n'
    rows = [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    names = [tmp_path / "in.jsonl", tmp_path / "in.jsonl.gz"]
    names[0].write_bytes(messy)
    names[1].write_bytes(gzip.compress(messy))
    for name in names:
        out = tmp_path / "out.jsonl"
        outcore.shuffle(name, out, force=True)
        assert sorted(out.read_bytes().splitlines()) == rows
        outcore.sort(name, out, by=".id", force=True)
        assert out.read_bytes().splitlines() == rows
        for steps in (
            outcore.open(name, lines=True).sort(by=".id"),
            outcore.open(name, lines=True).shuffle().sort(by=".id"),
            outcore.open(name, lines=True).unique(by=".id"),
        ):
            assert [line for lines in steps for line in lines] == rows
        assert outcore.open(name, lines=True).check(by=".id").line == rows[0]
        view = outcore.sort_view(name, tmp_path / "view", by=".id", force=True)
        assert list(view) == rows
    # Lines that are not read as JSON keep all their bytes.
    plain = outcore.open(names[0], lines=True)
    assert plain.head(99) == messy.splitlines()
