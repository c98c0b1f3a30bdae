"""Hints in errors for words and operations of other libraries.

Contract: `of_keyword`, `unknown_name` and `unknown_attribute` return what does the same here, if there is
something. A hint names only keywords of the called function, and functions that exist. `with_hints` adds the
hint to the `TypeError` of a call, and `add_hints` to the operations that a class does not have. Nothing else
changes: signature, documentation and pickling are those of the function.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ._equivalent_words import (
    KEYWORDS,
    OF_ANY,
    OF_COLUMNS,
    OF_DATASETS,
    OF_GRAPH_MODULE,
    OF_GRAPHS,
    OF_LINES,
    OF_METHOD,
    OF_MODULE,
    OF_TABLES,
    OPERATIONS,
    OPERATIONS_OF,
    Use,
)
from ._errors import OutcoreError

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_POSITIONAL = re.compile(r"takes .*positional arguments? but|multiple values for argument")
_MISSING = re.compile(r"missing \d+ required .*argument")
_Function = TypeVar("_Function", bound=Callable[..., Any])
#: The calls that make objects whose class has no call for users.
_MADE_BY = {"Dataset.__init__": "outcore.open(a)", "Lazy.__init__": "outcore.open(a)", "Held.__init__": "outcore.table(a)"}
#: The functions that read tables, which the package adds.
READERS_OF_TABLES: list[Callable[..., Any]] = []
#: The largest number of keywords that a hint lists.
_LISTED_MAX = 9
_OWNERS: dict[str, dict[str, Use]] = {
    "Table": OF_TABLES,
    "Column": OF_COLUMNS,
    "Graph": OF_GRAPHS,
    "Dataset": OF_DATASETS,
    "Lines": OF_LINES,
}


def unknown_name(module: str, name: str, known: Iterable[str], classes: Mapping[str, type]) -> AttributeError:
    """The error for a name that a module does not have, with the equivalent of another library's. `classes` are
    those whose methods are taken for functions, by the expression that makes an object of them."""
    use = (OF_MODULE if module == "outcore" else OF_GRAPH_MODULE).get(name)
    hint = "" if use is None else f"; {use.code} {use.meaning}"
    if not hint and not name.startswith("_"):
        hint = _method(name, classes) or _near(module, name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _method(name: str, classes: Mapping[str, type]) -> str:
    """The hint for a method that is taken for a function, if there is such a method."""
    for made, kind in classes.items():
        if hasattr(kind, name):
            return f"; it is a method: {made}.{name}"
        use = _OWNERS.get(kind.__name__, {}).get(name)
        if use is not None:
            return f"; {use.code} {use.meaning}, with {_variable(use)} = {made}"
    return ""


def _variable(use: Use) -> str:
    """The object that an expression is over."""
    found = re.search(r"\b([tdlg])\b", use.code)
    return "t" if found is None else found[1]


def _near(module: str, name: str, known: Iterable[str]) -> str:
    """The hint for a misspelled name."""
    names = [one for one in known if not one.startswith("_")]
    near = [one for one in names if name.lower() in one.lower().split("_")]
    near += difflib.get_close_matches(name, names, 1, 0.75)
    return f"; did you mean {module}.{near[0]}?" if near else ""


def of_keyword(function: Callable[..., Any], keyword: str) -> str | None:
    """The hint for a keyword that a function does not have, if it has an equivalent."""
    known = inspect.signature(function).parameters
    others = () if "self" in known else (OF_METHOD,)
    equivalents = KEYWORDS.get(f"{function.__name__}.{keyword}") or KEYWORDS.get(keyword, ())
    uses = (
        equivalent.use
        for equivalent in equivalents
        if equivalent.keyword not in others and (equivalent.keyword == OF_ANY or equivalent.keyword in known)
    )
    return next(uses, None)


def _of_reader(function: Callable[..., Any], keyword: str) -> str | None:
    """The hint for a keyword of `open` that only tables have."""
    if function.__name__ != "open" or not READERS_OF_TABLES:
        return None
    known = inspect.signature(READERS_OF_TABLES[0]).parameters
    named = [keyword] if keyword in known else []
    named += [equivalent.keyword for equivalent in KEYWORDS.get(keyword, ()) if equivalent.keyword in known]
    if named:
        return f"outcore.table has {named[0]}= for tables"
    if keyword in ("header", "has_header", "names"):
        return "outcore.convert(src, header=False) is a table of CSV without a line of names"
    return "outcore.open(src).head(10) is the first items" if keyword in ("nrows", "n_rows", "limit") else None


def _keywords(function: Callable[..., Any], keyword: str | None = None) -> str:
    """The hint that names the keywords of a function, or the nearest one."""
    known = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [one.name for one in known if one.kind in kinds and one.name != "self"]
    near = difflib.get_close_matches(keyword or "", names, 1, 0.7)
    if near:
        return f"did you mean {near[0]}=?"
    if not names:
        told = _first_sentence(function)
        return "it has no keywords" if told is None else f"it has no keywords: {told}"
    if len(names) > _LISTED_MAX:
        module = "outcore.graph" if function.__module__ == "outcore.graph" else "outcore"
        return f"help({module}.{function.__qualname__.removesuffix('.__init__')}) lists its keywords"
    others = [f"*{one.name}" for one in known if one.kind is inspect.Parameter.VAR_POSITIONAL]
    return "its arguments are " + ", ".join([f"{one}=" for one in names] + others)


def _of_call(function: Callable[..., Any], text: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> str | None:
    """The hint for an error of the call itself."""
    unexpected = _UNEXPECTED.search(text)
    if unexpected is not None:
        word = unexpected[1]
        return _of_reader(function, word) or of_keyword(function, word) or _keywords(function, word)
    made = _MADE_BY.get(function.__qualname__)
    if made is not None:
        return f"{made} makes one"
    is_method = "self" in inspect.signature(function).parameters
    if _POSITIONAL.search(text):
        files = [one for one in args if isinstance(one, os.PathLike) or isinstance(one, str) and "." in one]
        known = inspect.signature(function).parameters
        if function.__name__ == "zip" and len(files) > 1:
            return 'zip="b.npy" is the second input'
        if not is_method and len(files) > 1 and next(iter(known)) == "src":
            return f'several inputs are one list: {function.__name__}(["a", "b"], dst)'
        if "count" in known and any(isinstance(one, int) for one in args):
            return "count= is the number of items"
        takes_file = any(name in known for name in ("dst", "pattern", "path"))
        written = "write(...) of the result writes a file; " if is_method and files and not takes_file else ""
        return written + _keywords(function)
    if _MISSING.search(text):
        # A function with keywords of any name also takes the words of other libraries.
        missing = (of_keyword(function, word) for word in given)
        said = next((use for use in missing if use is not None and f"'{use.split('=')[0]}'" in text), None)
        return said or _first_sentence(function)
    return None


def _first_sentence(function: Callable[..., Any]) -> str | None:
    """What a method does."""
    if "self" not in inspect.signature(function).parameters or not function.__doc__ or function.__name__ == "__init__":
        return None
    told = " ".join(function.__doc__.split()).split(". ")[0].split(": ")[0].rstrip(".:,")
    return f"{function.__name__} is: {told[:1].lower()}{told[1:]}"


def _is_column(table: Any, name: str) -> bool:
    """Whether a table has a column of this name; not if it cannot be read."""
    try:
        return not name.startswith("_") and name in table.columns
    except OutcoreError:
        return False


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """The error for an attribute that an object does not have, with the equivalent of another library's."""
    kind = type(owner).__name__
    use = _OWNERS.get(kind, {}).get(name)
    hint = "" if use is None else f"; {use.code} {use.meaning}"
    if kind == "Table" and not hasattr(type(owner), name) and _is_column(owner, name):
        hint = f'; t["{name}"] takes a column of this name'
    return AttributeError(f"{kind} has no attribute {name!r}{hint}", name=name, obj=owner)


