"""Torture: kill drivers, workers and executors at random; the output must not show it.

    python -m millrace.testing.torture --minutes 10 [--seed 7] [--kills 50]

The victim (`spark_victim`) is run once in peace. Then it is run again and again on a new root,
each time under a schedule of kills, and what it leaves behind is compared with what the quiet run
left: the files of the Parquet sink by name and byte for byte, history, late rows, dead letters,
clocks and counts; and no file of runs that nothing names.

A schedule is a list of blows, each due when an epoch has been committed:

    driver      SIGKILL; another driver is started at once, while the JVM of the first lives on
    worker      SIGKILL of one of Spark's Python workers
    daemon      SIGKILL of the process that workers are forked from
    jvm         SIGKILL of the driver's JVM; the driver has to end by itself, and say why
    source      SIGKILL of a process in which Spark asks one of our sources for offsets
    executor    SIGKILL of an executor, on `local-cluster`
    between     SIGKILL of both executors in turn, while a shard hangs between two shuffles
    point       a failpoint in a task or in the driver: kill, segfault, full disk, input error

It ends with status 1, and the seed, at the first difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from millrace.failpoints import VARIABLE
from millrace.testing.spark_processes import members
from millrace.testing.spark_victim import write_input

LOCAL = "local[2,4]"
CLUSTER = "local-cluster[2,1,1024]"
N_EPOCHS = 12
WORKERS = "millrace.spark.daemon"
SOURCES = "python_streaming_source_runner"
EXECUTORS = "CoarseGrainedExecutorBackend"
IN_TASKS = (
    "route.before", "route.after", "step.before", "step.computed", "step.written", "hop.before",
    "hop.after",
)  # fmt: skip
IN_DRIVER = (
    "log.before", "log.after", "receipts.after", "commit.before", "commit.after", "epoch.after",
    "deliver.before", "deliver.written", "deliver.promised", "deliver.renamed", "deliver.after",
)  # fmt: skip
HANGING = ("step.before", "hop.before", "hop.after")
DEADLY = {"kill", "segfault"}
AT_ONCE_SECONDS = 0.1
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Blow:
    """One kill: what, and after which committed epoch."""

    kind: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one run of the victim is disturbed; failpoints are `name=action@n`."""

    blows: tuple[Blow, ...] = ()
    points: tuple[str, ...] = ()
    master: str = LOCAL


@dataclass(slots=True)
class Tally:
    """How many kills really happened, by kind, and how many found two drivers' JVMs alive.

    A driver that was killed is started again `at_once`, unless the machine is too busy for that.
    """

    kills: dict[str, int] = field(default_factory=dict)
    overlaps: int = 0
    at_once: int = 0

    def add(self, kind: str) -> None:
        """Count one."""
        self.kills[kind] = self.kills.get(kind, 0) + 1

    @property
    def total(self) -> int:
        """All kills."""
        return sum(self.kills.values())


class TortureError(Exception):
    """The output shows that something was killed, or the victim does not come to its end."""


