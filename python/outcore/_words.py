"""A verb's arguments in the form of a command line, and its report as a value.

Contract: an argument that is not given adds no word, so the verb's default applies. The verb
interprets and checks the words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar, cast

from . import _outcore
from ._arguments import Keys, LinesHow, Paths, Record, Size, StrPath
from ._arguments import insists, number, optional_path, path_text, path_texts, texts, truth
from ._arguments import warn_of_unknown_variables
from ._column import Column, Expression, Expressions, expression_text
from ._errors import UsageError, usage
from ._held import MEANS, Held, Place, held, quoted, schema_text, spooled
from ._progress import telling
from ._records import records
from ._reports import WriteSummary
from ._summary import JobReport, report_of
from ._units import size_text, whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table import Table

#: A name and the words of its order.
_ORDERED = re.compile(r"(.*?)((?::(?:asc|desc|r|nulls-first|nulls-last))*)", re.DOTALL)
#: The name of a file of data, which no expression looks like.
_FILE = re.compile(r"@?[\w./{}-]+\.(parquet|arrows?|feather|csv|tsv|jsonl|ndjson|npy|bin|dat|txt)(\.(gz|zst))?")
_Report = TypeVar("_Report", bound=JobReport)
#: Keywords whose values are expressions.
_EXPRESSIONS = ("expression", "condition", "expressions", "where", "map")
#: The words after the options.
_OPERANDS = ("src", "left", "right")
#: The hint for a number in the place of the output.
_NUMBERS = {
    "head": "the number of items is count=5",
    "tail": "the number of items is count=5",
    "sample": "the number of items is count=5",
    "shuffle": "seed=5 gives another order",
    "split": "the number of parts is parts=3, and dst is the pattern of their names",
}
#: The comparison of lines.
_LETTERS = "bdfghiMnRrV"
#: The options for reading files, if a table has several.
_SHAPE = ("union", "schema", "separator", "null", "on_error", "csv", "jsonl", "header")


class Option(NamedTuple):
    """The translation of a keyword to words: a method of `Words`, the option if there is one, and
    the value that adds no word."""

    method: str
    flag: str
    default: Any


class Words:
    """The words of one call."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self._operands: list[str] = []

    def given(self, name: str, options: Mapping[str, Option], given: Mapping[str, Any]) -> None:
        """All keywords of a function except for its files."""
        for keyword, value in given.items():
            option = _option(name, options, keyword)
            if value is None and keyword in _EXPRESSIONS and option is not None and not _is_flag(option.flag):
                hint = 'write one as a text: "price > 100"'
                raise usage("read arguments", f"{keyword}=None is not an expression", hint)
            if keyword in _EXPRESSIONS:
                _check_place(name, keyword, value, given)
            elif keyword != "dst" and isinstance(value, str):
                _check_order(name, keyword, value, given)
            if option is not None and (not _is_flag(option.flag) or not _is_default(option, value)):
                self._take(name, option, keyword, value)

    def _take(self, name: str, option: Option, keyword: str, value: Any) -> None:
        """One keyword, whose value may have a type that the option does not accept."""
        if option.method in ("flag", "unless"):
            value = truth(keyword, value)
        try:
            getattr(self, option.method)(option.flag, value)
        except TypeError as error:
            kind = type(value).__name__
            is_expression = keyword in _EXPRESSIONS
            if option.method == "text" and not is_expression:
                raise usage("read arguments", f"{keyword}={value!r} is of the type {kind}, not a text", "give a text; help() lists what it may be") from None
            if option.method in ("text", "joined", "expressions") and str(error).startswith("an expression"):
                cause, _, hint = str(error).partition(": ")
                raise usage("read arguments", f"{keyword}={value!r}: {cause}", hint) from None
            if option.method == "path" and isinstance(value, int):
                cause = f"{keyword}={value!r} is not the name of a file"
                raise usage("read arguments", cause, _NUMBERS.get(name, "give a name, as in dst=\"out.bin\"")) from None
            if keyword == "key" and callable(value):
                hint = 'write it as a text: key="2,2n" is the number in the second field of a line'
                raise usage("read arguments", "key= is a function, but keys are texts", hint) from None
            cause = f"{keyword}={value!r} has the type {kind}, which {keyword} does not take ({error})"
            hint = f'names are texts: {keyword}="price" or {keyword}=["country", "price"]'
            is_names = option.method in ("keys", "columns", "listed")
            raise usage("read arguments", cause, hint if is_names else "see help() of the function") from None

    def operands(self, paths: Paths) -> None:
        """Files, which come after everything else."""
        self._operands += map(_file, path_texts(paths))

    def dataset(self, option: str, name: str | None) -> None:
        """A dataset, whose name has no mark in Python."""
        self.datasets(option, [] if name is None else [name])

    def datasets(self, option: str, names: Iterable[str]) -> None:
        """Datasets."""
        self._add(option, (name if name.startswith("@") else f"@{name}" for name in names))

    def paths(self, option: str, paths: Paths) -> None:
        """Files of an option."""
        self._add(option, map(_file, path_texts(paths)))

    def path(self, option: str, path: StrPath) -> None:
        """One file."""
        self._add(option, [_file(path_text(path))])

    def drives(self, option: str, drives: Paths) -> None:
        """Directories on drives, or a file that describes them."""
        for drive in path_texts(drives):
            self._add("--drives" if drive.endswith(".toml") else option, [drive])

    def texts(self, option: str, values: Keys | None) -> None:
        """Texts, each with the option before it."""
        self._add(option, texts(values))

    def lines(self, option: str, lines: LinesHow) -> None:
        """The option that makes files lines: of `"any"` bytes, or of text."""
        self._add(option, ["any" if insists(lines) else "text"])

    def letters(self, option: str, letters: str) -> None:
        """Letters of GNU sort, each an option of its own."""
        for letter in letters:
            if letter not in _LETTERS:
                hint = f"use the letters of GNU sort: {_LETTERS}"
                raise usage("read arguments", f"`{letter}` is not a letter of an {option.strip('-')}", hint)
            self.options.append("--human-numeric-sort" if letter == "h" else f"-{letter}")

    def columns(self, option: str, names: Keys) -> None:
        """Names of columns, in backquotes if they would be read as lists."""
        self._add(option, map(_column, texts(names)))

    def listed(self, option: str, names: Keys) -> None:
        """An expression, or names of columns as one."""
        text = names if isinstance(names, str) else ",".join(map(_column, names))
        if not text:
            hint = 'count_by(src, dst, by="country") counts a column, and dst=None returns the counts'
            raise usage("choose columns", "by is not given", hint)
        self._add(option, [text])

    def joined(self, option: str, expressions: Expressions) -> None:
        """Expressions as one text."""
        self._add(option, [", ".join(_expressions(expressions))])

    def expressions(self, option: str, expressions: Expressions) -> None:
        """Expressions, each with the option before it."""
        self._add(option, _expressions(expressions))

    def pair(self, option: str, values: tuple[float, float]) -> None:
        """Two numbers."""
        first, last = values
        self._add(option, [f"{float(first)!r}:{float(last)!r}"])

    def keys(self, option: str, keys: Keys | None) -> None:
        """Columns and their orders; names with commas come between backquotes."""
        self._add(option, map(_key, texts(keys)))

    def schema(self, option: str, schema: str | Mapping[str, str]) -> None:
        """Types of columns."""
        self.text(option, schema_text(schema))

    def text(self, option: str, value: Expression | None) -> None:
        """A text."""
        self._add(option, [] if value is None else [expression_text(value)])

    def value(self, option: str, value: object) -> None:
        """A number, or another value with a text."""
        self._add(option, [str(value)])

    def size(self, option: str, value: Size | None) -> None:
        """A size in bytes, or with a unit."""
        self.text(option, size_text(option.strip("-").replace("-", " "), value))

    def number(self, option: str, value: SupportsIndex) -> None:
        """A whole number of 64 bits."""
        self.text(option, str(number(option.strip("-"), value)))

    def wide(self, option: str, value: SupportsIndex) -> None:
        """A whole number of any size."""
        self.text(option, str(whole(option.strip("-"), value)))

    def flag(self, option: str, is_set: bool) -> None:
        """An option without a value."""
        if is_set:
            self.options.append(option)

    def unless(self, option: str, is_set: bool) -> None:
        """An option with the opposite meaning."""
        self.flag(option, not is_set)

    def dtype(self, option: str, dtype: npt.DTypeLike) -> None:
        """A type of records."""
        self.text(option, _type_text(dtype))

    def record(self, option: str, record: Record) -> None:
        """The size of a record, or its size and keys."""
        request = records(None, record, None)
        self.text(option, str(request["record_bytes"]))
        self._add("--key", request["keys"])

    def _add(self, option: str, values: Iterable[str]) -> None:
        """Values of an option, or values that come before the files."""
        if _is_flag(option):
            self.options += [f"{option}={value}" for value in values]
        else:
            self._operands += values

    def run(
        self,
        name: str,
        kind: type[_Report],
        phases: tuple[str, ...],
        given: Mapping[str, Any],
        kept: str | None = None,
    ) -> _Report:
        """Runs the verb, whose report is a `kind`; a table without an output is written to `kept`."""
        report, headline, _ = self.call(name, phases, given, kept)
        return report_of(kind, report, headline)

    def call(
        self,
        name: str,
        phases: tuple[str, ...],
        given: Mapping[str, Any],
        kept: str | None = None,
        arrays: dict[str, bytes] | None = None,
    ) -> tuple[dict[str, Any], str, dict[str, tuple[str, bytearray]]]:
        """Runs the verb with these arrays; returns its report, its line for people, and its arrays."""
        warn_of_unknown_variables()
        words = [*self.options, "--", *self._operands]
        volume = optional_path(given.get("volume"))
        try:
            with telling(given.get("progress"), phases) as tell:
                return _outcore.run_verb(name, words, volume, kept, tell, arrays)
        except UsageError as error:
            # The usage of the command is not that of the function.
            before, _, usage_of_command = str(error).partition("; usage: ")
            if not usage_of_command:
                raise
            function = name.replace("-", "_").replace(" ", "_")
            raise usage("read arguments", before.removeprefix("read arguments: "), f"see help() of {function}") from None


