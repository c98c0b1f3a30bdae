"""`outcore.torch` with PyTorch itself: workers, ranks in processes of their own, restarts."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed (some 3 GB with its libraries): pip install torch"
)

from torch.utils.data import DataLoader  # type: ignore[import-not-found, unused-ignore]  # noqa: E402

from outcore.torch import ShuffledDataset  # noqa: E402

COUNT = 1201
OPTIONS: dict[str, Any] = {"batch_size": 50, "dtype": "uint64", "memory": "32MiB", "seed": 3}


def as_numbers(array: Any) -> Any:
    return torch.from_numpy(array.astype(np.int64))


@pytest.fixture
def numbers(here: Path) -> list[int]:
    outcore.tabulate(COUNT, "x * 3").write("in.bin")
    return [3 * number for number in range(COUNT)]


def dataset(**options: Any) -> ShuffledDataset:
    return ShuffledDataset("in.bin", transform=as_numbers, **{**OPTIONS, **options})


def loader(data: ShuffledDataset, workers: int, **options: Any) -> DataLoader:
    return DataLoader(data, batch_size=None, num_workers=workers, **options)


def lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_the_batches_and_their_number_do_not_depend_on_workers(numbers: list[int]) -> None:
    wanted = lists(loader(dataset(), 0))
    assert sorted(sum(wanted, [])) == numbers
    for workers in (1, 2, 3):
        batches = loader(dataset(), workers)
        assert len(batches) == len(wanted) == 25
        assert sorted(lists(batches)) == sorted(wanted)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_an_epoch_reaches_workers_that_persist(numbers: list[int], context: str) -> None:
    data = dataset()
    batches = loader(data, 2, persistent_workers=True, multiprocessing_context=context)
    seen = []
    for epoch in (0, 1, 5, 1):
        data.set_epoch(epoch)
        seen.append(lists(batches))
        assert sorted(sum(seen[-1], [])) == numbers
    assert seen[1] == seen[3]
    assert seen[0] != seen[1] and seen[1] != seen[2]
    alone = dataset(epoch=5)
    assert seen[2] == lists(loader(alone, 2))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_loader_goes_on_in_the_same_sequence(
    numbers: list[int], workers: int, persistent: bool
) -> None:
    if persistent and not workers:
        return
    options = {"persistent_workers": persistent}
    data = dataset()
    data.set_epoch(2)
    sequence = lists(loader(data, workers))
    for taken in (0, 1, 7, 25):
        first = dataset()
        first.set_epoch(2)
        iterator = iter(loader(first, workers, **options))
        begun = [next(iterator).tolist() for _ in range(taken)]
        state = first.state_dict(taken=taken)
        del iterator
        again = dataset()
        again.load_state_dict(state)
        again.set_epoch(2)  # as in a loop over epochs
        restarted = loader(again, workers, **options)
        assert begun + lists(restarted) == sequence, f"after {taken} batches"
        # The next iteration is a full one, and the next restart counts from the start of the epoch.
        assert lists(restarted) == sequence
        again.set_epoch(3)
        assert sorted(sum(lists(restarted), [])) == numbers


def test_a_restart_of_a_restart_counts_from_the_begin_of_the_epoch(numbers: list[int]) -> None:
    sequence = lists(loader(dataset(), 2))
    state = None
    got = []
    for taken in (3, 4, 5):
        data = dataset()
        if state is not None:
            data.load_state_dict(state)
            assert data.state_dict() == state
        iterator = iter(loader(data, 2))
        got += [next(iterator).tolist() for _ in range(taken)]
        state = data.state_dict(taken=taken)
        del iterator
    assert got == sequence[:12]
    assert state is not None and state["batches"] == 12


@pytest.mark.parametrize("workers", [0, 2])
def test_the_stateful_loader_of_torchdata_goes_on(numbers: list[int], workers: int) -> None:
    stateful: Any = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed: pip install torchdata"
    )

    def make() -> Any:
        data = dataset()
        data.set_epoch(4)
        return stateful.StatefulDataLoader(data, batch_size=None, num_workers=workers)

    sequence = lists(make())
    assert sorted(sum(sequence, [])) == numbers
    for taken in (1, 8, 24):
        first = make()
        iterator = iter(first)
        begun = [next(iterator).tolist() for _ in range(taken)]
        state = first.state_dict()
        del iterator
        again = make()
        again.load_state_dict(state)
        assert begun + lists(again) == sequence, f"after {taken} batches"
        assert lists(again) == sequence


def test_a_copy_of_a_dataset_has_epochs_of_its_own(numbers: list[int]) -> None:
    data = dataset()
    iterator = iter(data)
    next(iterator)
    for again in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        again.set_epoch(7)
        assert (data.epoch, again.epoch) == (0, 7)
        batches = loader(again, 2, persistent_workers=True)
        assert lists(batches) == lists(loader(dataset(epoch=7), 2))
        again.set_epoch(8)
        assert lists(batches) == lists(loader(dataset(epoch=8), 2))


def test_a_state_that_does_not_fit_is_refused(numbers: list[int]) -> None:
    data = dataset()
    iterator = iter(loader(data, 2))
    next(iterator)
    with pytest.raises(outcore.UsageError, match="taken="):
        data.state_dict()
    state = data.state_dict(taken=1)
    del iterator
    with pytest.raises(outcore.UsageError, match="batch_size=50"):
        dataset(batch_size=60).load_state_dict(state)
    with pytest.raises(outcore.UsageError, match="seed=3"):
        dataset(seed=4).load_state_dict(state)
    with pytest.raises(outcore.UsageError, match="it has no"):
        dataset().load_state_dict({"epoch": 1})
    other = dataset()
    other.load_state_dict(state)
    with pytest.raises(outcore.UsageError, match="2 workers"):
        next(iter(loader(other, 3)))


RANK = """
import sys
import numpy, torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from outcore.torch import ShuffledDataset

