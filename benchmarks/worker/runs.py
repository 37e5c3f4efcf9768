"""Lets the sides drain queues in turn, and works out their rates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.machine import Watch
from benchmarks.worker.queue import Span
from benchmarks.worker.sides import Side

T = TypeVar("T")

# A drain tells a rate from outside if it takes this part of a start longer than a single job.
TELLING = 0.2


@dataclass(frozen=True)
class Run:
    """One run of one side: see ``Ended``; ``server`` is the CPU of PostgreSQL, in seconds."""

    wall: float
    inner: float
    cpu: float
    server: float | None
    memory: float
    locked: int
    left: bool


@dataclass
class Drained:
    """All runs of one side with ``jobs`` jobs, and its runs with a single one."""

    side: Side
    jobs: int
    runs: list[Run] = field(default_factory=list)
    single: list[Run] = field(default_factory=list)

    @property
    def inner(self) -> list[float]:
        """Jobs per second, from the first job taken to the last one gone."""
        return [self.jobs / run.inner for run in self.runs]

    @property
    def outer(self) -> list[float]:
        """Jobs per second of the whole program, less what it takes for a single job.

        Empty where so few jobs are lost in how much the start takes now and then, and where
        nobody ran a single one.
        """
        if not self.single:
            return []
        base = statistics.median(run.wall for run in self.single)
        if any(run.wall - base < base * TELLING for run in self.runs):
            return []
        return [self.jobs / (run.wall - base) for run in self.runs]

    def each(self, of: Callable[[Run], float | None]) -> float | None:
        """The median of something, in microseconds for each job, less what a single job takes."""
        values = [value for run in self.runs if (value := of(run)) is not None]
        single = [value for run in self.single if (value := of(run)) is not None]
        base = statistics.median(single) if single else 0.0
        return (statistics.median(values) - base) / self.jobs * 1e6 if values else None

    @property
    def locked(self) -> int:
        """How many rows the runs left locked."""
        return sum(run.locked for run in [*self.runs, *self.single])


def drain(side: Side, span: Span, watch: Watch, every: float = 0.005) -> Run:
    """Start a side's worker on a queue that was filled, and wait for its end."""
    before = watch.server()
    program = side.start()
    inner = side.queue.watch(span, every, lambda: program.runs)
    if not side.ends:
        program.terminate()
    ended = program.end()
    after = watch.server()
    run = Run(
        wall=ended.wall,
        inner=inner,
        cpu=ended.cpu,
        server=None if before is None or after is None else after - before,
        memory=ended.memory,
        locked=side.queue.locked(span),
        left=side.queue.left(span),
    )
    if run.left and not run.locked:
        raise SystemExit(f"{side.name} ended, and jobs were left:\n{ended.output}")
    return run


def drain_in_turn(
    sides: Sequence[tuple[Side, int]], rounds: int, watch: Watch
) -> dict[str, Drained]:
    """Drain so many jobs with each side, in each round, and a single one."""
    found = {side.name: Drained(side, jobs) for side, jobs in sides}

    def once(of: Drained) -> None:
        for jobs, runs in ((1, of.single), (of.jobs, of.runs)):
            of.side.queue.clear()
            span = of.side.queue.fill(of.side.task, jobs)
            of.side.queue.settle()
            runs.append(drain(of.side, span, watch))

    in_turn(found, once, rounds)
    return found


def in_turn(sides: Mapping[str, T], once: Callable[[T], None], rounds: int) -> None:
    """Call ``once`` for every side in each round, beginning with another side each time."""
    names = list(sides)
    for number in range(rounds):
        begin = number % len(names)
        for name in names[begin:] + names[:begin]:
            once(sides[name])