def run(
    name: str, kind: type[_Report], phases: tuple[str, ...], options: Mapping[str, Option], given: dict[str, Any]
) -> _Report:
    """Runs the verb of a function with these arguments."""
    words = Words()
    words.given(name, options, given)
    words.operands(given.get("src", ()))
    return words.run(name, kind, phases, given)


def plan_of_verb(
    name: str, kind: type[_Report], options: Mapping[str, Option], given: dict[str, Any]
) -> _Report:
    """The report of a verb that only makes its plan."""
    words = Words()
    words.given(name, options, given)
    words.flag("--dry-run", True)
    words.operands(given["src"])
    return words.run(name, kind, (), given)


def run_on_tables(
    name: str, kind: type[_Report], phases: tuple[str, ...], options: Mapping[str, Option], given: dict[str, Any]
) -> _Report | Table:
    """As `run`, for a verb on tables, also those of other libraries. Without a file for the result, it returns a
    `Table`."""
    keeps = "dst" in given and given["dst"] is None
    if keeps and given.get("codec") is not None:
        raise usage(name, "codec cannot be used without dst", "give it to write of the Table")
    if "left" in given:
        _check_tables(name, given)
    _check_column(name, given)
    sources = [given[operand] for operand in _OPERANDS if operand in given]
    is_alone = len(sources) == 1
    asked = dict(given)
    for source in sources:
        if isinstance(source, Held):
            # The options for reading one of two tables do not apply to the other.
            taken = source._given if is_alone else source._means()
            asked.update(_not_said(name, options, asked, taken))
    # Directories are removed with their holders.
    opened = [_opened(source, asked, options, is_alone) for source in sources]
    place = Place(asked) if keeps else None
    kept = None if place is None else place.path(f"{name}.arrow")
    words = Words()
    words.given(name, options, {keyword: asked[keyword] for keyword in given})
    for names, _ in opened:
        words.operands(names)
    report = words.run(name, kind, phases, asked, kept)
    if place is None or kept is None or not os.path.exists(kept):
        return report
    return cast("Table", held([kept], asked, place, report))


