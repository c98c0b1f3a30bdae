#!/usr/bin/env python3
"""Makes the input files of the examples in docstrings and help texts, and makes examples small.

Contract: `make` writes all inputs into an empty folder, with the same values in every run and at
most a few hundred KiB each, so that each example gets copies of its own. `placed` makes the inputs
that cannot be copied. Both need NumPy, pyarrow and the package. `small` changes the numbers that
make an example big and the places that a machine may lack, and nothing else: see `CHANGES`.
`remove` clears a name for an example that writes it.

    scripts/example_inputs.py FOLDER                all inputs
    scripts/example_inputs.py FOLDER keys.view ...  inputs of `PLACED`
"""

from __future__ import annotations

import datetime
import gzip
import json
import re
import shutil
import struct
import sys
from glob import glob
from pathlib import Path
from typing import Any

ROWS = 1000
KEYS_COUNT = 4096
COUNTRIES = ("de", "fr", "jp", "us")
# Changes of examples, in order: patterns and what takes their place.
CHANGES = [
    # Counts of records to generate or take.
    (r"(?<!>= )\b(?:\d{7,}|1e[6-9]|10\*\*9)\b", "10000"),
    # The size of a measurement, given or by default.
    (r"(outcore bench .*--size) \d+[MG]i?B", r"\1 4MiB"),
    (r"(outcore bench primitives .*--memory) \S+", r"\1 8MiB"),
    (r"(outcore bench view .*?) --memory .*", r"\1 --memory 16MB --memory 32MB --rounds 1"),
    (r"(outcore bench view .*--size \S+ -o .*)", r"\1 --rounds 1"),
    (r"(outcore bench vectors .*?)(?: --size \S+)?(?: --threads \d+)?( --memory .*|$)",
     r"\1 --size 1MiB\2"),
    (r"(outcore bench graph )(?!.*--scale)", r"\1--scale 10 "),
    (r"(outcore bench graph .*--scale) \d+", r"\1 10"),
    (r"(outcore bench io .*?) --time \S+", r"\1"),
    (r"(outcore bench io (?!.*--load).*)", r"\1 --load randread:4KiB:1"),
    (r"(outcore bench io)\b", r"\1 --size 4MiB --time 50ms"),
    (r"(outcore demo)\b.*?( --dir.*|$)", r"\1 --size 32MiB --memory 32MiB\2"),
    (r"(outcore drives probe)\b", r"\1 --size 4MiB --step 2ms"),
    (r"(outcore sim sweep)\b", r"\1 --drive-size 1GiB"),
    # Drives.
    (r"/mnt/", "{place}/mnt/"),
]
DRIVES = ("a", "b", "nvme0", "nvme1")


def small(text: str, place: Path) -> str:
    """An example for the inputs at `place`."""
    for pattern, change in CHANGES:
        text = re.sub(pattern, change.replace("{place}", str(place)), text)
    return text


