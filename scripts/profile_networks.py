#!/usr/bin/env python3
"""Profiles BERT, GPT-2 and ResNet-50 with random weights on a GPU, as traces for `outcore sim`.

Contract: writes one PyTorch profiler trace per network (`bert.pt.trace.json.gz`, ...) into the output folder.
`outcore sim allegro` and `outcore sim gpu --trace` read the kernels of these traces. Weights are random and inputs are
noise, because kernels and their durations do not depend on the values; nothing is downloaded. Needs a CUDA device,
PyTorch and, for the transformers, the package `transformers` (`torchvision` for ResNet-50). Without them it prints SKIP
and what is missing before anything runs (exit code 77). Existing files are overwritten only with `--force`. Memory: one
network and one profile at a time.

    python3 scripts/profile_networks.py --out traces --passes 20
    outcore sim allegro traces/bert.pt.trace.json.gz --eps 0.05
"""

from __future__ import annotations

import argparse
import copy
import gzip
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

# Exit code if this machine lacks a requirement.
EXIT_SKIPPED = 77
# The package that each network needs in addition to PyTorch.
NEEDS = {"bert": "transformers", "gpt2": "transformers", "resnet50": "torchvision"}


def bert(torch: Any, batch: int, tokens: int) -> Callable[[], Any]:
    """One forward pass of BERT base over a batch of sentences."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).half().cuda().eval()
    words = torch.randint(0, model.config.vocab_size, (batch, tokens), device="cuda")
    return lambda: model(input_ids=words)


def gpt2(torch: Any, batch: int, tokens: int) -> Callable[[], Any]:
    """One token of GPT-2 small after `tokens` others, with its cache of keys and values."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).half().cuda().eval()
    past_max = model.config.n_positions - 1
    past = min(tokens, past_max)
    words = torch.randint(0, model.config.vocab_size, (batch, past), device="cuda")
    with torch.inference_mode():
        first = model(input_ids=words, use_cache=True)
    word = first.logits[:, -1:].argmax(-1)

    def step() -> Any:
        # The cache grows in place with each call; a copy keeps all passes equal.
        cache = copy.deepcopy(first.past_key_values)
        return model(input_ids=word, past_key_values=cache, use_cache=True)

    return step


def resnet50(torch: Any, batch: int, tokens: int) -> Callable[[], Any]:
    """One forward pass of ResNet-50 over a batch of images of 224 x 224."""
    del tokens
    from torchvision.models import resnet50 as network

    model = network(weights=None).half().cuda().eval().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half)
    images = images.contiguous(memory_format=torch.channels_last)
    return lambda: model(images)


BUILDERS = {"bert": bert, "gpt2": gpt2, "resnet50": resnet50}


def profile(torch: Any, run: Callable[[], Any], passes: int, warm_up: int, path: Path) -> int:
    """Profiles `passes` calls of `run` after `warm_up` others. Returns the number of recorded kernels."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with torch.inference_mode():
        for _ in range(warm_up):
            run()
        torch.cuda.synchronize()
        with profiler(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
            for _ in range(passes):
                run()
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        raw = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(raw))
        packed = Path(folder) / "trace.json.gz"
        with raw.open("rb") as source, gzip.open(packed, "wb") as target:
            shutil.copyfileobj(source, target)
        # Complete or absent: the name appears only when the file is complete.
        os.replace(packed, path)
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in recorded.events())


def missing(networks: list[str]) -> str | None:
    """A message about the requirements of `networks` that this machine lacks; None if nothing is missing."""
    packages = ["torch", *(NEEDS[network] for network in networks)]
    absent = sorted({name for name in packages if importlib.util.find_spec(name) is None})
    if absent:
        return f"missing: {', '.join(absent)}; install with pip install {' '.join(absent)}"
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device; profile on the machine that has one"
    return None


def main() -> int:
    """Parses the arguments and profiles the chosen networks. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ", ".join(BUILDERS)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{known}; default: all")
    parser.add_argument("--out", type=Path, default=Path("traces"), help="folder for the traces")
    parser.add_argument("--passes", type=int, default=20, help="passes per network")
    parser.add_argument("--warm-up", type=int, default=5, help="passes before the profile")
    parser.add_argument("--batch", type=int, default=1, help="sentences or images per pass")
    parser.add_argument("--tokens", type=int, default=128, help="tokens in a sentence or prompt")
    parser.add_argument("--force", action="store_true", help="overwrite traces")
    given = parser.parse_args()
    networks = given.networks or list(BUILDERS)
    unknown = [network for network in networks if network not in BUILDERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {known}")
    if min(given.passes, given.batch, given.tokens) < 1 or given.warm_up < 0:
        parser.error("passes, batch and tokens must be at least 1")
    problem = missing(networks)
    if problem:
        print(f"SKIP: profile_networks: {problem}", file=sys.stderr)
        return EXIT_SKIPPED
    import torch

    given.out.mkdir(parents=True, exist_ok=True)
    for network in networks:
        path = given.out / f"{network}.pt.trace.json.gz"
        if path.exists() and not given.force:
            print(f"error: {path} exists; --force overwrites it", file=sys.stderr)
            return 2
        run = BUILDERS[network](torch, given.batch, given.tokens)
        events = profile(torch, run, given.passes, given.warm_up, path)
        gpu = torch.cuda.get_device_name()
        print(f"{path}: {given.passes} passes on {gpu}, {events} device events")
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
