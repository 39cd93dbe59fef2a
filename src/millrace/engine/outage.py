"""An outage: a stream's source cannot be looked at now. Plain: processes that list import it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outage:
    """A stream whose source cannot be looked at; `since` in seconds since 1970."""

    stream: str
    message: str
    since: float
    tries: int
