"""Words of pandas, Polars and scikit-learn: each error names an equivalent that works."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outcore
from outcore._equivalent_words import KEYWORDS, OF_GRAPH_MODULE, OF_MODULE, OF_TABLES, OPERATIONS, OPERATIONS_OF
from outcore._equivalents import _OWNERS

OWNERS = (outcore.Dataset, outcore.Lines, outcore.KMeans, outcore.Table, outcore.Volume, outcore.graph.Graph)
#: The class without its types, for calls that type checkers reject.
TABLE: Any = outcore.Table


def functions() -> Iterator[Callable[..., Any]]:
    """All public functions and methods."""
    for name in outcore.__all__:
        if inspect.isfunction(getattr(outcore, name)):
            yield getattr(outcore, name)
    yield outcore.graph.convert
    for owner in OWNERS:
        for name, method in vars(owner).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                yield method


def is_open(function: Callable[..., Any]) -> bool:
    """Whether a function takes keywords of any name."""
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values())


def test_every_hint_names_a_keyword_of_the_function() -> None:
    found = 0
    for function in functions():
        known = inspect.signature(function).parameters
        if is_open(function):
            continue
        for word in {one for one in KEYWORDS if "." not in one} - known.keys():
            first = [None] if "self" in known else []
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{word}'") as caught:
                function(*first, **{word: 1})
            _, _, hint = str(caught.value).partition("; ")
            named = re.match(r"(\w+)(=| is )", hint)
            if named and not hint.startswith("it has no"):
                found += 1
                assert named[1] in known or named[1] == "outcore", (function.__qualname__, word, hint)
    assert found > 500


def test_every_wrong_argument_has_a_next_step() -> None:
    for function in functions():
        known = inspect.signature(function).parameters
        first = [None] if "self" in known else []
        if not is_open(function):
            with pytest.raises(TypeError, match="unexpected keyword argument 'qqq'.*; "):
                function(*first, qqq=1)
        if not any(one.kind is one.VAR_POSITIONAL for one in known.values()):
            with pytest.raises(TypeError, match="positional arguments? but.*; "):
                function(*first, *([1] * 40))


def test_a_file_in_the_place_of_another_argument_is_for_write() -> None:
    keys = outcore.tabulate(10)
    for call in (lambda: keys.sort("out.npy"), lambda: keys.shuffle("out.npy", seed=3)):  # type: ignore[call-arg, misc]
        with pytest.raises(TypeError, match=r"write\(...\) of the result writes a file"):
            call()


def test_keywords_of_one_function_belong_to_a_function() -> None:
    names = {function.__name__ for function in functions()}
    assert {one.split(".")[0] for one in KEYWORDS if "." in one} <= names


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: outcore.sort("a", "b", ascending=False), "descending=True"),  # type: ignore[call-overload]
        (lambda: outcore.sort("a", "b", n_jobs=2), "threads="),  # type: ignore[call-overload]
        (lambda: TABLE.sort(None, order="id"), "by= names the columns"),
        (lambda: TABLE.group_by(None, "id", by="id"), "by=, *aggregates"),
        (lambda: outcore.unique("a", "b", subset="id"), "by="),  # type: ignore[call-overload]
        (lambda: outcore.sample("a", "b", frac=0.1), "rate=0.1"),  # type: ignore[call-overload]
        (lambda: outcore.join("a", "b", left_on="id"), 'on="id=user_id"'),  # type: ignore[call-overload]
        (lambda: outcore.convert("a", "b", compression="zstd"), 'codec="zstd"'),  # type: ignore[call-overload]
        (lambda: outcore.KMeans(k=3), "n_clusters="),  # type: ignore[call-arg]
    ],
)
def test_usual_keywords_have_hints(call: Callable[[], Any], hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(hint)):
        call()


def test_errors_within_a_function_stay_as_they_are() -> None:
    def reads(batch: Any) -> Any:
        return inspect.signature(batch, ascending=True)  # type: ignore[call-arg]

    with pytest.raises(TypeError) as caught:
        outcore.tabulate(10).map(reads)
    assert ";" not in str(caught.value)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table and the other names of the expressions."""
    place = tmp_path_factory.mktemp("equivalents")
    files = [place / "a.csv", place / "b.csv"]
    for file in files:
        file.write_text("id,time,country,price\n1,2024-01-01T00:00:00,de,5\n2,2024-01-02T00:00:00,fr,150\n")
    tables = {"t": outcore.table(files[0]), "other": outcore.table(files[1])}
    frame = pytest.importorskip("pyarrow").table({"a": [1, 2]})
    return {"outcore": outcore, "a": files[0], "b": files[1], "frame": frame, **tables}


def run(code: str, names: dict[str, Any]) -> None:
    """Runs the code of a hint, which has a value unless it prints."""
    assert eval(code, names) is not None or code.startswith("print")  # noqa: S307