def as_numbers(array):
    return torch.from_numpy(array.astype(numpy.int64))

if __name__ == "__main__":
    rank, workers, batch, drop = (int(word) for word in sys.argv[1:])
    data = ShuffledDataset(
        "in.bin", batch_size=batch, dtype="uint64", memory="32MiB", drop_last=bool(drop), transform=as_numbers
    )
    # After the dataset: what is not given is asked for when it is needed.
    meet = "file://" + sys.argv[0] + ".meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    context = "spawn" if drop else "fork"
    loader = DataLoader(
        data,
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=context if workers else None,
    )
    for epoch in range(2):
        data.set_epoch(epoch)
        seen = 0
        for batch in loader:
            seen += 1
            # Each waits for the other here, as training does for gradients: unequal counts hang.
            sizes = torch.tensor([len(batch)])
            dist.all_reduce(sizes)
            assert sizes.item() == 2 * len(batch)
            print(epoch, *batch.tolist())
        assert seen == len(loader), (seen, len(loader))
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("workers, batch, drop", [(0, 600, 0), (2, 600, 0), (1, 64, 1)])
def test_two_processes_that_wait_for_each_other_read_everything(
    numbers: list[int], workers: int, batch: int, drop: int
) -> None:
    script = Path(f"rank{workers}{drop}.py").absolute()
    script.write_text(RANK)
    words = [str(workers), str(batch), str(drop)]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, errors) in zip(ranks, said):
        assert rank.returncode == 0, errors
    lines = [[line.split() for line in out.splitlines()] for out, _ in said]
    assert len(lines[0]) == len(lines[1])
    for epoch in ("0", "1"):
        seen = sorted(int(n) for rank in lines for at, *batch in rank if at == epoch for n in batch)
        if drop:
            assert len(set(seen)) == len(seen) == COUNT // 2 // batch * batch * 2
        else:
            assert sorted(set(seen)) == numbers
            assert len(seen) == COUNT + 1, "1,201 records are 601 for each of two"
