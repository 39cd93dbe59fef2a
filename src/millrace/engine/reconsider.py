"""Reconsidering: whether the receipts of an epoch can stand, or it must be run again, and how.

An attempt is run again if it sent too much to the driver, if a query failed in it (of which then
no answer is kept, wherever its rows were), or if rows came in an order that the decision did not
know of, so that some were judged late wrongly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.receipt import Receipt
from millrace.engine.tally import Tally, hidden_lateness, segments_of

_logger = logging.getLogger(__name__)


def reconsidered(decision: Decision, catalog: Catalog, receipts: list[Receipt]) -> Decision | None:
    """Return the decision under which the epoch must be run again, or None if it stands."""
    if any(each.oversize for each in receipts):
        return replace(decision, spread=True)
    tallies = [tally for receipt in receipts for tally in receipt.tallies]
    failed = failures_of(tallies)
    if failed:  # of a query that fails in an epoch no answer is kept, wherever its rows were
        suspended = (*decision.suspended, *(int(qid) for qid in failed))
        quarantined = {**decision.quarantined, **failed}
        return replace(decision, suspended=suspended, quarantined=quarantined)
    segments = {}
    for name, stream in catalog.streams.items():
        if name in decision.unordered:
            continue
        mine = [each for each in tallies if each.stream == name]
        found, known = segments_of(mine), decision.segments.get(name)
        # A replay may cut its partitions elsewhere; segments of other cuts make rows late wrongly.
        moved = known is not None and known != found
        if moved or hidden_lateness(decision.clocks.get(name, {}), mine, stream.delay):
            segments[name] = found
    return replace(decision, segments={**decision.segments, **segments}) if segments else None


def without_order(decision: Decision) -> Decision:
    """Stop believing the order of streams that cut their partitions otherwise at each attempt."""
    unordered = tuple(sorted({*decision.unordered, *decision.segments}))
    _logger.warning("order is not stable, rows are judged by the last epoch: streams=%s", unordered)
    return replace(decision, unordered=unordered, segments={})


def failures_of(tallies: Iterable[Tally]) -> dict[str, list[Any]]:
    """Return the queries that failed: when first, and how."""
    found: dict[str, list[Any]] = {}
    for failure in (each for tally in tallies for each in tally.failures):
        verdict = [failure.time, failure.code, failure.message, ""]
        known = found.get(str(failure.qid))
        if known is None or verdict[:3] < known[:3]:
            found[str(failure.qid)] = verdict
    return dict(sorted(found.items()))