@pytest.fixture
def owners(names: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """An object of each class, by its name in hints."""
    np = pytest.importorskip("numpy")
    np.array([[0, 1], [1, 2]], dtype="u4").tofile(tmp_path / "edges.u32")
    (tmp_path / "words.txt").write_text("b\na\n")
    graph = outcore.graph.convert(tmp_path / "edges.u32", tmp_path / "g.graph", undirected=True)
    lines = outcore.open(tmp_path / "words.txt", lines=True)
    return {**names, "numpy": np, "c": outcore.col("price"), "g": graph, "d": outcore.tabulate(10), "l": lines}


@pytest.mark.parametrize("word", OF_TABLES)
def test_what_an_error_of_a_table_names_works(
    word: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not hasattr(outcore.Table, word)
    use = OF_TABLES[word]
    with pytest.raises(AttributeError, match=re.escape(use.code)):
        getattr(names["t"], word)
    run(use.code, names)


def test_attributes_of_columns_graphs_arrays_and_lines_have_hints_that_work(
    owners: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = 0
    for owner in (owners[name] for name in "cgdl"):
        for word, use in _OWNERS[type(owner).__name__].items():
            with pytest.raises(AttributeError, match=re.escape(use.code)):
                getattr(owner, word)
            if use.code.startswith("d.write") or use.code.startswith("l.write") or "partition" in use.code:
                use = use._replace(code=use.code[:-1] + ", force=True)")
            run(use.code, owners)
            count += 1
    assert count > 100
    with pytest.raises(AttributeError, match="^Graph has no attribute 'nothing'$"):
        owners["g"].nothing


DOES: dict[str, Callable[[Any], Any]] = {
    "__lt__": lambda one: one < 5, "__le__": lambda one: one <= 5, "__gt__": lambda one: one > 5,
    "__ge__": lambda one: one >= 5, "__add__": lambda one: one + 1, "__sub__": lambda one: one - 1,
    "__mul__": lambda one: one * 2, "__truediv__": lambda one: one / 2, "__mod__": lambda one: one % 2,
    "__len__": len, "__getitem__": lambda one: one[0], "__setitem__": lambda one: one.__setitem__("a", 1),
    "__delitem__": lambda one: one.__delitem__("a"), "__contains__": lambda one: 5 in one, "__iter__": list,
    "__enter__": lambda one: one.__enter__(), "__exit__": lambda one: one.__exit__(None, None, None),
}


@pytest.mark.parametrize(("kind", "name"), [("Table", "t"), ("Dataset", "d"), ("Lines", "l"), ("Graph", "g")])
def test_operations_of_other_libraries_have_hints_that_work(kind: str, name: str, owners: dict[str, Any]) -> None:
    assert DOES.keys() == OPERATIONS.keys()
    assert type(owners[name]).__name__ == kind and owners[name]
    for operation, use in OPERATIONS_OF[kind].items():
        with pytest.raises(TypeError, match=re.escape(f"{kind} does not support {OPERATIONS[operation]}; {use.code}")):
            DOES[operation](owners[name])
        run(use.code, owners)


def test_a_computed_column_without_a_name_is_told_how_to_name_it(names: dict[str, Any]) -> None:
    with pytest.raises(outcore.UsageError, match="total="):
        names["t"].map("price * 2")


def test_unknown_attributes_have_no_hint_and_functions_are_pickled(names: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match="^Table has no attribute 'nothing'$"):
        names["t"].nothing
    with pytest.raises(AttributeError, match=re.escape('t["price"] takes a column')):
        names["t"].price
    assert pickle.loads(pickle.dumps(outcore.sort)) is outcore.sort
    assert "src" in inspect.signature(outcore.sort).parameters


@pytest.mark.parametrize("word", OF_MODULE)
def test_names_of_other_modules_lead_to_ours(
    word: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcore.gen("u64", "keys.npy", 10)
    use = OF_MODULE[word]
    with pytest.raises(AttributeError, match=re.escape(use.code)):
        getattr(outcore, word)
    run(use.code, names)


@pytest.mark.parametrize(
    ("module", "word", "hint"),
    [
        ("outcore", "probe", "did you mean outcore.probe_drives?"),
        ("outcore", "shufle", "did you mean outcore.shuffle?"),
        ("outcore", "select", "it is a method: outcore.table(a).select"),
        ("outcore", "pagerank", 'it is a method: outcore.graph.Graph("g.graph").pagerank'),
        ("outcore", "rename", "is a column under another name, with t = outcore.table(a)"),
        ("outcore", "nothing", "has no attribute 'nothing'"),
        ("outcore.graph", "pagerank", 'it is a method: outcore.graph.Graph("g.graph").pagerank'),
        *(("outcore.graph", word, f"{use.code} {use.meaning}") for word, use in OF_GRAPH_MODULE.items()),
    ],
)
def test_names_that_a_module_does_not_have(module: str, word: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{word}'") as caught:
        getattr(outcore if module == "outcore" else outcore.graph, word)
    assert str(caught.value).endswith(hint)


def test_an_aggregate_that_is_no_text_is_told_how_to_write_it(names: dict[str, Any]) -> None:
    with pytest.raises(outcore.UsageError, match=r'total="sum\(price\)"'):
        names["t"].group_by("country", total=outcore.col("price") * 2)
    with pytest.raises(outcore.UsageError, match=r'before="lag\(price\)"'):
        names["t"].window("country", order="time", before=outcore.col("price"))
    with pytest.raises(AttributeError, match=re.escape('t.group_by("country", total="sum(price)")')):
        names["t"].group_by("country", total=outcore.col("price").sum())  # type: ignore[attr-defined]


def test_columns_are_selected_by_a_list_and_by_expressions(names: dict[str, Any]) -> None:
    table = names["t"]
    assert table.select(["price", "id"]).columns == table.select("price", "id").columns
    assert table.select(outcore.col("id")).columns == ["id"]
    assert len(table.head()) == 2
