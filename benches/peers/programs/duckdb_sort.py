"""Sorts the column `k` of a Parquet file into another one with DuckDB.

Settings that made it keep its memory limit: `memory_limit`, two threads, no insertion order, a temporary directory on
the measured disk. The Parquet output is uncompressed, as for every tool here that reads Parquet.

Usage: duckdb_sort.py INPUT OUTPUT MEMORY_BYTES THREADS SCRATCH_DIR
"""

import sys

import duckdb


def main() -> None:
    source, target, memory_bytes, threads, scratch = sys.argv[1:6]
    config = {
        # DuckDB reads MB as 10^6; a number of bytes is exact.
        "memory_limit": f"{int(memory_bytes)}B",
        "threads": int(threads),
        "preserve_insertion_order": False,
        "temp_directory": scratch,
    }
    connection = duckdb.connect(config=config)
    connection.execute(
        f"COPY (SELECT k FROM read_parquet('{source}') ORDER BY k) "
        f"TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)"
    )


if __name__ == "__main__":
    main()
