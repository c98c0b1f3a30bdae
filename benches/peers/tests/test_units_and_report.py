"""The pure parts of the benchmark: units, targets, tables, the documentation's section, merging of runs."""

import copy
import tempfile
import unittest
from fractions import Fraction
from pathlib import Path

from peerbench import report, targets, units


def run(wall_s: float, **changes: object) -> dict:
    made = {
        "tool": "outcore",
        "argv": [],
        "exit_code": 0,
        "wall_s": wall_s,
        "user_s": 3.0,
        "system_s": 1.0,
        "cpu_s": 4.0,
        "peak_rss_bytes": 500 << 20,
        "group_peak_bytes": None,
        "read_bytes": 1 << 32,
        "written_bytes": 1 << 32,
        "device_read_bytes": None,
        "device_written_bytes": None,
        "settle_s": 0.0,
        "failure": None,
        "summary": None,
        "floor_s": 5.0,
        "checked": "numpy",
        "extra": {},
    }
    return {**made, **changes}


def case(key: str = "2g", **changes: object) -> dict:
    made = {
        "key": key,
        "title": f"case {key}",
        "kind": "u64",
        "records": 1 << 28,
        "record_bytes": 8,
        "memory_bytes": 512 << 20,
        "threads": 2,
        "limit_bytes": 1 << 30,
        "rounds": 3,
        "floors_s": [5.0, 5.0],
        "serial_s": 7.0,
        "skipped": {},
        "notes": [],
        "facts": {},
        "runs": {"outcore": [run(5.0), run(5.5), run(9.0)], "STXXL": [run(20.0, floor_s=None)] * 3},
    }
    return {**made, **changes}


def result(*cases: dict) -> dict:
    return {
        "schema": 1,
        "when": "2026-01-01 00:00 UTC",
        "scale": "1",
        "threads": 2,
        "machine": {"processor": "one | two"},
        "versions": {"outcore": "0.1.0"},
        "cases": list(cases),
        "skipped": {},
        "failed": {},
    }


class Units(unittest.TestCase):
    def test_sizes_are_exact_in_both_systems_of_units(self) -> None:
        self.assertEqual(units.parse_size("512MiB"), 512 << 20)
        self.assertEqual(units.parse_size("50MB"), 50_000_000)
        self.assertEqual(units.parse_size("1.5 GiB"), 3 << 29)
        self.assertEqual(units.parse_size("4096"), 4096)
        for wrong in ("", "GiB", "-1", "1XB", "0.3B"):
            with self.assertRaises(ValueError, msg=wrong):
                units.parse_size(wrong)

    def test_a_scale_is_an_exact_fraction_above_zero_and_at_most_one(self) -> None:
        self.assertEqual(units.parse_scale("1/16"), Fraction(1, 16))
        for wrong in ("0", "2", "1/0", "x"):
            with self.assertRaises(ValueError, msg=wrong):
                units.parse_scale(wrong)

    def test_a_median_leaves_out_what_was_not_measured(self) -> None:
        self.assertEqual(units.median([3.0, None, 1.0, 2.0]), 2.0)
        self.assertIsNone(units.median([None]))


