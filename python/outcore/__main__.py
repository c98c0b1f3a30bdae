"""`python -m outcore`: the command `outcore`."""

import sys

from outcore_command import outcore

if __name__ == "__main__":
    sys.argv[0] = "outcore"
    outcore()
