"""Text rules like those that detect attacks in logs, and log rows to ask them of.

A rule has one to four clauses, all of which must hold; a clause is one to five patterns, one of
which must be found; about one clause in five behind the first is a filter that must not hold:

    (command_line LIKE '%certutil%urlcache%' OR contains(command_line, 'bitsadmin'))
    AND image ~ 'power(shell|cmd)[0-9]*$' AND NOT (contains(user, 'svc-backup'))

Patterns are made of the words that rows are made of, and of words that no row has. Words are as
frequent as in prose: the n-th has a share of 1 / n.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SEED = 11
N_COLUMNS = 20
N_WORDS = 4_000
COMMON_WORDS = 40
"""As many words are in most rows; a rule of them alone would tell nothing, so none uses them."""
LETTERS = "etaoinshrdlucmfwypvbgk"
NAMES = tuple(f"field_{number:02d}" for number in range(N_COLUMNS))
RULE_COLUMNS = f"{', '.join(f'{name} string' for name in NAMES)}, ts timestamp"

Kind = Literal["contains", "starts", "ends", "like", "regex"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for in one column."""

    kind: Kind
    column: str
    text: str

    def sql(self) -> str:
        """Return it as SQL."""
        match self.kind:
            case "contains":
                return f"contains({self.column}, '{self.text}')"
            case "starts":
                return f"starts_with({self.column}, '{self.text}')"
            case "ends":
                return f"ends_with({self.column}, '{self.text}')"
            case "like":
                return f"{self.column} LIKE '{self.text}'"
            case "regex":
                return f"{self.column} ~ '{self.text}'"

    def mask(self, rows: pa.RecordBatch) -> pa.Array:
        """Ask the one Arrow kernel that answers it."""
        kernel = {
            "contains": pc.match_substring,
            "starts": pc.starts_with,
            "ends": pc.ends_with,
            "like": pc.match_like,
            "regex": pc.match_substring_regex,
        }[self.kind]
        return kernel(rows.column(self.column), self.text)


@dataclass(frozen=True, slots=True)
class Clause:
    """Patterns of which one must be found, or none."""

    patterns: tuple[Pattern, ...]
    negated: bool

    def sql(self) -> str:
        """Return it as SQL."""
        either = f"({' OR '.join(each.sql() for each in self.patterns)})"
        return f"NOT {either}" if self.negated else either


Rule = tuple[Clause, ...]


def rule_text(rule: Rule) -> str:
    """Return a rule as a standing query."""
    return f"SELECT field_00 FROM rows WHERE {' AND '.join(each.sql() for each in rule)}"


def arrow_mask(rule: Rule, rows: pa.RecordBatch) -> pa.Array:
    """Ask a rule of rows, one kernel for each pattern."""
    masks = []
    for clause in rule:
        found = reduce(pc.or_kleene, (each.mask(rows) for each in clause.patterns))
        masks.append(pc.invert(found) if clause.negated else found)
    return reduce(pc.and_kleene, masks)


@lru_cache(maxsize=2)
def draw_rules(n_rules: int) -> list[Rule]:
    """Draw rules; a worker that is used again remembers them."""
    chance = random.Random(SEED)
    words = _words()
    return [_rule(chance, words[COMMON_WORDS:]) for _ in range(n_rules)]


def log_rows(n_rows: int) -> pa.Table:
    """Draw rows of 20 columns, of 1 to 12 words each; a value in seven is NULL."""
    chance = np.random.default_rng(SEED + 1)
    words = np.array(_words())
    shares = 1 / np.arange(1, words.size + 1)
    columns: dict[str, pa.Array] = {}
    for at, name in enumerate(NAMES):
        longest = 12 if at % 5 == 0 else 4
        lengths = chance.integers(1, longest + 1, n_rows)
        drawn = iter(chance.choice(words, lengths.sum(), p=shares / shares.sum()).tolist())
        joint = " " if at % 2 == 0 else "/"
        values = [joint.join(next(drawn) for _ in range(length)) for length in lengths.tolist()]
        columns[name] = pa.array(values, mask=chance.random(n_rows) < 1 / 7)
    times = pa.array(np.arange(n_rows), pa.timestamp("us", tz="UTC"))
    return pa.table({**columns, "ts": times})


def _rule(chance: random.Random, words: list[str]) -> Rule:
    n_clauses = chance.choices((1, 2, 3, 4), (35, 35, 20, 10))[0]
    return tuple(
        _clause(chance, words, negated=at > 0 and chance.random() < 0.2) for at in range(n_clauses)
    )


def _clause(chance: random.Random, words: list[str], *, negated: bool) -> Clause:
    columns = chance.sample(NAMES, k=chance.choice((1, 1, 1, 2)))
    n_patterns = chance.choices((1, 2, 3, 4, 5), (35, 25, 20, 10, 10))[0]
    return Clause(
        tuple(_pattern(chance, words, chance.choice(columns)) for _ in range(n_patterns)), negated
    )


def _pattern(chance: random.Random, words: list[str], column: str) -> Pattern:
    kinds: tuple[Kind, ...] = ("contains", "starts", "ends", "like", "regex")
    kind = chance.choices(kinds, (40, 8, 12, 30, 10))[0]
    # Low places in the list are frequent words; rules name frequent and rare ones alike.
    first, second = (words[int(len(words) * chance.random() ** 2)] for _ in range(2))
    if chance.random() < 0.3:
        first = f"{first[:4]}{chance.choice('xyzqj')}{first[4:]}"
    match kind:
        case "like":
            shapes = (f"%{first}%", f"{first}%", f"%{first}", f"%{first}%{second}%")
            return Pattern(kind, column, chance.choice(shapes))
        case "regex":
            shapes = (
                f"{first}[ /]{second}",
                f"({first}|{second})$",
                f"{first}.*{second[:3]}[a-m]+",
                f"^{first}[a-z0-9]*",
            )
            return Pattern(kind, column, chance.choice(shapes))
        case _:
            return Pattern(kind, column, first)


@lru_cache(maxsize=1)
def _words() -> list[str]:
    chance = random.Random(SEED + 2)
    shares = list(accumulate(1 / (place + 4) for place in range(len(LETTERS))))
    drawn = (
        "".join(chance.choices(LETTERS, cum_weights=shares, k=chance.randint(3, 11)))
        for _ in range(4 * N_WORDS)
    )
    return list(dict.fromkeys(each for each in drawn if len(each) > 4))[:N_WORDS]
