"""The dialect: sqlglot's tokenizer, parser and printer with what CQL adds to SQL.

It derives from sqlglot's base dialect and from no other: in Spark's, `10s` is a small integer,
in T-SQL's, `[Rows 3]` is a name in quotes.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType

from millrace.lang.parser import CqlParser
from millrace.lang.printer import CqlPrinter

_DROPPED = {"/*+", "~~~", "~~", "~~*", "{%", "{%+", "{%-", "{{+", "{{-"}


class CQL(Dialect):
    """SQL over streams."""

    NORMALIZE_FUNCTIONS = False

    class Tokenizer(tokens.Tokenizer):
        """The base tokens, `X'00FF'`, and `~` for regular expressions; no word is a command."""

        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar = {
            **{each: kind for each, kind in tokens.Tokenizer.KEYWORDS.items()
               if each not in _DROPPED},
            "~": TokenType.RLIKE,
        }  # fmt: skip
        COMMANDS: ClassVar = set()

    Parser = CqlParser
    Generator = CqlPrinter
