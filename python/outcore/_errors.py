"""Exceptions: one class for each kind of failure, with all facts as attributes.

Every failure of the engine is an `OutcoreError`, and also Python's class for such a failure
(`ValueError`, `OSError`, ...), so that code that does not know outcore can catch it. The text is
the line that the command prints (operation, cause, place, next step) with options spelled as
arguments: `--force` is `force=True`. Ctrl-C is, as always in Python, a `KeyboardInterrupt`.
"""

from __future__ import annotations

import errno as errnos
import os
from typing import Any, TypedDict


class OutcoreError(Exception):
    """A failure of outcore; `str()` of it is one line with cause, place and next step."""

    #: The class of the failure, as in the command's JSON: `usage`, `io`, `corrupt`, ...
    kind: str = "io"
    #: The exit code that the command would have.
    exit_code: int = 3
    #: The operation that failed.
    operation: str | None = None
    #: The cause.
    cause: str | None = None
    #: The drive, if a drive is the cause.
    drive: str | None = None
    #: The file or directory, if it is known.
    path: str | None = None
    #: The byte offset in that file, if it is known.
    offset: int | None = None
    #: The system's error number, if there is one.
    errno: int | None = None
    #: The next step.
    hint: str | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def call_file(self, path: str, name: str) -> None:
        """Replaces `path` with `name` in this failure, because the caller has never seen that file."""
        self.reword(path, name)
        if self.path == path:
            self.path = None

    def reword(self, before: str, after: str) -> None:
        """Replaces words of the engine by those of the caller."""
        self.args = (str(self).replace(before, after),)
        for attribute in ("cause", "hint"):
            text = getattr(self, attribute)
            if text is not None:
                setattr(self, attribute, text.replace(before, after))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


class UsageError(OutcoreError, ValueError):
    """The request is invalid: an unknown type, a key beyond the record, an existing file in the way."""

    kind = "usage"
    exit_code = 2


class IoError(OutcoreError, OSError):
    """The operating system refused or failed an operation."""

    kind = "io"
    exit_code = 3


class NotFoundError(IoError, FileNotFoundError):
    """A file or directory does not exist."""


class AccessError(IoError, PermissionError):
    """A file or directory may not be read or written."""


class CorruptError(OutcoreError):
    """Data differ from what was written, or changed while they were read."""

    kind = "corrupt"
    exit_code = 4


class NoSpaceError(OutcoreError, OSError):
    """A drive has too little room, or the limit on scratch is too low."""

    kind = "no_space"
    exit_code = 5


class MemoryBudgetError(OutcoreError, MemoryError):
    """The allowed memory is too small for the job; the text names an amount that is enough."""

    kind = "memory"
    exit_code = 6


class CheckFailedError(OutcoreError):
    """A check failed."""

    kind = "check_failed"
    exit_code = 1


class Facts(TypedDict):
    """The engine's facts about a failure."""

    kind: str
    exit_code: int
    text: str
    operation: str
    cause: str
    drive: str | None
    path: str | None
    offset: int | None
    errno: int | None
    hint: str | None


_CLASSES: dict[str, type[BaseException]] = {
    "usage": UsageError,
    "io": IoError,
    "corrupt": CorruptError,
    "no_space": NoSpaceError,
    "memory": MemoryBudgetError,
    "check_failed": CheckFailedError,
    # The class itself: for a subclass, Python would not use the exit code of an interrupted
    # program.
    "interrupted": KeyboardInterrupt,
}
_IO_CLASSES: dict[int | None, type[IoError]] = {
    errnos.ENOENT: NotFoundError,
    errnos.EACCES: AccessError,
    errnos.EPERM: AccessError,
}


def from_engine(**facts: Any) -> BaseException:
    """The exception for a failure; called by the native module with the keys of `Facts`."""
    found = _CLASSES.get(facts["kind"], OutcoreError)
    if found is IoError:
        found = _IO_CLASSES.get(facts["errno"], IoError)
    text = facts.pop("text")
    if issubclass(found, OSError):
        # Attributes for code that knows only OSError.
        facts.update(strerror=facts["cause"], filename=facts["path"])
    return _restore(found, (text,), facts)


def usage(operation: str, cause: str, hint: str) -> UsageError:
    """An invalid request that is found before the engine is called."""
    error = UsageError(f"{operation}: {cause}; {hint}")
    error.operation, error.cause, error.hint = operation, cause, hint
    return error


def failed(
    operation: str, kind: str, cause: str, path: str, *, hint: str, errno: int | None = None
) -> BaseException:
    """A failure on a file that is read without the engine, in the engine's form."""
    return from_engine(
        kind=kind,
        text=f"{operation}: {cause} ({path}); {hint}",
        operation=operation,
        cause=cause,
        path=path,
        errno=errno,
        hint=hint,
    )


def absent(operation: str, path: str) -> BaseException:
    """The engine's failure for a file that does not exist."""
    cause = f"{os.strerror(errnos.ENOENT)} (os error {errnos.ENOENT})"
    return failed(operation, "io", cause, path, hint="check the path", errno=errnos.ENOENT)


def too_large(operation: str, cause: str, hint: str) -> MemoryBudgetError:
    """The error for a request above the allowed memory, found before the engine is called."""
    error = MemoryBudgetError(f"{operation}: {cause}; {hint}")
    error.operation, error.cause, error.hint = operation, cause, hint
    return error


def _restore(
    kind: type[BaseException], args: tuple[Any, ...], facts: dict[str, Any]
) -> BaseException:
    error = kind(*args)
    for name, value in facts.items():
        setattr(error, name, value)
    return error
