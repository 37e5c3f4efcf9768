"""What became of every request. Each has a number of its own in an array payload.

The queue joins arrays, so a number that was committed has to be carried by some run, whatever was
asked for after it. No clock is needed, and no order between the ones who write here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that must not happen; `kind` is one word for counting."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Ledger:
    """Shared by all threads of a storm."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self.committed: set[int] = set()
        # Taken away by an operator: these need not be carried.
        self.excused: set[int] = set()
        self.carried: set[int] = set()
        # Jobs that may stay behind without attempts: an operator has failed them, or has removed
        # them while they ran.
        self.ended: set[int] = set()
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()

    def numbers(self, count: int = 1) -> list[int]:
        """Numbers for as many new requests."""
        with self._lock:
            first = self._last + 1
            self._last += count
        return list(range(first, first + count))

    def commit(self, numbers: Iterable[int]) -> None:
        with self._lock:
            self.committed.update(numbers)

    def excuse(self, numbers: Iterable[int]) -> None:
        with self._lock:
            self.excused.update(numbers)

    def end(self, job_ids: Iterable[int]) -> None:
        with self._lock:
            self.ended.update(job_ids)

    def carry(self, numbers: Iterable[int]) -> None:
        """A run has begun with these."""
        with self._lock:
            self.carried.update(numbers)

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self.counts[what] += by

    def fault(self, kind: str, text: str) -> None:
        with self._lock:
            self.faults.append(Fault(kind, text))

    def lost(self) -> set[int]:
        """The committed numbers that no run has carried."""
        return self.committed - self.carried - self.excused

    def phantoms(self) -> set[int]:
        """The numbers that a run has carried though nobody has committed them.

        Their call was rolled back, or was an `unsafe_dedupe` that had to change nothing.
        """
        return self.carried - self.committed
