"""What was asked for and what was run, by number; the verdict compares the two.

Rows are only ever added, in the transaction of a call or by themselves, so that keeping the record
neither waits nor makes the workload wait.
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Batch(models.Model):
    """The calls that one run of `scheduler` made: the numbers `first` to `first + calls - 1`.

    Each call was a transaction of its own. Those in `missing` got no row, those in `failed` raised
    (with `errors` beside them) and so committed nothing.
    """

    demonstration = models.TextField()
    first = models.BigIntegerField()
    calls = models.IntegerField()
    missing = models.JSONField()
    failed = models.JSONField()
    errors = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.demonstration}: {self.calls} calls from {self.first}"


class PrinterRun(models.Model):
    """One run of `printer`, and the numbers that it carried."""

    demonstration = models.TextField()
    numbers = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.demonstration}: {self.numbers}"
