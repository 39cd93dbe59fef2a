"""`millrace query`: standing queries of a server, one by one and by the thousand."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from millrace.cli.server_options import add_server_options, connected

NAME = "query"
SUMMARY = "add, list, show, drop, pause, resume and read the queries of a server; which take most"
EPILOG = """\
--json prints one document for scripts; its fields are in docs/client.md. What changes many queries
changes all of them or none. Names, and statements, may come from standard input: -.

examples:
  millrace query add 'SELECT symbol FROM trades WHERE price > 100' --name big
  millrace query add -f alerts.sql --into alerts
  millrace query list --search ACME --json | jq '.queries[].name'
  millrace query top --by state --limit 20
  millrace query results big --last 10 --format csv
  millrace query tail big --cursor-file big.cursor --json
  millrace query list --state paused --names | millrace query drop -
"""

FORMATS = ("table", "json", "csv", "ndjson")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, summary, declare in (
        ("add", "register queries", _declare_add),
        ("list", "list queries, a page at a time", _declare_list),
        ("top", "list the queries that take most of the machine", _declare_top),
        ("show", "show what is known of a query, and how it runs", _declare_show),
        ("drop", "remove queries", _declare_names),
        ("pause", "let queries answer nothing for a while", _declare_names),
        ("resume", "let paused or suspended queries go on", _declare_names),
        ("results", "print the answers of a query that are kept", _declare_results),
        ("tail", "print the answers of a query as they come", _declare_tail),
    ):
        sub = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        declare(sub)
        add_server_options(sub)
        sub.add_argument("--json", action="store_true", help="print JSON, for scripts")
        sub.set_defaults(action=name)


def run(arguments: argparse.Namespace) -> int:
    """Do the action."""
    from millrace.cli import query_changes, query_reading

    actions: dict[str, Callable[..., int]] = {
        "add": query_changes.add,
        "drop": query_changes.change,
        "pause": query_changes.change,
        "resume": query_changes.change,
        "list": query_reading.list_queries,
        "top": query_reading.top,
        "show": query_reading.show,
        "results": query_reading.results,
        "tail": query_reading.tail,
    }
    with connected(arguments) as client:
        return actions[arguments.action](client, arguments)


def _declare_add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("sql", metavar="SQL", nargs="?", help="the text of one query")
    what.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="many queries, all or none: statements (SELECT, or CREATE QUERY), or lines of JSON "
        'such as {"name": ..., "sql": ...}; - is standard input',
    )
    parser.add_argument("--name", help="what to call it")
    parser.add_argument("--into", metavar="FEED", help="a feed to share with others")
    parser.add_argument("--keep", type=int, metavar="N", help="how many rows of answers to keep")
    parser.add_argument("--retain", metavar="DURATION", help="for how long answers are kept")
    parser.add_argument(
        "--policy",
        choices=("none", "lazy", "eager"),
        help="how answers are kept: found anew, by the rows they are made of, or as they are told",
    )
    parser.add_argument("--history", metavar="DURATION", help="how much of the past to answer too")
    parser.add_argument(
        "--partial", action="store_true", help="less history will do, if less is retained"
    )
    parser.add_argument("--ttl", metavar="DURATION", help="drop it by itself after so long")
    parser.add_argument("--unbounded", action="store_true", help="it may remember more and more")


def _declare_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--search", metavar="TEXT", help="only those with TEXT in name or text")
    parser.add_argument("--state", choices=["running", "paused", "suspended"], help="only those")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="a page of N (100)")
    parser.add_argument("--after", metavar="CURSOR", help="the page behind the last one")
    parser.add_argument("--all", action="store_true", help="all pages")
    parser.add_argument("--names", action="store_true", help="names only, one a line, of all pages")


def _declare_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        choices=("cost", "state", "results"),
        default="cost",
        help="by their share of the engine's time, by what they keep, or by their answers (cost)",
    )
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="so many (10)")


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the query")
    parser.add_argument("--analyze", action="store_true", help="with what its operators have done")


def _declare_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help="names or ids; - reads them from standard input"
    )


def _declare_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the query")
    parser.add_argument("--last", type=int, metavar="N", help="only the newest N")
    parser.add_argument("--begin", metavar="TIME", help="only from then on")
    parser.add_argument("--end", metavar="TIME", help="only before then")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(table)")


def _declare_tail(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the query")
    parser.add_argument("--after", metavar="CURSOR", help="go on behind a cursor; now otherwise")
    parser.add_argument(
        "--cursor-file",
        metavar="FILE",
        help="go on behind the cursor in FILE, if it is there, and write each new one to it",
    )
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end when nothing has come for so long"
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="(table)")
