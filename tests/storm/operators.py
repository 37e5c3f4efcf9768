"""Those who act on jobs that are there: remove, complete, fail, reschedule, collect names, cut."""

from __future__ import annotations

import psycopg

from tests.storm.actors import Actor, numbers_in
from tests.storm.callers import BySQL


class Remover(BySQL):
    """Adds and removes keys of its own; what it removes need not run."""

    pause = 0.02

    def step(self) -> None:
        key = f"{self.name} {self.random.randrange(3)}"
        wish = self.wish(key)
        self.check([wish], self.add_job(self.session, wish, str(self.mode())))
        self.ledger.commit([wish.number])
        self.stopping.wait(self.random.uniform(0, 0.005))
        if self.random.random() < 0.5:
            return
        (job,) = self.weather.query(self.session, "select * from {remove_job}(%s)", [key])
        if job.id is None:
            return
        if job.locked_at is None:
            self.ledger.excuse(numbers_in(job.payload))
            self.ledger.count("removed")
        else:
            # It runs. Should its worker die, it stays behind.
            self.ledger.end([job.id])
            self.ledger.count("removed while running")


class Operator(BySQL):
    """Reschedules, completes and fails any jobs; what it takes away need not run."""

    pause = 0.05

    def step(self) -> None:
        ids = [
            row.id
            for row in self.weather.query(
                self.session, "select id from {jobs} order by random() limit 4"
            )
        ]
        dice = self.random.random()
        try:
            if dice < 0.6:
                self.weather.query(
                    self.session,
                    "select * from {reschedule_jobs}(%s, priority => %s)",
                    [ids, self.random.randrange(-2, 3)],
                )
                return
            verb = "complete_jobs" if dice < 0.8 else "permanently_fail_jobs"
            rows = self.weather.query(self.session, f"select * from {{{verb}}}(%s)", [ids])
        except psycopg.errors.DeadlockDetected as error:
            self.ledger.fault("deadlock", f"{self.name}: {error}")
            return
        self.ledger.excuse(number for row in rows for number in numbers_in(row.payload))
        if verb == "permanently_fail_jobs":
            self.ledger.end(row.id for row in rows)
        self.ledger.count(verb, len(rows))


class Collector(BySQL):
    """Deletes names that no job uses, as a cleanup does: alone on both tables, or not at all."""

    autocommit = False
    # Everybody waits behind it.
    pause = 1.0

    def step(self) -> None:
        self.session.execute("set local lock_timeout = '100ms'")
        try:
            self.weather.query(
                self.session, "lock table {tasks}, {queues} in access exclusive mode"
            )
            rows = self.weather.query(
                self.session,
                "with gone as (delete from {tasks} where id not in (select task_id from {jobs})"
                " returning id), lanes as (delete from {queues} where locked_at is null and id"
                " not in (select job_queue_id from {jobs} where job_queue_id is not null)"
                " returning id) select id from gone union all select id from lanes",
            )
            self.session.commit()
        except psycopg.errors.LockNotAvailable:
            self.session.rollback()
        else:
            self.ledger.count("names collected", len(rows))


class Cutter(Actor):
    """Cuts the connections of workers, at any moment."""

    pause = 0.3

    def open(self) -> None:
        self.session = self.weather.open(self.name)

    def close(self) -> None:
        self.session.close()

    def step(self) -> None:
        rows = self.weather.query(
            self.session,
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name like 'graphile_worker %%'",
            [],
        )
        if rows:
            pid = self.random.choice(rows).pid
            self.weather.query(self.session, "select pg_terminate_backend(%s)", [pid])
            self.ledger.count("connections cut")
