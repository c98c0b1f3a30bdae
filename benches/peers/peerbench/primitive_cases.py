"""The cases of `make bench-primitives`: text and numbers through every primitive, against peers, floors and ratings.

Each case is a generator of results, as in cases.py. Inputs that several cases read are made once, by the first case
that needs them, and removed with the run. Sizes and memory scale with `--scale`, but memory never falls below the
minimum of outcore.

Bounds, at full scale: 20 GiB of disk at most (10 GiB of shared inputs, and 8 GiB to gather from or two times the text
for its scratch and output), 13 GiB of memory for the drives' images, and about 6 GiB to make lines drawn from 33
million.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import floor, primitive_tools
from .primitive_tools import Check, Checks, Data, outcore_tool
from .rounds import Case, CaseResult
from .setting import (
    TMPFS_NAMES,
    Array,
    Setting,
    Skipped,
    directory,
    drive_array,
    need_drives,
    need_memory,
)
from .tools import Job, Tool
from .units import MIB, format_count, format_size

LINES_FULL = 66 * 10**6
DISTINCT_FULL = 10**6
HALF_FULL = LINES_FULL // 2
# Among lines that are drawn from half as many distinct ones, the share that are first occurrences.
HALF_FIRST_SHARE = (1 - math.exp(-2)) / 2
KEYS_FULL = 1 << 28
GATHER_KEYS_FULL = 1 << 30
GATHER_COUNT_FULL = 10**6
MEMORY_FULL = 512 * MIB
# Upper bounds of the mean length of lines that programs/primitives.cpp makes.
LINE_BYTES_MAX_MEAN = 34
REPEATED_LINE_BYTES_MAX_MEAN = 42

DRIVE_RATE_BYTES_S = 100 * 10**6
DRIVE_COUNTS = (1, 2, 4, 8)
# The share of one drive, a multiple of its blocks: four seconds in each direction. Shares and memory per drive are
# constant. n drives therefore have n times the work of one, and no part of the data fits into memory on one drive only.
DRIVE_KEYS_FULL = 48 << 20
DRIVE_MEMORY_FULL = 64 * MIB
DRIVE_GATHER_FULL = 1 << 16
BLOCK_KEYS = 512
INPUTS_NAME = "inputs"
_FUNCTIONS = {
    "map": primitive_tools.MAP,
    "filter": primitive_tools.FILTER,
    "reduce": primitive_tools.REDUCE,
    "scan": primitive_tools.SCAN,
}

Results = Generator[CaseResult, None, None]
Group = Callable[[], Results]
# The floor for an input and a file to write next to the output.
Lower = Callable[[Path, Path], floor.Floor]


class PrimitiveCases:
    """The cases by name, and the inputs below `inputs_dir` that they share."""

    def __init__(self, setting: Setting, inputs_dir: Path) -> None:
        self._setting = setting
        self._inputs_dir = inputs_dir
        self._data = Data()
        self._checks = Checks(self._data)

    def groups(self) -> dict[str, Group]:
        return {
            "shuffle-text": self.shuffle_text,
            "sort-text": self.sort_text,
            "unique": self.unique,
            "half-unique": self.half_unique,
            "shuffle-u64": self.shuffle_keys,
            "map": functools.partial(self.one_pass, "map"),
            "filter": functools.partial(self.one_pass, "filter"),
            "reduce": functools.partial(self.one_pass, "reduce"),
            "scan": functools.partial(self.one_pass, "scan"),
            "tmpfs-reduce": self.tmpfs_reduce,
            "gather": self.gather,
            "drives": self.drives,
        }

    # Inputs.

    def _need_data(self) -> None:
        reason = self._setting.installed.reason("g++", "data")
        if reason:
            raise Skipped(f"data cannot be made or checked: {reason}")

    def _input(self, name: str, need_bytes: int, make: Callable[[Path], None]) -> Path:
        path = self._inputs_dir / name
        if not path.exists():
            with directory(self._inputs_dir, f"{name}.new", need_bytes) as fresh:
                make(fresh / name)
                (fresh / name).rename(path)
        return path

    def _text(self) -> Path:
        """Lines of words; see programs/primitives.cpp."""
        lines = self._setting.records(LINES_FULL)

        def make(path: Path) -> None:
            self._setting.log(f"generating {path.name}: {lines} lines")
            self._data.make("text", lines, 1, path)

        return self._input("text.txt", lines * LINE_BYTES_MAX_MEAN, make)

    def _repeats(self, name: str, distinct_full: int) -> Path:
        """As many lines, drawn from `distinct` different ones."""
        lines, distinct = self._setting.records(LINES_FULL), self._setting.records(distinct_full)

        def make(path: Path) -> None:
            self._setting.log(f"generating {path.name}: {lines} lines, {distinct} of them different")
            self._data.make("repeats", lines, distinct, 1, path)

        return self._input(name, lines * REPEATED_LINE_BYTES_MAX_MEAN, make)

    def _keys(self) -> Path:
        keys = self._setting.records(KEYS_FULL)

        def make(path: Path) -> None:
            self._setting.generate("u64", keys, path, ["--seed", "1"])

        return self._input("keys.bin", keys * 8, make)

    # Lines.

    @contextmanager
    def _lines_case(self, key: str, what: str, source: Path, tools: Sequence[Tool], lower: Lower) -> Iterator[Case]:
        """A case on lines; the floor is `lower` of the input and a file next to the output."""
        setting = self._setting
        lines, memory_bytes = setting.records(LINES_FULL), setting.memory(MEMORY_FULL)
        data_bytes = source.stat().st_size
        job = Job("lines", [source], lines, round(data_bytes / lines), memory_bytes, setting.threads)
        with directory(setting.disk_dir, key, int(data_bytes * 2.5)) as path:
            title = f"{what} of {format_size(data_bytes)} of text in {format_size(memory_bytes)}"
            limit = setting.limit(memory_bytes)
            case = Case(key, title, job, list(tools), path, setting.count, limit, lower(source, path / "floor.bin"))
            case.facts["data"] = f"{lines} lines of {data_bytes / lines:.1f} bytes on average"
            yield case

    def shuffle_text(self) -> Results:
        """66 million lines against terashuf."""
        self._need_data()
        source = self._text()
        own = outcore_tool(self._setting.outcore, ["shuffle", "--seed", "1"], "shuffled.txt", typed=False)
        tools = [own]
        if "terashuf" in self._setting.peers and self._setting.terashuf is not None:
            tools.append(primitive_tools.terashuf(self._setting.terashuf))
        with self._lines_case("shuffle-text", "shuffle", source, tools, floor.of_sort) as case:
            case.check = self._checks.shuffled("lines", [source])
            result = self._setting.rounds.run(case)
            if "terashuf" in self._setting.peers and self._setting.terashuf is None:
                result.skipped["terashuf"] = "no program: build it from its source and name it with --terashuf"
            yield result

    def sort_text(self) -> Results:
        """The 66 million lines against GNU sort; both outputs must be identical."""
        self._need_data()
        own = outcore_tool(self._setting.outcore, ["sort"], "sorted.txt", typed=False)
        peer = primitive_tools.gnu_sort("GNU sort")
        yield from self._agreeing("sort-text", "sort", self._text(), own, peer, floor.of_sort)

    def unique(self) -> Results:
        """66 million lines, drawn from a million different ones: each different line once, and each with its count. No
        scratch is needed."""
        yield from self._unique(("unique", ""), "repeats.txt", DISTINCT_FULL, _reading)

    def half_unique(self) -> Results:
        """66 million lines, drawn from half as many different ones, which go through scratch."""
        lower = functools.partial(floor.of_reduction, share=HALF_FIRST_SHARE)
        yield from self._unique(("half-unique", " (lines drawn from half as many)"), "half.txt", HALF_FULL, lower)

    def _unique(self, names: tuple[str, str], file_name: str, distinct_full: int, lower: Lower) -> Results:
        self._need_data()
        (key, what), source = names, self._repeats(file_name, distinct_full)
        own = outcore_tool(self._setting.outcore, ["sort", "-u"], "sorted.txt", typed=False)
        peer = primitive_tools.gnu_sort("GNU sort -u", "-u")
        yield from self._agreeing(f"{key}-sort", f"sort -u{what}", source, own, peer, lower)
        own = outcore_tool(self._setting.outcore, ["unique", "--count"], "counted.txt", typed=False)
        peer = primitive_tools.gnu_count()
        yield from self._agreeing(f"{key}-count", f"unique --count{what}", source, own, peer, lower)

    def _agreeing(self, key: str, what: str, source: Path, own: Tool, peer: Tool, lower: Lower) -> Results:
        tools = [own, peer] if "gnu" in self._setting.peers else [own]
        with self._lines_case(key, what, source, tools, lower) as case:
            case.check = self._checks.digested()
            result = self._setting.rounds.run(case)
            must_agree(result)
            yield result

    # Numbers.

    def shuffle_keys(self) -> Results:
        """2 GiB of u64 against the floor."""
        self._need_data()
        source = self._keys()
        own = outcore_tool(self._setting.outcore, ["shuffle", "--seed", "1"], "shuffled.bin")
        check = self._checks.shuffled("keys", [source])
        yield from self._keys_case("shuffle-u64", "shuffle", own, 2.5, floor.of_sort, check)

    def one_pass(self, primitive: str) -> Results:
        """Map, filter, reduce or scan of 2 GiB of u64 against a floor that reads and writes as much."""
        self._need_data()
        source = self._keys()
        # Uniform keys: the filter keeps half of them.
        written = {"map": 1.0, "filter": 0.5, "reduce": 0.0, "scan": 1.0}[primitive]
        write_bytes = int(source.stat().st_size * written)

        def lower(source: Path, target: Path) -> floor.Floor:
            return floor.of_pass(source, target, write_bytes)

        own = self._primitive(primitive)
        yield from self._keys_case(primitive, primitive, own, 1.5, lower, self._check(primitive, [source]))

    def _primitive(self, primitive: str) -> Tool:
        output = None if primitive == "reduce" else "result.bin"
        return outcore_tool(self._setting.outcore, [primitive, _FUNCTIONS[primitive]], output)

    def _check(self, primitive: str, inputs: Sequence[Path]) -> Check:
        if primitive == "reduce":
            return self._checks.reduced(inputs)
        return self._checks.sequence(primitive, inputs)

    def _keys_case(self, key: str, what: str, own: Tool, space: float, lower: Lower, check: Check) -> Results:
        setting, source = self._setting, self._keys()
        keys, memory_bytes = setting.records(KEYS_FULL), setting.memory(MEMORY_FULL)
        job = Job("u64", [source], keys, 8, memory_bytes, setting.threads)
        with directory(setting.disk_dir, key, int(job.data_bytes * space)) as path:
            title = f"{what} of {format_size(job.data_bytes)} of u64 in {format_size(memory_bytes)}"
            limit, lowest = setting.limit(memory_bytes), lower(source, path / "floor.bin")
            yield setting.rounds.run(Case(key, title, job, [own], path, setting.count, limit, lowest, check))

    def tmpfs_reduce(self) -> Results:
        """A sum when the drives cost nothing."""
        self._need_data()
        setting = self._setting
        keys, memory_bytes = setting.records(KEYS_FULL), setting.memory(MEMORY_FULL)
        need_memory(keys * 8 + memory_bytes)
        with directory(setting.tmpfs_dir, TMPFS_NAMES[0], keys * 8) as path:
            source = path / "input.bin"
            setting.generate("u64", keys, source, ["--seed", "1"])
            job = Job("u64", [source], keys, 8, memory_bytes, setting.threads)
            title = f"reduce of {format_size(job.data_bytes)} of u64 on tmpfs"
            own, check = self._primitive("reduce"), self._checks.reduced([source])
            case = Case("tmpfs-reduce", title, job, [own], path, max(setting.count, 3), None, check=check)
            case.notes.append("no memory limit: files on tmpfs count as memory of the process that writes them")
            yield setting.rounds.run(case)

    def gather(self) -> Results:
        """A million random records of 8 bytes from 8 GiB against the drive's own random reads."""
        self._need_data()
        setting = self._setting
        keys, count = setting.records(GATHER_KEYS_FULL), setting.records(GATHER_COUNT_FULL)
        memory_bytes = setting.memory(MEMORY_FULL)
        with directory(setting.disk_dir, "gather", int(keys * 8 * 1.01) + count * 32) as path:
            source, positions = path / "input.bin", path / "positions.bin"
            setting.generate("u64", keys, source, ["--seed", "1"])
            self._data.make("positions", count, keys, 1, positions)
            job = Job("u64", [source], count, 8, memory_bytes, setting.threads)
            title = f"gather of {format_count(count)} records of 8 bytes from {format_size(keys * 8)}"
            own, check = self._gathering(positions), self._checks.gathered(positions, [source])
            lower, limit = floor.of_random_reads(source, count), setting.limit(memory_bytes)
            case = Case("gather", title, job, [own], path, setting.count, limit, lower, check)
            case.facts["blocks"] = different_blocks(positions)
            yield setting.rounds.run(case)

    def _gathering(self, positions: Path) -> Tool:
        return outcore_tool(self._setting.outcore, ["gather", "--at", str(positions)], "gathered.bin")

    # Drives.

    def drives(self) -> Results:
        """Every primitive on 1, 2, 4 and 8 throttled drives that hold input, scratch and output."""
        self._need_data()
        need_drives()
        for count in DRIVE_COUNTS:
            yield from self._array(count)

    def _array(self, count: int) -> Results:
        setting = self._setting
        share_keys = max(BLOCK_KEYS, setting.records(DRIVE_KEYS_FULL) // BLOCK_KEYS * BLOCK_KEYS)
        # Input, scratch and output, an eighth for an uneven spread, data of the probe that the file system has not
        # freed yet, and the file system's overhead.
        drive_bytes = int(share_keys * 8 * 4.0) // MIB * MIB + 96 * MIB
        need_memory(drive_bytes * count + 512 * MIB, " for the drives' images")
        with (
            drive_array(setting, count, drive_bytes, DRIVE_RATE_BYTES_S) as array,
            directory(setting.tmpfs_dir, TMPFS_NAMES[1], 0) as work,
        ):
            inputs = array.shards("input.bin")
            for index, path in enumerate(inputs):
                setting.generate("u64", share_keys, path, ["--seed", str(index + 1)])
            rate = None
            if setting.installed.reason("fio") is None and share_keys * 8 >= floor.FIO_BLOCK_BYTES:
                rate = floor.array_rate(inputs, share_keys * 8, DRIVE_RATE_BYTES_S, array.joins)
            for case in self._array_cases(array, inputs, share_keys, work):
                case.facts["measured_rate_bytes_s"] = rate
                yield setting.rounds.run(case)

    def _array_cases(self, array: Array, inputs: list[Path], share_keys: int, work: Path) -> Iterator[Case]:
        setting, count = self._setting, len(array.drives)
        shuffling = outcore_tool(setting.outcore, ["shuffle", "--seed", "1"], "result.bin")
        share_s = share_keys * 8 / DRIVE_RATE_BYTES_S
        yield self._array_case(array, "shuffle", shuffling, inputs, share_keys * count, 2 * share_s, work)
        # A sum up to the last shard needs all shards before it, so all drives can scan at the same time only if the
        # data is striped.
        volume = work / "volume.toml"
        primitive_tools.outcore_volume(setting.outcore, array.mounts, volume)
        primitive_tools.outcore_dataset(setting.outcore, volume, inputs, "@input")
        for primitive in ("map", "filter", "reduce", "scan"):
            function = _FUNCTIONS[primitive]
            target = None if primitive == "reduce" else "@result"
            own = primitive_tools.outcore_on_dataset(
                setting.outcore, volume, [primitive, function], "@input", target
            )
            case = self._array_case(array, primitive, own, inputs, share_keys * count, share_s, work)
            if target is not None:
                case.check = self._checks.dataset(setting.outcore, volume, primitive, target, inputs)
            case.notes.append("the shards are one dataset that is striped over the drives; blocks are verified")
            yield case
        primitive_tools.outcore_forget(setting.outcore, volume, ["@input", "@result"])
        positions = work / "positions.bin"
        gathered = setting.records(DRIVE_GATHER_FULL) * count
        self._data.make("positions", gathered, share_keys * count, 1, positions)
        block_bytes = BLOCK_KEYS * 8
        read_s = different_blocks(positions) * block_bytes / count / DRIVE_RATE_BYTES_S
        case = self._array_case(array, "gather", self._gathering(positions), inputs, gathered, read_s, work)
        case.check = self._checks.gathered(positions, inputs)
        yield case

    def _array_case(
        self, array: Array, primitive: str, own: Tool, inputs: list[Path], records: int, allowed_s: float, work: Path
    ) -> Case:
        setting, count = self._setting, len(array.drives)
        memory_bytes = max(64 * MIB, int(DRIVE_MEMORY_FULL * setting.scale)) * count
        job = Job("u64", inputs, records, 8, memory_bytes, setting.threads)
        job.drives = array.mounts
        if primitive == "shuffle":
            job.shards, job.pattern = array.shards("result.bin"), array.pattern("result.bin")
        data_bytes = sum(path.stat().st_size for path in inputs)
        plural = "s" if count > 1 else ""
        what = f"{primitive} of {format_size(data_bytes)} of u64"
        title = f"{what} in {format_size(memory_bytes)} on {count} throttled drive{plural}"
        key, limit = f"drives-{primitive}-{count}", setting.limit(memory_bytes)
        case = Case(key, title, job, [own], work, min(setting.count, 2), limit, joins=array.joins)
        case.facts = {
            "drives": count,
            "primitive": primitive,
            "rate_bytes_s": DRIVE_RATE_BYTES_S,
            "allowed_s": allowed_s,
        }
        if primitive == "shuffle":
            case.check = self._checks.shuffled("keys", inputs)
        else:
            case.check = self._check(primitive, inputs)
        return case


def _reading(source: Path, target: Path) -> floor.Floor:
    return floor.of_pass(source, target, 0)


def must_agree(result: CaseResult) -> None:
    """Records whether the tools' first outputs are identical; if they differ, outcore's run failed."""
    firsts = {tool: runs[0] for tool, runs in result.runs.items() if runs and "check" in runs[0].extra}
    if len(firsts) < 2 or "outcore" not in firsts:
        return
    if len({run.extra["check"]["sha256"] for run in firsts.values()}) == 1:
        result.notes.append("the outputs of both tools are the same bytes")
    else:
        firsts["outcore"].failure = "wrong output: not the bytes that the other tool wrote"


def different_blocks(positions: Path) -> int:
    """Number of 4 KiB blocks that hold the records at these positions, in a file of u64 without a header."""
    with open(positions, "rb") as file:
        numbers = memoryview(file.read()).cast("Q")
    return len({position // BLOCK_KEYS for position in numbers})


@contextmanager
def opened(setting: Setting) -> Iterator[dict[str, Group]]:
    """The cases; their shared inputs are removed at the end."""
    with directory(setting.disk_dir, INPUTS_NAME, 0) as inputs_dir:
        yield PrimitiveCases(setting, inputs_dir).groups()


# Directories that cases make in addition to those with the name of their group.
CASE_NAMES = ("unique-sort", "unique-count", "half-unique-sort", "half-unique-count")
NAMES = (
    "shuffle-text",
    "sort-text",
    "unique",
    "half-unique",
    "shuffle-u64",
    "map",
    "filter",
    "reduce",
    "scan",
    "tmpfs-reduce",
    "gather",
    "drives",
)