class Targets(unittest.TestCase):
    def verdict(self, measured: dict, part: str) -> targets.Verdict:
        return next(v for v in targets.verdicts([measured]) if part in v.measure)

    def test_the_ratio_to_the_floor_is_the_median_of_the_rounds_own_ratios(self) -> None:
        verdict = self.verdict(case(), "floor")
        self.assertEqual((verdict.got, verdict.met), ("1.10", True))
        noisy = case(runs={"outcore": [run(5.0, floor_s=2.0), run(5.0, floor_s=4.0), run(5.0, floor_s=5.0)]})
        self.assertEqual(self.verdict(noisy, "floor").met, False)

    def test_a_failed_run_of_outcore_misses_and_an_absent_peer_is_not_measured(self) -> None:
        failed = case()
        failed["runs"]["outcore"][2]["failure"] = "wrong output"
        self.assertEqual(self.verdict(failed, "floor").met, False)
        lonely = case(runs={"outcore": [run(5.0)]}, skipped={"STXXL": "no compiler"})
        verdict = self.verdict(lonely, "STXXL")
        self.assertIsNone(verdict.met)
        self.assertIn("no compiler", verdict.got)

    def test_memory_is_judged_by_the_worst_run_and_drives_by_their_rating(self) -> None:
        greedy = case("rss-512", runs={"outcore": [run(5.0, peak_rss_bytes=577 << 20), run(5.0)]})
        self.assertEqual(self.verdict(greedy, "peak RSS").met, False)
        array = case("drives-4", facts={"drives": 4, "rate_bytes_s": 50e6, "allowed_s": 5.3})
        self.assertEqual(self.verdict(array, "throttled").met, True)
        array["facts"]["allowed_s"] = 5.2
        self.assertEqual(self.verdict(array, "throttled").met, False)

    def test_every_lost_comparison_is_named(self) -> None:
        slow = case(runs={"outcore": [run(40.0)], "STXXL": [run(20.0, cpu_s=2.0)]})
        lost = "\n".join(targets.losses([slow]))
        self.assertIn("STXXL is 2.00 times faster", lost)
        self.assertIn("STXXL takes 2.0 s of CPU", lost)
        self.assertIn("missed", lost)
        self.assertEqual(targets.losses([case()]), [])


class Report(unittest.TestCase):
    def test_both_forms_show_every_case_and_a_failed_peer(self) -> None:
        failing = case(runs={"outcore": [run(5.0)], "DuckDB": [run(1.0, failure="killed by the kernel")]})
        for text in (report.text(result(failing)), report.markdown(result(failing))):
            self.assertIn("case 2g", text)
            self.assertIn("DuckDB: failed: killed by the kernel", text)
            self.assertIn("1.00", text)

    def test_a_bar_in_a_cell_does_not_break_the_markdown_table(self) -> None:
        self.assertIn("one \\| two", report.markdown(result(case())))

    def test_only_the_marked_section_of_the_documentation_changes(self) -> None:
        marks = report.SORT.pages[0]
        with tempfile.TemporaryDirectory() as directory:
            page = Path(directory) / marks.file
            page.write_text(f"head\n{marks.mark_begin}\nold\n{marks.mark_end}\ntail\n")
            report.write_docs(result(case()), Path(directory))
            once = page.read_text()
            self.assertTrue(once.startswith("head\n") and once.endswith("tail\n"))
            self.assertNotIn("old", once)
            report.write_docs(result(case()), Path(directory))
            self.assertEqual(page.read_text(), once)
            page.write_text("no marks")
            with self.assertRaises(ValueError):
                report.write_docs(result(case()), Path(directory))

    def test_the_documentation_shows_every_tool_of_a_case_and_a_failed_peer(self) -> None:
        failing = case(runs={"outcore": [run(5.0)], "DuckDB": [run(1.0, failure="killed by the kernel")]})
        text = report.section(result(failing), report.SORT, report.SORT.pages[0])
        self.assertIn("| `2g` | outcore | 5.00 |", text)
        self.assertIn("| `2g` | DuckDB | failed |", text)
        self.assertIn("DuckDB: failed: killed by the kernel", text)

    def test_merging_keeps_the_latest_of_each_case_and_refuses_different_machines(self) -> None:
        first, second = result(case("2g"), case("tmpfs")), result(case("2g", title="again"))
        first["skipped"] = {"drives": "needs root"}
        second["cases"].append(case("drives-1", facts={"drives": 1, "rate_bytes_s": 5e7, "allowed_s": 1.0}))
        merged = report.merge([first, second])
        self.assertEqual([c["title"] for c in merged["cases"]], ["again", "case tmpfs", "case drives-1"])
        self.assertEqual(merged["skipped"], {})
        other = copy.deepcopy(second)
        other["machine"] = {"processor": "another"}
        with self.assertRaises(ValueError):
            report.merge([first, other])


if __name__ == "__main__":
    unittest.main()
