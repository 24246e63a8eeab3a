"""Panels as pictures: SVG to put into a page, or standalone SVG and PNG files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
import textwrap
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingDependencyError
from .looks import DASHES, colour, look, style
from .looks import alpha as opacity
from .model import Curve, Guide, Panel
from .scales import DIGITS, SUPERSCRIPTS, Scale, number, power

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["colour", "png", "save_svg", "style", "svg", "swatch"]

LIGHT, DARK = ("#1f2328", "#ffffff"), ("#e3e6ea", "#14161a")  # ink, background

NAMESPACE = "http://www.w3.org/2000/svg"
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "#010203"  # stands for currentColor until the SVG is rewritten
SIZE = (4.6, 3.3)
TEXT, SMALL = 11.5, 10.0
WIDTH = 1.8
GUIDE = (0.06, 0.5)  # the part of the x axis that guides span


def svg(panel: Panel, prefix: str | None = None) -> str:
    """The panel as SVG to be put into a page: no title, no legend, ink in currentColor.

    Ids begin with `prefix` (by default the panel's name), so that several fit into one page.

    >>> curve = Curve("MOST-FW", "most-fw", np.array([1, 10, 100]), np.array([1, 0.3, 0.1]))
    >>> text = svg(Panel("gap", "Gap", "iteration", "gap", (curve,)))
    >>> text[:4], "currentColor" in text, text == svg(Panel("gap", "Gap", "iteration", "gap",
    ...     (curve,)))
    ('<svg', True, True)
    """
    root = _tree(panel, INK, None)
    prefix = _slug(panel.name) + "-" if prefix is None else prefix
    root.set("aria-label", _clean(". ".join(filter(None, (panel.title, panel.description)))))
    for index, element in enumerate(e for e in root.iter() if e.get("id")):
        old, new = element.get("id"), f"{prefix}{index}"
        element.set("id", new)
        for use in root.iter("use"):
            if use.get("href") == f"#{old}":
                use.set("href", f"#{new}")
    for element in root.iter():
        if INK in (look := element.get("style", "")):
            element.set("style", look.replace(INK, "currentColor"))
    return ET.tostring(root, "unicode")


def save_svg(panel: Panel, path: str | Path, dark: bool = False) -> None:
    """Write a standalone SVG with its title, its legend and a background of its own.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_svg(Panel("gap", "Gap", "iteration", "gap", ()), Path(folder) / "gap.svg")
    ...     "no data" in (Path(folder) / "gap.svg").read_text()
    True
    """
    ink, back = DARK if dark else LIGHT
    root = _tree(panel, ink, back)
    root.set("font-family", FONTS)
    for name, length in zip(("width", "height"), root.get("viewBox", "").split()[2:], strict=True):
        root.set(name, f"{1.5 * float(length):.0f}")
    for tag, text in (("desc", panel.description), ("title", panel.title)):
        if text:
            element = ET.Element(tag)
            element.text = _clean(text)
            root.insert(0, element)
    Path(path).write_text(ET.tostring(root, "unicode") + "\n", encoding="utf-8")


def png(panel: Panel, path: str | Path, dark: bool = False) -> None:
    """Write a PNG with its title and its legend, for light pages or dark ones.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     png(Panel("gap", "Gap", "iteration", "gap", ()), Path(folder) / "gap.png")
    ...     (Path(folder) / "gap.png").read_bytes()[1:4]
    b'PNG'
    """
    ink, back = DARK if dark else LIGHT
    with _settings():
        _figure(panel, ink, back).savefig(path, format="png", dpi=200, metadata={"Software": None})


def swatch(curve: Curve) -> str:
    """A curve's line and marker as a small SVG, for a legend.

    >>> points = np.ones(1)
    >>> swatch(Curve("MOST-FW", "most-fw", points, points)).count("#1174ba")
    2
    """
    from_path = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    seen, shapes = look(curve), ""
    if curve.line != "none":
        dash = " ".join(f"{WIDTH * part:g}" for part in DASHES[seen.line])
        shapes = (
            f'<path d="M1 6H31" stroke="{seen.colour}" stroke-width="{WIDTH}"'
            f' stroke-dasharray="{dash or "none"}"/>'
        )
    if seen.marker:
        with _settings():
            from matplotlib.markers import MarkerStyle
            from matplotlib.transforms import Affine2D

            mark = MarkerStyle(seen.marker)
            place = mark.get_transform() + Affine2D().scale(6.5, -6.5).translate(16, 6)
            path = mark.get_path().transformed(place)
        drawn = "".join(
            from_path.get(int(code), "L") + " ".join(f"{v:.2f}" for v in points if code != 79)
            for points, code in path.iter_segments(simplify=False)
        )
        shapes += f'<path d="{drawn}" fill="{seen.colour}"/>'
    frame = f'viewBox="0 0 32 12" width="32" height="12" opacity="{opacity(curve):.2f}"'
    return f'<svg {frame} fill="none" aria-hidden="true">{shapes}</svg>'


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    text = text.encode("utf-8", "replace").decode()
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", "", text)


def _slug(name: str) -> str:
    short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"p-{short or hashlib.sha256(_clean(name).encode()).hexdigest()[:8]}"


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """matplotlib as it comes, whatever the user's settings are, and quiet about fonts."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependencyError(
            "Drawing a panel needs matplotlib: pip install 'mostfw[experiments]'."
        ) from error
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mostfw"})
        yield


