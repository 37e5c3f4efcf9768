"""Tasks that are quick or slow, that fail now and then or always, alone or in a named queue.

They do nothing but take their time: what is to be looked at is the queue.
"""

from __future__ import annotations

import asyncio
import random
import time

from django_graphile_worker import task


@task
def send_letter(to: str, subject: str) -> None:
    """Take a moment; one in eight fails and is tried again."""
    time.sleep(random.uniform(0.02, 0.3))
    if random.random() < 1 / 8:
        raise ConnectionRefusedError(f"the mail server refused the letter to {to}")


@task
def refresh_page(page: int) -> None:
    """Take longer than it takes until the same page is asked for again."""
    time.sleep(random.uniform(1, 4))


@task(queue_name="accounts")
def settle_account(account: int) -> None:
    """One after the other, by their named queue."""
    time.sleep(random.uniform(0.1, 0.5))


@task(max_attempts=2)
def charge_card(card: int, token: str) -> None:
    """Fail each time, and soon for good."""
    raise PermissionError(f"the bank declined card {card}")


@task
async def fetch_rates(currency: str) -> None:
    """Wait for somebody else."""
    await asyncio.sleep(random.uniform(0.05, 1))


@task
def write_report(month: int) -> None:
    """For later."""
    time.sleep(0.1)
