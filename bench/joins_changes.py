"""What it takes that join queries come and go: epochs with changes beside epochs without.

Epochs of three kinds follow each other: nothing changes, one query goes and one comes, a thousand
go and a thousand come. Whatever comes is answered in the epoch that it came before: one of the new
queries asks for a pair of rows that is put into the stream for it. The same is done once more with
everything prepared anew for each change, which is what `Settings(upkeep=False)` does.

Epochs run in one process, without Spark: what is measured is what a change adds to an epoch.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import millrace
from bench.joins_spark import COLUMNS, DOMAIN, DRIVEN, JOINED, STREAMS, TEXT
from bench.report import Figure, progress
from millrace.engine.local import LocalRun
from millrace.time import SECOND

N_QUERIES, ROWS, N_KEYS = 100_000, 20_000, 20_000
ROUNDS, WARM, STEP, KEPT = 12, 2, 10 * SECOND, 10_000
KINDS = {"unchanged": 0, "one": 1, "many": 1_000}
Seconds = dict[str, list[float]]


def changes(folder: Path) -> list[Figure]:
    """Measure epochs with and without changes."""
    del folder  # nothing is drawn
    found = {}
    for upkeep in (True, False):
        with tempfile.TemporaryDirectory(prefix="bench-joins-") as scratch:
            trial = Trial(Path(scratch) / "root", upkeep=upkeep)
            found[upkeep] = trial.run()
            trial.session.close()
            shutil.rmtree(scratch, ignore_errors=True)
            answered, asked = trial.answered, trial.asked
        for kind, seconds in found[upkeep].items():
            progress("changes", f"upkeep {upkeep}, {kind}: {median(seconds) * 1e3:.0f} ms")
    return [
        *(_figure(kind, found) for kind in ("one", "many")),
        Figure("answered in the next epoch", answered, "at least", asked, "", f"of {asked}"),
    ]


def _figure(kind: str, found: dict[bool, Seconds]) -> Figure:
    ratios = {
        upkeep: median(seconds[kind]) / median(seconds["unchanged"])
        for upkeep, seconds in found.items()
    }
    took = {name: median(each) * 1e3 for name, each in found[True].items()}
    note = (
        f"{took[kind]:.0f} ms against {took['unchanged']:.0f} ms, "
        f"{max(found[True][kind]) * 1e3:.0f} ms at most; {ratios[False]:.1f} x prepared anew"
    )
    case = f"{KINDS[kind]:,} of {N_QUERIES:,} join queries change, of an unchanged epoch"
    return Figure(case, ratios[True], "reported", None, "x", note)


class Trial:
    """A session with many join queries, and the epochs that it has run."""

    def __init__(self, root: Path, *, upkeep: bool) -> None:
        settings = millrace.Settings(shards=1, spread="never", upkeep=upkeep)
        self.session = millrace.Session(root, threads=False, settings=settings)
        for name in STREAMS:
            self.session.stream(name, millrace.Feed(COLUMNS), time="ts", delay="0 seconds")
        # Plans that differ prepare their queries apart.
        text = TEXT.replace("AS first", f"AS {'first' if upkeep else 'began'}")
        types = dict.fromkeys("abcd", "double")
        self._template = self.session.template("near", text, parameters=types, keep=KEPT)
        self._random, self._epoch = np.random.default_rng(11), 0
        self._ids = self._inserted(N_QUERIES)
        self.asked = self.answered = 0

    def run(self) -> Seconds:
        """Run epochs of all kinds in turn; return what each of them took."""
        run = self.session.start()
        assert isinstance(run, LocalRun), "it runs in this process"
        seconds: Seconds = {kind: [] for kind in KINDS}
        for round_ in range(WARM + ROUNDS):
            for kind, n_changed in KINDS.items():
                new = self._change(n_changed)
                rows = {name: self._rows() for name in STREAMS}
                began = time.perf_counter()
                run.feed(**rows)
                took = time.perf_counter() - began
                if round_ >= WARM:
                    seconds[kind].append(took)
                if new is not None:
                    self.asked += 1
                    self.answered += new in self._template.results()["_query"].to_pylist()
                self._epoch += 1
        return seconds

    def _change(self, n_changed: int) -> int | None:
        """Let the oldest queries go and others come; return one that the epoch will answer."""
        if not n_changed:
            return None
        self._template.delete(pa.array(self._ids[:n_changed]))
        come = self._inserted(n_changed)
        self._ids = np.concatenate((self._ids[n_changed:], come))
        return int(come[0])

    def _inserted(self, n_queries: int) -> np.ndarray:
        low, least = (self._random.random(n_queries) * DOMAIN for _ in range(2))
        low[0] = least[0] = self._planted
        rows = pa.table({"a": low, "b": low + DRIVEN, "c": least, "d": least + JOINED})
        return np.asarray(self._template.insert(rows).to_numpy(), np.int64)

    @property
    def _planted(self) -> float:
        """A value that only one row of each stream has, in one epoch."""
        return DOMAIN * (2 + self._epoch)

    def _rows(self) -> pa.Table:
        keys, values = self._random.integers(0, N_KEYS, ROWS), self._random.random(ROWS) * DOMAIN
        keys[ROWS // 2], values[ROWS // 2] = -1 - self._epoch, self._planted
        times = self._epoch * STEP + np.arange(ROWS) * (STEP // ROWS)
        stamps = pa.array(times, pa.timestamp("us", tz="UTC"))
        return pa.table({"k": keys, "v": values, "ts": stamps})
