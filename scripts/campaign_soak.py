"""The campaign `soak`: jobs and attacks of all kinds, one after another, next to one volume that stays.

Contract: as `campaigns.py`, except that a case also depends on the volume, which earlier cases have
filled; `--from` begins with an empty one. The volume has three drives with parity and lives as long
as the campaign; its datasets are those of a model, a dict of names and checksums. Each case is one
case of another campaign, or one operation on the volume. `put`, `get`, `rm` and `scrub` may be
killed: a dataset then is the old one, the new one or, after `rm`, absent, and never anything else.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from campaign_races import Outcome, Yard

NAMES = ("p", "q", "r", "s")


class Soak:
    """See the module."""

    def __init__(self, options: argparse.Namespace, campaigns: list[Any]) -> None:
        self.campaigns = campaigns
        self.yard = Yard(options)
        for name in ("v1", "v2", "v3"):
            (self.yard.place / name).mkdir()
        drives = [f'[[drive]]\nname = "{name}"\ndir = "{name}"\n' for name in ("v1", "v2", "v3")]
        (self.yard.place / "volume.toml").write_text("\n".join(drives))
        answer = self.yard.run("volume create --volume volume.toml --parity 1")
        if answer.code != 0:
            raise RuntimeError(answer.said)
        # The checksums that a dataset may have; None is an absent one.
        self.model: dict[str, set[str | None]] = {name: {None} for name in NAMES}

    def case(self, draw: random.Random) -> Outcome:
        """One case of a campaign, or one operation on the volume."""
        if self.campaigns and draw.random() < 0.6:
            return draw.choice(self.campaigns).case(draw)
        name = draw.choice(NAMES)
        return draw.choice([self.put, self.put, self.get, self.get, self.remove, self.scrub])(
            draw, name)

    def run(self, draw: random.Random, line: str) -> tuple[int, str]:
        """Runs a command on the volume; the command may be killed."""
        process = self.yard.start(f"{line} --volume volume.toml")
        if draw.random() < 0.4:
            time.sleep(draw.random() * 0.1)
            process.send_signal(signal.SIGKILL)
        answer = self.yard.finish(process)
        return answer.code, answer.said

    def put(self, draw: random.Random, name: str) -> Outcome:
        """Puts a dataset, which may replace an existing one."""
        content = draw.randbytes(draw.randint(0, 3_000_000))
        (self.yard.place / "new").write_bytes(content)
        what = f"volume put @{name} --force"
        code, said = self.run(draw, f"volume put new @{name} --force")
        digest = sha256(content).hexdigest()
        if code == 0:
            self.model[name] = {digest}
        elif code == -signal.SIGKILL:
            self.model[name].add(digest)
        else:
            return Outcome.wrong(what, f"exit code {code}: {said}")
        return self.look(draw, name, what)

    def get(self, draw: random.Random, name: str) -> Outcome:
        """Reads a dataset."""
        return self.look(draw, name, f"volume get @{name}")

    def remove(self, draw: random.Random, name: str) -> Outcome:
        """Removes a dataset."""
        what = f"volume rm @{name}"
        code, said = self.run(draw, f"volume rm @{name}")
        if code == 0:
            self.model[name] = {None}
        elif code == -signal.SIGKILL or None in self.model[name]:
            self.model[name].add(None)
        else:
            return Outcome.wrong(what, f"exit code {code}: {said}")
        return self.look(draw, name, what)

    def scrub(self, draw: random.Random, name: str) -> Outcome:
        """Checks that the whole volume has no damage."""
        code, said = self.run(draw, "volume scrub")
        if code not in (0, -signal.SIGKILL):
            return Outcome.wrong("volume scrub", f"exit code {code}: {said}")
        return self.look(draw, name, "volume scrub")

    def look(self, draw: random.Random, name: str, what: str) -> Outcome:
        """Checks that a dataset has one of its allowed contents. From then on, only these contents are allowed."""
        path: Path = self.yard.place / "got"
        path.unlink(missing_ok=True)
        answer = self.yard.run(f"volume get @{name} got --volume volume.toml")
        if answer.code == 0:
            digest: str | None = sha256(path.read_bytes()).hexdigest()
        elif f"dataset @{name} not found" in answer.said:
            digest = None
        else:
            return Outcome.wrong(what, f"then get: exit code {answer.code}: {answer.said}")
        if digest not in self.model[name]:
            return Outcome.wrong(what, f"@{name} is another one: {answer.said}")
        self.model[name] = {digest}
        return Outcome.right(what)

    def close(self) -> None:
        """Removes the volume and the files of the other campaigns."""
        self.yard.close()
        for campaign in self.campaigns:
            campaign.close()
