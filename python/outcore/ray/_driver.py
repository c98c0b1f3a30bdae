"""The driver of a job on a cluster: starts tasks, repeats lost work, checks totals, publishes.

Contract: the first stage partitions each source on some node; the second collects one part from all
nodes and finishes it. A killed worker costs its task, which Ray starts again. If a node is lost, a
task of the second stage reports which parts it did not find, and only their sources are partitioned
again. The output directory appears by one rename when all parts are finished and their totals are
those of the inputs; otherwise nothing of it remains. An interrupt cancels all tasks and removes the
files that they wrote.

Source: Exoshuffle (Luan et al., SIGCOMM 2023): a shuffle as tasks of a general scheduler.

Bounds: the driver holds the names and totals of all files of the first stage: sources times parts.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import ray as _ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as OnNode

from .. import _units as units
from .. import _part_verbs
from .._errors import CorruptError, IoError, usage
from .._progress import DONE, Watcher, telling
from . import _files, _sample, _tasks
from ._job import Borders, Finished, Form, Job, Missing, Part, Partitioned, Source, mixed
from ._keeper import Keeper

#: Ray, most of whose functions have no types.
ray: Any = _ray
#: Phases of a job. The progress counts the bytes of both.
PHASES = ("partition", "finish")
#: The list of all parts, which is written last. Readers of tables skip it.
LIST = "_outcore.json"
#: Memory of a worker next to the engine's: Python, Ray and buffers of the engine.
WORKER_BYTES = 256 << 20
#: How often Ray restarts a task of a killed worker, and how often the driver repeats a source of a
#: lost node.
_RETRIES = 5
_SAMPLES = 20_000
#: Memory for each part that a task writes: buffers, and rows that wait for others.
_PART_BYTES = 6 << 20
_WAIT_SECONDS = 0.2
_KEEPER_SECONDS = 60.0
_FAULT = "_OUTCORE_RAY_FAULT"
_APART = "_OUTCORE_RAY_APART"
#: The keepers of this driver by its connection to Ray and by node. Keepers live as long as the driver, so only the
#: first job waits for them.
_KEEPERS: dict[tuple[str, str], Any] = {}


@dataclass(frozen=True)
class Request:
    """The request of the caller."""

    verb: str
    dst: str
    #: The inputs: one list of paths, or two for a join, each with the node that has them, if any.
    sides: tuple[tuple[tuple[str | None, list[str]], ...], ...]
    #: Arguments that determine the kind of the inputs.
    reading: dict[str, Any]
    #: Arguments of the verb for each part.
    options: dict[str, Any]
    #: The arguments of `sort` that give the order of the splitters; `None` for random parts.
    order: dict[str, Any] | None
    #: The key columns of tables or fields of JSON lines, for each side.
    by: tuple[tuple[str, ...], ...] = ((), ())
    is_table: bool = False
    #: Whether the parts come in the reverse order of the splitters.
    is_reversed: bool = False
    seed: int = 1
    parts: int | None = None
    memory_bytes: int | None = None
    cpus: int = 1
    drives: tuple[str, ...] = ("/var/tmp",)
    is_replacing: bool = False


@dataclass
class Run:
    """A job that runs."""

    request: Request
    job: Job
    tell: Callable[[str, int, int], None]
    keepers: dict[str, Any] = field(default_factory=dict)
    done: dict[int, Partitioned] = field(default_factory=dict)
    pending: dict[Any, tuple[str, Any]] = field(default_factory=dict)

    def remote(self, function: Any, node: str | None = None, *, is_soft: bool = False) -> Any:
        """A task with the resources of the job."""
        strategy: Any = "SPREAD" if node is None else OnNode(node, soft=is_soft)
        return _remote(function).options(
            num_cpus=self.request.cpus,
            memory=self.job.memory_bytes + WORKER_BYTES,
            max_retries=_RETRIES,
            scheduling_strategy=strategy,
        )

    def keep(self, node: str) -> None:
        """Lets the keeper of a node hold this job's directories; starts one if there is none."""
        if node in self.keepers:
            return
        place = (ray.get_runtime_context().get_job_id(), node)
        if place not in _KEEPERS:
            host = next(one["NodeManagerAddress"] for one in ray.nodes() if one["NodeID"] == node)
            actor = _remote(Keeper).options(
                num_cpus=0, max_restarts=-1, max_task_retries=1, max_concurrency=4,
                scheduling_strategy=OnNode(node, soft=False),
            )
            _KEEPERS[place] = actor.remote(node, host)
        self.keepers[node] = _KEEPERS[place]
        self.keepers[node].hold.remote(self.job)

    def addresses(self) -> dict[str, tuple[str, int]]:
        """The addresses of the keepers; nodes that do not answer are left out."""
        asked = {node: keeper.hold.remote(self.job) for node, keeper in self.keepers.items()}
        found = {}
        for node, reply in asked.items():
            with suppress(RayError):
                found[node] = ray.get(reply, timeout=_KEEPER_SECONDS)
        return found

    def forget(self, node: str) -> None:
        """Ends the keeper of a node that does not answer."""
        keeper = self.keepers.pop(node)
        _KEEPERS.pop((ray.get_runtime_context().get_job_id(), node), None)
        with suppress(RayError):
            ray.kill(keeper)

    def partition(self, source: Source, forms: tuple[Form, ...], borders: Borders) -> None:
        """Starts a task of the first stage."""
        own = borders
        if borders.splitters is None:
            seed = mixed(self.request.seed, "partition", source.number)
            own = Borders(borders.parts, None, borders.suffix, borders.by, seed)
        task = self.remote(_partition, source.node)
        self.pending[task.remote(self.job, source, forms[source.side], own)] = ("partition", source)

    def results(self) -> Iterator[tuple[str, Any, Any]]:
        """The results of all tasks as they end: stage, subject, result. The caller may start more tasks meanwhile."""
        while self.pending:
            ready, _ = ray.wait(list(self.pending), num_returns=1, timeout=_WAIT_SECONDS)
            self.tell("", 0, 0)
            for reply in ready:
                stage, subject = self.pending.pop(reply)
                try:
                    result = ray.get(reply)
                except RayTaskError as error:
                    raise _cause(error) from None
                except RayError as error:
                    raise _lost(stage, subject, error) from error
                yield stage, subject, result

    def stop(self) -> None:
        """Cancels all tasks, and removes the parts of the first stage."""
        for reply in self.pending:
            with suppress(RayError, ValueError):
                ray.cancel(reply, force=True)
        if self.pending:
            with suppress(RayError):
                ray.wait(list(self.pending), num_returns=len(self.pending), timeout=10.0)
        removed = {node: keeper.remove.remote(self.job) for node, keeper in self.keepers.items()}
        for node, reply in removed.items():
            try:
                ray.get(reply, timeout=_KEEPER_SECONDS)
            except RayError:
                self.forget(node)
        self.keepers.clear()


