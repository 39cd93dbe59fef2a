"""Questions that are asked once, answered in a gateway: the engine carries no readers.

What they read is committed, and registered up to the last change that a client of this gateway has
heard of. A few are answered at a time, in threads of their own; so are queries that are tried on
history (`session.dry_run`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from millrace.engine.feeds import Family
from millrace.engine.hidden import is_hidden
from millrace.engine.streams import SYSSTREAM
from millrace.errors import MillraceError, UnknownNameError
from millrace.kernels.arrays import Hashes
from millrace.lang.declarations import DryRun, Read, Statement
from millrace.lang.errors import LanguageError
from millrace.lang.queries import Parsed
from millrace.lang.row_changes import question_of
from millrace.lang.statements import parse
from millrace.reading.held import CommittedHeld, Standing, ask_newest
from millrace.reading.reader import Reader
from millrace.reading.room import Room
from millrace.reading.tried import DryRun as Tried
from millrace.server.engine_link import EngineLink
from millrace.server.outcomes import Outcome
from millrace.server.principals import Principal
from millrace.server.statements import told_as_theirs
from millrace.server.told_rows import require_hearing, told_to
from millrace.server.turns import AT_ONCE, WAITING, Turns
from millrace.session import dry_run as tried
from millrace.session.statement_places import excerpt_for
from millrace.state.names import MissingError


class TheirHeld(CommittedHeld):
    """What somebody may read: their own queries and templates, and what everybody shares."""

    def __init__(self, reader: Reader, who: Principal) -> None:
        super().__init__(reader.root, reader.manifest, reader.catalog)
        self._reader, self._who = reader, who
        self.functions = reader.functions
        self.function_types = {name: each.returns for name, each in reader.functions.items()}

    def standing(self, name: str) -> Standing | None:
        """Return the query or the template of that name, None if there is none to be read."""
        try:
            stored = self._who.found(name)
        except UnknownNameError:
            return None
        with self._reader.registered() as (catalog, population, queries):
            feed = catalog.feeds.get(stored)
            if feed is not None and feed.kind == "template":
                return Standing(feed) if self._who.sees(stored) else None
            listed = queries.find(population.names.get(stored, 0))
            if listed is None or not self._who.sees(listed.feed):
                return None
            return Standing(catalog.feeds[listed.feed], listed.qid)

    def names(self) -> Iterator[str]:
        """Yield how queries and templates are called that may be read."""
        with self._reader.registered() as (catalog, population, _):
            known = dict.fromkeys([*catalog.feeds, *population.names])
            stored = [each for each in known if not is_hidden(each)]
        yield from (self._who.shown(each) for each in stored if self._who.sees(each))

    def table_rows(self, name: str) -> pa.Table:
        """Return the rows of a table."""
        return self._reader.table_rows(name)

    def constants(self, family: Family) -> tuple[Hashes, pa.Table]:
        """Return the ids of a family's queries, ascending, and their constants."""
        return self._reader.constants(family)

    def rows(
        self, name: str, begin: int | None, end: int | None, columns: Sequence[str], room: Room
    ) -> pa.Table:
        """Return the rows that they may see; all columns, since one says whose a row is."""
        every = tuple(self._catalog.streams[name].schema.names) if name == SYSSTREAM else columns
        return told_to(self._who, name, super().rows(name, begin, end, every, room))


class Questions:
    """Does the statements of one gateway's clients: answers questions, and has the rest done."""

    def __init__(self, reader: Reader, link: EngineLink) -> None:
        self._reader, self._link, self.turns = reader, link, Turns()
        self._threads = ThreadPoolExecutor(AT_ONCE + WAITING + 1, thread_name_prefix="question")

    async def sql(self, who: Principal, text: str) -> list[Outcome]:
        """Do the statements of a text in their order; those that ask return tables."""
        statements = await asyncio.to_thread(parse, text)
        outcomes: list[Outcome] = []
        while len(outcomes) < len(statements):
            first = len(outcomes)
            stop = first + 1
            statement = statements[first]
            if isinstance(statement, DryRun):
                outcomes.append(await self._outcome(who, statement))
                continue
            question = question_of(statement)
            if question is not None:
                rows = await self._answer(who, question)
                outcomes += (
                    [Outcome(table=rows)]
                    if isinstance(statement, Read)
                    else await self._done(who, text, (first, stop), [rows])
                )
                continue
            while stop < len(statements) and not _answered_here(statements[stop]):
                stop += 1
            outcomes += await self._done(who, text, (first, stop))
        return outcomes

    async def _outcome(self, who: Principal, statement: DryRun) -> Outcome:
        """Try the query of a statement; an error shows the part of it that is meant."""
        try:
            return Outcome(str(await self.dry_run(who, statement.query, statement.history)))
        except LanguageError:
            raise  # it shows its place by itself
        except MillraceError as error:
            error.show(excerpt_for(error, statement))
            raise

    async def dry_run(
        self, who: Principal, query: str | Parsed, history: str | int | None
    ) -> Tried:
        """Say what a query would have answered on history."""
        who.require("writer")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._tried, who, query, history)

    async def _done(
        self,
        who: Principal,
        text: str,
        places: tuple[int, int],
        found: Sequence[pa.Table] = (),
    ) -> list[Outcome]:
        """Let the engine do some statements of a text; or one, with what was found for it."""
        done = await self._link.ask("sql", who, {"sql": text, "places": places}, found)
        return [
            Outcome(table=done.tables[each["table"]]) if "table" in each
            else Outcome(each["message"])
            for each in done.body["outcomes"]
        ]  # fmt: skip

    async def _answer(self, who: Principal, question: Parsed) -> pa.Table:
        """Answer a question, when it is its turn."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._answered, who, question)

    def close(self) -> None:
        """Wait for nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answered(self, who: Principal, question: Parsed) -> pa.Table:
        with self.turns.taken(), told_as_theirs(who):
            return ask_newest(question, lambda: self._held(who))

    def _held(self, who: Principal) -> TheirHeld:
        return TheirHeld(self._reader, who)

    def _tried(self, who: Principal, query: str | Parsed, history: str | int | None) -> Tried:
        """Try a query, when it is its turn; if files have just gone, once more."""
        with self.turns.taken(), told_as_theirs(who):
            while True:
                ground = self._ground(who)
                try:
                    return tried.dry_run(ground, query, history)
                except MissingError:
                    if self._reader.manifest.epoch == ground.manifest.epoch:
                        raise

    def _ground(self, who: Principal) -> tried.Ground:
        reader = self._reader
        return tried.Ground(
            reader.root,
            reader.manifest,
            reader.catalog,
            reader.functions,
            {name: each.returns for name, each in reader.functions.items()},
            reader.table_rows,
            lambda streams: require_hearing(who, streams),
        )


def _answered_here(statement: Statement) -> bool:
    """Say whether a statement is answered in a gateway, and not done by the engine."""
    return isinstance(statement, DryRun) or question_of(statement) is not None
