"""Runs every example of the package's docstrings, with the files that the examples name.

Examples use `outcore` and `np` without importing them, as NumPy's docstrings do. They import
everything else that they use.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import outcore

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from example_inputs import PLACED, make, placed, remove, small  # noqa: E402

PACKAGE = Path(outcore.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Parameters whose values are names of outputs.
OUTPUTS = {"dst", "output", "removed", "record_io"}
# Modules that need another package, which a test environment may lack.
NEEDS = {"torch.py": "torch"}
Documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: Path) -> Iterator[doctest.DocTest]:
    """The docstrings of a source file that have examples, wherever they are."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, Documented) else None
        if text and ">>>" in text:
            line = node.body[0].lineno  # type: ignore[attr-defined]
            name = f"{path.name}:{line}: {getattr(node, 'name', 'the module')}"
            yield doctest.DocTestParser().get_doctest(text, {}, name, str(path), line - 1)


def cases() -> Iterator[Any]:
    """A parameter per docstring, and the package that it needs."""
    for path in sorted(PACKAGE.glob("*.py")):
        need = NEEDS.get(path.name)
        is_absent = need and importlib.util.find_spec(need) is None
        mark = pytest.mark.skipif(bool(is_absent), reason=f"{need} is not installed")
        for test in docstrings(path):
            yield pytest.param(test, id=test.name, marks=mark)


class Checker(doctest.OutputChecker):
    """Compares the output of an example; an example that shows no output may print."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


class Runner(doctest.DocTestRunner):
    """Clears the names that an example writes before it runs."""

    def report_start(self, out: Any, test: doctest.DocTest, example: doctest.Example) -> None:
        for name in outputs_of(example.source, test.globs):
            remove(name)


def outputs_of(source: str, names: dict[str, Any]) -> Iterator[str]:
    """The names of files that the calls of an example write, from the functions' parameters."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        path = ast.unparse(call.func)
        if not path.startswith("outcore."):
            continue
        parameters = list(inspect.signature(eval(path, dict(names))).parameters)
        given = dict(zip(parameters, call.args))
        given |= {word.arg: word.value for word in call.keywords if word.arg}
        for name, value in given.items():
            if name in OUTPUTS and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that examples read."""
    folder = tmp_path_factory.mktemp("inputs")
    make(folder)
    return folder


@pytest.mark.parametrize("test", cases())
def test_an_example_does_what_it_says(test: doctest.DocTest, inputs: Path, here: Path) -> None:
    shutil.copytree(inputs, here, dirs_exist_ok=True)
    sources = "".join(example.source for example in test.examples)
    placed(here, [name for name in PLACED if name in sources])
    for example in test.examples:
        example.source = small(example.source, here)
    test.globs.update(outcore=outcore, np=numpy)
    said: list[str] = []
    failed = Runner(Checker(), optionflags=FLAGS).run(test, out=said.append).failed
    assert not failed, "".join(said)


@pytest.mark.parametrize(
    ("text", "failed_count"), [(">>> 1 + 1", 0), (">>> 1 + 1\n2", 0), (">>> 1 + 1\n3", 1), (">>> one", 1)]
)
def test_shown_output_is_compared_and_errors_are_failures(text: str, failed_count: int) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, "test", None, 0)
    assert Runner(Checker(), optionflags=FLAGS).run(test, out=str).failed == failed_count


def test_no_example_escapes() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")}
    shown_count = sum(len(re.findall(r"^ *>>> ", text, re.MULTILINE)) for text in sources.values())
    found = [test for path in sources for test in docstrings(path)]
    assert shown_count == sum(len(test.examples) for test in found) > 100
