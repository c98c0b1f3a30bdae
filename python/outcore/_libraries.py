"""Libraries that parts of the package need and that may not be installed.

Contract: `library` imports one, or raises a `UsageError` that says which operation needs it and how
to install it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from ._errors import usage

#: The name under which a module is installed, if it differs from the name to import.
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def library(name: str, operation: str) -> ModuleType:
    """The module, for an operation: "read record batches"."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        # The library is installed, but lacks a dependency of its own.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        package = _DISTRIBUTIONS.get(package, package)
        raise usage(
            operation, f"{package} is not installed", f"install it: python -m pip install {package}"
        ) from None
