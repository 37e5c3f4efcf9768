"""Signals that the worker sends, and how: whatever a receiver raises changes nothing.

Job signals have the task as `sender` (`None` where it is not known here) and `context`, the
attempt's `TaskContext`. They are sent in the thread that ran the job, after what the job left
behind was cleaned, so a receiver may use the ORM; what it leaves behind is cleaned as well. Worker
signals have the `WorkerPool`'s class as `sender`, and `worker_id`; they are sent in the thread that
runs the worker.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger("graphile_worker")

job_started = Signal()
"""A job's function is about to be called."""

job_succeeded = Signal()
"""A job has ended well; that is not yet written down, so it may happen twice for one job."""

job_failed = Signal()
"""An attempt has failed: with `error`, the exception, and `will_retry`."""

worker_started = Signal()
"""A worker has a name, and takes jobs from now on; the first may have begun already."""

worker_stopped = Signal()
"""A worker has ended; nothing is locked by it any more, but for what it logged."""


def send(signal: Signal, sender: Any, **values: Any) -> None:
    """Send to all receivers, one after the other. Never raises; free of cost where nobody listens.

    What a receiver raises is logged: an `Exception` by Django, as of any robust signal.
    """
    if not signal.receivers:
        return
    try:
        signal.send_robust(sender, **values)
    except BaseException:
        logger.exception("A receiver of a signal ended in an error.")


async def asend(signal: Signal, sender: Any, **values: Any) -> None:
    """Send as `send` does, from a task on an event loop: sync receivers run in its sync thread."""
    if not signal.receivers:
        return
    try:
        await signal.asend_robust(sender, **values)
    except asyncio.CancelledError:
        raise
    except BaseException:
        logger.exception("A receiver of a signal ended in an error.")