def remove(name: str) -> None:
    """Removes the files that an output of this name has, and the manifest of its parts."""
    parts = name.replace("{part}", "[0-9]*").replace("{drive}", "*")
    whole = re.sub(r"\W?\{\w+\}", "", name)
    for path in [Path(found) for text in (parts, f"{whole}.outcore.json") for found in glob(text)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def make(folder: Path) -> None:
    """Writes all inputs into a folder."""
    for drive in DRIVES:
        (folder / "mnt" / drive).mkdir(parents=True)
    rates = 'read_bandwidth = "500MB/s"\nwrite_bandwidth = "400MB/s"\nread_iops = 50000\ndepth = 8\n'
    drives = [f'[[drive]]\nname = "{name}"\ndir = "mnt/{name}"\n{rates}' for name in DRIVES[:2]]
    (folder / "drives.toml").write_text("\n".join(drives))
    _records(folder)
    _text(folder)
    _tables(folder)
    _vectors(folder)
    _edges(folder)
    _traces(folder)
    _made(folder)


def _random() -> Any:
    """The source of all values."""
    import numpy

    return numpy.random.default_rng(7)


def _records(folder: Path) -> None:
    """Raw records and arrays of numbers."""
    import numpy as np

    random = _random()
    keys = random.integers(0, 2 * KEYS_COUNT, KEYS_COUNT, dtype=np.uint64)
    for name in ("keys", "keys-0", "keys-1", "more", "done", "wanted"):
        keys[random.permutation(KEYS_COUNT)].tofile(folder / f"{name}.bin")
    for name in ("monday", "tuesday"):
        np.sort(keys).tofile(folder / f"{name}.bin")
    np.sort(keys).tofile(folder / "sorted.bin")
    random.normal(size=KEYS_COUNT).tofile(folder / "prices.bin")
    # Records of 64 bytes that begin with two numbers; other examples read them as records of 16
    # bytes.
    log = np.zeros((ROWS, 8), np.uint64)
    log[:, 0] = 1_690_000_000 + random.integers(0, 20_000_000, ROWS)
    log[:, 1] = random.integers(0, 100, ROWS)
    for name in ("log", "events"):
        log[random.permutation(ROWS)].tofile(folder / f"{name}.bin")
    log[:, 0] = np.sort(random.integers(0, KEYS_COUNT, ROWS))
    log.tofile(folder / "users.bin")
    # A multiple of 8 and of the 100 bytes of a gensort record.
    for name in ("big.bin", "big.dat", "runs.bin"):
        (folder / name).write_bytes(random.bytes(100 * ROWS))
    random.integers(0, 1 << 16, (64, 1024), dtype=np.uint32).tofile(folder / "tokens.bin")
    arrays = {
        "a": random.normal(size=ROWS),
        "b": random.normal(size=ROWS),
        "counts": random.integers(0, 9, ROWS, dtype=np.uint32),
        "ids": random.integers(0, 99, ROWS, dtype=np.uint64),
        "positions": random.integers(0, ROWS, 100, dtype=np.uint64),
        "sorted": np.sort(keys),
        "wanted": keys[:100],
        "train": random.integers(0, 50, 64, dtype=np.uint32),
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def _text(folder: Path) -> None:
    """Lines, CSV, JSON lines and records of biology."""
    import pyarrow as pa

    random = _random()
    picked = random.integers(0, ROWS, (12, ROWS))
    words = sorted(f"{'klmnop'[at % 6]}ord{at}" for at in picked[0])
    lists = {
        "words": words,
        "queries": words[::10],
        "urls": [f"https://example.org/{at % 300}" for at in picked[1]],
        "done": [f"https://example.org/{at % 200}" for at in picked[2]],
        "big": [f"line {at}" for at in picked[3]],
        "seeds": [str(at % 50) for at in picked[4][:20]],
    }
    for number, name in enumerate(("monday", "tuesday", "old", "new")):
        lists[name] = sorted({f"item {at}" for at in picked[5 + number]})
    for name, lines in lists.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    log = [f"10.0.0.{at % 9} 2024-01-01 GET /{at} {at * 7}" for at in picked[9]]
    (folder / "access.log").write_text("\n".join(log) + "\n")
    (folder / "logs.gz").write_bytes(gzip.compress("\n".join(log).encode() + b"\n", mtime=0))
    for name, width in (("log", 3), ("labels", 2)):
        lines = ["\t".join(map(str, picked[:width, at] % 50)) for at in range(ROWS)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    sheets = {
        "users": ("email,name", "u{0}@example.org,n{1}"),
        "sales": ("country,region,price", "{2},eu,{1}.50"),
        "table": ("region,day,value", "eu,2024-01-{3:02},{1}"),
        "a": ("id,name", "{0},{1}"),
        "b": ("id,city", "{0},{1}"),
        "big": ("", "x,{0},{1}"),
    }
    for name, (header, line) in sheets.items():
        lines = [line.format(at % 300, at, COUNTRIES[at % 4], at % 31 + 1) for at in picked[10]]
        (folder / f"{name}.csv").write_text("\n".join([header] * bool(header) + lines) + "\n")
    for name, step in (("old", 3), ("new", 5)):
        lines = [f"{at},{at % step}" for at in range(ROWS)]
        (folder / f"{name}.csv").write_text("\n".join(["id,value", *lines]) + "\n")
    lines = ["id,price", *(f"{at},{at % 97}.25" for at in range(ROWS))]
    (folder / "t.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", mtime=0))
    objects = [json.dumps({"user": {"id": int(at) % 90}, "time": int(at), "text": f"event {at}"})
               for at in picked[11]]
    text = "".join(f"{line}\n" for line in objects)
    (folder / "train.jsonl").write_text(text)
    (folder / "big.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    with pa.CompressedOutputStream(str(folder / "events.jsonl.zst"), "zstd") as stream:
        stream.write(text.encode())
    calls = [f"{at % 22 + 1}\t{at}\tA\tC" for at in picked[0]]
    (folder / "calls.vcf").write_text("\n".join(["##fileformat=VCFv4.3", "#CHROM\tPOS", *calls]) + "\n")
    reads = [f"@r{at}\n{'ACGT' * (at % 9 + 1)}\n+\n{'IIII' * (at % 9 + 1)}\n" for at in picked[1]]
    (folder / "reads.fastq").write_text("".join(reads))
    (folder / "reads.fastq.gz").write_bytes(gzip.compress("".join(reads).encode(), mtime=0))
    (folder / "images" / "cat").mkdir(parents=True)
    (folder / "images" / "cat" / "0001.png").write_bytes(random.bytes(4096))


def _tables(folder: Path) -> None:
    """Parquet and Arrow."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    random = _random()

    def whole(below: int, count: int = ROWS) -> Any:
        return random.integers(0, below, count)

    def write(name: str, table: Any) -> None:
        path = folder / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(table, path)

    start = datetime.datetime(2023, 7, 1)
    times = [start + datetime.timedelta(minutes=10 * int(at)) for at in whole(60_000)]
    urls = [None if at % 50 == 0 else f"https://example.org/{at}" for at in whole(300)]
    table = pa.table({
        "id": np.arange(ROWS),
        "time": times,
        "day": [time.date() for time in times],
        "country": [COUNTRIES[at] for at in whole(4)],
        "lang": [COUNTRIES[at] for at in whole(4)],
        "host": [f"host{at}" for at in whole(9)],
        "url": urls,
        "name": [f"name {at}" for at in whole(500)],
        "page": [f"/page/{at}" for at in whole(50)],
        "user": whole(90),
        "account": whole(20),
        "amount": whole(1000) / 4,
        "price": whole(10_000) / 100,
        "n": whole(20),
        "qty": whole(20),
        "bytes": whole(1 << 20),
        "ms": random.exponential(20, ROWS),
    })
    write("t", table)
    pa.feather.write_feather(table, str(folder / "t.arrow"))
    with pa.OSFile(str(folder / "t.arrows"), "wb") as file, \
            pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    write("s", table.sort_by([("country", "ascending"), ("time", "descending")]))
    write("visits", table)
    for name in ("logs", "shuffled", "monday", "tuesday"):
        write(f"{name}/0", table.slice(0, ROWS // 2))
        write(f"{name}/1", table.slice(ROWS // 2))
        write(name, table.sort_by([("host", "ascending"), ("time", "descending")]))
    for path in ("logs.parquet", "shuffled.parquet"):
        (folder / path).unlink()
    write("shuffled/0", texts(ROWS))
    write("shuffled/1", texts(ROWS))
    write("docs", texts(ROWS).append_column(
        "embedding", pa.FixedSizeListArray.from_arrays(
            pa.array(random.normal(size=16 * ROWS).astype(np.float32)), 16)))
    write("crawl/0", texts(ROWS).append_column("fetched", pa.array(times)))
    write("blocked", pa.table({"url": [f"https://example.org/{at}" for at in range(0, ROWS, 9)]}))
    write("orders", pa.table({"customer_id": whole(90), "price": whole(99) / 4, "n": whole(9),
                              "time": times}))
    write("customers", pa.table({"customer_id": np.arange(90), "id": np.arange(90),
                                 "name": [f"name {at}" for at in range(90)]}))
    for name, column in (("trades", "price"), ("quotes", "bid")):
        seconds = [start + datetime.timedelta(seconds=int(at)) for at in np.sort(whole(ROWS))]
        write(name, pa.table({"symbol": [COUNTRIES[at] for at in whole(4)], "time": seconds,
                              column: whole(99) / 4}))
    for name, step in (("old", 3), ("new", 5)):
        write(name, pa.table({"id": np.arange(ROWS), "value": np.arange(ROWS) % step}))
    write("sales", pa.table({"region": [COUNTRIES[at] for at in whole(4)], "price": whole(99) / 4}))
    write("days", pa.table({"region": ["eu", "us"] * 31,
                            "day": [datetime.date(2024, 1, at // 2 + 1) for at in range(62)],
                            "value": whole(99, 62)}))
    write("edges", pa.table({"src": whole(50), "dst": whole(50), "km": whole(99) / 4}))


def texts(count: int) -> Any:
    """A table of pages with their text, some twice."""
    import pyarrow as pa

    rows = range(count)
    text = [" ".join(f"word{at % 200 * 7 % (word + 90)}" for word in range(40)) for at in rows]
    return pa.table({"url": [f"https://example.org/{at % 300}" for at in rows], "text": text})


def _vectors(folder: Path) -> None:
    """Vectors of 16 numbers."""
    import numpy as np

    random = _random()
    counts = {"base": KEYS_COUNT, "base.1B": KEYS_COUNT, "new": 500, "queries": 20}
    for name, count in counts.items():
        values = random.normal(size=(count, 16)).astype(np.float32)
        header = struct.pack("<II", count, 16)
        (folder / f"{name}.fbin").write_bytes(header + values.tobytes())
        if name == "base":
            lengths = np.full((count, 1), 16, np.int32).view(np.float32)
            np.hstack([lengths, values]).tofile(folder / "sift_base.fvecs")
    for name, count in {"embeddings": 2000, "new": 500, "queries": 20, "centroids": 64}.items():
        np.save(folder / f"{name}.npy", random.normal(size=(count, 16)).astype(np.float32))
    points = random.normal(size=(ROWS, 32)).astype(np.float32)
    np.save(folder / "points.npy", points)
    points.tofile(folder / "points.bin")


def _edges(folder: Path) -> None:
    """Edges in all formats, of 50 vertices."""
    import numpy as np

    random = _random()
    edges = random.integers(0, 50, (400, 2))
    lines = [f"{source}\t{target}" for source, target in edges]
    for name in ("edges", "friends", "soc-LiveJournal1"):
        (folder / f"{name}.txt").write_text("\n".join(["# FromNodeId\tToNodeId", *lines]) + "\n")
    # Two numbers of 8 bytes per edge, which are two edges with numbers of 4 bytes.
    edges.astype(np.uint64).tofile(folder / "edges.bin")
    sheet = [f"{source},{target},{source * target}" for source, target in edges]
    (folder / "links.csv").write_text("\n".join(["from,to,bytes", *sheet]) + "\n")
    for name, columns in (("road", 50), ("ratings", 60)):
        entries = sorted({(int(source) + 1, int(target) + 1) for source, target in edges})
        head = ["%%MatrixMarket matrix coordinate real general", f"50 {columns} {len(entries)}"]
        entry = [f"{row} {column} 1.5" for row, column in entries]
        (folder / f"{name}.mtx").write_text("\n".join([*head, *entry]) + "\n")
    # GAP's serialized graph: directed, both directions.
    image = struct.pack("<?qq", True, len(edges), 50)
    for column in (0, 1):
        order = np.argsort(edges[:, column], kind="stable")
        offsets = np.searchsorted(edges[order, column], np.arange(51))
        neighbours = edges[order, 1 - column].astype(np.int32)
        image += offsets.astype(np.int64).tobytes() + neighbours.tobytes()
    (folder / "kron.sg").write_bytes(image)


def _traces(folder: Path) -> None:
    """Traces of drives and of a GPU."""
    spc = [f"0,{at * 977 % 8000},4096,{'rw'[at % 2]},{at / 1000}" for at in range(500)]
    packed = gzip.compress("\n".join(spc).encode() + b"\n", mtime=0)
    for name in ("Financial1.spc.gz", "trace.csv.gz"):
        (folder / name).write_bytes(packed)
    volume = [f"{at % 2},{'RW'[at % 2]},{at * 977 % 8000 * 512},4096,{at * 1000}" for at in range(500)]
    (folder / "volume.csv").write_text("device_id,opcode,offset,length,timestamp\n" + "\n".join(volume) + "\n")
    events = [{"ph": "X", "cat": "kernel", "name": f"kernel{at % 5}", "ts": at * 100.0,
               "dur": 10.0 + at % 5, "args": {"grid": [at % 5 + 1, 1, 1], "block": [256, 1, 1]}}
              for at in range(500)]
    profile = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    (folder / "profile.json.gz").write_bytes(gzip.compress(profile, mtime=0))


def _made(folder: Path) -> None:
    """Files that outcore itself makes and that may be copied: graphs and the trace of a job."""
    import outcore

    def path(name: str) -> str:
        return str(folder / name)

    (folder / "borders.bin").write_bytes(struct.pack("<3Q", 1 << 62, 2 << 62, 3 << 62))
    outcore.sort(path("keys.bin"), path("traced.bin"), dtype="u64", record_io=path("sort.iotrace"))
    (folder / "traced.bin").unlink()
    outcore.graph.convert(path("edges.txt"), path("g.graph"))
    outcore.graph.convert(path("links.csv"), path("roads.graph"), weights="bytes")


# Inputs that store their own place: the name, the file that was sorted, and the options.
PLACED: dict[str, tuple[str, dict[str, Any]]] = {
    "sorted.bin.outcore.json": ("big.bin", {"dtype": "gensort"}),
    "runs.outcore.json": ("runs.bin", {"record": 100, "key": "0:10"}),
    "keys.view": ("keys.bin", {"dtype": "u64"}),
    "by-time.view": ("log.bin", {"record": 64, "key": "8:8:u64"}),
    "words.view": ("words.txt", {"lines": True}),
    "sales.view": ("sales.csv", {"csv": True, "by": ["region", "price:nr"]}),
    "table.view": ("days.parquet", {"by": ["region", "day"]}),
}


def placed(folder: Path, names: list[str]) -> None:
    """Makes inputs of `PLACED` by their names, in a copy of all other inputs."""
    import outcore

    for name in names:
        source, options = PLACED[name]
        if name.endswith(".view"):
            outcore.sort_view(str(folder / source), str(folder / name), **options)
        else:
            drives = [folder / "mnt" / drive for drive in DRIVES[:2]]
            made = Path(name.removesuffix(".outcore.json"))
            shards = f"{made.stem}-{{drive}}{made.suffix}"
            outcore.sort(str(folder / source), shards, drives=drives, **options)
            (drives[0] / name).rename(folder / name)


if __name__ == "__main__":
    place, *wanted = sys.argv[1:]
    placed(Path(place), wanted) if wanted else make(Path(place))
