#!/usr/bin/env python3
"""The conformance kit for Python: the data of the cases, and their expected order.

`cases()` returns the table, `fill(case)` a case's input, and `sort(data, format, options)` the
result of the naive sort. Data and order are those of `support/patterns.rs` and
`support/oracle.rs`, implemented again from their definitions. Run as a program, this file checks
every case of at most RECORDS records (its argument, by default 3000) against the table's checksums.
"""

import functools
import json
import pathlib
import struct
import sys
import zlib

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SPECIAL = [bytes.fromhex(x) for x in
           "0000 ffff 8000 7fff 7f80 ff80 7fc0 ffc0 7ff0 fff0 7ff8 fff8".split()]
FILL = [b"\x00", b"\xff", b"\x00\x01", b"\x80\x00"]
NUMBERS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16,
           "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f32": 4, "f64": 8}


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@functools.lru_cache(maxsize=4096)
def _start(seed, stream):
    return mix((seed + stream * GOLDEN) & MASK)


def random(seed, stream, n):
    return mix((_start(seed, stream) + n * GOLDEN) & MASK)


def random_bytes(seed, stream, counter, length):
    words = (random(seed, 100 * stream + k, counter) for k in range(-(-length // 8)))
    return b"".join(word.to_bytes(8, "little") for word in words)[:length]


class Key:
    """A key field: `kind` is a number type or None for bytes."""

    def __init__(self, offset, length, kind=None, endian="little", descending=False):
        self.offset, self.length, self.kind = offset, length, kind
        self.endian, self.descending = endian, descending

    def elements(self):
        width = NUMBERS[self.kind] if self.kind else self.length
        is_reversed = self.kind is not None and self.endian == "little" and width > 1
        return [(at, width, is_reversed)
                for at in range(self.offset, self.offset + self.length, width)]


def _number(text):
    endian = "big" if text.endswith("be") else "little"
    name = text[:-2] if text.endswith(("be", "le")) else text
    return (name, endian) if name in NUMBERS else None


def parse(text):
    """A record format as text: (bytes of a record, keys)."""
    if text == "gensort":
        return 100, [Key(0, 10)]
    if "/" in text:
        size, fields = text.split("/")
        keys = []
        for field in fields.split(","):
            offset, length, *rest = field.split(":")
            descending = "desc" in rest
            kinds = [_number(word) for word in rest if word not in ("desc", "asc", "bytes")]
            keys.append(Key(int(offset), int(length), *(kinds[0] if kinds else (None, "big")),
                            descending))
        return int(size), keys
    if text.startswith("bytes"):
        return int(text[5:]), [Key(0, int(text[5:]))]
    name, _, count = text.partition("x")
    kind, endian = _number(name)
    length = NUMBERS[kind] * int(count or 1)
    return length, [Key(0, length, kind, endian)]


def _element(values, seed, i, n, e, per_record, width):
    counter = i * per_record + e
    a, b = random(seed, 2, counter), random(seed, 3, counter)
    name, _, argument = values.partition(":")

    def of_number(number):
        return random_bytes(seed, 5, (number * per_record + e) & MASK, width)

    def number_bytes(number):
        return (number & ((1 << 8 * width) - 1)).to_bytes(width, "big")

    if name == "few":
        return of_number(a % int(argument))
    if name == "zipf":
        return of_number(b % (1 << a % 21))
    if name == "periodic":
        return of_number(i % int(argument))
    if name == "sorted":
        return number_bytes(i)
    if name == "reversed":
        return number_bytes(n - 1 - i)
    if name == "special":
        fill = (FILL[b % 4] * width)[:width]
        return (SPECIAL[a % 12] + fill[2:])[:width]
    if name == "narrow" and a % 1000 != 0:
        return number_bytes(100 + b % 4096)
    uniform = random_bytes(seed, 4, counter, width)
    if name == "exponential":
        zeros = a % (width + 1)
        return bytes(zeros) + uniform[zeros:]
    if name == "prefix":
        free = min(1 + a % 2, width)
        return b"\x5a" * (width - free) + uniform[width - free:]
    return uniform


def fill(case):
    """The input of a case of the table."""
    size, keys = parse(case["format"])
    elements = [element for key in keys for element in key.elements()]
    seed, n, out = case["seed"], case["records"], bytearray()
    for i in range(n):
        if case["payload"] == "random":
            record = bytearray(random_bytes(seed, 1, i, size))
        else:
            record = bytearray([random(seed, 1, i) % 4]) * size
        for e, (offset, width, is_reversed) in enumerate(elements):
            element = _element(case["values"], seed, i, n, e, len(elements), width)
            record[offset:offset + width] = element[::-1] if is_reversed else element
        out += record
    return bytes(out)


def _ordinal(data, kind, endian, by_bits):
    """A number as a value in comparison order; NaNs by their bits, if these count."""
    if kind[0] != "f":
        return int.from_bytes(data, endian, signed=kind[0] == "i")
    bits = int.from_bytes(data, endian)
    value = struct.unpack((">" if endian == "big" else "<") + "fd"[len(data) == 8], data)[0]
    if value != value:
        return (1, bits if by_bits else 0, 0)
    return (0, value, 0 if bits >> (8 * len(data) - 1) else 1)


def _compare(a, b):
    return (a > b) - (a < b)


def _compare_keys(a, b, keys, is_descending):
    for key, one, other in zip(keys, a, b):
        order = _compare(one, other)
        if order:
            return -order if key.descending != is_descending else order
    return 0


def _key_of(record, keys, by_bits=False):
    parts = []
    for key in keys:
        field = record[key.offset:key.offset + key.length]
        if key.kind is None:
            parts.append(field)
        else:
            width = NUMBERS[key.kind]
            parts.append([_ordinal(field[at:at + width], key.kind, key.endian, by_bits)
                          for at in range(0, key.length, width)])
    return parts


def sort(data, format, options=()):
    """The expected output: by key, then by the bits of NaNs and all bytes (with `stable`, by position)."""
    size, keys = parse(format)
    is_descending = "descending" in options
    records = [data[at:at + size] for at in range(0, len(data), size)]
    entries = [(_key_of(record, keys), record) for record in records]

    def order(a, b):
        by_key = _compare_keys(a[0], b[0], keys, is_descending)
        if by_key or "stable" in options:
            return by_key
        bits = [_key_of(record, keys, by_bits=True) for record in (a[1], b[1])]
        return _compare_keys(*bits, keys, is_descending) or _compare(a[1], b[1])

    entries.sort(key=functools.cmp_to_key(order))
    out, last = [], None
    for key, record in entries:
        if "unique" in options and last is not None:
            if _compare_keys(key, last, keys, is_descending) == 0:
                continue
        last = key
        out.append(record)
    return b"".join(out)


def cases():
    """The table."""
    path = pathlib.Path(__file__).with_name("cases.json")
    return json.loads(path.read_text())


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    checked = 0
    for case in cases():
        if case["records"] > limit:
            continue
        data = fill(case)
        assert zlib.crc32(data) == case["input_crc32"], f"input of {case['name']}"
        output = sort(data, case["format"], case["options"])
        assert zlib.crc32(output) == case["output_crc32"], f"output of {case['name']}"
        checked += 1
    print(f"{checked} cases agree")


if __name__ == "__main__":
    main()
