"""What PostgreSQL's catalogs say of a schema, as facts that can be compared and read.

Names of the schema itself are left out, so that two schemas of different names can be equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg

Facts = Mapping[str, str]
"""What is said of a thing, by its name: `column _private_jobs.id` -> `1 bigint not null ...`."""

# Each returns two columns, name and text, for the schema whose name is given.
_QUERIES = {
    "schema": """
        select 'schema', coalesce(array_to_string(nspacl, ' '), '')
        from pg_namespace where nspname = %(schema)s
    """,
    "relation": """
        select
          format('relation %%s', relname),
          concat_ws(', ',
            case relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence'
              when 'i' then 'index' when 'c' then 'composite type'
              else 'relkind ' || relkind::text end,
            nullif('persistence ' || relpersistence::text, 'persistence p'),
            case when relrowsecurity then 'row security' end,
            case when relforcerowsecurity then 'forced' end,
            'options ' || array_to_string(reloptions, ' '),
            case when relkind = 'r' then 'replica identity ' || relreplident::text end,
            'for ' || array_to_string(relacl, ' '),
            'comment ' || obj_description(pg_class.oid, 'pg_class'))
        from pg_class where relnamespace = quote_ident(%(schema)s)::regnamespace
    """,
    # Counted anew: a table whose columns were once dropped has gaps.
    "column": """
        select
          format('column %%s.%%s', relname, attname),
          concat_ws(', ',
            row_number() over (partition by attrelid order by attnum),
            format_type(atttypid, atttypmod),
            case when attnotnull then 'not null' end,
            'default ' || pg_get_expr(adbin, adrelid),
            case attgenerated when 's' then 'stored' when 'v' then 'virtual' end,
            case attidentity when 'a' then 'identity always' when 'd' then 'identity' end,
            nullif('collation ' || collname, 'collation default'),
            'for ' || array_to_string(attacl, ' '))
        from pg_attribute
        join pg_class on pg_class.oid = attrelid
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        left join pg_collation on pg_collation.oid = attcollation
        where relnamespace = quote_ident(%(schema)s)::regnamespace
          and relkind in ('r', 'v', 'c') and attnum > 0 and not attisdropped
    """,
    "constraint": """
        select
          format('constraint %%s.%%s', relname, conname),
          pg_get_constraintdef(pg_constraint.oid)
            || case when convalidated then '' else ' not valid' end
        from pg_constraint
        join pg_class on pg_class.oid = conrelid
        where connamespace = quote_ident(%(schema)s)::regnamespace
    """,
    "index": """
        select
          format('index %%s', relname),
          pg_get_indexdef(indexrelid) || case when indisvalid then '' else ' invalid' end
            || case when indisclustered then ' clustered' else '' end
        from pg_index
        join pg_class on pg_class.oid = indexrelid
        where relnamespace = quote_ident(%(schema)s)::regnamespace
    """,
    "sequence": """
        select
          format('sequence %%s', sequence.relname),
          concat_ws(', ',
            format_type(seqtypid, null), 'from ' || seqstart, 'by ' || seqincrement,
            seqmin || ' to ' || seqmax, 'cache ' || seqcache, case when seqcycle then 'cycle' end,
            'of ' || owner.relname || '.' || attname)
        from pg_sequence
        join pg_class as sequence on sequence.oid = seqrelid
        left join pg_depend on pg_depend.objid = seqrelid and deptype in ('a', 'i')
          and pg_depend.classid = 'pg_class'::regclass and refclassid = 'pg_class'::regclass
        left join pg_class as owner on owner.oid = refobjid
        left join pg_attribute on attrelid = refobjid and attnum = refobjsubid
        where sequence.relnamespace = quote_ident(%(schema)s)::regnamespace
    """,
    "view": """
        select format('view %%s', relname), pg_get_viewdef(pg_class.oid)
        from pg_class where relnamespace = quote_ident(%(schema)s)::regnamespace and relkind = 'v'
    """,
    "function": """
        select
          format('function %%s(%%s)', proname, pg_get_function_identity_arguments(pg_proc.oid)),
          concat_ws(', ',
            format('(%%s) returns %%s',
              pg_get_function_arguments(pg_proc.oid), pg_get_function_result(pg_proc.oid)),
            nullif('kind ' || prokind::text, 'kind f'),
            case provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end,
            case when proisstrict then 'strict' end,
            case when prosecdef then 'security definer' end,
            case when proleakproof then 'leakproof' end,
            case proparallel when 'u' then 'parallel unsafe' when 's' then 'parallel safe'
              else 'parallel restricted' end,
            'for ' || array_to_string(nullif(proacl, acldefault('f', proowner)), ' '))
        from pg_proc where pronamespace = quote_ident(%(schema)s)::regnamespace
    """,
    "setting": """
        select
          format('setting %%s(%%s)', proname, pg_get_function_identity_arguments(pg_proc.oid)),
          array_to_string(proconfig, ' ')
        from pg_proc
        where pronamespace = quote_ident(%(schema)s)::regnamespace and proconfig is not null
    """,
    "trigger": """
        select
          format('trigger %%s.%%s', relname, tgname), pg_get_triggerdef(pg_trigger.oid)
        from pg_trigger
        join pg_class on pg_class.oid = tgrelid
        where relnamespace = quote_ident(%(schema)s)::regnamespace and not tgisinternal
    """,
    "policy": """
        select
          format('policy %%s.%%s', tablename, policyname),
          row(cmd, permissive, roles, qual, with_check)::text
        from pg_policies where schemaname = %(schema)s
    """,
    "type": """
        select format('type %%s', typname), typtype::text
        from pg_type
        left join pg_class on pg_class.oid = typrelid
        where typnamespace = quote_ident(%(schema)s)::regnamespace and typcategory <> 'A'
          and coalesce(relkind, 'c') = 'c'
    """,
    "extension": """
        select format('extension %%s', extname), extversion
        from pg_extension where extname <> 'plpgsql'
    """,
}


def describe(connection: psycopg.Connection[Any], schema: str) -> dict[str, str]:
    """Return what the catalogs say of the schema, without the bodies of functions."""
    facts: dict[str, str] = {}
    with connection.transaction():
        # Only then are names in the schema shown with it, whatever the session's path is.
        connection.execute("set local search_path = pg_catalog")
        owner = connection.execute(
            "select nspowner::regrole::text from pg_namespace where nspname = %s", [schema]
        ).fetchone()
        assert owner is not None, f"there is no schema {schema!r}"
        for query in _QUERIES.values():
            for name, text in connection.execute(query, {"schema": schema}):
                assert name not in facts, name
                facts[name] = without_names(text, schema, owner[0])
    return {without_names(name, schema, owner[0]): text for name, text in facts.items()}


def without_names(text: str, schema: str, owner: str) -> str:
    """Leave the schema's name out where it stands before a dot, and name the owner so."""
    names = {schema, '"' + schema.replace('"', '""') + '"'}
    for name in names:
        text = re.sub(rf'(?<![\w".]){re.escape(name)}\.', "", text)
    # A privilege is written grantee=privileges/grantor.
    text = text.replace(f"/{owner}", "/owner")
    return re.sub(rf'(?<![\w"]){re.escape(owner)}=', "owner=", text)


def is_ours(name: str) -> bool:
    """Whether a fact is about an addition of this package."""
    return re.match(r"\w+ django_", name) is not None


def differences(first: Facts, second: Facts) -> list[str]:
    """Say each difference in a line: what only one has, and what both say differently."""
    return [
        f"{name}: {first.get(name, 'is not there')} | {second.get(name, 'is not there')}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]
