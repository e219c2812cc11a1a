# SPDX-License-Identifier: Apache-2.0
"""`while` and `for` that depend on a tensor: traces the body once, as a function from state to
state.

The state is the variables that an iteration reads before it sets them, or that are used after the
loop, and the objects that the body changes in place. Numbers in it become tensors; other host
values must not change.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import backend
from .branches import condition, refuse_caught
from .errors import Site, staging
from .jumps import RESULT
from .logic import and_pure, not_
from .rows import StagedRows
from .state import UNDEFINED, Contents, find_state, read, write
from .trees import (
    Flat,
    Spec,
    adapts,
    describe,
    difference,
    has_new_tensor,
    is_number,
    is_same_host,
    is_value,
    spec_of,
)


class Again(Exception):
    """The loop must be traced again: a number of its state begins with another width."""


class _Loop:
    """One execution of a loop."""

    def __init__(
        self, site: Site, state: list, live: tuple, exposed: tuple, targets: tuple
    ) -> None:
        self.site, self.state, self.live, self.targets = site, state, live, targets
        self.before = read(state)
        self.specs: dict[tuple[int, int], Spec] = {}
        self.slots: list[tuple[int, int]] = []
        self.flats: dict[int, Flat] = {}  # the carried values before the loop, by place
        self.effects: dict[int, Any] = {}  # containers after their host effects
        self.contents: dict[int, Flat] = {}  # of containers that methods change
        self.new: list[int] = (
            []
        )  # places of variables that the body sets first and the program uses later
        for place, (each, value) in enumerate(zip(state, self.before)):
            if each.is_variable and each.label not in live and each.label not in exposed:
                continue
            if getattr(each, "by_methods", False):
                self.contents[place] = Flat(value, each.label)
            elif value is not UNDEFINED:
                self.flats[place] = Flat(value, each.label)
            elif each.is_variable:
                if each.label in live and each.label not in targets:
                    self.new.append(place)
                fact = (
                    f"'{each.label}' has no value before the loop, and its body reads it. Set it "
                    "before"
                )
                site.note(each.label, "invalid", fact)

    def add_new(self, step: Callable[[], Any]) -> None:
        """Traces the body once more, for the types of the variables that it sets first."""
        if not self.new:
            return
        found: dict[int, tuple[Flat, list]] = {}

        def probe() -> None:
            self.enter(self.start())
            step()
            for place in self.new:
                value = self.state[place].get()
                if value is not UNDEFINED:
                    flat = Flat(value, self.state[place].label)
                    is_tensor = [backend.is_tensor(leaf) for leaf in flat.leaves]
                    specs = [spec_of(x) if is_value(x) else x for x in flat.leaves]
                    found[place] = (flat, list(zip(flat.leaves, specs, is_tensor)))

        try:
            backend.scratch(probe)
        finally:
            write(self.state, self.before)
        for place, (flat, leaves) in found.items():
            flat.leaves = [backend.zeros(spec) if is_value(x) else x for x, spec, _ in leaves]
            self.flats[place] = flat
        self.new = [place for place in self.new if place in found]

    def start(self) -> list:
        """The tensors of the state before the loop."""
        self.slots = [
            (place, k)
            for place, flat in self.flats.items()
            for k, x in enumerate(flat.leaves)
            if is_value(x)
        ]
        tensors = [backend.as_tensor(self.leaf(slot), self.specs.get(slot)) for slot in self.slots]
        self.types = [backend.spec_of(x) for x in tensors]
        return tensors

    def leaf(self, slot: tuple[int, int]) -> Any:
        return self.flats[slot[0]].leaves[slot[1]]

    def enter(self, tensors: list) -> None:
        """Sets the state to tensors of the graph of a body."""
        self.set(tensors, self.before)

    def set(self, tensors: list, others: list) -> None:
        by_slot = dict(zip(self.slots, tensors))
        for place, each in enumerate(self.state):
            flat = self.flats.get(place)
            if flat is None:
                each.set(others[place])
                continue
            slots = [(place, k) for k in range(len(flat.leaves))]
            if any(slot in by_slot for slot in slots) or isinstance(each, Contents):
                each.set(
                    flat.with_leaves(
                        [by_slot.get(slot, leaf) for slot, leaf in zip(slots, flat.leaves)]
                    )
                )
            else:
                each.set(flat.value)

    def outputs(self) -> list:
        """The tensors of the state after the body, checked."""
        outputs = []
        for place, before in self.contents.items():
            value = self.state[place].get()
            after = Flat(value, self.state[place].label)
            if has_new_tensor(before, after):
                raise self.changed(place, after.labels[-1], *difference(before, after))
            self.effects[place] = value
        for place, before in self.flats.items():
            each = self.state[place]
            value = each.get()
            if value is UNDEFINED:
                fact = f"its body deletes '{each.label}', which is state of the loop. Assign to it"
                raise self.site.error("unimplemented", fact)
            after = Flat(value, each.label)
            if before.tree != after.tree:
                raise self.changed(place, each.label, *difference(before, after))
            for k, (x, y) in enumerate(zip(before.leaves, after.leaves)):
                slot = (place, k)
                if not is_value(x):
                    if not is_same_host(x, y):
                        raise self.changed(place, before.labels[k], describe(x), describe(y), y)
                else:
                    outputs.append(self.output(slot, x, y, before.labels[k]))
        return outputs

    def output(self, slot: tuple[int, int], x: Any, y: Any, label: str) -> Any:
        """The tensor of a leaf after the body, of its type before."""
        spec = self.types[self.slots.index(slot)]
        if not is_value(y):
            raise self.changed(slot[0], label, describe(x), describe(y))
        if spec_of(y) == spec or adapts(y, spec):
            return backend.as_tensor(y, spec)
        if adapts(x, spec_of(y)) and slot not in self.specs:
            self.specs[slot] = spec_of(y)
            raise Again
        raise self.changed(slot[0], label, str(spec), str(spec_of(y)), y)

    def changed(self, place: int, label: str, x: str, y: str, after: Any = None) -> BaseException:
        """The error for state that changes its type or structure, or a host value of it."""
        if isinstance(self.state[place], Contents) and not backend.is_tensor(
            self.state[place].owner
        ):
            return self.site.error(
                "failed",
                f"its body changes the {type(self.state[place].owner).__name__} "
                f"'{self.state[place].label}' from {x} to "
                f"{y}, but a graph cannot keep tensors of single steps there. Use et.scan, which "
                "stacks a row of each "
                "step, or write into a tensor made before the loop: rows[i] = value",
            )
        if label.startswith(RESULT):
            label = "the returned value"
        return self.site.error(
            "invalid",
            f"'{label}' is {x} before the loop, but {y} after a step; a variable of a loop keeps "
            "its dtype, shape "
            f"and structure. {self.remedy(place, after)}",
        )

    def number_that_changes(self, step: Callable[[], Any]) -> Optional[BaseException]:
        """The error for a host number that a step changes to another kind, None if there is none.

        As a tensor such a number may not mix with the other operands, so that the body fails before
        its end.
        """
        numbers = [slot for slot in self.slots if is_number(self.leaf(slot))]
        found: list[BaseException] = []

        def probe() -> None:
            write(self.state, self.before)
            step()
            for place, k in numbers:
                before, after = self.flats[place], Flat(
                    self.state[place].get(), self.state[place].label
                )
                if before.tree != after.tree or not is_value(after.leaves[k]):
                    continue
                x, y = before.leaves[k], after.leaves[k]
                if spec_of(x) != spec_of(y) and not adapts(x, spec_of(y)):
                    found.append(
                        self.changed(place, before.labels[k], str(spec_of(x)), str(spec_of(y)), y)
                    )

        try:
            if numbers:
                backend.scratch(probe)
        except Exception:  # the first error stands
            pass
        write(self.state, self.before)
        return found[0] if found else None

    def remedy(self, place: int, after: Any) -> str:
        before = self.flats[place].leaves[0] if len(self.flats[place].leaves) == 1 else None
        if not is_value(before) or not is_value(after):
            return "Start with a value of that type"
        x, y = spec_of(before), spec_of(after)
        if x.dtype != y.dtype:
            start = (
                "0.0" if y.kind == "float" and is_number(before) else f"a value of dtype {y.dtype}"
            )
            return f"Start with {start}"
        return (
            "To collect a row in each step use et.scan, or write into a tensor of the full shape. "
            "Outside of "
            "functions et.while_loop has the option `shapes` for sizes that change"
        )

    def finish(self, tensors: list, ran: Any) -> None:
        """Sets the state after the loop. `ran`: whether its body ran at least once, a host bool or
        a tensor.
        """
        self.set(
            tensors, [self.effects.get(place, value) for place, value in enumerate(self.before)]
        )
        if ran is False:
            for place in self.new:
                self.state[place].set(UNDEFINED)
                del self.flats[place]
        for place, each in enumerate(self.state):
            if place not in self.flats and each.is_variable:
                where = (
                    "is the variable of the loop"
                    if each.label in self.targets
                    else "is set in its body only"
                )
                fact = f"'{each.label}' {where}. Set it before the loop, to use it afterwards"
                self.site.note(each.label, "invalid", fact)
        unsure = [
            self.state[place].label for place in self.new if self.state[place].label != RESULT
        ]
        if unsure and not isinstance(ran, bool):
            names = ", ".join(f"'{name}'" for name in unsure)
            text = (
                f"{self.site.op}: the body of the loop sets {names}, which the program uses "
                "afterwards, but it did "
                f"not run. Set a value before the loop\n  at {self.site.file}:{self.site.line}"
            )
            backend.assert_true(ran, text)


def _run(loop: _Loop, trace: Callable[[list], list], step: Callable[[], Any], ran: Any) -> None:
    """Traces a loop by `trace`, from its tensors before to its tensors after."""
    try:
        with staging(loop.site):
            loop.add_new(step)
            tensors = None
            while tensors is None:
                try:
                    tensors = trace(loop.start())
                except Again:  # at most once for each number
                    pass
    except BaseException as error:
        write(loop.state, loop.before)
        changed = loop.number_that_changes(step) if isinstance(error, TypeError) else None
        raise changed or error
    loop.finish(tensors, ran)


def _refuse_else(site: Site, has_else: bool) -> None:
    if has_else:
        fact = (
            f"a `{site.op}` with `else` that depends on a tensor is not converted. Use a flag and "
            "an `if`"
        )
        raise site.error("unimplemented", fact)


def while_stmt(
    first: Any,
    test: Callable[[], Any],
    body: Callable[[], None],
    names: tuple,
    live: tuple,
    exposed: tuple,
    makers: tuple,
    line: int,
    *,
    pure: bool = False,
    has_else: bool = False,
    caught: int = 0,
) -> None:
    """A `while` statement. `first`: its test, evaluated before the first step. `pure`: the test has
    no effects.

    A test with effects runs once for each time that Python would evaluate it: its value is part of
    the state.
    """
    site = Site("while", body, line)
    refuse_caught(site, caught)
    _refuse_else(site, has_else)
    first = condition(first, site)
    loop = _Loop(site, find_state([body, test], names, makers), live, exposed, ())

    def goes_on() -> Any:
        value = test()
        return condition(value, site) if backend.is_tensor(value) else backend.number(bool(value))

    def pure_test(tensors: list) -> Any:
        loop.enter(tensors)
        return goes_on()

    def step(tensors: list) -> list:
        loop.enter(tensors)
        body()
        return loop.outputs()

    def step_and_test(tensors: list) -> list:
        loop.enter(tensors[1:])
        body()
        flag = backend.reshape_scalar(goes_on())
        return [flag, *loop.outputs()]

    def trace(start: list) -> list:
        if pure:
            return backend.while_loop(pure_test, step, start)
        return backend.while_loop(
            lambda now: now[0], step_and_test, [backend.reshape_scalar(first), *start]
        )[1:]

    _run(loop, trace, body, first)


def for_stmt(
    rows: StagedRows,
    body: Callable[[Any], None],
    leaves: Optional[Callable[[], Any]],
    names: tuple,
    live: tuple,
    exposed: tuple,
    makers: tuple,
    line: int,
    *,
    targets: tuple = (),
    has_else: bool = False,
    caught: int = 0,
) -> None:
    """A `for` statement over rows that a graph holds. `leaves`: whether a flag ends the loop."""
    site = Site("for", body, line)
    refuse_caught(site, caught)
    _refuse_else(site, has_else)
    functions = [body] if leaves is None else [body, leaves]
    loop = _Loop(site, find_state(functions, names, makers), live, exposed, targets)
    length = rows.length(site)
    of_each = rows.tensors() if leaves is None else None
    zero = backend.number(0)

    def by_number(tensors: list) -> list:
        loop.enter(tensors[1:])
        body(rows.at(tensors[0]))
        return [backend.add(tensors[0], backend.number(1)), *loop.outputs()]

    def more(tensors: list) -> Any:
        loop.enter(tensors[1:])
        inside = backend.less(tensors[0], length)
        if leaves is None:
            return inside
        value = and_pure(inside, lambda: not_(leaves()))
        return value if backend.is_tensor(value) else backend.number(bool(value))

    def by_row(tensors: list, row: list) -> list:
        loop.enter(tensors)
        body(rows.row(row))
        return loop.outputs()

    def trace(start: list) -> list:
        if of_each is not None:
            return backend.fold(by_row, start, of_each)
        return backend.while_loop(more, by_number, [zero, *start])[1:]

    ran = length > 0 if isinstance(length, int) else backend.less(zero, length)
    _run(loop, trace, lambda: body(rows.at(zero)), ran)
