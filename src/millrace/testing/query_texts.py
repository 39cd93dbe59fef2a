"""Random CQL: queries over two streams `p` and `q` of (a, b), which answer two integers x and y."""

from __future__ import annotations

from hypothesis import strategies as st

WINDOWS = (
    "",
    " [NOW]",
    " [ROWS 2]",
    " [RANGE 3]",
    " [RANGE 4 SLIDE 2]",
    " [ROWS UNBOUNDED]",
    " [PARTITION BY a ROWS 1]",
    " [BEGIN 2 END NOW]",
)
DERIVED = ("", " [ROWS 2]", " [RANGE 3]", " [NOW]")


@st.composite
def queries(draw: st.DrawFn, *, windows: bool = True, asking: bool = True, depth: int = 2) -> str:
    """Draw a query; without windows it is plain SQL, and with `asking` it may hold subqueries."""

    def below() -> str:
        return draw(queries(windows=windows, asking=asking, depth=depth - 1))

    if depth > 0 and draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT"]))
        return f"({below()}) {kind} ({below()})"

    def item(alias: str) -> str:
        if depth == 0 or draw(st.booleans()):
            window = draw(st.sampled_from(WINDOWS)) if windows else ""
            return f"{draw(st.sampled_from('pq'))}{window} AS {alias}(x, y)"
        if not windows or draw(st.booleans()):
            return f"({below()}) AS {alias}"
        kind = draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
        return f"{kind}({below()}){draw(st.sampled_from(DERIVED))} AS {alias}"

    origin = item("r")
    columns = ["r.x", "r.y"]
    if draw(st.booleans()):
        join = draw(st.sampled_from([",", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
        origin += f" {join} {item('t')}" + ("" if join == "," else " ON r.x = t.x")
        columns += ["t.x", "t.y"]

    def column() -> str:
        return draw(st.sampled_from(columns))

    tests = [f"{column()} = {column()}", f"{column()} > 1", f"{column()} IS NULL", "TRUE"]
    tests += [f"NOT ({column()} < 2 OR {column()} = 0)"]
    if asking:
        tests += [
            f"{column()} {draw(st.sampled_from(['IN', 'NOT IN']))} (SELECT a FROM p AS z)",
            f"EXISTS (SELECT 1 FROM q AS z WHERE z.a = {column()})",
            f"{column()} > (SELECT max(z.b) FROM q AS z WHERE z.a = {column()})",
        ]
    where = draw(st.sampled_from(tests))
    if draw(st.integers(0, 2)) > 0:
        distinct = draw(st.sampled_from(["", "DISTINCT "]))
        listed = f"{distinct}{column()} AS x, {column()} + 1 AS y"
        return f"SELECT {listed} FROM {origin} WHERE {where}"
    key, value = column(), column()
    aggregate = draw(st.sampled_from(["count(*)", "count({})", "sum({})", "max({})", "min({})"]))
    having = draw(st.sampled_from(["", " HAVING count(*) > 1", f" HAVING {key} > 0"]))
    listed = f"{key} AS x, {aggregate.format(value)} AS y"
    group = draw(st.sampled_from([key, "1", f"{key}, {key}"]))
    return f"SELECT {listed} FROM {origin} WHERE {where} GROUP BY {group}{having}"
