"""The language: text to statements, and queries to plans; the only home of sqlglot."""
