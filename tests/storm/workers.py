"""Those who run jobs: a real pool, which must survive everything, and workers that die of a cut."""

from __future__ import annotations

import time

from django_graphile_worker import force_unlock_workers
from django_graphile_worker.jobs import Outcome
from django_graphile_worker.registry import Registry, Task
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.endings import Ending, How, Writer
from django_graphile_worker.worker.pool import WorkerPool
from tests.living import enlist
from tests.storm.actors import TASKS, Actor, Weather, numbers_in
from tests.storm.callers import DEADLOCK

# Seconds that a worker may take to write its last endings.
PATIENCE = 10.0


class Mortal(Actor):
    """Takes and ends jobs with the worker's own statements. When its connection is cut it is dead.

    Somebody then unlocks what it held, and it is born again under another name.
    """

    slots = 3

    def open(self) -> None:
        self.life = 0
        self.pid = 0
        self.watcher = self.weather.open(f"{self.name} watcher")
        self.live()

    def live(self) -> None:
        self.life += 1
        self.id = f"{self.name} in life {self.life}"
        self.link = Link("default", self.name)
        self.writer = Writer(self.link, self.weather.schema)
        enlist(self.watcher, self.weather.schema, self.id)
        self.pending: list[Ending] = []

    def step(self) -> None:
        try:
            self.pid = self.link.connection().info.backend_pid
            self.take()
            self.stopping.wait(self.random.uniform(0, 0.003))
            self.write()
        except PASSING as error:
            if getattr(error, "sqlstate", None) == DEADLOCK:
                self.ledger.fault("deadlock", f"{self.name}: {error}")
            self.die()

    def take(self) -> None:
        if room := self.slots - len(self.pending):
            jobs = self.link.run_prepared(
                statements.set_up_worker,
                statements.get_jobs(
                    schema=self.weather.schema,
                    worker_id=self.id,
                    identifiers=TASKS,
                    slots=room,
                    room=room,
                ),
            )
            for job in jobs:
                how = self.random.choices(list(How), [8, 1, 1])[0]
                if how is not How.RETURNED:
                    self.ledger.carry(numbers_in(job.payload))
                self.ledger.count(how.value)
                self.pending.append(Ending(Outcome(job, "it was its turn"), how))

    def write(self) -> None:
        if self.pending:
            self.writer.write(self.id, self.pending)
            self.pending = [each for each in self.pending if each.held]

    def die(self) -> None:
        self.link.close()
        self.wait_until_gone()
        force_unlock_workers([self.id])
        self.ledger.count("deaths")
        self.live()

    def wait_until_gone(self) -> None:
        """Whoever unlocks a dead worker must know that it is dead."""
        deadline = time.monotonic() + PATIENCE
        while self.weather.query(
            self.watcher, "select from pg_stat_activity where pid = %s", [self.pid]
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"backend {self.pid} does not go")
            time.sleep(0.005)

    def close(self) -> None:
        deadline = time.monotonic() + PATIENCE
        try:
            while self.pending and time.monotonic() < deadline:
                try:
                    self.write()
                except PASSING:
                    self.die()
            if self.pending:
                self.ledger.fault("stuck", f"{self.name} could not write {self.pending}")
        finally:
            self.link.close()
            self.watcher.close()


class Immortal(Actor):
    """A real pool in this process. Its connections are cut, too; it has to carry on."""

    def __init__(self, weather: Weather, number: int) -> None:
        super().__init__(weather, number)
        registry = Registry()
        for identifier in TASKS:
            registry.add(Task(self.note, identifier))
        self.pool = WorkerPool(
            database="default",
            schema=weather.schema,
            registry=registry,
            concurrency=4,
            poll_interval=0.2,
            shutdown_timeout=PATIENCE,
        )

    def note(self, numbers: list[int]) -> None:
        """The task: carry the numbers, and fail now and then."""
        self.ledger.carry(numbers)
        self.ledger.count("pool runs")
        time.sleep(0.001)
        if self.random.random() < 0.1:
            raise RuntimeError("unlucky")

    def stop(self) -> None:
        self.pool.stop()

    def work(self) -> None:
        if (code := self.pool.run()) != 0:
            self.ledger.fault("pool", f"it ended with {code}")
            self.weather.over.set()