class Driver:
    """One process of the victim, and what it has said so far."""

    def __init__(self, directory: Path, source: Path, master: str, points: str) -> None:
        module = "millrace.testing.spark_victim"
        command = [sys.executable, "-m", module, str(directory), str(source)]
        environment = {**os.environ, VARIABLE: points}
        self._log = (directory / "victim.log").open("ab")
        self.process = subprocess.Popen(
            [*command, "--master", master],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self.epoch, self.jvm, self.done = -1, 0, False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether the process is no more, and everything that it said is known."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def kill(self) -> None:
        """End the Python process; its JVM lives on for a while."""
        self.process.kill()

    def close(self) -> None:
        """Leave nothing behind: neither the process nor what it started."""
        self.process.kill()
        self.process.wait()
        for each in members(self.process.pid):
            _sigkill(each.pid)
        self._reader.join()
        self._log.close()

    def _read(self) -> None:
        assert self.process.stdout is not None, "it is a pipe"
        with self.process.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    said = json.loads(line)
                    self.epoch = said.get("epoch", self.epoch)
                    self.jvm = said.get("jvm", self.jvm)
                    self.done = said.get("done", self.done)


class Torturer:
    """Runs the victim under schedules, in directories below one."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        say: Callable[[str], object] = print,
        n_epochs: int = N_EPOCHS,
    ) -> None:
        self.random = random.Random(seed)
        self.tally = Tally()
        self._directory, self._say, self._n_runs = directory, say, 0
        self._quiet: dict[str, bytes] = {}
        self._drivers: list[Driver] = []
        write_input(directory / "in", n_epochs)

    def run_in_peace(self) -> None:
        """Run the victim undisturbed; everything else is compared with that."""
        directory = self._run(Schedule())
        self._quiet = output(directory)
        log = (directory / "victim.log").read_text()
        if " ERROR " in log:
            message = f"the quiet run has logged an error:\n{log[-2_000:]}"
            raise TortureError(message)

    def run_under(self, schedule: Schedule) -> None:
        """Run the victim under a schedule and compare."""
        directory = self._run(schedule)
        found = output(directory)
        names = sorted(found.keys() | self._quiet.keys())
        differing = [name for name in names if found.get(name) != self._quiet.get(name)]
        if differing:
            message = (
                f"{len(differing)} files differ under {schedule}: {differing[:5]} in {directory}"
            )
            raise TortureError(message)
        self._say(f"run {self._n_runs}: {len(found)} files are equal")

    def _run(self, schedule: Schedule, seconds: float = 600.0) -> Path:
        self._n_runs += 1
        directory = self._directory / f"run{self._n_runs}"
        directory.mkdir()
        marks = [directory / f"mark{at}" for at in range(len(schedule.points))]
        pairs = zip(schedule.points, marks, strict=True)
        points = ",".join(f"{point}#{mark}" for point, mark in pairs)
        begun = time.monotonic()
        driver = self._start(directory, schedule.master, points)
        blows = list(schedule.blows)
        try:
            while not (driver.ended and driver.done):
                if time.monotonic() - begun > seconds:
                    message = f"no end after {seconds:g} s, epoch {driver.epoch}, in {directory}"
                    raise TortureError(message)
                if driver.ended:  # a failpoint, or a mistake
                    driver = self._restart(driver, directory, schedule.master, points)
                elif blows and driver.epoch >= blows[0].epoch:
                    driver = self._strike(blows.pop(0), driver, directory, schedule, points)
                time.sleep(POLL_SECONDS)
        finally:
            for each in self._drivers:
                each.close()
            self._drivers.clear()
        for point, mark in zip(schedule.points, marks, strict=True):
            if mark.exists() and DEADLY & set(point.replace("@", "=").split("=")):
                self.tally.add("point")
                self._say(f"kill {self.tally.total}: failpoint {point}")
        self._say(f"run {self._n_runs}: {time.monotonic() - begun:.1f} s")
        return directory

    def _start(self, directory: Path, master: str, points: str) -> Driver:
        driver = Driver(directory, self._directory / "in", master, points)
        self._drivers.append(driver)
        return driver

    def _restart(self, old: Driver, directory: Path, master: str, points: str) -> Driver:
        """Start another driver at once, and note whether the JVM of the old one still lives."""
        status = old.process.poll()
        bereft = status == 1 and old.jvm not in {each.pid for each in members(old.process.pid)}
        if status not in (None, -signal.SIGKILL, -signal.SIGSEGV) and not bereft:
            log = (directory / "victim.log").read_text()[-3_000:]
            message = f"the driver has ended by itself with {status}:\n{log}"
            raise TortureError(message)
        fresh = self._start(directory, master, points)
        self.tally.overlaps += any(each.pid == old.jvm for each in members(old.process.pid))
        fresh.epoch = old.epoch
        return fresh

    def _strike(
        self, blow: Blow, driver: Driver, directory: Path, schedule: Schedule, points: str
    ) -> Driver:
        """Perform one blow; return the driver that runs now."""
        time.sleep(self.random.uniform(0, 0.3))
        if blow.kind == "driver":
            driver.kill()
            began = time.monotonic()
            fresh = self._restart(driver, directory, schedule.master, points)
            self.tally.at_once += time.monotonic() - began < AT_ONCE_SECONDS
            self._count(blow, driver.process.pid)
            return fresh
        for pid in self._targets(blow, driver, directory):
            if _sigkill(pid):
                self._count(blow, pid)
        return driver

    def _count(self, blow: Blow, pid: int) -> None:
        self.tally.add(blow.kind)
        self._say(f"kill {self.tally.total}: {blow.kind} {pid} after epoch {blow.epoch}")

    def _targets(self, blow: Blow, driver: Driver, directory: Path) -> Iterator[int]:
        """Give the processes to kill, waiting until there are some."""
        if blow.kind == "between":
            mark = directory / "mark0"
            self._await(lambda: [1] if mark.exists() else [], driver)
            decided = list((directory / "root" / "epochs").iterdir())
            assert decided, "what hangs belongs to an epoch"
            yield from self._await(lambda: _below(driver, "executor"), driver)
            return
        found = self._await(lambda: _below(driver, blow.kind), driver)
        if found:
            yield self.random.choice(found)

    def _await(self, look: Callable[[], Sequence[int]], driver: Driver) -> Sequence[int]:
        while not (found := look()) and not driver.ended:
            time.sleep(POLL_SECONDS)
        return found


def output(directory: Path) -> dict[str, bytes]:
    """Return everything that a run of the victim has left behind."""
    out = directory / "out"
    files = (each for each in sorted(out.rglob("*")) if each.is_file())
    return {str(each.relative_to(out)): each.read_bytes() for each in files}


def random_schedule(chance: random.Random) -> Schedule:
    """Draw a schedule: of blows on one machine, of failpoints, or of executors lost."""
    kind = chance.choice(["local", "local", "points", "cluster"])
    epochs = sorted(chance.sample(range(N_EPOCHS - 2), 8))
    if kind == "points":
        chosen = [*chance.sample(IN_TASKS, 2), *chance.sample(IN_DRIVER, 3)]
        actions = [chance.choice(["kill", "kill", "segfault", "full", "fail"]) for _ in chosen]
        each = zip(chosen, actions, strict=True)
        return Schedule(points=tuple(f"{p}={a}@{chance.randint(1, 5)}" for p, a in each))
    if kind == "cluster":
        blows = tuple(Blow("executor", epoch) for epoch in epochs[::3])
        between = (Blow("between", -1),) if chance.random() < 0.5 else ()
        hang = (f"{chance.choice(HANGING)}=hang@1",) if between else ()
        return Schedule((*between, *blows), hang, CLUSTER)
    kinds = ["driver", "worker", "worker", "worker", "daemon", "source", "jvm"]
    return Schedule(tuple(Blow(chance.choice(kinds), epoch) for epoch in epochs))


def _below(driver: Driver, kind: str) -> list[int]:
    """Return the processes of one kind that belong to a driver."""
    found = members(driver.process.pid)
    machines = {each.pid for each in found if "java" in each.command.partition(" ")[0]}
    pattern = {"source": SOURCES, "executor": EXECUTORS}.get(kind, WORKERS)
    listed = [each for each in found if pattern in each.command]
    if kind == "daemon":  # the process that workers are forked from; they share its command
        listed = [each for each in listed if each.parent in machines]
    elif kind == "worker":  # a JVM's command names the daemon too
        listed = [each for each in listed if not {each.pid, each.parent} & machines]
    elif kind == "jvm":
        listed = [each for each in found if each.pid == driver.jvm]
    return [each.pid for each in listed]


def _sigkill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """Torture for some minutes, or until so many kills have happened."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--kills", type=int, default=1 << 30, help="end after so many")
    arguments = parser.parse_args()
    begun = time.monotonic()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="millrace-torture-") as directory:
        torturer = Torturer(Path(directory), seed=arguments.seed, say=_say)
        try:
            torturer.run_in_peace()
            while (
                time.monotonic() - begun < 60 * arguments.minutes
                and torturer.tally.total < arguments.kills
            ):
                torturer.run_under(random_schedule(torturer.random))
        except TortureError as error:
            print(f"FAILED after {torturer.tally.kills}: {error}\nseed {arguments.seed}")
            raise SystemExit(1) from error
    tally = torturer.tally
    print(f"{tally.total} kills {tally.kills}, {tally.overlaps} with two JVMs alive; all equal")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
