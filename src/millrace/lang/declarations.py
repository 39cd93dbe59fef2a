"""Statements: what a script may say, as values that print back to text.

`str(statement)` parses to an equal statement. Where a statement was written does not count when
two are compared.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from millrace.lang.queries import Parsed
from millrace.lang.query_options import NOTHING_SAID, QueryOptions
from millrace.lang.words import (
    Value,
    constant_text,
    name_text,
    names_text,
    option_text,
    schema_text,
    value_text,
)
from millrace.schema import Schema
from millrace.time import print_duration

Options: TypeAlias = tuple[tuple[str, Value], ...]
FanOut: TypeAlias = OneOf["rows", "counts", "sets"]
Kind: TypeAlias = OneOf["stream", "query", "template", "sink", "table", "view"]
Alterable: TypeAlias = OneOf["stream", "query", "template"]
Listing: TypeAlias = OneOf[
    "streams", "queries", "templates", "sinks", "families", "tables", "views"
]


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a statement, and where in its script it begins: both counted from 1.

    `first` is the same as a position in `script`.
    """

    text: str = ""
    line: int = 1
    column: int = 1
    script: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that a script says."""

    _: KW_ONLY
    written: Written = field(default=Written(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Connector:
    """A source or a sink by its kind, such as `files(path => '/in/*.json')`."""

    kind: str
    options: Options = ()

    def __str__(self) -> str:
        options = ", ".join(f"{option_text(name)} => {value_text(it)}" for name, it in self.options)
        return f"{name_text(self.kind)}({options})"


@dataclass(frozen=True, slots=True)
class CreateStream(Statement):
    """`CREATE STREAM`: the words are those of `StreamSpec`; durations are in microseconds."""

    name: str
    schema: Schema
    time: str
    source: Connector
    order: tuple[str, ...] = ()
    delay: int = 0
    retain: int | None = None
    idle: int | None = None
    partition: str | None = None
    key: tuple[str, ...] = ()
    json: str | None = None

    def __str__(self) -> str:
        clauses = [
            f"CREATE STREAM {name_text(self.name)} ({schema_text(self.schema)})",
            f"TIMESTAMP BY {names_text([self.time, *self.order])}",
        ]
        for word, duration in (("DELAY", self.delay or None), ("RETAIN", self.retain),
                               ("IDLE", self.idle)):  # fmt: skip
            clauses += [] if duration is None else [f"{word} {print_duration(duration)}"]
        clauses += [f"PARTITION BY {name_text(self.partition)}"] if self.partition else []
        clauses += [f"KEY ({names_text(self.key)})"] if self.key else []
        clauses += [f"JSON {name_text(self.json)}"] if self.json else []
        return " ".join([*clauses, f"FROM {self.source}"])


@dataclass(frozen=True, slots=True)
class CreateSink(Statement):
    """`CREATE SINK`: where the answers of some queries, or of all (None), go."""

    name: str
    target: Connector
    queries: tuple[str, ...] | None = None
    fan_out: FanOut = "rows"

    def __str__(self) -> str:
        queries = "" if self.queries is None else f" FOR {names_text(self.queries)}"
        fan_out = "" if self.fan_out == "rows" else f" AS {self.fan_out.upper()}"
        return f"CREATE SINK {name_text(self.name)}{queries} TO {self.target}{fan_out}"


@dataclass(frozen=True, slots=True)
class CreateQuery(Statement):
    """`CREATE QUERY`: one standing query; `into` is the feed that its answers join.

    `unbounded` allows it to remember more and more.
    """

    name: str
    query: Parsed
    into: str | None = None
    unbounded: bool = False
    options: QueryOptions = NOTHING_SAID

    def __str__(self) -> str:
        into = f" INTO {name_text(self.into)}" if self.into else ""
        return f"CREATE QUERY {name_text(self.name)}{into}{_allowed(self)} AS {self.query}"


@dataclass(frozen=True, slots=True)
class CreateTemplate(Statement):
    """`CREATE QUERY TEMPLATE`: each row of its parameters is a standing query."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    query: Parsed
    unbounded: bool = False
    options: QueryOptions = NOTHING_SAID

    def __str__(self) -> str:
        parameters = ", ".join(f"{name_text(name)} {kind}" for name, kind in self.parameters)
        head = f"{name_text(self.name)} ({parameters}){_allowed(self)}"
        return f"CREATE QUERY TEMPLATE {head} AS {self.query}"


def _allowed(statement: CreateQuery | CreateTemplate) -> str:
    said = [str(statement.options)] if str(statement.options) else []
    said += ["unbounded = allowed"] if statement.unbounded else []
    return f" WITH ({', '.join(said)})" if said else ""


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """`CREATE TABLE`: rows that change; `source` gives those that it begins with."""

    name: str
    schema: Schema
    key: tuple[str, ...] = ()
    source: Connector | None = None

    def __str__(self) -> str:
        key = f", PRIMARY KEY ({names_text(self.key)})" if self.key else ""
        source = f" FROM {self.source}" if self.source else ""
        return f"CREATE TABLE {name_text(self.name)} ({schema_text(self.schema)}{key}){source}"


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """`CREATE VIEW`: a name for a query that others may read."""

    name: str
    query: Parsed
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = f" ({names_text(self.columns)})" if self.columns else ""
        return f"CREATE VIEW {name_text(self.name)}{columns} AS {self.query}"


