"""Whether the readers of text are compiled on this machine, and compiling them.

The kernels that read NDJSON, CSV and JSON text take some 15 s of one core to compile, once for
each version of them; afterwards a process loads them in 0.2 s. A mark beside numba's own cache
says that this has happened, so that nobody compiles who does not read text, and everybody who
does finds them ready.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sys
from pathlib import Path

from millrace import kernels
from millrace.connectors.decode import warm_decoders

_logger = logging.getLogger(__name__)


def readers_are_compiled() -> bool:
    """Say whether loading the readers is quick."""
    return _mark().exists()


def compile_readers() -> None:
    """Compile the readers if nobody has yet, and leave the mark."""
    if readers_are_compiled():
        return
    _logger.info("compiling the readers of text formats, once on this machine: about 15 s")
    warm_decoders()
    with contextlib.suppress(OSError):  # a place that cannot be written to has no cache either
        _mark().touch()


def _mark() -> Path:
    home = Path(kernels.__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for source in sorted(home.glob("*.py")):
        digest.update(source.read_bytes())
    return home / "__pycache__" / f"readers-{digest.hexdigest()[:16]}.compiled"
