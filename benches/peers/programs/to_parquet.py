"""Writes a raw file of little-endian u64 keys as an uncompressed Parquet file with one column `k`.

Row groups of 2^20 keys, plain encoding: a dictionary would cost the readers time without saving space on uniform keys.
Memory: one row group.

Usage: to_parquet.py INPUT OUTPUT
"""

import sys

import numpy
import pyarrow
import pyarrow.parquet

ROW_GROUP_KEYS = 1 << 20


def main() -> None:
    source, target = sys.argv[1:3]
    schema = pyarrow.schema([pyarrow.field("k", pyarrow.uint64(), nullable=False)])
    writer = pyarrow.parquet.ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=True
    )
    with open(source, "rb") as file, writer:
        while True:
            keys = numpy.fromfile(file, dtype="<u8", count=ROW_GROUP_KEYS)
            if len(keys) == 0:
                break
            writer.write_table(pyarrow.table([pyarrow.array(keys)], schema=schema), row_group_size=ROW_GROUP_KEYS)


if __name__ == "__main__":
    main()
