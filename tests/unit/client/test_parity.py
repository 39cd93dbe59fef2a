"""The client has the API of a session; what it lacks, it lacks for a reason."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

import millrace
from millrace.client.async_client import AsyncClient
from millrace.client.async_handles import AsyncRemoteQuery, AsyncRemoteTable, AsyncRemoteTemplate
from millrace.client.client import Client
from millrace.client.handles import RemoteQuery, RemoteTable, RemoteTemplate

LACKING: dict[type, dict[str, str]] = {
    millrace.Session: {
        "allowed": "quotas are checked in the engine's process",
        "bind": "a source is bound in the engine's process",
        "change": "an entry of the registry is the engine's own",
        "engine": "the engine is in another process",
        "fed_by_hand": "a server runs epochs by itself",
        "followers": "a template that follows a file does so in the engine's process",
        "function": "functions come from the operator only",
        "function_types": "functions come from the operator only",
        "functions": "functions come from the operator only",
        "now": "the engine goes by its own clock",
        "make_source": "a source is made in the engine's process",
        "reads_queries": "a server does not: a name may be another tenant's",
        "record": "an entry of the registry is the engine's own",
        "sink": "a sink writes where the engine is: CREATE SINK, through execute",
        "sinks": "SHOW SINKS, through execute",
        "standing_feed": "where answers go is in RemoteQuery.info()",
        "start": "the server runs",
        "statistics": "stats() gives what the server counts",
        "updating": "the engine takes changes one after another",
    },
    millrace.Query: {
        "failure": "it is in info()",
        "feed": "it is in info()",
    },
    millrace.Template: {
        "exchange": "it speaks of rows that fit() gave",
        "family": "it is the engine's own",
        "feed": "it is in info()",
        "fit": "the server fits rows",
        "follow": "a template that follows a file does so in the engine's process",
    },
    millrace.Table: {
        "exchange": "it speaks of rows that fit() gave",
        "fit": "the server fits rows",
        "kinds": "tables() tells the columns",
        "spec": "tables() tells the columns",
        "update_rows": "update takes the values",
    },
}
PAIRS = [
    (millrace.Session, Client, AsyncClient),
    (millrace.Query, RemoteQuery, AsyncRemoteQuery),
    (millrace.Template, RemoteTemplate, AsyncRemoteTemplate),
    (millrace.Table, RemoteTable, AsyncRemoteTable),
]


def public(kind: type) -> set[str]:
    """Return the public names of a class, also those that its __init__ sets."""
    made = [each.__init__ for each in kind.__mro__[:-1] if "__init__" in vars(each)]  # type: ignore[misc]
    source = "".join(map(inspect.getsource, made))
    own = re.findall(r"\bself\.([a-z]\w*)(?=, self|: | = )", source)
    return {name for name in {*dir(kind), *own} if not name.startswith("_")}


@pytest.mark.parametrize(("local", "remote", "_"), PAIRS, ids=lambda kind: kind.__name__)
def test_what_a_session_has_the_client_has_or_lacks_for_a_reason(
    local: type, remote: type, _: type
) -> None:
    missing = public(local) - public(remote)

    assert missing == set(LACKING[local])


@pytest.mark.parametrize(("_", "blocking", "asynchronous"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_forms_of_the_client_have_the_same_calls(
    _: type, blocking: type, asynchronous: type
) -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        found: dict[str, Callable[..., object]] = {
            name: getattr(kind, name) for name in public(kind) if callable(getattr(kind, name, 0))
        }
        return {name: list(inspect.signature(each).parameters) for name, each in found.items()}

    assert calls(blocking) == calls(asynchronous)


OTHERWISE = {
    "Session.close": {"drain"},  # the server delivers to its sinks by itself
    "Session.drop_queries": {"qids"},  # names will do, too: `which`
    "Session.dry_run": {"limits"},  # they are the server's
    "Session.stream": {"json"},  # a source decodes it
}
"""What a call takes in the process, and not over HTTP."""


@pytest.mark.parametrize(("local", "remote", "_"), PAIRS, ids=lambda kind: kind.__name__)
def test_a_call_takes_what_it_takes_in_the_process(local: type, remote: type, _: type) -> None:
    for name in public(local) & public(remote):
        here, there = getattr(local, name, None), getattr(remote, name, None)
        if callable(here) and callable(there):
            missing = {*inspect.signature(here).parameters} - {*inspect.signature(there).parameters}
            assert missing == OTHERWISE.get(f"{local.__name__}.{name}", set()), name


def test_importing_millrace_imports_no_http() -> None:
    code = "import sys, millrace; sys.exit(any(m in sys.modules for m in ('httpx', 'pyarrow')))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_connecting_without_httpx_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import millrace\n"
        "try: millrace.connect('http://x')\n"
        "except millrace.MillraceError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == (
        "httpx is not installed\n  hint: Install it with: pip install 'millrace[client]'\n"
    )
