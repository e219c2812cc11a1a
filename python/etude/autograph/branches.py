# SPDX-License-Identifier: Apache-2.0
"""`if` and its expressions on a tensor: traces both branches once, and joins the values that they
set.

A name that both branches leave at equal host values stays a host value. Other numbers become
tensors.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import backend
from .errors import Site, staging
from .jumps import RESULT
from .state import UNDEFINED, Result, find_state, read, write
from .trees import (
    Flat,
    Spec,
    adapts,
    describe,
    difference,
    has_new_tensor,
    is_same_host,
    is_value,
    spec_of,
)

TRUE, FALSE = "where the condition is true", "where it is false"


class Again(Exception):
    """The branches must be traced again: a branch that was traced earlier has to return other
    tensors.
    """


def condition(value: Any, site: Site) -> Any:
    """`value` as a single bool. raises: invalid argument for other tensors."""
    value = backend.value_of(value)
    spec = backend.spec_of(value)
    if spec.kind != "bool" or any(size not in (1, None) for size in spec.shape):
        raise site.error(
            "invalid",
            f"the condition is {spec}, but must be a single bool. Compare, as in x > 0, and reduce "
            "with "
            "et.all() or et.any()",
        )
    return value


class _Branches:
    """One execution of an `if`. `live`: the variables that are used afterwards."""

    def __init__(self, site: Site, state: list, live: Any) -> None:
        self.site, self.state, self.live = site, state, live
        self.before = read(state)
        self.specs: dict[tuple[int, int], Spec] = {}  # of numbers, by place
        self.fills: dict[int, Flat] = {}  # values for RESULT where a branch does not return
        self.found: dict[bool, list] = {}

    def run(self, choice: bool, branch: Optional[Callable[[], Any]]) -> list:
        """Traces a branch; returns its tensors."""
        write(self.state, self.before)
        if branch is not None:
            branch()
        values = read(self.state)
        first = None if choice in self.found or not self.found else self.found[not choice]
        flats = [self.flat(place, value) for place, value in enumerate(values)]
        if first is None:
            self.found = {choice: flats}
            return self.first_outputs(flats)
        self.found[choice] = flats
        return self.second_outputs(first, flats)

    def is_used(self, place: int) -> bool:
        each = self.state[place]
        return not each.is_variable or each.label in self.live

    def flat(self, place: int, value: Any) -> Optional[Flat]:
        """None if the value is undefined or not used."""
        if not self.is_used(place):
            return None
        if value is UNDEFINED:
            model = self.fills.get(place)
            return model and Flat(model.with_leaves(_zeros(model)), self.state[place].label)
        return Flat(value, self.state[place].label)

    def first_outputs(self, flats: list) -> list:
        self.slots = [
            (place, k)
            for place, flat in enumerate(flats)
            if flat is not None
            for k, leaf in enumerate(flat.leaves)
            if is_value(leaf)
        ]
        outputs = [
            backend.as_tensor(flats[place].leaves[k], self.specs.get((place, k)))
            for place, k in self.slots
        ]
        self.types = [backend.spec_of(output) for output in outputs]
        return outputs

    def second_outputs(self, first: list, second: list) -> list:
        """The tensors of the branch that is traced second, of the types of the first."""
        types = dict(zip(self.slots, self.types))
        outputs: dict[tuple[int, int], Any] = {}
        self.joined: list = []
        self.effects: dict[int, Any] = {}  # host values after the host effects of both branches
        for place, (a, b) in enumerate(zip(first, second)):
            if self.is_host_effect(place, a, b):
                self.effects[place] = self.state[place].joined(self.before[place], a.value, b.value)
                self.joined.append(None)
            else:
                self.joined.append(self.join(place, a, b, types, outputs))
        return [
            outputs[slot] if slot in outputs else backend.zeros(types[slot]) for slot in self.slots
        ]

    def is_host_effect(self, place: int, a: Optional[Flat], b: Optional[Flat]) -> bool:
        """Whether branches call methods of a container that differ, but with host values only."""
        each = self.state[place]
        if not getattr(each, "by_methods", False) or a is None or b is None:
            return False
        if a.tree == b.tree and all(
            is_value(x) or is_same_host(x, y) for x, y in zip(a.leaves, b.leaves)
        ):
            return False
        before = Flat(self.before[place], each.label)
        return not has_new_tensor(before, a) and not has_new_tensor(before, b)

    def join(
        self, place: int, a: Optional[Flat], b: Optional[Flat], types: dict, outputs: dict
    ) -> Optional[list]:
        """The leaves after the branches: a host value, or the number of a slot in a list; None if
        unbound.
        """
        if a is None or b is None:
            self.undefined_in_one(place, a, b)
            return None
        if a.tree != b.tree:
            raise self.mismatch(place, self.state[place].label, *difference(a, b))
        leaves: list = []
        for k, (x, y) in enumerate(zip(a.leaves, b.leaves)):
            slot = (place, k)
            if is_same_host(x, y):
                leaves.append(x)
                if slot in types:
                    outputs[slot] = backend.as_tensor(y, types[slot])
                continue
            if not is_value(x) or not is_value(y):
                raise self.mismatch(place, a.labels[k], describe(x), describe(y))
            found = spec_of(y)
            if found == types[slot] or adapts(y, types[slot]):
                outputs[slot] = backend.as_tensor(y, types[slot])
            elif adapts(x, found) and slot not in self.specs:
                self.specs[slot] = found
                raise Again
            else:
                raise self.mismatch(place, a.labels[k], describe(x), describe(y))
            leaves.append(_Slot(self.slots.index(slot)))
        return leaves

    def undefined_in_one(self, place: int, a: Optional[Flat], b: Optional[Flat]) -> None:
        each = self.state[place]
        if not self.is_used(place) or (a is None and b is None):
            return
        if each.label == RESULT and each.is_variable:
            self.fills[place] = a or b
            self.fills[place].leaves = [_keep_spec(leaf) for leaf in self.fills[place].leaves]
            raise Again
        given, lacking = (TRUE, FALSE) if self.found[True][place] is not None else (FALSE, TRUE)
        verb = "deleted" if self.before[place] is not UNDEFINED else "not set"
        fact = (
            f"'{each.label}' is set {given}, but {verb} {lacking}. Set it in both branches, or "
            "before"
        )
        if not each.is_variable:
            raise self.site.error("invalid", fact)
        self.site.note(each.label, "invalid", fact)

    def mismatch(self, place: int, label: str, x: str, y: str) -> BaseException:
        """The error for values of two types. `x` and `y` are in the order of tracing."""
        order = list(self.found)
        texts = {order[0]: x, order[1]: y}
        if self.state[place].label == RESULT:
            if "None" in texts.values():
                value, other = (TRUE, FALSE) if texts[False] == "None" else (FALSE, TRUE)
                text = (
                    f"the function returns {texts[value is TRUE]} {value}, but None {other}. "
                    "Return a value there"
                )
                return self.site.error("invalid", text)
            label = label.replace(RESULT, "the returned value")
        else:
            label = f"'{label}'"
        return self.site.error(
            "invalid",
            f"{label} is {texts[True]} {TRUE}, but {texts[False]} {FALSE}. Both branches must give "
            "one dtype, "
            "shape and structure: write 0.0 for a float, or cast with et.astype",
        )

    def finish(self, outputs: list) -> None:
        """Sets the state after the branches."""
        for place, (each, leaves) in enumerate(zip(self.state, self.joined)):
            if place in self.effects:
                each.set(self.effects[place])
                continue
            if leaves is None:
                kept = not self.is_used(place) and each.label != RESULT
                each.set(self.before[place] if kept else UNDEFINED)
                continue
            first, second = self.found.values()
            host = [leaf for leaf in leaves if not isinstance(leaf, _Slot)]
            if len(host) == len(leaves) and first[place].value is second[place].value:
                each.set(first[place].value)
            else:
                made = [
                    outputs[leaf.number] if isinstance(leaf, _Slot) else leaf for leaf in leaves
                ]
                each.set(first[place].with_leaves(made))
            if each.is_variable:
                self.site.forget(each.label)


class _Slot:
    def __init__(self, number: int) -> None:
        self.number = number


class _Kept:
    """The type of a tensor that belongs to a trace that has ended."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec


