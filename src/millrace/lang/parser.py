"""Parsing queries: sqlglot's parser with CQL's windows and streams, and without its leniency.

What is added: `[window]` behind a table or a subquery, `BEGIN ... END ...` behind a SELECT,
`ISTREAM(...)`, `DSTREAM(...)` and `RSTREAM(...)` with `EVERY`. What is taken away: the fall-back
to an opaque command, the guesses about functions (every function is a name with arguments, as
written), and lists with holes.

Every node that the parser makes knows from where to where it was written (`trees.span_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar, NoReturn, TypeVar, cast

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import IsPredicatePrecedence, Parser
from sqlglot.tokens import Token, TokenType

from millrace.lang.cursor import Cursor
from millrace.lang.errors import Span
from millrace.lang.trees import WINDOW, CqlWindow, XStream, mark, own_span, span_of_parts
from millrace.lang.windows import begins_span, read_span, read_window

Node = TypeVar("Node", bound=exp.Expr)
Maybe = TypeVar("Maybe", bound=exp.Expr | None)
Item = TypeVar("Item")

STREAMS = ("ISTREAM", "DSTREAM", "RSTREAM")

_CASTS = ("CAST", "TRY_CAST")
_TRIMS = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}
_CONSTANTS = (TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING)
_SIGNS = (TokenType.PLUS, TokenType.DASH, TokenType.NOT)
_NO_TOKEN = Token(TokenType.SENTINEL, "")


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


class ComplaintError(ParseError):
    """A complaint, ours or sqlglot's, with the part of the text that it is about."""

    def __init__(self, message: str, span: Span, code: str = "CQL070", hint: str = "") -> None:
        super().__init__(message, errors=[{"description": message}])
        self.message, self.span, self.code, self.hint = message, span, code, hint
        self.ours = True


