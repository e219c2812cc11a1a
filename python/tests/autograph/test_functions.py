# SPDX-License-Identifier: Apache-2.0
"""The converted twin of a function is the same function: cells, globals, defaults, names, life
time.
"""

import dataclasses
import functools
import gc
import inspect
import pickle
import threading
import typing
import weakref

import autograph
import fake
import pytest
from fake import Host, run

COUNT = 0


# spec: AG-15
def test_cells_are_shared():
    n = 1

    def f(x):
        nonlocal n
        if x > 2:
            n += 1
        return n

    converted = autograph.convert(f)
    assert (converted(1), n) == (1, 1)
    assert (converted(3), n) == (2, 2)
    n = 10
    assert f(1) == converted(1) == 10

    later = [lambda x: k if x > 0 else 0 for k in range(3)]
    assert [autograph.convert(g)(1) for g in later] == [2, 2, 2]


# spec: AG-15
def test_globals_are_those_of_the_module():
    def f(x):
        global COUNT
        if x > 2:
            COUNT += 1
        return COUNT

    global COUNT
    COUNT = 5
    assert autograph.convert(f)(3) == 6 == COUNT
    assert run(f, Host(3)) == 7 == COUNT

    def g(x):
        global COUNT
        before = COUNT
        if x > 2:
            COUNT = 1
        else:
            COUNT = 2
        found, COUNT = COUNT, before
        return found

    assert run(g, 3) == 1 and COUNT == 7


def depth_of(tree):
    if tree is None:
        return 0
    return 1 + max(depth_of(tree.left), depth_of(tree.right))


class Tree:
    def __init__(self, left=None, right=None):
        self.left, self.right = left, right

    def grown(self, x):
        return Tree(self, self) if x > 0 else Tree(self)


# spec: AG-15
def test_global_names_of_the_function_and_its_class():
    tree = autograph.convert(Tree().grown)(1)
    assert isinstance(tree, Tree) and tree.right is not None
    assert autograph.convert(depth_of)(tree) == 2


# spec: AG-15
def test_defaults_keywords_and_names():
    def f(a, /, b=2, *rest, c=3, d, **more):
        """A docstring."""
        if a > 0:
            return a, b, rest, c, d, more
        return None

    converted = autograph.convert(f)
    assert converted(1, d=4) == (1, 2, (), 3, 4, {})
    assert converted(1, 5, 6, c=7, d=8, e=9) == (1, 5, (6,), 7, 8, {"e": 9})
    assert (converted.__name__, converted.__doc__, converted.__qualname__) == (
        f.__name__,
        f.__doc__,
        f.__qualname__,
    )
    assert inspect.signature(converted) == inspect.signature(f)
    f.__defaults__, f.__kwdefaults__ = (20,), {"c": 30}
    assert autograph.convert(f)(1, d=4) == (1, 20, (), 30, 4, {})
    with pytest.raises(TypeError, match="missing 1 required"):
        converted(1)


# spec: AG-15
def test_annotations_and_attributes():
    def f(x: int, y: "typing.List[int]" = None) -> int:
        total: int = x
        unused: typing.Dict
        if x > 0:
            total: int = total + 1
        return total

    f.tag = "t"
    converted = autograph.convert(f)
    assert run(f, 1) == converted(1) == 2
    assert typing.get_type_hints(converted) == {"x": int, "y": typing.List[int], "return": int}
    assert converted.tag == "t"


# spec: AG-15
def test_methods_super_and_private_names():
    class Base:
        __secret = 3

        def call(self, x):
            return x + self.__secret

    class _Child(Base):
        def __init__(self):
            self.__own = 1

        def call(self, x):
            def inner(y):
                return super(_Child, self).call(y)

            if x > 0:
                self.__own = self.__own + x
                return super().call(x) * self.__own
            return [super(__class__, self).call(y) for y in (x,)][0] + inner(x)

        def __private(self, x):
            return self.__own if x > 0 else 0

        def indirect(self, x):
            return self.__private(x)

    for x in (2, -2):
        assert run(_Child().call, x) == autograph.convert(_Child().call)(x) == _Child().call(x)
        assert run(_Child().indirect, x) == _Child().indirect(x)
    method = autograph.convert(_Child().call)
    assert method.__self__.__class__ is _Child


# spec: AG-15
def test_callable_objects_partials_and_classes():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k if x > 0 else x

    @dataclasses.dataclass
    class Layer:
        w: object
        inner: Scale = None

        def __call__(self, x):
            return self.inner(x) if x > 1 else self.w

    assert run(Scale(3), 2) == 6
    assert run(functools.partial(Scale(3)), 2) == 6
    assert run(functools.partial(lambda k, x: x * k if x > 0 else x, 5), 2) == 10
    assert run(Layer(7, Scale(2)), 4) == 8
    assert autograph.convert(Scale) is Scale
    assert autograph.convert(len) is len


# spec: AG-15
def test_wrappers_do_not_take_the_twin_of_their_function():
    def f(x):
        return 1 if x > 0 else 2

    autograph.convert(f)(1)

    @functools.wraps(f)
    def wrapper(x):
        return f(x) * 10

    assert autograph.convert(wrapper)(3) == run(wrapper, 3) == 10

    @functools.lru_cache
    def cached(x):
        return x + 1

    assert run(lambda x: cached(3) + x, 1) == 5


