"""The tests run on a real PostgreSQL; nothing of the database is mocked."""

from __future__ import annotations
