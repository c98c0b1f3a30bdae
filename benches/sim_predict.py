#!/usr/bin/env python3
"""Compares the simulator's prediction of a sort on several drives, from its trace on one, with the measured time.

Contract: builds one throttled drive (scripts/loop_drives.py), measures a sort of `--size` in `--memory` on it, and
records its I/O. For each number of drives in `--drives`, the trace is replayed on that many of the preset `throttled`
at the same rate, and the sort is measured on that many real drives. A Markdown table has both times and their
deviation; the exit code is 1 if any deviation exceeds 10 %. The output of every sort is verified. Everything that was
built is removed, however the run ends; the next run removes the remains of a killed one.

Bounds: about four times `--size` below `--dir`, which should be in memory. Seconds: twice the size divided by the rate,
for every number of drives and round. Needs root, loop devices and cgroup v1 (otherwise: exit code 77 and the reason).

    python3 benches/sim_predict.py --outcore target/release/outcore
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import loop_drives  # noqa: E402  (a script beside the benchmark, usable on its own)

MIB = 1 << 20
OFF_MAX = 0.10


class Array:
    """Throttled drives with the input on them."""

    def __init__(self, mounts: list[Path], joins: Path) -> None:
        self.mounts = mounts
        self.joins = joins

    def shards(self, name: str) -> list[str]:
        return [str(mount / name) for mount in self.mounts]

    def pattern(self, name: str) -> str:
        """One shard on each drive; the name of a drive is that of its directory."""
        return str((self.mounts[0].parent / "{drive}" if len(self.mounts) > 1 else self.mounts[0]) / name)


class Predict:
    """The command, the sizes, and a folder for the trace."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args = args
        self.outcore = str(args.outcore.resolve())
        self.trace = folder / "one.iotrace"

    def run(self, *arguments: str, joins: Path | None = None) -> dict[str, Any]:
        """Runs the command with --json. Returns its last message, with its wall time as `wall_s`."""
        join = None if joins is None else lambda: joins.write_text(str(os.getpid()))
        started = time.monotonic()
        done = subprocess.run([self.outcore, *arguments, "--json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, preexec_fn=join)
        wall_s = time.monotonic() - started
        if done.returncode != 0:
            sys.exit(f"sim_predict: {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return {**json.loads(done.stdout.splitlines()[-1]), "wall_s": wall_s}

    @contextmanager
    def array(self, count: int) -> Iterator[Array]:
        """`count` drives, each with its share of the input."""
        keys = self.args.size // 8 // count // 4096 * 4096
        # Input, scratch and output, an eighth for an uneven spread, and the file system's overhead.
        size = int(keys * 8 * 3.4) // MIB * MIB + 96 * MIB
        try:
            drives = loop_drives.build(count, self.args.rate, size, self.args.dir)
            group = loop_drives.group_path(self.args.dir)
            assert group is not None  # build saw the controller
            array = Array([drive.mount for drive in drives], group / "cgroup.procs")
            for seed, shard in enumerate(array.shards("input.bin"), 1):
                self.run("gen", "u64", "-n", str(keys), "-o", shard, "--seed", str(seed))
            yield array
        finally:
            # The manifest of the shards is next to the drives; removing the drives would report it as a foreign file.
            for manifest in self.args.dir.glob("*.outcore.json"):
                manifest.unlink()
            loop_drives.remove(self.args.dir)

    def sort(self, array: Array, *more: str) -> float:
        """Seconds of the sort on the drives."""
        inputs, output = array.shards("input.bin"), array.pattern("sorted.bin")
        words = ["sort", *inputs, "-o", output, "--type", "u64", "--memory", str(self.args.memory), "--force"]
        for mount in array.mounts:
            words += ["--drive", str(mount)]
        wall_s: float = self.run(*words, *more, joins=array.joins)["wall_s"]
        self.run("verify", *array.shards("sorted.bin"), "--type", "u64", "--against", *inputs)
        return wall_s

    def replay(self, count: int) -> dict[str, Any]:
        """The trace on `count` simulated drives."""
        rate = f"{self.args.rate}B/s"
        words = ["sim", "replay", str(self.trace), "--drives", str(count), "--preset", "throttled"]
        return self.run(*words, "--set", f"throttle.read={rate}", "--set", f"throttle.write={rate}")


def compare(predict: Predict) -> int:
    """Measures, predicts and prints. Returns the exit code."""
    args = predict.args
    with predict.array(1) as array:
        recorded_s = predict.sort(array, "--record-io", str(predict.trace))
    print(f"recorded on one drive of {args.rate / 1e6:.0f} MB/s: {recorded_s:.2f} s\n", file=sys.stderr)
    print("| drives | predicted, s | measured, s | off | said to limit it |\n|---|---|---|---|---|")
    worst = 0.0
    for count in args.drives:
        said = predict.replay(count)
        if count == 1:
            measured = [recorded_s]
        else:
            with predict.array(count) as array:
                measured = [predict.sort(array) for _ in range(args.rounds)]
        off = said["seconds"] / statistics.median(measured) - 1
        worst = max(worst, abs(off))
        seen = ", ".join(f"{wall_s:.2f}" for wall_s in measured)
        print(f"| {count} | {said['seconds']:.2f} | {seen} | {off:+.1%} | {said['bottleneck']} |", flush=True)
    return int(worst > OFF_MAX)


def main() -> int:
    """Reads the options, and ensures that nothing is left behind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, default=Path("target/release/outcore"))
    parser.add_argument("--size", type=loop_drives.parse_bytes, default=1 << 30, metavar="BYTES")
    parser.add_argument("--memory", type=loop_drives.parse_bytes, default=256 * MIB, metavar="BYTES")
    parser.add_argument("--rate", type=loop_drives.parse_bytes, default=50 * 10**6, metavar="BYTES",
                        help="bytes per second and drive, each way")
    parser.add_argument("--drives", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8],
                        metavar="N,N", help="numbers of drives (default 1,2,4,8)")
    parser.add_argument("--rounds", type=int, default=1, help="sorts on each number of drives")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm/outcore-predict"), help="for images and mounts")
    args = parser.parse_args()
    reason = loop_drives.skip_reason()
    if reason:
        print(f"SKIP: sim_predict: {reason}", file=sys.stderr)
        return loop_drives.EXIT_SKIPPED
    # `kill` and a closed terminal clean up in the same way as Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return compare(Predict(args, Path(folder)))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
