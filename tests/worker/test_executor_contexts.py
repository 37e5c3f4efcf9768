"""Each job starts from clean defaults, sync and async, and also after an error."""

from __future__ import annotations

import asyncio
import contextvars
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.urls import get_script_prefix, get_urlconf, set_script_prefix, set_urlconf
from django.utils import timezone, translation

from tests.worker.bench import MakeBench, job

VARIABLE = contextvars.ContextVar("VARIABLE", default="clean")


def state() -> tuple[object, ...]:
    return (
        translation.get_language(),
        timezone.get_current_timezone_name(),
        get_urlconf(),
        get_script_prefix(),
        VARIABLE.get(),
    )


def make_dirty() -> None:
    translation.activate("de")
    timezone.activate(timezone.get_fixed_timezone(timedelta(hours=5)))
    set_urlconf("somewhere.urls")
    set_script_prefix("/somewhere/")
    VARIABLE.set("dirty")


def test_a_sync_job_starts_with_a_clean_context(make_bench: MakeBench) -> None:
    seen: list[Any] = []

    def dirty() -> None:
        make_dirty()
        seen.append(state())
        raise RuntimeError("also after an error")

    bench = make_bench(dirty, look=lambda: seen.append(state()))
    assert bench.run(job(1, "look")) is None
    error = bench.run(job(2, "dirty"))
    assert error is not None
    assert error.startswith("RuntimeError: also after")
    assert bench.run(job(3, "look")) is None

    before, during, after = seen
    assert before == after
    assert all(was != is_now for was, is_now in zip(before, during, strict=True))


def test_each_job_has_a_context_of_its_own_that_holds_across_every_wait(
    make_bench: MakeBench,
) -> None:
    seen: list[Any] = []

    async def dirty() -> None:
        make_dirty()
        await asyncio.sleep(0)
        held = [state(), await sync_to_async(state)(), await asyncio.to_thread(VARIABLE.get)]
        async with asyncio.TaskGroup() as group:
            held.append((await group.create_task(_state()))[:1])
        seen.append(held)
        raise RuntimeError("also after an error")

    async def look() -> None:
        seen.append([state(), await sync_to_async(state)()])

    bench = make_bench(dirty, look)
    bench.run(job(1, "look"))
    bench.run(job(2, "dirty"))
    bench.run(job(3, "look"))

    before, during, after = seen
    assert before == after
    assert before[0] == before[1]
    assert during[0] == during[1] != before[0]
    assert during[2] == "dirty"
    assert during[3] == ("de",)


async def _state() -> tuple[object, ...]:
    await asyncio.sleep(0)
    return state()


def test_jobs_that_run_at_the_same_time_do_not_see_each_other(make_bench: MakeBench) -> None:
    together = asyncio.Barrier(3)
    seen: dict[str, str] = {}

    async def task(name: str) -> None:
        VARIABLE.set(name)
        for _ in range(3):
            await together.wait()
        seen[name] = VARIABLE.get()

    bench = make_bench(task, concurrency=3)
    bench.feed(*[job(n, payload={"name": f"n{n}"}) for n in range(3)])
    assert [bench.outcome().error for _ in range(3)] == [None] * 3
    assert seen == {"n0": "n0", "n1": "n1", "n2": "n2"}
