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
from outcore._equivalents import _OWNERS, ATTRIBUTES, KEYWORDS, OF_MODULE

OWNERS = (outcore.Dataset, outcore.Lines, outcore.KMeans, outcore.Table, outcore.Volume, outcore.graph.Graph)


def functions() -> Iterator[Callable[..., Any]]:
    """All public functions and methods."""
    for name in outcore.__all__:
        if inspect.isfunction(getattr(outcore, name)):
            yield getattr(outcore, name)
    for owner in OWNERS:
        for name, method in vars(owner).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                yield method


def test_every_hint_names_a_keyword_of_the_function() -> None:
    found = 0
    for function in functions():
        known = inspect.signature(function).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            continue
        for word in KEYWORDS.keys() - known.keys():
            first = [None] if "self" in known else []
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{word}'") as caught:
                function(*first, **{word: 1})
            _, _, hint = str(caught.value).partition("; ")
            if hint:
                found += 1
                named = re.match(r"(\w+)(=| is )", hint)
                assert named and named[1] in known, (function.__qualname__, word, hint)
    assert found > 500


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: outcore.sort("a", "b", ascending=False), "descending=True"),  # type: ignore[call-overload]
        (lambda: outcore.sort("a", "b", n_jobs=2), "threads="),  # type: ignore[call-overload]
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
    return {"outcore": outcore, "a": files[0], "b": files[1], **tables}


@pytest.mark.parametrize("word", ATTRIBUTES)
def test_what_an_error_of_a_table_names_works(
    word: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not hasattr(outcore.Table, word)
    use = ATTRIBUTES[word]
    with pytest.raises(AttributeError, match=re.escape(use.code)):
        getattr(names["t"], word)
    if "to_arrow" in use.code or "batches" in use.code:
        pytest.importorskip("pyarrow")
    assert eval(use.code, names) is not None  # noqa: S307


def test_attributes_of_columns_graphs_and_arrays_have_hints_that_work(names: dict[str, Any], tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    np.array([[0, 1], [1, 2]], dtype="u4").tofile(tmp_path / "edges.u32")
    graph = outcore.graph.convert(tmp_path / "edges.u32", tmp_path / "g.graph", undirected=True)
    owners = {"c": outcore.col("price"), "g": graph, "d": outcore.tabulate(10)}
    known = {**names, **owners, "numpy": np}
    count = 0
    for owner in owners.values():
        for word, use in _OWNERS[type(owner).__name__].items():
            with pytest.raises(AttributeError, match=re.escape(use.code)):
                getattr(owner, word)
            assert eval(use.code, known) is not None  # noqa: S307
            count += 1
    assert count > 30
    with pytest.raises(AttributeError, match="^Graph has no attribute 'nothing'$"):
        graph.nothing


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
    assert eval(use.code, names) is not None  # noqa: S307


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
