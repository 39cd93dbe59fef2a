"""Changing the queries of a server: add, drop, pause, resume."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from millrace.cli.scripts import read_text
from millrace.cli.terminal import counted, make_console
from millrace.cli.waiting import waiting_for
from millrace.client.client import Client
from millrace.errors import PlanError

DONE = {"drop": "dropped", "pause": "paused", "resume": "resumed"}


def add(client: Client, arguments: argparse.Namespace) -> int:
    """Register one query, or those of a file."""
    if arguments.file is not None:
        return _add_many(client, arguments)
    with waiting_for("registering"):
        query = client.query(
            arguments.sql,
            name=arguments.name,
            into=arguments.into,
            keep=arguments.keep,
            retain=arguments.retain,
            policy=arguments.policy,
            history=arguments.history,
            partial=arguments.partial,
            ttl=arguments.ttl,
            unbounded=arguments.unbounded,
        )
    if arguments.json:
        print(json.dumps(query.info()))
    else:
        make_console().print(f"query {query.name or query.id} stands", markup=False)
    return 0


def _add_many(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.name is not None:
        raise PlanError(
            "one name is given for many queries",
            hint="Write CREATE QUERY name AS in the file, or lines of JSON with a name.",
        )
    asked = _asked(arguments)
    with waiting_for(f"registering {counted(len(asked), 'query', 'queries')}"):
        ids = client.add_queries(asked)
    if arguments.json:
        print(json.dumps({"added": len(ids), "ids": ids}))
    else:
        make_console().print(f"{counted(len(ids), 'query', 'queries')} added")
    return 0


def _asked(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return each query of a file with what the command line says of all."""
    text = read_text(arguments.file)
    found = _of_json(text) if text.lstrip().startswith("{") else _of_statements(text)
    if not found:
        raise PlanError("nothing to add", detail=f'File "{arguments.file}" has no query.')
    names = ("into", "keep", "retain", "policy", "history", "ttl")
    common = {name: getattr(arguments, name) for name in names}
    common |= {name: getattr(arguments, name) or None for name in ("partial", "unbounded")}
    common = {name: value for name, value in common.items() if value is not None}
    return [{**common, **each} for each in found]


def _of_json(text: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            each = {**json.loads(line)}
            each["sql"].strip()
        except (ValueError, TypeError, KeyError, AttributeError) as cause:
            raise PlanError(
                f"line {number} is not a query",
                hint='Write a line for each: {"name": "big", "sql": "SELECT ..."}.',
            ) from cause
        found.append(each)
    return found


def _of_statements(text: str) -> list[dict[str, Any]]:
    from millrace.lang.declarations import CreateQuery, Read
    from millrace.lang.errors import LanguageError, Span
    from millrace.lang.statements import parse

    found: list[dict[str, Any]] = []
    for statement in parse(text):
        match statement:
            case CreateQuery(name, query, into, unbounded, options):
                each = {"sql": str(query), "name": name, "into": into, "unbounded": unbounded}
                each |= asdict(options)
                found.append({key: value for key, value in each.items() if _is_said(value)})
            case Read(query):
                found.append({"sql": str(query)})
            case _:
                first = statement.written.first
                raise LanguageError(
                    "statement is not a query",
                    source=text,
                    span=Span(first, first + len(statement.written.text.split()[0])),
                    hint="Give SELECT or CREATE QUERY here; `millrace sql -f` does all statements.",
                )
    return found


def _is_said(value: object) -> bool:
    return value is not None and value is not False


def change(client: Client, arguments: argparse.Namespace) -> int:
    """Drop, pause or resume queries, all or none."""
    names = _names(arguments.names)
    what = arguments.action
    act = {
        "drop": client.drop_queries,
        "pause": client.pause_queries,
        "resume": client.resume_queries,
    }[what]
    with waiting_for(f"{what} of {counted(len(names), 'query', 'queries')}"):
        act(names)
    if arguments.json:
        print(json.dumps({DONE[what]: len(names)}))
    else:
        make_console().print(f"{counted(len(names), 'query', 'queries')} {DONE[what]}")
    return 0


def _names(given: list[str]) -> list[str | int]:
    words = [
        word.strip()
        for each in given
        for word in (sys.stdin.read().splitlines() if each == "-" else [each])
    ]
    return [_name_or_id(word) for word in words if word]


def _name_or_id(word: str) -> str | int:
    """Return an id where one is meant: 7, or alert#7."""
    number = word.rpartition("#")[2]
    return int(number) if number.isdigit() else word
