"""Checks a sorted output independently of outcore: order, count and an order-independent checksum.

Modes:
  u64      raw files of little-endian u64, read one after the other as one sequence (so shards are given in order)
  parquet  one Parquet file with a column `k` of u64
  gensort  raw files of 100-byte records, ordered by the first 10 bytes and then by the whole record

Prints one JSON object: {"records", "sum", "mix", "sorted", "first_unsorted", "sha256"}. `sum` and `mix` are sums modulo
2^64: of the keys, and of the keys (or whole records) after splitmix64's finaliser. Two files with equal counts, sums
and mixes hold the same records up to a chance of about 2^-64. `sha256` (with --sha256) is over the bytes in order.
Memory: a few chunks of 32 MiB. Every byte is read once.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator

import numpy

CHUNK_BYTES = 32 << 20
GENSORT_RECORD_BYTES = 100
GENSORT_KEY_BYTES = 10


def splitmix(values: numpy.ndarray) -> numpy.ndarray:
    """splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection on u64, so equal values mix equally."""
    mixed = values + numpy.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> numpy.uint64(31))


class Check:
    """Running order and checksum over chunks that arrive in output order."""

    def __init__(self) -> None:
        self.records = 0
        self.key_sum = numpy.uint64(0)
        self.mix_sum = numpy.uint64(0)
        self.first_unsorted = None
        self.digest = None

    def note_unsorted(self, chunk_index: int) -> None:
        if self.first_unsorted is None:
            self.first_unsorted = self.records + chunk_index

    def report(self) -> dict:
        return {
            "records": self.records,
            "sum": int(self.key_sum),
            "mix": int(self.mix_sum),
            "sorted": self.first_unsorted is None,
            "first_unsorted": self.first_unsorted,
            "sha256": self.digest.hexdigest() if self.digest else None,
        }


def raw_chunks(paths: list[str], unit_bytes: int, digest) -> Iterator[bytes]:
    for path in paths:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_BYTES // unit_bytes * unit_bytes):
                if digest:
                    digest.update(chunk)
                if len(chunk) % unit_bytes:
                    raise SystemExit(f"{path}: size is not a multiple of {unit_bytes} bytes")
                yield chunk


def key_chunks(arguments: argparse.Namespace, digest) -> Iterator[numpy.ndarray]:
    if arguments.mode == "parquet":
        import pyarrow.parquet

        for path in arguments.files:
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=1 << 20, columns=["k"]):
                yield batch.column(0).to_numpy().astype("<u8", copy=False)
    else:
        for chunk in raw_chunks(arguments.files, 8, digest):
            yield numpy.frombuffer(chunk, dtype="<u8")


def check_keys(arguments: argparse.Namespace, check: Check) -> None:
    last = None
    for keys in key_chunks(arguments, check.digest):
        if last is not None and keys[0] < last:
            check.note_unsorted(0)
        falls = numpy.flatnonzero(keys[1:] < keys[:-1])
        if len(falls):
            check.note_unsorted(int(falls[0]) + 1)
        check.key_sum += keys.sum(dtype=numpy.uint64)
        check.mix_sum += splitmix(keys).sum(dtype=numpy.uint64)
        check.records += len(keys)
        last = keys[-1]


def mix_records(records: numpy.ndarray) -> numpy.ndarray:
    """One u64 per record: its 12 words and 4 last bytes, mixed one after the other so that their positions matter."""
    words = numpy.ascontiguousarray(records[:, :96]).view("<u8")
    mixed = splitmix(numpy.ascontiguousarray(records[:, 96:]).view("<u4")[:, 0].astype(numpy.uint64))
    for column in range(words.shape[1]):
        mixed = splitmix(mixed ^ words[:, column])
    return mixed


def check_gensort(arguments: argparse.Namespace, check: Check) -> None:
    last = b""
    for chunk in raw_chunks(arguments.files, GENSORT_RECORD_BYTES, check.digest):
        records = numpy.frombuffer(chunk, dtype=numpy.uint8).reshape(-1, GENSORT_RECORD_BYTES)
        high = numpy.ascontiguousarray(records[:, :8]).view(">u8")[:, 0].astype(numpy.uint64)
        low = numpy.ascontiguousarray(records[:, 8:GENSORT_KEY_BYTES]).view(">u2")[:, 0]
        if records[0].tobytes() < last:
            check.note_unsorted(0)
        same_high = high[1:] == high[:-1]
        falls = (high[1:] < high[:-1]) | (same_high & (low[1:] < low[:-1]))
        # Few keys are equal, so whole records are compared only for those.
        for index in numpy.flatnonzero(same_high & (low[1:] == low[:-1])):
            falls[index] |= records[index + 1].tobytes() < records[index].tobytes()
        if falls.any():
            check.note_unsorted(int(numpy.flatnonzero(falls)[0]) + 1)
        check.key_sum += high.sum(dtype=numpy.uint64)
        check.mix_sum += mix_records(records).sum(dtype=numpy.uint64)
        check.records += len(records)
        last = records[-1].tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["u64", "parquet", "gensort"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--sha256", action="store_true")
    arguments = parser.parse_args()
    check = Check()
    if arguments.sha256:
        check.digest = hashlib.sha256()
    with numpy.errstate(over="ignore"):
        if arguments.mode == "gensort":
            check_gensort(arguments, check)
        else:
            check_keys(arguments, check)
    print(json.dumps(check.report()))


if __name__ == "__main__":
    main()
