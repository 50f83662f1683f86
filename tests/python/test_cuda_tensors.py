"""Products of CUDA tensors, on the fake device: the reference's bits, in the caller's stream, and no half results."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import fake_gpu
import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes
from mmaemu import BackendFallbackWarning, BackendUnavailableError, MmaemuError, ReferenceRejectsError, _arrays


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> fake_gpu.FakeGpu:
    return fake_gpu.device_zero(monkeypatch, tmp_path)


def on_both(**changes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    call = arguments(**changes)
    return mmaemu.scaled_mm(**call), mmaemu.scaled_mm(**(call | {"backend": "reference"}))


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.parametrize("profile", ["ada", "hopper"])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("S", [1, 3])
@pytest.mark.parametrize("out", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
def test_a_kernel_gives_the_bits_of_the_reference(
    gpu: fake_gpu.FakeGpu, profile: str, fast: bool, S: int, out: str
) -> None:
    scheme = {"ada": "serial", "hopper": "contiguous"}[profile]
    result, reference = on_both(
        input=codes(19, 432, seed=3),
        mat2=codes(32, 432, seed=4).t(),
        scale_result=torch.tensor(1.7),
        out_dtype=getattr(torch, out),
        use_fast_accum=fast,
        profile=profile,
        splitk=1 if S == 1 else (S, scheme),
    )
    assert bits(result) == bits(reference)
    assert gpu.launches() > 0


@pytest.mark.parametrize("a", [E4M3, E5M2])
def test_a_float8_result_needs_no_scale(gpu: fake_gpu.FakeGpu, a: torch.dtype) -> None:
    result, reference = on_both(input=codes(16, 32, a), out_dtype=a, scale_result=None)
    assert bits(result) == bits(reference)


@pytest.mark.parametrize(("a", "b"), [(E4M3, E5M2), (E5M2, E4M3)])
def test_kernels_serve_mixed_pairs(gpu: fake_gpu.FakeGpu, a: torch.dtype, b: torch.dtype) -> None:
    result, reference = on_both(input=codes(16, 32, a), mat2=codes(16, 32, b).t(), backend="cuda:v1")
    assert bits(result) == bits(reference)


def test_the_pair_that_no_kernel_serves_is_computed_by_the_reference(gpu: fake_gpu.FakeGpu) -> None:
    how = {"use_fast_accum": True, "splitk": 1, "profile": "hopper"}
    a, b = codes(5, 32, E5M2, seed=1), codes(7, 32, E5M2, seed=2)
    with pytest.warns(BackendFallbackWarning, match=r"by the reference on the CPU: .*cuda:h1: serves e4m3 x e4m3, "):
        result = mmaemu.accumulate(a, b, **how)
    assert bits(result) == bits(mmaemu.accumulate(a, b, backend="reference", **how))
    for backend in ("cuda", "cuda:h1"):
        with pytest.raises(BackendUnavailableError, match="not e5m2 x e5m2"):
            mmaemu.accumulate(a, b, backend=backend, **how)


@pytest.mark.filterwarnings("ignore::mmaemu.ExperimentalPresetWarning")
def test_a_preset_that_no_kernel_has_is_computed_by_the_reference(gpu: fake_gpu.FakeGpu) -> None:
    call = arguments(profile="b200-mma-sync-experimental", use_fast_accum=True)
    (reason,) = mmaemu.explain(**call).fallbacks
    assert reason == "cuda: no kernel has the arithmetic of preset b200_mma_sync"
    with pytest.warns(BackendFallbackWarning, match=reason):
        result = mmaemu.scaled_mm(**call)
    assert bits(result) == bits(mmaemu.scaled_mm(**call, backend="reference"))


@pytest.mark.parametrize("K", [1, 15, 16, 33, 128])
def test_accumulate_takes_any_k_and_layout(gpu: fake_gpu.FakeGpu, K: int) -> None:
    a, b = codes(K, 5, seed=1).t(), codes(7, 2 * K, seed=2)[:, ::2]
    how = {"use_fast_accum": True, "splitk": 1, "profile": "hopper"}
    result = mmaemu.accumulate(a, b, backend="cuda:h1", **how)
    assert bits(result) == bits(mmaemu.accumulate(a, b, backend="reference", **how))


def test_accumulate_takes_operands_at_any_address(gpu: fake_gpu.FakeGpu) -> None:
    a, b = (codes(1, 5 * 32 + 1, seed=seed).view(-1)[1:].view(5, 32) for seed in (1, 2))
    assert a.data_ptr() % 16 == b.data_ptr() % 16 == 1
    how = {"use_fast_accum": True, "splitk": 1, "profile": "ada"}
    result = mmaemu.accumulate(a, b, backend="cuda:v1", **how)
    assert bits(result) == bits(mmaemu.accumulate(a, b, backend="reference", **how))


@pytest.mark.parametrize("columns", [slice(0, 32), slice(32, 64), slice(0, 64, 2)], ids=str)
def test_rows_may_lie_apart(gpu: fake_gpu.FakeGpu, columns: slice) -> None:
    weight = codes(16, 64, seed=6)[:, 32:]
    result, reference = on_both(input=codes(19, 64, seed=5)[:, columns], mat2=weight.t())
    assert bits(result) == bits(reference)


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("K", [33, 100, 300])
@pytest.mark.parametrize(
    ("backend", "profile", "scheme"),
    [("cuda:v1", "ada", "serial"), ("cuda:v1", "ada", "pairwise"), ("cuda:h1", "hopper", "contiguous")],
)
def test_zeros_that_fill_up_k_move_no_split(
    gpu: fake_gpu.FakeGpu, backend: str, profile: str, scheme: str, K: int, fast: bool
) -> None:
    a, b = codes(6, K, seed=1), codes(5, K, seed=2)
    how = {"use_fast_accum": fast, "splitk": (3, scheme), "profile": profile}
    result = mmaemu.accumulate(a, b, backend=backend, **how)
    assert bits(result) == bits(mmaemu.accumulate(a, b, backend="reference", **how))


def test_scales_are_read_on_the_device_whatever_their_layout(gpu: fake_gpu.FakeGpu) -> None:
    scales = {
        "scale_a": torch.tensor([[9.0, 0.5], [9.0, 9.0]])[:1, 1:],
        "scale_b": torch.tensor([1 + 0.25j]).conj().imag,  # with the negative bit: -0.25
    }
    assert scales["scale_b"].is_neg()
    result, reference = on_both(**scales)
    assert bits(result) == bits(reference)


@pytest.mark.parametrize("M", [1, 19])
def test_out_is_filled_whatever_its_layout(gpu: fake_gpu.FakeGpu, M: int) -> None:
    call = arguments(input=codes(M, 32, seed=1), mat2=codes(48, 32, seed=2).t())
    wanted = mmaemu.scaled_mm(**(call | {"backend": "reference"}))
    for out in (torch.full((M, 48), 7.0), torch.full((48, M), 7.0).t(), torch.full((M, 96), 7.0)[:, 16:64]):
        assert mmaemu.scaled_mm(**call, out=out) is out
        assert bits(out.contiguous()) == bits(wanted)


@pytest.mark.parametrize(("M", "K"), [(0, 32), (5, 0)])
def test_a_product_without_elements_needs_no_kernel(gpu: fake_gpu.FakeGpu, M: int, K: int) -> None:
    empty = arguments(input=codes(M, K), mat2=codes(16, K).t())
    assert mmaemu.explain(**empty).backend == "none (zero-size result)"
    assert bits(mmaemu.scaled_mm(**empty)) == [[0] * 16] * M
    assert bits(mmaemu.accumulate(codes(M, K), codes(3, K), use_fast_accum=True)) == [[0] * 3] * M
    assert gpu.calls() == 0


def test_an_out_that_torch_drops_needs_no_kernel(gpu: fake_gpu.FakeGpu) -> None:
    call = arguments(out=torch.full((16, 32), 7.0)[:, ::2])
    assert mmaemu.explain(**call).backend == "none (out= is returned unchanged)"
    with pytest.warns(UserWarning, match="returned unchanged"):
        assert (mmaemu.scaled_mm(**call) == 7.0).all()
    assert gpu.calls() == 0


@pytest.mark.parametrize("name", ["mat2", "scale_a", "scale_b", "scale_result", "out"])
def test_tensors_of_several_devices_are_rejected(
    gpu: fake_gpu.FakeGpu, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call = arguments(scale_result=torch.tensor(1.0), out=torch.full((16, 16), 7.0))
    monkeypatch.setattr(_arrays, "device_of", lambda tensor: "cuda:1" if tensor is call[name] else "cuda:0")
    with pytest.raises(ReferenceRejectsError, match=f"one device: input is on cuda:0, {name} is on cuda:1"):
        mmaemu.scaled_mm(**call)
    assert (call["out"] == 7.0).all()


@pytest.mark.parametrize(
    ("kernel", "profile", "backend"),
    [("v4", "ada", "auto"), ("h4", "hopper", "auto"), ("v9", "ada", "cuda:v9"), ("tc3", "ada", "cuda:tc3")],
)
def test_a_chain_that_is_too_long_is_an_error_at_launch(
    gpu: fake_gpu.FakeGpu, kernel: str, profile: str, backend: str
) -> None:
    depth = 1 << 24
    long = arguments(
        input=torch.empty(1, depth, dtype=torch.uint8).view(E4M3),
        mat2=torch.empty(16, depth, dtype=torch.uint8).view(E4M3).t(),
        use_fast_accum=True,
        profile=profile,
        backend=backend,
    )
    plan = mmaemu.explain(**long)
    assert (plan.validation, plan.backend) == ("ok", f"cuda:{kernel}")
    with pytest.raises(ValueError, match=rf"K: a chain of {depth} products .*cuda:{kernel}.*fewer than {depth}"):
        mmaemu.scaled_mm(**long)
    assert gpu.launches() == 0


@pytest.mark.parametrize("kernel", ["v9", "tc3"])
def test_a_gated_kernel_serves_where_it_is_named(gpu: fake_gpu.FakeGpu, kernel: str) -> None:
    call = {"input": codes(19, 48, seed=5), "mat2": codes(16, 48, seed=6).t(), "use_fast_accum": True}
    result, reference = on_both(**call, backend=f"cuda:{kernel}")
    assert bits(result) == bits(reference)
    with pytest.raises(BackendUnavailableError, match="serves e4m3 x e4m3, not e4m3 x e5m2"):
        mmaemu.scaled_mm(**arguments(mat2=codes(16, 32, E5M2).t(), backend=f"cuda:{kernel}"))


def test_gated_kernels_are_chosen_only_where_the_user_allows(
    gpu: fake_gpu.FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = mmaemu.explain(**arguments())
    assert plan.backend == "cuda:v4"
    assert all("not validated on compute capability 8.9" in reason for reason in plan.fallbacks)
    monkeypatch.setenv("MMAEMU_ALLOW_GATED_KERNELS", "1")
    plan = mmaemu.explain(**arguments())
    assert (plan.backend, plan.fallbacks, plan.warnings) == ("cuda:tc3", [], [])
    mixed = mmaemu.explain(**arguments(mat2=codes(16, 32, E5M2).t()))
    assert (mixed.backend, mixed.warnings) == ("cuda:v4", [])
    assert mixed.fallbacks == [f"cuda:{name}: serves e4m3 x e4m3, not e4m3 x e5m2" for name in ("tc3", "v9")]
    result, reference = on_both()
    assert bits(result) == bits(reference)


def test_a_gated_kernel_whose_own_gate_fails_is_never_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = fake_gpu.device_zero(monkeypatch, tmp_path, fresh=True)
    gpu.tensor_fraction(25)
    monkeypatch.setenv("MMAEMU_ALLOW_GATED_KERNELS", "1")
    with pytest.warns(BackendFallbackWarning, match=r"cuda:tc3 is unavailable: .*design_a.*; cuda:v9 runs instead"):
        mmaemu.scaled_mm(**arguments())
    with pytest.raises(BackendUnavailableError, match="gate design_a failed"):
        mmaemu.scaled_mm(**arguments(backend="cuda:tc3"))


def test_nothing_is_waited_for_or_copied_to_the_host(gpu: fake_gpu.FakeGpu) -> None:
    mmaemu.scaled_mm(**arguments())
    waits = ("cuStreamSynchronize", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemAlloc")
    before = [gpu.calls(name) for name in waits]
    mmaemu.scaled_mm(**arguments())
    assert [gpu.calls(name) for name in waits] == before


def test_a_failed_launch_is_an_error_and_out_stays_as_it_was(gpu: fake_gpu.FakeGpu) -> None:
    mmaemu.scaled_mm(**arguments())
    gpu.fail_launch("mmaemu_finish")
    out = torch.full((16, 16), 7.0)
    with pytest.raises(MmaemuError, match=r"the launch of mmaemu_finish fails: CUDA_ERROR_LAUNCH_FAILED \(719\)"):
        mmaemu.scaled_mm(**arguments(out=out))
    assert (out == 7.0).all()


def test_a_failed_gate_is_told_once_and_the_reference_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = fake_gpu.device_zero(monkeypatch, tmp_path, fresh=True)
    gpu.spoil("_e4m3e4m3")
    for _ in range(2):  # explain tells and uses nothing up
        (told,) = mmaemu.explain(**arguments()).warnings
        assert "gate smoke failed" in told
    with pytest.warns(BackendFallbackWarning, match=r"computed by the reference on the CPU: .*gate smoke failed"):
        first = mmaemu.scaled_mm(**arguments())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(mmaemu.scaled_mm(**arguments())) == bits(first)
    with pytest.raises(BackendUnavailableError, match="gate smoke failed"):
        mmaemu.scaled_mm(**arguments(backend="cuda:v1"))


def test_other_threads_run_while_the_gates_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_gpu.device_zero(monkeypatch, tmp_path, fresh=True)
    planned = threading.Event()
    turns = 0

    def count() -> None:
        nonlocal turns
        while not planned.wait(0.001):
            turns += 1

    other = threading.Thread(target=count)
    other.start()
    mmaemu.explain(**arguments(backend="cuda:v1"))
    planned.set()
    other.join()
    assert turns > 50


@pytest.mark.parametrize(("fastest", "next_one", "profile"), [("v4", "v1", "ada"), ("h4", "h1", "hopper")])
def test_a_slower_kernel_runs_where_a_faster_one_does_not_load(
    gpu: fake_gpu.FakeGpu, tmp_path: Path, fastest: str, next_one: str, profile: str
) -> None:
    fake_gpu.drop_binary(tmp_path, fastest)
    call = arguments(profile=profile)
    reason = f"names no binary of {fastest}; no NVRTC found"
    with pytest.warns(
        BackendFallbackWarning, match=f"{fastest} is unavailable: .*{reason}.*cuda:{next_one} runs"
    ) as told:
        result = mmaemu.scaled_mm(**call)
    assert len(told) == 1
    assert bits(result) == bits(mmaemu.scaled_mm(**call, backend="reference"))
    plan = mmaemu.explain(**call)
    assert (plan.backend, plan.warnings) == (f"cuda:{next_one}", [str(told[0].message)])
    assert reason in plan.fallbacks[-1]
    with pytest.raises(BackendUnavailableError, match=reason):
        mmaemu.scaled_mm(**call, backend=f"cuda:{fastest}")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("MMAEMU_LIBCUDA_PATH", "/no/libcuda.so", "no CUDA driver: /no/libcuda.so"),
        ("MMAEMU_LIBCUDA_PATH", str(fake_gpu.LIBRARY.with_name("libcuda-old.so")), "there is no CUDA device 0"),
        ("MMAEMU_DISABLE_CUDA", "1", "MMAEMU_DISABLE_CUDA=1"),
    ],
    ids=["no driver", "no device", "disabled"],
)
def test_without_a_usable_device_the_reference_runs_with_one_warning(
    gpu: fake_gpu.FakeGpu, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    reference = mmaemu.scaled_mm(**arguments(backend="reference"))
    monkeypatch.setenv(variable, value)
    plan = mmaemu.explain(**arguments())
    assert plan.backend == "reference"
    assert plan.fallbacks[0].startswith(f"cuda: {reason}")
    with pytest.warns(
        BackendFallbackWarning, match=f"cuda:0 are computed by the reference on the CPU: .*{reason}"
    ) as told:
        assert bits(mmaemu.scaled_mm(**arguments())) == bits(reference)
        assert bits(mmaemu.scaled_mm(**arguments())) == bits(reference)
    assert len(told) == 1
    for backend in ("cuda", "cuda:v1"):
        with pytest.raises(BackendUnavailableError, match=f'"{backend}" is unavailable: {reason}'):
            mmaemu.scaled_mm(**arguments(backend=backend))


@pytest.mark.parametrize("kernel", ["v1", "v4", "v9", "tc3", "h1", "h4"])
def test_a_kernel_serves_one_preset(gpu: fake_gpu.FakeGpu, kernel: str) -> None:
    own, other = ("hopper", "ada") if kernel.startswith("h") else ("ada", "hopper")
    assert mmaemu.explain(**arguments(backend=f"cuda:{kernel}", profile=own)).backend == f"cuda:{kernel}"
    with pytest.raises(BackendUnavailableError, match=f"serves preset {own}, not {other}"):
        mmaemu.scaled_mm(**arguments(backend=f"cuda:{kernel}", profile=other))


def test_explain_names_the_kernel_and_why_faster_ones_are_skipped(gpu: fake_gpu.FakeGpu) -> None:
    plan = mmaemu.explain(**arguments())
    assert (plan.validation, plan.backend, plan.warnings) == ("ok", "cuda:v4", [])
    assert [reason.partition(": ")[0] for reason in plan.fallbacks] == ["cuda:tc3", "cuda:v9"]
    assert mmaemu.explain(**arguments(profile="hopper")).backend == "cuda:h4"


def test_the_environment_overrides_auto(gpu: fake_gpu.FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_BACKEND", "reference")
    assert mmaemu.explain(**arguments()).backend == "reference"
    monkeypatch.setenv("MMAEMU_BACKEND", "cuda")
    assert mmaemu.explain(**arguments()).backend == "cuda:v4"
    monkeypatch.setenv("MMAEMU_DISABLE_CUDA", "1")
    with pytest.raises(BackendUnavailableError, match="MMAEMU_DISABLE_CUDA=1"):
        mmaemu.scaled_mm(**arguments())


def test_tensors_on_the_cpu_touch_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = fake_gpu.driver_only(monkeypatch, tmp_path)
    mmaemu.scaled_mm(**arguments())
    mmaemu.explain(**arguments())
    assert gpu.calls() == 0
