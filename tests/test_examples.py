"""Every example runs, at a small size."""

import importlib.util
import inspect
from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[1].glob("examples/*.py"))
SMALL = {"days": 50, "iterations": 300}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = inspect.signature(module.main).parameters
    result = module.main(**{name: value for name, value in SMALL.items() if name in wanted})
    assert result.iterations == SMALL["iterations"]
    assert max(result.violation.values()) < 0.1
