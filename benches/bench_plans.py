#!/usr/bin/env python3
"""Compares the seconds that plans predict with the seconds that jobs take, on throttled drives.

Contract: builds `--drives` throttled drives (scripts/loop_drives.py) for each number of drives and runs every job of
`jobs()` with its files placed in three ways:

- one: the inputs and the output are on the first drive
- each: one part of the input is on each drive, and of the output if the job can write parts
- elsewhere: the inputs are on the first drive, the output is on the last

Scratch is on all drives. The rates of the drives are those of the throttle, in a file of rates below the folder of the
run. Each job runs once, and its own report has both times: the sum of its phases' predictions, and that of its phases'
wall times. A prediction that is only a bound counts as met if the job is not slower; the table marks it. `sim plan`
also predicts the sort of numbers, from simulated drives of the same rates. The result is a JSON file and a Markdown
table of predicted over actual time with median and worst deviation; `--page` writes the table into a page, between its
markers. The exit code is 1 if the median deviation exceeds 5 % or the worst exceeds 20 %. Everything that was built is
removed, however the run ends.

Bounds: `--size` bytes per input, `--image` bytes per drive in `--dir`. Needs root, loop devices and cgroup v1 (otherwise:
exit code 77 and the reason).

    python3 benches/bench_plans.py --outcore target/release/outcore --page docs/benchmarks/plans.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import loop_drives  # noqa: E402  (a script beside the benchmark, usable on its own)

MIB = 1 << 20
MEDIAN_MAX = 0.05
WORST_MAX = 0.20
PLACEMENTS = ("one", "each", "elsewhere")
DAY_S = 24 * 60 * 60
SIM_PLAN = "sim plan"
TABLE_SLOWNESS = 10
BEGIN = "<!-- plans: begin (written by benches/bench_plans.py) -->"
END = "<!-- plans: end -->"


@dataclass
class Place:
    """The places of the files of a job."""

    mounts: list[Path]
    placement: str

    @property
    def output_mount(self) -> Path:
        return self.mounts[-1] if self.placement == "elsewhere" else self.mounts[0]

    def inputs(self, name: str) -> list[str]:
        """The input's parts: one, or one on each drive."""
        on = self.mounts if self.placement == "each" else self.mounts[:1]
        return [str(mount / name) for mount in on]

    def output(self, name: str, has_parts: bool = False) -> str:
        if has_parts and self.placement == "each" and len(self.mounts) > 1:
            return str(self.mounts[0].parent / "{drive}" / name)
        return str(self.output_mount / name)


@dataclass
class Job:
    """A job: its inputs by name, and its words after the drives are known."""

    name: str
    words: Callable[[Place, argparse.Namespace], list[str]]
    inputs: tuple[str, ...]
    # Jobs that read one file, or whose files may not be divided, are not run with a part on each drive.
    placements: tuple[str, ...] = PLACEMENTS
    has_scratch: bool = True
    # Decoding and encoding must not take longer than the drives, since plans of tables count no computing.
    slowness: int = 1


@dataclass
class Result:
    """One run."""

    job: str
    drives: int
    placement: str
    predicted_s: float | None
    actual_s: float
    is_bound: bool
    phases: list[dict[str, object]]

    @property
    def ratio(self) -> float | None:
        return self.predicted_s / self.actual_s if self.predicted_s else None

    @property
    def deviation(self) -> float | None:
        """The relative error of the prediction. If the prediction is only a bound, it is right for every faster run."""
        if self.ratio is None:
            return None
        return max(0.0, 1 - self.ratio) if self.is_bound else abs(self.ratio - 1)


def memory(args: argparse.Namespace) -> list[str]:
    return ["--memory", f"{args.size * 3 // 8}"]


def jobs() -> list[Job]:
    """All kinds of jobs with a plan."""
    return [*two_phase_jobs(), *passes(), *other_jobs()]


