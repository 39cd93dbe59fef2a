"""What a registry holds, how a change alters it, and how it is spelt in a snapshot.

Changes are JSON; those that bring many rows (constants, query ids) name a table beside it by
`rows`. `Trial` finds out whether changes fit without altering anything; after that `apply` cannot
fail, so what stands in the log can always be applied again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.engine import first_format
from millrace.engine.catalog import TAKEN, Catalog
from millrace.engine.contents import Contents, restored_contents, spelt_contents
from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.population import FreshBlock, IndexBlock, Population, Qids
from millrace.engine.query_rows import QueryRows, queries_spec
from millrace.errors import CorruptionError, NameTakenError, PlanError, UnknownNameError
from millrace.index.run import IndexRun
from millrace.plan.levels import QUERY
from millrace.state.container import Container
from millrace.state.names import Data, MissingError
from millrace.state.root import Root

Tables = list[pa.RecordBatch]
Change = dict[str, Any]


@dataclass(slots=True, eq=False)
class RegistryState:
    """The catalog, the population, and what tables hold."""

    catalog: Catalog = field(default_factory=Catalog)
    population: Population = field(default_factory=Population)
    contents: dict[str, Contents] = field(default_factory=dict)

    def trial(self) -> Trial:
        """Begin to check changes."""
        return Trial(self)

    def apply(self, changes: Iterable[Change], tables: Tables) -> None:
        """Make changes that fit."""
        for change in changes:
            before, self.catalog = self.catalog, self.catalog.apply(change)
            self._fill(change, before, tables)
            self._count(change, before, tables)

    def _fill(  # noqa: C901  a case for each change
        self, change: Change, before: Catalog, tables: Tables
    ) -> None:
        """Change what tables hold, and the queries of families."""
        match change["do"]:
            case "add table":
                spec = self.catalog.table(change["table"]["name"])
                self.contents[spec.name] = Contents(spec, spec.born)
            case "drop table":
                del self.contents[change["name"]]
            case "change table":
                rows = tables[change["rows"]]
                self.contents[change["name"]].change(self.catalog.sequence, rows)
            case "add feed":
                self.contents |= queries_of(self.catalog, change["feed"]["name"])
            case "drop feed":
                self._leave_family(before.feed(change["name"]))
                for name in before.outlived(change["name"]):
                    self.contents.pop(name, None)
            case "add queries":
                qids = np.arange(before.next_qid, self.catalog.next_qid, dtype=np.uint64)
                self._queries(change, qids, tables[change["rows"]])
            case "change queries":
                rows = tables[change["rows"]]
                self._drop_queries(qids_in(rows))
                self._queries(change, qids_in(rows), rows.drop_columns(["qid"]))
            case "drop queries":
                self._drop_queries(qids_in(tables[change["rows"]]))
            case "renew queries":
                self._renew_queries(change["name"], tables[change["rows"]])

    def _queries(self, change: Change, qids: Qids, rows: pa.RecordBatch) -> None:
        """Add queries to a family that is run by a plan, if it is one; it has parameters."""
        family = Family.from_json(change["family"])
        feed = self.catalog.feed(family.feed)
        held = self.contents.get(feed.family if feed.joined else feed.name)
        if isinstance(held, QueryRows) and (family.parameters or feed.joined):
            held.add(self.catalog.sequence, qids, rows)

    def _leave_family(self, feed: FeedSpec) -> None:
        """Take a query out of the family that it is run by, if it is by one."""
        held = self.contents.get(feed.family)
        if feed.member and isinstance(held, QueryRows):
            held.remove(self.catalog.sequence, np.array([feed.member], np.uint64))

    def _renew_queries(self, family: str, rows: pa.RecordBatch) -> None:
        """Let queries of a family go and come again, those of them that stand."""
        held = self.contents.get(family)
        if isinstance(held, QueryRows):
            members = np.array([*self.catalog.members(family)], np.int64)
            rows = rows.filter(pa.array(np.isin(rows.column(QUERY).to_numpy(), members)))
            qids = rows.column(QUERY).to_numpy().astype(np.uint64)
            held.remove(self.catalog.sequence, qids)
            held.add(self.catalog.sequence, qids, rows.drop_columns([QUERY]))

    def _drop_queries(self, qids: Qids) -> None:
        for name, held in self.contents.items():
            if isinstance(held, QueryRows):
                strange = np.isin(qids, run_by(name, self.catalog, self.population), invert=True)
                if not strange.all():
                    held.remove(self.catalog.sequence, qids[~strange])

    def _count(self, change: Change, before: Catalog, tables: Tables) -> None:
        population = self.population
        match change["do"]:
            case "add queries":
                family = _numbered(change, self.catalog)
                stream = self.catalog.feed(family.feed).stream
                rows, names = tables[change["rows"]], change.get("names")
                population.add(stream, family, before.next_qid, rows, names)
                fresh = range(before.next_qid, self.catalog.next_qid)
                population.stamp(fresh, at=change.get("at"), expires=change.get("expires"))
            case "change queries":
                family = _numbered(change, self.catalog)
                population.change(
                    self.catalog.feed(family.feed).stream, family, tables[change["rows"]]
                )
            case "drop queries":
                population.drop(qids_in(tables[change["rows"]]))
            case "drop feed":
                for name in before.outlived(change["name"]):
                    stream = before.feed(name).stream
                    population.drop_families(stream, set(before.families_of(name)))
                    population.names.pop(name, None)
            case "drop stream":  # its queries are gone; another of that name begins without them
                population.blocks.pop(change["name"], None)
            case "pause":
                population.paused |= set(change["qids"])
            case "resume":
                population.paused -= set(change["qids"])
                for qid in change["qids"]:
                    population.generations[qid] = population.generations.get(qid, 0) + 1


class Trial:
    """Checks changes one caller after another, as if those before had been made."""

    def __init__(self, state: RegistryState) -> None:
        self._population = state.population
        versions = {name: each.version for name, each in state.contents.items()}
        self._after = _After(state.catalog, versions=versions)

    def check(  # noqa: C901  a case for each change
        self, changes: list[Change], tables: Tables
    ) -> list[int]:
        """Return the first query id of each change that adds queries, or raise."""
        after = self._after.copy()
        first_qids = []
        for change in changes:
            match change["do"]:
                case "add queries":
                    self._check_names(change, after)
                    first_qids.append(after.catalog.next_qid)
                case "add feed":
                    self._require_free(change["feed"]["name"], after)
                case "drop feed":
                    self._drop_feed(change["name"], after)
                case "drop queries":
                    qids = qids_in(tables[change["rows"]])
                    self._require_standing(qids, after)
                    after.gone.update(qids.tolist())
                case "change queries":
                    self._require_family(change, after.catalog)
                    self._require_standing(qids_in(tables[change["rows"]]), after, once=True)
                case "pause" | "resume":
                    self._require_standing(np.array(change["qids"], np.uint64), after)
                case "add table" | "add view":
                    self._require_free(change[change["do"][4:]]["name"], after)
                case "change table":
                    self._check_table(change, tables[change["rows"]], after)
            after.catalog = after.catalog.apply(change)
            if change["do"] in ("add table", "change table"):
                name = change["name"] if "name" in change else change["table"]["name"]
                after.versions[name] = after.catalog.sequence
        self._after = after
        return first_qids

    def _check_table(self, change: Change, rows: pa.RecordBatch, after: _After) -> None:
        """Refuse a change that was made of rows which have changed since, or does not fit."""
        spec = after.catalog.table(change["name"])
        assert rows.schema.equals(spec.changes), "a change has the columns of its table"
        read = change.get("version")
        if read is not None and read != after.versions[spec.name]:
            raise PlanError(f'table "{spec.name}" was changed meanwhile', hint="Try again.")

    def _check_names(self, change: Change, after: _After) -> None:
        given, own = change.get("names") or (), change["family"]["feed"]
        for name in given:
            if name != own and name in after.catalog.feeds:
                raise NameTakenError(f'query "{name}" exists already', hint=TAKEN)
            after.catalog.require_no_relation(name)
            self._require_free(name, after)
        if len(set(given)) < len(given):
            twice = next(name for name, times in Counter(given).items() if times > 1)
            raise NameTakenError(f'query "{twice}" is given twice')
        after.named.update(given)

    def _drop_feed(self, name: str, after: _After) -> None:
        for each in after.catalog.outlived(name):
            feed, families = after.catalog.feed(each), set(after.catalog.families_of(each))
            after.gone.update(self._population.members(feed.stream, families).tolist())
            after.named.discard(each)

    def _require_free(self, name: str, after: _After) -> None:
        known = self._population.names.get(name)
        if name in after.named or (known is not None and known not in after.gone):
            raise NameTakenError(f'query "{name}" exists already', hint=TAKEN)

    def _require_family(self, change: Change, catalog: Catalog) -> None:
        family = _numbered(change, catalog)
        if family.key not in catalog.families:
            raise UnknownNameError(f'no query of "{family.feed}" is of that form')

    def _require_standing(self, qids: Qids, after: _After, *, once: bool = False) -> None:
        missing = self._population.missing(qids).tolist()
        missing += [qid for qid in qids.tolist() if qid in after.gone] if after.gone else []
        if missing:
            raise UnknownNameError(
                f"query {missing[0]} does not exist",
                detail=f"Of the {qids.size} queries named, {len(missing)} do not exist.",
            )
        if once and np.unique(qids).size < qids.size:
            twice = next(qid for qid, times in Counter(qids.tolist()).items() if times > 1)
            raise PlanError(f"query {twice} is given twice")


@dataclass(slots=True)
class _After:
    """What would be there after the changes so far, where it differs from the population."""

    catalog: Catalog
    named: set[str] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)

    def copy(self) -> _After:
        return _After(self.catalog, set(self.named), set(self.gone), dict(self.versions))


def queries_of(catalog: Catalog, feed: str) -> dict[str, Contents]:
    """Return the table of a feed's queries, without any, if the feed is a family with a plan."""
    plan = catalog.feed(feed).plan
    if plan is None or plan.parameters is None:
        return {}
    return {feed: QueryRows(queries_spec("queries", plan.parameter_types), 0)}


