"""What all lists share: nothing can be changed, and no page costs more as the tables grow."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import ShowFacets
from django.core.paginator import Page, Paginator
from django.db.models import Lookup, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst

if TYPE_CHECKING:
    _Lookup = Lookup[Any]
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:
    _Lookup, _ModelAdmin, _Paginator = Lookup, admin.ModelAdmin, Paginator

LARGEST_ID = 2**63 - 1


class IsAmong(_Lookup):
    """A condition that a column is one of many numbers, sent as one array.

    As ten thousand parameters, which `__in` makes of them, they take a tenth of a second each time.
    """

    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        column, params = self.process_lhs(compiler, connection)
        return f"{column} = any (%s::bigint[])", (*params, list(self.rhs))


class CappedPaginator(_Paginator):
    """Counts up to `cap` rows and then stops; the pages end there, too.

    Counting two million rows takes longer than reading the page, and so does skipping to the last.
    """

    cap = 10_000
    every: Any = None
    """All rows that there are, with what the list computes for each."""

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[: self.cap + 1].count()
        return found

    @cached_property
    def count(self) -> int:
        return min(self._found, self.cap)

    def page(self, number: Any) -> Page[Any]:
        """Read the rows of the page alone.

        In one query what a list computes for each row (names, counts, verdicts) is computed for all
        that are skipped as well: on page 40 of the named queues that took two seconds. And those
        found are not looked for again: among ten thousand ids that took 0.4 s.
        """
        page = super().page(number)
        found: Any = page.object_list
        ids = list(found.values_list("pk", flat=True))
        rows = {row.pk: row for row in self.every.filter(pk__in=ids)}
        # One that is gone by now is left out, and one that has changed is shown as it is.
        page.object_list = [rows[pk] for pk in ids if pk in rows]
        return page

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than the pages reach."""
        return self._found > self.cap


class ReadOnlyAdmin(_ModelAdmin):
    """A list and a detail page to look at, for whoever has the permission to view the model."""

    actions = None
    change_form_template = "admin/graphile_worker/change_form.html"
    change_list_template = "admin/graphile_worker/change_list.html"
    object_history_template = "admin/graphile_worker/object_history.html"
    list_max_show_all = 0
    list_per_page = 50
    ordering: ClassVar[tuple[Any, ...]] = ("-id",)
    paginator = CappedPaginator
    # Counts for filters would read the table once for each of them, whatever the paginator does.
    show_facets = ShowFacets.NEVER
    show_full_result_count = False
    view_on_site = False
    # Only what is in the order of an index: sorting by another column sorts the whole table.
    sortable_by = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_paginator(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        paginator: Any = super().get_paginator(request, queryset, *args, **kwargs)
        paginator.every = self.get_queryset(request)
        return paginator

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        """Leave out what is for all models of a site: an export would have the payloads, too."""
        # Django 6.1 gives the location, and those before know of none.
        given = {} if action_location is None else {"action_location": action_location}
        found: dict[str, Any] = super().get_actions(request, **given)
        everywhere = {name for name, _function in self.admin_site.actions}
        actions: Any = self.actions or ()
        own = {getattr(one, "__name__", one) for one in actions}
        return {name: one for name, one in found.items() if name in own or name not in everywhere}

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Django's title asks to select something, which none of these lists is there for.
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model | None:
        # PostgreSQL has no text with this character, and would refuse the query.
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the filters on the page and nothing else.

        Django allows every field of the model in the address: `?payload__startswith=` would let
        those read payloads, letter by letter, who may not see them.
        """
        filters = self.list_filter
        return lookup in {getattr(filter, "parameter_name", None) for filter in filters}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(self.search(term)) if term else queryset), False

    def search(self, term: str) -> Q:
        """Return what a search for `term`, never empty, is to find."""
        raise NotImplementedError


def as_id(term: str) -> int | None:
    """Return the id that a search term is, or `None` where it cannot be one."""
    if term.isascii() and term.isdecimal() and len(term) < 20 and int(term) <= LARGEST_ID:
        return int(term)
    return None
