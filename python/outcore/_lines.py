"""Lazy datasets of lines: text ended by newlines or NULs, JSON lines, CSV.

    >>> import outcore
    >>> log = outcore.open("*.log", lines=True)
    >>> log.sort("2,2n", unique=True).write("by-second-field.txt")

Each step is a command with the same options, and its result has the same bytes.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, SupportsIndex

from . import _arguments as arguments
from . import _outcore
from . import _verbs
from ._equivalents import unknown_attribute
from ._errors import usage
from ._lazy import ITEM_CHARACTERS, Lazy
from ._preview import ROWS
from ._progress import Watcher, telling
from ._units import counted, whole
from ._requests import CsvRows, SortLinesStep, UniqueStep
from ._words import Words


class Disorder(NamedTuple):
    """The first line that is not in order."""

    path: str
    """The file that contains the line."""
    line_number: int
    """The number of the line in that file, from 1."""
    line: bytes
    """The line, or its first 4 KiB."""


class Lines(Lazy):
    """Lines of files, and the steps on them; see `open`. Lines are bytes without their terminator."""

    def sort(
        self,
        key: arguments.Keys | None = None,
        *,
        separator: str | None = None,
        order: str = "",
        by: arguments.Keys | None = None,
        csv: bool = False,
        header: bool = True,
        on_error: Literal["fail", "skip"] | None = None,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Lines:
        """The lines in the order of their bytes, or of keys.

        Args:
            key: Keys as for `-k` of GNU sort, the most significant first: `"2,2n"`.
            separator: The byte between fields, as for `-t`; without it, fields begin with spaces or
                tabs.
            order: Letters of GNU sort for lines, and for keys without letters: `"n"`, `"V"`.
            by: For JSON lines, paths of fields: `".user.id"`, or `".price:desc"` for the largest
                first. With `csv`, names of columns or their numbers from 1; letters after a colon
                set the comparison (`"price:nr"`). Both take `asc`, `desc`, `nulls-first` and
                `nulls-last` after colons; an empty field of CSV is a null.
            csv: The files are CSV, in which quoted fields may contain separators and newlines. The
                default of `separator` is that of a sample of the records. It must be the last step;
                iteration then returns the lines of the file that would be written, including the
                header.
            header: The first line of each file of CSV names its columns, and comes first.
            on_error: The treatment of a line without such a field: `"fail"` is an error for the
                first one, `"skip"` leaves them out. The summary of `write` has their number; other
                methods issue a warning with it.
            descending: Largest first.
            stable: Equal keys keep the order of the input.
            unique: Keep only the first line of each key.
        """
        given = dict(locals())
        self._check_columns(given)
        return Lines(self._with(_sort_step(given)))

    def _check_columns(self, given: Mapping[str, Any]) -> None:
        """Rejects columns of CSV that would be fields of JSON lines."""
        files = (name for name in self._request["inputs"] if name.endswith((".csv", ".tsv")))
        name = next(files, None)
        if given["by"] is None or given["csv"]:
            return
        if name is not None:
            cause = f"without csv=True, by is a field of JSON lines, but the file is CSV ({name})"
            raise usage("sort lines", cause, f"give csv=True with by={given['by']!r}")
        name = next(iter(self._request["inputs"]), None)
        if name is not None and _is_other_text(name):
            cause = f"by is a field of JSON lines, but the lines are other text ({name})"
            raise usage("sort lines", cause, 'give key="2,2n" for the number in the second field of each line')

    def merge(
        self,
        key: arguments.Keys | None = None,
        *,
        separator: str | None = None,
        order: str = "",
        by: arguments.Keys | None = None,
        csv: bool = False,
        header: bool = True,
        on_error: Literal["fail", "skip"] | None = None,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Lines:
        """The merged lines of files that are already in order, as with `sort -m`: all files are
        read at once, and nothing goes to scratch. If a file is not in order, the result is not in
        order either. It must be the first step; its options are those of `sort`."""
        given = dict(locals())
        if self._request["steps"]:
            raise usage("merge", "a merge must be the first step", "merge files as they are, or sort")
        self._check_columns(given)
        return Lines(self._with(_sort_step(given, merges=True)))

    def check(
        self,
        key: arguments.Keys | None = None,
        *,
        separator: str | None = None,
        order: str = "",
        by: arguments.Keys | None = None,
        csv: bool = False,
        header: bool = True,
        on_error: Literal["fail", "skip"] | None = None,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Disorder | None:
        """The first line that is not in the order that `sort` would make with these options, as
        with `sort -c`, or `None`. Files are one sequence. With `unique`, a line with the same key
        as the one before is also out of order."""
        given = dict(locals())
        self._check_columns(given)
        with telling(None, ("check",)) as tell:
            found = _outcore.check_lines(self._with(_sort_step(given)), tell)
        if found is None:
            return None
        path, line_number, line = found
        return Disorder(os.fsdecode(path), line_number, line)

    def split(
        self,
        pattern: arguments.StrPath,
        *,
        parts: SupportsIndex | None = None,
        lines: SupportsIndex | None = None,
        csv: bool = False,
        separator: str | None = None,
        header: bool = True,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> list[str]:
        """Writes the lines, in order, to several files that appear together; returns their names.

        Args:
            pattern: The files' names, with `{part}` for the number; compressed if they end in `.gz`,
                `.zst`, `.bz2` or `.xz`.
            parts: The number of files, which get about the same number of bytes. A line is in the
                part to which its first byte belongs.
            lines: The number of lines per file. Give either `parts` or `lines`.
            csv, separator, header: The files are CSV, as in `shuffle`; every part has the header first.
            force: Replace files that exist; never an input.
            progress: As in `sort`.

            >>> log = outcore.open("access.log", lines=True)
            >>> log.shuffle(seed=1).split("part-{part}.txt.zst", parts=8)
        """
        if (parts is None) == (lines is None):
            raise usage("split", "parts and lines are both given, or neither is", "give one of the two")
        name = os.fsdecode(pattern)
        number = None if parts is None else whole("parts", parts)
        each = 1 if lines is None else whole("lines", lines)
        with telling(progress, ("split",)) as tell:
            names, skipped = _outcore.split_lines(
                self._request,
                name,
                number,
                each,
                arguments.truth("force", force),
                self._rows("split", csv, separator, header),
                tell,
            )
        _tell_skipped(skipped)
        return [os.fsdecode(name) for name in names]

    def shuffle(
        self,
        seed: SupportsIndex = arguments.SEED,
        *,
        epoch: SupportsIndex = 0,
        csv: bool = False,
        separator: str | None = None,
        header: bool = True,
    ) -> Lines:
        """The lines in a random order, as by `Dataset.shuffle`.

        Args:
            seed, epoch: Choose the order.
            csv: The files are CSV, in which quoted fields may contain separators and newlines:
                whole records are shuffled, and the header comes first. It must be the only step;
                iteration returns the lines of the file that would be written.
            separator: The byte between fields; by default that of a sample of the records.
            header: The first line of each file of CSV names its columns.
        """
        rows = self._rows("shuffle", csv, separator, header)
        return Lines(self._with(self._shuffle_step(seed, epoch, rows)))

    def unique(
        self,
        *,
        counts: bool = False,
        by: arguments.Keys | None = None,
        csv: bool = False,
        separator: str | None = None,
        header: bool = True,
        on_error: Literal["fail", "skip"] | None = None,
    ) -> Lines:
        """Each distinct line once, in order. With `counts`, each line comes after its count, as
        `uniq -c` writes it; CSV gets a first column `count`.

        Args:
            counts: Put the number of equal lines in front of each.
            by: Keep the first line of each key: for JSON lines paths of fields, with `csv` columns, as
                in `sort`.
            csv, separator, header: The files are CSV, as in `shuffle`: whole records are compared, or
                the columns of `by`, and the header comes first.
            on_error: The treatment of a line without such a field, as in `sort`.
        """
        if not csv and by is None:
            return Lines(self._with(UniqueStep(is_counted=arguments.truth("counts", counts), counted=None)))
        self._check_columns({"by": by, "csv": csv})
        self._rows("unique", csv, separator, header)
        step = _sort_step(
            {"by": by, "csv": csv, "separator": separator, "header": header, "on_error": on_error, "unique": True},
            counts=arguments.truth("counts", counts),
        )
        return Lines(self._with(step))

    def count(self) -> int:
        """Number of lines."""
        with telling(None, ("count",)) as tell:
            count, skipped = _outcore.count_lines(self._request, tell)
        _tell_skipped(skipped)
        return count

    def map_reduce(self, f: Callable[[list[bytes]], Any], op: Callable[[Any, Any], Any]) -> Any:
        """The values of `f` for lists of lines, one value per list, combined with `op`, which must
        be associative; `None` if there are no lines. It takes one pass; the values may be of any
        kind.

            >>> import collections, operator
            >>> log = outcore.open("access.log", lines=True)
            >>> log.map_reduce(lambda lines: collections.Counter(map(len, lines)), operator.add)
        """
        values = (f(lines) for lines in self)
        first = next(values, None)
        return functools.reduce(op, values, first) if first is not None else None

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Not supported: lines have different lengths, and may not fit in memory."""
        hint = "take them in lists: for lines in dataset, or head()"
        raise usage("make array", "lines cannot be an array", hint)

    def head(
        self,
        k: SupportsIndex = 10,
        *,
        csv: bool = False,
        separator: str | None = None,
        header: bool = True,
    ) -> list[bytes]:
        """The first `k` lines; outcore reads little more than it needs. With `csv`, the header and
        the first `k` records, as in `shuffle`."""
        count = whole("k", k)
        rows = self._rows("head", csv, separator, header)
        if rows is not None:
            with telling(None, ("read input",)) as tell:
                return _outcore.head_lines(self._request, count, rows, tell)
        found: list[bytes] = []
        for lines in self if count else ():
            found += lines[: count - len(found)]
            if len(found) == count:
                break
        return found

    def sample(
        self,
        k: SupportsIndex,
        seed: SupportsIndex = arguments.SEED,
        *,
        csv: bool = False,
        separator: str | None = None,
        header: bool = True,
    ) -> list[bytes]:
        """`k` random lines in the order of the input; every choice is equally likely. If there are
        fewer, all of them. The sample must fit in `memory`. With `csv`, the header and `k` records,
        as in `shuffle`."""
        number, chosen = whole("k", k), whole("seed", seed)
        rows = self._rows("sample", csv, separator, header)
        with telling(None, ("read input",)) as tell:
            lines, skipped = _outcore.sample_lines(self._request, number, chosen, rows, tell)
        _tell_skipped(skipped)
        return lines

    def _rows(
        self, job: str, csv: bool, separator: str | None, header: bool
    ) -> CsvRows | None:
        """The options for reading records of CSV, if the files are CSV."""
        rows = csv_rows(job, csv, separator, header)
        if rows is None:
            return None
        if self._request["steps"]:
            raise usage(job, "an earlier step took the header for a line", "write its result to a file first")
        if self._request["terminator"] != ord("\n"):
            raise usage(
                job, "records of CSV end with newlines", "open the files without zero_terminated"
            )
        return rows

    # Type checkers know the attributes.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def _first_items(self) -> Iterable[str]:
        # A character takes at most 4 bytes.
        return (line[: 4 * ITEM_CHARACTERS].decode(errors="replace") for line in self.head(ROWS))

    def __iter__(self) -> Iterator[list[bytes]]:
        """All lines in order, in lists."""
        rest, end = b"", bytes([self._request["terminator"]])
        batches = _outcore.batches(self._request)
        for data in batches:
            lines = (rest + data).split(end)
            rest = lines.pop()
            if lines:
                yield lines
        if rest:
            yield [rest]
        _tell_skipped(batches.skipped)


