"""A session: what a program declares, asks and starts, and handles on what it asked."""

from millrace.session.query import Query
from millrace.session.session import Session
from millrace.session.table import Table
from millrace.session.template import Template

__all__ = ["Query", "Session", "Table", "Template"]
