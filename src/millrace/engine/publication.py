"""Publication: the index files and the catalog that the next epoch's tasks read.

Rows that were registered since the last epoch become one small index file for each stream. Files
are levelled: when four of about one size have come together, they are merged into one, without
the queries that were dropped. A small merge is done on the spot, a large one in a thread of its
own, off the epoch's path; its result takes the place of its inputs at a later publication.

    64 rows   80 rows   70 rows   60 rows      270 rows …
    └──────────── merged ────────────┘ ──►     274 rows

The changes of tables since the last epoch become files too (`engine.contents`).

Who was dropped, paused or suspended since a file was written is a bit in the catalog's file.

Cost: a change in a population of n queries writes the changed rows and n / 8 bytes; a row is
rewritten about log4(n) times.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import xxhash

from millrace import failpoints
from millrace.engine import first_format
from millrace.engine.catalog import Catalog, IndexFile
from millrace.engine.contents import files_of
from millrace.engine.population import Block, FreshBlock, IndexBlock
from millrace.engine.query_rows import QueryRows
from millrace.engine.registry_state import RegistryState
from millrace.index.build import Standing, build_index
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools
from millrace.plan.bind import Functions
from millrace.schema import Schema
from millrace.state import container
from millrace.state.container import Container
from millrace.state.names import Data, MissingError
from millrace.state.root import Root

FACTOR = 4
SMALLEST_LEVEL = 256
ROWS_ON_THE_SPOT = 20_000
DEAD_SHARE = 0.3
QUERIES = "queries"
CATALOGS = "catalogs"
PAUSED = "paused"
"""The section of a catalog with the ids of queries that are out, but not dropped."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Merge:
    """A merge under way: its inputs, who was dropped when it began, and its result."""

    stream: str
    inputs: list[IndexBlock]
    dead: list[Bools]
    thread: threading.Thread | None = None
    result: IndexRun | None = None
    failed: bool = False


