"""The reported workload: a ``printer`` task and ``scheduler`` tasks that wish for it by key."""

from __future__ import annotations
