# SPDX-License-Identifier: Apache-2.0
"""Pytrees: reading, building, paths and errors."""

import collections
import copy
import dataclasses
import pickle
import types

import pytest

import etude as et


@dataclasses.dataclass
class Line:
    w: et.Tensor
    b: et.Tensor
    scale: float = 2.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: et.Tensor


class Net(et.Module):
    def __init__(self):
        self.first = Line(et.ones((2, 1)), et.zeros((1,)))
        self.layers = [et.ones((1,)), et.zeros((3,))]
        self.training = True
        self.absent = None


Pair = collections.namedtuple("Pair", "left right")


# spec: V67
def test_containers_come_back_as_they_were():
    x = {
        "b": [et.ones(2), (et.zeros(1), None)],
        "a": Pair(Line(et.ones(1), et.zeros(1)), Frozen(et.ones(3))),
    }
    leaves, form = et.tree.flatten(x)
    assert len(leaves) == 6  # scale is a leaf as well
    y = et.tree.unflatten(form, leaves)
    assert type(y["a"]) is Pair and type(y["a"].left) is Line and y["a"].left.scale == 2.0
    assert type(y["a"].right) is Frozen and y["a"].right.x is x["a"].right.x
    assert type(y["b"][1]) is tuple and y["b"][1][1] is None
    assert y["b"][0] is x["b"][0]


# spec: V67
def test_paths_are_those_of_structs():
    assert et.tree.paths(Net()) == [
        "first/w",
        "first/b",
        "first/scale",
        "layers/0",
        "layers/1",
        "training",
    ]
    assert et.tree.paths({"p": [et.ones(1)], "q": Line(et.ones(1), et.ones(1))}, python=True) == [
        "['p'][0]",
        "['q'].w",
        "['q'].b",
        "['q'].scale",
    ]


def test_leaves_of_dicts_have_the_order_of_their_paths():
    a, b = et.asarray(1.0), et.asarray(2.0)
    first, second = et.tree.flatten({"a": a, "b": b}), et.tree.flatten({"b": b, "a": a})
    assert first[0][0] is a and second[0][0] is a
    assert et.tree.structure({"b": b, "a": a}) == "{'b': tensor, 'a': tensor}"
    ordered = collections.OrderedDict([("b", b), ("a", a)])
    assert type(et.tree.map(lambda x: x, ordered)) is collections.OrderedDict


def _digits(values):
    total = 0.0
    for value in values.values():
        total = total * 10 + value
    return total


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, lambda x: collections.defaultdict(list, x)])
@pytest.mark.parametrize("keys", [("b", "a"), ("a", "b"), (10, 9)])
def test_functions_see_dicts_in_the_order_of_the_program(kind, keys):
    given = kind({keys[0]: et.asarray(1.0), keys[1]: et.asarray(2.0)})
    other = kind({keys[1]: et.asarray(2.0), keys[0]: et.asarray(1.0)})
    staged = et.function(_digits)
    rows = et.tree.map(lambda value: value[None], given)
    values = [
        staged(given),
        et.recompute_grad(_digits)(given),
        et.value_and_gradient(_digits)(given)[0],
        et.value_with_pullback(_digits, given)[0],
        et.jvp(_digits, given, given)[0],
        et.vmap(_digits)(rows)[0],
        et.cond(et.asarray(True), _digits, _digits, given),
        _digits(et.tree.copy(given)),
        _digits(copy.deepcopy(et.tree.map(lambda value: value, given))),
    ]
    assert [float(value) for value in values] == [12.0] * len(values)
    assert float(staged(other)) == 21.0 and float(staged(given)) == 12.0
    made = [et.gradient(_digits)(given), et.function(lambda x: x)(given), et.jvp(lambda x: x, given, given)[1]]
    assert [(type(x), list(x)) for x in made] == [(type(given), list(keys))] * 3
    assert float(made[0][keys[0]]) == 10.0


def test_order_of_a_moved_key_counts():
    given = collections.OrderedDict(a=et.asarray(1.0), b=et.asarray(2.0))
    given.move_to_end("a")
    assert [float(f(given)) for f in (_digits, et.function(_digits), et.recompute_grad(_digits))] == [21.0] * 3


def test_branches_and_steps_match_dicts_by_their_keys():
    x = et.ones(2)
    made = et.cond(et.asarray(False), lambda: {"b": x, "a": x * 2}, lambda: {"a": x * 3, "b": x * 4})
    assert float(made["a"][0]) == 3.0 and float(made["b"][0]) == 4.0
    step = lambda s: {"a": s["a"] * 2, "b": s["b"] + 1}
    last = et.while_loop(lambda s: s["b"] < 3.0, step, {"b": 0.0, "a": 1.0})
    assert list(last) == ["b", "a"] and float(last["a"]) == 8.0


