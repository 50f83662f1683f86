"""An audit finds every differing bit of a recording, says what kind it is and what else would have given it."""

from __future__ import annotations

import html.parser
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import mmaemu
from calls import E4M3, E5M2, codes, run_command
from mmaemu import _audit_tasks, _differences, _recorded, _store, auditing
from test_emulate import Model, StandIn, native

pytest.importorskip("safetensors")


def record_model(path: Path, profile: str, passes: int = 50, **options: Any) -> None:
    """Four calls a pass, on which the platforms differ, under the split that each takes."""
    torch.manual_seed(1)
    model = Model()
    with mmaemu.record(path, **options), mmaemu.emulate(profile, splitk=1):
        for _ in range(passes):
            model(torch.randn(16, 32))


@pytest.fixture(scope="module")
def ada_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "ada"
    record_model(path, "ada")
    return path


def record_one(path: Path, profile: str = "ada", **changes: Any) -> _recorded.RecordedCall:
    given = {"input": codes(64, 2048, seed=1), "mat2": codes(64, 2048, seed=2).t(), "use_fast_accum": True} | changes
    splitk = given.pop("splitk", 1)
    with mmaemu.record(path), mmaemu.emulate(profile, splitk=splitk):
        native(**given)
    return _recorded.read_calls(path)[0][-1]


def flip(path: Path, call: _recorded.RecordedCall, name: str, element: int, bit: int) -> None:
    """Flips one bit of one saved tensor, as a faulty memory would."""
    saved = call.tensors[name]
    shard = path / _store.shard_name(saved.shard)
    tensors = load_file(shard)
    flat = mmaemu.testing.bits(tensors[saved.key].clone()).reshape(-1)
    flat[element] ^= 1 << bit if bit < 8 * flat.element_size() - 1 else -(1 << bit)
    tensors[saved.key] = flat.view(tensors[saved.key].dtype).reshape(tensors[saved.key].shape)
    save_file(tensors, shard, metadata={"mmaemu": "recording"})


def test_a_recording_audits_equal_under_its_own_profile(ada_recording: Path) -> None:
    report = mmaemu.audit(ada_recording, profile="ada", splitk=1)
    assert (len(report.calls), report.count("equal"), report.exit_code) == (200, 200, 0)
    assert (report.problems, report.diagnosis) == ([], "")
    assert [layer.calls for layer in report.layers] == [50] * 4
    assert [layer.module for layer in report.layers] == [
        f"Model.layers.{i}.{n}" for i in (0, 1) for n in ("up", "down")
    ]
    assert report.calls[0].elements == 16 * 64
    assert "200 equal bit for bit" in str(report)


def test_splits_are_decided_from_the_recorded_shapes_and_layouts(ada_recording: Path) -> None:
    report = mmaemu.audit(ada_recording, profile="ada")
    assert report.exit_code == 0
    assert {call.split_source for call in report.calls} == {"table"}


def test_a_recording_of_another_profile_names_it(ada_recording: Path) -> None:
    report = mmaemu.audit(ada_recording, profile="hopper", splitk=1)
    different = report.count("different")
    assert report.exit_code == 1
    assert different > 100
    assert report.diagnosis == f"profile ada reproduces all {different} calls that are not equal"
    assert all(
        any(way["profile"] == "ada" for way in call.reproduced_by)
        for call in report.calls
        if call.status == "different"
    )
    assert "profile ada" in str(report)
    assert report.layers[0].max_ulps >= 1


