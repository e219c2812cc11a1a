# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/coming_from_python.md: each cell of the column Etude runs, and computes what the cell of NumPy
computes. Errors for names of other libraries show the forms of this package."""
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import etude as et
from etude import _other_names

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "coming_from_python.md"
TEXT = PAGE.read_text()
DECLARATIONS = re.search(r"```python\n(.*?)```", TEXT, re.S)[1]


def rows():
    """(cells of NumPy, cells of Etude) by row."""
    for header, body in re.findall(r"<!-- run -->\n(\|.*)\n\|[-| ]*\n((?:\|.*\n)*)", TEXT):
        titles = [title.strip() for title in header.strip("| ").split("|")]
        for line in body.splitlines():
            cells = [cell.strip() for cell in line[1:-1].split("|")]
            assert len(cells) == len(titles), line
            numpy = re.findall(r"`([^`]+)`", cells[titles.index("NumPy")]) if "NumPy" in titles else []
            ours = re.findall(r"`([^`]+)`", cells[-1])
            assert titles[-1] == "Etude" and (ours or cells[-1].startswith(("always: ", "a command, "))), line
            if ours:
                yield numpy, ours


ROWS = list(rows())


def result(code, names):
    """The value of an expression; of a statement, that of the array that it writes."""
    try:
        return eval(compile(code, "cell", "eval"), names)
    except SyntaxError:
        exec(code, names)
        return names[code[0]] if re.match(r"[ax]\[", code) else None


def parts(value):
    if isinstance(value, (list, tuple)):
        return [np.asarray(part) for part in value]
    return [np.asarray(value)]


# Functions of the page have no source here, so that their control flow stays as it is.
@pytest.mark.filterwarnings("ignore:.*runs without conversion:RuntimeWarning")
@pytest.mark.parametrize("numpy, ours", ROWS, ids=[ours[0] for _, ours in ROWS])
def test_row(numpy, ours, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(DECLARATIONS, names)
    found = [result(code, names) for code in ours]
    assert not numpy or len(numpy) == len(ours)
    names = {}
    exec(DECLARATIONS, names)
    for code, value in zip(numpy, found):
        for want, got in zip(parts(result(code, names)), parts(value), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    capfd.readouterr()


def test_rows_are_there():
    assert len(ROWS) > 120 and sum(bool(numpy) for numpy, _ in ROWS) > 55
    with pytest.raises(et.Error):
        result("et.matmul(et.ones((2, 3)), et.ones((2, 3)))", {"et": et})


SPACES = {"etude": (et, _other_names.ROOT), "etude.nn": (et.nn, _other_names.NN), "etude.optim": (et.optim, _other_names.OPTIM)}
MISSING = [(space, name) for space, (_, names) in SPACES.items() for name in names]


@pytest.mark.parametrize("space, name", MISSING, ids=[f"{space}.{name}" for space, name in MISSING])
def test_the_error_names_what_is_there(space, name):
    module, names = SPACES[space]
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    assert str(error.value) == f"module '{space}' has no attribute '{name}'. Use {names[name]}"
    assert not hasattr(module, name) and name not in dir(module)
    check_form(names[name])


def check_form(form):
    """What an error proposes is there."""
    for path in re.findall(r"\bet((?:\.\w+)+)", form):
        found = et
        for part in path[1:].split("."):
            found = getattr(found, part)
    for word, value in (("x", et.ones((2, 2))), ("optimizer", et.optim.Adam())):
        for attribute in re.findall(rf"\b{word}\.(\w+)", form):
            assert hasattr(value, attribute), form


class Model(et.Module):
    pass


OBJECTS = {
    "Tensor": (et.ones((2, 2)), _other_names.TENSOR),
    "Model": (Model(), _other_names.MODEL),
    "Dense": (et.nn.Dense(2, 3), _other_names.MODEL),
    "Adam": (et.optim.Adam(), _other_names.OPTIMIZER),
}
ATTRIBUTES = [(kind, name) for kind, (_, names) in OBJECTS.items() for name in names]


@pytest.mark.parametrize("kind, name", ATTRIBUTES, ids=[f"{kind}.{name}" for kind, name in ATTRIBUTES])
def test_the_error_of_an_object_names_what_is_there(kind, name):
    value, names = OBJECTS[kind]
    with pytest.raises(AttributeError) as error:
        getattr(value, name)
    assert str(error.value) == f"'{kind}' has no attribute '{name}'. Use {names[name]}"
    assert not hasattr(value, name) and name not in dir(value)
    check_form(names[name])


def test_other_missing_names():
    for space, (module, _) in SPACES.items():
        with pytest.raises(AttributeError, match=f"^module '{space}' has no attribute 'nothing'$"):
            module.nothing
    with pytest.raises(ImportError, match="cannot import name 'cat' from 'etude'"):
        from etude import cat  # noqa: F401


def test_misspelled_names_are_corrected():
    """Python proposes names that are like a missing name."""
    for name, want in (("asaray", "asarray"), ("nn.Dence", "Dense")):
        done = subprocess.run([sys.executable, "-c", f"import etude as et; et.{name}"], capture_output=True, text=True)
        assert done.returncode == 1 and f"Did you mean: '{want}'?" in done.stderr, done.stderr
