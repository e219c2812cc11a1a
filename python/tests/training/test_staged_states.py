# SPDX-License-Identifier: Apache-2.0
"""The state of layers, such as running statistics, in staged functions that do not donate the model."""

import pytest

import etude as et
from etude import nn, optim

X = et.random.normal((16, 3), key=et.random.key(1)) + 2.0


def loss_of(forward):
    return lambda m: et.mean(forward(m, X) ** 3)


def train(forward, steps=3):
    model, optimizer = nn.BatchNorm(3), optim.SGD(lr=0.1)
    with et.PhaseScope("training"):
        for _ in range(steps):
            optimizer.update(model, et.gradient(loss_of(forward))(model))
    return model


def plain(m, x):
    return m(x)


def assert_same(model, other):
    assert other.running.mean.tolist() != [0.0, 0.0, 0.0]
    for path in ("running.mean", "running.variance", "scale", "offset"):
        found, wanted = model, other
        for name in path.split("."):
            found, wanted = getattr(found, name), getattr(wanted, name)
        et.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore:BatchNorm. its state")
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_staged_forward_changes_the_state_as_the_plain_one(is_warm):
    staged = et.function(plain)
    if is_warm:
        with et.PhaseScope("training"):
            staged(nn.BatchNorm(3), X)
    assert_same(train(staged), train(plain))
    assert staged.trace_count() == 1


def test_two_staged_calls_in_one_gradient_change_the_state_twice():
    staged = et.function(plain)
    assert_same(train(lambda m, x: staged(m, staged(m, x) * 2)), train(lambda m, x: m(m(x) * 2)))


def test_nested_staged_functions_and_gradients():
    inner = et.function(plain)
    assert_same(train(et.function(lambda m, x: inner(m, x))), train(plain))

    @et.function
    def slopes(m):
        return et.gradient(loss_of(plain))(m)

    model, optimizer = nn.BatchNorm(3), optim.SGD(lr=0.1)
    with et.PhaseScope("training"):
        for _ in range(3):
            optimizer.update(model, slopes(model))
    assert_same(model, train(plain))


def test_a_tape_collects_the_state_of_a_staged_forward():
    staged = et.function(plain)
    model, optimizer = nn.BatchNorm(3), optim.SGD(lr=0.1)
    with et.PhaseScope("training"):
        for _ in range(3):
            with et.GradientTape() as tape:
                tape.watch(model)
                loss = loss_of(staged)(model)
            optimizer.update(model, tape.gradient(loss, model))
    assert_same(model, train(plain))


def test_a_staged_forward_without_a_gradient_warns():
    staged = et.function(plain)
    model = nn.BatchNorm(3)
    with et.PhaseScope("training"), pytest.warns(UserWarning, match="BatchNorm: its state.*does not change"):
        staged(model, X)
    assert model.running.mean.tolist() == [0.0, 0.0, 0.0]


class Net(et.Module):
    def __init__(self):
        with et.SeedScope(2):
            self.norm = nn.BatchNorm(3)
            self.out = nn.Dense(3, 1)

    def __call__(self, x):
        return self.out(self.norm(x))


class StagedNet(Net):
    @et.function
    def __call__(self, x):
        return self.out(self.norm(x))


@pytest.mark.parametrize("mode", ["eager", "staged", "lazy"])
def test_fit_of_a_module_with_a_staged_call(mode):
    models = Net(), StagedNet()
    for model in models:
        data = et.data.Loader(X, et.sum(X, axis=1, keepdims=True), batch=8, seed=1)
        nn.fit(model, optim.SGD(lr=0.01), data, lambda p, t: et.mean((p - t) ** 2), epochs=2, mode=mode)
    assert_same(models[1].norm, models[0].norm)


def test_an_error_while_it_is_traced_leaves_the_state_of_the_caller():
    @et.function
    def fails(m, x):
        y = m(x)
        if x.shape[0] == 16:
            raise ValueError("no")
        return y

    model = nn.BatchNorm(3)
    with et.PhaseScope("training"):
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                et.gradient(loss_of(fails))(model)
    assert model.running.mean.tolist() == [0.0, 0.0, 0.0]
    assert_same(train(plain), train(plain))


def test_a_state_of_an_ended_trace_is_refused():
    def loss(m):
        return et.mean(et.function(lambda x: m(x))(X) ** 3)

    model, optimizer = nn.BatchNorm(3), optim.SGD(lr=0.1)
    with et.PhaseScope("training"):
        slopes = et.gradient(loss)(model)
        with pytest.raises(et.FailedPreconditionError, match="new state 'running/mean' of a layer is a value of function"):
            optimizer.update(model, slopes)
    assert model.running.mean.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.filterwarnings("ignore:BatchNorm. its state")
def test_saving_a_function_that_changes_a_state(tmp_path):
    staged = et.function(plain)
    model = nn.BatchNorm(3)
    with et.PhaseScope("training"):
        staged(model, X)
        with pytest.raises(et.Error, match="function .plain. changes the state 'm/running/mean' of a layer.*donate"):
            et.saved.save(tmp_path / "f", {"f": et.saved.bind(staged, model)})
    staged(model, X)
    et.saved.save(tmp_path / "f", {"f": et.saved.bind(staged, model)})
    loaded = et.saved.load(tmp_path / "f").function("f")
    et.testing.assert_close(loaded(X), model(X))


@pytest.mark.parametrize("has_norm", [False, True])
def test_a_step_of_plain_sgd_can_be_saved(tmp_path, has_norm):
    @et.function(donate=("m", "o"))
    def step(m, o, x):
        with et.PhaseScope("training"):
            loss, slopes = et.value_and_gradient(lambda n: et.mean((n(x) - 1) ** 2))(m)
        o.update(m, slopes)
        return loss

    model = nn.Sequential(nn.BatchNorm(3), nn.Dense(3, 1)) if has_norm else nn.Dense(3, 1)
    optimizer = optim.SGD(lr=0.1)
    step(model, optimizer, X)
    et.saved.save(tmp_path / "step", {"step": et.saved.bind(step, model, optimizer)})
    assert step.trace_count() == 1 and optimizer.updates == 1


def test_two_changes_of_one_state_in_a_staged_function_are_refused():
    class Shared(et.Module):
        def __init__(self):
            self.a = nn.BatchNorm(3)
            self.b = self.a

        @et.function
        def __call__(self, x):
            return self.b(self.a(x) * 2)

    message = "changes the state 'self/a/running/mean', which is also at 'self/b/running/mean'. Keep the layer at one path"
    with pytest.raises(et.InvalidArgumentError, match=message):
        nn.fit(Shared(), optim.SGD(lr=0.1), (X, X), lambda p, t: et.mean((p - t) ** 2))


def test_a_state_that_a_branch_or_a_loop_changes():
    @et.function
    def branches(m, x):
        return et.cond(et.sum(x) > -1e9, lambda: m(x), lambda: m(x * 2))

    @et.function
    def loop(m, x):
        return et.scan(lambda s, row: (m(s), row), x, et.zeros(2))[0]

    message = "changes the state 'm/running/mean' of a layer in a branch or in the body of a loop"
    for function in (branches, loop):
        model = nn.BatchNorm(3)
        with et.PhaseScope("training"):
            for _ in range(2):
                with pytest.raises(et.FailedPreconditionError, match=message):
                    et.gradient(loss_of(function))(model)
        assert model.running.mean.tolist() == [0.0, 0.0, 0.0]
    with et.PhaseScope("training"), pytest.warns(UserWarning, match="BatchNorm.: its state"):
        assert branches(model, X).shape == (16, 3)
