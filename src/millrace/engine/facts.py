"""The facts of a manifest: what an epoch leaves to the next besides runs.

clocks       stream -> source partition -> greatest event time seen, us
watermarks   stream -> the instant up to which it is complete, us
seen         stream -> source partition -> wall clock when it last had rows, us
born         stream -> which declaration of that name these facts are about
clock        the wall clock when the epoch was decided, us
frontiers    number of a feed -> up to where its plan has come, us
entered      number of a feed -> the first epoch whose rows its plan sees
taken        number of a feed -> the last change of the registry whose tables its plan has seen
earliest     number of a feed -> the least time of what waits for a plan that has not begun, us
births       number of a feed -> which queries of its family began together, and what they have seen
policies     number of a feed -> how its answers were kept, as `engine.policies` has it
anew         number of a feed -> since when answers can be found anew, as `engine.resting` has it
resting      the numbers of feeds whose plans remember nothing
told_spans   number of a feed -> as `spans`, of the slabs of plans whose answers are found anew
spans        stream -> the least times of epochs, by which readers know whether they missed rows
catalog      the file of the catalog that the epoch ran under
backfills    stream -> cohorts of queries that are catching up with it, as `engine.backfill` has it
asked        the id that the next query gets: those below are known to backfill
warming      number of a feed -> how its plan catches up with history, as `engine.warming` has it
besides      number of a feed -> which of its queries run beside its plan, as `engine.beside` has it
reaches      number of a feed -> how far back its plan reads elements, where its queries say so, us
ranges       number of a feed -> the ranges of its family's band joins, as `engine.laying` has it
suspended    query id -> why and since when it does not run
query        Spark's id of the streaming query that this root belongs to
digests      the last epochs with the digests of their inputs
counts       totals since the root was made: rows, late, dead, results
statistics   of the epoch itself
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Clocks
from millrace.state.manifest import Manifest

N_DIGESTS = 32


def clocks(manifest: Manifest, catalog: Catalog) -> Clocks:
    """Return the clocks of all source partitions."""
    return _of_streams("clocks", manifest, catalog)


def watermarks(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return the watermarks of all streams that have one."""
    return _of_streams("watermarks", manifest, catalog)


def seen(manifest: Manifest, catalog: Catalog) -> Clocks:
    """Return when each source partition last had rows."""
    return _of_streams("seen", manifest, catalog)


def spans(manifest: Manifest, catalog: Catalog) -> dict[str, list[list[int]]]:
    """Return the least times of the epochs of streams whose answers are retained."""
    return _of_streams("spans", manifest, catalog)


def past_spans(manifest: Manifest, catalog: Catalog) -> dict[str, list[list[int]]]:
    """Return the same of what was answered of their histories."""
    return _of_streams("past_spans", manifest, catalog)


def backfills(manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return the cohorts of queries that are catching up, as `engine.backfill` spells them."""
    return _of_streams("backfills", manifest, catalog)


def frontiers(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return up to where the plans of feeds have come, of those that have begun."""
    return _of_plans("frontiers", manifest, catalog)


def entered(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return the first epochs whose rows the plans of feeds see."""
    return _of_plans("entered", manifest, catalog)


def taken(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return how much of the registry those plans have seen that read tables and have begun."""
    return _of_plans("taken", manifest, catalog)


def earliest(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return the least times of what waits for plans that have not begun."""
    return _of_plans("earliest", manifest, catalog)


def reaches(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return how far back plans read elements whose queries say so."""
    return _of_plans("reaches", manifest, catalog)


def ranges(manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return the ranges of families' band joins, as `engine.laying` spells them."""
    return _of_plans("ranges", manifest, catalog)


def warming(manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return how plans catch up with history, as `engine.warming` spells it."""
    return _of_plans("warming", manifest, catalog)


def anew(manifest: Manifest, catalog: Catalog) -> dict[str, list[int | None]]:
    """Return since when answers of plans can be found anew, as `engine.resting` spells it."""
    return _of_plans("anew", manifest, catalog)


def told_spans(manifest: Manifest, catalog: Catalog) -> dict[str, list[list[int]]]:
    """Return where the slabs of such plans began, by epochs."""
    return _of_plans("told_spans", manifest, catalog)


def besides(manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return what runs beside the plans of families, as `engine.beside` spells it."""
    return _of_plans("besides", manifest, catalog)


def sequence(manifest: Manifest) -> int:
    """Return the number of the last change of the registry that an epoch has known."""
    return int(manifest.facts.get("catalog", "/0").rpartition("/")[2])


def births(manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return the births of families, as `engine.births` spells them."""
    return _of_plans("births", manifest, catalog)


def _of_plans(fact: str, manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return a fact about the plans in force, by their feeds."""
    known = manifest.facts.get(fact, {})
    return {
        feed.name: known[str(feed.number)] for feed in catalog.plans() if str(feed.number) in known
    }


def _of_streams(fact: str, manifest: Manifest, catalog: Catalog) -> dict[str, Any]:
    """Return a fact about the streams in force; one declared anew begins without a past."""
    born = manifest.facts.get("born", {})
    return {
        name: value
        for name, value in manifest.facts.get(fact, {}).items()
        if name in catalog.streams and born.get(name) == catalog.streams[name].born
    }


def suspended(manifest: Manifest, generations: Mapping[int, int]) -> dict[int, Mapping[str, Any]]:
    """Return the verdicts on queries that have not been resumed since."""
    verdicts: Mapping[str, Mapping[str, Any]] = manifest.facts.get("suspended", {})
    return {
        int(qid): verdict
        for qid, verdict in verdicts.items()
        if generations.get(int(qid), 0) == verdict["generation"]
    }


def digest_of(manifest: Manifest, epoch: int) -> str | None:
    """Return the digest of a committed epoch's input, if it is remembered."""
    return next(
        (found for known, found in manifest.facts.get("digests", []) if known == epoch), None
    )
