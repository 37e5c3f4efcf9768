"""Adds one job after the other to an idle worker, and prints how soon each began."""

from __future__ import annotations

import json
import random
import socket
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchmarks.project.tasks import tell

# A worker may still be starting when the first jobs are added.
STARTING = 60.0
WARM_UP = 20


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("samples", type=int)

    def handle(self, *args: Any, samples: int, **options: Any) -> None:
        taken = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
            heard.bind(("127.0.0.1", 0))
            heard.settimeout(STARTING)
            port = heard.getsockname()[1]
            for number in range(-WARM_UP, samples):
                time.sleep(random.uniform(0.012, 0.018))
                began = time.monotonic_ns()
                tell.enqueue(port=port)
                returned = time.monotonic_ns()
                started = int(heard.recv(64))
                if number >= 0:
                    taken.append([(started - began) / 1e6, (returned - began) / 1e6])
        self.stdout.write(json.dumps(taken))
