# SPDX-License-Identifier: Apache-2.0
"""Random functions with nested control flow, for test_fuzz.py. A seed decides everything about a
program.
"""

from __future__ import annotations

import random

NAMES = ("a", "b", "c", "d")


class Program:
    """The text of `def f(a, b, xs, box)`.

    staged: only what a graph can hold: values keep their type, and loops over host values have no
    `break` or `return`.
    """

    def __init__(self, seed: int, staged: bool) -> None:
        self.random = random.Random(seed)
        self.staged = staged
        self.lines: list[str] = []
        self.extra = self.bump = self.helper = False
        self.count = 0
        self.budget = self.random.randint(4, 22)
        self.loops: list[str] = []  # kinds of the enclosing loops: "host", "tensor", "while"
        self.tries = 0
        self.emit(0, "def f(a, b, xs, box):")
        self.emit(1, f"c = {self.number()}")
        self.emit(1, f"d = {self.number()}")
        if self.chance(0.5):
            self.emit(1, "rows = {'k': 1}")
            self.emit(1, "g = lambda u: u * 2 + c")
            self.extra = True
        else:
            self.extra = False
        if self.chance(0.25):
            self.emit(1, "def bump(u):")
            self.emit(2, "nonlocal d")
            self.emit(2, "if u > 1:")
            self.emit(3, "d = (d + u) % 97")
            self.emit(3, "return d")
            self.emit(2, "return u - 1")
            self.bump = True
        else:
            self.bump = False
        self.helper = self.chance(0.4)
        if self.helper:
            self.nested()
        self.block(1, 0)
        self.emit(1, f"return {self.final()}")

    def nested(self) -> None:
        """A function inside `f` with loops and early returns of its own."""
        self.emit(1, "def h(u):")
        self.emit(2, "w = 1")
        self.emit(2, f"for q in {self.random.choice(('range(u % 3)', 'xs', 'range(a % 4)'))}:")
        self.emit(3, f"if q * u > {self.number()}:")
        self.emit(4, self.random.choice(("return w + q", "break", "continue", "w = w - 1")))
        self.emit(3, "w = (w * 3 + q) % 97")
        self.emit(2, f"while w > {self.random.randint(10, 60)}:")
        self.emit(3, f"w = w - {self.random.randint(3, 20)}")
        self.emit(3, f"if w == {self.random.randint(20, 60)}:")
        self.emit(4, self.random.choice(("return -w", "break", "w = w - 2")))
        self.emit(2, "return w if u > 1 else u - w")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def final(self) -> str:
        parts = ["a", "b", "c", "d", "box.x"] + (["rows['k']"] if self.extra else [])
        return (
            "("
            + " + ".join(f"{n} * {p}" for n, p in zip((1, 10, 100, 1000, 7, 13), parts))
            + ") % 100003"
        )

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def number(self) -> int:
        return self.random.randint(-3, 6)

    def atom(self) -> str:
        choices = [*NAMES, *NAMES, str(self.number()), "box.x"]
        if self.extra:
            choices += ["rows['k']", "g(b)"]
        if self.bump:
            choices.append("bump(a)")
        if self.helper:
            choices += ["h(c)", "h(2)"]
        return self.random.choice(choices)

    def value(self, depth: int = 0) -> str:
        kind = self.random.random()
        if depth > 2 or kind < 0.35:
            return self.atom()
        if kind < 0.8:
            op = self.random.choice(("+", "-", "*"))
            left, right = self.value(depth + 1), self.value(depth + 1)
            return f"({left} {op} {right}) % {self.random.choice((7, 11, 97))}"
        if kind < 0.95:
            return (
                f"({self.value(depth + 1)} if {self.test(depth + 1)} else {self.value(depth + 1)})"
            )
        return f"abs({self.value(depth + 1)})"

    def test(self, depth: int = 0) -> str:
        kind = self.random.random()
        compare = self.random.choice(("<", ">", "<=", "==", "!="))
        if depth > 2 or kind < 0.55:
            return f"{self.value(depth + 2)} {compare} {self.value(depth + 2)}"
        if kind < 0.75:
            op = self.random.choice(("and", "or"))
            return f"({self.test(depth + 1)} {op} {self.test(depth + 1)})"
        if kind < 0.85:
            return f"(not {self.test(depth + 1)})"
        return (
            f"{self.value(depth + 2)} {compare} {self.value(depth + 2)} < {self.value(depth + 2)}"
        )

    def block(self, depth: int, level: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(depth, level)
        else:
            return
        self.emit(depth, "a = (a + 1) % 97")

    def statement(self, depth: int, level: int) -> None:
        kind = self.random.random()
        if level >= 4 or kind < 0.33:
            self.simple(depth)
        elif kind < 0.6:
            self.branch(depth, level)
        elif kind < 0.78:
            self.loop(depth, level)
        elif kind < 0.84:
            self.guarded(depth, level)
        else:
            self.jump(depth)

    def simple(self, depth: int) -> None:
        target = self.random.choice(NAMES)
        kind = self.random.random()
        if kind < 0.55:
            self.emit(depth, f"{target} = {self.value()}")
        elif kind < 0.7:
            self.emit(depth, f"{target} += {self.atom()}")
            self.emit(depth, f"{target} = {target} % 1009")
        elif kind < 0.82:
            self.emit(depth, f"box.x = {self.value()}")
        elif kind < 0.86:
            self.count += 1
            name = f"w{self.count}"
            self.emit(depth, f"if ({name} := {self.value()}) > {self.number()} and {name} < 50:")
            self.emit(depth + 1, f"{target} = {name}")
        elif kind < 0.9 and not self.staged:
            self.odd(depth, target)
        elif kind < 0.93 and self.extra:
            self.emit(depth, f"rows['k'] = {self.value()}")
        elif kind < 0.96:
            other = self.random.choice(NAMES)
            self.emit(depth, f"{target}, {other} = {self.value()}, {self.value()}")
        else:
            self.count += 1
            self.emit(depth, f"t{self.count} = {self.value()}")
            self.emit(depth, f"{target} = t{self.count} + 1")

    def odd(self, depth: int, target: str) -> None:
        """Statements for host values only."""
        kind = self.random.randrange(5)
        if kind == 0:
            self.emit(
                depth,
                f"{target} = sum([q * {self.atom()} for q in (1, 2, 3) if q > {self.number()}]) % "
                "97",
            )
        elif kind == 1:
            self.emit(depth, f"match {self.atom()} % 3:")
            self.emit(depth + 1, "case 0:")
            self.emit(depth + 2, f"{target} = {self.value()}")
            self.emit(depth + 1, "case q if q > 1:")
            self.emit(depth + 2, f"{target} = q")
        elif kind == 2:
            self.count += 1
            self.emit(depth, f"if {self.test()}:")
            self.emit(depth + 1, f"m{self.count} = {self.value()}")
            self.emit(depth, f"{target} = m{self.count}")
        elif kind == 3:
            self.count += 1
            self.emit(depth, f"while True:  # {self.count}")
            self.emit(depth + 1, f"a = (a + {self.random.randint(1, 5)}) % 1009")
            self.emit(depth + 1, f"if a > {self.random.randint(0, 300)}:")
            self.emit(depth + 2, self.random.choice(("break", "break", f"return {self.value()}")))
        else:
            self.emit(depth, f"items = [{self.atom()}, {self.atom()}]")
            self.emit(depth, f"if {self.test()}:")
            self.emit(depth + 1, f"items.append({self.value()})")
            self.emit(depth + 1, "items[0] += 1")
            self.emit(depth + 1, "del items[1]")
            self.emit(depth, f"{target} = sum(items) % 97")

    def branch(self, depth: int, level: int) -> None:
        self.emit(depth, f"if {self.test()}:")
        self.block(depth + 1, level + 1)
        while self.chance(0.2):
            self.emit(depth, f"elif {self.test()}:")
            self.block(depth + 1, level + 1)
        if self.chance(0.5):
            self.emit(depth, "else:")
            self.block(depth + 1, level + 1)

    def loop(self, depth: int, level: int) -> None:
        self.count += 1
        kind = self.random.choice(("host", "tensor", "tensor", "while", "range"))
        name = f"i{self.count}"
        if kind == "while":
            self.emit(depth, f"{name} = 0")
            self.emit(depth, f"while {name} < {self.random.randint(1, 5)} and {self.test()}:")
        elif kind == "host":
            rows = self.random.choice(
                ("range(3)", "(1, 2, 3)", "enumerate([4, 5])", "zip((1, 2), (3, 4))")
            )
            name = f"({name}, _)" if rows[0] in "ez" else name
            self.emit(depth, f"for {name} in {rows}:")
        elif kind == "range":
            self.emit(depth, f"for {name} in range({self.atom()} % 4):")
        else:
            rows = self.random.choice(("xs", "xs", "enumerate(xs)", "zip(xs, xs)"))
            name = f"({name}, _)" if rows[0] in "ez" else name
            self.emit(depth, f"for {name} in {rows}:")
        if kind == "while":
            self.emit(depth + 1, f"{name} = {name} + 1")
        else:
            first = name.strip("(").split(",")[0]
            self.emit(depth + 1, f"{self.random.choice(NAMES)} = {first} + {self.atom()}")
        self.loops.append(kind)
        self.block(depth + 1, level + 1)
        self.loops.pop()
        if not self.staged and self.chance(0.25):
            self.emit(depth, "else:")
            self.block(depth + 1, level + 1)

    def guarded(self, depth: int, level: int) -> None:
        kind = self.random.random()
        if kind < 0.3:
            self.emit(depth, "with box:")
            self.block(depth + 1, level + 1)
            return
        self.emit(depth, "try:")
        self.block(depth + 1, level + 1)
        if not self.staged and kind < 0.7:
            self.emit(depth + 1, f"if {self.test()}:")
            self.emit(depth + 2, "raise KeyError(1)")
            self.emit(depth, "except KeyError as error:")
            self.block(depth + 1, level + 1)
            if self.chance(0.4):
                self.emit(depth, "else:")
                self.block(depth + 1, level + 1)
            if self.chance(0.5):
                return
        self.emit(depth, "finally:")
        self.emit(depth + 1, f"{self.random.choice(NAMES)} = {self.value()}")

    def jump(self, depth: int) -> None:
        """A jump under a test, so that the code after it is reached too."""
        choices = ["return"]
        if self.loops:
            choices += ["break", "continue", "continue"]
        kind = self.random.choice(choices)
        in_host = self.loops and self.loops[-1] == "host"
        if self.staged and (
            (kind == "break" and in_host) or (kind == "return" and "host" in self.loops)
        ):
            kind = "continue"
        self.emit(depth, f"if {self.test()}:")
        if self.chance(0.5):
            self.simple(depth + 1)
        self.emit(depth + 1, f"return {self.value()}" if kind == "return" else kind)
