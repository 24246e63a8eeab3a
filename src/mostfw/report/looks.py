"""How each method looks, in every panel and every legend."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from .model import Curve

# Okabe and Ito's hues, moved to where each has a contrast of 3 on white as on a dark page.
BLUE, VERMILLION, GREEN, PINK = "#1174ba", "#d55e00", "#009e73", "#c4689b"
SKY, OCHRE, GREY = "#2a9bd0", "#b07d00", "#7d8590"

DASHES: dict[str, tuple[float, ...]] = {
    "solid": (),
    "dashed": (3.8, 1.6),
    "dotted": (1.0, 1.5),
    "dashdot": (5.0, 1.5, 1.0, 1.5),
    "long": (9.0, 1.8),
}


@dataclass(frozen=True)
class Style:
    """How a method looks in every panel: colour, a key of `DASHES`, matplotlib's marker.

    >>> style("zo-most-fw").line
    'dashed'
    """

    colour: str
    line: str = "solid"
    marker: str = ""


# A family shares its hue: a homotopy method is solid, the method it comes from has long dashes, the
# twin that sees values only short ones.
STYLES = {
    "most-fw": Style(BLUE, "solid", "o"),
    "zo-most-fw": Style(BLUE, "dashed", "p"),
    "most-al": Style(BLUE, "long", "*"),
    "zo-most-al": Style(BLUE, "dashdot", "8"),
    "most-fw+": Style(VERMILLION, "solid", "D"),
    "most-al+": Style(VERMILLION, "long", "X"),
    "zo-most-fw+": Style(VERMILLION, "dashed", "d"),
    "shcgm": Style(PINK, "solid", "^"),
    "sfw": Style(PINK, "long", "<"),
    "zo-sfw": Style(OCHRE, "dashed", ">"),
    "h1-sfw": Style(GREEN, "solid", "s"),
    "1-sfw": Style(GREEN, "long", "h"),
    "h-spider-fw": Style(SKY, "solid", "v"),
    "spider-fw": Style(SKY, "dashdot", "*"),
    "orgfw": Style(SKY, "long", "P"),
    "h-sag-cgm": Style(OCHRE, "solid", "X"),
    "saga-fw": Style(OCHRE, "dashdot", "8"),
    "hfw": Style(GREY, "solid", "P"),
    "cgal": Style(GREY, "long", "v"),
    "zo-fw": Style(GREY, "dashed", "H"),
    "reference": Style(GREY, "dotted", ""),
}


def style(method: str) -> Style:
    """The look of a method; a trimmed one looks as its parent, an unknown one as its name says.

    >>> style("t-most-fw") == style("most-fw"), style("mine") == style("mine")
    (True, True)
    """
    name = method.lower().removeprefix("t-")
    if name in STYLES:
        return STYLES[name]
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    hues = (BLUE, VERMILLION, GREEN, PINK, SKY, OCHRE)
    return Style(hues[digest[0] % 6], ("long", "dashdot")[digest[1] % 2], "osD^vPX*"[digest[2] % 8])


def colour(method: str) -> str:
    """The one colour of a method, as `#rrggbb`.

    >>> colour("most-fw"), colour("t-most-fw"), colour("most-fw+")
    ('#1174ba', '#1174ba', '#d55e00')
    """
    return style(method).colour


def look(curve: Curve) -> Style:
    """The style of a method, but for what the curve itself asks for.

    >>> import numpy as np
    >>> look(Curve("trimmed", "t-most-fw", np.ones(1), np.ones(1), line="dotted"))
    Style(colour='#1174ba', line='dotted', marker='o')
    """
    own = style(curve.method)
    line = curve.line if curve.line in DASHES and curve.line != "solid" else own.line
    return Style(own.colour, line, curve.marker or own.marker or "o" * (curve.line == "none"))


def alpha(curve: Curve) -> float:
    """A curve's shade as an opacity that can still be seen.

    >>> import numpy as np
    >>> alpha(Curve("tau", "most-fw", np.ones(1), np.ones(1), shade=0.0))
    0.3
    """
    return 0.3 + 0.7 * min(1.0, max(0.0, curve.shade))