def _tree(panel: Panel, ink: str, back: str | None) -> ET.Element:
    """matplotlib's SVG without its metadata, its fonts, its size and its unused ids."""
    buffer = io.BytesIO()
    with _settings():
        figure = _figure(panel, ink, back)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(buffer.getvalue())
    for child in list(root):
        if child.tag.endswith("metadata") or child.tag.endswith("defs"):
            root.remove(child)
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        if element.tag != "text":
            element.text = None
        element.tail = None
        element.attrib.pop("clip-path", None)  # the axes have room for all that is drawn
        if href := element.attrib.pop("{http://www.w3.org/1999/xlink}href", None):
            element.set("href", href)
        if "d" in element.attrib:
            numbers = " ".join(element.attrib["d"].split())
            element.set("d", re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.2f}", numbers))
        if element.tag == "text":
            look = re.sub(r"font-family:[^;]*;? ?", "", element.get("style", ""))
            element.set("style", look)
            if element.get("transform", "").startswith("rotate(-0 "):
                del element.attrib["transform"]
            _raise_exponent(element)
    used = {e.get("href", "")[1:] for e in root.iter("use")}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    attributes = {"xmlns": NAMESPACE, "viewBox": root.get("viewBox", ""), "role": "img"}
    root.attrib.clear()
    root.attrib.update(attributes, **{"stroke-linejoin": "round"})
    return root


def _raise_exponent(element: ET.Element) -> None:
    """Write 10³ and k^{-1/2} with raised exponents that look the same in every font."""
    small = f"[{re.escape(SUPERSCRIPTS)}]+"
    found = re.fullmatch(rf"(.*?)(?:\^\{{?([−-]?\d+(?:/\d+)?)\}}?|({small}))", element.text or "")
    if found:
        element.text = found[1]
        raised = ET.SubElement(element, "tspan", {"dy": "-0.42em", "font-size": "76%"})
        exponent = found[2] or found[3].translate(str.maketrans(SUPERSCRIPTS, DIGITS))
        raised.text = exponent.replace("-", "−")


