"""What MkDocs needs beside the pages: HACKING.md and CHANGELOG.md as pages, the C++ reference, inlined drawings.

The C++ reference shows each public declaration as the header has it, under the comment that stands above it: Doxygen
says which lines are whose, the header says the rest.
"""

from __future__ import annotations

import html
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include" / "mmaemu"
ORDER = ("gemm", "preset", "plan", "platform", "call", "formats", "status")  # others follow
DOXYFILE = """
INPUT = {headers}
OUTPUT_DIRECTORY = {out}
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
EXTRACT_ALL = YES
XML_PROGRAMLISTING = NO
ENABLE_PREPROCESSING = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = MMAEMU_API=
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


def on_files(files: Files, config: Any) -> Files:
    pages = {
        "contributing.md": (ROOT / "HACKING.md").read_text(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "cpp_reference.md": cpp_reference(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=re.sub(r"\]\(docs/", "](", text)))
    return files


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    def inlined(match: re.Match[str]) -> str:
        drawing = ROOT / "docs" / "figures" / match["name"]
        svg = drawing.read_text()
        svg = svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{match["alt"]}" ', 1)
        return f'<figure class="drawing">{svg}</figure>'

    return re.sub(r'<img alt="(?P<alt>[^"]*)" src="[./]*figures/(?P<name>\w+\.svg)"\s*/?>', inlined, content)


def cpp_reference() -> str:
    """The public headers as one page of Markdown."""
    parts = [
        "# C++ reference\n\nEvery public declaration, as its header has it. All of it is in namespace `mmaemu`; link "
        "`mmaemu::mmaemu` ([C++ guide](cpp.md)).\n"
    ]
    declarations = _declarations()
    names = sorted(declarations, key=lambda name: (*(known == name for known in ORDER), False), reverse=True)
    for name in names:
        lines = (HEADERS / f"{name}.h").read_text().splitlines()
        about = " ".join(_comment_above(lines, _first_code(lines)))
        parts.append(f"## mmaemu/{name}.h\n\n{_linked(about)}\n")
        for first, last, title in declarations[name]:
            comment = _comment_above(lines, first - 1)
            code = "\n".join(lines[first - 1 : last])
            text = "\n".join(comment)
            language = "c" if name == "mmaemu" else "cpp"
            parts.append(f"### {title}\n\n{_linked(html.escape(text, quote=False))}\n\n```{language}\n{code}\n```\n")
    return "\n".join(parts)


def _linked(text: str) -> str:
    return re.sub(r"\bdocs/(\w+\.md)\b", r"[\1](\1)", text)


_COMMENT = re.compile(r"^(//|/\*| \*)")


def _first_code(lines: list[str]) -> int:
    return next(i for i, line in enumerate(lines) if not _COMMENT.match(line))


def _comment_above(lines: list[str], index: int) -> list[str]:
    """The text of the comment that ends above a line."""
    first = index
    while first > 0 and _COMMENT.match(lines[first - 1]):
        first -= 1
    return [_COMMENT.sub("", line).removesuffix("*/").strip() for line in lines[first:index]]


def _declarations() -> dict[str, list[tuple[int, int, str]]]:
    """Header name -> (first line, last line, title) of its declarations at namespace level, in their order."""
    with tempfile.TemporaryDirectory() as out:
        doxyfile = DOXYFILE.format(headers=HEADERS, out=out)
        done = subprocess.run(["doxygen", "-"], input=doxyfile, text=True, capture_output=True)
        if done.returncode != 0:
            raise PluginError(f"doxygen: {done.stderr}")
        found: dict[str, list[tuple[int, int, str]]] = {}
        roots = [ET.parse(path).getroot() for path in sorted(Path(out, "xml").glob("*.xml"))]
        classes = {e.findtext("compoundname") for root in roots for e in _entities(root)}
        for root in roots:
            for entity in _entities(root):
                if entity.get("kind") == "typedef" and entity.findtext("name") in classes:
                    continue  # C's second name of a struct
                place = entity.find("location")
                assert place is not None
                header = Path(place.attrib["file"])
                lines = header.read_text().splitlines()
                first = int(place.attrib.get("bodystart", place.attrib["line"]))
                first = min(first, int(place.attrib["line"]))
                last = _end(lines, first)
                title = _title(entity)
                found.setdefault(header.stem, []).append((first, last, title))
    return {name: sorted(set(rows)) for name, rows in found.items()}


def _entities(root: ET.Element) -> list[ET.Element]:
    """Members of the namespace or, in C, of the file, and classes that are in no other class."""
    entities = []
    for compound in root.findall("compounddef"):
        name = compound.findtext("compoundname", "")
        if compound.get("kind") in ("namespace", "file"):
            entities += [m for m in compound.iter("memberdef") if m.get("kind") != "define"]
        elif compound.get("kind") in ("class", "struct") and name.count("::") <= 1:
            entities.append(compound)
    return entities


def _title(entity: ET.Element) -> str:
    name = (entity.findtext("name") or entity.findtext("compoundname") or "").removeprefix("mmaemu::")
    return f"`{name}`"


def _end(lines: list[str], first: int) -> int:
    """The last line of a declaration that begins at line `first`: where its braces and parentheses have closed."""
    depth = 0
    for number in range(first, len(lines) + 1):
        code = re.sub(r"//.*|/\*.*?\*/", "", lines[number - 1])
        depth += sum(code.count(c) for c in "({") - sum(code.count(c) for c in ")}")
        if depth == 0 and (";" in code or "}" in code):
            return number
    raise PluginError(f"no end of the declaration at line {first}")
