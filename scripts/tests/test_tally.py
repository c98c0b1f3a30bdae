"""The counts at the end of `make test`: no failure may be counted as a success."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tally import CargoReader, Tally, pytest_tally  # noqa: E402

TWO_BINARIES = """\
   Compiling outcore v0.1.0
     Running unittests src/lib.rs (target/debug/deps/outcore-1)

running 4 tests
test a::one ... ok
test a::two ... ok
test a::three ... ignored, slow
test a::four ... ok

successes:

---- a::two stdout ----
seed 7
SKIP: needs root
SKIP: needs loop devices

successes:
    a::four
    a::one
    a::two

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/kill.rs (target/debug/deps/kill-2)

running 2 tests
test five ... FAILED
test six ... ok

failures:

---- five stdout ----
SKIP: printed by a test that then failed
panicked

failures:
    five

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

"""


def read(text: str, exit_code: int) -> tuple[Tally, str]:
    reader = CargoReader()
    shown = [line for line in text.splitlines() if reader.read(line)]
    return reader.finish(exit_code), "\n".join(shown)


def test_counts_are_summed_over_binaries():
    tally, _ = read(TWO_BINARIES, 101)
    assert tally.line() == "3 passed, 1 failed, 2 skipped"
    assert tally.failed == ["tests/kill.rs: five"]


def test_a_test_that_skips_is_counted_once_with_its_first_reason():
    tally, _ = read(TWO_BINARIES, 101)
    assert "unittests src/lib.rs: a::two: needs root" in tally.skipped
    assert any("a::three" in line for line in tally.skipped)


def test_output_of_passing_tests_is_hidden_and_that_of_failing_ones_shown():
    _, shown = read(TWO_BINARIES, 101)
    assert "seed 7" not in shown
    assert "panicked" in shown and "test result: FAILED" in shown


def test_a_skip_past_the_capture_counts_too():
    text = TWO_BINARIES.replace("test a::four ... ok", "test a::four ... SKIP: no io_uring\nok")
    tally, _ = read(text, 101)
    assert tally.line() == "2 passed, 1 failed, 3 skipped"


def test_a_binary_that_dies_is_a_failure():
    text = TWO_BINARIES.split("test five")[0]
    tally, _ = read(text, 101)
    assert tally.failed == ["tests/kill.rs: ended without a result"]


def test_a_binary_that_dies_before_the_next_is_a_failure():
    text = TWO_BINARIES.replace("test result: ok.", "killed:")
    tally, _ = read(text, 101)
    assert "unittests src/lib.rs: ended without a result" in tally.failed


def test_a_compile_error_is_a_failure():
    tally, _ = read("error[E0425]: cannot find value\nerror: could not compile\n", 101)
    assert tally.line() == "0 passed, 1 failed, 0 skipped"


JUNIT = """<testsuites><testsuite>
<testcase classname="t" name="a"/>
<testcase classname="t" name="b"><failure message="no"/></testcase>
<testcase classname="t" name="c"><error message="no"/></testcase>
<testcase classname="t" name="d"><skipped message="needs root"/></testcase>
</testsuite></testsuites>"""


def test_pytest_errors_count_as_failures_and_skips_keep_their_reason():
    tally = pytest_tally(JUNIT, 1)
    assert tally.line() == "1 passed, 2 failed, 1 skipped"
    assert tally.skipped == ["t.d: needs root"]


def test_a_pytest_run_without_report_or_without_tests_is_a_failure():
    assert pytest_tally("", 3).failed
    assert pytest_tally("<testsuites></testsuites>", 5).failed
    assert not pytest_tally("<testsuites></testsuites>", 0).failed