def two_phase_jobs() -> list[Job]:
    """Jobs on records and lines that go through scratch."""
    return [
        Job(
            "sort numbers",
            lambda at, args: [
                "sort", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("out.bin", True), *memory(args),
            ],
            ("keys.bin",),
        ),
        Job(
            "sort records",
            lambda at, args: [
                "sort", *at.inputs("records.bin"), "--type", "gensort", "-o", at.output("out.bin", True), *memory(args),
            ],
            ("records.bin",),
        ),
        Job(
            "sort in memory",
            lambda at, args: [
                "sort", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("out.bin", True), "--memory", "1GiB",
            ],
            ("keys.bin",),
        ),
        Job(
            "sort lines",
            lambda at, args: ["sort", *at.inputs("access.log"), "-o", at.output("out.txt"), *memory(args)],
            ("access.log",),
        ),
        Job(
            "unique lines",
            lambda at, args: ["unique", *at.inputs("access.log"), "-o", at.output("out.txt"), *memory(args)],
            ("access.log",),
        ),
        Job(
            "shuffle records",
            lambda at, args: [
                "shuffle", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("out.bin", True), *memory(args),
            ],
            ("keys.bin",),
        ),
        Job(
            "shuffle lines",
            lambda at, args: [
                "shuffle", *at.inputs("access.log"), "-o", at.output("out.txt"), "--memory",
                str(max(args.size * 3 // 4, 20 * MIB)),
            ],
            ("access.log",),
        ),
        Job(
            "view build",
            lambda at, args: ["view", "build", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("keys.view"),
                              *memory(args)],
            ("keys.bin",),
        ),
    ]


def passes() -> list[Job]:
    """Jobs that read records once."""
    return [
        Job(
            "map",
            lambda at, args: ["map", "x + 1", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("out.bin")],
            ("keys.bin",),
            has_scratch=False,
        ),
        Job(
            "filter",
            lambda at, args: [
                "filter", "x % 2 == 0", *at.inputs("keys.bin"), "--type", "u64", "-o", at.output("out.bin"),
            ],
            ("keys.bin",),
            has_scratch=False,
        ),
        Job(
            "reduce",
            lambda at, args: ["reduce", "max", *at.inputs("keys.bin"), "--type", "u64"],
            ("keys.bin",),
            placements=("one", "each"),
            has_scratch=False,
        ),
        Job(
            "verify",
            lambda at, args: ["verify", *at.inputs("sorted.bin"), "--type", "u64"],
            ("sorted.bin",),
            placements=("one",),
            has_scratch=False,
        ),
    ]


def other_jobs() -> list[Job]:
    """Jobs on tables, graphs and vectors."""
    whole = ("one", "elsewhere")
    return [
        Job(
            "sort Parquet",
            lambda at, args: [
                "sort", *at.inputs("sales.parquet"), "--by", "price", "-o", at.output("out.parquet"), "--memory", "64MiB",
            ],
            ("sales.parquet",),
            slowness=TABLE_SLOWNESS,
        ),
        Job(
            "convert Parquet",
            lambda at, args: ["convert", *at.inputs("sales.parquet"), "-o", at.output("out.parquet")],
            ("sales.parquet",),
            has_scratch=False,
            slowness=TABLE_SLOWNESS,
        ),
        Job(
            "graph convert",
            lambda at, args: [
                "graph", "convert", *at.inputs("edges.u32"), "--type", "u32", "-o", at.output("g.graph"), "--memory",
                str(max(args.size * 3 // 4, 16 * MIB)),
            ],
            ("edges.u32",),
            placements=whole,
        ),
        Job(
            "pagerank",
            lambda at, args: ["graph", "pagerank", str(at.mounts[0] / "kept.graph"), "-o", at.output("ranks.npy"),
                              "--iterations", "5", "--tolerance", "0", "--memory", "64MiB"],
            ("kept.graph",),
            placements=("one",),
            has_scratch=False,
        ),
        Job(
            "knn",
            lambda at, args: [
                "knn", *at.inputs("base.fbin"), str(at.mounts[0] / "queries.fbin"), "-k", "4", "-o", at.output("ids.npy"),
            ],
            ("base.fbin", "queries.fbin"),
            placements=("one",),
            has_scratch=False,
        ),
        Job(
            "k-means",
            lambda at, args: ["kmeans", *at.inputs("base.fbin"), "-k", "4", "--max-iterations", "3", "--tolerance", "0", "-o", at.output("c.npy")],
            ("base.fbin",),
            placements=("one",),
            has_scratch=False,
        ),
    ]


class Bench:
    """The command, its folder, and the results so far."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args = args
        self.folder = folder
        self.outcore = str(args.outcore.resolve())
        self.results: list[Result] = []
        self.group: Path | None = None
        self.failures = 0

    def run(self, *words: str, is_throttled: bool = False) -> str:
        """Runs the command and returns its standard output. `is_throttled`: at the rates of the drives."""

        def join() -> None:
            if is_throttled and self.group is not None:
                (self.group / "cgroup.procs").write_text(str(os.getpid()))

        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder), "NO_COLOR": "1"}
        done = subprocess.run(
            [self.outcore, *words], capture_output=True, text=True, env=environment, preexec_fn=join, cwd=self.folder
        )
        if done.returncode != 0:
            raise RuntimeError(f"outcore {' '.join(words)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def make_inputs(self, folder: Path, bytes_each: int) -> None:
        """Makes all inputs of this size, unthrottled."""
        count = str(bytes_each // 8)
        self.run("gen", "u64", "-n", count, "-o", str(folder / "keys.bin"), "--force")
        self.run("gen", "u64", "-n", count, "--dist", "sorted", "-o", str(folder / "sorted.bin"), "--force")
        self.run("gen", "gensort", "-n", str(bytes_each // 100), "-o", str(folder / "records.bin"), "--force")
        self.run("gen", "logs", "-n", str(bytes_each // 125), "-o", str(folder / "access.log"), "--force")
        sales = str(bytes_each // (26 * TABLE_SLOWNESS))
        self.run("gen", "sales", "-n", sales, "-o", str(folder / "sales.parquet"), "--force")
        self.run("gen", "u32x2", "-n", count, "--dist", "rmat:16", "-o", str(folder / "edges.u32"), "--force")
        rows = bytes_each // 256
        for name, number in (("base", rows), ("queries", 16)):
            made = str(folder / f"{name}.npy")
            self.run("gen", "f32x64", "-n", str(number), "--dist", "normal", "-o", made, "--force")
            self.run("vector", "convert", made, "-o", str(folder / f"{name}.fbin"), "--force")
        self.run(
            "graph", "convert", str(folder / "edges.u32"), "--type", "u32", "-o", str(folder / "kept.graph"), "--force"
        )

    def write_rates(self, mounts: list[Path], rate: int) -> Path:
        """The rates of the throttle as if they had been measured, and the drives file."""
        home = self.folder / "outcore"
        home.mkdir(exist_ok=True)
        entries = [
            f"[[file_system]]\nid = {mount.stat().st_dev}\nread_bytes_per_s = {rate}\n"
            f"write_bytes_per_s = {rate}\nrequests_per_s = {rate // 4096}\n"
            f"unix_s = {int(time.time()) - DAY_S}\n"
            for mount in mounts
        ]
        costs = self.costs()
        (home / "rates.toml").write_text("\n".join(entries) + costs)
        drives = self.folder / "drives.toml"
        drives.write_text("\n".join(f'[[drive]]\ndir = "{mount}"\n' for mount in mounts))
        return drives

    def costs(self) -> str:
        """The computing costs that an earlier run has measured."""
        path = self.folder / "outcore" / "rates.toml"
        if not path.exists():
            return ""
        text = path.read_text()
        at = text.find("[[cost]]")
        return "\n" + text[at:] if at >= 0 else ""

    def throttle(self, numbers: list[str], rate: int) -> None:
        """Sets the rate of the drives."""
        assert self.group is not None
        for number in numbers:
            for direction in ("read", "write"):
                (self.group / f"blkio.throttle.{direction}_bps_device").write_text(f"{number} {rate}")

    def try_to_measure(self, job: Job, place: Place, drives: Path) -> None:
        """A job that fails is reported, and the others go on."""
        try:
            self.measure(job, place, drives)
        except RuntimeError as error:
            self.failures += 1
            print(f"{job.name}, {len(place.mounts)} drives, {place.placement}: {error}", file=sys.stderr, flush=True)

    def measure(self, job: Job, place: Place, drives: Path) -> None:
        words = job.words(place, self.args)
        if job.has_scratch:
            words += ["--drive", str(drives)]
        said = self.run(*words, "--json", is_throttled=True)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        summary = next(event for event in events if event.get("event") == "summary")
        phases = summary.get("phases", [])
        known = [phase["predicted_seconds"] for phase in phases if phase.get("predicted_seconds") is not None]
        actual_s = sum(phase["seconds"] for phase in phases)
        result = Result(
            job=job.name,
            drives=len(place.mounts),
            placement=place.placement,
            predicted_s=sum(known) if known else None,
            actual_s=actual_s,
            is_bound=any(phase.get("predicted_is_bound") for phase in phases),
            phases=[
                {key: phase.get(key) for key in ("name", "seconds", "predicted_seconds", "read_bytes", "written_bytes",
                 "predicted_read_bytes", "predicted_written_bytes", "predicted_bound")}
                for phase in phases
            ],
        )
        self.results.append(result)
        self.say(result)

    def say(self, result: Result) -> None:
        """Prints one result."""
        ratio = f"{result.ratio:.2f}" if result.ratio else "-"
        print(
            f"{result.job:16} {result.drives} {result.placement:10} predicted {result.predicted_s or 0:6.2f} s, "
            f"actual {result.actual_s:6.2f} s, {ratio}{' (bound)' if result.is_bound else ''}",
            flush=True,
        )
        if self.args.verbose:
            for phase in result.phases:
                print("    ", phase, flush=True)

    def array(self, count: int) -> None:
        """All jobs on this number of drives."""
        args = self.args
        built = loop_drives.build(count, args.rate, args.image, args.dir)
        self.group = loop_drives.group_path(args.dir)
        mounts = [drive.mount for drive in built]
        try:
            for placement in PLACEMENTS if count > 1 else ("one",):
                place = Place(mounts, placement)
                parts = mounts if placement == "each" else mounts[:1]
                for mount in parts:
                    self.make_inputs(mount, args.size // len(parts))
                for job in jobs():
                    if placement in job.placements and (not args.only or job.name in args.only.split(",")):
                        rate = args.rate // job.slowness
                        self.throttle([drive.number for drive in built], rate)
                        self.try_to_measure(job, place, self.write_rates(mounts, rate))
                        self.clear(mounts)
                if placement == ("each" if count > 1 else "one"):
                    self.simulate(placement, count)
                for mount in mounts:
                    for path in mount.iterdir():
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            loop_drives.remove(args.dir)

    def simulate(self, placement: str, count: int) -> None:
        """Predicts the sort of numbers from simulated drives, and takes its actual time from the run before."""
        measured = [found for found in self.results if (found.job, found.drives) == ("sort numbers", count)]
        actual = next((found for found in measured if found.placement == placement), None)
        if actual is None:
            return
        rate = f"{self.args.rate // 10**6}MB/s"
        said = self.run(
            "sim", "plan", "sort", "--size", str(self.args.size), "--memory", f"{self.args.size * 3 // 8}", "--cores",
            str(os.cpu_count()), "--drives", str(count), "--preset", "throttled", "--set", f"throttle.read={rate}",
            "--set", f"throttle.write={rate}", "--json",
        )
        plan = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
        result = Result(SIM_PLAN, count, placement, plan["seconds"], actual.actual_s, False, plan["phases"])
        self.results.append(result)
        self.say(result)

    def clear(self, mounts: list[Path]) -> None:
        """Removes the outputs of a job."""
        for mount in mounts:
            for name in ("out.bin", "out.bin.outcore.json", "out.txt", "out.parquet", "ids.npy", "c.npy", "ranks.npy"):
                (mount / name).unlink(missing_ok=True)
            for name in ("keys.view", "g.graph"):
                shutil.rmtree(mount / name, ignore_errors=True)
        for left in mounts[0].parent.glob("*.outcore.json"):
            left.unlink()


def report(results: list[Result]) -> tuple[str, float, float]:
    """The Markdown table, the median deviation and the worst."""
    lines = ["| job | drives | files | predicted | actual | ratio |", "|---|---:|---|---:|---:|---:|"]
    for result in results:
        mark = "at most " if result.is_bound else ""
        predicted = f"{mark}{result.predicted_s:.2f} s" if result.predicted_s else "not known"
        ratio = f"{result.ratio:.2f}" if result.ratio else ""
        lines.append(
            f"| {result.job} | {result.drives} | {result.placement} | {predicted} | {result.actual_s:.2f} s | {ratio} |"
        )
    off = sorted(result.deviation for result in results if result.deviation is not None)
    median, worst = (statistics.median(off), off[-1]) if off else (0.0, 0.0)
    lines.append("")
    lines.append(f"Median deviation {median:.1%}, worst {worst:.1%}, {len(off)} runs.")
    return "\n".join(lines), median, worst


def write_page(page: Path, table: str, args: argparse.Namespace) -> None:
    """Replaces the text between the markers of the page."""
    text = page.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    rate, size = args.rate / 1e6, args.size // MIB
    facts = f"{machine()}, {time.strftime('%Y-%m-%d')}. Drives of {rate:g} MB/s each way, {size} MiB per input."
    page.write_text(f"{head}{BEGIN}\n{facts}\n\n{table}\n{END}{tail}")


def machine() -> str:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].split(":", 1)[1].strip() if models else platform.machine()
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare predicted and actual seconds on throttled drives.")
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--drives", default="1,2,4", help="numbers of drives (default 1,2,4)")
    parser.add_argument("--rate", type=loop_drives.parse_bytes, default=25 * 10**6, help="of a drive (default 25MB)")
    parser.add_argument("--size", type=loop_drives.parse_bytes, default=64 * MIB, help="of an input (default 64MiB)")
    parser.add_argument("--image", type=loop_drives.parse_bytes, default=1 << 30, help="of a drive (default 1GiB)")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm/outcore-plans"), help="for the drives' images")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--page", type=Path, help="a Markdown page whose table is replaced")
    parser.add_argument("--only", help="only these jobs, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="show each phase")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reason = loop_drives.skip_reason()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return loop_drives.EXIT_SKIPPED
    with tempfile.TemporaryDirectory(prefix="outcore-plans-") as folder:
        bench = Bench(args, Path(folder))
        for count in args.drives.split(","):
            bench.array(int(count))
    table, median, worst = report(bench.results)
    print(table)
    if args.out:
        facts = {
            "machine": machine(),
            "rate_bytes_s": args.rate,
            "size_bytes": args.size,
            "median_deviation": median,
            "worst_deviation": worst,
            "results": [asdict(result) for result in bench.results],
        }
        args.out.write_text(json.dumps(facts, indent=1) + "\n")
    if args.page:
        write_page(args.page, table, args)
    return 0 if median <= MEDIAN_MAX and worst <= WORST_MAX and not bench.failures else 1


if __name__ == "__main__":
    sys.exit(main())
