"""A recording holds each FP8 call once, survives interruption, and never takes more than it may."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import mmaemu
from calls import E4M3, arguments, bits, codes, plain_environment, run_python
from mmaemu import _recorded, _store
from test_emulate import Float8Linear, Model, StandIn, native

pytest.importorskip("safetensors")


def read(path: Path) -> list[_recorded.RecordedCall]:
    calls, problems = _recorded.read_calls(path)
    assert problems == []
    return calls


def load(path: Path, call: _recorded.RecordedCall, name: str) -> torch.Tensor:
    return _recorded.Shards(path).load(call.tensors[name], transposed=name == "mat2")


def test_a_call_is_saved_with_everything_that_decides_its_bits(tmp_path: Path) -> None:
    given = arguments(input=codes(5, 32, torch.float8_e5m2, seed=3), scale_result=torch.tensor(0.01), out_dtype=E4M3)
    with mmaemu.record(tmp_path), mmaemu.emulate("ada", splitk=1):
        result = native(**{k: given[k] for k in given if k not in ("splitk", "profile")}, use_fast_accum=True)
    (call,) = read(tmp_path)
    assert (call.number, call.operator, call.module) == (0, "aten._scaled_mm.default", None)
    assert (call.device, call.computed_by) == ("cpu", "mmaemu, profile ada")
    assert (call.out_dtype, call.use_fast_accum, call.out) == ("float8_e4m3fn", True, None)
    assert call.split["S"] == 1
    assert call.sizes == (5, 16, 32)
    for name in ("input", "scale_a", "scale_b", "scale_result"):
        assert bits(load(tmp_path, call, name)) == bits(given[name])
        assert call.tensors[name].layout.strides == given[name].stride()
    assert bits(load(tmp_path, call, "mat2")) == bits(given["mat2"].t())
    assert call.tensors["mat2"].layout.strides == (1, 32)
    assert bits(load(tmp_path, call, "result")) == bits(result)
    assert set(call.tensors) == {"input", "mat2", "scale_a", "scale_b", "scale_result", "result"}


def test_a_native_result_is_saved_as_native(tmp_path: Path) -> None:
    with StandIn(), mmaemu.record(tmp_path) as recording:
        result = native(bias=torch.ones(16))
    (call,) = read(tmp_path)
    assert call.computed_by == "native"
    assert call.split is None
    assert bits(load(tmp_path, call, "result")) == bits(result)
    assert bits(load(tmp_path, call, "bias")) == bits(torch.ones(16))
    assert recording.calls == 1


@pytest.mark.parametrize("outside", [True, False])
def test_an_emulated_call_is_saved_once_whichever_is_outside(tmp_path: Path, outside: bool) -> None:
    contexts = [mmaemu.record(tmp_path), mmaemu.emulate("ada", splitk=1)]
    first, second = contexts if outside else contexts[::-1]
    with first, second:
        native()
        native(use_fast_accum=True)
    calls = read(tmp_path)
    assert [call.computed_by for call in calls] == ["mmaemu, profile ada"] * 2
    assert [call.use_fast_accum for call in calls] == [False, True]


def test_what_an_emulation_leaves_to_the_machine_is_native(tmp_path: Path) -> None:
    bias = {"bias": torch.ones(16, dtype=torch.bfloat16), "out_dtype": torch.bfloat16}
    for i, nested in enumerate((False, True)):
        emulation, recording = mmaemu.emulate("ada", splitk=1, unsupported="native"), mmaemu.record(tmp_path / str(i))
        first, second = (emulation, recording) if nested else (recording, emulation)
        with StandIn(), pytest.warns(mmaemu.NativeCallWarning), first, second:
            native(**bias)
            native()
        assert [call.computed_by for call in read(tmp_path / str(i))] == ["native", "mmaemu, profile ada"]


def test_each_layer_is_named_and_weights_are_saved_once(tmp_path: Path) -> None:
    model = Model()
    with mmaemu.record(tmp_path) as recording, mmaemu.emulate("ada"):
        for _ in range(5):
            model(torch.randn(16, 32))
    calls = read(tmp_path)
    assert [call.module for call in calls[:4]] == [f"Model.layers.{i}.{n}" for i in (0, 1) for n in ("up", "down")]
    assert len({call.tensors["mat2"].key for call in calls}) == 2  # the layers' weights are alike
    assert len({call.tensors["input"].key for call in calls[::4]}) == 5
    assert recording.calls == len(calls) == 20
    assert recording.bytes == pytest.approx(sum(f.stat().st_size for f in tmp_path.iterdir()), rel=0.5)
    names = {name.name for name in tmp_path.iterdir()}
    assert names == {"index.jsonl", "shard-000001.safetensors"}


def test_what_the_model_overwrites_later_is_saved_as_it_was(tmp_path: Path) -> None:
    x, out = codes(16, 32, seed=1), torch.empty(16, 16)
    before = bits(x)
    with mmaemu.record(tmp_path), mmaemu.emulate("ada", splitk=1):
        native(input=x, out=out)
        after = bits(out)
        x.view(torch.uint8).zero_()
        out.zero_()
    (call,) = read(tmp_path)
    assert bits(load(tmp_path, call, "input")) == before
    assert bits(load(tmp_path, call, "result")) == after
    assert call.out.shape == (16, 16)


def test_a_call_whose_out_overlaps_an_operand_is_left_out_with_a_warning(tmp_path: Path) -> None:
    memory = torch.zeros(16 * 32, dtype=torch.uint8)
    x, out = memory.view(E4M3).view(16, 32), memory[:256].view(E4M3).view(16, 16)
    with mmaemu.record(tmp_path) as recording, mmaemu.emulate("ada", splitk=1):
        for _ in range(2):
            with pytest.warns(mmaemu.RecordingWarning, match="shares memory") if not recording.skipped else _nothing():
                native(input=x, out=out, out_dtype=E4M3)
    assert (recording.calls, recording.skipped) == (0, 2)


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *exception: Any) -> None: ...


def test_other_scaled_products_run_and_are_told_as_left_out(tmp_path: Path) -> None:
    x, one = codes(16, 128), torch.ones(16)
    with StandIn(), mmaemu.record(tmp_path) as recording:
        with pytest.warns(mmaemu.RecordingWarning, match="_scaled_grouped_mm"):
            torch.ops.aten._scaled_grouped_mm(x, x.t(), one, one) if hasattr(
                torch.ops.aten, "_scaled_grouped_mm"
            ) else pytest.skip("this torch has no other products")
        with pytest.warns(mmaemu.RecordingWarning, match="int8, not FP8"):
            native(input=torch.ones(16, 32, dtype=torch.int8))
    assert recording.skipped == 2


def test_a_failing_call_is_not_recorded_and_its_error_comes_through(tmp_path: Path) -> None:
    with mmaemu.record(tmp_path) as recording, mmaemu.emulate("ada", splitk=1):
        with pytest.raises(mmaemu.ReferenceRejectsError):
            native(input=codes(16, 48))
        native()
    assert recording.calls == len(read(tmp_path)) == 1


def test_an_exception_in_the_model_keeps_what_was_recorded(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), mmaemu.record(tmp_path), mmaemu.emulate("ada", splitk=1):
        native()
        raise ZeroDivisionError
    assert len(read(tmp_path)) == 1


def test_recording_again_continues_and_knows_the_weights(tmp_path: Path) -> None:
    layer = Float8Linear(64, 32, seed=3)
    for _ in range(3):
        with mmaemu.record(tmp_path) as recording, mmaemu.emulate("ada", splitk=1):
            layer(torch.randn(16, 32))
    calls = read(tmp_path)
    assert [call.number for call in calls] == [0, 1, 2]
    assert {call.tensors["mat2"].shard for call in calls} == {1}
    assert [call.tensors["input"].shard for call in calls] == [1, 2, 3]
    assert recording.calls == 3


def test_a_recording_killed_at_any_moment_resumes(tmp_path: Path) -> None:
    program = """
        import sys, torch, mmaemu
        sys.path.insert(0, {folder!r})
        from calls import codes
        with mmaemu.record({path!r}, shard_bytes=20000), mmaemu.emulate("ada", splitk=1):
            one, seed = torch.ones(()), torch.seed() % 2**60
            for i in range(10**6):
                torch._scaled_mm(codes(16, 64, seed=seed + i), codes(64, 64).t(), one, one, out_dtype=torch.float32)
                if i % 10 == 0:
                    print(i, flush=True)
        """
    code = textwrap.dedent(program).format(folder=str(Path(__file__).parent), path=str(tmp_path))
    total = 0
    for stop in (30, 50, 40):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, env=plain_environment(), text=True
        )
        for line in process.stdout:
            if int(line) >= stop:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.close()
        process.wait()
        calls = read(tmp_path)
        assert len(calls) > total
        assert [call.number for call in calls] == list(range(len(calls)))
        total = len(calls)
    with mmaemu.record(tmp_path) as recording, mmaemu.emulate("ada", splitk=1):
        native()
    assert recording.calls == total + 1
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0
    assert not list(tmp_path.glob("*.tmp"))


def record_calls(path: Path, count: int = 3, **options: Any) -> mmaemu.record:
    with mmaemu.record(path, **options) as recording, mmaemu.emulate("ada", splitk=1):
        for i in range(count):
            native(input=codes(16, 32, seed=i))
    return recording


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_an_incomplete_last_line_is_dropped_when_recording_goes_on(tmp_path: Path, cut: int) -> None:
    record_calls(tmp_path)
    index = tmp_path / "index.jsonl"
    whole = index.read_bytes()
    index.write_bytes(whole[:-cut])
    calls, problems = _recorded.read_calls(tmp_path)
    assert len(calls) == 2
    assert len(problems) == 1
    assert f"{index}: line 5 is incomplete" in problems[0]
    record_calls(tmp_path, 1)
    assert [call.number for call in read(tmp_path)] == [0, 1, 2]


def test_a_shard_that_no_line_refers_to_serves_the_next_calls(tmp_path: Path) -> None:
    record_calls(tmp_path)
    index = tmp_path / "index.jsonl"
    index.write_text(index.read_text().splitlines(keepends=True)[0])
    record_calls(tmp_path)
    assert [name.name for name in tmp_path.glob("shard*")] == ["shard-000001.safetensors"]
    assert len(read(tmp_path)) == 3
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


def test_a_damaged_line_stops_a_resumption_and_is_named(tmp_path: Path) -> None:
    record_calls(tmp_path)
    index = tmp_path / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace('"use_fast_accum":false', '"use_fast_accum":true')
    index.write_text("".join(lines))
    before = index.read_bytes()
    with pytest.raises(mmaemu.RecordingError, match=r"index\.jsonl: line 4 was changed.*remove the line"):
        record_calls(tmp_path)
    assert index.read_bytes() == before


def test_nothing_is_written_over_what_is_no_recording(tmp_path: Path) -> None:
    other = tmp_path / "model.safetensors"
    other.write_text("precious")
    with pytest.raises(mmaemu.RecordingError, match=r"holds other files and no recording"), mmaemu.record(tmp_path):
        pass
    assert [name.name for name in tmp_path.iterdir()] == ["model.safetensors"]
    for text in ("precious", '{"a": 1}\n', "precious\nlines\n" * 1000, "\n"):
        (tmp_path / "index.jsonl").write_text(text)
        with pytest.raises(mmaemu.RecordingError, match=r"index\.jsonl"), mmaemu.record(tmp_path):
            pass
        assert (tmp_path / "index.jsonl").read_text() == text


def test_a_recording_of_another_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_text(_store.to_line(_store.FORMAT | {"version": 99}))
    with pytest.raises(mmaemu.RecordingError, match="of version 99; this mmaemu reads"), mmaemu.record(tmp_path):
        pass


def test_a_path_that_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(mmaemu.RecordingError, match=r"cannot record into .*file"), mmaemu.record(tmp_path / "file"):
        pass


def test_one_folder_takes_one_recording_at_a_time(tmp_path: Path) -> None:
    with mmaemu.record(tmp_path):
        second = mmaemu.record(tmp_path)
        with pytest.raises(mmaemu.RecordingError, match="is being recorded into"):
            second.__enter__()
    with second:
        assert second.calls == 0


def test_the_size_limit_holds_and_is_told_once(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    recording = record_calls(tmp_path, 40, max_bytes=30_000)
    assert 0 < recording.calls < 40
    assert recording.skipped == 40 - recording.calls
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 33_000  # shards' headers come on top
    warned = [w for w in recwarn if w.category is mmaemu.RecordingWarning]
    assert len(warned) == 1
    assert "max_bytes = 30,000" in str(warned[0].message)
    assert warned[0].filename.endswith(("test_record.py", "test_emulate.py"))
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


def test_memory_that_waits_is_bounded_by_the_shard_size(tmp_path: Path) -> None:
    result = run_python(
        f"""
        import resource, sys, torch, mmaemu
        from torch.utils._python_dispatch import TorchDispatchMode

        class StandIn(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return result if "scaled_mm" in func.__name__ else func(*args, **(kwargs or {{}}))

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        one, result = torch.ones(()), torch.zeros(16, 16)
        with StandIn(), mmaemu.record({str(tmp_path)!r}, shard_bytes=8 * 2**20) as recording:
            for i in range(80):
                x = torch.randint(0, 100, (1024, 1024), dtype=torch.uint8).view(torch.float8_e4m3fn)
                torch._scaled_mm(x, x.t(), one, one, out_dtype=torch.float32)
                if i == 20:
                    before = peak()
        assert recording.bytes > 80 * 2**20, recording.bytes
        print(peak() - before)
        """
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 16 * 2**20


def test_threads_share_a_recording(tmp_path: Path) -> None:
    recording, emulation = mmaemu.record(tmp_path, shard_bytes=4000), mmaemu.emulate("ada", splitk=1)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(20):
                with recording, emulation:
                    native(input=codes(16, 32, seed=100 * seed + i))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(call.number for call in read(tmp_path)) == list(range(80))
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


def test_entering_twice_in_a_thread_records_once(tmp_path: Path) -> None:
    recording = mmaemu.record(tmp_path)
    with mmaemu.emulate("ada", splitk=1), recording, recording:
        native()
    assert len(read(tmp_path)) == 1
    with StandIn():
        native()
    assert len(read(tmp_path)) == 1


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    recording = mmaemu.record(tmp_path)
    with recording, mmaemu.emulate("ada", splitk=1):
        native()
        child = os.fork()
        if child == 0:
            with pytest.warns(mmaemu.RecordingWarning, match="forked"):
                native(use_fast_accum=True)
            recording.__exit__(None, None, None)
            os._exit(0 if recording.skipped == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    (call,) = read(tmp_path)
    assert not call.use_fast_accum


def test_a_full_disk_is_told_and_loses_nothing_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_calls(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    recording = mmaemu.record(tmp_path)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(mmaemu.RecordingError, match=r"No space left on device.*resume"), recording:
        with mmaemu.emulate("ada", splitk=1):
            native(use_fast_accum=True)
        monkeypatch.setattr(os, "fsync", full)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    record_calls(tmp_path, 1)
    assert len(read(tmp_path)) == 4


def test_an_interrupt_while_writing_leaves_no_line_without_its_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = iter([KeyboardInterrupt()])
    write = _store.Writer._write_shard

    def interrupted(self: _store.Writer, tensors: Any) -> None:
        for interrupt in interrupts:
            raise interrupt
        write(self, tensors)

    monkeypatch.setattr(_store.Writer, "_write_shard", interrupted)
    with mmaemu.record(tmp_path, shard_bytes=1), mmaemu.emulate("ada", splitk=1):
        with pytest.raises(KeyboardInterrupt):
            native()
        native()
    assert len(read(tmp_path)) == 1
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [({"max_bytes": 0}, ValueError), ({"shard_bytes": -1}, ValueError), ({"max_bytes": 1.5}, TypeError)],
)
def test_sizes_that_do_not_fit_raise_at_once(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        mmaemu.record(tmp_path, **options)


def test_without_safetensors_the_error_says_what_to_install() -> None:
    result = run_python(
        """
        import sys
        sys.modules["safetensors"] = None
        import mmaemu
        try:
            mmaemu.record("x")
        except mmaemu.RecordingError as error:
            print(error)
        """
    )
    assert "pip install safetensors" in result.stdout, result.stderr


def test_lines_are_json_and_shards_are_plain_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    record_calls(tmp_path, 1)
    first, session, call = map(json.loads, (tmp_path / "index.jsonl").read_text().splitlines())
    assert (first["kind"], session["kind"], call["kind"]) == ("mmaemu recording", "session", "call")
    assert session["torch"] == torch.__version__
    tensors = load_file(tmp_path / "shard-000001.safetensors")
    assert set(tensors) == set(call["shards"])
    assert tensors[call["tensors"]["input"]["key"]].dtype == E4M3
