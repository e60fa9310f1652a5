"""Bar charts as SVG, without a library: one group of bars a load, one bar a product, on a
logarithmic or linear axis.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 860
_LEFT: Final = 150
_BAR: Final = 16
_GAP: Final = 14
_TOP: Final = 64
COLOURS: Final = ("#0b6e4f", "#6bbf9c", "#b5541c", "#d99a5b", "#8a8f98", "#c2c6cc", "#5a6b8c")
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:15px;font-weight:600}"
    "svg{background:#fff}.axis{stroke:#ddd}"
)


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    groups: Sequence[str]
    """Names of the groups, from top to bottom."""
    values: Mapping[tuple[str, str], float]
    """By group and series; a pair that is missing has no bar."""
    shown: Callable[[float], str]
    """The value beside its bar."""
    is_logarithmic: bool = False

    @property
    def series(self) -> list[str]:
        """In the order of `values`."""
        return list(dict.fromkeys(name for _, name in self.values))


def svg(chart: Chart) -> str:
    """The chart as a document."""
    colours = dict(zip(chart.series, COLOURS, strict=False))
    parts, top = [_text(12, 24, chart.title, "title"), *_legend(chart, colours)], _TOP
    for group in chart.groups:
        bars = [(name, chart.values[group, name]) for name in chart.series if (group, name) in chart.values]
        parts.append(_text(12, top + len(bars) * _BAR / 2 + 4, group))
        for name, value in bars:
            parts.append(_bar(chart, top, value, colours[name]))
            top += _BAR
        top += _GAP
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" aria-label="{escape(chart.title)}">\n'
        f'<style>{_STYLE}</style>\n<rect width="{_WIDTH}" height="{top}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _legend(chart: Chart, colours: Mapping[str, str]) -> list[str]:
    made, left = [], 12.0
    for name in chart.series:
        made += [
            f'<rect x="{left:.0f}" y="36" width="12" height="12" fill="{colours[name]}"/>',
            _text(left + 17, 46, name),
        ]
        left += 34 + 6.6 * len(name)
    return made


def _bar(chart: Chart, top: float, value: float, colour: str) -> str:
    width = _length(chart, value) * (_WIDTH - _LEFT - 90)
    return f'<rect x="{_LEFT}" y="{top + 2:.0f}" width="{width:.1f}" height="{_BAR - 3}" fill="{colour}"/>' + _text(
        _LEFT + width + 6, top + 12, chart.shown(value)
    )


def _length(chart: Chart, value: float) -> float:
    """Share of the axis, 0 to 1."""
    highest = max(chart.values.values())
    if not chart.is_logarithmic:
        return value / highest if highest else 0.0
    lowest = min(value for value in chart.values.values() if value > 0) / 2
    return max(0.0, math.log(value / lowest) / math.log(highest / lowest)) if value > 0 else 0.0


def _text(x: float, y: float, text: str, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{named}>{escape(text)}</text>'
