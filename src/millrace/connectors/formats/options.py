"""How files are read: what CSV needs to know, and how large pieces may become."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    r"""Options of reading; the defaults suit files that programs write.

    Attributes
    ----------
    header
        Whether a CSV file starts with the names of its columns. With it, columns are found by
        name and others ignored; without it, the file has exactly the schema's columns in order.
    delimiter, quote
        One ASCII character each; an empty `quote` means that there is none.
    null_strings
        What stands for NULL in CSV, if it is not quoted.
    piece_rows, block_bytes
        The most rows in a piece, and how many bytes are read at once.
    max_record_bytes
        A longer line or record is a reject.

    Examples
    --------
    >>> ReadOptions(delimiter=";", null_strings=("", "NA")).header
    True
    """

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null_strings: tuple[str, ...] = ("",)
    piece_rows: int = 65_536
    block_bytes: int = 8 << 20
    max_record_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            empty = name == "quote" and mark == ""
            if not empty and (len(mark) != 1 or not mark.isascii() or mark in "\r\n\0"):
                raise PlanError(
                    f"{name} {mark!r} is not one ASCII character",
                    hint='A tab is written as "\\t".',
                )
        if self.delimiter == self.quote:
            raise PlanError(f"{self.quote!r} is both the delimiter and the quote")
        if min(self.piece_rows, self.block_bytes, self.max_record_bytes) < 1:
            raise PlanError("piece_rows, block_bytes and max_record_bytes are at least 1")
