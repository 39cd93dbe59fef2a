"""Files as a stream: a directory or pattern that grows, read by the workers themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from millrace.connectors.formats.options import ReadOptions
from millrace.connectors.splits import FORMATS, Format, ending_format
from millrace.errors import PlanError


@dataclass(frozen=True, slots=True)
class Files:
    """A source of files; only their names travel through Spark, the workers read the rows.

    Parameters
    ----------
    path
        A directory or a pattern such as `/data/trades/*.parquet`. Files are taken in the order
        of their modification, then of their names, each once. A file must appear complete (write
        it under a hidden name and rename it).
    format
        "parquet", "ndjson" or "csv"; None tells it by each file's ending.
    options
        How text is read: delimiter, header, what stands for NULL.
    settle
        Take a file only when it has not changed for this long, in us.
    """

    path: str
    format: Format | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    settle: int = 0

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise PlanError(
                f'format "{self.format}" does not exist',
                detail=f"The formats are {', '.join(FORMATS)}.",
            )

    @property
    def is_text(self) -> bool:
        """Whether the files are known to be text, by their format or the pattern's ending."""
        return (self.format or ending_format(self.path)) in ("ndjson", "csv")

    def to_json(self) -> dict[str, Any]:
        """Spell the source for the process that lists its files."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        options = {**spelt["options"], "null_strings": tuple(spelt["options"]["null_strings"])}
        return cls(**{**spelt, "options": ReadOptions(**options)})
