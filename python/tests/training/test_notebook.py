# SPDX-License-Identifier: Apache-2.0
"""The notebook of the documentation runs, and what a notebook shows of our objects is HTML."""

import ast
import html.parser
import json
import pathlib

import pytest

import etude as et

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "docs" / "notebooks" / "first_steps.ipynb"


class Balanced(html.parser.HTMLParser):
    """Checks that elements close in order; collects their names."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("br", "img", "meta", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag


def elements(text):
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    return parser.seen


def run_cell(source, names):
    """Runs a cell; returns the value of its last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs(monkeypatch):
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    # The source of a cell, for the conversion of its functions, is where a notebook puts it.
    import linecache

    names, shown = {"__name__": "__main__"}, []
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        monkeypatch.setitem(linecache.cache, str(NOTEBOOK), (len(source), None, source.splitlines(True), str(NOTEBOOK)))
        value = run_cell(source, names)
        if hasattr(value, "_repr_html_"):
            shown.append((type(value).__name__, elements(value._repr_html_())))
    kinds = [kind for kind, _ in shown]
    assert kinds == ["Tensor", "History", "Confusion"]
    assert "svg" in shown[1][1] and "table" in shown[1][1] and "svg" in shown[2][1]


def test_html_of_a_history(tmp_path):
    x = et.ones((4, 1))
    model = et.nn.Dense(1, 1)
    history = et.nn.fit(model, et.optim.SGD(lr=0.1), (x, x), lambda p, t: et.mean((p - t) ** 2), epochs=2)
    text = history._repr_html_()
    assert elements(text).count("tr") == 3 and "loss" in text
    history.plot(tmp_path / "loss.svg", log=True)
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")
    none = et.nn.fit(model, et.optim.SGD(lr=0.1), (x, x), lambda p, t: et.mean((p - t) ** 2), epochs=0)
    assert none._repr_html_() == "<p>no batches</p>"


def test_html_of_a_confusion_matrix(tmp_path):
    confusion = et.nn.Confusion()
    confusion.update(et.asarray([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]), et.asarray([0, 1, 1]))
    assert confusion.tolist() == [[1, 0], [1, 1]] and confusion.accuracy == pytest.approx(2 / 3)
    assert "svg" in elements(confusion._repr_html_())
    confusion.write(tmp_path / "c.svg", ["<cat>", "dog"])
    text = (tmp_path / "c.svg").read_text()
    assert "dog" in text and "<cat>" not in text
    with pytest.raises(et.Error):
        confusion.write(tmp_path / "c.svg", ["one"])
    assert repr(confusion)
    with pytest.raises(et.Error):
        et.nn.Confusion()._repr_html_()
