"""Jobs of all sorts, a few in each second, for who looks at them in the admin.

Imported only when Django is set up.
"""

from __future__ import annotations

import random
import secrets
from datetime import timedelta
from typing import Any

from django_graphile_worker import complete_jobs, enqueue
from django_graphile_worker.models import Job, Task
from testproject.letters import tasks

# All that `tick` asks for. Nobody runs the last one, as if a worker in another language was away.
NAMES = (
    "send_letter",
    "refresh_page",
    "settle_account",
    "charge_card",
    "fetch_rates",
    "write_report",
    "resize_image",
)


class Traffic:
    """What a busy project asks for. What nobody ends has a key, so that it is not ever more."""

    def __init__(self) -> None:
        self._ticks = 0

    def tick(self) -> None:
        """Ask for the jobs of half a second."""
        self._ticks += 1
        for _ in range(random.randrange(4)):
            name = random.choice(("ada", "grace", "linus", "margaret"))
            tasks.send_letter.enqueue(to=f"{name}@example.org", subject="Hello")
        tasks.settle_account.enqueue(account=random.randrange(40))
        tasks.fetch_rates.enqueue(currency=random.choice(("EUR", "CHF", "SEK")))
        page = min(int(random.expovariate(0.8)), 7)
        self._keyed(tasks.refresh_page, {"page": page}, f"page-{page}")
        if self._ticks % 20 == 1:
            card = random.randrange(20)
            secret = {"card": card, "token": secrets.token_hex(8)}
            self._keyed(tasks.charge_card, secret, f"card-{card}")
            self._keyed("resize_image", {"id": card}, f"image-{card}")
            month = 1 + card % 12
            self._keyed(
                tasks.write_report, {"month": month}, f"report-{month}", run_at=timedelta(hours=1)
            )

    def _keyed(self, task: Any, payload: dict[str, Any], key: str, **options: Any) -> None:
        enqueue(task, payload, job_key=key, **options)

    def end(self) -> None:
        """Take away what is left; what a worker runs, it ends itself."""
        asked = Task.objects.filter(identifier__in=NAMES).values_list("pk", flat=True)
        left = Job.objects.filter(task_id__in=list(asked)).values_list("pk", flat=True)
        complete_jobs(list(left))
