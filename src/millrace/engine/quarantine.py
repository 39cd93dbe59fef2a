"""Quarantine: which queries take an epoch down, and what is held against those that failed.

An epoch that kills its worker again and again is tried with some of the families only, and then
with some of the queries of a guilty family, until it is known who is to blame. It is then run
without them; the others get their answers, a little late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.standing import families_in, members_of
from millrace.engine.supervise import ExecutionError, find_culprits
from millrace.state.root import Root

MOST_PROBED = 4_096
"""A guilty family with more queries than that is quarantined as a whole."""

_logger = logging.getLogger(__name__)

Probe: TypeAlias = Callable[[Decision], ExecutionError | None]
"""Tries an epoch under a decision, without effect; returns how it fails."""


def without_culprits(
    root: Root, catalog: Catalog, decision: Decision, probe: Probe
) -> Decision | None:
    """Return a decision that leaves the guilty queries out; None if it is none of them."""
    quiet = replace(decision, merges=(), spread=True, probe=True)
    guilty = find_culprits(
        families_in(root, catalog), lambda some: probe(replace(quiet, families=some))
    )
    if guilty is None:
        return None
    culprits: dict[int, ExecutionError] = {}
    for family, cause in guilty.items():
        running = tuple(members_of(root, catalog, quiet, family))
        culprits |= _culprits_in(family, running, quiet, probe, cause)
    causes = {cause.message for cause in culprits.values()}
    _logger.error("queries quarantined: n=%d cause=%s", len(culprits), " | ".join(sorted(causes)))
    verdicts = {
        str(qid): [None, "quarantined", cause.message, cause.detail]
        for qid, cause in culprits.items()
    }
    suspended = (*decision.suspended, *culprits)
    return replace(decision, suspended=suspended, quarantined={**decision.quarantined, **verdicts})


def _culprits_in(
    family: str,
    running: tuple[int, ...],
    quiet: Decision,
    probe: Probe,
    cause: ExecutionError,
) -> dict[int, ExecutionError]:
    """Find the guilty queries of a guilty family; if they are very many, take it whole."""
    if not 1 < len(running) <= MOST_PROBED:
        return dict.fromkeys(running, cause)

    def only(some: tuple[int, ...]) -> ExecutionError | None:
        asked = set(some)
        silent = tuple(qid for qid in running if qid not in asked)
        suspended = (*quiet.suspended, *silent)
        return probe(replace(quiet, families=(family,), suspended=suspended))

    return find_culprits(running, only) or dict.fromkeys(running, cause)


def verdicts_of(decision: Decision, generations: Mapping[int, int]) -> dict[int, dict[str, Any]]:
    """Return why queries are suspended from this epoch on."""
    return {
        int(qid): {
            "epoch": decision.identity.epoch,
            "generation": generations.get(int(qid), 0),
            "time": time_,
            "code": code,
            "message": message,
            "detail": detail,
        }
        for qid, (time_, code, message, detail) in decision.quarantined.items()
    }
