"""What the peers that run inside of Django serve."""

from __future__ import annotations
