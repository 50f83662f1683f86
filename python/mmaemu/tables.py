"""A table that prints as aligned text and, in Jupyter, as HTML."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, repr=False)
class Table:
    """Cells of text under a header, with a line that sums them up."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(row[i]) for row in lines) for i in range(len(self.header))]
        text = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines
        ]
        return "\n".join([self.caption, *text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table><caption>{html.escape(self.caption)}</caption><tr>{head}</tr>{body}</table>"
