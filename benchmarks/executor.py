"""What running a no-op job costs in Python: `python -m benchmarks.executor [--jobs N]`.

Jobs are fed by hand, so neither PostgreSQL nor the network is in the figures; the interpreter is
shared by the slots, so the processor's time per job is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
import time
from collections import deque
from datetime import UTC, datetime

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

from django.db import connection  # noqa: E402

from django_graphile_worker.context import TaskContext  # noqa: E402
from django_graphile_worker.jobs import LockedJob, Outcome  # noqa: E402
from django_graphile_worker.registry import Registry, Task  # noqa: E402
from django_graphile_worker.worker.executor import Executor  # noqa: E402

# As many are fed at a time, and as many may wait, as the fetcher does it.
BATCH, AHEAD = 500, 1_000

NOW = datetime.now(UTC)


def sync(n: int) -> None: ...


async def asynchronous(n: int) -> None: ...


async def waits(n: int) -> None:
    await asyncio.sleep(0)


def context(context: TaskContext, n: int) -> None: ...


def connected(n: int) -> None:
    if n < AHEAD:
        connection.ensure_connection()


CASES = {
    "sync": [sync],
    "async": [asynchronous],
    "async, waits once": [waits],
    "sync, with its context": [context],
    "sync, with an open connection": [connected],
    "sync and async in turn": [sync, asynchronous],
}


def job(number: int, task: str) -> LockedJob:
    return LockedJob(
        id=number,
        task_identifier=task,
        payload=f'{{"n": {number}}}',
        key=None,
        queue_id=None,
        attempts=1,
        max_attempts=25,
        priority=0,
        run_at=NOW,
        created_at=NOW,
        revision=0,
        flags=None,
        locked_at=NOW,
        locked_by="benchmark",
    )


def run(name: str, count: int, concurrency: int) -> None:
    registry = Registry()
    functions = CASES[name]
    for function in functions:
        registry.add(Task(function, function.__name__))
    jobs = [job(n, functions[n % len(functions)].__name__) for n in range(count)]
    outcomes: deque[Outcome] = deque()
    room = threading.Event()
    executor = Executor(
        concurrency=concurrency,
        find_task=registry.get,
        on_outcome=outcomes.append,
        on_room=room.set,
        on_end=lambda part, error: None,
    )
    executor.start()
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, count, BATCH):
        while executor.held >= AHEAD:
            room.wait(1)
            room.clear()
        executor.feed(jobs[start : start + BATCH])
    while executor.held:
        room.wait(0.01)
        room.clear()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    executor.stop()
    executor.join()
    if len(outcomes) != count or any(outcome.error for outcome in outcomes):
        raise RuntimeError(f"{name}: not all jobs ran well")
    print(f"| {name} | {cpu / count * 1e6:.1f} | {wall / count * 1e6:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    options = parser.parse_args()
    print("| task | CPU us per job | wall us per job |\n|---|---:|---:|")
    for name in CASES:
        run(name, options.jobs, options.concurrency)


if __name__ == "__main__":
    main()