def _figure(panel: Panel, ink: str, back: str | None) -> Figure:
    """The panel drawn; with a background it also gets its title and its legend."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    curves = [_Points(curve) for curve in panel.curves]
    x = Scale([c.x for c in curves], panel.x_log)
    heights = [v for c in curves for v in (c.y, c.low, c.high)]
    levels = _levels(panel, curves, x, Scale(heights, panel.y_log))
    y = Scale([*heights, np.array(levels)], panel.y_log)
    legend = [c for c in panel.curves if c.label] if back else []
    rows = math.ceil(len(legend) / 2)
    figure = Figure((SIZE[0], SIZE[1] + 0.21 * rows + 0.3 * bool(back)), layout="constrained")
    figure.patch.set(visible=back is not None, facecolor=back or "none")
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    _axes(axes, panel, x, y, ink)
    if not any((x.shows(c.x) & (y.shows(c.y) | y.shows(c.high))).any() for c in curves):
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, color=ink, alpha=0.6,
                  ha="center", va="center", fontsize=TEXT)  # fmt: skip
    else:
        for guide, level in zip(panel.guides, levels, strict=True):
            _guide(axes, guide, level, x, y, ink)
        for index, points in enumerate(curves):
            _curve(axes, points, x, y, 0.05 + 0.04 * (index % 5), ink)
    if back:
        title = "\n".join(textwrap.wrap(_clean(panel.title), 44))
        figure.suptitle(title, x=0.02, ha="left", color=ink, fontsize=13, parse_math=False)
    if legend:
        handles = [Line2D([], [], **_stroke(curve)) for curve in legend]
        names = [_clean(curve.label) for curve in legend]
        box = figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False,
                            fontsize=SMALL, labelcolor=ink, handlelength=2.6)  # fmt: skip
        for text in box.get_texts():
            text.set_parse_math(False)
    return figure


def _axes(axes: Axes, panel: Panel, x: Scale, y: Scale, ink: str) -> None:
    for scale, axis, name in ((x, axes.xaxis, "x"), (y, axes.yaxis, "y")):
        getattr(axes, f"set_{name}scale")("log" if scale.log else "linear")
        getattr(axes, f"set_{name}lim")(*scale.limits)
        major, minor = scale.ticks()
        powers = scale.log and minor
        labels = [power(value) if powers else number(value) for value in major]
        axis.set_ticks(major, labels)
        axis.set_ticks(minor, minor=True)
        axis.set_tick_params(which="minor", labelbottom=False, labelleft=False)
    axes.tick_params(which="major", length=0, pad=5, labelsize=TEXT, labelcolor=ink)
    axes.tick_params(which="minor", length=0)
    axes.grid(True, which="major", color=ink, alpha=0.16, linewidth=0.7)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set(visible=name in ("left", "bottom"), color=ink, alpha=0.55, linewidth=0.9)
    axes.set_xlabel(_clean(panel.x_label), color=ink, fontsize=TEXT, parse_math=False)
    above = "\n".join(textwrap.wrap(_clean(panel.y_label), 46))
    axes.set_title(above, loc="left", color=ink, fontsize=TEXT, pad=8, parse_math=False)


class _Points:
    """A curve's numbers as float64, with an empty band where it has none."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.x, self.y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)
        self.band = curve.low is not None and curve.high is not None
        nothing = np.full(self.y.shape, np.nan)
        self.low = np.asarray(curve.low, np.float64) if self.band else nothing
        self.high = np.asarray(curve.high, np.float64) if self.band else nothing


def _stroke(curve: Curve) -> dict[str, Any]:
    seen = look(curve)
    dash = (0, DASHES[seen.line]) if DASHES[seen.line] else "solid"
    return {
        "color": seen.colour,
        "alpha": opacity(curve),
        "linewidth": WIDTH,
        "linestyle": "none" if curve.line == "none" else dash,
        "marker": seen.marker,
        "markersize": 5.5,
        "markeredgewidth": 0,
        "dash_capstyle": "butt",
        "solid_capstyle": "round",
        "clip_on": False,
    }


