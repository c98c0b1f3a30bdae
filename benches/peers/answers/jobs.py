"""The jobs, each with DuckDB's answer for the same rows.

Contract: a job takes a `Case`, draws its options, runs the command and raises `Difference` if the output is not the
expected one. `JOBS` contains all of them by name.

Keys are those of `values.key`: 0.0 equals -0.0, and all NaNs are equal and come after all numbers, in outcore as in
DuckDB. Sums of integers beyond 64 bits are an error, where DuckDB gives 128 bits.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import generate, values
from .case import Case, Difference, same_columns, same_values


def _keys(case: Case, most: int, *, nested: bool = False) -> list[str]:
    names = [column.name for column in case.columns] if nested else case.plain
    return case.rng.sample(names, min(len(names), case.rng.randint(1, most)))


def _order(case: Case, keys: list[str]) -> tuple[list[str], list[str]]:
    """An order of columns, in the notation of outcore and in that of DuckDB."""
    told, sql = [], []
    for key in keys:
        way, nulls = case.rng.choice(["", ":desc"]), case.rng.choice(["", "", ":nulls-first"])
        told.append(f"{key}{way}{nulls}")
        sql.append(f"k{case.place(key)} {'desc' if way else 'asc'} nulls {'first' if nulls else 'last'}")
    return told, sql


def _by(flag: str, told: list[str]) -> list[str]:
    # As one word, because names may begin with a dash.
    return [f"--{flag}={text}" for text in told]


def sort(case: Case) -> None:
    told, sql = _order(case, _keys(case, 3))
    out, is_stable = case.output(), case.rng.random() < 0.6
    case.run("sort", *case.source.names, "-o", out, *_by("by", told), *(["--stable"] if is_stable else []))
    found = case.made(out)
    ids = case.ids(f"select pos from t order by {', '.join(sql)}, pos")
    if not is_stable:
        ranks = dict(case.query(f"select pos, rank() over (order by {', '.join(sql)}) from t"))
        got = found["id"].to_pylist()
        if sorted(got) != sorted(ids):
            raise Difference("other rows")
        same_values("ranks", [ranks[row] for row in got], [ranks[row] for row in ids])
        ids = got
    case.same_rows(found, ids)
    if len(case.source.names) == 1 or all(name.is_file() for name in case.source.names):
        against = [f"--against={name}" for name in case.source.names]
        code, told_of = case.command("verify", out, *_by("by", told), *against[:1] if len(against) == 1 else [])
        if code != 0:
            raise Difference(f"verify: {code} {told_of[-300:]}")


def unique(case: Case) -> None:
    told, sql = _order(case, _keys(case, 3))
    names = [part.split()[0] for part in sql]
    out = case.output()
    case.run("unique", *case.source.names, "-o", out, *_by("by", told))
    kept = f"select * from t qualify row_number() over (partition by {', '.join(names)} order by pos) = 1"
    case.same_rows(case.made(out), case.ids(f"select pos from ({kept}) order by {', '.join(sql)}"))


def dedup(case: Case) -> None:
    keys = _keys(case, 3, nested=True)
    names = [f"k{case.place(key)}" for key in keys]
    keep = case.rng.choice(["first", "last", "best"])
    order = "pos desc" if keep == "last" else "pos"
    if keep == "best" and case.plain:
        told, sql = _order(case, [case.rng.choice(case.plain)])
        keep, order = told[0], f"{sql[0]}, pos"
    out, removed = case.output(), case.output()
    case.run("dedup", *case.source.names, "-o", out, *_by("by", keys), f"--keep={keep}", "--removed", removed)
    kept = f"select pos from t qualify row_number() over (partition by {', '.join(names)} order by {order}) = 1"
    ids = sorted(case.ids(kept))
    case.same_rows(case.made(out), ids)
    case.same_rows(case.made(removed), sorted(set(range(case.rows_count)) - set(ids)))


def head(case: Case) -> None:
    count = case.rng.choice([0, 1, 3, case.rows_count // 2, case.rows_count + 5])
    out = case.output()
    case.run("head", "-n", count, *case.source.names, "-o", out)
    case.same_rows(case.made(out), range(min(count, case.rows_count)))


def head_by(case: Case) -> None:
    told, sql = _order(case, _keys(case, 2))
    count = case.rng.choice([1, 3, case.rows_count // 2, case.rows_count + 5])
    out = case.output()
    case.run("head", "-n", count, *case.source.names, "-o", out, *_by("by", told))
    case.same_rows(case.made(out), case.ids(f"select pos from t order by {', '.join(sql)}, pos limit {count}"))


def shuffle(case: Case) -> None:
    seed, outs = case.rng.randrange(1000), [case.output(), case.output()]
    orders = []
    for out in outs:
        case.run("shuffle", *case.source.names, "-o", out, "--seed", seed)
        found = case.made(out)
        orders.append(found["id"].to_pylist())
        case.same_rows(found, orders[-1])
    if sorted(orders[0]) != list(range(case.rows_count)) or orders[0] != orders[1]:
        raise Difference("not one order of all rows")


def sample(case: Case) -> None:
    count = case.rng.choice([1, case.rows_count // 3, case.rows_count + 1])
    out = case.output()
    case.run("sample", "-n", count, *case.source.names, "-o", out, "--seed", 5)
    found = case.made(out)
    ids = found["id"].to_pylist()
    if ids != sorted(set(ids)) or len(ids) != min(count, case.rows_count):
        raise Difference(f"{len(ids)} rows, in another order, or twice")
    case.same_rows(found, ids)


def convert(case: Case) -> None:
    out = case.output()
    case.run("convert", *case.source.names, "-o", out)
    case.same_rows(case.made(out), range(case.rows_count))


def _condition(case: Case) -> tuple[str, str] | None:
    """A condition in the notation of outcore and in that of DuckDB."""
    rng, name = case.rng, case.rng.choice(case.plain)
    of, place = case.rows.schema.field(name).type, case.place(name)
    quoted, held = f"`{name}`", f"k{place}"
    of = of.value_type if pa.types.is_dictionary(of) else of
    if rng.random() < 0.25:
        return rng.choice([(f"{quoted} is null", f"{held} is null"), (f"{quoted} is not null", f"{held} is not null")])
    compared = rng.choice(["<", "<=", ">", ">=", "==", "!="])
    sql = {"==": "=", "!=": "<>"}.get(compared, compared)
    if pa.types.is_integer(of):
        low = 0 if pa.types.is_unsigned_integer(of) else -20
        number = rng.randint(low, 20)
        if rng.random() < 0.3:
            return f"{quoted} in ({number}, {number + 1})", f"{held} in ({number}, {number + 1})"
        if rng.random() < 0.3 and of.bit_width < 64:
            return f"{quoted} * 2 + 1 {compared} {number}", f"{held}::bigint * 2 + 1 {sql} {number}"
        return f"{quoted} {compared} {number}", f"{held} {sql} {number}"
    if pa.types.is_floating(of):
        number = rng.choice(["0.0", "1.5", "-3.0", "7.0"])
        return f"{quoted} {compared} {number}", f"{held} {sql} {number}::double"
    if pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of):
        text = rng.choice(["", "a", "b", "Straße", "abc", "z" * 40])
        if rng.random() < 0.3:
            return f"starts_with({quoted}, 'a')", f"starts_with({held}, 'a')"
        return f"{quoted} {compared} '{text}'", f"{held} {sql} '{text}'"
    if pa.types.is_date32(of):
        return f"{quoted} {compared} '2000-02-29'", f"{held} {sql} date '2000-02-29'"
    if pa.types.is_boolean(of):
        return (quoted, held) if rng.random() < 0.5 else (f"not {quoted}", f"not {held}")
    return None


def filtered(case: Case) -> None:
    parts = [part for part in (_condition(case) for _ in range(case.rng.randint(1, 3))) if part]
    if not parts:
        return
    joined = case.rng.choice([" and ", " or "])
    told, sql = joined.join(f"({part[0]})" for part in parts), joined.join(f"({part[1]})" for part in parts)
    if case.rng.random() < 0.3:
        told, sql = f"not ({told})", f"not ({sql})"
    out = case.output()
    case.run("filter", told, *case.source.names, "-o", out)
    case.same_rows(case.made(out), case.ids(f"select pos from t where {sql} order by pos"))


def split(case: Case) -> None:
    def names_directories(name: str) -> bool:
        of = case.rows.schema.field(name).type
        is_binary = "binary" in str(of)
        return not (pa.types.is_floating(of) or pa.types.is_null(of) or is_binary)

    usable = [name for name in case.plain if names_directories(name)]
    if not usable or case.rows_count == 0 or not generate.fits_parquet(case.rows.schema):
        return
    keys = case.rng.sample(usable, min(len(usable), case.rng.choice([1, 1, 2])))
    held = ", ".join(f"k{case.place(key)}" for key in keys)
    groups = case.query(f"select list(pos order by pos) from t group by {held} order by {held}")
    out = case.dir / f"split{case.jobs_count}"
    case.jobs_count += 1
    code, why = case.command("split", *case.source.names, "-o", out, *_by("by", keys))
    if code == 2 and "too long for the name of a directory" in why and not out.exists():
        # The longest form: each byte written as %xx.
        longest = case.query(f"select max(greatest({', '.join(f'strlen(k{case.place(key)}::text)' for key in keys)})) from t")[0][0]
        if 3 * longest > 200:
            return
    if code != 0:
        raise Difference(f"exit code {code}: {why.strip()[-600:]}")
    files = list(out.rglob("*.parquet"))
    others = [name for name in case.rows.column_names if name not in keys]
    found = []
    for path in files:
        rows = case.made(path)
        found.append(rows["id"].to_pylist())
        case.same_rows(rows, found[-1], others)
    if sorted(found) != sorted(group for (group,) in groups):
        raise Difference("other partitions")
    counted = case.query(f"select count(*) from read_parquet('{out}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)")
    if counted != [(case.rows_count,)]:
        raise Difference(f"DuckDB counts {counted} rows")
    again = case.output()
    case.run("convert", out, "-o", again)
    if sorted(case.made(again)["id"].to_pylist()) != list(range(case.rows_count)):
        raise Difference("read back, other rows")


def group_by(case: Case) -> None:
    keys = _keys(case, 2, nested=case.rng.random() < 0.2)
    is_nested = any(key not in case.plain for key in keys)
    told, sql = _order(case, keys)
    held = ", ".join(part.split()[0] for part in sql)
    wanted, selected = ["all rows=count"], ["min(pos)", "max(pos)", "count(*)"]
    checks = []
    for number in range(case.rng.randrange(4)):
        made = _aggregate(case, f"a{number}")
        if made is not None:
            wanted.append(made[0])
            selected.append(made[1])
            checks.append((f"a{number}", *made[2:]))
    order = "" if is_nested else f"order by {', '.join(sql)}"
    groups = case.query(f"select {', '.join(selected)} from t group by {held} {order}")
    is_too_large = any(
        limits is not None and any(group[3 + at] is not None and not limits[0] <= group[3 + at] <= limits[1] for group in groups)
        for at, (_, _, _, limits) in enumerate(checks)
    )
    out = case.output()
    args = ("group-by", *case.source.names, "-o", out, *_by("by", told), "--agg=" + ",".join(wanted))
    if is_too_large:
        code, why = case.command(*args)
        if code == 0 or "larger than" not in why or out.exists():
            raise Difference(f"a sum that is too large was not refused: {why[-300:]}")
        return
    case.run(*args)
    found = case.made(out)
    firsts = [group[0] for group in groups]
    if is_nested:
        if sorted(found["all rows"].to_pylist()) != sorted(group[2] for group in groups):
            raise Difference("other groups")
        return
    for key in keys:
        expected = values.key(values.whole(case.rows[key])).take(pa.array(firsts, pa.int64())).to_pylist()
        same_values(key, values.key(values.whole(found[key])).to_pylist(), expected)
    same_values("count", found["all rows"].to_pylist(), [group[2] for group in groups])
    for at, (name, column, kind, _) in enumerate(checks):
        expected = [group[3 + at] for group in groups]
        if kind == "row":
            same_columns((case.rows, case.bits), found, expected, {column: name})
        elif kind == "key":
            same_values(name, values.key(values.whole(found[name])).to_pylist(), expected)
        else:
            _near(name, found[name].to_pylist(), expected, 0.0 if kind == "exact" else 1e-9)


def _near(name: str, found: list[Any], expected: list[Any], share: float) -> None:
    if len(found) != len(expected):
        raise Difference(f"{name}: {len(found)} values, not {len(expected)}")
    for place, (one, other) in enumerate(zip(found, expected)):
        if one is None or other is None:
            is_same = one is other
        else:
            one, other = (one, other) if share == 0.0 else (float(one), float(other))
            is_same = one == other or (one != one and other != other)
            is_same = is_same or (share > 0 and math.isfinite(other) and abs(one - other) <= share * max(abs(other), 1.0))
        if not is_same:
            raise Difference(f"{name}, row {place}: {one!r}, not {other!r}")


def _has_only_small(case: Case, name: str) -> bool:
    """Whether the order of a column's floats has only a small effect on their sum."""
    numbers = [abs(value) for value in case.rows[name].to_pylist() if value is not None]
    return all(number <= 1e6 for number in numbers)


