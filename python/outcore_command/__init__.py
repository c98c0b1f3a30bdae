"""The commands `outcore` and `outcore-lab` of the wheel.

Contract: each function is the entry point of a script. It loads the native module alone, without the
package `outcore`, whose import takes many times as long as a short command. The process ends with the
command's exit code.
"""

from __future__ import annotations

import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import NoReturn

_NATIVE = "_outcore"
_FOLDER = Path(__file__).resolve().parent.parent / "outcore"


def outcore() -> NoReturn:
    """The command `outcore`."""
    _run(is_lab=False)


def lab() -> NoReturn:
    """The command `outcore-lab`."""
    _run(is_lab=True)


def _run(*, is_lab: bool) -> NoReturn:
    # A Ctrl-C before the command has its own handlers ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    spec = PathFinder.find_spec(_NATIVE, [str(_FOLDER)])
    if spec is None or spec.loader is None:
        sys.exit(f"outcore: {_FOLDER} has no native module; install the package outcore again")
    native = module_from_spec(spec)
    spec.loader.exec_module(native)
    sys.exit(native.run_command(sys.argv, is_lab))
