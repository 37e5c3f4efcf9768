"""Settings of the test project, from the environment.

``DATABASE_URL``            the PostgreSQL to use (the demo and the tests start one and set this).
``GRAPHILE_WORKER_SCHEMA``  another name for the queue's schema; the whole suite runs under it.
``DEFAULT_AUTO_FIELD``      another default primary key; it must not change our migrations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent

# Nothing is kept here that a key would protect.
SECRET_KEY = env.str("SECRET_KEY", default="for-the-test-project-only-never-for-yours")
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

DATABASES = {
    "default": env.db_url("DATABASE_URL", default="postgresql://postgres@127.0.0.1:5432/postgres")
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_graphile_worker",
    "testproject.reported",
]

GRAPHILE_WORKER: dict[str, Any] = {}
if "GRAPHILE_WORKER_SCHEMA" in env:
    GRAPHILE_WORKER["SCHEMA"] = env.str("GRAPHILE_WORKER_SCHEMA")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "testproject.urls"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = env.str("DEFAULT_AUTO_FIELD", default="django.db.models.BigAutoField")
