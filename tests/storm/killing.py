"""Worker processes are killed at random, under load, and what they held has to run again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.storm.kills_report import Report
from tests.storm.kills_tasks import TABLE
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

# Seconds within which every job of a dead worker has to run again.
PROMISE = 60.0

# A job that failed so often pauses for longer than the promise, whatever its worker does.
LONG_PAUSE = 4

# Jobs that are due at any time, how long they take at most, and how many named queues there are.
LOAD = 40
LONGEST_JOB = 0.2
LANES = 6

# Seconds between two kills, at most. A process takes a second to start, and several where the
# machine is busy; were nobody left alive for long, jobs would wait for that and not for us.
LONGEST_PAUSE = 4.0

# Seconds for all that is left after the last kill, the pauses of failed jobs included.
PATIENCE = 240.0


class Kills:
    """A supervisor of `processes` workers on the migrated database at `address`; one `run()`.

    `flags` are further flags of the command, such as shorter times. `say` is told what goes on.
    """

    def __init__(
        self,
        *,
        address: str,
        schema: str,
        times: int,
        processes: int = 4,
        flags: tuple[str, ...] = (),
        seed: int | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.report = Report(random.randrange(2**32) if seed is None else seed)
        self.random = random.Random(self.report.seed)
        self.address = address
        self.schema = schema
        self.times = times
        self.say = say
        self.command = [
            *(sys.executable, "-m", "tests.doors.worker_program", "graphile_worker"),
            *("--processes", str(processes), "--concurrency", "4", "-v", "0", *flags),
        ]
        self.killed_at: dict[str, Any] = {}

    def query(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run SQL in which `{jobs}`, `{queues}`, `{workers}`, `{errors}`, `{runs}` stand."""
        names = {
            name: sql.Identifier(self.schema, table)
            for name, table in {
                "jobs": "_private_jobs",
                "queues": "_private_job_queues",
                "workers": "django_workers",
                "errors": "django_job_errors",
                "add_job": "add_job",
            }.items()
        }
        cursor = self.session.execute(
            sql.SQL(text).format(**names, runs=sql.Identifier(TABLE)), params or None
        )
        return cursor.fetchall() if cursor.description else []

    def run(self) -> Report:
        """Do it all; what went wrong is in the report."""
        with (
            psycopg.connect(self.address, autocommit=True) as self.session,
            tempfile.TemporaryFile() as log,
        ):
            self.query(
                "create table {runs} (job_id bigint, attempt int, pid int, ended_at timestamptz,"
                " begun_at timestamptz default clock_timestamp())"
            )
            process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={
                    **os.environ,
                    "DATABASE_URL": self.address,
                    "GRAPHILE_WORKER_SCHEMA": self.schema,
                    "MODULE_OF_TASKS": "tests.storm.kills_tasks",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                self.kill_at_random(process)
                self.drain()
                process.terminate()
                self.report.exit_code = process.wait(PROMISE)
            finally:
                if process.poll() is None:
                    process.kill()  # its children see that, and stop
                    process.wait()
            self.look()
            self.query("drop table {runs}")
            if self.report.faults:
                log.seek(0)
                self.say(log.read().decode(errors="replace")[-5_000:])
        return self.report

    def living(self) -> dict[str, int]:
        """The workers that live and have taken jobs, by name."""
        return dict(
            self.query(
                "select worker_id, pid from {workers} where dead_at is null and pid > 1"
                " and exists (select from {runs} where {runs}.pid = {workers}.pid)"
            )
        )

    def kill_at_random(self, process: subprocess.Popen[bytes]) -> None:
        for number in range(self.times):
            # Any moment of a job is as good as another.
            pause = time.monotonic() + self.random.uniform(0.1, LONGEST_PAUSE)
            while time.monotonic() < pause:
                self.load()
                time.sleep(0.05)
            victim, pid = self.random.choice(sorted(eventually(self.some, PROMISE).items()))
            os.kill(pid, signal.SIGKILL)
            self.killed_at[victim] = self.query("select clock_timestamp()")[0][0]
            self.report.kills += 1
            if process.poll() is not None:
                raise RuntimeError(f"the supervisor ended with {process.returncode}")
            self.say(f"{number + 1}: killed {victim}")

    def some(self) -> dict[str, int]:
        """Those who live, if there are two at least."""
        self.load()
        living = {name: pid for name, pid in self.living().items() if name not in self.killed_at}
        assert len(living) > 1, "there is no second worker that lives"
        return living

    def load(self) -> None:
        """Let there be enough to do. Some jobs may run twice only, some have a queue."""
        ((due,),) = self.query("select count(*) from {jobs} where is_available and run_at <= now()")
        if due < LOAD:
            count = LOAD - due
            self.query(
                "select {add_job}('work', json_build_object('seconds', random() * %s::float),"
                " queue_name => case n %% 3 when 0 then 'lane ' || n / 3 %% %s end,"
                " max_attempts => case n %% 10 when 0 then 2 else 25 end)"
                " from generate_series(%s::int, %s::int) as n",
                *(LONGEST_JOB, LANES, self.report.jobs + 1, self.report.jobs + count),
            )
            self.report.jobs += count

    def drain(self) -> None:
        def drained() -> None:
            ((left,),) = self.query("select count(*) from {jobs} where attempts < max_attempts")
            assert left == 0, f"{left} jobs are left after {PATIENCE:g} s"

        try:
            eventually(drained, PATIENCE)
        except AssertionError as error:
            self.report.faults.append(str(error))

    def look(self) -> None:
        """Compare what was promised with what is written down."""
        report = self.report
        ((report.runs, report.interrupted),) = self.query(
            "select count(*), count(*) filter (where ended_at is null) from {runs}"
        )
        ((report.locks,),) = self.query(
            "select (select count(*) from {jobs} where locked_by is not null)"
            " + (select count(*) from {queues} where locked_by is not null)"
        )
        if report.locks:
            report.faults.append(f"{report.locks} locks are left")
        if report.exit_code != 0:
            report.faults.append(f"the supervisor ended with {report.exit_code}")
        for job_id, attempt, most, worker_id, error in self.query(
            "select job_id, attempt, max_attempts, worker_id, error from {errors}"
        ):
            self.look_at(job_id, attempt, most, worker_id, error)
        for (job_id,) in self.query(
            "select job_id from {runs} group by job_id, attempt having count(*) > 1"
        ):
            report.faults.append(f"job {job_id} ran twice in one attempt")
        # An attempt that was cut off and about which nobody has noted anything.
        for job_id, attempt in self.query(
            "select job_id, attempt from {runs} where ended_at is null and not exists ("
            "select from {errors} as e where e.job_id = {runs}.job_id"
            " and e.attempt = {runs}.attempt)"
        ):
            report.faults.append(f"attempt {attempt} of job {job_id} vanished")

    def look_at(self, job_id: int, attempt: int, most: int, worker_id: str, error: str) -> None:
        report = self.report
        if worker_id not in self.killed_at or "WorkerDied" not in error:
            report.faults.append(f"job {job_id} failed otherwise: {error} ({worker_id})")
            return
        report.rescued += 1
        if attempt > most:
            report.faults.append(f"job {job_id} ran {attempt} times, and may {most} times")
        again = self.query(
            "select extract(epoch from min(begun_at) - %s)::float from {runs}"
            " where job_id = %s and attempt > %s",
            *(self.killed_at[worker_id], job_id, attempt),
        )[0][0]
        if attempt == most:
            report.exhausted += 1
            if again is not None:
                report.faults.append(f"job {job_id} ran again after its last attempt")
        elif again is None:
            # It may have been cut off again before its task began; that attempt has its own row.
            ((freed,),) = self.query(
                "select count(*) from {errors} where job_id = %s and attempt > %s", job_id, attempt
            )
            if not freed:
                report.faults.append(f"job {job_id} did not run again")
        elif attempt < LONG_PAUSE:
            report.seconds.append(again)
            if again > PROMISE:
                report.faults.append(f"job {job_id} ran again after {again:.1f} s only")
