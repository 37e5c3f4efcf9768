"""What callers, operators and workers have in common: a thread that does one thing, many times."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql
from psycopg.rows import namedtuple_row

from tests import guards
from tests.storm.ledger import Ledger

Session = psycopg.Connection[Any]
Row = Any

# Few, so that everybody meets everybody. Byte order differs from any language's order.
KEYS = [*(f"hot {number}" for number in range(9)), "Zoë", "é", "\U0001f525"]
# So many names that some are unused at any moment, and collected.
TASKS = tuple(f"task {number}" for number in range(20))
QUEUES = (*[None] * 20, *(f"lane {number}" for number in range(10)))

# A statement that waits longer than this waits in vain.
LONGEST = 20

TABLES = {
    "jobs": "_private_jobs",
    "tasks": "_private_tasks",
    "queues": "_private_job_queues",
    "conflicts": "django_key_conflicts",
}
BESIDE = ("add_job", "add_jobs", "remove_job")
OTHERS = ("complete_jobs", "permanently_fail_jobs", "reschedule_jobs")


class Weather:
    """What all actors of one storm share. `functions` is the schema of the functions they call."""

    def __init__(self, schema: str, functions: str, seed: int) -> None:
        self.schema = schema
        self.functions = functions
        self.seed = seed
        self.ledger = Ledger()
        self.over = threading.Event()

    @property
    def corrected(self) -> bool:
        return self.schema == self.functions

    def open(self, name: str, **options: Any) -> Session:
        """A session of its own, in autocommit unless told otherwise."""
        return psycopg.connect(
            guards.address(),
            application_name=f"storm {name}",
            options=f"-c statement_timeout={LONGEST}s",
            **{"autocommit": True, **options},
        )

    def query(self, session: Session, text: str, params: Any = None) -> list[Row]:
        """Run SQL in which `{jobs}`, `{add_job}` and so on stand for names."""
        names = {name: sql.Identifier(self.schema, table) for name, table in TABLES.items()}
        names |= {name: sql.Identifier(self.functions, name) for name in BESIDE}
        names |= {name: sql.Identifier(self.schema, name) for name in OTHERS}
        statement = sql.SQL(text).format(  # type: ignore[arg-type,unused-ignore]
            **names, job_spec=sql.Identifier(self.schema, "job_spec")
        )
        with session.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(statement, params)
            return cursor.fetchall() if cursor.description else []


class Actor:
    """Does one thing, many times, in a thread of its own, until it is told to stop."""

    # Seconds between two steps, at most.
    pause = 0.002

    def __init__(self, weather: Weather, number: int) -> None:
        self.weather = weather
        self.ledger = weather.ledger
        self.name = f"{type(self).__name__.lower()} {number}"
        self.random = random.Random(f"{weather.seed} {self.name}")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"storm {self.name}")

    def open(self) -> None:
        """Called first, in the thread."""

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called last, in the thread, whatever happened."""

    def stop(self) -> None:
        self.stopping.set()

    def work(self) -> None:
        while not self.stopping.is_set():
            self.step()
            self.ledger.count(type(self).__name__.lower())
            self.stopping.wait(self.random.uniform(0, self.pause))

    def _run(self) -> None:
        try:
            self.open()
            self.work()
        except BaseException as error:  # noqa: BLE001 - told to whoever made the storm
            self.ledger.fault("error", f"{self.name}: {type(error).__name__}: {error}")
            self.weather.over.set()
        finally:
            self.close()
            connections.close_all()


def numbers_in(payload: object) -> list[int]:
    """The numbers in a payload, parsed or not."""
    parsed = json.loads(payload) if isinstance(payload, str) else payload
    return (
        [number for number in parsed if isinstance(number, int)] if isinstance(parsed, list) else []
    )


def job_text(row: Row) -> str:
    """What tells one job from another."""
    state = f"locked by {row.locked_by}" if row.locked_at else f"attempts {row.attempts}"
    return f"job {row.id} (key {row.key}, revision {row.revision}, {row.payload}, {state})"
