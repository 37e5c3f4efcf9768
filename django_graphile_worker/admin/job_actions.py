"""The actions on jobs: what each does, what it asks before, and the page that asks.

Each is for one job, on its page, or for those chosen in the list. It goes through the functions
that an application has, for the jobs that no worker holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import CHANGE, DELETION
from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_graphile_worker import client, validation
from django_graphile_worker.admin.actions import Outcome, Outcomes
from django_graphile_worker.exceptions import InvalidJob
from django_graphile_worker.jobs import FreeJob

Values = dict[str, Any]
Do = Callable[[list[FreeJob], Values, str], Outcomes]

LOW, HIGH = validation.SMALLINT


class FailForm(forms.Form):
    message = forms.CharField(
        label=_("message"),
        max_length=1_000,
        required=False,
        help_text=_("Becomes the last error of each. Left empty: “Manually marked as failed”."),
    )


class RescheduleForm(forms.Form):
    run_at = forms.DateTimeField(
        label=_("run at"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}),
        help_text=_("In the time zone of this page."),
    )
    priority = forms.IntegerField(
        label=_("priority"),
        required=False,
        min_value=LOW,
        max_value=HIGH,
        help_text=_("The lower, the sooner."),
    )
    attempts = forms.IntegerField(
        label=_("attempts"),
        required=False,
        min_value=0,
        max_value=HIGH,
        help_text=_("Counted so far. With 0 a job that has failed for good runs again."),
    )
    max_attempts = forms.IntegerField(
        label=_("max attempts"),
        required=False,
        min_value=1,
        max_value=HIGH,
        help_text=_("A job whose attempts have reached this has failed for good."),
    )

    def clean(self) -> Values:
        given: Values = super().clean() or {}
        values = {name: value for name, value in given.items() if value is not None}
        if not values and not self.errors:
            raise forms.ValidationError(
                _("Fill in at least one: a field left empty changes nothing.")
            )
        if "run_at" in values:
            try:
                values["run_at"] = validation.run_at(values["run_at"])
            except InvalidJob:
                self.add_error("run_at", _("This is beyond the years 1 to 9999."))
        return values


@dataclass(frozen=True)
class Verb:
    """An action: its name in addresses, what it does, and what it asks before."""

    name: str
    label: str | Promise
    do: Do
    explanation: str | Promise
    flag: int = CHANGE
    form: type[forms.Form] | None = None
    is_destructive: bool = False

    @property
    def asks(self) -> bool:
        return self.is_destructive or self.form is not None


def _done(stored: list[Any]) -> Outcomes:
    return {job.id: Outcome.DONE for job in stored}


def _run_now(free: list[FreeJob], values: Values, alias: str) -> Outcomes:
    # Those that are due keep their place in the line: another `run_at` would put them at its end.
    outcomes = {job.id: Outcome.UNCHANGED for job in free if job.has_attempts and job.is_due}
    for has_attempts, changes in ((True, {}), (False, {"attempts": 0})):
        ids = [
            job.id for job in free if job.has_attempts is has_attempts and job.id not in outcomes
        ]
        if ids:
            now = timedelta()
            outcomes |= _done(client.reschedule_jobs(ids, run_at=now, using=alias, **changes))
    return outcomes


def _reschedule(free: list[FreeJob], values: Values, alias: str) -> Outcomes:
    return _done(client.reschedule_jobs([job.id for job in free], using=alias, **values))


def _fail(free: list[FreeJob], values: Values, alias: str) -> Outcomes:
    ids = [job.id for job in free]
    return _done(client.permanently_fail_jobs(ids, values.get("message") or None, using=alias))


def _complete(free: list[FreeJob], values: Values, alias: str) -> Outcomes:
    return _done(client.complete_jobs([job.id for job in free], using=alias))


def _remove_by_key(free: list[FreeJob], values: Values, alias: str) -> Outcomes:
    outcomes = {job.id: Outcome.REFUSED for job in free if job.key is None}
    for job in free:
        # The row is ours, and with it the key: nobody else can hold it until we commit.
        if job.key is not None and client.remove_job(job.key, using=alias) is not None:
            outcomes[job.id] = Outcome.DONE
    return outcomes


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "run_now",
            _("Run now"),
            _run_now,
            _(
                "Each becomes due at once. One that has failed for good gets all its attempts"
                " again; one that is due already keeps its place."
            ),
        ),
        Verb(
            "reschedule",
            _("Reschedule"),
            _reschedule,
            _("What is left empty stays as it is."),
            form=RescheduleForm,
        ),
        Verb(
            "fail",
            _("Fail"),
            _fail,
            _(
                "Each is run no more, and stays stored as failed for good until somebody"
                " reschedules, completes or removes it."
            ),
            form=FailForm,
            is_destructive=True,
        ),
        Verb(
            "complete",
            _("Complete"),
            _complete,
            _("Each is deleted as if it had run. It is not run, and nothing is left of it."),
            flag=DELETION,
            is_destructive=True,
        ),
        Verb(
            "remove_by_key",
            _("Remove by key"),
            _remove_by_key,
            _(
                "Each that has a key is deleted, and its key is free again. It is not run, and"
                " nothing is left of it. One without a key is left alone."
            ),
            flag=DELETION,
            is_destructive=True,
        ),
    )
}


def list_action(verb: Verb) -> Any:
    """Return the verb as an action of a list, for who has the permission to act."""

    def action(model_admin: Any, request: HttpRequest, queryset: Any) -> Any:
        return model_admin.act_on_chosen(request, queryset, verb)

    action.__name__ = verb.name
    description: Any = verb.label
    return admin.action(action, permissions=["act"], description=description)


def verb_named(name: str) -> Verb:
    if name not in VERBS:
        raise BadRequest("There is no such action.")
    return VERBS[name]
