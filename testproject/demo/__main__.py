"""Start a PostgreSQL and the worker, run the reported workload, and say whether anything was lost.

The exit code is 0 if nothing was lost, 1 if something was, 2 if it cannot be told, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from testproject import postgres
from testproject.demo import worker
from testproject.demo.screen import Screen
from testproject.demo.verdict import Exit, Verdict

if TYPE_CHECKING:
    from testproject.demo.demonstration import Demonstration

VARIANTS = ("no_row", "holder_returned")

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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m testproject.demo",
        description="Run the workload under which keyed jobs were reported lost: four schedulers, "
        "each 100 calls of add_job over 10 keys, again and again, against quick printer jobs. "
        "The database is the one at DATABASE_URL, else one that is started here.",
        epilog="Exit code: 0 if nothing was lost, 1 if something was, 2 if it cannot be told.",
    )
    parser.add_argument(
        "--seconds", type=seconds, default=30, metavar="N", help="how long to call (30)"
    )
    parser.add_argument(
        "--concurrency",
        type=slots,
        default=10,
        metavar="N",
        help="how many jobs the worker runs at a time, 2 to 100 (10)",
    )
    parser.add_argument(
        "--uncorrected",
        action="store_true",
        help="call functions that have the reported fault, to see what they lose",
    )
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        help="what those give back for a lost request: nothing (no_row, the default), or the "
        "running job as if it stood for the request",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the database until Ctrl-C, to look at it"
    )
    options = parser.parse_args()
    if options.variant and not options.uncorrected:
        parser.error("--variant is for --uncorrected")
    if options.uncorrected:
        options.variant = options.variant or VARIANTS[0]
    return options


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86_400:
        raise ValueError
    return value


def slots(text: str) -> int:
    # With one slot no key is asked for while its job runs.
    value = int(text)
    if not 2 <= value <= 100:
        raise ValueError
    return value


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
        os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
        with migrated():
            from testproject.demo.demonstration import Demonstration

            demonstration = Demonstration(options.seconds, options.variant)
            try:
                verdict = demonstrate(demonstration, options, screen)
            finally:
                demonstration.end()
            report(verdict, demonstration, options, screen)
        if options.keep:
            keep(server, screen)
    return verdict.exit_code


def require_packages() -> None:
    try:
        import environ  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError as error:
        raise Trouble(f'{error}. Run: python -m pip install -e ".[demo]"') from error


@contextlib.contextmanager
def migrated() -> Iterator[None]:
    """Django on a migrated database; its connections are closed at the end."""
    import django
    from django.core.management import call_command
    from django.db import DatabaseError, connections

    from django_graphile_worker.exceptions import GraphileWorkerError

    django.setup()
    try:
        try:
            call_command("migrate", verbosity=0, interactive=False)
        except (DatabaseError, GraphileWorkerError) as error:
            raise Trouble(f"migrate: {str(error).strip()}") from error
        yield
    finally:
        connections.close_all()


def demonstrate(
    demonstration: Demonstration, options: argparse.Namespace, screen: Screen
) -> Verdict:
    demonstration.start()
    with worker.running(options.concurrency) as process:
        screen.say(
            f"manage.py graphile_worker --concurrency {options.concurrency} runs 4 schedulers, "
            f"again and again for {options.seconds:g} s, each with 100 calls of\n"
            '  add_job("printer", [{key, number}], job_key=key, job_key_mode="preserve_run_at")\n'
            "over 10 keys, "
            + (
                "on the functions of this package."
                if options.variant is None
                else f"on functions that have the reported fault ({options.variant})."
            )
        )
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