def test_a_defaultdict_keeps_its_factory():
    given = collections.defaultdict(list, w=et.ones(2))
    made = et.gradient(lambda d: et.sum(d["w"]) if d.default_factory is list else 0.0)(given)
    assert made.default_factory is list and made["new"] == [] and made["w"].tolist() == [1.0, 1.0]


def test_results_of_the_library_are_structures():
    x, rows = et.asarray([1.0, 2.0, 4.0]), et.asarray([[3.0, 1.0, 2.0], [5.0, 7.0, 6.0]])
    spread = lambda f: lambda x: (lambda m: m.mean * m.var)(f(x))
    want = et.gradient(spread(et.moments))(x).tolist()
    assert et.gradient(spread(et.recompute_grad(et.moments)))(x).tolist() == pytest.approx(want)
    assert float(et.jvp(et.moments, x, x)[1].var) == pytest.approx(2 * float(et.moments(x).var))
    best = et.top_k(x, 2)
    of_rows = et.vmap(lambda x: et.top_k(x, 2))(rows)
    assert type(of_rows) is type(best) and of_rows.values.tolist() == [[3.0, 2.0], [7.0, 6.0]]
    sums = et.vmap(lambda r, y: et.sum(r.values) * y)(et.top_k(rows, 2), et.asarray([1.0, 10.0]))
    assert sums.tolist() == [5.0, 130.0]
    doubled = et.tree.map(lambda value: value * 2, best)
    assert type(doubled) is type(best) and doubled.values.tolist() == [8.0, 4.0]
    assert et.tree.paths(best) == ["values", "indices"]
    staged = et.function(lambda x: et.top_k(x, 2))(x)
    assert type(staged) is type(best) and staged.indices.tolist() == [2, 1]

    @et.function
    def chosen(x):
        if et.sum(x) > 0:
            y = et.top_k(x, 2)
        else:
            y = et.top_k(-x, 2)
        return y.values

    assert chosen(x).tolist() == [4.0, 2.0] and chosen(-x).tolist() == [4.0, 2.0]


def test_results_of_the_library_are_saved_and_pickled(tmp_path):
    pair = et.linalg.eigh(et.asarray([[2.0, 0.0], [0.0, 3.0]]))
    again = pickle.loads(pickle.dumps(pair))
    assert type(again) is type(pair) and again.eigenvalues.tolist() == [2.0, 3.0]
    assert type(copy.deepcopy(pair)) is type(pair)
    et.io.save({"s": pair, "k": et.ones(1)}, tmp_path / "pair")
    like = {"s": et.tree.map(et.zeros_like, pair), "k": et.zeros(1)}
    et.io.load(like, tmp_path / "pair")
    assert like["s"].eigenvalues.tolist() == [2.0, 3.0]


class _Holder:
    def __init__(self, value):
        self.value = value


class _OwnDict(dict):
    pass


class _OwnList(list):
    pass


_OPAQUE = {
    "_Holder": _Holder,
    "types.SimpleNamespace": lambda x: types.SimpleNamespace(x=x),
    "collections.deque": lambda x: collections.deque([x]),
    "collections.UserDict": lambda x: collections.UserDict(x=x),
    "collections.Counter": lambda x: collections.Counter({"x": x}),
    "_OwnDict": lambda x: _OwnDict(x=x),
    "_OwnList": lambda x: _OwnList([x]),
}


@pytest.mark.parametrize("name", list(_OPAQUE))
def test_results_that_are_no_structures_are_refused(name):
    make, x = _OPAQUE[name], et.ones(2)
    text = f"the function returns .*a .*{name}, as the result.*Return a tuple, list, dict.*et.register_pytree"
    calls = {
        "recompute_grad": lambda: et.recompute_grad(lambda x: make(x * 2))(x),
        "custom_gradient": lambda: et.custom_gradient(lambda x: (make(x * 2), lambda d: d))(x),
        "jvp": lambda: et.jvp(lambda x: make(x * 2), x, x),
        "pullback": lambda: et.value_with_pullback(lambda x: (x, make(x * 2)), x),
        "vmap": lambda: et.vmap(lambda x: make(x * 2))(x),
    }
    for op, call in calls.items():
        with pytest.raises(et.InvalidArgumentError, match=f"(?s){op}: {text}"):
            call()


