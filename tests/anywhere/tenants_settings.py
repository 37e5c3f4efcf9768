"""A project with django-tenants: the queue is shared, tables of `auth` are each tenant's."""

from __future__ import annotations

from typing import Any

from testproject.settings import DATABASES, GRAPHILE_WORKER

__all__ = ["DATABASES", "GRAPHILE_WORKER"]

SECRET_KEY = "for-the-tests-only"

_postgresql: Any = DATABASES["default"]
_postgresql["ENGINE"] = "django_tenants.postgresql_backend"
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]

SHARED_APPS = ["django_tenants", "tests.anywhere.customers", "django_graphile_worker"]
TENANT_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
INSTALLED_APPS = [*SHARED_APPS, *TENANT_APPS]
TENANT_MODEL = "customers.Client"
TENANT_DOMAIN_MODEL = "customers.Domain"

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
GRAPHILE_WORKER["JOB_WRAPPER"] = "tests.anywhere.tenants_program.in_tenant"
