"""The parts that touch the system: measuring a process, control groups, throttled drives.

Tests that need root or a controller that the machine lacks are skipped with the reason.
"""

import os
import sys
import tempfile
import unittest
from pathlib import Path

from peerbench import floor, groups, measure
from peerbench.groups import Group, Hierarchies
from peerbench.measure import Command
from peerbench.setting import loop_drives


class Measuring(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)
        self.no_groups = Hierarchies(0, {}, "not wanted")

    def run_script(
        self,
        script: str,
        hierarchies: Hierarchies | None = None,
        limit_bytes: int | None = None,
        timeout_s: float = 60.0,
    ) -> measure.Run:
        command = Command("script", [sys.executable, "-c", script], [self.work / "out"], self.work, timeout_s=timeout_s)
        with Group(hierarchies or self.no_groups, limit_bytes) as group:
            return measure.measure(command, group)

    def test_memory_and_written_bytes_of_a_process_are_seen(self) -> None:
        run = self.run_script(
            "import os; data = os.urandom(100 << 20)\n"
            "with open('out', 'wb') as f: f.write(data[:8 << 20]); f.flush(); os.fsync(f.fileno())"
        )
        self.assertIsNone(run.failure)
        self.assertGreater(run.peak_rss_bytes, 100 << 20)
        self.assertLess(run.peak_rss_bytes, 200 << 20)
        self.assertGreater(run.cpu_s, 0)
        if measure.device_of(self.work) is None:
            self.skipTest("this directory lies on no block device: written bytes not compared")
        self.assertGreaterEqual(run.written_bytes, 8 << 20)

    def test_the_last_line_of_json_becomes_the_summary(self) -> None:
        script = 'open("out", "w"); print(\'{"event": "begin"}\\n{"event": "summary", "passes": 1}\')'
        self.assertEqual(self.run_script(script).summary, {"event": "summary", "passes": 1})
        self.assertIsNone(self.run_script('open("out", "w"); print("{}")').summary)

    def test_a_failure_carries_the_last_words_and_a_missing_output_is_one(self) -> None:
        self.assertIn(
            "exit code 3: no luck",
            self.run_script("import sys; print('no luck', file=sys.stderr); sys.exit(3)").failure,
        )
        self.assertIn("no output: out", self.run_script("pass").failure)

    def test_a_run_past_its_time_is_ended_with_its_children(self) -> None:
        script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
        run = self.run_script(script, timeout_s=1.0)
        self.assertIn("ended after 1 s", run.failure)
        self.assertLess(run.wall_s, 30)

    def test_passing_the_memory_limit_is_told_apart_from_a_crash(self) -> None:
        hierarchies = groups.find()
        if hierarchies.version == 0:
            self.skipTest(hierarchies.reason)
        run = self.run_script("data = b'x' * (300 << 20)", hierarchies, 100 << 20)
        self.assertIn("memory limit", run.failure)
        run = self.run_script("open('out', 'w')", hierarchies, 100 << 20)
        self.assertIsNone(run.failure)
        self.assertEqual(
            [path for root in hierarchies.roots.values() for path in root.glob(f"{groups.PREFIX}-{os.getpid()}-*")],
            [],
        )


class FindingGroups(unittest.TestCase):
    def test_version_1_and_2_are_found_in_the_mount_table_and_none_is_a_reason(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            old = f"cgroup {root} cgroup rw,memory 0 0\ncgroup {root} cgroup rw,cpu,cpuacct 0 0\n"
            self.assertEqual(groups.find(old).version, 1)
            self.assertEqual(set(groups.find(old).roots), {"memory", "cpuacct"})
            (root / "cgroup.controllers").write_text("cpu io memory\n")
            self.assertEqual(groups.find(f"cgroup2 {root} cgroup2 rw 0 0\n").version, 2)
            (root / "cgroup.controllers").write_text("\n")
            none = groups.find(f"cgroup2 {root} cgroup2 rw 0 0\n")
            self.assertEqual(none.version, 0)
            self.assertIn("no memory controller", none.reason)

    def test_a_version_2_group_writes_the_limit_and_forbids_swap(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            group = Group(Hierarchies(2, {"memory": root}), 1 << 30)
            group._make("memory", "one")
            path = root / "one"
            (path / "memory.swap.max").write_text("max")
            group._set_limit(path)
            self.assertEqual((path / "memory.max").read_text(), str(1 << 30))
            self.assertEqual((path / "memory.swap.max").read_text(), "0")
            (path / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n")
            self.assertEqual(group.cpu_seconds(), (2.0, 1.0))
            (path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
            self.assertEqual(group.oom_kills(), 1)


class ThrottledDrives(unittest.TestCase):
    def test_drives_hold_files_and_removing_leaves_nothing(self) -> None:
        reason = loop_drives.skip_reason()
        if reason:
            self.skipTest(f"throttled drives: {reason}")
        with tempfile.TemporaryDirectory() as parent:
            directory = Path(parent) / "array with a blank"
            drives = loop_drives.build(2, 50_000_000, 64 << 20, directory)
            try:
                limits = (loop_drives.group_path(directory) / "blkio.throttle.write_bps_device").read_text()
                for drive in drives:
                    self.assertTrue(os.path.ismount(drive.mount))
                    (drive.mount / "file").write_bytes(b"x" * 4096)
                    self.assertIn(f"{drive.number} 50000000", limits)
            finally:
                self.assertTrue(loop_drives.remove(directory))
            self.assertFalse(directory.exists())
            self.assertFalse(loop_drives.group_path(directory).exists())
            self.assertFalse(loop_drives.remove(directory))

    def test_sizes_of_the_script_are_in_both_systems_of_units(self) -> None:
        self.assertEqual(loop_drives.parse_bytes("50MB"), 50_000_000)
        self.assertEqual(loop_drives.parse_bytes("2GiB"), 2 << 30)

    def test_huge_pages_are_given_back_and_missing_ones_are_told(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            setting = Path(directory) / "nr_hugepages"
            with floor.huge_pages(3, setting) as has_pages:
                self.assertFalse(has_pages)
            setting.write_text("5\n")
            with self.assertRaises(KeyboardInterrupt), floor.huge_pages(3, setting) as has_pages:
                self.assertTrue(has_pages)
                self.assertEqual(setting.read_text(), "8")
                raise KeyboardInterrupt
            self.assertEqual(setting.read_text(), "5\n")


if __name__ == "__main__":
    unittest.main()
