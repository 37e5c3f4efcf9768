"""Everybody at once on few keys, and a ledger that shows by numbers whether a request was lost."""

from __future__ import annotations
