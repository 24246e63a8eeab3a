"""Every public name has a docstring with an example, and every example runs."""

import contextlib
import csv
import doctest
import importlib
import inspect
import io
import pkgutil
import re
from pathlib import Path

import pytest

import mostfw

ROOT = Path(__file__).parents[1]
MODULES = [
    info.name
    for info in pkgutil.walk_packages(mostfw.__path__, "mostfw.")
    if not info.name.endswith("__main__")
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    with contextlib.redirect_stderr(io.StringIO()):
        failed, _ = doctest.testmod(module, optionflags=FLAGS)
    assert failed == 0


PUBLIC_MODULES = [
    getattr(mostfw, name) for name in mostfw.__all__ if inspect.ismodule(getattr(mostfw, name))
]


def public_names():
    """Classes and functions that a user reaches as mostfw.X or mostfw.module.X."""
    found = {name: getattr(mostfw, name) for name in mostfw.__all__}
    for module in PUBLIC_MODULES:
        listed = getattr(module, "__all__", None) or [
            name
            for name, item in vars(module).items()
            if not name.startswith("_") and getattr(item, "__module__", None) == module.__name__
        ]
        found.update({f"{module.__name__[7:]}.{name}": getattr(module, name) for name in listed})
    return [
        pytest.param(item, id=name)
        for name, item in sorted(found.items())
        if inspect.isclass(item) or inspect.isfunction(item)
    ]


def needs_no_example(item):
    """Abstract classes, errors and records explain themselves where they are used."""
    if not inspect.isclass(item):
        return False
    return bool(getattr(item, "__abstractmethods__", ())) or issubclass(item, Exception)


@pytest.mark.parametrize("item", public_names())
def test_public_names_are_documented(item):
    text = inspect.getdoc(item) or ""
    assert len(text) > 20, "no docstring"
    assert ">>>" in text or needs_no_example(item), "no example"


def blocks(path):
    """(code, output or None) of the Python blocks of a page, output being the block after."""
    text = path.read_text()
    found = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL)
    return [(code, output or None) for code, output in found]


README = blocks(ROOT / "README.md")


@pytest.mark.parametrize("index", range(len(README)))
def test_readme_examples_print_what_they_show(index):
    code, output = README[index]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    if output is not None:
        assert_same_but_for_rounding(printed.getvalue(), output)


def assert_same_but_for_rounding(printed, shown):
    """Words and whole numbers are the same. Decimals agree to a third: on another processor the
    rounding differs, and the LMO, which is discontinuous, then takes another path."""
    number = r"\d+\.\d+(?:e[+-]?\d+)?"
    assert re.sub(number, "#", printed) == re.sub(number, "#", shown)
    found, wanted = (list(map(float, re.findall(number, text))) for text in (printed, shown))
    assert found == pytest.approx(wanted, rel=1 / 3)


def test_readme_lists_every_method():
    text = (ROOT / "README.md").read_text()
    for name in mostfw.methods.names():
        assert f"| `{name}` |" in text


def test_readme_shows_the_verdicts_of_the_committed_results():
    text = (ROOT / "README.md").read_text()
    words = {"holds": "holds", "holds in part": "in part", "does not hold": "**does not hold**"}
    with (ROOT / "docs/results/tables/claims.csv").open(newline="") as file:
        claims = list(csv.DictReader(file))
    assert len(claims) == 17
    for row in claims:
        assert f"| {row['claim']} | {row['measured']} | {words[row['verdict']]} |" in text


def test_pictures_of_the_readme_exist():
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / path).is_file(), path
