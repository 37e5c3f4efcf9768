"""Pausing and resuming named queues from their list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE
from django.db import transaction
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_graphile_worker import client, transactions
from django_graphile_worker.admin.actions import (
    MOST,
    UNLOCK_PERMISSION,
    demand,
    has_unlock_permission,
    log,
)
from django_graphile_worker.exceptions import QueueInUse
from django_graphile_worker.models import JobQueue

Act = Callable[[str, str], bool]


class PausingMixin:
    """The actions to pause and to resume, for a `ModelAdmin` of named queues."""

    actions: Any = ("pause_queues", "resume_queues")

    def has_unlock_permission(self, request: HttpRequest) -> bool:
        return has_unlock_permission(request)

    @admin.action(permissions=["unlock"], description=_("Pause the selected named queues"))
    def pause_queues(self, request: HttpRequest, queryset: Any) -> None:
        self._each(
            request,
            queryset,
            lambda name, alias: client.pause_queue(name, using=alias),
            (_("Paused"), _("Already paused"), "Paused."),
        )

    @admin.action(permissions=["unlock"], description=_("Resume the selected named queues"))
    def resume_queues(self, request: HttpRequest, queryset: Any) -> None:
        self._each(
            request,
            queryset,
            lambda name, alias: client.resume_queue(name, using=alias),
            (_("Resumed"), _("Not paused, and left as it is"), "Resumed."),
        )

    def _each(
        self,
        request: HttpRequest,
        queryset: Any,
        act: Act,
        said: tuple[str | Promise, str | Promise, str],
    ) -> None:
        """Do it for each queue, in a transaction of its own together with what is logged."""
        demand(self, request, UNLOCK_PERMISSION)
        alias = transactions.alias(None)
        done, unchanged, logged = said
        told: dict[tuple[int, str], list[str]] = {}
        # In one order for everybody: in a transaction of the request's the locks stay till its end.
        chosen = queryset.order_by("pk").values_list("pk", "queue_name")
        for pk, name in chosen[:MOST]:
            try:
                with transaction.atomic(using=alias):
                    changed = act(name, alias)
                    if changed:
                        log(request, [JobQueue(pk=pk, queue_name=name)], CHANGE, logged)
            except QueueInUse as error:
                why = _("Not resumed, since a job that was taken before the pause runs still")
                held = f"{name} ({error.job_id}, {error.worker_id})"
                told.setdefault((messages.WARNING, str(why)), []).append(held)
                continue
            level, text = (messages.SUCCESS, done) if changed else (messages.INFO, unchanged)
            told.setdefault((level, str(text)), []).append(name)
        for (level, text), names in told.items():
            messages.add_message(request, level, f"{text}: {', '.join(names)}")