def _aggregate(case: Case, name: str) -> tuple[str, str, str, str, tuple[int, int] | None] | None:
    """The aggregate for outcore, for DuckDB, its column, how values are compared, and the bounds of a sum."""
    column = case.rng.choice([column.name for column in case.columns])
    if any(mark in column for mark in ",()="):
        return None
    held, of = f"k{case.place(column)}", case.rows.schema.field(column).type
    kind = case.rng.choice(["count", "first", "last", "count_distinct", "min", "max", "sum", "sum", "mean", "median", "quantile"])
    if kind == "count":
        return f"{name}=count({column})", f"count({held})", column, "exact", None
    if kind in ("first", "last"):
        return f"{name}={kind}({column})", "min(pos)" if kind == "first" else "max(pos)", column, "row", None
    if column not in case.plain:
        return None
    if kind == "count_distinct":
        return f"{name}=count_distinct({column})", f"count(distinct {held})", column, "exact", None
    if kind in ("min", "max"):
        return f"{name}={kind}({column})", f"{kind}({held})", column, "key", None
    if pa.types.is_integer(of):
        limits = (0, 2**64 - 1) if pa.types.is_unsigned_integer(of) else (-(2**63), 2**63 - 1)
        if kind == "sum":
            return f"{name}=sum({column})", f"sum({held}::hugeint)", column, "exact", limits
        if kind == "mean":
            return f"{name}=mean({column})", f"sum({held}::hugeint)::double / count({held})", column, "near", None
    elif pa.types.is_floating(of) and _has_only_small(case, column):
        if kind in ("sum", "mean"):
            return f"{name}={kind}({column})", f"{'avg' if kind == 'mean' else 'sum'}({held})", column, "near", None
    elif pa.types.is_decimal(of) and of.precision <= 18:
        if kind == "sum":
            return f"{name}=sum({column})", f"sum({held})", column, "exact", None
    if kind in ("median", "quantile") and pa.types.is_integer(of):
        part = 0.5 if kind == "median" else case.rng.choice([0.0, 0.1, 0.9, 1.0])
        text = f"median({column})" if kind == "median" else f"quantile({column},{part})"
        return f"{name}={text}", f"quantile_cont({held}::double, {part})", column, "near", None
    return None


