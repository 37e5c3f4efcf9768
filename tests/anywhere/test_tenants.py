"""Beside django-tenants, as one of the apps that its tenants share."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.fresh import ROOT, Fresh


@pytest.mark.skipif(
    find_spec("django_tenants") is None, reason="without django-tenants: pip install django-tenants"
)
def test_the_queue_is_shared_and_each_job_runs_in_its_tenant(fresh: Fresh) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.anywhere.tenants_program"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": fresh.url},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "ALL WELL" in ran.stdout
