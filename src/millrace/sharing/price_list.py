"""Price lists: what kinds of work cost on this machine, kept in the user's cache once measured.

The file is named after the machine and the code that is measured, so neither a new processor nor a
new version reads what is not its own. Without a file the prices are those that are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace import caches, kernels, sharing
from millrace.sharing.select.prices import Prices


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by the name of what works; `code` are patterns of the files that say how it does."""

    kind: str
    known: Mapping[str, Prices]
    code: Sequence[str]

    def of_machine(self, path: Path | None = None) -> dict[str, Prices]:
        """Return the prices that were measured here, or those that are known if there are none."""
        try:
            told = json.loads((path or self.path).read_text(encoding="utf-8"))
            return {name: tuple(map(float, told[name])) for name in self.known}
        except (OSError, ValueError, KeyError, TypeError):
            return dict(self.known)

    def keep(
        self, measure: Callable[[], dict[str, Prices]], path: Path | None = None
    ) -> dict[str, Prices]:
        """Measure prices and keep them, unless this machine has some already; return them."""
        path = path or self.path
        if path.exists():
            return self.of_machine(path)
        prices = measure()
        with contextlib.suppress(OSError):  # it can be done again
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
                json.dump(prices, draft)
            Path(draft.name).replace(path)
        return prices

    @property
    def path(self) -> Path:
        """Where prices of this machine and code are kept, if they are."""
        digest = hashlib.sha256("\0".join((*_machine(), *self._texts())).encode()).hexdigest()[:16]
        return caches.cache_directory(os.environ) / f"prices-{self.kind}-{digest}.json"

    def _texts(self) -> list[str]:
        """Return the text of all that is measured."""
        roots = [Path(each.__path__[0]) for each in (kernels, sharing)]
        files = [path for root in roots for each in self.code for path in sorted(root.glob(each))]
        return [path.read_text(encoding="utf-8") for path in files]


def _machine() -> tuple[str, ...]:
    model = ""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line for line in lines if line.startswith("model name"))
    return platform.machine(), platform.processor(), model, str(os.cpu_count())
