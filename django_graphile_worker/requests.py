"""From what a caller says to a request that can be sent: options merged, everything checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Required

from django_graphile_worker import payloads, validation
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import InvalidJob, InvalidJobType
from django_graphile_worker.jobs import JobKeyMode, JobOptions, JobSpec
from django_graphile_worker.registry import Task, registry

TaskLike = Task[Any, Any] | str


class JobRequest(JobOptions, total=False):
    """One job of `enqueue_many` as a dict: the task, its payload, and any options."""

    task: Required[TaskLike]
    payload: object


@dataclass(frozen=True, slots=True)
class Request:
    """A job that may be sent: its spec, and the two options that belong to the call."""

    spec: JobSpec
    job_key_mode: JobKeyMode | None
    using: str | None


def make(task: object, payload: object, options: Mapping[str, object]) -> Request:
    """Return the request, or raise `InvalidJob` naming the argument at fault.

    An identifier of a task that is known here means that task, with its options and its signature.
    No payload means an empty object: a call without arguments.
    """
    known: Task[Any, Any] | None
    if isinstance(task, Task):
        identifier, known = task.identifier, task
    elif isinstance(task, str):
        identifier = validation.identifier(task)
        known = registry.get(identifier)
    elif callable(task):
        raise InvalidJobType(f"task: {task!r} is not a task; decorate it with @task")
    else:
        raise InvalidJobType(f"task must be a task or its identifier, not {type(task).__name__}")
    checked = validation.options(options)
    if known is not None:
        checked = {**known.options, **checked}
    if payload is None:
        payload = {}
    encoded = payloads.encode(payload)
    if known is not None:
        known.bind(payload)
    max_attempts = checked.get("max_attempts")
    mode = checked.get("job_key_mode")
    flags = checked.get("flags")
    return Request(
        spec=JobSpec(
            identifier=identifier,
            payload=encoded,
            queue_name=checked.get("queue_name"),
            run_at=checked.get("run_at"),
            max_attempts=get_config().max_attempts if max_attempts is None else max_attempts,
            job_key=checked.get("job_key"),
            priority=checked.get("priority"),
            flags=None if flags is None else tuple(flags),
        ),
        job_key_mode=None if mode is None else JobKeyMode(mode),
        using=checked.get("using"),
    )


def make_many(jobs: Iterable[Any], mode: JobKeyMode, using: str | None) -> list[JobSpec]:
    """Return the specs of a bulk call, in order.

    Raises `InvalidJob` that begins with `jobs[<index>]` for the first job that is refused, also
    one whose own key mode or database is not that of the call: there is one of each for all.
    """
    if isinstance(jobs, str | bytes | Mapping) or not isinstance(jobs, Iterable):
        raise InvalidJobType(f"jobs must be a list of jobs, not {type(jobs).__name__}")
    specs = []
    for index, job in enumerate(jobs):
        try:
            request = _make_one(job)
            if request.spec.job_key is not None and request.job_key_mode not in (None, mode):
                raise InvalidJob(
                    f"job_key_mode is {str(request.job_key_mode)!r}, and {str(mode)!r} is what "
                    "all jobs of this call get; see job_key_preserve_run_at"
                )
            if request.using not in (None, using):
                raise InvalidJob(f"using is {request.using!r}, and this call uses {using!r}")
        except InvalidJob as error:
            raise type(error)(f"jobs[{index}]: {error}") from None
        specs.append(request.spec)
    return specs


def _make_one(job: Any) -> Request:
    if isinstance(job, Mapping):
        options = dict(job)
        if "task" not in options:
            raise InvalidJob("task is missing")
        return make(options.pop("task"), options.pop("payload", None), options)
    if isinstance(job, tuple) and len(job) == 2:
        return make(job[0], job[1], {})
    if isinstance(job, Task | str):
        return make(job, None, {})
    raise InvalidJobType(
        "a job is a task, a pair (task, payload) or a dict with the key 'task', "
        f"not {type(job).__name__}"
    )
