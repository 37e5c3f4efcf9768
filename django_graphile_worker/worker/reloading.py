"""Watches the project's files as Django's `runserver` does, and tells when one has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from django.utils import autoreload

logger = logging.getLogger("graphile_worker")

# The exit code of a process that is to be started anew; Django's reloader has the same.
CHANGED = 3

# Seconds between two looks at the files.
INTERVAL = 1.0


def watch(on_change: Callable[[], None]) -> None:
    """Call `on_change` once, in another thread, when a file of the project has changed.

    The files are those of Django's reloader: each module that is loaded, now or later, and what
    apps add. Templates and translations are read again without a restart, as under `runserver`.
    """
    reloader = autoreload.get_reloader()
    told = threading.Event()

    def tell(path: object) -> None:
        # What it does itself is to end its process on the spot, jobs and all.
        results = autoreload.file_changed.send(sender=reloader, file_path=path)
        if not any(handled for _, handled in results) and not told.is_set():
            told.set()
            logger.info("%s has changed; the worker stops and starts again.", path)
            on_change()

    reloader.notify_file_changed = tell  # type: ignore[method-assign]
    threading.Thread(
        target=reloader.run,
        args=[threading.current_thread()],
        name="graphile_worker reloader",
        daemon=True,
    ).start()


class Snapshot:
    """How the modules of this process, and those beside them, are written on the disk now."""

    def __init__(self) -> None:
        self._seen = self._look()

    def has_changed(self) -> bool:
        """Whether one of the files has changed since, or a new one has come."""
        return self._look() != self._seen

    def _look(self) -> dict[Path, float]:
        # A module that is new and broken is not loaded here: only its folder tells of it.
        folders = {
            path.parent
            for path in autoreload.iter_all_python_module_files()
            if "site-packages" not in path.parts
        }
        seen = {}
        for folder in folders:
            for path in folder.glob("*.py"):
                try:
                    seen[path] = path.stat().st_mtime
                except OSError:
                    continue  # it has just been deleted
        return seen