def window(case: Case) -> None:
    keys = _keys(case, 2) if case.rng.random() < 0.85 else []
    by, by_sql = _order(case, keys)
    order, order_sql = _order(case, _keys(case, 2) if case.rng.random() < 0.8 else [])
    over = f"partition by {', '.join(part.split()[0] for part in by_sql)}" if keys else ""
    within = ", ".join([*order_sql, "pos"])
    rows_over, ranks_over = f"({over} order by {within})", f"({over} order by {', '.join(order_sql)})" if order_sql else f"({over})"
    value = case.rng.choice([name for name in case.rows.column_names if not any(mark in name for mark in ",()=")])
    far = case.rng.choice([1, 1, 3])
    functions = {
        "row_number": ("number", f"row_number() over {rows_over}"),
        "rank": ("number", f"rank() over {ranks_over}"),
        "dense_rank": ("number", f"dense_rank() over {ranks_over}"),
        f"lag({value},{far})": ("row", f"lag(pos, {far}) over {rows_over}"),
        f"lead({value},{far})": ("row", f"lead(pos, {far}) over {rows_over}"),
        f"first({value})": ("row", f"first(pos) over {rows_over}"),
    }
    chosen = case.rng.sample(sorted(functions), case.rng.randint(1, 4))
    small = [name for name in case.plain if _sums_in_64_bits(case, name)]
    sums = case.rng.choice(small) if small and case.rng.random() < 0.5 else None
    added = [f"a{at}={text}" for at, text in enumerate(chosen)]
    selected = ["pos", *(functions[text][1] for text in chosen)]
    if sums is not None:
        added.append(f"s=cum_sum({sums})")
        selected.append(f"sum(k{case.place(sums)}::hugeint) over {rows_over}")
    first = case.rng.choice([None, None, 1, 3])
    limits = [] if first is None else ["--first", first]
    out = case.output()
    case.run("window", *case.source.names, "-o", out, *_by("by", by), *_by("order", order), "--add=" + ",".join(added), *limits)
    found = case.made(out)
    kept = "" if first is None else f"qualify row_number() over {rows_over} <= {first}"
    rows = case.query(f"select {', '.join(selected)} from t {kept} order by {', '.join([*by_sql, within])}")
    case.same_rows(found, [row[0] for row in rows], case.rows.column_names)
    for at, text in enumerate(chosen):
        expected = [row[at + 1] for row in rows]
        if functions[text][0] == "number":
            same_values(text, found[f"a{at}"].to_pylist(), expected)
        else:
            same_columns((case.rows, case.bits), found, expected, {value: f"a{at}"})
    if sums is not None:
        same_values("cum_sum", found["s"].to_pylist(), [row[-1] for row in rows])


