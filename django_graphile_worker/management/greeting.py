"""What the worker says at its start: what it serves, from where, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_graphile_worker.conf import Config
from django_graphile_worker.worker.pool import PREFETCH


def compose(
    config: Config,
    *,
    revision: int | None,
    functions: int | None,
    tasks: Sequence[str],
    processes: int,
    listens: bool,
) -> tuple[str, dict[str, Any]]:
    """Return the text, and the facts in it.

    `revision` is the schema's, `functions` the version of ours in it; `None`: there are none.
    """
    alias = config.listen_alias if listens else None
    lines = [
        "Worker starts",
        "  database  %(database)s, schema %(schema)s "
        "(revision %(revision)s, functions %(functions)s)",
        "  slots     %(slots)d"
        + (" in each of %(processes)d processes" if processes > 1 else "")
        + ", takes up to %(prefetch)d more jobs ahead",
        "  looks     for jobs every %(poll_interval)g s, "
        + (
            "does not listen for new ones"
            if alias is None
            else "listens for new ones on %(listens)s"
        ),
        "  tasks     "
        + (", ".join(tasks).replace("%", "%%") or "none: no installed app has tasks in a tasks.py"),
    ]
    return "\n".join(lines), {
        "database": config.databases[0],
        "schema": config.schema,
        "revision": revision,
        "functions": "none of ours" if functions is None else functions,
        "slots": config.concurrency,
        "processes": processes,
        "poll_interval": config.poll_interval,
        "prefetch": PREFETCH if config.prefetch is None else config.prefetch,
        "listens": alias,
        "tasks": list(tasks),
    }
