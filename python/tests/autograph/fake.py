# SPDX-License-Identifier: Apache-2.0
"""A backend of plain Python for the tests of conversion: it traces programs into nodes, then runs
the nodes.

A tensor of a trace has a type and no value, and using it as a host bool is an error. A node may be
run many times, so a test sees which effects belong to the graph. Branches and bodies are scopes; a
tensor that leaves its scope is an error when it is used, as in the library.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from typing import Any, Callable, NamedTuple, Optional

backend = sys.modules["autograph.backend"]  # a module that install() fills


class Spec(NamedTuple):
    dtype: str
    shape: tuple
    kind: str

    def __str__(self) -> str:
        return (
            f"{self.dtype}[{','.join('?' if size is None else str(size) for size in self.shape)}]"
        )


KINDS = {"bool": "bool", "int32": "int", "int64": "int", "float32": "float", "float64": "float"}


class Error(Exception):
    pass


class InvalidArgument(Error, ValueError, TypeError):
    pass


class FailedPrecondition(Error, RuntimeError):
    pass


class Unimplemented(Error, NotImplementedError):
    pass


ERRORS = {"invalid": InvalidArgument, "failed": FailedPrecondition, "unimplemented": Unimplemented}


class Scope:
    def __init__(self, parent: Optional["Scope"]) -> None:
        self.parent, self.nodes = parent, []

    def holds(self, scope: "Scope") -> bool:
        """Whether a value of `scope` can be used here."""
        here: Optional[Scope] = self
        while here is not None:
            if here is scope:
                return True
            here = here.parent
        return False


class World:
    """The trace that is being made, and the output of programs that run."""

    def __init__(self) -> None:
        self.scope: Optional[Scope] = None
        self.printed: list[str] = []
        self.traced = 0


world = World()


class Tensor:
    """A tensor with a value (of a number or a list of numbers), or a node of a trace."""

    __hash__ = None

    def __init__(
        self, dtype: str, shape: tuple, value: Any = None, scope: Optional[Scope] = None
    ) -> None:
        self.dtype, self.shape, self.value, self.scope = dtype, shape, value, scope

    @property
    def spec(self) -> Spec:
        return Spec(self.dtype, self.shape, KINDS[self.dtype])

    def __repr__(self) -> str:
        return f"Tensor({self.spec}, {'staged' if self.scope else self.value})"

    def __bool__(self) -> bool:
        if self.scope is not None:
            raise FailedPrecondition(
                f"{self.spec} has no value while tracing; use cond or while_loop"
            )
        return bool(self.value)

    def _host(self, kind: type) -> Any:
        if self.scope is not None:
            raise FailedPrecondition(
                f"{self.spec} has no value while tracing; use cond or while_loop"
            )
        return kind(self.value)

    def __index__(self) -> int:
        return self._host(int)

    def __int__(self) -> int:
        return self._host(int)

    def __float__(self) -> float:
        return self._host(float)

    def __iter__(self) -> Any:
        if not self.shape:
            raise InvalidArgument("iteration over a scalar")
        return iter([backend.row(self, k) for k in range(self.shape[0])])

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidArgument("len of a scalar")
        return self.shape[0]

    def __getitem__(self, k: Any) -> "Tensor":
        return backend.row(self, k)

    def __setitem__(self, k: Any, value: Any) -> None:
        new = apply(
            "put", lambda x, i, v: x[:i] + [v] + x[i + 1 :], self.spec, value_of(self), k, value
        )
        set_value(self, new)

    def __neg__(self) -> "Tensor":
        return apply("neg", operator.neg, self.spec, self)

    def __abs__(self) -> "Tensor":
        return apply("abs", abs, self.spec, self)


def promoted(a: Any, b: Any) -> Spec:
    """The type of arithmetic: kinds do not mix, but host numbers adapt."""
    if not isinstance(a, Tensor):
        a, b = b, a
    if isinstance(b, Tensor):
        if a.spec.kind != b.spec.kind:
            raise InvalidArgument(f"{a.spec} and {b.spec}: cast with astype")
        shape = a.shape or b.shape
        return Spec(max(a.dtype, b.dtype), shape, a.spec.kind)
    if isinstance(b, float) and a.spec.kind == "int":
        raise InvalidArgument(f"{a.spec} and the number {b}")
    if a.dtype == "bool":
        return Spec("int32", a.shape, "int")
    return a.spec


def elementwise(f: Callable) -> Callable:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, list) and isinstance(b, list):
            return [f(x, y) for x, y in zip(a, b)]
        if isinstance(a, list):
            return [f(x, b) for x in a]
        if isinstance(b, list):
            return [f(a, y) for y in b]
        return f(a, b)

    return run


def binary(name: str, f: Callable, dtype: Optional[str] = None) -> None:
    def forward(a: Any, b: Any) -> Any:
        if not isinstance(b, (Tensor, int, float)):
            return NotImplemented
        spec = promoted(a, b)
        return apply(name, elementwise(f), Spec(dtype, spec.shape, dtype) if dtype else spec, a, b)

    def backward(a: Any, b: Any) -> Any:
        return apply(name, elementwise(f), promoted(a, b), b, a)

    setattr(Tensor, f"__{name}__", forward)
    if dtype is None:
        setattr(Tensor, f"__r{name}__", backward)


for _name in ("add", "sub", "mul", "mod", "floordiv"):
    binary(_name, getattr(operator, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    binary(_name, getattr(operator, _name), "bool")


class Node:
    """run(values) computes the outputs from a dict of values by the id of tensors."""

    def __init__(self, name: str, outputs: list, run: Callable[[dict], list]) -> None:
        self.name, self.outputs, self.run = name, outputs, run


def read(values: dict, x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.value if x.scope is None else values[id(x)]


def check(x: Any) -> None:
    if isinstance(x, Tensor) and x.scope is not None:
        if world.scope is None or not world.scope.holds(x.scope):
            raise FailedPrecondition(f"{x!r} is used outside of its trace; return it, or use scan")


def apply(name: str, f: Callable, spec: Spec, *operands: Any) -> Tensor:
    for x in operands:
        check(x)
    if world.scope is None:
        return Tensor(spec.dtype, spec.shape, f(*[read({}, x) for x in operands]))
    out = Tensor(spec.dtype, spec.shape, scope=world.scope)
    emit(Node(name, [out], lambda values: [f(*[read(values, x) for x in operands])]))
    return out


def emit(node: Node) -> None:
    world.scope.nodes.append(node)


def run_nodes(scope: Scope, values: dict) -> None:
    for node in scope.nodes:
        for out, value in zip(node.outputs, node.run(values)):
            values[id(out)] = value


@contextlib.contextmanager
def inside(scope: Scope) -> Any:
    outer, world.scope = world.scope, scope
    world.traced += 1
    try:
        yield scope
    finally:
        world.scope = outer


def traced_body(f: Callable, specs: list) -> Callable[[dict, list], list]:
    """f(list) as a function from outer values and a list of values to the values of its results."""
    scope = Scope(world.scope)
    arguments = [Tensor(spec.dtype, spec.shape, scope=scope) for spec in specs]
    with inside(scope):
        results = f(arguments)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for x in results:
            check(x)

    def run(values: dict, given: list) -> list:
        own = dict(values)
        own.update((id(x), value) for x, value in zip(arguments, given))
        run_nodes(scope, own)
        return [read(own, x) for x in results]

    run.specs = [x.spec for x in results]
    return run


def cond(test: Tensor, then: Callable, otherwise: Callable) -> list:
    check(test)
    bodies = [traced_body(lambda _: then(), []), traced_body(lambda _: otherwise(), [])]
    assert bodies[0].specs == bodies[1].specs, (bodies[0].specs, bodies[1].specs)
    outputs = [Tensor(spec.dtype, spec.shape, scope=world.scope) for spec in bodies[0].specs]
    emit(
        Node(
            "cond", outputs, lambda values: bodies[0 if one(read(values, test)) else 1](values, [])
        )
    )
    return outputs


def one(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def while_loop(test: Callable, body: Callable, state: list) -> list:
    specs = [x.spec for x in state]
    goes_on, step = traced_body(test, specs), traced_body(body, specs)
    assert step.specs == specs, (specs, step.specs)
    outputs = [Tensor(spec.dtype, spec.shape, scope=world.scope) for spec in specs]

    def run(values: dict) -> list:
        now = [read(values, x) for x in state]
        while one(goes_on(values, now)[0]):
            now = step(values, now)
        return now

    emit(Node("while", outputs, run))
    return outputs


def fold(body: Callable, state: list, rows: list) -> list:
    specs = [x.spec for x in state]
    count = len(state)
    row_specs = [Spec(x.dtype, x.shape[1:], x.spec.kind) for x in rows]
    step = traced_body(lambda given: body(given[:count], given[count:]), specs + row_specs)
    assert step.specs == specs, (specs, step.specs)
    outputs = [Tensor(spec.dtype, spec.shape, scope=world.scope) for spec in specs]

    def run(values: dict) -> list:
        now = [read(values, x) for x in state]
        for row in zip(*[read(values, x) for x in rows]):
            now = step(values, now + list(row))
        return now

    emit(Node("fold", outputs, run))
    return outputs


def scratch(f: Callable) -> None:
    with inside(Scope(world.scope)):
        f()


def value_of(x: Any) -> Any:
    return (
        Tensor(x.dtype, x.shape, x.value, x.scope)
        if isinstance(x, Tensor) and x.scope is None
        else alias(x)
    )


def alias(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    out = Tensor(x.dtype, x.shape, scope=x.scope)
    for name in ("origin",):
        setattr(out, name, getattr(x, name, x))
    emit(Node("alias", [out], lambda values: [read(values, x)]))
    if not world.scope.holds(x.scope):
        check(x)
    out.scope = world.scope
    return out


def set_value(owner: Tensor, value: Tensor) -> None:
    """Makes `owner` the value, as item assignment does."""
    copied = apply("copy", lambda x: x, value.spec, value)
    owner.dtype, owner.shape, owner.value, owner.scope = (
        copied.dtype,
        copied.shape,
        copied.value,
        copied.scope,
    )
    if copied.scope is not None:
        copy_of = owner
        emit(Node("set", [copy_of], lambda values: [read(values, copied)]))


def as_tensor(x: Any, spec: Optional[Spec] = None) -> Tensor:
    if isinstance(x, Tensor):
        assert spec is None or x.spec == spec, (x, spec)
        return x
    spec = spec or backend.spec_of(number(x))
    kind = {"bool": bool, "int": int, "float": float}[spec.kind]
    return Tensor(spec.dtype, (), kind(x))


def number(x: Any) -> Tensor:
    dtype = "bool" if isinstance(x, bool) else "int32" if isinstance(x, int) else "float32"
    return Tensor(dtype, (), x)


def zeros(spec: Spec) -> Tensor:
    zero = {"bool": False, "int": 0, "float": 0.0}[spec.kind]
    return Tensor(spec.dtype, spec.shape, [zero] * spec.shape[0] if spec.shape else zero)


def row(x: Any, k: Any) -> Tensor:
    spec = Spec(x.dtype, x.shape[1:], x.spec.kind)
    return apply("row", lambda v, i: v[i], spec, x, k)


def range_length(start: Any, stop: Any, step: Any) -> Tensor:
    return apply(
        "range_length",
        lambda a, b, c: len(range(a, b, c)),
        Spec("int32", (), "int"),
        start,
        stop,
        step,
    )


def printed(pieces: list) -> None:
    def run(found: dict) -> list:
        world.printed.append("".join(str(read(found, x)) for x in pieces))
        return []

    emit(Node("print", [], run))


def fail(pieces: list) -> None:
    def run(found: dict) -> list:
        raise FailedPrecondition("".join(str(read(found, x)) for x in pieces))

    emit(Node("fail", [], run))


def assert_true(test: Tensor, text: str) -> None:
    def run(values: dict) -> list:
        if not one(read(values, test)):
            raise FailedPrecondition(text)
        return []

    emit(Node("assert", [], run))


class Dataset:
    def __init__(self, rows: list) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter([tensor(row) for row in self.rows])


def dataset_rows(dataset: Dataset) -> Any:
    from autograph.rows import Rows

    return Rows(tensor(dataset.rows))


def make_error(kind: str, text: str, file: str, line: int) -> BaseException:
    return ERRORS[kind](f"{text}\n  at {file}:{line}" if file else text)


def extended(error: BaseException, text: str) -> BaseException:
    error.args = (f"{error}\n{text}",)
    return error


def logical(name: str, f: Callable) -> Callable:
    def run(*operands: Any) -> Tensor:
        return apply(name, f, Spec("bool", (), "bool"), *operands)

    return run


def scalar(name: str, f: Callable, dtype: str) -> Callable:
    return lambda *operands: apply(name, f, Spec(dtype, (), KINDS[dtype]), *operands)


def reduced(name: str, f: Callable) -> Callable:
    return lambda x: apply(name, f, Spec("bool", (), "bool"), x)


FUNCTIONS = {
    "error": make_error,
    "extended": extended,
    "is_host_use_error": lambda e: isinstance(e, FailedPrecondition)
    and "has no value while tracing" in str(e),
    "is_tensor": lambda x: isinstance(x, Tensor),
    "is_staged": lambda x: isinstance(x, Tensor) and world.scope is not None,
    "is_array": lambda x: False,
    "is_tracing": lambda: world.scope is not None,
    "is_dataset": lambda x: isinstance(x, Dataset),
    "dataset_rows": dataset_rows,
    "value_of": value_of,
    "set_value": set_value,
    "spec_of": lambda x: x.spec,
    "as_tensor": as_tensor,
    "number": number,
    "zeros": zeros,
    "reshape_scalar": lambda x: apply("scalar", one, Spec(x.dtype, (), x.spec.kind), x),
    "cond": cond,
    "while_loop": while_loop,
    "fold": fold,
    "scratch": scratch,
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "less": lambda a, b: a < b,
    "logical_and": logical("and", lambda a, b: one(a) and one(b)),
    "logical_or": logical("or", lambda a, b: one(a) or one(b)),
    "logical_not": logical("not", lambda a: not one(a)),
    "row": row,
    "row_count": lambda x: FUNCTIONS["length"](x),
    "length": lambda x: x.shape[0] if x.shape[0] is not None else scalar("len", len, "int32")(x),
    "first_rows": lambda x, n: apply("first", lambda v: v[:n], Spec(x.dtype, (n,), x.spec.kind), x),
    "smallest": lambda xs: scalar("min", lambda *v: min(v), "int32")(*xs),
    "range_length": range_length,
    "cast": lambda x, kind: scalar(kind, {"int": int, "float": float}[kind], f"{kind}32")(x),
    "absolute": lambda x: abs(x),
    "any": reduced("any", lambda v: any(v)),
    "all": reduced("all", lambda v: all(v)),
    "sort": lambda x, r: apply("sort", lambda v: sorted(v, reverse=r), x.spec, x),
    "print": printed,
    "assert_true": assert_true,
    "fail": fail,
    "children": lambda x: None,
    "with_children": None,
    "is_in_range": lambda x, dtype: abs(x) < 2 ** (int(dtype[3:]) - 1),
    "rebuilt": lambda function, convert: None,
    "takes_functions": lambda f: getattr(f, "takes_functions", False),
}


def install() -> None:
    for name, function in FUNCTIONS.items():
        setattr(backend, name, function)


def tensor(value: Any, dtype: Optional[str] = None) -> Tensor:
    """A tensor with a value."""
    if isinstance(value, list):
        sample = value[0] if value else 0
        return Tensor(dtype or number(sample).dtype, (len(value),), list(value))
    return Tensor(dtype or number(value).dtype, (), value)


def staged(f: Callable, *arguments: Any) -> Callable:
    """Traces the converted `f` for tensors; numbers and lists of numbers become tensors, Host(x)
    stays a host value.

    The result runs the graph on other numbers, and has `names`: the names of its nodes.
    """
    import autograph

    scope = Scope(None)
    placeholders = []
    with inside(scope):
        for x in arguments:
            given = tensor(x) if isinstance(x, (bool, int, float, list)) else x
            if isinstance(given, Tensor):
                given = Tensor(given.dtype, given.shape, scope=scope)
            placeholders.append(given.value if isinstance(given, Host) else given)
        result = autograph.convert(f)(*placeholders)

    def run(*values: Any) -> Any:
        known = {id(x): v for x, v in zip(placeholders, values)}
        run_nodes(scope, known)
        return evaluated(result, known)

    run.names = [node.name for node in scope.nodes if node.name not in ("alias", "copy", "set")]
    run.result = result
    return run


def evaluated(result: Any, known: dict) -> Any:
    if isinstance(result, Tensor):
        return read(known, result)
    if isinstance(result, (list, tuple)):
        return type(result)(evaluated(x, known) for x in result)
    if isinstance(result, dict):
        return {k: evaluated(v, known) for k, v in result.items()}
    return result


class Host:
    """An argument that stays a host value."""

    def __init__(self, value: Any) -> None:
        self.value = value


def run(f: Callable, *arguments: Any) -> Any:
    """The result of tracing `f` for these arguments and running the graph on them."""
    return staged(f, *arguments)(*[x.value if isinstance(x, Host) else x for x in arguments])