class CqlParser(Parser):
    """The parser of queries and conditions."""

    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW  # a = b IS NULL is (a = b) IS NULL
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        **{each: Parser.FUNCTION_PARSERS[each] for each in _CASTS},
        "EXTRACT": lambda self: self._parse_extract_call(),
        "SUBSTRING": lambda self: self._parse_worded_call("SUBSTRING", "FROM", "FOR"),
        "POSITION": lambda self: self._parse_position_call(),
        "TRIM": lambda self: self._parse_trim_call(),
    }
    BITWISE: ClassVar = {
        TokenType.AMP: exp.BitwiseAnd,
        TokenType.PIPE: exp.BitwiseOr,
    }
    EXPONENT: ClassVar = {TokenType.CARET: exp.Pow}
    UNARY_PARSERS: ClassVar = {
        **{each: Parser.UNARY_PARSERS[each] for each in _SIGNS},
        TokenType.RLIKE: lambda self: self._parse_inverted(),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": lambda self: self._parse_case()}
    NO_PAREN_FUNCTIONS: ClassVar = {
        kind: partial(_call, kind.name) for kind in Parser.NO_PAREN_FUNCTIONS
    }

    def condition(self, tokens: list[Token], source: str) -> exp.Expr | None:
        """Parse tokens as one expression."""
        (tree,) = self._parse(lambda self: self._parse_disjunction(), tokens, source)
        return tree

    # ---- windows and streams --------------------------------------------------------------------

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if isinstance(this, exp.Table) and self._curr.token_type == TokenType.L_BRACKET:
            self._hang_window(this)
            return this
        return super()._parse_bracket(this)

    def _parse_subquery(
        self,
        this: exp.Expr | None,
        parse_alias: bool = True,  # noqa: FBT001  sqlglot's
    ) -> exp.Subquery | None:
        windowed = this and parse_alias and self._curr.token_type == TokenType.L_BRACKET
        window = self._window() if windowed else None
        subquery = super()._parse_subquery(this, parse_alias)
        if subquery is not None and window is not None:
            subquery.set(WINDOW, window)
        return subquery

    def _parse_table_alias(
        self, alias_tokens: Collection[TokenType] | None = None
    ) -> exp.TableAlias | None:
        if self._span_follows():
            return None
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and self._curr.token_type == TokenType.L_BRACKET:
            hint = "Write stream [window] AS alias."
            self._refuse("a window must stand before the alias", self._curr, "CQL012", hint)
        return alias

    def _parse_query_modifiers(self, this: Maybe) -> Maybe:
        if this is not None:
            super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and self._span_follows():
            this.set(WINDOW, self._with_cursor(read_span))
            self._parse_query_modifiers(this)
        return this

    def _parse_limit(
        self,
        this: exp.Expr | None = None,
        top: bool = False,  # noqa: FBT001  sqlglot's
        skip_limit_token: bool = False,  # noqa: FBT001
    ) -> exp.Expr | None:
        """Read LIMIT, or FETCH FIRST n ROWS ONLY, which means the same."""
        first = self._curr
        found = super()._parse_limit(this, top, skip_limit_token)
        if not isinstance(found, exp.Fetch):
            return found
        options = found.args.get("limit_options")
        if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
            return found
        count = found.args.get("count") or mark(exp.Literal.number("1"), first, self._prev)
        return mark(exp.Limit(expression=count), first, self._prev)

    def _span_follows(self) -> bool:
        return self._curr.text.upper() == "BEGIN" and self._with_cursor(begins_span)

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., exp.Expr]] | None = None,
        anonymous: bool = False,  # noqa: FBT001  sqlglot's
        optional_parens: bool = True,  # noqa: FBT001
        any_token: bool = False,  # noqa: FBT001
    ) -> exp.Expr | None:
        word = "" if self._curr.token_type == TokenType.IDENTIFIER else self._curr.text.upper()
        if word in STREAMS and self._next.token_type == TokenType.L_PAREN:
            return self._parse_xstream(word)
        first = self._curr
        call = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        return None if call is None else mark(call, first, self._prev)

    def _parse_xstream(self, kind: str) -> exp.Expr:
        first = self._curr
        self._advance(2)
        distinct = self._match(TokenType.DISTINCT)
        query = None if distinct else self._parse_select(nested=True)
        if query is not None:
            query = self._parse_set_operations(query)
            node = XStream(kind=kind, this=query)
        else:
            node = XStream(
                kind=kind, expressions=self._parse_expressions(), distinct=distinct or None
            )
        self._match_r_paren()
        if self._match_text_seq("EVERY"):
            node.set(
                "every", self._with_cursor(lambda cursor: cursor.duration("EVERY", ticks=True))
            )
        return mark(node, first, self._prev)

    def _hang_window(self, table: exp.Table) -> None:
        table.set(WINDOW, self._window())
        if self._curr.token_type == TokenType.L_BRACKET:
            self._refuse("a stream has one window", self._curr)

    def _window(self) -> CqlWindow:
        return self._with_cursor(read_window)

    def _with_cursor(self, read: Callable[[Cursor], Item]) -> Item:
        cursor = Cursor(self._tokens, self.sql, index=self._index)
        found = read(cursor)
        self._retreat(cursor.index)
        return found

    # ---- functions that are written with words -----------------------------------------------

    def _parse_worded_call(self, name: str, *words: str) -> exp.Expr:
        """Read `name(a FROM b FOR c)`, which means `name(a, b, c)`."""
        arguments = self._parse_csv(self._parse_disjunction)
        for word in words:
            if self._match_text_seq(word):
                arguments.append(self._operand())
        return _call(name, *arguments)

    def _parse_position_call(self) -> exp.Expr:
        """Read `POSITION(a IN b)`, which means `POSITION(a, b)`."""
        first = self._parse_bitwise()
        if first is None or not self._match(TokenType.IN):
            rest = self._parse_csv(self._parse_disjunction) if self._match(TokenType.COMMA) else []
            return _call("POSITION", *([first] if first else []), *rest)
        return _call("POSITION", first, self._operand())

    def _parse_trim_call(self) -> exp.Expr:
        """Read `TRIM(LEADING a FROM b)`, which means `LTRIM(b, a)`."""
        side = self._curr.text.upper()
        if side not in _TRIMS or self._next.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            return self._trimmed("TRIM")
        self._advance()
        return self._trimmed(_TRIMS[side])

    def _trimmed(self, name: str) -> exp.Expr:
        if self._match(TokenType.FROM):
            return _call(name, self._operand())
        arguments = self._parse_csv(self._parse_disjunction)
        if len(arguments) == 1 and self._match(TokenType.FROM):
            return _call(name, self._operand(), *arguments)
        return _call(name, *arguments)

    def _parse_extract_call(self) -> exp.Expr:
        """Read `EXTRACT(year FROM a)`, which means `EXTRACT('year', a)`."""
        unit = self._curr
        self._advance()
        if not self._match(TokenType.FROM):
            self._require(TokenType.COMMA, "FROM")
        part = mark(exp.Literal.string(unit.text.lower()), unit, unit)
        return _call("EXTRACT", part, self._operand())

    def _operand(self) -> exp.Expr:
        return self._present(self._parse_bitwise())

    def _condition(self) -> exp.Expr:
        return self._present(self._parse_disjunction())

    def _present(self, found: exp.Expr | None) -> exp.Expr:
        if found is None:
            self._refuse("something is missing here", self._curr)
        return found

    def _parse_inverted(self) -> exp.Expr:
        """Read `~ a`; between two operands `~` matches a regular expression."""
        sign = self._prev
        if sign.text != "~":
            self._refuse("something is missing here", sign)
        return mark(exp.BitwiseNot(this=self._present(self._parse_unary())), sign, self._prev)

    # ---- less lenient ---------------------------------------------------------------------------

    def _parse_as_command(self, start: Token) -> exp.Command:
        self._refuse("statement is not understood", start)

    def _parse_command(self) -> exp.Command:
        return self._parse_as_command(self._prev)

    def _parse_csv(
        self, parse_method: Callable[[], Item | None], sep: TokenType = TokenType.COMMA
    ) -> list[Item]:
        items = []
        while True:
            item = parse_method()
            if item is not None:
                items.append(item)
            elif items or self._curr.token_type == sep:
                self._refuse("something is missing here", self._curr)
            if not self._match(sep):
                return items

    def _parse_case(self) -> exp.Expr | None:
        first = self._prev
        this = None if self._match(TokenType.WHEN, advance=False) else self._condition()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self._condition()
            self._require(TokenType.THEN, "THEN")
            branches.append(exp.If(this=condition, true=self._condition()))
        default = self._condition() if self._match(TokenType.ELSE) else None
        if not branches:
            self._refuse("CASE has no WHEN", first)
        self._require(TokenType.END, "END")
        return mark(exp.Case(this=this, ifs=branches, default=default), first, self._prev)

    def _require(self, kind: TokenType, word: str) -> None:
        if not self._match(kind):
            self._refuse(f'"{word}" was expected here', self._curr)

    def _parse_id_var(
        self,
        any_token: bool = True,  # noqa: FBT001  sqlglot's
        tokens: Collection[TokenType] | None = None,
    ) -> exp.Identifier | None:
        if self._curr.token_type in _CONSTANTS:
            return None
        return cast("exp.Identifier | None", super()._parse_id_var(any_token, tokens))

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        return None

    # ---- positions ------------------------------------------------------------------------------

    def expression(
        self, instance: Node, token: Token | None = None, comments: list[str] | None = None
    ) -> Node:
        """Finish a node; it ends with the last token read and begins with its first part."""
        node = super().expression(instance, token, comments)
        if token is None and own_span(node) is None:
            last = self._prev or self._curr
            parts = [span_of_parts(each) for each in node.iter_expressions()]
            first = min((span.first for span in parts if span), default=last.start)
            node.update_positions(line=last.line, col=last.col, start=first, end=last.end)
        return node

    def _parse_types(self, *args: bool, **options: bool) -> exp.Expr | None:
        first = self._curr
        kind = super()._parse_types(*args, **options)
        if kind is not None and self._prev:
            mark(kind, first, self._prev)
        return kind

    def _parse_select(self, *args: bool, **options: bool) -> exp.Expr | None:
        first = self._curr
        if first.token_type == TokenType.FROM:  # which sqlglot would take for SELECT * FROM
            return None
        query = super()._parse_select(*args, **options)
        return None if query is None else mark(query, first, self._prev)

    def _parse_placeholder(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_placeholder()
        return None if node is None else mark(node, first, self._prev)

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        return exp.DataType(this=exp.DType.USERDEFINED, kind=identifier.name)

    def _parse_primary(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_primary()
        if isinstance(node, exp.Concat):
            self._refuse("two texts stand side by side", self._prev, hint="Join them with ||.")
        if node is not None and own_span(node) is None:
            mark(node, first, self._prev)
        return node

    def raise_error(self, message: str, token: Token = _NO_TOKEN) -> None:
        """Turn sqlglot's complaint into ours."""
        fault = self._fault(message, token or self._curr)
        fault.ours = False
        raise fault

    def _refuse(self, message: str, token: Token, code: str = "CQL070", hint: str = "") -> NoReturn:
        fault = self._fault(message, token)
        fault.code, fault.hint = code, hint
        raise fault

    def _fault(self, message: str, token: Token) -> ComplaintError:
        if token:
            return ComplaintError(message, Span(token.start, token.end + 1))
        end = self._tokens[-1].end + 1 if self._tokens else len(self.sql)
        return ComplaintError(message, Span(end, end))

    def _warn_unsupported(self) -> None:
        """Say nothing: what is not understood is refused."""
