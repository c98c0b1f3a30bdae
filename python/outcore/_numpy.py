"""NumPy, for functions that return or take arrays.

Contract: `from ._numpy import numpy` inside such a function returns the module, or raises a
`UsageError` that says how to install it. Modules do not import this at their top, so the package
works without NumPy.
"""

from __future__ import annotations

from ._libraries import library

library("numpy", "use arrays")

import numpy

__all__ = ["numpy"]
