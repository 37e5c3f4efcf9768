"""Start a PostgreSQL and the worker, run the reported workload, and say whether anything was lost.
With ``--serve``, serve the admin instead, with live traffic.

The exit code is 0 if nothing was lost, 1 if something was, 2 if it cannot be told, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from testproject import postgres
from testproject.demo import serve, worker
from testproject.demo.options import parse
from testproject.demo.screen import Screen
from testproject.demo.verdict import Exit, Verdict

if TYPE_CHECKING:
    from testproject.demo.demonstration import Demonstration

# Seconds after the last call within which the queue has to be empty.
DRAIN = 60.0


class Trouble(Exception):
    """The demonstration could not be brought to its end; the text says why."""


def main() -> int:
    options = parse()
    screen = Screen(sys.stdout)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), end)
    try:
        return run(options, screen)
    except (Trouble, postgres.PostgresUnavailable) as trouble:
        screen.close()
        print(f"demo: {trouble}", file=sys.stderr)
        return Exit.INCONCLUSIVE
    except KeyboardInterrupt:
        screen.close()
        print("Stopped.", file=sys.stderr)
        return 130


def end(number: int, frame: object) -> NoReturn:
    """Leave as an exception does, so that worker and server are ended on the way."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def run(options: argparse.Namespace, screen: Screen) -> int:
    require_packages()
    begun = time.monotonic()
    with postgres.database() as server:
        screen.say(f"{server}, ready after {time.monotonic() - begun:.1f} s.")
        os.environ["DATABASE_URL"] = server.url
        if options.serve:
            return show(options, screen)
        os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
        with migrated():
            from testproject.demo.demonstration import Demonstration

            demonstration = Demonstration(options.seconds, options.variant)
            try:
                verdict = demonstrate(demonstration, options, screen)
            finally:
                demonstration.end()
            report(verdict, demonstration, options, screen)
        if options.keep and server.folder is not None:
            keep(server, screen)
    return verdict.exit_code


def show(options: argparse.Namespace, screen: Screen) -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.demo.settings"
    # Somebody may leave it running.
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(40)
    with migrated():
        try:
            serve.serve(options.port or 0, options.concurrency, screen)
        except (OSError, serve.Ended) as error:
            raise Trouble(str(error)) from error
    screen.say("Stopped.")
    return 0


def require_packages() -> None:
    try:
        import environ  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError as error:
        raise Trouble(f'{error}. Run: python -m pip install -e ".[demo]"') from error


@contextlib.contextmanager
def migrated() -> Iterator[None]:
    """Django on a migrated database, whose errors are told and whose connections are closed."""
    import django
    from django.core.management import call_command
    from django.db import DatabaseError, connections

    from django_graphile_worker.exceptions import GraphileWorkerError

    django.setup()
    try:
        call_command("migrate", verbosity=0, interactive=False)
        yield
    except (DatabaseError, GraphileWorkerError) as error:
        raise Trouble(str(error).strip()) from error
    finally:
        connections.close_all()


def demonstrate(
    demonstration: Demonstration, options: argparse.Namespace, screen: Screen
) -> Verdict:
    demonstration.start()
    with worker.running(options.concurrency) as process:
        screen.say(introduction(options, process.pid))
        begun = time.monotonic()
        while True:
            if (code := process.wait(screen.interval)) is not None:
                raise Trouble(f"the worker ended with {code}:\n{process.said()}")
            progress = demonstration.progress()
            elapsed = time.monotonic() - begun
            screen.show(elapsed, progress)
            if not progress.left:
                break
            if elapsed > options.seconds + DRAIN:
                raise Trouble(
                    f"{progress.left} jobs are left {DRAIN:g} s after the last call:\n"
                    + process.said()
                )
        if code := process.stop():
            raise Trouble(f"the worker stopped with {code}:\n{process.said()}")
    return demonstration.verdict()


def introduction(options: argparse.Namespace, pid: int) -> str:
    functions = (
        "the functions of this package"
        if options.variant is None
        else f"functions that have the reported fault ({options.variant})"
    )
    return (
        f"manage.py graphile_worker --concurrency {options.concurrency} (process {pid}) runs "
        f"4 schedulers, again and again for {options.seconds:g} s,\n"
        "each with 100 calls over 10 keys of\n"
        '  add_job("printer", [{key, number}], job_key=key, job_key_mode="preserve_run_at")\n'
        f"on {functions}."
    )


def report(
    verdict: Verdict, demonstration: Demonstration, options: argparse.Namespace, screen: Screen
) -> None:
    screen.close()
    screen.say("")
    for line in verdict.lines():
        screen.say(line)
    for error in demonstration.errors():
        screen.say(f"  error: {error}")
    screen.say("")
    screen.say(conclusion(verdict, corrected=options.variant is None))


def conclusion(verdict: Verdict, *, corrected: bool) -> str:
    if verdict.exit_code is Exit.INCONCLUSIVE:
        return f"INCONCLUSIVE: {verdict.doubt}. Let it run longer (--seconds)."
    if corrected:
        return "PASSED: nothing was lost." if verdict.sound else "FAILED: see above."
    if not verdict.lost:
        return "Nothing was lost this time. It takes some luck; let it run longer (--seconds)."
    return "LOST, as was to be expected of these functions. Without --uncorrected nothing is."


def keep(server: postgres.Server, screen: Screen) -> None:
    screen.say(
        f"\nKept until Ctrl-C. To look at it in the admin:\n"
        f"  export DATABASE_URL={server.url}\n"
        f"  python testproject/manage.py createsuperuser\n"
        f"  python testproject/manage.py runserver"
    )
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
