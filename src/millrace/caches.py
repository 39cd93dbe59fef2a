"""Where millrace keeps what it can make again: launchers, archives of classes, prices of work."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory, which need not exist yet."""
    if chosen := environment.get("XDG_CACHE_HOME"):
        return Path(chosen) / "millrace"
    home = environment.get("HOME") or os.environ.get("HOME") or tempfile.gettempdir()
    return Path(home) / ".cache" / "millrace"
