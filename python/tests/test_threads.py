# SPDX-License-Identifier: Apache-2.0
"""The GIL and the locks of the library: programs that would deadlock if one waited for the other.
Each runs in a process
of its own, with a time limit."""

import subprocess
import sys
import textwrap

import pytest


def run(program: str, limit: int = 60) -> str:
    """Runs a program; fails if it does not end within the limit."""
    text = "import threading, etude as et\n" + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", text],
        capture_output=True,
        text=True,
        timeout=limit,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


THREADS = """
def in_threads(f, count=8):
    errors = []
    def body(i):
        try:
            f(i)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for t in threads: t.start()
    for t in threads: t.join()
    if errors:
        raise errors[0]
"""


# spec: TC-18.a
def test_one_new_function_on_many_threads():
    out = run(THREADS + """
count = [0]
@et.function
def f(x):
    count[0] += 1
    return x * 2
barrier = threading.Barrier(100)
def body(i):
    barrier.wait()
    for n in range(10):
        assert float(f(et.asarray(float(i)))) == 2.0 * i
in_threads(body, 100)
print(f.trace_count(), count[0])
""")
    assert out.split() == ["1", "1"]


# spec: TC-18.b
def test_two_functions_that_trace_each_other():
    run(THREADS + """
import time
@et.function
def a(n, x):
    time.sleep(0.05)
    return x if n == 0 else b(n - 1, x) + 1
@et.function
def b(n, x):
    time.sleep(0.05)
    return x if n == 0 else a(n - 1, x) + 1
in_threads(lambda i: (a if i % 2 else b)(3, et.asarray(1.0)), 4)
assert float(a(3, et.asarray(1.0))) == 4.0
""")


def test_a_staged_counter_loses_no_update():
    out = run(THREADS + """
v = et.Variable(0.0)
@et.function
def count():
    v.assign(v + 1)
    return v.read()
count()
def body(i):
    for _ in range(200):
        count()
in_threads(body)
print(float(v))
""")
    assert float(out) == 1601.0


# spec: PY-06, PY-08
def test_callbacks_that_call_the_function_again():
    run(THREADS + """
v = et.Variable(1.0, trainable=False)
inner = et.function(lambda x: x * v)
@et.py_function
def back(x):
    v.assign_add(1.0)
    return inner(x)
outer = et.function(lambda x: back(x) + 1)
def body(i):
    for _ in range(20):
        outer(et.asarray(1.0))
        et.gradient(lambda x: outer(et.stop_gradient(x)) * x)(1.0)
in_threads(body)
""")


def test_a_callback_that_assigns_a_variable_of_its_caller():
    run(THREADS + """
v = et.Variable(0.0)
host = et.py_function(lambda x: (v.assign_add(1.0), x)[1])
@et.function
def f(x):
    v.assign_add(1.0)
    y = host(x)
    v.assign_add(1.0)
    return y
def body(i):
    for _ in range(50):
        f(et.asarray(1.0))
in_threads(body)
""")


def test_comparisons_of_arguments_call_python():
    run(THREADS + """
class Key:
    def __init__(self, n): self.n = n
    def __eq__(self, other):
        probe(et.asarray(1.0))
        return self.n == other.n
    def __hash__(self): return 1
probe = et.function(lambda x: x + 1)
f = et.function(lambda k, x: x * k.n)
def body(i):
    for n in range(30):
        assert float(f(Key(n % 3), et.asarray(1.0))) == n % 3
in_threads(body)
""")


def test_callables_die_on_other_threads():
    run(THREADS + """
import gc, weakref
alive = []
def make(i):
    class C:
        def __call__(self, x): return x * i
    c = C()
    alive.append(weakref.ref(c))
    h = et.py_function(c)
    f = et.function(lambda x: h(x))
    f(et.asarray(1.0))
    return f
functions = [make(i) for i in range(64)]
graphs = [f.traces()[0] for f in functions]
functions.clear()
def body(i):
    while graphs:
        try:
            graphs.pop()
        except IndexError:
            return
in_threads(body)
et.function(lambda x: x)(et.asarray(1.0))
gc.collect()
assert all(r() is None for r in alive), sum(r() is not None for r in alive)
""")


def test_warnings_while_functions_are_traced():
    """The handler of warnings takes the GIL, also from a trace that holds locks of the library."""
    run(THREADS + """
import warnings
warnings.simplefilter("always")
warnings.showwarning = lambda *args: shown.append(str(args[0]))
shown = []
shared = et.function(lambda x, k: x * k)
def body(i):
    for n in range(40):
        shared(et.ones(2), n + 100 * i)
        et.function(lambda x: x + i)(et.ones(2))
in_threads(body)
assert any("was traced 5 times" in text for text in shown), shown
""")


def test_effects_of_graphs_that_call_python():
    """Prints keep their order under a lock of the library; the callback prints from a graph, too."""
    out = run(THREADS + """
inner = et.function(lambda x: (et.print("inner", x), x)[1])
through = et.py_function(lambda x: inner(x) + 1)
@et.function
def outer(x):
    et.print("outer", x)
    y = through(x)
    et.assert_true(y > x, "grows")
    return y
def body(i):
    for n in range(20):
        assert float(outer(et.asarray(float(i)))) == i + 1
in_threads(body)
""")
    assert out.count("inner") == out.count("outer") == 160


def test_updates_of_one_optimizer_on_many_threads_are_errors_or_done():
    run(THREADS + """
model, optimizer = et.nn.Dense(4, 4), et.optim.Adam(lr=0.1)
slopes = et.gradient(lambda m: et.sum(m(et.ones((2, 4)))))(model)
done = []
def body(i):
    own = et.tree.copy(model)
    for _ in range(200):
        try:
            optimizer.update(own, slopes)
            done.append(1)
        except et.FailedPreconditionError as error:
            assert "in use by another thread" in str(error)
in_threads(body)
assert optimizer.updates == len(done) > 0
""")


def test_one_model_on_many_threads():
    run(THREADS + """
w = et.ones((4, 4))
f = et.function(lambda w, x: et.sum(et.matmul(x, w) ** 2))
g = et.function(et.gradient(f))
def body(i):
    x = et.ones((2, 4)) * float(i)
    for _ in range(30):
        with et.GradientTape() as tape:
            tape.watch(x)
            y = f(w, x)
        tape.gradient(y, x)
        g(w, x)
in_threads(body)
""")


def test_the_interpreter_may_end_in_a_callback():
    program = """
import sys
@et.py_function
def leave(x):
    sys.exit(7)
f = et.function(lambda x: leave(x))
f(et.asarray(1.0))
"""
    done = subprocess.run(
        [sys.executable, "-c", "import etude as et\n" + program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize("kind", ["function", "tape", "py_function", "cond", "gradient"])
def test_memory_stays_flat(kind):
    run(
        f"""
import resource
kind = {kind!r}
x = et.ones(16)
f = et.function(lambda x: x * 2)
h = et.py_function(lambda x: x, out=et.TensorSpec((16,)))
hf = et.function(lambda x: h(x))
def once():
    if kind == "function": f(x)
    elif kind == "tape":
        with et.GradientTape() as tape:
            tape.watch(x)
            y = et.sum(x * x)
        tape.gradient(y, x)
    elif kind == "py_function": hf(x)
    elif kind == "cond": et.cond(et.asarray(True), lambda: x, lambda: x)
    else: et.gradient(lambda x: et.sum(x * x))(x)
def used(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(2000): once()
before = used()
for _ in range(20000): once()
grown = used() - before
assert grown < 2000, grown
""",
        limit=120,
    )