@pytest.mark.parametrize("seed", range(4))
def test_one_flipped_bit_of_a_result_is_found(tmp_path: Path, seed: int) -> None:
    record_model(tmp_path, "ada", passes=3)
    random.seed(seed)
    calls, _ = _recorded.read_calls(tmp_path)
    call = random.choice(calls)
    M, N, _ = call.sizes
    element = random.randrange(M * N)
    flip(tmp_path, call, "result", element, 0)
    report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
    assert report.exit_code == 1
    found = [c for c in report.calls if c.status == "different"]
    assert call.number in [c.call for c in found]
    for c in found:  # equal results are saved once
        assert c.counts == {"zero sign": 0, "NaN payload": 0, "value": 1}
        assert (c.max_ulps, c.ulps) == (1, [1])
        assert [e["element"] for e in c.first] == [[element // N, element % N]]
        assert c.reproduced_by == []
        assert "no split, accumulation or profile known here" in c.diagnosis
        assert "all but 1 elements agree" in c.diagnosis
        assert "is not the one that was recorded" in c.notes[0]
    assert report.count("different") + report.count("equal") == len(calls)


def test_the_sign_of_a_zero_and_the_bits_of_a_nan_are_classes_of_their_own(tmp_path: Path) -> None:
    x = codes(16, 32, seed=1)
    x.view(torch.uint8)[0] = 0
    x.view(torch.uint8)[1] = 0x7F
    call = record_one(tmp_path, input=x, mat2=codes(16, 32, seed=2).t())
    flip(tmp_path, call, "result", 3, 31)
    call = _recorded.read_calls(tmp_path)[0][0]
    flip(tmp_path, call, "result", 16 + 5, 0)
    (report,) = mmaemu.audit(tmp_path, profile="ada", splitk=1).calls
    assert report.counts == {"zero sign": 1, "NaN payload": 1, "value": 0}
    assert report.max_ulps is None
    assert [(e["element"], e["class"], e["recorded"], e["computed"]) for e in report.first] == [
        ([0, 3], "zero sign", "-0.0 (0x80000000)", "0.0 (0x00000000)"),
        ([1, 5], "NaN payload", "nan (0x7ffffffe)", "nan (0x7fffffff)"),
    ]


CAUSES = {
    "another split": ({"splitk": (3, "pairwise")}, {"splitk": 1}, ("ada", True, [3, "pairwise"])),
    "no split": ({"splitk": 1}, {"splitk": (3, "pairwise")}, ("ada", True, [1, "none"])),
    "slow accumulation": ({"use_fast_accum": False}, {}, ("ada", False, [1, "none"])),
    "the hopper's split": ({"profile": "hopper", "splitk": (3, "contiguous")}, {}, ("hopper", True, [3, "contiguous"])),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_diagnosis_names_what_reproduces_the_bits(tmp_path: Path, cause: str) -> None:
    recorded, audited, (profile, fast, split) = CAUSES[cause]
    call = record_one(tmp_path, **recorded)
    if not call.use_fast_accum:  # recorded as fast, as by a library that ignores the argument
        index = tmp_path / "index.jsonl"
        lines = index.read_text().splitlines(keepends=True)
        fields = _store.from_line(lines[2])
        index.write_text("".join([*lines[:2], _store.to_line(fields | {"use_fast_accum": True})]))
    (report,) = mmaemu.audit(tmp_path, **({"profile": "ada", "splitk": 1} | audited)).calls
    assert report.status == "different"
    first = report.reproduced_by[0]
    assert (first["profile"], first["use_fast_accum"], list(first["split"])) == (profile, fast, split)
    assert report.diagnosis.startswith(f"profile {profile}, {'fast' if fast else 'slow'} accumulation, ")
    assert "reproduces the recorded bits exactly" in report.diagnosis


def test_an_unknown_split_is_not_checked_but_diagnosed(tmp_path: Path) -> None:
    record_one(tmp_path, "hopper", splitk=(2, "contiguous"), input=codes(16, 512), mat2=codes(16, 512, seed=3).t())
    report = mmaemu.audit(tmp_path)
    (call,) = report.calls
    assert (call.status, report.exit_code) == ("unchecked", 4)
    assert call.reason.startswith("SplitKUnknownError: cannot decide")
    assert call.diagnosis.startswith("profile hopper, fast accumulation, splitk=(2, 'contiguous') reproduces")
    assert mmaemu.audit(tmp_path, splitk="recorded").exit_code == 0


def test_an_audit_of_a_column_major_out_decides_for_the_transposed_product(tmp_path: Path) -> None:
    x, w = codes(16, 2048, seed=1), codes(128, 2048, seed=2).t()
    for out in (torch.empty(128, 16).t(), torch.empty(16, 128)):
        with mmaemu.record(tmp_path), mmaemu.emulate("ada"):
            native(input=x, mat2=w, use_fast_accum=True, out=out)
    report = mmaemu.audit(tmp_path, profile="ada")
    keys = [(128, 16, 2048), (16, 128, 2048)]
    expected = [
        mmaemu.resolve_splitk(
            *key, a_dtype="e4m3", b_dtype="e4m3", out_dtype="float32", use_fast_accum=True, profile="ada"
        )
        for key in keys
    ]
    assert [call.split for call in report.calls] == [(d.S, d.scheme) for d in expected]
    assert report.exit_code == 0


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3])
def test_mixed_formats_and_all_results_audit_equal(tmp_path: Path, out_dtype: torch.dtype) -> None:
    scale = torch.tensor(0.01)
    for x, w in ((codes(16, 256, E5M2), codes(16, 256)), (codes(16, 256), codes(16, 256, E5M2, seed=1))):
        record_one(tmp_path, input=x, mat2=w.t(), out_dtype=out_dtype, scale_result=scale)
    record_one(tmp_path, input=codes(0, 32), mat2=codes(16, 32).t(), out_dtype=out_dtype)
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


def test_a_product_in_many_pieces_is_that_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = record_one(tmp_path, splitk=(3, "pairwise"))
    flip(tmp_path, call, "result", 5 * 64 + 7, 3)
    flip(tmp_path, _recorded.read_calls(tmp_path)[0][0], "result", 11 * 64, 30)
    whole = mmaemu.audit(tmp_path, profile="ada", splitk=(3, "pairwise"))
    monkeypatch.setattr(_audit_tasks, "_TILE", 3 * 64 * 2048)
    assert len(_audit_tasks.tiles(call)) == 22
    pieces = mmaemu.audit(tmp_path, profile="ada", splitk=(3, "pairwise"))
    assert _without_times(whole) == _without_times(pieces)
    assert [e["element"] for e in pieces.calls[0].first] == [[5, 7], [11, 0]]


def _without_times(report: mmaemu.AuditReport) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != "seconds"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(report.to_json())


def test_native_calls_that_are_not_modelled_are_told_and_others_still_checked(tmp_path: Path) -> None:
    record_one(tmp_path)
    with StandIn(), mmaemu.record(tmp_path):
        native(bias=torch.ones(16, dtype=torch.bfloat16))
    report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
    assert [call.status for call in report.calls] == ["equal", "unchecked"]
    assert "bias" in report.calls[1].reason
    assert report.exit_code == 1


def test_a_result_that_the_arguments_could_not_give_is_not_checked(tmp_path: Path) -> None:
    with StandIn(), mmaemu.record(tmp_path):
        native(out_dtype=torch.bfloat16)  # StandIn answers in float32
    (call,) = mmaemu.audit(tmp_path, profile="ada", splitk=1).calls
    assert call.reason == "the recorded result is float32 [16, 16], the call's is bfloat16 [16, 16]"


def test_an_edited_operand_is_refused_and_its_file_named(tmp_path: Path) -> None:
    call = record_one(tmp_path)
    record_one(tmp_path, input=codes(16, 2048, seed=9))
    flip(tmp_path, call, "input", 17, 0)
    report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
    assert [c.status for c in report.calls] == ["unchecked", "equal"]
    shard = tmp_path / "shard-000001.safetensors"
    assert report.calls[0].reason.startswith(f"{shard}: tensor {call.tensors['input'].key} was changed")
    assert report.exit_code == 1


def _truncate(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-1000])


