"""Counts the tests that ran, from the output of cargo, pytest, `pages.py` and `help_examples.py`.

Contract: pure, no I/O. A test that passes but prints `SKIP: reason` counts as skipped, never as passed. A run that
fails without naming a failed test (a crash, a compile error, an exceeded limit) counts as one failure, so that zero
failures always means success.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

RESULT = re.compile(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;.*?(\d+) filtered out"
)
BINARY = re.compile(r"^\s*(?:Running|Doc-tests) (.*?)(?: \(.*\))?$")
SECTION = re.compile(r"^---- (.+?) stdout ----$")
VERDICT = re.compile(r"^test (.+?) \.\.\. (\w+)")
PAGES = re.compile(r"^(\d+) passed, \d+ failed, \d+ skipped$")
SKIP = re.compile(r"\bSKIP: (.+)$")


@dataclass
class Tally:
    """The tests that ran: counts, and the names of the failed and skipped ones."""

    passed_count: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Adds the counts of another tally."""
        self.passed_count += other.passed_count
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self) -> str:
        """The last line of a run."""
        return (
            f"{self.passed_count} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        )


class CargoReader:
    """Reads `cargo test -- --show-output` line by line.

    `read` returns whether a person wants to see the line. The output of passed tests is requested only to find their
    SKIP lines, and hidden.
    """

    def __init__(self) -> None:
        self.tally = Tally()
        self._binary = "?"
        self._test: str | None = None
        self._is_success_part = False
        self._skips: dict[str, str] = {}
        self._loose_skips: list[str] = []
        self._failed: list[str] = []
        self._is_open = False

    def read(self, line: str) -> bool:
        """Processes one line without its end. Returns True if it is worth showing."""
        line = line.rstrip()
        if match := BINARY.match(line):
            self._begin(match[1])
            return True
        if match := RESULT.match(line):
            self._end(*(int(number) for number in match.groups()))
            return True
        if line in ("successes:", "failures:"):
            self._is_success_part = line == "successes:"
            self._test = None
            return not self._is_success_part
        if match := SECTION.match(line):
            self._test = match[1]
        if match := VERDICT.match(line):
            if match[2] == "FAILED":
                self._failed.append(match[1])
            elif match[2] == "ignored":
                self.tally.skipped.append(f"{self._binary}: {match[1]}: marked as ignored")
        if match := SKIP.search(line):
            if self._is_success_part and self._test:
                self._skips.setdefault(self._test, match[1])
            elif not self._test:
                self._loose_skips.append(match[1])
        return not self._is_success_part

    def finish(self, exit_code: int) -> Tally:
        """Finishes the counts once cargo has ended."""
        if self._is_open:
            self.tally.failed.append(f"{self._binary}: ended without a result")
        elif exit_code != 0 and not self.tally.failed:
            self.tally.failed.append(f"cargo test: exit code {exit_code} without a failed test")
        return self.tally

    def _begin(self, binary: str) -> None:
        if self._is_open:
            self.tally.failed.append(f"{self._binary}: ended without a result")
        self._binary = binary
        self._test = None
        self._is_success_part = False
        self._skips = {}
        self._loose_skips = []
        self._failed = []
        self._is_open = True

    def _end(self, passed: int, failed: int, _ignored: int, _filtered: int) -> None:
        reasons = [f"{test}: {reason}" for test, reason in self._skips.items()]
        reasons += self._loose_skips
        reasons = reasons[:passed]
        self.tally.passed_count += passed - len(reasons)
        self.tally.skipped += [f"{self._binary}: {reason}" for reason in reasons]
        names = self._failed + ["a test without a name"] * (failed - len(self._failed))
        self.tally.failed += [f"{self._binary}: {name}" for name in names[:failed]]
        self._is_success_part = False
        self._test = None
        self._is_open = False


def pytest_tally(junit_xml: str, exit_code: int) -> Tally:
    """Counts a pytest run from its JUnit report."""
    tally = Tally()
    try:
        root = ElementTree.fromstring(junit_xml)
    except ElementTree.ParseError:
        tally.failed.append(f"pytest: exit code {exit_code} without a report")
        return tally
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failed.append(name)
        elif skip is not None:
            tally.skipped.append(f"{name}: {skip.get('message') or 'no reason given'}")
        else:
            tally.passed_count += 1
    if exit_code != 0 and not tally.failed:
        tally.failed.append(f"pytest: exit code {exit_code} without a failed test")
    return tally


def pages_tally(lines: list[str], exit_code: int, script: str = "scripts/pages.py") -> Tally:
    """Counts the blocks of pages, or examples of help texts, from the lines that a script printed."""
    tally = Tally()
    for line in lines:
        if line.startswith("SKIP: "):
            tally.skipped.append(line.removeprefix("SKIP: ").strip())
        elif line.startswith("FAILED: "):
            tally.failed.append(line.removeprefix("FAILED: ").strip())
        elif match := PAGES.match(line):
            tally.passed_count = int(match[1])
    if exit_code != 0 and not tally.failed:
        tally.failed.append(f"{script}: exit code {exit_code} without a failed block")
    return tally