def _curve(axes: Axes, points: _Points, x: Scale, y: Scale, offset: float, ink: str) -> None:
    curve, stroke = points.curve, _stroke(points.curve)
    shown = x.shows(points.x) & y.shows(points.y)
    if points.band:  # a lower end that a log axis cannot show is below all of the panel
        usable = x.shows(points.x) & y.shows(points.high) & ~np.isnan(points.low)
        low = np.where(y.shows(points.low), points.low, y.limits[0])
        axes.fill_between(
            np.where(usable, points.x, x.limits[0]), low, points.high, where=usable.tolist(),
            color=stroke["color"], alpha=0.18 * stroke["alpha"], linewidth=0, clip_on=False,
        )  # fmt: skip
    sparse = not curve.marker and curve.line != "none"
    horizontal, height = (np.where(shown, v, np.nan) for v in (points.x, points.y))
    if shown.any():  # matplotlib fails to mark a line without points
        axes.plot(horizontal, height, **stroke, markevery=(offset, 0.26) if sparse else None)
    padded = np.pad(shown, 1)
    alone = shown & ~padded[:-2] & ~padded[2:]
    if alone.any():  # no line would show them
        axes.plot(points.x[alone], points.y[alone], **{**stroke, "linestyle": "none"})
    for note, left, up, there in zip(curve.notes, points.x, points.y, shown, strict=False):
        if there and note:
            side = -1 if x.part(float(left)) > 0.75 else 1
            rise = -12 if y.part(float(up)) > 0.88 else 5
            axes.annotate(
                _clean(note), (left, up), (5 * side, rise), textcoords="offset points", color=ink,
                fontsize=SMALL, ha="left" if side > 0 else "right", parse_math=False,
                annotation_clip=False,
            )  # fmt: skip


def _levels(panel: Panel, curves: list[_Points], x: Scale, y: Scale) -> list[float]:
    """Where the guides start: those that fall all at the same place, so that they fan out."""
    levels = [_level(guide.slope, curves, x, y) for guide in panel.guides]
    falling = [v for v, g in zip(levels, panel.guides, strict=True) if g.slope <= 0 and v > 0]
    top = max(falling, default=math.nan)
    return [top if g.slope <= 0 else v for v, g in zip(levels, panel.guides, strict=True)]


def _level(slope: float, curves: list[_Points], x: Scale, y: Scale) -> float:
    """Where a guide starts: above all curves if that takes little more room, NaN if nowhere."""
    first = x.at(GUIDE[0])
    if first <= 0 or y.empty or x.empty:
        return math.nan
    highest = y.at(0.05)
    for points in curves:
        tops = np.where(y.shows(points.high), points.high, points.y)
        near = x.shows(points.x) & y.shows(tops) & (points.x >= first)
        near &= points.x <= x.at(GUIDE[1])
        if near.any():
            with np.errstate(over="ignore", under="ignore"):
                starts = tops[near] * (points.x[near] / first) ** -slope
            highest = max(highest, float(starts.max()))
    lifted = y.at(y.part(highest) + 0.06) if highest > 0 else math.nan
    return min(max(lifted, y.at(0.06)), y.at(1.25 if slope <= 0 else 0.6))


def _guide(axes: Axes, guide: Guide, level: float, x: Scale, y: Scale, ink: str) -> None:
    """From the left until half across, or until the panel ends."""
    if not level > 0:
        return
    across = np.array([x.at(part) for part in np.linspace(*GUIDE, 45)])
    with np.errstate(over="ignore", under="ignore"):
        height = level * (across / across[0]) ** guide.slope
    inside = np.array([v > 0 and 0.03 <= y.part(float(v)) <= 0.99 for v in height])
    if inside.sum() < 2:
        return
    across, height = across[inside], height[inside]
    axes.plot(across, height, color=ink, alpha=0.55, linewidth=1.0, linestyle=(0, (5, 3)),
              clip_on=False)  # fmt: skip
    axes.annotate(_clean(guide.label), (across[-1], height[-1]), (4, 1), color=ink, alpha=0.8,
                  textcoords="offset points", fontsize=SMALL, parse_math=False)  # fmt: skip
