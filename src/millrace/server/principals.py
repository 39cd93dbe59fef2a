"""Principals: on whose behalf something is asked, what they may do, and what names they see.

A token belongs to a tenant; the tenant "" is the operator's own. Names of queries, templates and
feeds are stored as "tenant/name" and shown as "name", so each tenant has a namespace of its own
and cannot even spell the names of another. Streams, tables and views are the operator's, and all
tenants may read them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from millrace.errors import MillraceError, PlanError, UnknownNameError

Role: TypeAlias = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
BETWEEN = "/"

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ForbiddenError(MillraceError):
    """Somebody asks for what their role, or their tenant, may not have."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a tenant, a role, and the id of the token by which they are known."""

    tenant: str = ""
    role: Role = "reader"
    token: str = ""

    @property
    def operator(self) -> bool:
        """Whether they run the place: administrators of the operator's own tenant."""
        return self.role == "admin" and not self.tenant

    def may(self, role: Role) -> bool:
        """Say whether their role is that one or more."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: Role) -> None:
        """Refuse what their role does not allow."""
        if not self.may(role):
            raise ForbiddenError(
                f"the role {role} is needed", detail=f"This token's role is {self.role}."
            )

    def require_operator(self, what: str) -> None:
        """Refuse what only the operator may do."""
        if not self.operator:
            raise ForbiddenError(
                f"{what} is for the operator",
                detail=f"This token's role is {self.role}"
                + (f' and it belongs to tenant "{self.tenant}".' if self.tenant else "."),
                hint="Ask whoever runs the server.",
            )

    def stored(self, name: str) -> str:
        """Return the name under which the query or template `name` of theirs is stored.

        >>> Principal("acme").stored("big"), Principal().stored("big")
        ('acme/big', 'big')
        """
        if BETWEEN in name:
            raise PlanError(
                f'name "{name}" has a "{BETWEEN}" in it',
                hint="Choose a name without; a server keeps it for the names of tenants.",
            )
        return f"{self.tenant}{BETWEEN}{name}" if self.tenant else name

    def sees(self, stored: str) -> bool:
        """Say whether a stored name is one of theirs; the operator sees all."""
        return self.operator or owner_of(stored) == self.tenant

    def shown(self, stored: str) -> str:
        """Return a stored name as they write it; the operator writes those of tenants in full."""
        prefix = f"{self.tenant}{BETWEEN}" if self.tenant else ""
        return stored.removeprefix(prefix)

    def found(self, name: str, what: str = "query") -> str:
        """Return the stored name that is meant where something that exists is named.

        Only the operator writes names of tenants. To everybody else such a name is as unknown as
        one that nothing has, in the same words.
        """
        if BETWEEN in name and not self.operator:
            raise UnknownNameError(f'{what} "{name}" does not exist', node=(what, name))
        return f"{self.tenant}{BETWEEN}{name}" if self.tenant else name

    def to_json(self) -> dict[str, str]:
        """Spell it for the engine process."""
        return {"tenant": self.tenant, "role": self.role, "token": self.token}


OPERATOR = Principal("", "admin", "local")


def owner_of(stored: str) -> str:
    """Return the tenant of a stored name.

    >>> owner_of("acme/big"), owner_of("big")
    ('acme', '')
    """
    return stored.partition(BETWEEN)[0] if BETWEEN in stored else ""


def check_tenant(name: str) -> str:
    """Return the name of a tenant, if it may be one."""
    if name and _TENANT.fullmatch(name) is None:
        raise PlanError(
            f'"{name}" cannot be the name of a tenant',
            hint="Use letters, digits, - and _, at most 64 of them.",
        )
    return name
