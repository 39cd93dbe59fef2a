"""Every exception that millrace raises on purpose.

A message has up to three parts. The first states the fact in one lower-case clause; the
detail adds what the program knew at that moment; the hint says what the reader can do.
Anything else that escapes (a bare ValueError, an AssertionError) is a bug in millrace.
"""

from __future__ import annotations


class MillraceError(Exception):
    """Base class; `code` is stable and is what programs and tests compare.

    `node` is the part of an expression, or of a statement, that was refused, for whoever knows
    where it was written.
    """

    code = "internal"

    def __init__(
        self, message: str, *, detail: str = "", hint: str = "", node: object = None
    ) -> None:
        super().__init__(message)
        self.message, self.detail, self.hint, self.node = message, detail, hint, node
        self._excerpt = ""

    @property
    def excerpt(self) -> str:
        """The lines of a text that the message is about, marked; empty if it is about none."""
        return self._excerpt

    def show(self, excerpt: str) -> None:
        """Take up the lines that the message is about, from whoever knows where they are."""
        self._excerpt = excerpt

    def __str__(self) -> str:
        labelled = (("detail", self.detail), ("hint", self.hint))
        lines = [f"  {label}: {text}" for label, text in labelled if text]
        return "\n".join([self.message, *filter(None, [self.excerpt]), *lines])


class SchemaError(MillraceError):
    """A column or a type does not exist, or does not fit where it is used."""

    code = "schema"


class PlanError(MillraceError):
    """A query or a declaration cannot be turned into something that runs."""

    code = "plan"


class UnboundedError(PlanError):
    """A query would remember more and more for as long as it runs, and nobody has allowed it."""

    code = "CQL041"


class NameTakenError(MillraceError):
    """Something of that name exists already."""

    code = "name_taken"


class UnknownNameError(MillraceError):
    """Nothing of that name exists."""

    code = "unknown_name"


class StoreError(MillraceError):
    """The root directory could not be read or written."""

    code = "store"


class StoreFullError(StoreError):
    """There is no room left where the root lives; the epoch is tried again later."""

    code = "store_full"


class CorruptionError(StoreError):
    """A file of the root does not hold the bytes that were written to it."""

    code = "corrupt"


class FormatVersionError(StoreError):
    """A file was written by a version of millrace that this one does not know."""

    code = "format_version"


class InUseError(StoreError):
    """Another engine holds the root."""

    code = "in_use"


class FencedError(StoreError):
    """A newer engine has taken the root over; this one must stop."""

    code = "fenced"


class IdentityError(StoreError):
    """The root and Spark's checkpoint speak of different histories."""

    code = "identity"


class LostAnswersError(StoreError):
    """Answers after a cursor are no longer kept; `oldest` is a cursor from which they are."""

    code = "lost_answers"

    def __init__(
        self, message: str, *, detail: str = "", hint: str = "", oldest: int | str = ""
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.oldest = oldest


class SourceError(MillraceError):
    """A source could not be listed, opened or read."""

    code = "source"


class OutageError(MillraceError):
    """A source cannot be read now and may be at the next try."""

    code = "outage"


class SeveralRowsError(MillraceError):
    """A subquery that stands for one value has several rows."""

    code = "CQL060"


class SumOverflowError(MillraceError):
    """A sum does not fit into its type."""

    code = "CQL061"


class ReadLimitError(MillraceError):
    """A question took more time, memory or rows than one may; `now` says how many of these."""

    code = "read_limit"

    def __init__(self, message: str, *, detail: str = "", hint: str = "", now: float = 0) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.now = now


class SinkError(MillraceError):
    """A sink refused what was delivered to it."""

    code = "sink"


class MachineError(MillraceError):
    """The machine lacks something that millrace needs, such as Java."""

    code = "machine"


class AccessError(MillraceError):
    """A server does not know who asks, or does not allow them what they ask for."""

    code = "access"


class ExceededError(MillraceError):
    """More is asked of a server than a limit or a quota allows."""

    code = "exceeded"


class UnreachableError(MillraceError):
    """A server, or its engine, does not answer."""

    code = "unreachable"
