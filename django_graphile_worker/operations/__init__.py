"""What migrations do to the queue's schema: install it, extend it, adopt it, mend it."""

from __future__ import annotations

from django_graphile_worker.operations.install import ExtendSchema, InstallSchema

__all__ = ["ExtendSchema", "InstallSchema"]
