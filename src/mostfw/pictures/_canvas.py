"""Files that panels are drawn into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg", ".pdf")
SIDE = 5.2  # inches, of one panel


class Panel(Protocol):
    """Something that draws itself into a pair of axes."""

    def __call__(self, axes: Axes) -> None: ...


def draw(file: str | Path, *panels: Panel) -> Path:
    """Draws the panels side by side into a .png, .svg or .pdf file.

    >>> import numpy as np, tempfile
    >>> from mostfw.pictures import Clusters, draw
    >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(f"{folder}/clusters.png", Clusters(points, np.array([0, 0, 1]))).name
    'clusters.png'
    """
    path = check_target(file)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "pictures need matplotlib: pip install 'mostfw[experiments]'."
        ) from error
    figure = Figure(figsize=(SIDE * len(panels), SIDE * 0.9), layout="constrained", dpi=150)
    for index, panel in enumerate(panels):
        panel(figure.add_subplot(1, len(panels), index + 1))
    try:
        figure.savefig(path)
    except OSError as error:
        raise InvalidInputError(
            f"the picture cannot be written to {str(path)!r}: {error}"
        ) from error
    return path


def check_target(file: str | Path) -> Path:
    """A path that a picture can be written to: known before a long run, not after it.

    >>> check_target("picture.png").name
    'picture.png'
    """
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise InvalidInputError(
            f"the picture {str(path)!r} has the ending {path.suffix!r}: give one of "
            f"{', '.join(FORMATS)}."
        )
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"the folder of the picture {str(path)!r} does not exist.")
    return path