def report_on_tables(
    name: str, kind: type[_Report], phases: tuple[str, ...], options: Mapping[str, Option], given: dict[str, Any]
) -> _Report:
    """As `run_on_tables`, for a verb whose result is not a table."""
    return cast(_Report, run_on_tables(name, kind, phases, options, given))


def _opened(
    source: Any, asked: Mapping[str, Any], options: Mapping[str, Option], is_alone: bool
) -> tuple[list[str], object]:
    """The files of a table, and the object that keeps them."""
    if not isinstance(source, Held):
        made = spooled(source, asked)
        if made is not None:
            return [made[0]], made[1]
        names = path_texts(source)
        if is_alone or len(names) == 1:
            return names, None
        known = (keyword for keyword in (*_SHAPE, *MEANS) if keyword in asked and keyword in options)
        said = {keyword: asked[keyword] for keyword in known if not _is_default(options[keyword], asked[keyword])}
        source = Held(names, said)
    shape_said = source._shape()
    if is_alone and shape_said.keys() <= asked.keys() or not shape_said and len(source._inputs) == 1:
        return source._inputs, source
    # The verb has no option for these columns or types, or no option that applies to only one of two tables. The verb
    # therefore reads a copy with these columns or types.
    said = {keyword: value for keyword, value in source._given.items() if keyword != "scratch_limit"}
    copied = {"src": source, "dst": None, **said}
    source = run_on_tables("convert", WriteSummary, ("copy",), options, copied)
    return source._inputs, source