def run_by(feed: str, catalog: Catalog, population: Population) -> Qids:
    """Return the ids of the queries that a feed's plan runs."""
    if catalog.feed(feed).kind == "family":
        return np.array([*catalog.members(feed)], np.uint64)
    return population.members(catalog.feed(feed).stream, set(catalog.families_of(feed)))


def qids_in(table: pa.RecordBatch) -> Qids:
    """Return the column of query ids."""
    found: Qids = table.column("qid").to_numpy()
    return found


def _numbered(change: Change, catalog: Catalog) -> Family:
    family = Family.from_json(change["family"])
    return replace(family, number=catalog.feed(family.feed).number)


def folded(state: RegistryState, entry: Container) -> RegistryState:
    """Apply an entry of the log."""
    tables = read_tables(entry)
    for change in entry.meta["changes"]:
        if first_format.is_first_change(change):
            _apply_first(state, change)
        else:
            state.apply([change], tables)
    return state


def read_tables(entry: Container) -> Tables:
    """Return the tables that an entry of the log brings."""
    n_tables = sum(name.startswith("rows/") for name in entry.sections)
    return [_table(entry, f"{number}") for number in range(n_tables)]


def _apply_first(state: RegistryState, change: Change) -> None:
    """Apply a change of the first form, which is one step though it may be two changes now."""
    catalog, names = state.catalog, state.population.names
    state.apply(*first_format.steps(change, names, catalog.next_number))
    state.catalog = replace(state.catalog, sequence=catalog.sequence + 1)


