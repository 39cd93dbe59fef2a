"""`millrace warm`: do ahead of time what every first start would otherwise wait for."""

from __future__ import annotations

import argparse

from rich.text import Text

from millrace.cli.terminal import make_console

NAME = "warm"
SUMMARY = "compile and prepare ahead of time what a first start would wait for"
EPILOG = """\
Compiles the readers of text formats, the operators of plans and the joins that queries share;
measures what these cost; and archives the classes that Spark loads so that its JVM starts in half
the time. It is done once for a machine and a version; doing it again does nothing. Useful when a
machine image is built.

examples:
  millrace warm
  millrace warm --kernels      only what needs no Java
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--kernels", action="store_true", help="only the kernels; needs no Java")


def run(arguments: argparse.Namespace) -> int:
    """Prepare this machine; what cannot be prepared is said and is no error."""
    from millrace.connectors.compiled import compile_readers
    from millrace.reading.haystack import warm_search
    from millrace.session.warm import warm_plans
    from millrace.sharing.machine_prices import measure_prices
    from millrace.sharing.select.warm import warm_select_joins

    console = make_console()
    with console.status("compiling kernels, about a minute"):
        compile_readers()
        warm_plans()
        warm_search()
        warm_select_joins()
    console.print(Text.assemble(("ok", "bold green"), "  kernels are compiled"))
    with console.status("measuring what joins cost on this machine, about 15 s"):
        measure_prices()
    console.print(Text.assemble(("ok", "bold green"), "  costs of joins are measured"))
    if arguments.kernels:
        return 0
    from millrace.spark.class_archive import make_archive

    with console.status("starting Spark once to archive its classes, about 30 s"):
        path = make_archive()
    if path is None:
        console.print("--  this Java keeps no archive of classes; Spark starts without")
    else:
        console.print(Text.assemble(("ok", "bold green"), f"  Spark's classes are in {path}"))
    return 0