def _not_said(
    name: str, options: Mapping[str, Option], given: Mapping[str, Any], taken: Mapping[str, Any]
) -> dict[str, Any]:
    """The keywords of a table that the call leaves out."""
    said = {}
    for keyword, value in taken.items():
        option = _option(name, options, keyword)
        if keyword not in given or option is None or _is_default(option, given[keyword]):
            said[keyword] = value
    return said


def _option(name: str, options: Mapping[str, Option], keyword: str) -> Option | None:
    return options.get(f"{name}.{keyword}") or options.get(keyword)


def _is_default(option: Option, value: Any) -> bool:
    default = option.default
    return value is default or (type(value) is type(default) and bool(value == default))


def _check_place(name: str, keyword: str, value: Any, given: Mapping[str, Any]) -> None:
    """Rejects an output in the place of an expression."""
    dst = given.get("dst")
    _check_order(name, keyword, value, given)
    if isinstance(value, str) and isinstance(dst, str) and _FILE.fullmatch(value) and not _FILE.fullmatch(dst):
        function = name.replace("-", "_")
        hint = f"the {keyword} comes before the output: {function}(src, {keyword}, dst)"
        raise usage("read arguments", f"{keyword}={value!r} is the name of a file", hint)


def _check_order(name: str, keyword: str, value: Any, given: Mapping[str, Any]) -> None:
    """Rejects an input in the place of another argument."""
    src = given.get("src")
    if not isinstance(value, str) or not isinstance(src, str) or _FILE.fullmatch(src) or os.path.lexists(src):
        return
    if _FILE.fullmatch(value) and os.path.lexists(value):
        after = ", dst" if "dst" in given else ""
        hint = f"the input comes before the {keyword}: {name.replace('-', '_')}(src, {keyword}{after})"
        raise usage("read arguments", f"{keyword}={value!r} is the name of a file", hint)


def _check_column(name: str, given: Mapping[str, Any]) -> None:
    """Rejects a column in the place of the output of a verb that writes tables."""
    dst = given.get("dst")
    is_word = isinstance(dst, str) and dst.isidentifier() and not os.path.lexists(dst)
    is_folder = given.get("parts") is not None
    if name in ("group-by", "dedup", "window") and is_word and not is_folder and not given.get("by"):
        function = name.replace("-", "_")
        hint = f"for a column write {function}(src, by={dst!r}); an output needs an ending, as in {f'{dst}.parquet'!r}"
        raise usage("read arguments", f"dst={dst!r} is not the name of a table", hint)


def _check_tables(name: str, given: Mapping[str, Any]) -> None:
    """Rejects a list of both inputs in the place of the first."""
    left, right = given["left"], given.get("right")
    if isinstance(left, (list, tuple)) and isinstance(right, (str, os.PathLike)):
        output = os.fsdecode(right)
        if len(left) == 2 and "://" not in output and not os.path.lexists(output) and _FILE.fullmatch(output):
            hint = f"give them one after the other: {name}(left, right, dst)"
            raise usage("read arguments", f"left= has both inputs, and right={output!r} does not exist", hint)


def _is_flag(option: str) -> bool:
    """Whether a keyword is an option of the verb, and not a value before its files."""
    return option.startswith("-")


def _column(name: str) -> str:
    """The name of a column, in backquotes if it would be read as a list."""
    return name if name[:1] == "`" or name and "," not in name else quoted(name)


def _expressions(given: Expressions) -> list[str]:
    """One expression, or several."""
    if isinstance(given, (str, Column)) or not isinstance(given, Iterable):
        return [expression_text(given)]
    return [expression_text(expression) for expression in given]


def _file(name: str) -> str:
    """A file whose name is `-` and not standard input."""
    return os.path.join(os.curdir, name) if name == "-" else name


def _key(text: str) -> str:
    """A column and its order, in backquotes if its name would be read as a list."""
    if "," not in text or text.startswith(("`", ".")):
        return text
    parts = _ORDERED.fullmatch(text)
    return text if parts is None else quoted(parts[1]) + parts[2]


def _type_text(dtype: npt.DTypeLike) -> str:
    """A type as text: a name, or a dtype in the form of the header of a `.npy` file."""
    request = records(dtype, None, None)
    described = request["descr"]
    if described is None:
        return request["name"] or ""
    if request["row_shape"]:
        return f"({described}, ({', '.join(map(str, request['row_shape']))}))"
    return described