def _replace(shard: Path) -> None:
    save_file({"foreign": torch.zeros(3)}, shard)


DAMAGE = {
    "truncated": _truncate,
    "empty": lambda shard: shard.write_bytes(b""),
    "foreign": _replace,
    "text": lambda shard: shard.write_text("hello " * 1000),
    "missing": lambda shard: shard.unlink(),
    "a huge header": lambda shard: shard.write_bytes(struct.pack("<Q", 2**62) + b"{}"),
    "a folder": lambda shard: (shard.unlink(), shard.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shards_are_named_and_the_rest_is_checked(tmp_path: Path, damage: str) -> None:
    record_one(tmp_path)
    record_one(tmp_path, input=codes(16, 2048, seed=9), mat2=codes(64, 2048, seed=8).t(), scale_a=torch.tensor(3.0))
    shard = tmp_path / "shard-000002.safetensors"
    DAMAGE[damage](shard)
    report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
    assert [call.status for call in report.calls] == ["equal", "unchecked"]
    assert str(shard) in report.calls[1].reason
    assert report.exit_code == 1


LINES = {
    "cut": (lambda line: line[: len(line) // 2] + "\n", "is not a line that mmaemu wrote"),
    "edited": (lambda line: line.replace('"device":"cpu"', '"device":"gpu"'), "was changed after it was written"),
    "foreign": (lambda line: '{"a": 1}\n', "is not a line that mmaemu wrote"),
    "list": (lambda line: "[1, 2]\n", "is not a line that mmaemu wrote"),
    "text": (lambda line: "hello\n", "is not a line that mmaemu wrote"),
    "deep": (lambda line: "[" * 100_000 + "\n", "is not a line that mmaemu wrote"),
    "bytes": (lambda line: "\udcff\udc80\n", "is not a line that mmaemu wrote"),
    "no tensors": (lambda line: _store.to_line({"kind": "call", "call": 0}), "does not describe a call"),
    "bad shape": (
        lambda line: _store.to_line(_with_shape(_store.from_line(line), [-1, 5])),
        "describes a tensor that cannot be",
    ),
    "one dimension": (
        lambda line: _store.to_line(_with_shape(_store.from_line(line), [5])),
        "does not describe a call",
    ),
}


def _with_shape(fields: dict[str, Any], shape: list[int]) -> dict[str, Any]:
    fields["tensors"]["input"]["shape"] = shape
    fields["tensors"]["input"]["strides"] = shape
    return fields


@pytest.mark.parametrize("damage", LINES)
def test_damaged_lines_are_named_and_the_rest_is_checked(tmp_path: Path, damage: str) -> None:
    change, says = LINES[damage]
    for seed in range(3):
        record_one(tmp_path, input=codes(16, 2048, seed=seed))
    index = tmp_path / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if '"call":1,' in line)
    lines[place] = change(lines[place])
    index.write_text("".join(lines), errors="surrogateescape")
    report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
    assert [call.status for call in report.calls] == ["equal"] * 2
    assert len(report.problems) == 1
    assert report.problems[0].startswith(f"{index}: line {place + 1} ")
    assert says in report.problems[0]
    assert report.exit_code == 1
    assert str(report).count("problem: ") == 1


def test_random_damage_never_crashes_an_audit_and_never_passes_as_equal(tmp_path: Path) -> None:
    record_one(tmp_path, input=codes(16, 64), mat2=codes(16, 64, seed=1).t())
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}
    generator = random.Random(5)
    for _ in range(150):
        file, data = generator.choice(list(files.items()))
        place, changed = generator.randrange(len(data)), bytearray(data)
        changed[place] ^= 1 << generator.randrange(8)
        file.write_bytes(bytes(changed) if generator.random() < 0.7 else data[:place])
        try:
            report = mmaemu.audit(tmp_path, profile="ada", splitk=1)
        except mmaemu.RecordingError as error:
            assert str(tmp_path) in str(error)
        else:
            harmless = report.exit_code == 0 and file.suffix == ".safetensors" and place < 1500  # names in its header
            assert report.exit_code in (1, 4) or harmless
        file.write_bytes(data)
    assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_what_is_no_recording_is_told_so(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x")
    with pytest.raises(mmaemu.RecordingError, match=r"x is no recording: there is no index\.jsonl in it"):
        mmaemu.audit(tmp_path / "x")


def test_an_audit_writes_nothing_and_reads_read_only_folders(tmp_path: Path) -> None:
    record_one(tmp_path)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()}
    tmp_path.chmod(0o555)
    try:
        assert mmaemu.audit(tmp_path, profile="ada", splitk=1).exit_code == 0
        assert mmaemu.audit(tmp_path / "index.jsonl", profile="ada", splitk=1).exit_code == 0
    finally:
        tmp_path.chmod(0o755)
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"profile": "nope"}, KeyError),
        ({"splitk": (2, "serial")}, ValueError),
        ({"splitk": "never"}, TypeError),
        ({"backend": 3}, TypeError),
    ],
)
def test_arguments_that_do_not_fit_raise(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    record_one(tmp_path)
    with pytest.raises(error):
        mmaemu.audit(tmp_path, **options)


def test_progress_goes_from_nothing_to_the_whole(ada_recording: Path) -> None:
    seen: list[tuple[int, int]] = []
    mmaemu.audit(ada_recording, profile="ada", splitk=1, progress=lambda done, whole: seen.append((done, whole)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] == sum(16 * 64 * 32 for _ in range(200))
    assert seen == sorted(seen)


def test_experimental_profiles_warn_in_the_report_alone(ada_recording: Path) -> None:
    report = mmaemu.audit(ada_recording, profile="hopper-experimental", splitk=1)
    assert any("ExperimentalPresetWarning" in text for text in report.warnings)


# How differences are counted.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, E4M3, E5M2])
def test_neighbours_are_one_ulp_apart_in_every_format(dtype: torch.dtype) -> None:
    size = {torch.bfloat16: torch.int16, torch.float16: torch.int16}.get(dtype, torch.uint8)
    every = torch.arange(2 ** (8 * size.itemsize)).to(size)
    values = every.view(dtype).double()
    kept = values.isfinite() & ~((values == 0) & torch.signbit(values))
    ordered = every[kept][values[kept].argsort()].view(dtype)
    found = _differences.compare(_row(ordered, 0), _row(ordered, 1))
    assert found.counts["value"] == len(ordered) - 1
    assert (found.max_ulps, found.ulps) == (1, [len(ordered) - 1])


def _row(ordered: torch.Tensor, first: int) -> torch.Tensor:
    """All but the last, or all but the first."""
    codes_ = mmaemu.testing.bits(ordered)
    return codes_[first : len(codes_) - 1 + first].reshape(1, -1).view(ordered.dtype)


def test_float32_distances_reach_over_the_whole_format() -> None:
    recorded = torch.tensor([[-math.inf, 1.0, 1.0, 0.0, -0.0, math.nan, 1.0, 2.0]])
    computed = torch.tensor([[math.inf, 1.0 + 2**-23, 1.0 + 2**-21, -0.0, 1e-45, 1.0, math.nan, 2.0]])
    found = _differences.compare(recorded, computed)
    assert found.counts == {"zero sign": 1, "NaN payload": 0, "value": 6}
    assert found.max_ulps == 2 * 0x7F800000
    assert found.ulps == [2, 0, 1] + [0] * 28 + [1]
    assert [e["ulps"] for e in found.first] == [2 * 0x7F800000, 1, 4, 0, 1, None, None]


def test_merged_differences_are_those_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(3)
    recorded = torch.randn(64, 48, generator=generator).bfloat16()
    computed = torch.where(torch.rand(64, 48, generator=generator) < 0.1, recorded * 1.01, recorded)
    whole, parts = _differences.compare(recorded, computed), _differences.Differences()
    for first in range(0, 64, 10):
        parts.merge(_differences.compare(recorded[first : first + 10], computed[first : first + 10], first))
    assert whole.different > 100
    assert parts == whole
    assert len(whole.first) == 10
    assert whole.first[9]["element"] == (recorded.view(torch.int16) != computed.view(torch.int16)).nonzero()[9].tolist()


# What is shown.


class _Page(html.parser.HTMLParser):
    """Open tags, in order to see that they close, and whatever would fetch or run something."""

    _VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in self._VOID:
            self.open.append(tag)
        loads = [name for name, _ in attributes if name in ("src", "href") or name.startswith("on")]
        if loads or tag in ("script", "link", "img", "iframe"):
            self.outside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(report: mmaemu.AuditReport) -> _Page:
    page = _Page()
    page.feed(report.to_html())
    page.close()
    assert page.open == []
    return page


@pytest.mark.parametrize("profile", ["ada", "hopper"])
def test_the_page_is_whole_and_needs_nothing_else(ada_recording: Path, profile: str) -> None:
    report = mmaemu.audit(ada_recording, profile=profile, splitk=1)
    page = parsed(report)
    assert page.outside == []
    assert report.verdict in page.text
    assert all(layer.module in page.text for layer in report.layers)
    assert ("profile ada reproduces all" in page.text) == (profile == "hopper")
    assert ("1 ulp" in page.text) == (profile == "hopper")
    assert "http" not in report.to_html()


def test_the_page_escapes_what_the_recording_says(tmp_path: Path) -> None:
    class Odd(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return native()

    Odd.__name__ = "<script>alert(1)</script>"
    with mmaemu.record(tmp_path), mmaemu.emulate("ada", splitk=1):
        Odd()()
    linked = tmp_path / "\udcff"  # a name that is not UTF-8
    linked.symlink_to(tmp_path)
    report = mmaemu.audit(linked, profile="ada", splitk=1)
    page = parsed(report)
    assert page.outside == []
    assert "<script>alert(1)</script>" in page.text
    assert "\\udcff" in page.text
    report.to_html().encode()


def test_the_report_is_json_with_every_call(ada_recording: Path) -> None:
    value = json.loads(json.dumps(mmaemu.audit(ada_recording, profile="hopper", splitk=1).to_json()))
    assert (value["exit_code"], len(value["calls"]), len(value["layers"])) == (1, 200, 4)
    assert sum(value["counts"].values()) == 200
    assert value["calls"][0]["module"] == "Model.layers.0.up"


def test_a_table_of_many_layers_shows_those_that_differ_first() -> None:
    def call(i: int, status: str) -> auditing.CallReport:
        counts = dict.fromkeys(_differences.CLASSES, 0) | {"value": int(status == "different")}
        return auditing.CallReport(
            i, f"layer{i}", "op", "cpu", "native", 1, 16, 16, "a", "b", "c", True, status, "", (1, "none"), "table",
            "reference", 16, counts, None, [], [], "", [], [], 0.0,
        )  # fmt: skip

    calls = [call(i, "different" if i == 77 else "equal") for i in range(100)]
    text = str(mmaemu.AuditReport("p", "ada", "auto", "auto", "0", calls, [], [], 1.0).summary())
    assert text.splitlines()[2].startswith("layer77")
    assert "60 more layers" in text.splitlines()[0]


# The command line.


def audit_command(*options: str, timeout: float = 120) -> Any:
    return run_command("-m", "mmaemu", "audit", *options, timeout=timeout)


def test_the_command_writes_every_report_and_says_1_for_differences(ada_recording: Path, tmp_path: Path) -> None:
    page, data = tmp_path / "a.html", tmp_path / "a.json"
    options = ("--profile", "hopper", "--splitk", "1", "--html", str(page), "--json", str(data))
    result = audit_command(str(ada_recording), *options)
    assert (result.returncode, result.stderr) == (1, "")
    assert "profile ada reproduces all" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(data.read_text())["exit_code"] == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.html", "a.json"]


def test_the_command_says_0_for_equal(ada_recording: Path) -> None:
    result = audit_command(str(ada_recording), "--profile", "ada", "--splitk", "recorded", "--json", "-")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["counts"] == {"equal": 200, "different": 0, "unchecked": 0}


def test_the_command_says_2_for_usage(ada_recording: Path, tmp_path: Path) -> None:
    recording = str(ada_recording)
    for options in (
        (str(tmp_path / "nowhere"),),
        (recording, "--profile", "nope"),
        (recording, "--splitk", "2,serial"),
        (recording, "--splitk", "often"),
        (recording, "--html", str(tmp_path / "no" / "folder.html")),
        (),
    ):
        result = audit_command(*options)
        assert result.returncode == 2, result
        assert "error: " in result.stderr
        assert "Traceback" not in result.stderr


def test_the_command_says_4_where_nothing_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_text("hello\n")
    result = audit_command(str(tmp_path))
    assert (result.returncode, result.stderr) == (4, "")
    assert f"{tmp_path}/index.jsonl: line 1" in result.stdout
    with mmaemu.record(tmp_path / "empty"):
        pass
    result = audit_command(str(tmp_path / "empty"))
    assert (result.returncode, result.stderr) == (4, "")
    assert "0 calls" in result.stdout
