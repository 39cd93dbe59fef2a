"""Declarations as the statements that a server executes: what is declared is SQL on the wire.

Names are always quoted, so that no word of the language is in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from millrace.errors import PlanError
from millrace.schema import Schema, type_name
from millrace.time import print_duration, to_micros

DURATIONS = frozenset({"history", "retain", "ttl"})
"""The words of a query that are durations."""


def name_text(name: str) -> str:
    """Quote a name.

    >>> print(name_text('my "own" one'))
    "my ""own"" one"
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def names_text(names: str | Iterable[str]) -> str:
    """Quote names, with commas between them."""
    return ", ".join(map(name_text, [names] if isinstance(names, str) else names))


def stream_text(
    name: str,
    columns: str | Schema,
    *,
    time: str,
    order: str | Iterable[str] = (),
    partition: str | None = None,
    key: str | Iterable[str] = (),
    **durations: str | timedelta | int | None,
) -> str:
    """Declare a stream whose rows are pushed.

    >>> print(stream_text("trades", "symbol text, ts timestamp", time="ts", retain="1 hour"))
    CREATE STREAM "trades" ("symbol" text, "ts" timestamp) TIMESTAMP BY "ts" RETAIN 1 hour FROM push()
    """  # noqa: E501
    clauses = [f"CREATE STREAM {name_text(name)} ({_columns(columns)})"]
    clauses += [f"TIMESTAMP BY {names_text([time, *_listed(order)])}"]
    for word, duration in durations.items():
        if duration is not None:
            clauses.append(f"{word.upper()} {duration_text(duration)}")
    clauses += [f"PARTITION BY {name_text(partition)}"] if partition else []
    clauses += [f"KEY ({names_text(key)})"] if key else []
    return " ".join([*clauses, "FROM push()"])


def columns_of(name: str, source: object, schema: str | Schema | None) -> str | Schema:
    """Return the columns of a stream whose rows are pushed, which stand for its source."""
    found = source if schema is None else schema
    if not isinstance(found, str | Schema):
        raise PlanError(
            f'stream "{name}" has no columns',
            detail="Its rows are pushed: no source tells them.",
            hint='Give them, such as "symbol text, price double, ts timestamp".',
        )
    return found


def table_text(name: str, columns: str | Schema, key: str | Iterable[str]) -> str:
    """Declare a table."""
    keyed = f", PRIMARY KEY ({names_text(key)})" if key else ""
    return f"CREATE TABLE {name_text(name)} ({_columns(columns)}{keyed})"


def view_text(name: str, text: str, columns: Iterable[str]) -> str:
    """Declare a view."""
    named = names_text(columns)
    return f"CREATE VIEW {name_text(name)}{f' ({named})' if named else ''} AS {text}"


def template_text(
    name: str, text: str, parameters: Mapping[str, str], options: Mapping[str, object]
) -> str:
    """Declare a template of queries.

    >>> words = {"keep": 10, "retain": "1 hour", "unbounded": True}
    >>> print(template_text("t", "SELECT :a FROM s", {"a": "int"}, words))
    CREATE QUERY TEMPLATE "t" ("a" int) WITH (keep = 10, retain = '1 hour', unbounded = allowed) AS SELECT :a FROM s
    """  # noqa: E501
    kinds = ", ".join(f"{name_text(each)} {kind}" for each, kind in parameters.items())
    said = ", ".join(f"{word} = {_option(word, value)}" for word, value in options.items())
    clause = f" WITH ({said})" if said else ""
    return f"CREATE QUERY TEMPLATE {name_text(name)} ({kinds}){clause} AS {text}"


def _option(word: str, value: Any) -> str:  # noqa: ANN401  of any option
    if word == "unbounded":
        return "allowed"
    if word == "policy" or word in DURATIONS:
        return f"'{duration_text(value) if word in DURATIONS else value}'"
    return str(value).lower()


def duration_text(duration: str | timedelta | int) -> str:
    """Spell a duration; a number is of microseconds.

    >>> duration_text("90 min"), duration_text(timedelta(seconds=1)), duration_text(1_500)
    ('1 hour 30 minutes', '1 second', '1 millisecond 500 microseconds')
    """
    return print_duration(to_micros(duration))


def drop_text(kind: str, name: str) -> str:
    """Forget something."""
    return f"DROP {kind} {name_text(name)}"


def _columns(columns: str | Schema) -> str:
    schema = Schema.of(columns) if isinstance(columns, str) else columns
    return ", ".join(f"{name_text(each.name)} {type_name(each.type)}" for each in schema)


def _listed(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
