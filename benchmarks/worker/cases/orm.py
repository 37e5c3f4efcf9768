"""A task with one query by Django's ORM, beside procrastinate in the same project."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.databases import run as run_program
from benchmarks.worker.bench import PROCRASTINATE_SETTINGS, Bench
from benchmarks.worker.programs import Program
from benchmarks.worker.runs import Drained, Run, drain, in_turn
from benchmarks.worker.sides import Side, manage, on_path, ours
from benchmarks.worker.tables import Report, drain_report, rates

OURS, PEER = "ours, one query", "procrastinate, one query"
OVER_PEER = 5
# It is so much slower that fewer jobs tell its rate as well.
FEW, FEWER = 4, 10

DEFER = """\
from benchmarks.project.peers.tasks import one_query
one_query.batch_defer(*({{}} for _ in range({count})))"""


def run(bench: Bench) -> Iterator[Report]:
    lack = bench.get_procrastinate()
    side = ours(bench.ours(), "one_query", OURS)
    found = {OURS: Drained(side, max(1, bench.jobs // FEW))}
    if lack is None:
        found[PEER] = Drained(procrastinate(bench), max(1, bench.jobs // FEWER))

    def once(of: Drained) -> None:
        for jobs, runs in ((1, of.single), (of.jobs, of.runs)):
            runs.append(drain_ours(bench, of, jobs) if of.side is side else drain_peer(bench, jobs))

    in_turn(found, once, bench.rounds)
    report = drain_report("A task with one ORM query", found)
    if lack is None:
        report.ratios += rates(found, OURS, PEER, OVER_PEER)
    else:
        report.notes.append(f"procrastinate is missing, it could not be installed: {lack}")
    yield report


def drain_ours(bench: Bench, of: Drained, jobs: int) -> Run:
    queue = of.side.queue
    queue.clear()
    span = queue.fill(of.side.task, jobs)
    queue.settle()
    return drain(of.side, span, bench.watch)


def procrastinate(bench: Bench) -> Side:
    bench.procrastinate()
    arguments = ("procrastinate", "worker", "--one-shot", "--concurrency", "10")
    return Side(
        name=PEER,
        settings="3.10.0, " + " ".join(arguments),
        queue=bench.queues["procrastinate"],
        task="one_query",
        command=manage(*arguments),
        environment={"DJANGO_SETTINGS_MODULE": PROCRASTINATE_SETTINGS, **on_path(bench.peers)},
    )


def drain_peer(bench: Bench, jobs: int) -> Run:
    side = procrastinate(bench)
    queue = side.queue
    queue.execute("truncate procrastinate_jobs cascade")
    environment = {**side.environment, "DATABASE_URL": queue.url}
    run_program(manage("shell", "-c", DEFER.format(count=jobs)), **environment)
    queue.execute("vacuum (analyze) procrastinate_jobs")
    before = bench.watch.server()
    program = Program(side.command, environment)
    inner = watch(bench, program)
    ended = program.end()
    after = bench.watch.server()
    left = queue.execute("select count(*) from procrastinate_jobs where status <> 'succeeded'")
    return Run(
        wall=ended.wall,
        inner=inner,
        cpu=ended.cpu,
        server=None if before is None or after is None else after - before,
        memory=ended.memory,
        locked=0,
        left=bool(left[0][0]),
    )


def watch(bench: Bench, program: Program) -> float:
    """Seconds from the first job taken to the last one done; both stay stored."""
    queue = bench.queues["procrastinate"]
    first = "select status <> 'todo' from procrastinate_jobs order by id limit 1"
    last = (
        "select exists (select from procrastinate_jobs where status = 'todo')"
        " or exists (select from procrastinate_jobs where status = 'doing')"
    )
    while program.runs and not queue.execute(first)[0][0]:
        time.sleep(0.005)
    begun = time.perf_counter()
    while program.runs and queue.execute(last)[0][0]:
        time.sleep(0.02)
    return time.perf_counter() - begun
