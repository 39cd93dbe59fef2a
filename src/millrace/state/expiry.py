"""What time does to a run: rows expire, and small runs outstay their commit file.

An outlook says until when neither can have happened, so that a planner looks again only at
stores that have changed: 1,000 quiet stores cost it 0.4 ms an epoch instead of 75.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from millrace.state.names import epoch_of, inline
from millrace.state.store_state import Run, StoreState

MAX_INLINE_AGE = 64


@dataclass(frozen=True, slots=True)
class Outlook:
    """Up to this horizon and before this epoch, time has changed nothing for a store."""

    horizon: float
    epoch: float

    @classmethod
    def of(cls, state: StoreState) -> Outlook:
        """Look at every piece once."""
        pieces = [piece for run in state.runs for piece in run.pieces]
        # A piece whose middle is not before the horizon is at most half expired.
        middles = ((piece.min_time + piece.max_time) / 2 for piece in pieces)
        written = (epoch_of(piece.file) or 0 for piece in pieces if inline(piece.file))
        first = min(written, default=math.inf)
        return cls(min(middles, default=math.inf), first + MAX_INLINE_AGE)

    def covers(self, epoch: int, horizon: int | None) -> bool:
        """Tell whether nothing has changed yet."""
        return epoch < self.epoch and (horizon is None or horizon <= self.horizon)


def expired(run: Run, horizon: int | None) -> bool:
    """Tell whether every row is older than the horizon."""
    return horizon is not None and run.max_time < horizon


def half_expired(run: Run, horizon: int | None) -> bool:
    """Tell whether most rows have expired, if the times of a piece are spread evenly."""
    if horizon is None:
        return False
    n_expired = sum(
        piece.rows * min(max(horizon - piece.min_time, 0), length) / length
        for piece in run.pieces
        for length in [piece.max_time - piece.min_time + 1]
    )
    return n_expired > run.rows / 2


def overdue(run: Run, epoch: int) -> bool:
    """Tell whether a run lives in commit files that should have been deleted by now."""
    return any(
        inline(piece.file) and (epoch_of(piece.file) or 0) <= epoch - MAX_INLINE_AGE
        for piece in run.pieces
    )
