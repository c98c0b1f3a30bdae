"""The common part of datasets of records and of lines: a request that grows by steps."""

from __future__ import annotations

import html
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, SupportsIndex

from . import _arguments as arguments
from . import _outcore
from ._preview import ROWS, cut
from ._progress import Watcher, telling
from ._reports import WriteSummary
from ._summary import report_of
from ._units import whole
from ._requests import CsvRows, DatasetRequest, ShuffleStep, StepRequest, WriteTo


#: Keys of a request that mark steps which process one item after another and need not read all items first.
_STREAMED = {"condition", "expression", "expressions", "numbered", "window"}
#: Characters of an item that a notebook shows.
ITEM_CHARACTERS = 100


class Lazy(ABC):
    """Files, the steps on each item, and the resources."""

    def __init__(self, request: DatasetRequest) -> None:
        if not isinstance(request, dict):
            raise TypeError(f"{type(self).__name__} is not made of names of files; outcore.open(a) makes one")
        self._request = request
        self._type, self._item_bytes, self._steps, self._header = _outcore.describe(request)

    def __repr__(self) -> str:
        return f"<outcore.{type(self).__name__}: {self._steps}>"

    def _repr_html_(self) -> str:
        """For notebooks: the steps, the plan, and the first items if nothing else must be read."""
        rows = "".join(f"<tr><td>{html.escape(row)}</td></tr>" for row in self._first_rows())
        first = f"<table><tbody>{rows}</tbody></table>" if rows else ""
        plan = f"<details><summary>plan</summary><pre>{html.escape(self.explain())}</pre></details>"
        return f"<div><p>{html.escape(repr(self))}</p>{first}{plan}</div>"

    def _first_rows(self) -> list[str]:
        """The first items as text; none if a step has to read all items first."""
        if any(not _STREAMED.intersection(step) for step in self._request["steps"]):
            return []
        return [cut(str(item), ITEM_CHARACTERS) for item in self._first_items()]

    @abstractmethod
    def _first_items(self) -> Iterable[Any]:
        """At most `ROWS` items, from the front."""

    def explain(self) -> str:
        """The passes over the files, in order, with the plan of the first pass. Headers are read, and a sample if the
        plan depends on one."""
        return _outcore.explain(self._request, "consume")

    def write(
        self,
        dst: arguments.StrPath,
        *,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> WriteSummary:
        """Writes all items, in order; the output appears whole or not at all.

        Args:
            dst: The destination of the result, as in `sort`. For records, a name that ends in
                `.npy` gets a header, and one with `{drive}` in it becomes one shard per drive. For
                lines, a name that ends in `.gz`, `.zst`, `.bz2` or `.xz` is compressed. Names whose
                ending does not match the data (`.parquet`, `.npz`, `.csv` for records) are
                rejected.
            force: Replace an output that exists; never an input.
            progress: As in `sort`.
        """
        to = WriteTo(output=os.fsdecode(dst), force=arguments.truth("force", force))
        with telling(progress, ("write",)) as tell:
            return report_of(WriteSummary, *_outcore.write(self._request, to, tell))

    def _with(self, step: StepRequest) -> DatasetRequest:
        return DatasetRequest({**self._request, "steps": [*self._request["steps"], step]})

    def _shuffle_step(
        self, seed: SupportsIndex, epoch: SupportsIndex, csv: CsvRows | None = None
    ) -> ShuffleStep:
        return ShuffleStep(shuffle_seed=whole("seed", seed), epoch=whole("epoch", epoch), csv=csv)