class Publisher:
    """Writes index files and catalogs."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._published: Catalog | None = None
        self._merge: _Merge | None = None

    def publish(self, state: RegistryState, functions: Functions) -> Catalog:
        """Write what tasks need to run under the state as it is; the caller holds its lock."""
        if self._published is not None and self._published.sequence == state.catalog.sequence:
            return self._published
        known = self._known(state.catalog)
        self._published = known or self._written(state, functions)
        return self._published

    def read(self, file: str, functions: Functions) -> Catalog:
        """Read a published catalog; one of the first form is published anew, with its index."""
        meta = Container.open(self._root, file).meta
        if first_format.is_first_catalog(meta):
            return self._written(RegistryState(*first_format.restored(meta)), functions)
        return Catalog.from_json(meta)

    def files_in_use(self, state: RegistryState) -> set[str]:
        """Return the files of queries and tables that are needed whatever was published."""
        blocks = [each for some in state.population.blocks.values() for each in some]
        used = {each.run.name for each in blocks if isinstance(each, IndexBlock)}
        used.update(files_of(state.contents))
        if self._merge is not None and self._merge.result is not None:
            used.add(self._merge.result.name)
        return used

    @property
    def writing(self) -> bool:
        """Whether a merge is being written, under a name that is not known yet."""
        thread = None if self._merge is None else self._merge.thread
        return thread is not None and thread.is_alive()

    def await_merge(self) -> None:
        """Wait for a merge that is being written; nobody else may delete its file meanwhile."""
        thread = None if self._merge is None else self._merge.thread
        if thread is not None:
            thread.join()

    def _known(self, catalog: Catalog) -> Catalog | None:
        """Find what an engine before this one has published under the same number."""
        try:
            meta = Container.open(self._root, catalog.file).meta
        except MissingError:
            return None
        if first_format.is_first_catalog(meta):
            return None
        return replace(Catalog.from_json(meta), families=catalog.families)

    def _written(self, state: RegistryState, functions: Functions) -> Catalog:
        population, catalog = state.population, state.catalog
        index: dict[str, tuple[IndexFile, ...]] = {}
        sections: list[tuple[str, Data]] = []
        for stream in list(population.blocks):
            if stream not in catalog.streams:
                del population.blocks[stream]
                continue
            schema = catalog.streams[stream].schema
            blocks = self._indexed(state, stream, schema, functions)
            files = []
            for block in blocks:
                out = population.out(block)
                masked = f"out/{block.run.name}" if out.any() else ""
                if masked:
                    sections.append((masked, np.packbits(out).tobytes()))
                files.append(IndexFile(block.run.name, masked))
            index[stream] = tuple(files)
        if population.paused:
            paused = np.array(sorted(population.paused), np.uint64)
            sections.append((PAUSED, paused.tobytes()))
        filed = {name: each.publish(self._root) for name, each in state.contents.items()}
        born = {
            name: each.born for name, each in state.contents.items() if isinstance(each, QueryRows)
        }
        published = replace(catalog, index=index, table_files=filed, born=born)
        data = container.pack(published.to_json(), sections)
        failpoints.reach("publish.before")
        if not self._root.put_if_absent(catalog.file, data):
            known = self._known(catalog)  # another engine was quicker
            if known is None:
                self._root.put(catalog.file, data)
            published = known or published
        failpoints.reach("publish.after")
        return published

    def _indexed(
        self, state: RegistryState, stream: str, schema: Schema, functions: Functions
    ) -> list[IndexBlock]:
        """Turn fresh rows into an index file, and merge files where it is time."""
        families, blocks = state.catalog.families, state.population.blocks[stream]
        fresh = [each for each in blocks if isinstance(each, FreshBlock)]
        indexed: list[Block] = [each for each in blocks if isinstance(each, IndexBlock)]
        rows = together(each for block in fresh for each in block.alive(families))
        if rows:
            indexed.append(self._built(rows, schema, functions, state.catalog.sequence))
        state.population.blocks[stream] = indexed
        self._take_result(state)
        self._begin_merge(state, stream, schema, functions)
        return [each for each in state.population.blocks[stream] if isinstance(each, IndexBlock)]

    def _built(
        self, rows: Sequence[Standing], schema: Schema, functions: Functions, sequence: int
    ) -> IndexBlock:
        parts = build_index(rows, schema, functions)
        digest = xxhash.xxh3_64()
        for part in parts:
            digest.update(part)
        name = f"{QUERIES}/{sequence:012d}-{digest.hexdigest()}"
        self._root.put_if_absent(name, parts)
        run = IndexRun.open(self._root, name)
        return IndexBlock(run, np.zeros(run.n, np.bool_))

    def _begin_merge(
        self, state: RegistryState, stream: str, schema: Schema, functions: Functions
    ) -> None:
        if self._merge is not None:
            return
        inputs = due(state.population.blocks[stream])
        if not inputs:
            return
        merge = _Merge(stream, inputs, [each.dead.copy() for each in inputs])
        families, sequence = dict(state.catalog.families), state.catalog.sequence
        self._merge = merge

        def body() -> None:
            try:
                rows = together(
                    each
                    for block, dead in zip(merge.inputs, merge.dead, strict=True)
                    for each in IndexBlock(block.run, dead).alive(families)
                )
                if rows:
                    merge.result = self._built(rows, schema, functions, sequence).run
            except Exception as error:  # the files stay as they are; tried again later
                merge.failed = True
                _logger.warning("index files not merged, later: %s", error)

        if sum(each.run.n for each in inputs) <= ROWS_ON_THE_SPOT:
            body()
            self._take_result(state)
        else:
            merge.thread = threading.Thread(target=body, name="millrace-index", daemon=True)
            merge.thread.start()

    def _take_result(self, state: RegistryState) -> None:
        """Put the result of a finished merge in the place of its inputs."""
        merge = self._merge
        if merge is None or (merge.thread is not None and merge.thread.is_alive()):
            return
        self._merge = None
        blocks = state.population.blocks.get(merge.stream, [])
        if merge.failed or not all(each in blocks for each in merge.inputs):
            return
        left: list[Block] = [each for each in blocks if each not in merge.inputs]
        if merge.result is not None:
            block = IndexBlock(merge.result, np.zeros(merge.result.n, np.bool_))
            for each, dead in zip(merge.inputs, merge.dead, strict=True):
                gone = each.qids[each.dead & ~dead]
                block.dead[np.searchsorted(block.qids, gone)] = True
            left.append(block)
        state.population.blocks[merge.stream] = left


def due(blocks: Sequence[Block]) -> list[IndexBlock]:
    """Choose the files to merge: four of one level, or one of which much was dropped."""
    levels: dict[int, list[IndexBlock]] = {}
    for block in blocks:
        if isinstance(block, IndexBlock):
            if block.run.n >= SMALLEST_LEVEL and block.dead.mean() > DEAD_SHARE:
                return [block]
            levels.setdefault(_level(block.run.n), []).append(block)
    full = [some for _, some in sorted(levels.items()) if len(some) >= FACTOR]
    return full[0] if full else []


def _level(n_rows: int) -> int:
    level = 0
    while n_rows >= SMALLEST_LEVEL:
        n_rows, level = n_rows // FACTOR, level + 1
    return level


def together(rows: Iterable[Standing]) -> list[Standing]:
    """Put rows of one family behind each other, in the order of their ids."""
    alike: dict[str, list[Standing]] = {}
    for each in rows:
        if each.qids.size:
            alike.setdefault(each.key, []).append(each)
    return [some[0] if len(some) == 1 else _joined(some) for some in alike.values()]


def _joined(some: list[Standing]) -> Standing:
    qids = np.concatenate([each.qids for each in some])
    order = np.argsort(qids, kind="stable")
    table = pa.Table.from_batches([each.parameters for each in some]).combine_chunks()
    if table.num_columns:
        parameters = table.to_batches()[0].take(pa.array(order))
    else:
        parameters = some[0].parameters.from_struct_array(pa.array([{}] * qids.size, pa.struct([])))
    return replace(some[0], qids=qids[order], parameters=parameters)