@pytest.mark.parametrize("name", ["collections.Counter", "_OwnDict", "_OwnList"])
def test_arguments_of_subclasses_with_tensors_are_refused(name, tmp_path):
    made, x = _OPAQUE[name](et.ones(2)), et.ones(2)
    text = f"a .*{name} with tensors, which is no structure"
    calls = [
        lambda: et.vmap(lambda o, y: y)(made, x),
        lambda: et.gradient(lambda o, y: et.sum(y))(made, x),
        lambda: et.recompute_grad(lambda o, y: y)(made, x),
        lambda: et.io.save({"w": x, "o": made}, tmp_path / "model"),
    ]
    for call in calls:
        with pytest.raises(et.InvalidArgumentError, match=text):
            call()
    assert et.gradient(lambda o, y: et.sum(y))(_OwnList([1, "s"]), x).tolist() == [1.0, 1.0]


def test_plain_values_are_results():
    x = et.ones(2)
    value, tangent = et.jvp(lambda x: (x, None, 3, "s", b"b", int, et.float32), x, x)
    assert value[1] is None and int(value[2]) == 3 and value[3:] == ("s", b"b", int, et.float32)
    assert tangent[0].tolist() == [1.0, 1.0] and tangent[1:3] == (None, None)
    assert et.vmap(lambda x: (x, None, "s"))(x)[1:] == (None, "s")


def test_files_of_models_without_tensors_or_with_one_path_twice_are_refused(tmp_path):
    file, x = tmp_path / "model", et.ones(2)
    with pytest.raises(et.InvalidArgumentError, match=r"two parts have the path 'a/b': model\['a'\]\['b'\] and"):
        et.io.save({"a/b": x, "a": {"b": x * 3}}, file)
    with pytest.raises(et.InvalidArgumentError, match="_Holder, in which the library sees no tensor"):
        et.io.save(_Holder(x), file)
    with pytest.raises(et.InvalidArgumentError, match="the model has no tensor: it is {'a': value}"):
        et.io.save({"a": 3}, file)
    assert not file.exists()
    et.io.save({"w": x}, file)
    with pytest.raises(et.InvalidArgumentError, match="Load into a structure with the paths") as caught:
        et.io.load({"v": x}, file)
    assert "strict" not in str(caught.value)


def test_map_takes_several_structures():
    out = et.tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    assert out == {"a": 11, "b": [22]}
    with pytest.raises(et.InvalidArgumentError, match=r"tree.map at 'b' is a int, but must have"):
        et.tree.map(lambda x, y: x, {"a": 1, "b": [2]}, {"a": 1, "b": 2})


def test_registered_classes():
    class Point:
        def __init__(self, x, y, name):
            self.x, self.y, self.name = x, y, name

    et.register_pytree(
        Point, lambda p: ((p.x, p.y), p.name), lambda name, parts: Point(*parts, name)
    )
    moved = et.tree.map(lambda v: v + 1, Point(1, 2, "p"))
    assert (moved.x, moved.y, moved.name) == (2, 3, "p")
    with pytest.raises(et.InvalidArgumentError, match="is a structure already"):
        et.register_pytree(Point, None, None)


def test_a_list_that_contains_itself_is_refused():
    x = []
    x.append(x)
    with pytest.raises(
        et.InvalidArgumentError, match="nested more than 256 deep. Does a list contain itself"
    ):
        et.tree.leaves(x)


def test_keys_with_one_text_are_refused():
    with pytest.raises(et.InvalidArgumentError, match="two keys that read '1'"):
        et.tree.leaves({1: et.ones(1), "1": et.ones(1)})


def test_copies_of_models_are_independent():
    net = Net()
    for made in (copy.copy(net), copy.deepcopy(net)):
        made.layers[0][0] = 5.0
        assert float(net.layers[0][0]) == 1.0
        assert float(made.layers[0][0]) == 5.0


def test_deep_copies_of_models_have_variables_of_their_own():
    class Counted(et.Module):
        def __init__(self):
            self.steps = et.Variable(et.ones(2), name="steps", trainable=False)
            self.again = self.steps
            self.w = et.ones(3)
            self.tied = [self.w]

    model = Counted()
    both = copy.deepcopy({"steps": model.steps, "model": model})
    made = both["model"]
    made.steps.assign(et.zeros(2))
    made.w[0] = 5.0
    assert model.steps.read().tolist() == [1.0, 1.0] and model.w.tolist() == [1.0, 1.0, 1.0]
    assert made.again is made.steps and made.tied[0] is made.w and both["steps"] is made.steps
    assert made.steps.name == "steps" and not made.steps.trainable
    assert copy.copy(model).steps is model.steps


def test_move_goes_along_a_tangent_in_place():
    net = Net()
    w = net.first.w
    slope = et.gradient(lambda n: et.sum(n.first.w * 3.0))(net)
    et.move(net, et.tree.map(lambda g: g * 0.5 if isinstance(g, et.Tensor) else g, slope))
    assert w.tolist() == [[2.5], [2.5]]
    assert net.first.w is w
