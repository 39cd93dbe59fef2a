"""Arrivals: rows as they come from outside, brought into the form that routing takes.

Four kinds of sources end here: typed rows, rows that are JSON text in a column, splits of files,
and batches that were pushed. Whatever cannot be read becomes a reject with its place; nothing
is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from millrace.connectors.decode import decode_json_column, read_split
from millrace.connectors.files import Files
from millrace.connectors.formats.decoded import Decoded, join
from millrace.connectors.formats.parquet import fit_rows
from millrace.connectors.pushed import PushedFile, read_file
from millrace.connectors.splits import FileSplit
from millrace.engine.route import Arrived
from millrace.engine.streams import StreamSpec
from millrace.errors import SourceError
from millrace.schema import Schema, castable, conform
from millrace.state.root import Root

ROWS_AT_ONCE = 65_536
"""Of pushed batches, as many are routed together as reach that."""


def from_rows(
    spec: StreamSpec, rows: pa.RecordBatch, *, origin: str, first: int = 0, partition: str = ""
) -> Arrived:
    """Take a batch of rows; its first row stood at position `first` of its source."""
    places = _places(spec, rows, first)
    if spec.text is None:
        fitted = _fitted(rows, spec)
        at = pa.array(fitted.ordinals)
        kept = places if len(at) == len(places) else places.take(at)
        return Arrived(fitted.rows, kept, _placed(fitted.rejects, places), partition, None, origin)
    direct = [each for each in spec.schema.names if each in rows.schema.names]
    inside = Schema(tuple(each for each in spec.schema if each.name not in direct))
    decoded = decode_json_column(rows.column(spec.text), inside)
    at = pa.array(decoded.ordinals)
    columns = dict(zip(inside.names, decoded.rows.columns, strict=True))
    columns |= dict(zip(direct, rows.select(direct).take(at).columns, strict=True))
    names = list(spec.schema.names)
    whole = pa.RecordBatch.from_arrays([columns[each] for each in names], names=names)
    fitted = fit_rows(whole, spec.schema, decoded.ordinals)
    rejects = _placed(pa.concat_tables([decoded.rejects, fitted.rejects]), places)
    kept = places.take(pa.array(fitted.ordinals))
    return Arrived(fitted.rows, kept, rejects, partition, None, origin)


def from_splits(
    spec: StreamSpec, source: Files, splits: Iterable[FileSplit], begin: int
) -> Iterator[Arrived]:
    """Read splits of files that follow one another in the stream's one partition.

    A file that is damaged, gone or changed since it was listed becomes one dead letter that
    says from where on it could not be read.
    """
    for split in splits:
        read_to = 0
        try:
            for decoded in read_split(split, spec.schema, source.options):
                if decoded.ordinals.size:
                    read_to = int(decoded.ordinals[-1]) + 1
                yield _arrived(decoded, split.path, begin)
        except SourceError as cause:
            lost = (read_to, f"{cause.message}: {cause.detail}", split.path.encode())
            yield _arrived(Decoded.nothing(spec.schema, [lost]), split.path, begin)


def from_pushed(
    root: Root, folder: str, files: Iterable[PushedFile], spec: StreamSpec
) -> Iterator[Arrived]:
    """Read files of a push log that follow one another in the stream's one partition.

    Small batches of one sender are routed together: to route a batch costs milliseconds, however
    few its rows are.
    """
    together, sender, begin, n_rows = list[Decoded](), "", 0, 0
    for file in files:
        for decoded, origin in read_file(root, folder, file, spec.schema):
            if together and (origin != sender or n_rows >= ROWS_AT_ONCE):
                yield _arrived(join(together), sender, begin)
                together, n_rows = [], 0
            if not together:
                sender, begin = origin, file.number
            together.append(decoded)
            n_rows += decoded.rows.num_rows + decoded.rejects.num_rows
    if together:
        yield _arrived(join(together), sender, begin)


def _arrived(decoded: Decoded, origin: str, begin: int) -> Arrived:
    places = pa.array(decoded.ordinals)
    return Arrived(decoded.rows, places, decoded.rejects, "", [begin], origin)


def _fitted(rows: pa.RecordBatch, spec: StreamSpec) -> Decoded:
    """Bring typed rows into the stream's types; values out of range are rejects.

    A column that is missing, or of another kind, is no matter of rows: it raises.
    """
    for column in spec.schema:
        at = rows.schema.get_field_index(column.name)
        if at < 0 or not castable(rows.schema.field(at).type, column.type):
            conform(rows, spec.schema)
    return fit_rows(rows, spec.schema, np.arange(rows.num_rows))


def _placed(rejects: pa.Table, places: pa.Array) -> pa.Table:
    """Say where rejects stood in their source, instead of in their batch."""
    where = places.take(rejects.column("ordinal").combine_chunks())
    return rejects.set_column(0, "ordinal", where)


def _places(spec: StreamSpec, rows: pa.RecordBatch, first: int) -> pa.Array:
    """Say where rows stood: by their order column if that is a number, else by counting."""
    if spec.order and spec.order[0] in rows.schema.names:
        column = rows.column(spec.order[0])
        if pa.types.is_integer(column.type) and column.null_count == 0:
            return column.cast(pa.int64())
    return pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
