"""Functions that other systems have under names that mean nothing here, and what to write."""

from __future__ import annotations

_CLOCK = "Answers depend on the data alone: use the stream's own time column."
_CHANCE = "Answers depend on the data alone: chance would make others of them each time."
_WINDOW = "Put a window behind the stream: [RANGE 1 MINUTE SLIDE 1 MINUTE]."

INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        ("now", "getdate", "sysdate", "localtimestamp", "today", "unix_timestamp"), _CLOCK
    ),
    **dict.fromkeys(("random", "rand", "uuid", "gen_random_uuid", "newid"), _CHANCE),
    **dict.fromkeys(
        ("tumble", "tumbling", "hop", "hopping", "session", "window", "date_bin"), _WINDOW
    ),
    "approx_percentile": "Write percentile_cont(x, 0.9).",
    "approx_quantile": "Write percentile_cont(x, 0.9).",
    "collect_list": "Write array_agg(x).",
    "collect_set": "Write array_agg(DISTINCT x).",
    **dict.fromkeys(
        ("approx_count_distinct", "approx_distinct", "count_distinct"), "Write count(DISTINCT x)."
    ),
    **dict.fromkeys(
        ("approx_top_k", "approx_most_frequent"), "Write GROUP BY x ORDER BY count(*) DESC LIMIT k."
    ),
    "stdev": "Write stddev(x).",
    "iff": "Write CASE WHEN ... THEN ... ELSE ... END.",
    "decode": "Write CASE x WHEN ... THEN ... ELSE ... END.",
    "isnull": "Write x IS NULL, or coalesce(x, y).",
    "to_date": "Write CAST(x AS date).",
    "to_char": "Write strftime(x, '%Y-%m-%d').",
    "date_format": "Write strftime(x, '%Y-%m-%d').",
}
"""The hint for each name."""
