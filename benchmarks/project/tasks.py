"""What the worker runs while it is measured."""

from __future__ import annotations

import socket
import time

from django.contrib.contenttypes.models import ContentType

from django_graphile_worker import task

MILLISECOND = 0.001


@task
def nothing() -> None:
    pass


@task
async def nothing_async() -> None:
    pass


@task
def one_query() -> None:
    ContentType.objects.get(pk=1)


@task
def burn() -> None:
    """Use one millisecond of CPU, whatever the other threads do meanwhile."""
    end = time.thread_time() + MILLISECOND
    while time.thread_time() < end:
        pass


@task
def tell(port: int) -> None:
    """Say when this task began, on the clock that all processes of a machine share."""
    began = time.monotonic_ns()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
        to.sendto(b"%d" % began, ("127.0.0.1", port))
