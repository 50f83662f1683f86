"""The command line: info, selftest, explain, audit.

Exit status: 0 success; 1 a required kernel failed, the explained call would raise, or not every audited call is equal;
2 usage error; 4 nothing could be tested, explained or audited.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform as host
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from . import _native, backends, plan, platforms, presets, splitk
from .errors import MmaemuError

_OK, _FAILED, _USAGE, _NOTHING = 0, 1, 2, 4
_DTYPES = ("e4m3", "e5m2", "bf16", "fp16", "fp32", "float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32")


class _UsageError(Exception):
    pass


def _paint(text: str, colour: str) -> str:
    """Text in colour, on a terminal that wants it."""
    codes = {"green": "32", "red": "31", "yellow": "33", "bold": "1"}
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{codes[colour]}m{text}\x1b[0m"


def _write(option: str, path: str, text: str) -> None:
    """To a file, as a whole or not at all; "-" is standard output."""
    if path == "-":
        sys.stdout.write(text)
        return
    temporary = None
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe, which nothing may replace
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            return
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(target), delete=False, encoding="utf-8") as file:
            temporary = file.name
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as problem:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise _UsageError(f"{option}: cannot write {path}: {problem.strerror or problem}") from None


def _report(args: argparse.Namespace, value: dict[str, Any] | str, text: str) -> None:
    """value: what --json writes, an object or its text."""
    if args.json:
        _write("--json", args.json, (value if isinstance(value, str) else json.dumps(value, indent=2)) + "\n")
    if args.json != "-":
        print(text)


def _version_of(package: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _table(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def _info(args: argparse.Namespace) -> int:
    value = json.loads(_native.info_json(args.device))
    value |= {"python": host.python_version(), "torch": _version_of("torch"), "numpy": _version_of("numpy")}
    device, gpu, default = value["device"], value["gpu"], value["default_profile"]
    profiles = [profile["name"] for profile in value["profiles"]]
    rows = [
        ("mmaemu", value["mmaemu"]),
        ("python", f"{value['python']}, torch {value['torch'] or 'not installed'}"),
        ("machine", f"{value['machine']}, {value['processors']} processors"),
        ("cpu targets", ", ".join(value["cpu_targets"])),
        ("device", f"{device} ({gpu})" if gpu else f"{device} (no usable CUDA device)"),
        ("profiles", ", ".join(f"{name} (default)" if name == default else name for name in profiles)),
        ("this GPU is", ", ".join(value["matching_profiles"]) or "none of the profiles' platforms"),
        ("presets", ", ".join(preset["name"] for preset in value["presets"])),
    ]
    for s in value["backends"]:
        reason = s["reason"]
        if s["available"] and s["gates"]:
            reason = f"{s['source']}, passed {', '.join(s['gates'])}" + (f"; {reason}" if reason else "")
        rows.append((s["name"], _paint("available", "green") + f": {reason}" if s["available"] else f"no: {reason}"))
    rows += list(value["environment"].items())
    _report(args, value, _table(rows))
    return _OK


def _jsonable(value: Any) -> dict[str, Any]:
    return dataclasses.asdict(value)


def _selftest(args: argparse.Namespace) -> int:
    verdicts = backends.verdicts(args.device, args.kernels, args.force)
    gates = [(verdict.kernel, gate) for verdict in verdicts for gate in backends.gate_results(verdict)]
    rows = [
        (kernel, f"{_paint('passed', 'green') if gate.passed else _paint('FAILED', 'red')} {gate.name}: {gate.reason}")
        for kernel, gate in gates
    ]
    if not rows:
        device = f"cuda:{args.device or 0}"
        reasons = {s.reason for s in backends.backends_status(device).values() if not s.available}
        rows = [("selftest", f"nothing could be tested on {device}: {'; '.join(sorted(reasons))}")]
    required = [verdict.kernel for verdict in verdicts if verdict.required]
    value: dict[str, Any] = {"kernels": {verdict.kernel: [] for verdict in verdicts}, "required": required}
    for kernel, gate in gates:
        value["kernels"][kernel].append(_jsonable(gate))
    _report(args, value, _table(rows))
    if not verdicts:
        return _NOTHING
    return _OK if all(gate.passed for kernel, gate in gates if kernel in required) else _FAILED


def _split(text: str) -> Any:
    if text == "auto":
        return "auto"
    parts = text.split(",")
    try:
        S = int(parts[0])
    except ValueError:
        S, parts = 0, []
    if not -(2**63) <= S < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r}: S does not fit 64 bits")
    if len(parts) == 1:
        return S
    if len(parts) == 2:
        return (S, parts[1])
    raise argparse.ArgumentTypeError(f"{text!r} is not auto, 1, or S,contiguous, S,serial or S,pairwise")


def _size(text: str) -> int:
    try:
        size = int(text)
    except ValueError:
        size = -1
    if not 0 <= size < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: an integer of at least 0")
    return size


def _device(text: str) -> str:
    if text == "auto":
        return text
    try:
        return backends.device_name(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _index(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a CUDA device index")
    return int(text)


def _explain(args: argparse.Namespace) -> int:
    text = _native.explain_json(
        args.M,
        args.N,
        args.K,
        args.a,
        args.b,
        args.out,
        args.fast,
        args.scale_a,
        args.scale_b,
        args.scale_result,
        None if args.profile is None else presets.plain(args.profile),
        splitk.split_argument(args.splitk),
        presets.plain(args.backend),
        args.device,
    )
    value = json.loads(text)
    if "error" in value:
        _report(args, text, value["error"])
        return _NOTHING
    result = plan.from_json(value["plan"])
    shown = str(result)
    valid = result.validation == "ok"
    shown = shown.replace("validation  ", "validation  " + ("" if valid else _paint("would raise ", "red")), 1)
    if valid:
        shown = shown.replace("validation  ok", "validation  " + _paint("ok", "green"), 1)
    _report(args, text, shown)
    return _OK if valid else _FAILED


def _audit(args: argparse.Namespace) -> int:
    from . import auditing

    if not os.path.lexists(args.path):
        raise _UsageError(f"{args.path} does not exist")
    profile = platforms.get_profile(args.profile)
    try:
        report = auditing.audit(
            args.path,
            profile=profile,
            splitk=args.splitk,
            backend=args.backend,
            progress=_progress_bar(),
            workers=args.workers,
            scheduler=args.scheduler,
            state=args.state,
        )
    except MmaemuError as problem:
        _report(args, {"error": str(problem)}, str(problem))
        return _NOTHING
    if args.html:
        _write("--html", args.html, report.to_html())
    _report(args, report.to_json(), str(report))
    return report.exit_code


def _progress_bar() -> Callable[[int, int], None] | None:
    """Draws the share of the work done on standard error; None where that is no terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None

    def draw(done: int, whole: int) -> None:
        share = done / whole if whole else 1.0
        bar = "#" * int(40 * share)
        sys.stderr.write(f"\r[{bar:<40}] {share:4.0%}")
        if done >= whole:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    return draw


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def _split_or_recorded(text: str) -> Any:
    return text if text == "recorded" else _split(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mmaemu", description="The exact bits of FP8 tensor-core matrix products."
    )
    parser.add_argument("--version", action="version", version=f"mmaemu {_native.version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="info | selftest | explain | audit")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("--json", metavar="PATH", help="also write the result as JSON; - for standard output alone")
        return sub

    info = command("info", _info, "Versions, profiles, presets and backends.")
    info.add_argument("--device", type=_index, metavar="N", help="CUDA device index")

    selftest = command("selftest", _selftest, "Run the gates of the CUDA kernels.")
    selftest.add_argument("--device", type=_index, metavar="N", help="CUDA device index")
    selftest.add_argument("--kernels", default="all", metavar="all|v1,v4,...", help="which kernels")
    selftest.add_argument("--force", action="store_true", help="run the gates again, whatever the cache says")

    explain = command("explain", _explain, "What scaled_mm would do for an M x N x K call, and why.")
    for name in ("M", "N", "K"):
        explain.add_argument(name, type=_size)
    explain.add_argument("--a", choices=("e4m3", "e5m2"), default="e4m3", help="format of input")
    explain.add_argument("--b", choices=("e4m3", "e5m2"), default="e4m3", help="format of mat2")
    explain.add_argument("--out", choices=_DTYPES, metavar="DTYPE", help="out_dtype; default: that of input")
    explain.add_argument("--fast", action="store_true", help="use_fast_accum=True")
    for name in ("--scale-a", "--scale-b", "--scale-result"):
        default = None if name == "--scale-result" else 1.0
        explain.add_argument(name, type=float, default=default, metavar="X", help="changes the result, not the plan")
    explain.add_argument("--profile", metavar="NAME", help="default: $MMAEMU_PROFILE or hopper")
    explain.add_argument(
        "--splitk", type=_split, default="auto", metavar="auto|1|S,SCHEME", help="contiguous, serial or pairwise"
    )
    explain.add_argument("--backend", default="auto", metavar="NAME")
    explain.add_argument("--device", type=_device, default="auto", metavar="auto|cpu|cuda|cuda:N")

    audit = command("audit", _audit, "Recompute a recording of mmaemu.record and compare it bit by bit.")
    audit.add_argument("path", metavar="PATH", help="the folder that was recorded into")
    audit.add_argument("--profile", metavar="NAME", help="default: $MMAEMU_PROFILE or hopper")
    audit.add_argument(
        "--splitk",
        type=_split_or_recorded,
        default="auto",
        metavar="auto|recorded|1|S,SCHEME",
        help="recorded: what the recording tells, else auto",
    )
    audit.add_argument("--backend", default="auto", metavar="NAME")
    audit.add_argument("--workers", type=_count, metavar="N", help="share the work among N processes of this machine")
    audit.add_argument("--scheduler", metavar="ADDRESS", help="share the work among the workers of a Dask scheduler")
    audit.add_argument("--state", metavar="PATH", help="keep what was found so far, and go on from there")
    audit.add_argument("--html", metavar="PATH", help="also write the report as one page with plots")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (_UsageError, KeyError, ValueError) as problem:  # the latter two: the environment or an option
        print(f"python -m mmaemu {args.command}: error: {problem.args[0]}", file=sys.stderr)
        return _USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OK