def test_state_that_is_a_structure():
    @dataclasses.dataclass
    class State:
        i: object
        pair: tuple
        name: str = "s"

    class Point(typing.NamedTuple):
        x: object
        y: object

    def f(n):
        state, point, table = State(0, (0, 1)), Point(1, 2), {"a": [n, 3]}
        while state.i < n:
            state = State(state.i + 1, (state.pair[1], state.pair[0] + state.pair[1]))
            point = Point(point.y, point.x)
            table = {"a": [table["a"][1], table["a"][0]]}
        return state.pair[0], point.x, table["a"][0], state.name

    for n in (0, 1, 7):
        assert run(f, n) == autograph.convert(f)(n) == f(n)


def test_a_function_dies_with_its_last_reference():
    def make():
        held = set()

        def f(x):
            held.add(1)
            return 1 if x > 0 else 2

        return f

    gc.disable()
    try:
        f = make()
        autograph.convert(f)(1)
        run(f, 1)
        died = weakref.ref(f)
        twin = weakref.ref(autograph.convert(f))
        del f
        assert died() is None
        assert twin() is None
    finally:
        gc.enable()


def test_the_attributes_of_a_function_can_be_pickled():
    def f(x):
        return 1 if x > 0 else 2

    autograph.convert(f)(1)
    f.tag = "t"
    assert pickle.loads(pickle.dumps(vars(f)))["tag"] == "t"


def test_functions_of_one_code_are_converted_once():
    def make(k):
        return lambda x: k if x > 0 else -k

    functions = [make(k) for k in range(3)]
    assert [run(f, 1) for f in functions] == [0, 1, 2]
    codes = {autograph.convert(f).__wrapped__.__code__ for f in functions}
    assert len(codes) == 1
    assert autograph.convert(functions[0]) is autograph.convert(functions[0])


def test_threads():
    def f(x):
        s = 0
        for k in range(5):
            if k == 3:
                continue
            s += k * x
        return s

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(autograph.convert(f)(2))) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [f(2)] * 8


def test_statements_of_python():
    def f(x, items):
        import math as m
        from os import path

        with open("/dev/null") as file, memoryview(b"ab"):
            text = file.read()
        try:
            items["missing"]
        except KeyError as error:
            text += str(error)
        else:
            text += "else"
        finally:
            text += "f"
        match items:
            case {"a": [first, *others]} if first > 0:
                text += f"{first}{others!r:>5}"
            case {"b": _}:
                text += "b"
            case _:
                text += "none"
        if (n := len(items)) > 1 and n < 10:
            text += str(n)
        a, *b = (k := 3), 4, 5
        c = [y for y in b if y > 4 and (k := k + y)]
        c[0], d = 9, {**items, "z": 1}
        del c[-1]
        e = (lambda *args, q=k, **kw: (args, q, kw))(*b, **{"r": 2})
        g = {i: j for i, j in zip(range(2), "ab")}, {i for i in b}, sum(i for i in b if i)

        class Local:
            base = x

            def get(self):
                return self.base if self.base > 0 else text

        def generator():
            for i in b:
                if i == 5:
                    return
                yield i

        while True:
            if n > 5:
                break
            n += 1
        else:
            text = "never"
        x += 1
        x = x if not x else -x
        assert x != 0, "zero"
        assert x or not x
        return (
            text,
            m.floor(1.5),
            path.sep,
            a,
            b,
            c,
            d,
            e,
            g,
            Local().get(),
            list(generator()),
            n,
            x,
            0 < n < 9,
            k,
        )

    for x, items in ((2, {"a": [1, 2]}), (-3, {"b": 1, "c": 2}), (1, {})):
        assert autograph.convert(f)(x, items) == f(x, items)


def test_frames_of_the_user_stay_visible():
    def f(x):
        y = 2
        if x > 0:
            y = 3
        return sorted(name for name in locals() if not name.startswith("ag__")), eval("x + y")

    assert autograph.convert(f)(1) == f(1) == (["x", "y"], 4)


def test_unbound_names_are_python_errors_on_the_host():
    def f(x):
        if x > 0:
            y = 1
        return y

    assert autograph.convert(f)(1) == 1
    with pytest.raises(UnboundLocalError):
        autograph.convert(f)(-1)


def test_exceptions_of_the_host_pass_through():
    def f(x):
        for k in range(3):
            if k == x:
                raise KeyError(k)
        return x

    with pytest.raises(KeyError, match="1") as found:
        autograph.convert(f)(1)
    assert found.value.__cause__ is None and found.value.__context__ is None


# spec: AG-15
def test_nested_functions_change_outer_variables():
    def f(x, rows):
        total = 0

        def add(y):
            nonlocal total
            total = total + y
            return total

        for r in rows:
            if r > x:
                add(r)
        found = add(1) if x > 1 else 0
        both = x > 1 and add(5) > 0
        return total, found, both

    for x in (0, 2):
        assert run(f, x, [1, 2, 3]) == autograph.convert(f)(x, [1, 2, 3]) == f(x, [1, 2, 3])


def test_globals_as_loop_state():
    names = {"fake": fake}
    assert names["fake"] is fake

    def f(rows):
        global COUNT
        saved, COUNT = COUNT, 0
        for r in rows:
            COUNT += r
        found, COUNT = COUNT, saved
        return found

    assert run(f, [1, 2, 3]) == 6