def _sums_in_64_bits(case: Case, name: str) -> bool:
    of = case.rows.schema.field(name).type
    if not pa.types.is_integer(of) or any(mark in name for mark in ",()="):
        return False
    return sum(abs(value) for value in case.rows[name].to_pylist() if value is not None) < 2**63


def join(case: Case) -> None:
    """The table together with another one that has its key columns and some of its values."""
    rng = case.rng
    keys = _keys(case, 2)
    if any("=" in key for key in keys):
        return
    count = rng.choice([0, 1, 7, min(case.rows_count, 150)])
    chosen = [rng.randrange(case.rows_count) for _ in range(count)] if case.rows_count else []
    payload = {f"r{at}": column for at, column in enumerate(rng.sample(case.columns, min(2, len(case.columns))))}
    if rng.random() < 0.5:
        payload[rng.choice(case.columns).name] = rng.choice(case.columns)
    payload = {name: column for name, column in payload.items() if name not in keys}
    others = {name: column.values(rng, len(chosen), 5) for name, column in payload.items()}
    taken = pa.array(chosen, pa.int64())
    arrays = {"rid": pa.array(range(len(chosen)), pa.int64()), **{key: values.whole(case.rows[key]).take(taken) for key in keys}, **others}
    right = generate.write(rng, pa.table(arrays), case.dir, f"right{case.jobs_count}")
    if len(case.source.names) > 1 or len(right.names) > 1:
        left_file, right_file = _one(case, case.source), _one(case, right)
    else:
        left_file, right_file = case.source.names[0], right.names[0]
    case.db.execute("drop table if exists r")
    # Seconds become milliseconds in Parquet; as keys they are compared by their meaning.
    held = right.read
    for key in keys:
        at = held.column_names.index(key)
        if pa.types.is_temporal(case.rows.schema.field(key).type) and held[key].type != case.rows[key].type:
            held = held.set_column(at, key, held[key].cast(case.rows[key].type))
    case.register("r", held)
    right_bits = {name: values.bits(values.whole(held[name])) for name in held.column_names}
    kind = rng.choice(["inner", "left", "right", "full", "semi", "anti"])
    is_unordered = rng.random() < 0.3
    on = " and ".join(f"t.k{case.place(key)} = r.k{right.read.column_names.index(key)}" for key in keys)
    both = ", ".join(f"coalesce(t.k{case.place(key)}, r.k{right.read.column_names.index(key)}) nulls last" for key in keys)
    tables = f"t {kind} join r on {on}"
    selected = "t.pos, r.pos" if kind not in ("semi", "anti") else "t.pos, null"
    if kind in ("semi", "anti"):
        both = ", ".join(f"t.k{case.place(key)} nulls last" for key in keys)
    # A null equals nothing. Among the rows with a null, those of the right table come first.
    nulls = " or ".join(f"coalesce(t.k{case.place(key)}, r.k{right.read.column_names.index(key)}) is null" for key in keys)
    behind = f"(t.pos is null) <> ({nulls}), t.pos, r.pos" if kind not in ("semi", "anti") else "t.pos"
    pairs = case.query(f"select {selected} from {tables} order by {both}, {behind}")
    out = case.output(right.read.schema)
    case.run("join", left_file, right_file, "-o", out, *_by("on", keys), "--how", kind, *(["--unordered"] if is_unordered else []))
    found = case.made(out)
    if is_unordered:
        got = list(zip(found["id"].to_pylist(), found["rid"].to_pylist() if "rid" in found.column_names else [None] * found.num_rows))
        if sorted(got, key=str) != sorted(pairs, key=str):
            raise Difference("other pairs")
        pairs = got
    lefts = [name for name in case.rows.column_names if name not in keys]
    same_columns((case.rows, case.bits), found, [pair[0] for pair in pairs], {name: name for name in lefts})
    if kind not in ("semi", "anti"):
        names = {name: f"{name}_right" if name in case.rows.column_names else name for name in right.read.column_names if name not in keys}
        same_columns((right.read, right_bits), found, [pair[1] for pair in pairs], names)
    for key in keys:
        expected = pa.concat_arrays([case.bits[key], right_bits[key]])
        places = [left if left is not None else case.rows_count + other for left, other in pairs]
        held_type, found_type = case.rows.schema.field(key).type, found.schema.field(key).type
        is_time = pa.types.is_temporal(held_type) and held_type != found_type
        got_key = values.bits(values.whole(found[key].cast(held_type) if is_time else found[key]))
        if not got_key.equals(expected.take(pa.array(places, pa.int64()))):
            raise Difference(f"key {key!r} differs")


def _one(case: Case, written: generate.Written) -> Path:
    """The table as a single name, because `join` takes two."""
    folder = written.names[0]
    return folder if folder.is_dir() else folder.parent


JOBS = {
    "sort": sort,
    "unique": unique,
    "dedup": dedup,
    "group-by": group_by,
    "head": head,
    "head-by": head_by,
    "window": window,
    "join": join,
    "split": split,
    "shuffle": shuffle,
    "filter": filtered,
    "sample": sample,
    "convert": convert,
}