@functools.cache
def _remote(function: Any) -> Any:
    """A function or a class for Ray, which is sent to the cluster once."""
    return ray.remote(function)


def _partition(job: Job, source: Source, form: Form, borders: Borders) -> Partitioned:
    return _tasks.partition(job, source, form, borders, ray.get_runtime_context().get_node_id())


def _finish(
    job: Job, verb: str, number: int, forms: Any, sides: Any, addresses: Any, options: Any, dst: str
) -> Finished | Missing:
    node = ray.get_runtime_context().get_node_id()
    return _tasks.finish(job, verb, number, forms, sides, addresses, options, dst, node)


def _cause(error: RayTaskError) -> BaseException:
    """The exception of a task, as if it were raised here."""
    cause = error.cause
    return cause if isinstance(cause, BaseException) else error


def _lost(stage: str, subject: Any, error: RayError) -> IoError:
    what = subject.files[0].path if isinstance(subject, Source) else f"part {subject}"
    at = f"{stage} on the cluster: {what}" if subject != "" else f"{stage} on the cluster"
    lost = IoError(
        f"{at}: {type(error).__name__} after {_RETRIES} retries: {str(error).splitlines()[0]}; "
        "look at the logs of Ray, or allow less memory"
    )
    lost.operation, lost.cause = f"{stage} on the cluster", str(error)
    return lost


