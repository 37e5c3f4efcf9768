"""The calls that are made on both schemas: each case is a name, and what a script is to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.compatibility.scripts import LOCKED, STATES, Script, aged

Case = Callable[[Script], None]

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__.replace("_", " ")] = function
    return function


# add_job


@case
def defaults(script: Script) -> None:
    script.call("add_job('t')")
    script.tell_queues()
    script.tell_view()


@case
def every_argument(script: Script) -> None:
    script.call(
        """add_job(identifier := 't', payload := '{"a": [1, null]}', queue_name := 'q',
        run_at := now() + interval '1 hour', max_attempts := 3, job_key := 'k', priority := -5,
        flags := array['slow', 'far'], job_key_mode := 'replace')"""
    )
    script.tell_queues()
    script.tell_view()


@case
def arguments_by_place(script: Script) -> None:
    script.call("add_job('t', '[1]', 'q', now(), 2, 'k', 4, array['f'], 'preserve_run_at')")


@case
def nulls_stand_for_defaults(script: Script) -> None:
    script.call("add_job('t', null, null, null, null, null, null, null)")


@case
def names_are_kept_once(script: Script) -> None:
    for names in ("'t', queue_name := 'q'", "'t', queue_name := 'q'", "'T', queue_name := 'Q'"):
        script.call(f"add_job({names})")
    script.tell_queues()
    script.told += script.execute(
        "select identifier from graphile_worker._private_tasks order by 1"
    )


@case
def identifiers(script: Script) -> None:
    for identifier in ("repeat('x', 128)", "repeat('x', 129)", "''"):
        script.call(f"add_job({identifier})")


@case
def identifier_null(script: Script) -> None:
    script.call("add_job(null)")


@case
def a_key_is_one_across_tasks(script: Script) -> None:
    script.call("add_job('a', job_key := 'k')")
    script.call("add_job('b', job_key := 'k')")


@case
def a_queue_is_left_and_entered(script: Script) -> None:
    for queue in ("'q'", "null", "'r'"):
        script.call(f"add_job('t', queue_name := {queue}, job_key := 'k')")


@case
def payloads_of_a_locked_job_are_not_joined(script: Script) -> None:
    script.call("add_job('t', '[1]', job_key := 'k')")
    aged(script, LOCKED)
    script.call("add_job('t', '[2]', job_key := 'k')")
    script.call("add_job('t', '[3]', job_key := 'k')")


def adding_twice(arguments: str, script: Script) -> None:
    script.call(f"add_job('t', {arguments})")
    script.call(f"add_job('t', {arguments})")


ARGUMENTS = {
    "payload an object": """payload := '{"b": 1, "a": {"c": []}}'""",
    "payload an array": "payload := '[1, [2], {}]'",
    "payload a string": """payload := '"text"'""",
    "payload a number": "payload := '1.50'",
    "payload true": "payload := 'true'",
    "payload a JSON null": "payload := 'null'",
    "payload an empty object": "payload := '{}'",
    "one flag": "flags := array['a']",
    "several flags": "flags := array['b', 'a']",
    "a flag twice": "flags := array['a', 'a']",
    "no flags": "flags := array[]::text[]",
    "a flag null": "flags := array[null]::text[]",
    "no attempts": "max_attempts := 0",
    "negative attempts": "max_attempts := -1",
    "attempts beyond smallint": "max_attempts := 32768",
    "most attempts": "max_attempts := 32767",
    "priority beyond smallint": "priority := 32768",
    "lowest priority": "priority := -32768",
    "empty key": "job_key := ''",
    "longest key": "job_key := repeat('x', 512)",
    "too long a key": "job_key := repeat('x', 513)",
    "empty queue name": "queue_name := ''",
    "longest queue name": "queue_name := repeat('x', 128)",
    "too long a queue name": "queue_name := repeat('x', 129)",
    "unknown mode": "job_key := 'k', job_key_mode := 'other'",
    "unknown mode without key": "job_key_mode := 'other'",
    "mode null": "job_key := 'k', job_key_mode := null",
    "unsafe_dedupe without key": "job_key_mode := 'unsafe_dedupe'",
    "preserve_run_at without key": "job_key_mode := 'preserve_run_at'",
}
for name, arguments in ARGUMENTS.items():
    CASES[name] = partial(adding_twice, arguments)


def key_again(state: str, mode: str, script: Script) -> None:
    script.call(
        """add_job('old', '{"old": 1}', 'old', max_attempts := 5, job_key := 'k', priority := 1,
        flags := array['old'])"""
    )
    aged(script, state)
    script.call(
        f"""add_job('new', '{{"new": 1}}', 'new', now() + interval '2 hours', 7, 'k', 7,
        array['new'], '{mode}')"""
    )
    script.call(f"add_job('old', job_key := 'k', job_key_mode := '{mode}')")
    script.tell_queues()


for mode in ("replace", "preserve_run_at", "unsafe_dedupe"):
    for name, state in STATES.items():
        CASES[f"{mode} of a job that is {name}"] = partial(key_again, state, mode)


def joined(old: str, new: str, script: Script) -> None:
    script.call(f"add_job('t', '{old}', job_key := 'k')")
    script.call(f"add_job('t', {new}, job_key := 'k')")
    script.call(f"add_job('t', {new}, job_key := 'k', job_key_mode := 'preserve_run_at')")


for old in ("[1, 2]", "[]", '{"a": 1}', "null"):
    for new in ("'[3]'", "'[]'", """'{"b": 2}'""", "'null'", "null"):
        CASES[f"payloads {old} and {new}"] = partial(joined, old, new)


# add_jobs. In which order theirs returns the rows depends on the plan; ours keeps the specs' order,
# which is tested elsewhere.


def specs(*rows: str) -> str:
    return f"array[{', '.join(f'row({row})::graphile_worker.job_spec' for row in rows)}]"


@case
def many_jobs_without_key(script: Script) -> None:
    several = specs(
        "'b', '[1]', 'q', now() + interval '1 hour', 3, null, 5, array['f']",
        "'a', null, null, null, null, null, null, null",
        "'b', '2', 'q', null, null, null, null, null",
    )
    script.call(f"add_jobs({several})", in_order=False)
    script.tell_queues()


@case
def many_jobs_with_keys(script: Script) -> None:
    script.call("add_job('c', '[0]', job_key := 'l')")
    several = specs(
        "'b', '[1]', 'q', now() + interval '1 hour', 3, 'k', 5, array['f']",
        "'a', '[2]', null, null, null, 'l', null, null",
        "'b', '2', 'q', null, null, 'm', null, null",
    )
    script.call(f"add_jobs({several})", in_order=False)
    script.call(f"add_jobs({several}, true)", in_order=False)
    script.tell_queues()


@case
def many_jobs_with_and_without_key(script: Script) -> None:
    several = specs(
        "'b', '[1]', 'q', now() + interval '1 hour', 3, null, 5, array['f']",
        "'a', null, null, null, null, null, null, null",
        "'b', '2', 'q', null, null, 'k', null, null",
    )
    script.call(f"add_jobs({several})", in_order=False)
    script.tell_queues()


@case
def no_jobs(script: Script) -> None:
    script.call("add_jobs(array[]::graphile_worker.job_spec[])")


@case
def no_array(script: Script) -> None:
    script.call("add_jobs(null)")


@case
def a_spec_without_identifier(script: Script) -> None:
    nameless = specs("null, '[1]', null, null, null, null, null, null")
    script.call(f"add_jobs({nameless})")


@case
def a_spec_that_is_null(script: Script) -> None:
    script.call("add_jobs(array[null]::graphile_worker.job_spec[])")


@case
def a_key_twice_in_one_call(script: Script) -> None:
    twice = specs(
        "'a', '[1]', null, null, null, 'k', null, null",
        "'b', '[2]', null, null, null, 'k', null, null",
    )
    script.call(f"add_jobs({twice})")


def keys_again(state: str, preserve: str, script: Script) -> None:
    script.call("add_job('old', '[1]', 'old', job_key := 'k', priority := 1)")
    script.call("""add_job('old', '{"a": 1}', job_key := 'l', flags := array['f'])""")
    aged(script, state, key="k")
    again = specs(
        "'new', '[2]', null, now() + interval '2 hours', 3, 'k', 4, null",
        "'new', '[3]', 'new', null, null, 'l', null, array['g']",
    )
    script.call(f"add_jobs({again}, {preserve})", in_order=False)


for preserve in ("false", "true", "null"):
    for name, state in STATES.items():
        CASES[f"add_jobs, preserve {preserve}, over a job that is {name}"] = partial(
            keys_again, state, preserve
        )


# remove_job


def removing(state: str, script: Script) -> None:
    script.call("add_job('t', '[1]', 'q', job_key := 'k')")
    script.call("add_job('t', job_key := 'other')")
    aged(script, state, key="k")
    script.call("remove_job('k')")
    script.call("remove_job('k')")
    script.call("add_job('t', '[2]', job_key := 'k')")


for name, state in STATES.items():
    CASES[f"remove_job of a job that is {name}"] = partial(removing, state)


@case
def removing_nothing(script: Script) -> None:
    script.call("add_job('t')")
    for key in ("'missing'", "''", "null"):
        script.call(f"remove_job({key})")


# The operators' functions

OPERATORS = (
    "complete_jobs(%(ids)s)",
    "permanently_fail_jobs(%(ids)s)",
    "permanently_fail_jobs(%(ids)s, 'told so')",
    "permanently_fail_jobs(%(ids)s, null)",
    "permanently_fail_jobs(%(ids)s, '')",
    "reschedule_jobs(%(ids)s)",
    "reschedule_jobs(%(ids)s, run_at := now() + interval '1 day')",
    "reschedule_jobs(%(ids)s, run_at := now(), priority := 3, attempts := 1, max_attempts := 9)",
    "reschedule_jobs(%(ids)s, null, -3, 0, 4)",
    "reschedule_jobs(%(ids)s, attempts := 40000)",
    "reschedule_jobs(%(ids)s, priority := 40000)",
    "reschedule_jobs(%(ids)s, max_attempts := 0)",
)


def operating(call: str, script: Script) -> None:
    ids: list[int] = []
    for number, state in enumerate(STATES.values()):
        ids += script.call(f"add_job('t', queue_name := 'q', job_key := 'k{number}')")
        aged(script, state, key=f"k{number}")
    script.call("add_job('t', job_key := 'untouched')")
    # In which order rows are changed, and so returned, is nobody's promise.
    script.call(call, in_order=False, ids=[*reversed(ids), 10**15])


for call in OPERATORS:
    CASES[call.replace("%(ids)s", "jobs in all states")] = partial(operating, call)

for ids in ("array[]::bigint[]", "null", "array[null]::bigint[]"):
    for function in ("complete_jobs", "permanently_fail_jobs", "reschedule_jobs"):

        def on_none(call: str, script: Script) -> None:
            script.call("add_job('t')")
            script.call(call)

        CASES[f"{function}({ids})"] = partial(on_none, f"{function}({ids})")


@case
def unlocking_workers(script: Script) -> None:
    for worker in ("worker 1", "worker 2", "worker 3"):
        (pk,) = script.call(f"add_job('t', queue_name := '{worker}')")
        script.execute(
            "update graphile_worker._private_jobs set locked_at = now() - interval '1 minute',"
            " locked_by = %(worker)s, attempts = 1, updated_at = now() - interval '1 hour'"
            " where id = %(pk)s",
            worker=worker,
            pk=pk,
        )
        script.execute(
            "update graphile_worker._private_job_queues set locked_at = now(),"
            " locked_by = queue_name where queue_name = %(worker)s",
            worker=worker,
        )
    for workers in ("array['worker 1', 'worker 3', 'nobody']", "array[]::text[]", "null"):
        script.call(f"force_unlock_workers({workers})")
        script.tell_queues()
