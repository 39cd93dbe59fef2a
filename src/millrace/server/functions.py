"""Functions of a server: Python that comes from the operator, in a file, and from nobody else.

    import pyarrow.compute as pc

    def loud(names):
        return pc.utf8_upper(names)

    FUNCTIONS = {"loud": (loud, "text")}

The file is run in the engine and in each gateway, which computes what queries show when answers are
asked for. Functions take Arrow arrays and return one, of the type that is named.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.errors import PlanError
from millrace.operators.typed_function import TypedFunction
from millrace.schema import type_named

Named = dict[str, tuple[Callable[..., Any], str]]
_FUNCTIONS = "FUNCTIONS"


def read_functions(path: Path | None) -> Named:
    """Run a file, and return its functions with the names of the types that they return."""
    if path is None:
        return {}
    found = runpy.run_path(str(path)).get(_FUNCTIONS)
    if not isinstance(found, dict) or not all(map(_good, found.items())):
        raise PlanError(
            f'file "{path}" names no functions',
            hint=f'Write {_FUNCTIONS} = {{"loud": (loud, "text")}}: names, what to call, and the '
            "type that it returns.",
        )
    return dict(found)


def typed(functions: Named) -> dict[str, TypedFunction]:
    """Return functions as those who compute answers call them."""
    return {
        name: TypedFunction(name, function, type_named(returns))
        for name, (function, returns) in functions.items()
    }


def _good(item: tuple[object, object]) -> bool:
    match item:
        case (str(), (function, str())):
            return callable(function)
        case _:
            return False
