"""When to try again, and how long to wait before.

A request that never reached the server may always be sent again. One that may have reached it is
sent again only if a second one changes nothing: a read, a push with its key, a registration under
a name. A server that says "not now" is asked again when it says so (`Retry-After`).

The pause doubles with each attempt up to `longest`, and is then shortened at random by up to a
half: clients that lost the same server do not come back all at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOO_MANY = 429
UNAVAILABLE = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client waits for a server.

    Parameters
    ----------
    attempts
        How often a request is sent at most.
    first, longest
        The seconds before the second attempt, and the most between two.
    obey
        The longest `Retry-After` that is waited for; beyond it, the refusal is raised.
    outage
        For how many seconds a subscription looks for a server that has gone.
    """

    attempts: int = 5
    first: float = 0.2
    longest: float = 10.0
    obey: float = 60.0
    outage: float = 300.0
    chance: Callable[[], float] = random.random

    def pause(self, attempt: int) -> float:
        """Return how long to wait after so many attempts.

        >>> Patience(chance=lambda: 1.0).pause(1), Patience(chance=lambda: 0.0).pause(3)
        (0.1, 0.8)
        """
        whole = min(self.first * 2.0 ** min(attempt - 1, 30), self.longest)
        return whole * (1 - self.chance() / 2)

    def after_refusal(
        self, status: int, retry_after: str | None, attempt: int, *, repeatable: bool
    ) -> float | None:
        """Return how long to wait before a refused request is sent again; None: do not."""
        again = status == TOO_MANY or (status in UNAVAILABLE and repeatable)
        if not again or attempt >= self.attempts:
            return None
        asked = seconds_of(retry_after)
        if asked is None:
            return self.pause(attempt)
        return None if asked > self.obey else asked + self.pause(1)

    def after_failure(self, attempt: int, *, repeatable: bool, sent: bool) -> float | None:
        """Return how long to wait after a connection failed; None: do not send it again."""
        again = repeatable or not sent
        return self.pause(attempt) if again and attempt < self.attempts else None


def seconds_of(retry_after: str | None) -> float | None:
    """Read the header `Retry-After`: seconds, or a date.

    >>> seconds_of("2"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT"), seconds_of("soon")
    (2.0, 0.0, None)
    """
    if retry_after is None:
        return None
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
