"""The benchmark of the primitives: its targets, its commands, and the program that makes and checks its data."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from array import array
from pathlib import Path

from peerbench import install, primitive_cases, primitive_targets, primitive_tools, report, session
from peerbench.measure import Command
from peerbench.tools import Job, Outcore

from .test_units_and_report import case, result, run


def primitive(key: str, **changes: object) -> dict:
    made = {"records": 1 << 28, "serial_s": None, "runs": {"outcore": [run(5.0, floor_s=4.8)] * 3}}
    return case(key, **{**made, **changes})


def drive_case(name: str, count: int, wall_s: float) -> dict:
    facts = {"drives": count, "primitive": name, "rate_bytes_s": 100_000_000, "allowed_s": 4.0}
    return primitive(f"drives-{name}-{count}", facts=facts, runs={"outcore": [run(wall_s, floor_s=None)]})


class Targets(unittest.TestCase):
    def verdict(self, *cases: dict) -> primitive_targets.Verdict:
        """The verdict of the last case; the verdict on memory follows it."""
        return list(primitive_targets.verdicts(list(cases)))[-2]

    def test_a_pass_has_to_use_its_share_of_the_drives_bandwidth(self) -> None:
        self.assertEqual((self.verdict(primitive("map")).got, self.verdict(primitive("map")).met), ("96%", True))
        slow = primitive("scan", runs={"outcore": [run(6.0, floor_s=4.8)]})
        self.assertEqual((self.verdict(slow).got, self.verdict(slow).met), ("80%", False))
        self.assertIsNone(self.verdict(primitive("map", runs={"outcore": [run(5.0, floor_s=None)]})).met)

    def test_every_peer_has_a_case_and_a_factor(self) -> None:
        for key, (tool, least) in primitive_targets.SPEEDUPS.items():
            runs = {"outcore": [run(10.0)], tool: [run(10.0 * least, floor_s=None)]}
            self.assertTrue(self.verdict(primitive(key, runs=runs)).met, key)
            runs[tool] = [run(9.0 * least, floor_s=None)]
            self.assertEqual(self.verdict(primitive(key, runs=runs)).met, False, key)

    def test_an_absent_peer_is_not_measured_and_a_wrong_output_is_a_miss(self) -> None:
        lonely = self.verdict(primitive("shuffle-text", skipped={"terashuf": "no program"}))
        self.assertEqual((lonely.met, "no program" in lonely.got), (None, True))
        wrong = primitive("shuffle-u64", runs={"outcore": [run(5.0, failure="wrong output")]})
        self.assertEqual(list(primitive_targets.verdicts([wrong]))[0].met, False)

    def test_one_drive_is_held_to_its_rating_and_more_to_one(self) -> None:
        alone = drive_case("map", 1, 4.1)
        self.assertEqual((self.verdict(alone).got, self.verdict(alone).met), ("98%", True))
        eight = self.verdict(alone, drive_case("map", 8, 4.2))
        self.assertEqual((eight.got, eight.met), ("98% (95% of the rating)", True))
        self.assertEqual(self.verdict(alone, drive_case("map", 8, 4.5)).met, False)
        self.assertIsNone(self.verdict(alone, drive_case("scan", 8, 4.1)).met)

    def test_gather_counts_records_and_shows_blocks(self) -> None:
        gathered = primitive("gather", records=1000, facts={"blocks": 500})
        self.assertEqual(self.verdict(gathered).got, "96% (48% if each of the 500 blocks counts once)")

    def test_reduce_on_tmpfs_is_judged_in_bytes_a_second(self) -> None:
        fast = self.verdict(primitive("tmpfs-reduce", runs={"outcore": [run(0.5, floor_s=None)]}))
        self.assertEqual((fast.got, fast.met), ("4.29 GB/s", True))

    def test_memory_over_the_limit_is_a_miss_and_names_its_case(self) -> None:
        fat = primitive("map", runs={"outcore": [run(5.0, peak_rss_bytes=600 << 20)]})
        last = list(primitive_targets.verdicts([primitive("scan"), fat]))[-1]
        self.assertEqual((last.met, last.got), (False, "+88 MiB (map)"))


class Reports(unittest.TestCase):
    def test_the_report_shows_the_data_the_floor_and_no_serial_sum_where_none_is(self) -> None:
        shown = primitive("sort-text", facts={"data": "66 lines of 32.5 bytes on average"})
        text = report.text(result(shown), report.PRIMITIVES)
        self.assertIn("66 lines of 32.5 bytes on average", text)
        self.assertNotIn("serial sum", text)
        self.assertIn("not measured: not run", text)

    def test_the_documentation_has_the_section(self) -> None:
        for page in (*report.SORT.pages, *report.PRIMITIVES.pages):
            text = (session.REPOSITORY / "docs" / "benchmarks" / page.file).read_text()
            for mark in (page.mark_begin, page.mark_end):
                self.assertTrue(mark in text, mark)

    def test_each_page_of_the_documentation_shows_its_own_cases(self) -> None:
        both = result(primitive("sort-text"), primitive("map"))
        text, numbers = [report.section(both, report.PRIMITIVES, page) for page in report.PRIMITIVES.pages]
        self.assertIn("`sort-text`", text)
        self.assertNotIn("`map`", text)
        self.assertIn("`map`", numbers)
        self.assertNotIn("`sort-text`", numbers)
        row = next(line for line in numbers.splitlines() if line.startswith("| `map` | ") and " records of " in line)
        self.assertEqual(row.count("|"), len(report.SETTING) + 1)

    def test_a_skipped_case_is_forgotten_only_when_it_was_measured(self) -> None:
        first, second = result(primitive("tmpfs-reduce")), result(primitive("unique-sort"))
        first["skipped"] = {"reduce": "no room", "unique": "no compiler"}
        self.assertEqual(report.merge([first, second])["skipped"], {"reduce": "no room"})


class Commands(unittest.TestCase):
    def test_an_outcore_command_names_everything_that_is_measured(self) -> None:
        job = Job("u64", [Path("a"), Path("b")], 10, 8, 64 << 20, 2)
        tool = primitive_tools.outcore_tool(Outcore(Path("bin"), "--io direct"), ["map", "x"], "result.bin")
        command = tool.command(job, Path("work"))
        self.assertEqual(command.argv[:7], ["bin", "map", "x", "a", "b", "-o", "work/result.bin"])
        self.assertEqual(command.outputs, [Path("work/result.bin")])
        self.assertEqual(command.argv[-2:], ["--io", "direct"])
        tool = primitive_tools.outcore_tool(Outcore(Path("bin")), ["reduce", "sum"], None)
        command = tool.command(job, Path("work"))
        self.assertEqual((command.outputs, "-o" in command.argv), ([], False))

    def test_different_bytes_fail_outcore_and_equal_ones_are_noted(self) -> None:
        class Made:
            def __init__(self, digest: str) -> None:
                self.failure, self.extra = None, {"check": {"sha256": digest}}

        measured = primitive_cases.CaseResult(None, {"outcore": [Made("x")], "GNU sort": [Made("x")]})
        primitive_cases.must_agree(measured)
        self.assertEqual(measured.notes, ["the outputs of both tools are the same bytes"])
        measured.runs["outcore"] = [Made("y")]
        primitive_cases.must_agree(measured)
        self.assertIn("wrong output", measured.runs["outcore"][0].failure)

    def test_the_names_that_can_be_chosen_are_the_cases(self) -> None:
        made = primitive_cases.PrimitiveCases(None, Path("none"))
        self.assertEqual(tuple(made.groups()), primitive_cases.NAMES)

    def test_different_blocks_are_counted_once(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "positions.bin"
            path.write_bytes(array("Q", [0, 511, 512, 5 * 512, 5 * 512]).tobytes())
            self.assertEqual(primitive_cases.different_blocks(path), 3)


@unittest.skipIf(shutil.which("g++") is None, "g++ is not installed: the data program cannot be built")
class DataProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.work = Path(directory.name)
        cls.program = cls.work / "primitives"
        source = install.PROGRAMS_DIR / "primitives.cpp"
        subprocess.run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", str(source), "-o", cls.program], check=True)

    def run_program(self, *words: object) -> str:
        argv = [str(self.program), *map(str, words)]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def numbers(self, name: str, values: list[int]) -> Path:
        path = self.work / name
        path.write_bytes(array("Q", values).tobytes())
        return path

    def test_text_depends_on_its_seed_alone_and_has_lines_of_about_32_bytes(self) -> None:
        texts = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.run_program("text", 20_000, seed, self.work / name)
            texts.append((self.work / name).read_bytes())
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertEqual(texts[0].count(b"\n"), 20_000)
        self.assertTrue(31 < len(texts[0]) / 20_000 < primitive_cases.LINE_BYTES_MAX_MEAN)

    def test_repeats_have_exactly_so_many_different_lines(self) -> None:
        self.run_program("repeats", 20_000, 100, 1, self.work / "repeats")
        lines = (self.work / "repeats").read_bytes().splitlines()
        self.assertEqual((len(lines), len(set(lines))), (20_000, 100))

    def test_positions_lie_below_their_range(self) -> None:
        self.run_program("positions", 1000, 10, 1, self.work / "positions")
        numbers = memoryview((self.work / "positions").read_bytes()).cast("Q")
        self.assertEqual((len(numbers), set(numbers)), (1000, set(range(10))))

    def test_checksums_ignore_order_and_see_a_changed_line_and_key(self) -> None:
        summaries = []
        for name, text in (("x", b"b\na\n\na\n"), ("y", b"a\n\na\nb\n"), ("z", b"b\nb\n\na\n")):
            (self.work / name).write_bytes(text)
            summaries.append(json.loads(self.run_program("lines", self.work / name)))
        self.assertEqual(summaries[0], summaries[1])
        self.assertNotEqual(summaries[0]["mix"], summaries[2]["mix"])
        one, two = self.numbers("one", [2**64 - 1, 5, 7]), self.numbers("two", [7, 2**64 - 1, 5])
        self.assertEqual(self.run_program("keys", one), self.run_program("keys", two))
        self.assertEqual(json.loads(self.run_program("keys", one))["sum"], 2**64 + 11)

    def test_right_results_pass_and_wrong_short_and_long_ones_do_not(self) -> None:
        inputs = [self.numbers("in0", [1, 2]), self.numbers("in1", [2**64 - 1, 4])]
        right = {"map": [4, 7, 2**64 - 2, 13], "filter": [2, 4], "scan": [1, 3, 2, 6]}
        for mode, values in right.items():
            changed = [values[0] + 1, *values[1:]]
            for found, verdict in ((values, True), (values[:-1], False), ([*values, 1], False), (changed, False)):
                output = self.numbers("out", found)
                report = json.loads(self.run_program(mode, *inputs, "--", output))
                self.assertEqual(report["right"], verdict, (mode, found))
            halves = [self.numbers("out0", values[:1]), self.numbers("out1", values[1:])]
            self.assertTrue(json.loads(self.run_program(mode, *inputs, "--", *halves))["right"], mode)

    def test_gathered_records_are_compared_with_those_at_their_positions(self) -> None:
        inputs = [self.numbers("in0", [10, 11]), self.numbers("in1", [12, 13])]
        positions = self.numbers("positions", [3, 0, 3, 1])
        for found, verdict in (([13, 10, 13, 11], True), ([10, 11, 13, 13], False)):
            report = json.loads(self.run_program("gather", positions, *inputs, "--", self.numbers("out", found)))
            self.assertEqual(report["right"], verdict)

    def test_a_shuffle_that_changes_nothing_is_wrong(self) -> None:
        data = primitive_tools.Data()
        data._run = lambda *words: self.run_program(*words)
        source, output = self.numbers("in", list(range(1000))), self.numbers("out", list(range(1000)))
        check = primitive_tools.Checks(data).shuffled("keys", [source])
        with self.assertRaises(primitive_tools.Wrong):
            check(Command("outcore", [], [output], self.work))
        self.numbers("out", list(range(999, -1, -1)))
        self.assertIn("1000 keys", check(Command("outcore", [], [output], self.work))[0])

    def test_what_it_cannot_do_is_said(self) -> None:
        done = subprocess.run([self.program, "map", "x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("primitives: cannot map", done.stderr)
        done = subprocess.run([self.program, "keys", os.devnull + "/none"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