@dataclass(frozen=True, slots=True)
class Register(Statement):
    """`REGISTER STREAM` or `RELATION`, as the STREAM prototype wrote it."""

    kind: OneOf["stream", "relation"]
    name: str
    schema: Schema
    options: Options = ()

    def __str__(self) -> str:
        shown = ", ".join(f"{option_text(name)} => {value_text(it)}" for name, it in self.options)
        options = f" WITH ({shown})" if shown else ""
        columns = schema_text(self.schema)
        return f"REGISTER {self.kind.upper()} {name_text(self.name)} ({columns}){options}"


@dataclass(frozen=True, slots=True)
class InsertRows(Statement):
    """`INSERT INTO template VALUES`: new standing queries, one a row, or new rows of a table."""

    template: str
    rows: tuple[tuple[Value, ...], ...]
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = f" ({names_text(self.columns)})" if self.columns else ""
        rows = ", ".join(f"({', '.join(map(value_text, row))})" for row in self.rows)
        return f"INSERT INTO {name_text(self.template)}{columns} VALUES {rows}"


@dataclass(frozen=True, slots=True)
class InsertFile(Statement):
    """`INSERT INTO template FROM 'file'`: new standing queries, or rows of a table, from a file."""

    template: str
    path: str

    def __str__(self) -> str:
        return f"INSERT INTO {name_text(self.template)} FROM {constant_text(self.path)}"


@dataclass(frozen=True, slots=True)
class InsertFound(Statement):
    """`INSERT INTO template SELECT`: what a question finds becomes queries, or rows of a table."""

    template: str
    query: Parsed
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = f" ({names_text(self.columns)})" if self.columns else ""
        return f"INSERT INTO {name_text(self.template)}{columns} {self.query}"


@dataclass(frozen=True, slots=True)
class UpdateRows(Statement):
    """`UPDATE template SET`: other parameters for some of its queries; or of a table: values.

    A value is a constant, or an expression over the row as it was.
    """

    template: str
    values: tuple[tuple[str, Value | Parsed], ...]
    where: Parsed

    def __str__(self) -> str:
        values = ", ".join(f"{name_text(name)} = {_given(it)}" for name, it in self.values)
        return f"UPDATE {name_text(self.template)} SET {values} WHERE {self.where}"


def _given(value: Value | Parsed) -> str:
    return str(value) if isinstance(value, Parsed) else value_text(value)


@dataclass(frozen=True, slots=True)
class DeleteRows(Statement):
    """`DELETE FROM template`: the end of some of its queries, or of a table's rows."""

    template: str
    where: Parsed

    def __str__(self) -> str:
        return f"DELETE FROM {name_text(self.template)} WHERE {self.where}"


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """`DROP`: the end of a stream, a table, a view, a query, a template or a sink."""

    kind: Kind
    name: str
    if_exists: bool = False

    def __str__(self) -> str:
        exists = "IF EXISTS " if self.if_exists else ""
        return f"DROP {self.kind.upper()} {exists}{name_text(self.name)}"


@dataclass(frozen=True, slots=True)
class Pause(Statement):
    """`PAUSE QUERY` name, or `RESUME QUERY` name."""

    name: str
    resume: bool = False

    def __str__(self) -> str:
        return f"{'RESUME' if self.resume else 'PAUSE'} QUERY {name_text(self.name)}"


@dataclass(frozen=True, slots=True)
class Alter(Statement):
    """`ALTER`: something that was said of a stream, a query or a template, said otherwise."""

    kind: Alterable
    name: str
    options: QueryOptions

    def __str__(self) -> str:
        return f"ALTER {self.kind.upper()} {name_text(self.name)} SET ({self.options})"


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`SHOW`: a list of what there is."""

    what: Listing

    def __str__(self) -> str:
        return f"SHOW {self.what.upper()}"


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """`EXPLAIN`: how a query is run, by its name or its text; `ANALYZE`: and what it has done."""

    query: str | Parsed
    analyze: bool = False

    def __str__(self) -> str:
        query = f"QUERY {name_text(self.query)}" if isinstance(self.query, str) else self.query
        return f"EXPLAIN {'ANALYZE ' if self.analyze else ''}{query}"


@dataclass(frozen=True, slots=True)
class DryRun(Statement):
    """`EXPLAIN DRY RUN`: what a query would have answered over some history, if it had stood."""

    query: Parsed
    history: int | None = None

    def __str__(self) -> str:
        over = "" if self.history is None else f" OVER {print_duration(self.history)}"
        return f"EXPLAIN DRY RUN{over} {self.query}"


@dataclass(frozen=True, slots=True)
class Subscribe(Statement):
    """`SUBSCRIBE`: the answers of a query as they come, from a cursor on, or from now on."""

    name: str
    cursor: str | int | None = None

    def __str__(self) -> str:
        cursor = "" if self.cursor is None else f" FROM {constant_text(self.cursor)}"
        return f"SUBSCRIBE {name_text(self.name)}{cursor}"


@dataclass(frozen=True, slots=True)
class Read(Statement):
    """A query that is not registered: what is found in histories, results and tables now."""

    query: Parsed

    def __str__(self) -> str:
        return str(self.query)
