# SPDX-License-Identifier: Apache-2.0
"""Keys of graphs that only Python has: kinds of containers, bound methods, Variables of instances."""

import collections
import dataclasses
import gc
import weakref

import etude as et

Point = collections.namedtuple("Point", "x y")
Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Record:
    x: et.Tensor
    y: et.Tensor


# spec: TC-04.c
def test_containers_compare_their_kinds():
    f = et.function(lambda s: et.tree.leaves(s)[0] * 1.0)
    a, b = et.ones(2), et.zeros(2)
    for count, s in enumerate(
        ([a, b], (a, b), {"x": a, "y": b}, Point(a, b), Pair(a, b), Record(a, b)), start=1
    ):
        f(s)
        assert f.trace_count() == count
    f({"y": b, "x": a})  # the function sees another order of keys
    assert f.trace_count() == 7
    assert f({"y": b, "x": a}).tolist() == [1.0, 1.0]


# spec: TC-13.b
def test_of_two_graphs_that_fit_the_older_is_taken():
    f = et.function(lambda x: et.sum(x * 2.0), name="f")
    first = f.trace(et.TensorSpec((None, 3)))
    second = f.trace(et.TensorSpec((2, None)))
    assert f.trace_count() == 2 and str(first) != str(second)
    made = []

    @et.function
    def g(x):
        made.append(x.dtype)
        return x + 1

    g.trace(et.TensorSpec((None, 3), name="older"))
    g.trace(et.TensorSpec((4, None), name="newer"))
    before = len(made)
    g(et.ones((4, 3)))  # both fit
    assert len(made) == before and g.trace_count() == 2
    assert [graph.inputs[0][0] for graph in g.traces()] == ["older", "newer"]


# spec: TC-19.b
def test_all_is_freed_after_a_bound_method_was_an_argument():
    class Owner:
        def __init__(self):
            self.w = et.Variable([1.0, 2.0])

        def scale(self, x):
            return x * self.w

    gc.collect()
    gc.disable()  # by counts of references alone
    try:
        owner = Owner()
        f = et.function(lambda method, x: method(x))
        assert f(owner.scale, et.ones(2)).tolist() == [1.0, 2.0]
        assert f(owner.scale, et.ones(2)).tolist() == [1.0, 2.0] and f.trace_count() == 1
        seen = weakref.ref(owner), weakref.ref(f)
        del owner
        assert seen[0]() is None  # the graph does not keep it
        del f
        assert seen[1]() is None
    finally:
        gc.enable()


# spec: SC-07.a, SC-07.c
def test_staged_methods_make_variables_for_each_instance():
    class Counter:
        v = None

        @et.function
        def add(self, x):
            if self.v is None:
                self.v = et.Variable(et.zeros(()), name="count")
            self.v.assign_add(x)
            return self.v.read()

    one, two = Counter(), Counter()
    assert float(one.add(et.asarray(2.0))) == 2.0 and float(one.add(et.asarray(2.0))) == 4.0
    assert float(two.add(et.asarray(5.0))) == 5.0 and float(one.v.read()) == 4.0
    assert one.v.ref() != two.v.ref()
    third = Counter()
    third.add.trace(et.asarray(1.0))  # makes the Variable, and runs nothing
    assert third.v is not None and float(third.v.read()) == 0.0