def _keep_spec(leaf: Any) -> Any:
    return _Kept(backend.spec_of(leaf)) if backend.is_tensor(leaf) else leaf


def _zeros(flat: Flat) -> list:
    return [backend.zeros(leaf.spec) if isinstance(leaf, _Kept) else leaf for leaf in flat.leaves]


def choose(site: Site, test: Any, then: Any, otherwise: Any, state: list, live: Any) -> None:
    """Traces `then` and `otherwise`, and sets `state` to the values of the branch that runs."""
    test = condition(test, site)
    branches = _Branches(site, state, live)
    outputs = None
    while outputs is None:
        branches.found = {}
        try:
            with staging(site):
                outputs = backend.cond(
                    test, lambda: branches.run(True, then), lambda: branches.run(False, otherwise)
                )
        except (
            Again
        ):  # at most once for each value, since a place enters `specs` or `fills` only once
            pass
        except BaseException:
            write(state, branches.before)
            raise
    branches.finish(outputs)


def if_stmt(
    test: Any,
    then: Callable[[], None],
    otherwise: Optional[Callable[[], None]],
    names: tuple,
    live: tuple,
    makers: tuple,
    line: int,
    *,
    raises: int = 0,
    caught: int = 0,
) -> None:
    """An `if` statement whose test is a tensor. `raises`: the line of a `raise` in a branch.
    `caught`: of a `try`.
    """
    site = Site("if", then, line)
    refuse_caught(site, caught)
    if raises:
        raise site.error(
            "unimplemented",
            f"line {raises} raises an exception in a branch that depends on a tensor, and both "
            "branches are "
            "traced. Use et.assert_true, or `assert`, which a graph checks when it runs",
        )
    choose(site, test, then, otherwise, find_state([then, otherwise], names, makers), live)


def refuse_caught(site: Site, caught: int) -> None:
    if caught:
        raise site.error(
            "unimplemented",
            f"it depends on a tensor inside the `try` of line {caught}, whose `except` would see "
            "errors of "
            "tracing only, and none when the graph runs. Move the `try` outside of the function",
        )


Shared = Optional[Callable[[], Any]]  # a function whose cells are variables that operands may set


def if_exp(
    test: Any,
    then: Callable[[], Any],
    otherwise: Callable[[], Any],
    line: int,
    *,
    shared: Shared = None,
) -> Any:
    """`then() if test else otherwise()`"""
    if not backend.is_staged(test):
        return then() if test else otherwise()
    return select(Site("conditional expression", then, line), test, then, otherwise, shared)


def select(
    site: Site, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any], shared: Shared
) -> Any:
    """The value of the function that a tensor chooses."""
    result = Result("its value")
    names = shared.__code__.co_freevars if shared is not None else ()
    state = [result, *find_state([shared], names, ())]
    choose(
        site,
        test,
        lambda: result.set(then()),
        lambda: result.set(otherwise()),
        state,
        (result.label, *names),
    )
    return result.value
