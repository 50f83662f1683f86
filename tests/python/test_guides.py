"""Every code block of the guides runs, and prints what the text block after it says.

The python and bash blocks of a page run in their order, in one namespace and one folder, with warnings as errors. bash
blocks titled "In a checkout" build and install the project, which tests/package/quick_start.sh does; cpp and c blocks
are programs of tests/guides.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import guides

_RUN_HERE = [page for page in guides.PAGES if any(b.language in ("python", "bash") for b in guides.blocks(page))]
_NATIVE = os.environ.get("MMAEMU_COMMAND", "")  # read before a fixture takes mmaemu's variables away
_COMMANDS = re.compile(r"^ {4}(\$ |python |pip |cmake |mmaemu |g\+\+ )", re.M)


@pytest.mark.parametrize("page", guides.PAGES, ids=lambda page: page.name)
def test_no_code_is_shown_that_nothing_runs(page):
    unknown = {(b.language, b.line) for b in guides.blocks(page) if b.language not in ("python", "bash", "cpp", "c")}
    assert not unknown, "only python, bash, cpp and c run; output is a text block right after them"
    assert not _COMMANDS.findall(page.read_text()), "commands belong into bash blocks"


@pytest.mark.parametrize("page", _RUN_HERE, ids=lambda page: page.name)
def test_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    needs_library = any("libmmaemu.so" in b.code for b in guides.blocks(page))
    needs_command = any(b.language == "bash" and b.code.startswith("mmaemu ") for b in guides.blocks(page))
    if not _NATIVE and (needs_command or needs_library):
        pytest.skip("MMAEMU_COMMAND does not name a built command")
    if needs_library:  # the dynamic linker finds by its name what is loaded
        ctypes.CDLL(str(Path(_NATIVE).resolve().parents[1] / "cmake" / "libmmaemu.so"))
    folders = [Path(sys.executable).parent, Path(_NATIVE or sys.executable).parent, os.environ["PATH"]]
    monkeypatch.setenv("PATH", ":".join(map(str, folders)))
    session: dict[str, object] = {"__name__": "__main__"}
    for block in guides.blocks(page):
        where = f"{page.name}, line {block.line}"
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * block.line + block.code, page, "exec"), session)
            output = printed.getvalue()
        elif block.language == "bash" and block.title != "In a checkout":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], capture_output=True, text=True)
            assert done.returncode == 0, f"{where}: {done.stderr}"
            output = done.stdout
        else:
            continue
        if block.prints is not None:
            assert output == block.prints, where


def test_readme_shows_each_way_in():
    shown = guides.blocks(guides.ROOT / "README.md")
    assert {"python", "bash", "cpp"} <= {block.language for block in shown}
    assert sum("python -m mmaemu" in block.code for block in shown) >= 1
