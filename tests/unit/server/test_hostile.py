"""Clients that mean harm, or do not know what they do: refused properly, and nobody else notices."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from millrace.connectors.formats.parquet import fit_rows  # noqa: F401  what validation protects
from millrace.errors import MillraceError
from millrace.server.answers_http import ARROW, NDJSON
from millrace.server.arrow_checks import read_arrow
from millrace.server.wire import arrow_stream
from millrace.testing.query_texts import random_text
from millrace.testing.serving import STREAM, Served, trade