def spelt(state: RegistryState) -> tuple[dict[str, Any], list[tuple[str, Data]]]:
    """Spell everything for a snapshot: index files by name, fresh rows as they are."""
    sections: list[tuple[str, Data]] = []
    index: dict[str, list[str]] = {}
    fresh: list[list[Any]] = []
    for stream, blocks in state.population.blocks.items():
        for block in blocks:
            bits = np.packbits(block.dead).tobytes()
            if isinstance(block, IndexBlock):
                index.setdefault(stream, []).append(block.run.name)
                sections.append((f"dead/{block.run.name}", bits))
            else:
                number = len(fresh)
                fresh.append([stream, block.key, block.qids.size])
                sections += [
                    (f"dead/{number}", bits),
                    (f"qids/{number}", block.qids.tobytes()),
                    (f"rows/{number}", block.parameters.serialize()),
                    (f"schema/{number}", block.parameters.schema.serialize()),
                ]
    population = state.population
    contents, pending = spelt_contents(state.contents)
    meta = {
        "catalog": state.catalog.to_json(),
        "families": [each.to_json() for each in state.catalog.families.values()],
        "names": population.names,
        "paused": sorted(population.paused),
        "generations": {str(qid): each for qid, each in population.generations.items()},
        "n_rows": population.n_rows,
        "index": index,
        "fresh": fresh,
        "contents": contents,
        "expires": {str(qid): at for qid, at in population.expires.items()},
        "stamps": population.stamps,
    }
    return meta, [*sections, *pending]


