"""The Python examples and the command lines that README.md shows do run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^    (python -m mmaemu .*)$", README, re.M)


def test_readme_shows_python_and_commands():
    assert "```python" in README
    assert len(COMMANDS) >= 2


def test_python_example_runs(capsys):
    pytest.importorskip("torch")
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(compile(block, "README.md", "exec"), {})
    assert "validation" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command):
    arguments = shlex.split(command)[1:]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
