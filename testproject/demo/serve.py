"""The admin with live traffic, on this machine only: ``python -m testproject.demo --serve``."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import Any

from testproject.demo import worker
from testproject.demo.screen import Screen

HOST = "127.0.0.1"

# Seconds between two handfuls of jobs.
TICK = 0.5

# So often, in ticks, a worker is killed: its death is to be seen, too.
DEATHS = 240


class Ended(Exception):
    """The worker that should live has ended."""


def serve(port: int, concurrency: int, screen: Screen) -> None:
    """Serve until Ctrl-C. Django is set up, and the database migrated.

    Raises `OSError` where the port is taken, and `Ended`.
    """
    from testproject.demo.traffic import Traffic

    traffic = Traffic()
    with contextlib.suppress(KeyboardInterrupt), serving(port) as bound, visitor() as user:
        try:
            with worker.running(concurrency) as steady:
                name, password = user
                screen.say(
                    f"http://{HOST}:{bound}/admin/graphile_worker/\n"
                    f"  user {name}, password {password}\n"
                    "Jobs come and go, and a worker dies now and then. Ends with Ctrl-C."
                )
                live(traffic, steady)
        finally:
            traffic.end()


def live(traffic: Any, steady: worker.Worker) -> None:
    """Keep two workers busy, one of which is killed and comes back, again and again."""
    while True:
        with worker.running(2) as mortal:
            for _ in range(DEATHS):
                traffic.tick()
                if (code := steady.wait(TICK)) is not None:
                    raise Ended(f"the worker ended with {code}:\n{steady.said()}")
            mortal.kill()


@contextlib.contextmanager
def serving(port: int) -> Iterator[int]:
    """Serve the project in threads of this process; yields the port, for 0 a free one."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
    from django.core.wsgi import get_wsgi_application

    class Silent(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """What is asked for is on the screen already."""

    server = ThreadedWSGIServer((HOST, port), Silent)
    server.daemon_threads = True
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    thread = threading.Thread(target=server.serve_forever, name="admin", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def visitor() -> Iterator[tuple[str, str]]:
    """A superuser for as long as this runs, with a password that nobody had before."""
    from django.contrib.auth.models import User

    name, password = f"demo-{secrets.token_hex(2)}", secrets.token_urlsafe(9)
    user = User.objects.create_superuser(name, password=password)
    try:
        yield name, password
    finally:
        user.delete()
