"""Sorts the column `k` of a Parquet file into another one with Polars' streaming engine.

The settings that made it keep its memory limit are environment variables that are read when the module loads:
POLARS_OOC_MEMORY_BUDGET_MB, POLARS_MAX_THREADS and POLARS_TEMP_DIR (set by the caller).

Usage: polars_sort.py INPUT OUTPUT
"""

import sys

import polars


def main() -> None:
    source, target = sys.argv[1:3]
    polars.scan_parquet(source).sort("k").sink_parquet(target, compression="uncompressed", engine="streaming")


if __name__ == "__main__":
    main()
