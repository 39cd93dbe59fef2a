"""How a server is run; the processes that it consists of get these as JSON."""

from __future__ import annotations

import ipaddress
import json
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from millrace.errors import PlanError
from millrace.server.limits import Limits
from millrace.server.tokens import Tokens, token_file

PORT = 8642


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What `millrace serve` was told.

    Parameters
    ----------
    local
        Whether epochs run without Spark.
    demo
        Whether requests without a token are the operator's; only on loopback.
    console_port
        Where the console is, if it has a port of its own: a page and what keeps it alive must meet
        in one process, and several gateways share their port.
    functions
        A file of Python with functions that queries may call.
    paths
        The directories in which statements over HTTP may name files.
    """

    root: Path
    script: Path | None = None
    host: str = "127.0.0.1"
    port: int = PORT
    gateways: int = 1
    tokens: Path | None = None
    demo: bool = False
    local: bool = False
    cores: str = "*"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    functions: Path | None = None
    paths: tuple[Path, ...] = ()
    console: bool = True
    console_port: int | None = None
    limits: Limits = field(default_factory=Limits)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def token_path(self) -> Path:
        """The file of tokens."""
        return self.tokens or token_file(self.root)

    def check(self) -> None:
        """Refuse what would let anybody in, or nobody."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise PlanError("TLS needs a certificate and a key", hint="Give both, or neither.")
        if self.functions is not None and not self.functions.is_file():
            raise PlanError(f'file "{self.functions}" of functions does not exist')
        if self.gateways < 1:
            raise PlanError(f"{self.gateways} gateways serve nobody", hint="Give one or more.")
        if self.demo and not loopback(self.host):
            raise PlanError(
                f'a demo is not served on "{self.host}"',
                detail="Without tokens everybody who reaches the server may do everything.",
                hint="Bind it to 127.0.0.1, or leave --demo away and make tokens.",
            )
        if not self.demo and not Tokens(self.token_path).listed():
            raise PlanError(
                "there is no token, so nobody could enter",
                detail=f'File "{self.token_path}" has none.',
                hint=f"Make one: millrace token add --root {self.root} --role admin; or serve a "
                "demo on loopback with --demo.",
            )

    def to_json(self) -> str:
        """Spell it for a process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        spelt = json.loads(text)
        for name in ("root", "script", "tokens", "tls_cert", "tls_key", "functions"):
            spelt[name] = None if spelt[name] is None else Path(spelt[name])
        spelt["paths"] = tuple(map(Path, spelt["paths"]))
        spelt["limits"] = Limits(**spelt["limits"])
        return cls(**spelt)


def loopback(host: str) -> bool:
    """Say whether only this machine reaches an address."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return False
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)