def _is_other_text(name: str) -> bool:
    """Whether a file of this machine begins with a letter or a digit, as no line of JSON objects does."""
    if not os.path.isfile(name) or name.endswith((".gz", ".zst", ".bz2", ".xz")):
        return False
    with open(name, "rb") as file:
        return file.read(1).isalnum()


def csv_rows(job: str, csv: bool, separator: str | None, header: bool) -> CsvRows | None:
    """The options for reading records of CSV, if the lines are CSV."""
    if separator is not None and len(os.fsencode(separator)) != 1:
        raise usage(job, "the separator is not one byte", "give one character of ASCII")
    if not arguments.truth("csv", csv):
        if separator is not None or not header:
            raise usage(job, "separator and header are for CSV, but csv is not True", "give csv=True as well")
        return None
    return (None if separator is None else os.fsencode(separator)[0], arguments.truth("header", header))


def _sort_step(given: dict[str, Any], *, merges: bool = False, counts: bool = False) -> SortLinesStep:
    """The step of a sort, a merge or a check with these arguments of `sort`."""
    words = Words()
    words.given("sort", _verbs._OPTIONS, given)
    return SortLinesStep(sort=words.options, merges=merges, counts=counts)


def _tell_skipped(count: int) -> None:
    """Warns about lines that were left out, if no summary has their number."""
    if count:
        warnings.warn(f"left out {counted(count, 'line')} without a key", stacklevel=3)
