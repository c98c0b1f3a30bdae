"""`profile_networks.py` on machines without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "profile_networks.py"


def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "traces"
    # Hides the GPU if there is one.
    done = subprocess.run([sys.executable, str(SCRIPT), "--out", str(out)], capture_output=True, text=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 77, done.stderr
    assert done.stderr.startswith("SKIP: profile_networks: "), done.stderr
    assert "missing: " in done.stderr or "no CUDA device" in done.stderr
    assert not out.exists()


def test_an_unknown_network_is_a_mistake_not_a_skip(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "resnet51", "--out", str(tmp_path)],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "resnet51" in done.stderr and "resnet50" in done.stderr
