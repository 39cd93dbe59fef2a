"""The viewer's hold on the driver process: start it, hear it, kill it, let it finish."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from millrace.errors import MachineError

LOG_LINES = 12
STOP_SECONDS = 60.0


class Driver:
    """One driver process; what it reports waits in `heard`.

    The process has a session of its own, so that Ctrl-C reaches the viewer alone, and whatever
    it or its JVM prints goes to a file.
    """

    def __init__(self, base: Path) -> None:
        self._log = base / "driver.log"
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "millrace.cli.demo.driver", str(base), str(writing)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
            )
        os.close(writing)
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id of the driver."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def heard(self) -> list[dict[str, Any]]:
        """Return what has been reported since the last call."""
        found = []
        while not self._heard.empty():
            found.append(self._heard.get())
        return found

    def kill(self) -> None:
        """End the process as a crash would: SIGKILL, at whatever it is doing."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        """Ask the process to finish its epoch, deliver and end."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def dispose(self, *, kindly: bool) -> None:
        """Make sure that the process is gone, at its next convenience if there is one."""
        if not kindly:
            self.kill()
        self.finish()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def failure(self, doing: str) -> MachineError:
        """Say that the process ended by itself, with the last lines that it printed."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        last = "\n    ".join(text.splitlines()[-LOG_LINES:])
        return MachineError(
            f"the driver process ended while {doing}",
            detail=f"Its exit status is {self._process.poll()}; it printed last:\n    {last}",
            hint="`millrace doctor` looks for what this machine lacks.",
        )

    def _listen(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8") as pipe:
            for line in pipe:
                try:
                    self._heard.put(json.loads(line))
                except ValueError:  # the last line of a process that was killed may be torn
                    return
