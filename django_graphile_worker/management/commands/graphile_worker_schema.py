"""`manage.py graphile_worker_schema`: show how the queue's schema stands, and mend it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from django_graphile_worker import schemas
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import GraphileWorkerError
from django_graphile_worker.schemas import SchemaState


class Command(BaseCommand):
    help = (
        "Show the revision of the queue's schema, and whether its functions are those of this "
        "package. Exit with 1 where something is amiss."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--database",
            metavar="ALIAS",
            help="only this database (default: all of GRAPHILE_WORKER['DATABASES'])",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--verify", action="store_true", help="say only what is amiss; exit with 1 if so"
        )
        what.add_argument(
            "--repair",
            action="store_true",
            help="put our functions back where another installer has replaced them",
        )
        what.add_argument(
            "--raise",
            action="store_true",
            dest="lift",
            help=(
                "lift an adopted schema from revision 18 to 20; workers of graphile-worker 0.16 "
                "then refuse it, so stop them first: refused while there are signs of one"
            ),
        )
        parser.add_argument(
            "--force", action="store_true", help="--raise in spite of signs of other workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["force"] and not options["lift"]:
            raise CommandError("--force goes with --raise only.")
        aliases = [options["database"]] if options["database"] else get_config().databases
        try:
            states = [self._handle(alias, options) for alias in aliases]
        except (GraphileWorkerError, DatabaseError) as error:
            raise CommandError(str(error)) from error
        if not all(state.is_well for state in states):
            sys.exit(1)

    def _handle(self, alias: str, options: dict[str, Any]) -> SchemaState:
        if options["repair"]:
            names = schemas.repair_schema(using=alias)
            self._say(alias, f"put back: {', '.join(names)}" if names else "nothing to repair")
        if options["lift"]:
            before, after = schemas.raise_schema(using=alias, force=options["force"])
            self._say(
                alias,
                f"revision {before}, now {after}" if before < after else f"at revision {after}",
            )
        state = schemas.read_schema(using=alias)
        if options["verify"]:
            for line in self._amiss(state):
                self._say(alias, line)
        elif not (options["repair"] or options["lift"]) or not state.is_well:
            self._show(state)
        return state

    def _show(self, state: SchemaState) -> None:
        revision = "none" if state.revision is None else state.revision
        self._say(state.alias, f"schema {state.schema!r}")
        self.stdout.write(f"  {state.origin or 'not installed'}, revision {revision}")
        for function in state.functions:
            self.stdout.write(f"  {function.name}: {function.state}")

    def _amiss(self, state: SchemaState) -> list[str]:
        if state.origin is None:
            return [f"schema {state.schema!r} is not installed: migrate graphile_worker"]
        return [
            f"function {function.name} is {function.state}"
            for function in state.functions
            if function.state != "ours"
        ]

    def _say(self, alias: str, text: str) -> None:
        self.stdout.write(f"{alias}: {text}")