def with_hints(function: _Function) -> _Function:
    """The function, with a hint in the error for arguments that it does not have."""

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            # An error of the call itself has no frame of the function.
            frame = error.__traceback__
            if frame is None or frame.tb_next is not None:
                raise
            hint = _of_call(function, str(error), args, given)
            if hint is None:
                raise
            raise TypeError(f"{error}; {hint}") from None

    return call  # type: ignore[return-value]


def add_hints(owner: type) -> None:
    """Adds the hints to all public methods of a class, and to the operations that it does not have."""
    for name, method in list(vars(owner).items()):
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__init__"):
            setattr(owner, name, with_hints(method))
    refused = OPERATIONS_OF.get(owner.__name__, {})
    for name, use in refused.items():
        setattr(owner, name, _refusal(owner.__name__, name, use))
    if "__len__" in refused:
        # Without it, a class with a length is true if the length is not 0.
        owner.__bool__ = lambda self: True  # type: ignore[attr-defined]


def _refusal(kind: str, name: str, use: Use) -> Callable[..., Any]:
    """The method for an operation that a class does not have."""

    def refuse(*_: object) -> Any:
        raise TypeError(f"{kind} does not support {OPERATIONS[name]}; {use.code} {use.meaning}")

    refuse.__name__ = name
    return refuse
