"""Reads the code blocks of README.md and of the pages under docs/. What runs them: test_guides.py, tests/guides,
tests/package/quick_start.sh."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "HACKING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$", re.M | re.S)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block. prints: the text block right after it, which is what it prints. title: the block's caption."""

    language: str
    title: str
    code: str
    line: int
    prints: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        code = textwrap.dedent(match["code"])
        line = text.count("\n", 0, match.start()) + 1
        if language == "text" and found and not text[end : match.start()].strip():
            found[-1] = dataclasses.replace(found[-1], prints=code)
        else:
            found.append(Block(language, title[1] if title else "", code, line, None))
        end = match.end()
    return found
