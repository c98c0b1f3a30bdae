"""The comparison of `bench io` with fio: fio's command, and the rows of the table."""

import argparse
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "io" / "against_fio.py"
SPEC = importlib.util.spec_from_file_location("against_fio", SOURCE)
assert SPEC is not None and SPEC.loader is not None
against_fio = importlib.util.module_from_spec(SPEC)
sys.modules["against_fio"] = against_fio
SPEC.loader.exec_module(against_fio)


class AgainstFio(unittest.TestCase):
    def test_fio_registers_its_buffers_and_its_file_unless_it_is_plain(self) -> None:
        load = ("randread", "4KiB", 32)
        for plain, count in ((False, 2), (True, 0)):
            options = argparse.Namespace(size="1GiB", seconds=1.0, plain=plain)
            command = against_fio.fio_command(Path("data"), load, options)
            self.assertEqual(sum(word in ("--fixedbufs", "--registerfiles") for word in command), count)
            self.assertIn("--bs=4096", command)
            self.assertIn("--iodepth=32", command)

    def test_a_row_has_the_median_and_the_spread_of_the_rounds(self) -> None:
        row = against_fio.Row(("randread", "4KiB", 32), [100.0] * 5, [80.0, 120.0, 100.0, 105.0, 90.0])
        text = row.text(0.1)
        wanted = "| random read 4 KiB, 32 in flight | 100 | 100 | 1.000 | 0.90 to 1.05 | 0.80 to 1.20 | yes |"
        self.assertEqual(text, wanted)
        fast = against_fio.Row(("write", "1MiB", 8), [100.0] * 5, [150.0] * 5).text(0.1)
        self.assertTrue(fast.startswith("| write 1 MiB, 8 in flight |"), fast)
        self.assertTrue(fast.endswith("| **no**, outcore is faster |"), fast)

    def test_the_table_of_the_page_is_replaced_between_its_marks(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            page = Path(home) / "page.md"
            begin, end = against_fio.MARKS
            page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
            whole, against_fio.PAGE = against_fio.PAGE, page
            try:
                against_fio.write_docs(["| new |"])
            finally:
                against_fio.PAGE = whole
            self.assertEqual(page.read_text(), f"before\n{begin}\n| new |\n{end}\nafter\n")
            self.assertIn(begin, whole.read_text())


if __name__ == "__main__":
    unittest.main()
