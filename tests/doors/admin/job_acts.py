"""What tests do to jobs through the admin, and a selection of jobs to do it to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from django_graphile_worker.models import Job

LIST = "admin:graphile_worker_job_changelist"
VERBS = ("run_now", "reschedule", "fail", "complete", "remove_by_key")
LOCKED = {"locked_at": "now()", "locked_by": "'w'", "attempts": "1"}
# What our functions, and Node's sweep, take for stale.
LONG_LOCKED = LOCKED | {"locked_at": "now() - interval '5 hours'"}
LATER = "now() + interval '1 day'"
FORMS: dict[str, dict[str, str]] = {"reschedule": {"priority": "7"}, "fail": {"message": "no use"}}


def act_url(verb: str) -> str:
    return reverse("admin:graphile_worker_job_act", args=[verb])


def send(somebody: Client, verb: str, ids: list[int], **fields: str) -> Any:
    data = {"jobs": ",".join(map(str, ids)), "sure": "yes"} | FORMS.get(verb, {}) | fields
    return somebody.post(act_url(verb), data)


def choose(somebody: Client, verb: str, ids: list[int], query: str = "", **fields: Any) -> Any:
    data = {"action": verb, "_selected_action": ids, "index": "0"} | fields
    return somebody.post(f"{reverse(LIST)}{query}", data)


def said(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def rows() -> list[dict[str, Any]]:
    return [dict(row) for row in Job.objects.order_by("pk").values()]


def logged() -> dict[str, str]:
    return {
        str(entry.object_id): entry.change_message
        for entry in LogEntry.objects.filter(content_type__model="job")
    }


@dataclass
class Mixed:
    """A selection as only a person makes one: something in every state, and some not there."""

    failed: int
    running: int
    stale: int
    scheduled: int
    ready: int
    taken_over: int
    gone: int

    @property
    def ids(self) -> list[int]:
        return [getattr(self, name) for name in self.__dataclass_fields__]


def stand(name: str, mixed: Mixed) -> dict[str, Any] | None:
    row = Job.objects.filter(pk=getattr(mixed, name)).values().first()
    return None if row is None else dict(row)
