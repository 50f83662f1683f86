"""The Python examples and the command lines that README.md and docs/models.md show do run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
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


def test_the_session_of_docs_models_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    text, session = (ROOT / "docs" / "models.md").read_text(), {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, "docs/models.md", "exec"), session)
    assert "2 FP8 products" in capsys.readouterr().out
    (command,) = re.findall(r"^    python -m mmaemu (.*--html.*)$", text, re.M)
    done = subprocess.run([sys.executable, "-m", "mmaemu", *shlex.split(command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"run1", "report.html", "report.json"}
