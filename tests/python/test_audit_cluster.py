"""Wherever the pieces of an audit run, and whatever dies, the report is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mmaemu
from calls import plain_environment, run_command
from mmaemu import _audit_tasks, _pools, _recorded
from test_audit import _without_times, flip, record_model

pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of a platform that is not the audited one, and one flipped bit."""
    path = tmp_path_factory.mktemp("recordings") / "ada"
    record_model(path, "ada", passes=25)
    flip(path, _recorded.read_calls(path)[0][42], "result", 100, 3)
    return path


@pytest.fixture(scope="module")
def expected(recording: Path) -> Any:
    report = mmaemu.audit(recording, profile="hopper", splitk=1)
    assert report.count("different") > 50
    return _without_times(report)


def test_processes_of_this_machine_give_the_same_report(recording: Path, expected: Any) -> None:
    report = mmaemu.audit(recording, profile="hopper", splitk=1, workers=2)
    assert _without_times(report) == expected


def _die_once(mark: str, place: int) -> int:
    """Kills its process the first time that it gets place 3."""
    if place == 3 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return place * place


def _die(place: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_takes_no_piece_with_it(tmp_path: Path) -> None:
    pool = _pools.Processes(2)
    try:
        items = ((place, (str(tmp_path / "mark"), place)) for place in range(20))
        results = list(pool.run(_die_once, items))
    finally:
        pool.close()
    assert sorted(results) == [(place, place * place) for place in range(20)]
    assert (tmp_path / "mark").exists()


def test_processes_that_keep_dying_end_the_audit() -> None:
    pool = _pools.Processes(1)
    try:
        with pytest.raises(mmaemu.MmaemuError, match="a worker process died"):
            list(pool.run(_die, [(0, (0,))]))
    finally:
        pool.close()


def _fail(place: int) -> None:
    raise ZeroDivisionError(place)


def test_an_error_of_a_piece_comes_through() -> None:
    for pool in (_pools.InProcess(), _pools.Processes(1)):
        try:
            with pytest.raises(ZeroDivisionError):
                list(pool.run(_fail, [(0, (5,))]))
        finally:
            pool.close()


# The state of an audit.


def interrupted(recording: Path, state: Path, after: int) -> None:
    """An audit that its driver ends in the middle."""

    class EnoughError(Exception):
        pass

    pieces = 0

    def progress(done: int, whole: int) -> None:
        nonlocal pieces
        pieces += 1
        if pieces > after:
            raise EnoughError

    with pytest.raises(EnoughError):
        mmaemu.audit(recording, profile="hopper", splitk=1, state=state, progress=progress)


def test_an_audit_goes_on_where_it_was_interrupted(
    recording: Path, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    interrupted(recording, state, 30)
    kept = len(state.read_text().splitlines()) - 1
    assert 25 <= kept <= 31
    examined, examine = [], _audit_tasks.examine
    monkeypatch.setattr(_audit_tasks, "examine", lambda *a: examined.append(a) or examine(*a))
    report = mmaemu.audit(recording, profile="hopper", splitk=1, state=state)
    assert len(examined) == 100 - kept
    assert _without_times(report) == expected
    assert _without_times(mmaemu.audit(recording, profile="hopper", splitk=1, state=state)) == expected
    assert len(examined) == 100 - kept


def test_a_state_serves_only_the_audit_that_it_is_of(recording: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    mmaemu.audit(recording, profile="hopper", splitk=1, state=state)
    for options in ({"profile": "ada", "splitk": 1}, {"profile": "ada"}):
        with_state = mmaemu.audit(recording, **options, state=state)
        assert _without_times(with_state) == _without_times(mmaemu.audit(recording, **options))


def test_a_result_that_changed_since_is_checked_again(tmp_path: Path) -> None:
    path, state = tmp_path / "recording", tmp_path / "state"
    record_model(path, "ada", passes=2)
    assert mmaemu.audit(path, profile="ada", splitk=1, state=state).exit_code == 0
    flip(path, _recorded.read_calls(path)[0][0], "result", 5, 0)
    assert mmaemu.audit(path, profile="ada", splitk=1, state=state).exit_code == 1


@pytest.mark.parametrize("cut", [1, 200])
def test_a_state_that_was_cut_or_edited_costs_time_alone(
    recording: Path, expected: Any, tmp_path: Path, cut: int
) -> None:
    state = tmp_path / "state"
    interrupted(recording, state, 20)
    lines = state.read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace("different", "identical").replace('"seconds":0', '"seconds":1')
    lines[4] = "garbage\n"
    state.write_text("".join(lines)[:-cut])
    assert _without_times(mmaemu.audit(recording, profile="hopper", splitk=1, state=state)) == expected
    assert _without_times(mmaemu.audit(recording, profile="hopper", splitk=1, state=state)) == expected


def test_nothing_is_appended_to_what_is_no_state(recording: Path, tmp_path: Path) -> None:
    for name, make in (("text", lambda p: p.write_text("precious")), ("folder", lambda p: p.mkdir())):
        make(tmp_path / name)
        with pytest.raises(mmaemu.RecordingError, match=str(tmp_path / name)):
            mmaemu.audit(recording, profile="ada", state=tmp_path / name)
    assert (tmp_path / "text").read_text() == "precious"
    with pytest.raises(mmaemu.RecordingError, match="index"):
        mmaemu.audit(recording, profile="ada", state=recording / "index.jsonl")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"workers": 0}, ValueError),
        ({"workers": 1.0}, TypeError),
        ({"workers": True}, TypeError),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, ValueError),
    ],
)
def test_workers_that_do_not_fit_raise(recording: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        mmaemu.audit(recording, **options)


def test_the_command_shares_the_work_and_keeps_its_state(recording: Path, expected: Any, tmp_path: Path) -> None:
    options = ["--profile", "hopper", "--splitk", "1", "--workers", "2", "--state", str(tmp_path / "state")]
    for _ in range(2):
        result = run_command("-m", "mmaemu", "audit", str(recording), *options, "--json", "-", timeout=120)
        assert (result.returncode, result.stderr) == (1, "")
        assert json.loads(result.stdout)["counts"] == expected["counts"]
    result = run_command("-m", "mmaemu", "audit", str(recording), "--workers", "none")
    assert result.returncode == 2


def test_without_distributed_the_error_says_what_to_install(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(mmaemu.MmaemuError, match=r"pip install distributed"):
        mmaemu.audit(recording, scheduler="tcp://127.0.0.1:1")


# A Dask cluster: a scheduler and two workers in processes of their own.


class Cluster:
    """scheduler: its address. workers: the processes, which their owner may kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", str(file), "--no-dashboard")
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text().endswith("}"):
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.1)
        self.scheduler = json.loads(file.read_text())["address"]
        self.workers = [self._worker() for _ in range(2)]

    def _worker(self) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self._folder))
        return self._start("distributed.cli.dask_worker", self.scheduler, *options)

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *options],
            env=plain_environment() | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(process)
        return process

    def stop(self) -> None:
        for process in reversed(self._started):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    running = Cluster(tmp_path)
    yield running
    running.stop()


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_a_cluster_gives_the_same_report(recording: Path, expected: Any, cluster: Cluster) -> None:
    import distributed

    assert _without_times(mmaemu.audit(recording, profile="hopper", splitk=1, scheduler=cluster.scheduler)) == expected
    with distributed.Client(cluster.scheduler) as client:
        client.wait_for_workers(2, timeout=60)
        assert _without_times(mmaemu.audit(recording, profile="hopper", splitk=1, scheduler=client)) == expected
        assert len(client.nthreads()) == 2  # a client that was given stays open


def test_a_worker_killed_in_the_middle_changes_nothing(recording: Path, expected: Any, cluster: Cluster) -> None:
    import distributed

    with distributed.Client(cluster.scheduler) as client:
        client.wait_for_workers(2, timeout=60)
    pieces = 0

    def kill_one(done: int, whole: int) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 10:
            cluster.workers[0].kill()

    report = mmaemu.audit(recording, profile="hopper", splitk=1, scheduler=cluster.scheduler, progress=kill_one)
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert _without_times(report) == expected


def test_pieces_of_one_call_on_a_cluster_are_put_together(
    recording: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_audit_tasks, "_TILE", 3 * 64 * 32)
    report = mmaemu.audit(recording, profile="hopper", splitk=1, scheduler=cluster.scheduler)
    monkeypatch.undo()
    assert _without_times(report) == _without_times(mmaemu.audit(recording, profile="hopper", splitk=1))


def test_a_scheduler_that_is_not_there_is_told(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: client(address, timeout="1s"))
    threading.excepthook, hook = lambda _: None, threading.excepthook
    try:
        with pytest.raises(mmaemu.MmaemuError, match=r"cannot reach the Dask scheduler tcp://127\.0\.0\.1:1"):
            mmaemu.audit(recording, scheduler="tcp://127.0.0.1:1")
    finally:
        threading.excepthook = hook
