"""An audit's report as one HTML page: tables and plots in plain HTML and SVG, nothing fetched from anywhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auditing import AuditReport, CallReport

_MOST_BARS = 60  # of a plot
_MOST_CALLS = 200  # told one by one
_STYLE = """
:root { color-scheme: light dark; --bad: #c0392b; --good: #27804a; --dim: #7f8c8d; --bar: #3b6ea5; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code, .bits { font-family: ui-monospace, monospace; font-size: 12px; }
.equal { color: var(--good); } .different { color: var(--bad); } .unchecked { color: var(--dim); }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.scroll { overflow-x: auto; }
"""


def page(report: AuditReport) -> str:
    """The whole page."""
    parts = [
        f"<h1>{_text(report.verdict)}</h1>",
        f"<p>{_text(report.diagnosis)}</p>" if report.diagnosis else "",
        _facts(report),
        _messages("What is wrong with the files", report.problems),
        _messages("Warnings", report.warnings),
        "<h2>Elements that differ, by layer</h2>",
        _difference_plot(report),
        "<h2>How far they differ</h2>",
        _ulp_plot(report),
        "<h2>Time of recomputing, by layer</h2>",
        _time_plot(report),
        "<h2>Layers</h2>",
        _layer_table(report),
        "<h2>Calls that are not equal</h2>",
        _call_table(report),
    ]
    title = _text(f"Audit of {report.path}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _text(value: Any) -> str:
    """Text as HTML; what UTF-8 cannot hold, as of file names, becomes escapes."""
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> str:
    """A table of cells that are HTML already; that many columns after the first hold numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        right = range(1, 1 + numbers)
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if i in right else f"<{tag}>{cell}</{tag}>"
            for i, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{line("th", header)}</tr>{body}</table></div>'


def _facts(report: AuditReport) -> str:
    devices = sorted({call.device for call in report.calls})
    makers = sorted({call.computed_by for call in report.calls})
    rows = [
        ("profile", report.profile),
        ("split of K", report.splitk),
        ("backend", report.backend),
        ("recorded on", ", ".join(devices)),
        ("recorded results by", ", ".join(makers)),
        ("mmaemu", report.version),
    ]
    return _table(("what", "value"), [(_text(name), _text(value)) for name, value in rows], 0)


def _messages(heading: str, messages: Sequence[str]) -> str:
    if not messages:
        return ""
    return f"<h2>{_text(heading)}</h2><ul>{''.join(f'<li>{_text(text)}</li>' for text in messages)}</ul>"


def _bars(rows: Sequence[tuple[str, float, str, str]], unit: str) -> str:
    """Horizontal bars: label, length, what is written behind it, colour. The longest fills the width."""
    if not rows:
        return "<p>None.</p>"
    shown = rows[:_MOST_BARS]
    longest = max(value for _, value, _, _ in shown) or 1.0
    left, width, step = 300, 480, 20
    lines = []
    for i, (label, value, behind, colour) in enumerate(shown):
        y, length = i * step, width * value / longest
        short = label if len(label) <= 44 else "…" + label[-43:]
        lines.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end"><title>{_text(label)}</title>{_text(short)}</text>'
            f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{step - 6}" fill="var(--{colour})"/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 14}">{_text(behind)}</text>'
        )
    rest = f"<p>{len(rows) - len(shown)} more are left out.</p>" if len(rows) > len(shown) else ""
    size = f"0 0 {left + width + 180} {len(shown) * step}"
    return f'<svg viewBox="{size}" role="img" aria-label="{_text(unit)}">{"".join(lines)}</svg>{rest}'


def _difference_plot(report: AuditReport) -> str:
    rows = []
    for layer in report.layers:
        share = layer.different_elements / layer.elements if layer.elements else 0.0
        behind = f"{share:.3%}" if layer.elements else "not checked"
        rows.append((layer.module, share, behind, "bad" if share else "good"))
    return _bars(rows, "share of differing elements by layer")


def _ulp_plot(report: AuditReport) -> str:
    totals: list[int] = []
    for call in report.calls:
        totals += [0] * (len(call.ulps) - len(totals))
        for i, count in enumerate(call.ulps):
            totals[i] += count
    rows = []
    for i, count in enumerate(totals):
        label = "1 ulp" if i == 0 else f"{2**i:,} to {2 ** (i + 1) - 1:,} ulps"
        rows.append((label, float(count), f"{count:,} elements", "bar"))
    return _bars(rows, "differing elements by distance in ulps")


def _time_plot(report: AuditReport) -> str:
    layers = sorted(report.layers, key=lambda layer: -layer.seconds)
    return _bars(
        [(layer.module, layer.seconds, f"{layer.seconds:.3f} s, {layer.calls:,} calls", "bar") for layer in layers],
        "seconds by layer",
    )


def _layer_table(report: AuditReport) -> str:
    rows = [
        (
            _text(layer.module),
            f"{layer.calls:,}",
            f"{layer.equal:,}",
            f"{layer.different:,}",
            f"{layer.unchecked:,}",
            f"{layer.different_elements:,} of {layer.elements:,}",
            "-" if layer.max_ulps is None else f"{layer.max_ulps:,}",
            _text(layer.says),
        )
        for layer in report.layers
    ]
    header = ("layer", "calls", "equal", "different", "unchecked", "elements that differ", "ulps", "says")
    return _table(header, rows, 6)


def _call_table(report: AuditReport) -> str:
    calls = [call for call in report.calls if call.status != "equal"]
    if not calls:
        return "<p>None.</p>"
    rows = [_call_row(call) for call in calls[:_MOST_CALLS]]
    header = ("call", "M", "N", "K", "layer", "formats", "accumulation, split", "what")
    rest = f"<p>{len(calls) - len(rows):,} more are in the JSON report.</p>" if len(calls) > len(rows) else ""
    return _table(header, rows, 3) + rest


def _call_row(call: CallReport) -> tuple[str, ...]:
    split = "-" if call.split is None else f"S = {call.split[0]} {call.split[1]} ({call.split_source})"
    what = [f'<span class="{call.status}">{call.status}</span> {_text(call.reason)}']
    if call.different:
        classes = ", ".join(f"{kind} {count:,}" for kind, count in call.counts.items() if count)
        what.append(_text(f"{call.different:,} of {call.elements:,} elements: {classes}"))
    what += [
        f'<span class="bits">{_text(e["element"])}: recorded {_text(e["recorded"])}, '
        f"computed {_text(e['computed'])}: {_text(e['class'])}</span>"
        for e in call.first[:3]
    ]
    what += [_text(text) for text in ([call.diagnosis] if call.diagnosis else []) + call.notes]
    return (
        f"{call.call:,}",
        f"{call.M:,}",
        f"{call.N:,}",
        f"{call.K:,}",
        _text(call.module or "(no module)"),
        _text(f"{call.a_dtype} x {call.b_dtype} -> {call.out_dtype}"),
        _text(f"{'fast' if call.use_fast_accum else 'slow'}, {split}"),
        "<br>".join(what),
    )
