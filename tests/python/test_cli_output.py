"""Where the command line writes, in which colours, and how little it loads."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calls import plain_environment, read_terminal, run_cli, run_command

OK, FAILED, USAGE = 0, 1, 2
VALID = ("explain", "64", "256", "2048", "--profile", "ada", "--splitk", "1")
REFUSED = ("explain", "64", "24", "2048")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command prints to a terminal."""
    terminal, its_end = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "mmaemu", *arguments],
            env=plain_environment() | {"MMAEMU_DISABLE_CUDA": "1", "TERM": "xterm"} | environment,
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            timeout=60,
            check=False,
        )
        os.close(its_end)
        its_end = -1
        return read_terminal(terminal)
    finally:
        os.close(terminal)
        if its_end >= 0:
            os.close(its_end)


# --- --json ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [("info",), ("selftest",), VALID, REFUSED], ids=" ".join)
def test_json_goes_to_a_file_and_the_text_to_standard_output(tmp_path: Path, call: tuple[str, ...]) -> None:
    path = tmp_path / "report.json"
    plain = run_cli(*call)
    result = run_cli(*call, "--json", str(path))
    assert (result.returncode, result.stdout, result.stderr) == (plain.returncode, plain.stdout, "")
    assert json.loads(path.read_text()) == json.loads(run_cli(*call, "--json", "-").stdout)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("call", [("info",), ("selftest",), VALID, REFUSED], ids=" ".join)
def test_json_to_a_dash_is_all_of_standard_output(call: tuple[str, ...]) -> None:
    result = run_cli(*call, "--json", "-")
    assert isinstance(json.loads(result.stdout), dict)
    assert result.stdout.endswith("}\n")
    assert result.returncode == run_cli(*call).returncode


def test_json_replaces_a_file_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o640)
    assert run_cli(*VALID, "--json", str(path)).returncode == OK
    assert "plan" in json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_json_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    path = tmp_path / "report.json"
    assert run_cli(*VALID, "--json", str(path)).returncode == OK
    assert path.stat().st_mode == other.stat().st_mode


def test_json_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    assert run_cli(*VALID, "--json", str(link)).returncode == OK
    assert link.is_symlink()
    assert "plan" in json.loads(target.read_text())


def test_json_to_a_relative_path_lands_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(*VALID, "--json", "report.json").returncode == OK
    assert (tmp_path / "report.json").is_file()


def test_json_is_written_into_a_pipe_or_a_device(tmp_path: Path) -> None:
    """And not put in its place."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert run_cli(*VALID, "--json", str(fifo)).returncode == OK
            assert "plan" in json.loads(reader.communicate(timeout=30)[0])
        finally:
            reader.kill()
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/report.json", "No such file or directory"),
        ("", "Is a directory"),
        ("file/report.json", "Not a directory"),
    ],
    ids=["no folder", "a folder", "a file as folder"],
)
def test_a_path_that_cannot_be_written_is_a_usage_error(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "file").write_text("kept")
    target = os.path.join(tmp_path, path)
    result = run_cli(*VALID, "--json", target)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert result.stderr == f"python -m mmaemu explain: error: --json: cannot write {target}: {reason}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_device_is_a_usage_error() -> None:
    result = run_cli(*VALID, "--json", "/dev/full")
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "--json: cannot write /dev/full: No space left on device" in result.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_file_that_grows_too_large_is_a_usage_error_and_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    result = run_command(
        "-c",
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from mmaemu.cli import main\n"
        f"sys.exit(main(['info', '--json', {str(path)!r}]))",
    )
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert f"--json: cannot write {path}: File too large" in result.stderr
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        [sys.executable, "-m", "mmaemu", "info"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env=plain_environment(),
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert result.stderr == ""


# --- colour ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [("info",), VALID, REFUSED], ids=" ".join)
def test_colour_is_for_terminals_only(call: tuple[str, ...]) -> None:
    printed = on_a_terminal(*call)
    plain = run_cli(*call).stdout
    assert "\x1b[" in printed
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", printed).replace("\r\n", "\n") == plain


def test_what_is_well_is_green_and_what_is_not_is_red() -> None:
    assert "\x1b[32mok\x1b[0m" in on_a_terminal(*VALID)
    assert "\x1b[31mwould raise \x1b[0m" in on_a_terminal(*REFUSED)
    assert "\x1b[32mavailable\x1b[0m" in on_a_terminal("info")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_may_ask_for_no_colour(environment: dict[str, str]) -> None:
    assert "\x1b" not in on_a_terminal(*VALID, **environment)


def test_json_is_never_coloured() -> None:
    assert json.loads(on_a_terminal(*VALID, "--json", "-"))["plan"]["validation"] == "ok"


# --- what is loaded, and how long it takes --------------------------------------------------------------------


@pytest.mark.parametrize("call", [("info",), ("selftest",), VALID, REFUSED, ("explain", "--help")], ids=" ".join)
def test_no_command_imports_torch_or_numpy(call: tuple[str, ...]) -> None:
    result = run_command("-X", "importtime", "-m", "mmaemu", *call)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert "mmaemu" in loaded
    assert not loaded & {"torch", "numpy", "ml_dtypes"}


def test_explain_takes_less_than_0_3_seconds() -> None:
    def seconds() -> float:
        start = time.monotonic()
        assert run_cli(*VALID).returncode == OK
        return time.monotonic() - start

    assert min(seconds() for _ in range(5)) < 0.3