def named_files(meta: dict[str, Any]) -> set[str]:
    """Return the files of queries and tables that a snapshot, or a published catalog, names."""
    files = [each for some in meta.get("index", {}).values() for each in some]
    files += [each for some in meta.get("table_files", {}).values() for each in some]
    files += [each for some in meta.get("contents", {}).values() for each in some["files"]]
    return {each if isinstance(each, str) else each[0] for each in files}


def restored(root: Root, snapshot: Container) -> RegistryState:
    """Read what `spelt` spelt."""
    meta = snapshot.meta
    if first_format.is_first_catalog(meta):
        return RegistryState(*first_format.restored(meta))
    families = [Family.from_json(each) for each in meta["families"]]
    catalog = replace(
        Catalog.from_json(meta["catalog"]), families={each.key: each for each in families}, index={}
    )
    population = Population(
        names=meta["names"],
        paused=set(meta["paused"]),
        generations={int(qid): each for qid, each in meta["generations"].items()},
        n_rows=meta["n_rows"],
        expires={int(qid): at for qid, at in meta.get("expires", {}).items()},
        stamps=[(qid, at) for qid, at in meta.get("stamps", [])],
    )
    for stream, names in meta["index"].items():
        for name in names:
            run = _opened(root, name)
            dead = _bits(snapshot, f"dead/{name}", run.n)
            population.blocks.setdefault(stream, []).append(IndexBlock(run, dead))
    for number, (stream, key, size) in enumerate(meta["fresh"]):
        qids = np.frombuffer(snapshot.section(f"qids/{number}"), np.uint64)
        rows, dead = _table(snapshot, f"{number}"), _bits(snapshot, f"dead/{number}", size)
        population.blocks.setdefault(stream, []).append(FreshBlock(key, qids, rows, dead))
    contents = _contents(root, catalog, snapshot)
    return RegistryState(catalog, population, contents)


def _contents(root: Root, catalog: Catalog, snapshot: Container) -> dict[str, Contents]:
    spelt_tables = snapshot.meta.get("contents", {})  # the first roots have none
    try:
        known = {name: Contents(spec, spec.born) for name, spec in catalog.tables.items()}
        for name in catalog.planned:
            known |= queries_of(catalog, name)
        return restored_contents(known, spelt_tables, snapshot, root)
    except MissingError as cause:
        raise _missing(str(cause)) from cause


def _opened(root: Root, name: str) -> IndexRun:
    """Open an index file that a snapshot names; if it is gone, the snapshot is worth nothing."""
    try:
        return IndexRun.open(root, name)
    except MissingError as cause:
        raise _missing(f'file "{name}" is missing from root "{root.uri}"') from cause


def _missing(message: str) -> CorruptionError:
    return CorruptionError(
        message,
        detail="A snapshot of the registry names it.",
        hint="Restore it from a copy of the root.",
    )


def _table(file: Container, number: str) -> pa.RecordBatch:
    schema = pa.ipc.read_schema(file.section(f"schema/{number}"))
    return pa.ipc.read_record_batch(file.section(f"rows/{number}"), schema)


def _bits(file: Container, name: str, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    packed = np.frombuffer(file.section(name), np.uint8)
    return np.unpackbits(packed, count=size).astype(np.bool_)
