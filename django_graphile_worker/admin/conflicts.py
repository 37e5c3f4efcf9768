"""The list of keyed-job conflicts: each time a keyed job was added while its holder was taken."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.base import ReadOnlyAdmin, as_id
from django_graphile_worker.models import KeyConflict


@admin.register(KeyConflict)
class KeyConflictAdmin(ReadOnlyAdmin):
    """Supersedings, newest first."""

    list_display = (
        "id",
        "recorded_at",
        "key",
        "superseded_job_id",
        "superseded_task",
        "superseded_state",
        "superseded_locked_by",
        "successor_job_id",
        "successor_task",
        "outcome",
        "finished_at",
    )
    search_fields = ("key", "superseded_task", "successor_task", "superseded_job_id")
    search_help_text = _("A whole job key or task identifier, or the id of either job.")

    def search(self, term: str) -> Q:
        found = Q(key=term) | Q(superseded_task=term) | Q(successor_task=term)
        if (number := as_id(term)) is not None:
            found |= Q(superseded_job_id=number) | Q(successor_job_id=number)
        return found