def run(request: Request, progress: Watcher | bool | None) -> tuple[list[Finished], Totals]:
    """Runs a job; the parts in the order of the output."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    is_object = _files.is_object(request.dst)
    is_there = _files.has_objects(request.dst) if is_object else os.path.lexists(request.dst)
    if is_there and not request.is_replacing:
        raise usage(
            request.verb, f"{request.dst} exists", "name another directory, or give force=True"
        )
    with telling(progress, PHASES) as tell, _running(request, tell) as job:
        forms, sources = _inputs(job)
        borders = _borders(job, forms, sources)
        totals = Totals(borders.parts, sum(len(source.files) for source in sources))
        staged = request.dst if is_object else f"{request.dst}.outcore-{job.job.id}"
        if not is_object:
            os.makedirs(staged)
        try:
            _first_stage(job, forms, sources, borders)
            finished = _second_stage(job, forms, sources, borders, staged, totals)
            totals.check(job.done.values(), finished)
            finished = _publish(request, staged, finished, totals)
        except BaseException:
            job.stop()
            if is_object:
                suffix = forms[0].suffix
                _files.remove_objects([_name(staged, at, suffix) for at in range(borders.parts)])
            else:
                shutil.rmtree(staged, ignore_errors=True)
            raise
        job.tell(DONE, 0, 0)
        return finished, totals


def _name(staged: str, position: int, suffix: str) -> str:
    """The name of a part of the output."""
    return f"{staged}/part-{position:05}{suffix}"


@contextmanager
def _running(request: Request, tell: Any) -> Iterator[Run]:
    started = time.monotonic()
    state = ["", 0, 0]

    def told(phase: str, done_bytes: int, total_bytes: int) -> None:
        if phase:
            state[:] = [phase, done_bytes, total_bytes]
        if tell is not None and state[0]:
            tell(*state, 0, 0, time.monotonic() - started, None)

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0)]
    job = Job(
        id=secrets.token_hex(6),
        token=secrets.token_hex(16),
        memory_bytes=request.memory_bytes or _memory_bytes(nodes, request.cpus),
        threads=request.cpus,
        drives=request.drives,
        is_apart=bool(os.environ.get(_APART)),
        fault=os.environ.get(_FAULT),
    )
    _check_room(nodes, job)
    run = Run(request, job, told)
    try:
        for node in nodes:
            run.keep(node["NodeID"])
        yield run
    finally:
        run.stop()


def _check_room(nodes: list[dict[str, Any]], job: Job) -> None:
    """Fails if no node can run a task, for which Ray would wait for ever."""
    needed_bytes = job.memory_bytes + WORKER_BYTES

    def has_room(node: dict[str, Any]) -> bool:
        resources: dict[str, float] = node["Resources"]
        return resources["CPU"] >= job.threads and resources.get("memory", 0) >= needed_bytes

    if not any(map(has_room, nodes)):
        largest = max((node["Resources"].get("memory", 0) for node in nodes), default=0)
        raise usage(
            "plan tasks",
            f"a task needs {units.counted(job.threads, 'processor')} and "
            f"{units.bytes_text(needed_bytes)}, but the largest node of Ray has "
            f"{units.bytes_text(largest)}",
            "give less memory= or fewer cpus=",
        )


def _memory_bytes(nodes: list[dict[str, Any]], cpus: int) -> int:
    """The engine's memory in each task, so that every node can run a task per `cpus` processors."""
    shares = []
    for node in nodes:
        tasks = max(int(node["Resources"]["CPU"]) // cpus, 1)
        shares.append(int(node["Resources"].get("memory", 4 << 30)) // tasks - WORKER_BYTES)
    return max(min(shares, default=1 << 30), 128 << 20)


def _inputs(run: Run) -> tuple[tuple[Form, ...], list[Source]]:
    """The form of each side, and all sources, numbered in the order of the inputs."""
    request = run.request
    forms: list[Form] = []
    sources: list[Source] = []
    for side, places in enumerate(request.sides):
        first = None
        for node, paths in places:
            if node is not None and node not in run.keepers:
                raise usage(
                    "read inputs", f"Ray has no node {node} that runs tasks",
                    "name nodes by the NodeID of ray.nodes()",
                )
            task = run.remote(_files.look, node)
            for files in _files.grouped(_get(task.remote(paths))):
                source = Source(len(sources), side, files, node)
                sources.append(source)
                if first is None or (not first.size_bytes and source.size_bytes):
                    first = source
        if first is None:
            raise usage("read inputs", "no input was given", "name files")
        task = run.remote(_tasks.form_of, first.node)
        shown = max(first.files, key=lambda file: file.size_bytes > 0)
        forms.append(_get(task.remote(shown.path, request.reading, request.is_table)))
    return tuple(forms), sources


def _get(reply: Any) -> Any:
    """The result of a task, or of several, that read inputs."""
    try:
        return ray.get(reply)
    except RayTaskError as error:
        raise _cause(error) from None
    except RayError as error:
        raise _lost("read inputs", "", error) from error


def _borders(run: Run, forms: tuple[Form, ...], sources: list[Source]) -> Borders:
    """The splitters, from samples of all sources of the first side."""
    request = run.request
    slots = int(ray.cluster_resources().get("CPU", 1)) // request.cpus
    total_bytes = sum(source.size_bytes for source in sources)
    # A table takes several times its stored size in memory.
    needed_bytes = total_bytes * (5 if forms[0].kind == "table" else 3)
    parts = request.parts or max(slots, int(needed_bytes // run.job.memory_bytes) + 1)
    if forms[0].kind == "table":
        parts = min(parts, _parts_max(run.job))
    if request.order is None:
        return Borders(parts, None, forms[0].suffix, seed=request.seed)
    form, replies = forms[0], []
    side = [source for source in sources if source.side == 0]
    side_bytes = sum(source.size_bytes for source in side)
    for source in side:
        share = source.size_bytes / side_bytes if side_bytes else 1 / len(side)
        count = max(8, int(max(_SAMPLES, 50 * parts) * share))
        task = run.remote(_sample.sample, source.node)
        replies.append(task.remote(source, form, count, request.seed, request.by[0]))
    samples = [one for found in _get(replies) for one in found]
    splitters = _sample.choose(samples, form, parts, request.order)
    suffix = form.suffix if form.kind != "array" else ".bin"
    parts = _sample.count_of(splitters, form) + 1
    return Borders(parts, splitters, suffix, request.by)


def _parts_max(job: Job) -> int:
    """The most parts of a table that a task can write at the same time: they share half of its
    memory."""
    return max(1, job.memory_bytes // 2 // _PART_BYTES)


def _first_stage(
    run: Run, forms: tuple[Form, ...], sources: list[Source], borders: Borders
) -> None:
    """Partitions all sources that are not yet partitioned."""
    total_bytes = sum(source.size_bytes for source in sources)
    for source in sources:
        if source.number not in run.done:
            run.partition(source, forms, borders)
    for _, source, result in run.results():
        run.done[source.number] = result
        run.keep(result.node)
        done_bytes = sum(one.size_bytes for one in sources if one.number in run.done)
        run.tell("partition", done_bytes, total_bytes)


def _second_stage(
    run: Run,
    forms: tuple[Form, ...],
    sources: list[Source],
    borders: Borders,
    staged: str,
    totals: Totals,
) -> list[Finished]:
    """Finishes all parts; partitions sources again whose parts are lost."""
    request = run.request
    finished: dict[int, Finished] = {}
    waiting = list(range(borders.parts))
    total_bytes = sum(part.size_bytes for one in run.done.values() for part in one.parts)
    for _ in range(_RETRIES + 1):
        addresses = run.addresses()
        lost = {number for number, one in run.done.items() if one.node not in addresses}
        nodes = sorted(addresses)
        if not lost:
            for number in waiting:
                _start(run, forms, sources, (number, borders.parts), addresses, nodes, staged)
            waiting = []
            for _, number, result in run.results():
                if isinstance(result, Missing):
                    waiting.append(number)
                    lost.update(result.sources)
                    continue
                finished[number] = result
                totals.fetched_bytes += result.fetched_bytes
                run.tell("finish", sum(one.read_bytes for one in finished.values()), total_bytes)
        if not waiting and not lost:
            last = borders.parts - 1
            numbers = range(borders.parts)
            return [finished[last - number if request.is_reversed else number] for number in numbers]
        totals.repeated += sum(len(sources[number].files) for number in lost)
        for number in lost:
            del run.done[number]
        for node in set(run.keepers) - set(addresses):
            run.forget(node)
        _first_stage(run, forms, sources, borders)
    cause = f"parts of {units.counted(len(lost), 'source')} were lost {_RETRIES + 1} times"
    error = IoError(f"finish on the cluster: {cause}; look at the nodes and their drives")
    error.operation, error.cause = "finish on the cluster", cause
    raise error


def _start(
    run: Run,
    forms: tuple[Form, ...],
    sources: list[Source],
    place: tuple[int, int],
    addresses: dict[str, tuple[str, int]],
    nodes: list[str],
    staged: str,
) -> None:
    """Starts the task that finishes a part."""
    request, (number, count) = run.request, place
    sides: list[list[Part]] = [[] for _ in forms]
    for source in sources:
        sides[source.side].append(run.done[source.number].parts[number])
    position = count - 1 - number if request.is_reversed else number
    dst = _name(staged, position, forms[0].suffix)
    options = request.options
    if request.verb == "shuffle":
        options = {**options, "seed": mixed(request.seed, "finish", number)}
    task = run.remote(_finish, nodes[number % len(nodes)], is_soft=True)
    reply = task.remote(
        run.job, request.verb, number, forms, tuple(map(tuple, sides)), addresses, options, dst
    )
    run.pending[reply] = ("finish", number)


@dataclass
class Totals:
    """Numbers of a whole job."""

    parts: int
    sources: int
    items_in: int = 0
    items_out: int = 0
    fetched_bytes: int = 0
    #: Sources that were partitioned again because their parts were lost.
    repeated: int = 0
    checksum: int = 0

    def check(self, done: Any, finished: list[Finished]) -> None:
        """Adds up all parts, and fails unless each part of each source was finished."""
        per_part: defaultdict[int, int] = defaultdict(int)
        for one in done:
            for number, part in enumerate(one.parts):
                per_part[number] += part.items
                self.checksum = (self.checksum + part.checksum) % (1 << 128)
        self.items_in = sum(per_part.values())
        self.items_out = sum(one.items for one in finished)
        if len(per_part) != len(finished):
            error = CorruptError(
                f"check parts: {len(finished)} parts of {len(per_part)} were finished; run the job again"
            )
            error.operation = "check parts"
            raise error


def _publish(
    request: Request, staged: str, finished: list[Finished], totals: Totals
) -> list[Finished]:
    """Adds the list of all parts, and moves their directory to its place."""
    names = [os.path.basename(one.path) for one in finished]
    parts = [{"name": name, "items": one.items} for name, one in zip(names, finished)]
    text = json.dumps({"verb": request.verb, "checksum": f"{totals.checksum:x}", "parts": parts})
    if staged == request.dst:
        with tempfile.TemporaryDirectory() as place:
            made = os.path.join(place, LIST)
            with open(made, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
            _part_verbs.head(made, f"{staged}/{LIST}", count=1, lines=True, force=True)
        return finished
    with open(os.path.join(staged, LIST), "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    old = f"{staged}-old"
    if os.path.lexists(request.dst):
        os.rename(request.dst, old)
    os.rename(staged, request.dst)
    shutil.rmtree(old, ignore_errors=True)
    at = [os.path.join(request.dst, name) for name in names]
    return [replace(one, path=path) for one, path in zip(finished, at)]
