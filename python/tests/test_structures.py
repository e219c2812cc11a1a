# SPDX-License-Identifier: Apache-2.0
"""Pytrees: reading, building, paths and errors."""

import collections
import copy
import dataclasses

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


def test_dicts_are_read_in_the_order_of_their_keys():
    a, b = et.asarray(1.0), et.asarray(2.0)
    first, second = et.tree.flatten({"a": a, "b": b}), et.tree.flatten({"b": b, "a": a})
    assert first[0][0] is a and second[0][0] is a
    assert et.tree.structure({"b": b, "a": a}) == "{'a': tensor, 'b': tensor}"
    ordered = collections.OrderedDict([("b", b), ("a", a)])
    assert type(et.tree.map(lambda x: x, ordered)) is collections.OrderedDict


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


def test_move_goes_along_a_tangent_in_place():
    net = Net()
    w = net.first.w
    slope = et.gradient(lambda n: et.sum(n.first.w * 3.0))(net)
    et.move(net, et.tree.map(lambda g: g * 0.5 if isinstance(g, et.Tensor) else g, slope))
    assert w.tolist() == [[2.5], [2.5]]
    assert net.first.w is w
