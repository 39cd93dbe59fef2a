"""`millrace token`: make, list and forget the tokens of a server, and give tenants quotas."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

NAME = "token"
SUMMARY = "make, list and forget tokens of a server; give tenants quotas"
EPILOG = """\
A token is shown once, when it is made: the file keeps its digest. A server that runs follows the
file within a second. Roles: reader, writer, admin. The tenant "" is the operator's own.

examples:
  millrace token add --root /var/lib/alerts --role admin
  millrace token add --root /var/lib/alerts --role writer --tenant acme
  millrace token list --root /var/lib/alerts
  millrace token remove --root /var/lib/alerts ID
  millrace token limit --root /var/lib/alerts --tenant acme --queries 1000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=["add", "list", "remove", "limit"])
    parser.add_argument("id", nargs="?", metavar="ID", help="the token to remove")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the root that is served")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="the file, if not in the root")
    parser.add_argument("--role", default="reader", help="reader, writer or admin")
    parser.add_argument("--tenant", default="", help="whose it is")
    parser.add_argument("--label", default="", help="a note")
    parser.add_argument("--queries", type=int, metavar="N", help="how many queries at most")
    parser.add_argument("--state-bytes", type=int, metavar="N", help="how much state at most")
    parser.add_argument("--results-per-second", type=float, metavar="N", help="answers at most")
    parser.add_argument("--requests-per-second", type=float, metavar="N", help="and token")


def run(arguments: argparse.Namespace) -> int:
    """Change or list tokens."""
    from millrace.errors import PlanError
    from millrace.server.quotas import Quota
    from millrace.server.tokens import Tokens, token_file

    if arguments.root is None and arguments.tokens is None:
        raise PlanError("where the tokens are is not known", hint="Give --root or --tokens.")
    tokens = Tokens(arguments.tokens or token_file(arguments.root))
    match arguments.action:
        case "add":
            text, made = tokens.add(arguments.role, arguments.tenant, arguments.label)
            print(text)
            print(f"id {made.id}, {made.role}, kept as a digest: note the token down now",
                  file=sys.stderr)  # fmt: skip
        case "list":
            for each in tokens.listed():
                print(f"{each.id}  {each.role:<6}  {each.tenant or '-':<12}  {each.created}  "
                      f"{each.label}".rstrip())  # fmt: skip
        case "remove":
            tokens.remove(arguments.id or "")
        case _:
            quota = Quota(arguments.queries, arguments.state_bytes, arguments.results_per_second,
                          arguments.requests_per_second)  # fmt: skip
            tokens.limit(arguments.tenant, quota)
    return 0
