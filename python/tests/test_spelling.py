# SPDX-License-Identifier: Apache-2.0
"""Messages of the C++ library speak Python to a program of Python."""

import pathlib
import re

import pytest

import etude as et
from etude import _core

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
CPP = re.compile(
    r"\w::\w|\[&\]|\[\]\(|\{\.\w+ =|\bconst \w|\bstd::|<Tensor|&\)|\.h\b|\bk[A-Z]\w+|= ?(true|false)\b|\b[Uu]se (true|false)|nullptr|ETUDE_FIELDS|\bto_vector\b|\d\.\d+F\b"
)
# Parts that programs of Python do not reach: code generation, derivatives of plain C++ numbers, the
# program etude, and names that only C++ can get wrong.
UNREACHED = (
    "etude/codegen/",
    "etude/aot/",
    "etude/diff/",
    "etude/base/scalars/",
    "etude/base/internal/field_faults.h",
)
# Words that are no C++: a value of the user's or of a format.
KNOWN = (
    "cifar-10-batches-bin",
)  # fmt: skip


def messages():
    """The texts of the library that look like C++, with their files."""
    for path in sorted((ROOT / "etude").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        is_source = path.suffix in (".cc", ".h") and not re.search(r"_(test|bench)\.cc$", name)
        if not is_source or name.startswith(UNREACHED):
            continue
        text = re.sub(r"//[^\n]*|#include[^\n]*", "", path.read_text())
        found = [(m.start(), m.end(), m.group(1)) for m in LITERAL.finditer(text)]
        while found:
            start, end, literal = found.pop(0)
            while found and not text[end : found[0][0]].strip():
                _, end, more = found.pop(0)
                literal += more
            literal = literal.replace('\\"', '"').replace("{{", "{").replace("}}", "}")
            # Texts that begin with the library's name are of static_assert, and those with "stablehlo. are of modules;
            # docs have no {}.
            if " " in literal and not literal.startswith(("etude: ", '"stablehlo.')) and CPP.search(literal):
                yield name, literal


MESSAGES = sorted(set(messages()))


def test_there_are_messages_of_cpp():
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("name, text", MESSAGES, ids=[f"{n}: {t[:40]}" for n, t in MESSAGES])
def test_no_message_shows_cpp(name, text):
    told = _core._in_python(text)
    for known in KNOWN:
        told = told.replace(known, "")
    assert not CPP.search(told), f"{name}: add a row to python/src/spelling.cc: {told}"


def test_words_of_programs_stay():
    for text in ("my::name is unknown", "file a::b", "std", "mylinalg::x", "nn"):
        assert _core._in_python(text) == text
    for text in ("0.5Fx", "1F", "x.0F", "F", "myetude::Tensor"):
        assert _core._in_python(text) == text
    for text in ("Mine::next is", "mine::next: no", "::next: ", "Mine::: "):
        assert _core._in_python(text) == text
    assert _core._in_python("X: Loader::next: none") == "X: Loader.next: none"
    assert _core._in_python("x > 0.0F, 1.25F") == "x > 0.0, 1.25"
    assert _core._in_python("a etude::nn::Dense, etude::Tensor") == "a et.nn.Dense, Tensor"
    assert _core._in_python("Take linalg::lstsq, or random::key(3)") == "Take et.linalg.lstsq, or et.random.key(3)"


# spec: AG-20.c, AG-20.d
def test_a_traced_tensor_as_a_host_value():
    @et.function(convert=False)
    def f(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(et.FailedPreconditionError) as error:
        f(et.asarray(1.0))
    text = str(error.value)
    for part in ("bool", "is being traced", "et.cond(x, then, otherwise)", "et.while_loop(", "@et.py_function", "test_spelling.py"):
        assert part in text, text
    assert not CPP.search(text)


def test_an_open_size_as_a_host_value():
    f = et.function(lambda x: et.zeros((x.shape[0], 2)), signature=[et.TensorSpec((None, 4))])
    with pytest.raises(et.FailedPreconditionError, match=r"as reshape\(x, \(-1, 4\)\) and zeros_like"):
        f(et.ones((3, 4)))


def test_messages_of_common_mistakes():
    def text(call):
        with pytest.raises(et.Error) as error:
            call()
        assert not CPP.search(str(error.value)), str(error.value)
        return str(error.value)

    x = et.asarray(2.0)
    with et.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    assert "GradientTape(persistent=True)" in text(lambda: tape.gradient(y, x))
    assert "Compare, as in x > 0.0, and reduce" in text(lambda: et.cond(et.ones(2), lambda: 1, lambda: 2))
    singular = et.zeros((2, 2))
    assert "Take et.linalg.lstsq" in text(lambda: et.linalg.solve(singular, et.ones((2, 1))))
    assert 'vmap(f, randomness="different")' in text(lambda: et.vmap(lambda x: x + et.random.normal(()))(et.ones(3)))
    assert "PhaseScope(\"training\")" not in text(lambda: et.nn.Dense(2, 3)(et.ones((1, 5))))


def test_warnings_speak_python():
    x = et.ones(3)
    with pytest.warns(UserWarning) as heard:
        et.gradient(lambda a: et.sum(x))(et.ones(2))
    text = str(heard[0].message)
    assert "the result depends on no argument that is differentiated; the gradient is zero" in text and not CPP.search(text)


def test_words_of_cpp_in_errors_are_seen(messages_are_in_python):
    """The fixture of all tests sees each error of the library."""
    seen = messages_are_in_python
    with pytest.raises(et.Error):
        raise et.InvalidArgumentError("use std::vector")
    assert seen == ["use std::vector"]
    with pytest.raises(et.DataLossError, match="^torn at a: b$"):
        raise et.DataLossError("torn at a: b")
    with pytest.raises(et.InvalidArgumentError):
        et.ones(2) @ et.ones(3)
    assert len(seen) == 1
    seen.clear()


def test_docs_of_ops_and_kinds():
    for op in et._core._ops.values():
        assert not CPP.search(op.__doc__), f"{op.full_name}: {CPP.search(op.__doc__)}"
    for kind in et._core._kinds():
        for doc in (kind["doc"], *(p["doc"] for p in kind["parameters"])):
            assert not CPP.search(doc), f"{kind['name']}: add a row to python/src/spelling.cc: {CPP.search(doc)}"
    assert et.nn.Dense.__doc__.startswith("activation(x weight + bias).\n\nArgs:\n  in_ (int)\n  out (int)\n")
    for section in (
        "\n\nShapes:\n  x [.., in], weight [in, out], bias [out].",
        "\n\nRaises:\n  at construction: InvalidArgumentError for a size below 1.\n  in a call: InvalidArgumentError for",
    ):
        assert section in et.nn.Dense.__doc__
    assert "\n\nCost:\n  steps * labels per sequence" in et.nn.ctc_loss.__doc__
