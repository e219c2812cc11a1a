# SPDX-License-Identifier: Apache-2.0
"""Training: staged steps, optimisers as structures, the best weights, iterables as data."""

import copy

import numpy as np
import pytest

import etude as et

X = et.random.normal((48, 3), key=et.random.key(1))
Y = et.sum(X, axis=1, keepdims=True)


def mse(p, t):
    return et.mean((p - t) ** 2)


class Net(et.Module):
    def __init__(self):
        with et.SeedScope(7):
            self.hidden = et.nn.Dense(3, 8, activation=et.nn.tanh)
            self.norm = et.nn.BatchNorm(8)
            self.output = et.nn.Dense(8, 1)

    def __call__(self, x):
        return self.output(self.norm(self.hidden(x)))


def bits(structure):
    leaves = et.tree.leaves(structure)
    return [getattr(x, "value", x).tolist() for x in leaves if x is not None]


def loader():
    return et.data.Loader(X, Y, batch=16, seed=3)


OPTIMIZERS = {
    "SGD": lambda: et.optim.SGD(lr=0.05, momentum=0.9),
    "Adam": lambda: et.optim.Adam(lr=et.optim.cosine(0.01, 30)),
    "AdamW": lambda: et.optim.AdamW(lr=0.01, amsgrad=True),
    "Lion": lambda: et.optim.Lion(lr=0.001),
}


@pytest.mark.filterwarnings("ignore:function .step. was traced")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_in_a_staged_function_has_the_bits_of_an_eager_one(name):
    def step(model, optimizer, x, y):
        with et.PhaseScope("training"):
            loss, slopes = et.value_and_gradient(lambda m: mse(m(x), y))(model)
        optimizer.update(model, slopes)
        return loss

    staged = et.function(step, donate=("model", "optimizer"))
    eager_model, eager_optimizer = Net(), OPTIMIZERS[name]()
    model, optimizer = Net(), OPTIMIZERS[name]()
    for i in range(7):
        x, y = X[i : i + 16], Y[i : i + 16]
        expected = step(eager_model, eager_optimizer, x, y)
        assert staged(model, optimizer, x, y).tolist() == expected.tolist()
    assert bits(model) == bits(eager_model)
    assert optimizer.updates == eager_optimizer.updates == 7
    state, other = optimizer.state(), eager_optimizer.state()
    assert {k: v.tolist() for k, v in state.items()} == {k: v.tolist() for k, v in other.items()}
    # One graph makes the state, the other has it as an argument.
    assert staged.trace_count() == 2
    optimizer.scale_rate(0.5)
    eager_optimizer.scale_rate(0.5)
    staged(model, optimizer, X[:16], Y[:16])
    step(eager_model, eager_optimizer, X[:16], Y[:16])
    assert bits(model) == bits(eager_model) and optimizer.rate == eager_optimizer.rate


def test_donated_models_with_absent_parts():
    @et.function(donate=("model", "optimizer"))
    def step(model, optimizer):
        optimizer.update(model, et.gradient(lambda m: mse(m(X), Y))(model))

    model = et.nn.Sequential(et.nn.Dense(3, 4, bias=False), et.nn.Dense(4, 1, bias=False))
    before = model[0].weight.tolist()
    step(model, et.optim.SGD(lr=0.1))
    assert model[0].bias is None and model[0].weight.tolist() != before


def test_a_dict_holds_model_and_optimizer():
    @et.function(donate="state")
    def step(state, x, y):
        loss, slopes = et.value_and_gradient(lambda m: mse(m(x), y))(state["model"])
        state["optimizer"].update(state["model"], slopes)
        return loss

    state = {"optimizer": et.optim.Adam(lr=0.05), "model": et.nn.Dense(3, 1), "a": et.zeros(2)}
    first = float(step(state, X, Y))
    for _ in range(100):
        last = float(step(state, X, Y))
    assert last < 0.1 * first and state["optimizer"].updates == 101 and step.trace_count() == 2


# spec: ST-11.d
def test_optimizers_that_a_staged_function_may_not_change():
    model, optimizer = et.nn.Dense(3, 1), et.optim.Adam()

    def step(model, optimizer):
        slopes = et.gradient(lambda m: mse(m(X), Y))(model)
        optimizer.update(model, slopes)

    for donate in ("model", ("optimizer",)):
        with pytest.raises(et.InvalidArgumentError, match=r"not in `donate`.*pass donate=\('"):
            et.function(step, donate=donate)(model, optimizer)

    @et.function(donate="model")
    def captured(model):
        optimizer.update(model, et.gradient(lambda m: mse(m(X), Y))(model))

    with pytest.raises(et.FailedPreconditionError) as error:
        captured(model)
    assert '@et.function(donate=("model", "optimizer"))' in str(error.value)
    assert "[](" not in str(error.value)
    assert optimizer.updates == 0 and model.weight.shape == (3, 1)  # all is as it was


def test_optimizers_are_structures():
    model, optimizer = et.nn.Dense(3, 1), et.optim.Adam(lr=0.1)
    assert et.tree.paths(optimizer) == ["updates"]
    optimizer.update(model, et.gradient(lambda m: mse(m(X), Y))(model))
    paths = et.tree.paths(optimizer)
    assert paths[0] == "updates" and "mean/weight" in paths and "variance/bias" in paths
    # The state is constant for derivatives.
    slope = et.gradient(lambda m, o: mse(m(X), Y))(model, optimizer)
    assert type(slope) is et.nn.Dense


# spec: V66
def test_copies_of_models_and_optimizers_are_independent():
    model, optimizer = Net(), et.optim.Adam(lr=0.1)
    train = lambda m, o: et.nn.fit(m, o, loader(), mse)  # noqa: E731
    train(model, optimizer)
    for copier in (copy.copy, copy.deepcopy):
        other, own = copier(model), copier(optimizer)
        before, state = bits(model), bits(optimizer)
        assert bits(other) == before and bits(own) == state
        train(other, own)  # batch norm moves its running statistics, too
        assert bits(model) == before and bits(optimizer) == state
        assert bits(other) != before and own.updates == 2 * optimizer.updates


@pytest.mark.parametrize("mode", ["staged", "lazy"])
@pytest.mark.parametrize("callbacks", [False, True])
def test_modes_of_fit_have_the_bits_of_eager(mode, callbacks):
    def run(mode):
        model, optimizer, seen = Net(), et.optim.AdamW(lr=0.02), []
        calls = [lambda event, state: seen.append((event, state["batch_loss"]))]
        history = et.nn.fit(
            model, optimizer, loader(), mse, epochs=3, mode=mode, validation=(X, Y),
            callbacks=calls if callbacks else [],
        )  # fmt: skip
        return bits(model), bits(optimizer), history.batch_losses, seen[-1:], history.epochs

    eager, other = run("eager"), run(mode)
    assert other[:4] == eager[:4]
    for a, b in zip(eager[4], other[4]):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}


def test_staged_fit_converts_control_flow():
    class Clipped(et.Module):
        def __init__(self):
            self.w = et.asarray(2.0)

        def __call__(self, x):
            y = x * self.w
            if et.max(y) > 3.0:
                y = y * 0.25
            return y

    def run(mode):
        model = Clipped()
        et.nn.fit(model, et.optim.SGD(lr=0.01), et.data.Loader(X, X, batch=16), mse, mode=mode)
        return model.w.item()

    assert run("staged") == run("eager") != 2.0


def test_a_staged_run_is_cancelled_and_resumed():
    def parts():
        return Net(), et.optim.Adam(lr=0.02), loader()

    model, optimizer, data = parts()
    et.nn.fit(model, optimizer, data, mse, epochs=3, mode="staged")
    again, own, data = parts()
    steps = []

    def stop(event, state):
        if event == "batch_end":
            steps.append(1)
            return "fit" if len(steps) == 4 else None

    et.nn.fit(again, own, data, mse, epochs=3, mode="staged", callbacks=[stop])
    assert own.updates == 4 and data.position == (1, 1)
    et.nn.fit(again, own, data, mse, epochs=3, mode="staged")
    assert bits(again) == bits(model) and bits(own) == bits(optimizer)


def test_callbacks_see_the_optimizer():
    optimizer, rates = et.optim.SGD(lr=0.1), []

    def halve(event, state):
        if event == "epoch_end":
            optimizer.scale_rate(0.5)
            rates.append((optimizer.rate, optimizer.updates))

    et.nn.fit(Net(), optimizer, loader(), mse, epochs=3, mode="staged", callbacks=[halve])
    assert [r for r, _ in rates] == pytest.approx([0.05, 0.025, 0.0125])
    assert [n for _, n in rates] == [3, 6, 9]


def test_reduce_on_plateau_lowers_the_rate_of_its_optimizer():
    optimizer = et.optim.SGD(lr=0.5)
    monitor = et.nn.Monitored(name="loss", min_delta=1e9)
    callback = et.nn.reduce_on_plateau(optimizer, monitor=monitor, patience=1, factor=0.1)
    et.nn.fit(et.nn.Dense(3, 1), optimizer, loader(), mse, epochs=3, callbacks=[callback])
    assert optimizer.rate == pytest.approx(0.005)


def test_keep_best_with_early_stopping():
    model, optimizer, seen = et.nn.Dense(3, 1), et.optim.SGD(lr=0.05), []

    def spoil(event, state):  # each epoch after the second is worse than the one before
        if event == "epoch_end":
            seen.append((state["history"][-1]["validation_loss"], model.weight.tolist()))
            if len(seen) == 2:
                optimizer.scale_rate(1e3)

    best = et.nn.Monitored(name="validation_loss")
    history = et.nn.fit(
        model, optimizer, loader(), mse, epochs=50, validation=(X, Y),
        callbacks=[spoil, et.nn.keep_best(monitor=best), et.nn.early_stopping(monitor=best, patience=3)],
    )  # fmt: skip
    assert 2 < len(history.epochs) < 50
    losses = [loss for loss, _ in seen]
    assert losses.index(min(losses)) == 1 and model.weight.tolist() == seen[1][1]
    assert et.nn.evaluate(model, X, Y, mse)["loss"] == pytest.approx(min(losses))


@pytest.mark.parametrize("mode", ["eager", "staged"])
def test_restore_best_after_a_loss_that_is_not_finite(mode):
    batches, kept = [], []
    model, optimizer = et.nn.Dense(3, 1), et.optim.SGD(lr=0.01)

    def data():
        for i in range(3):
            bad = len(kept) == 1 and i == 1
            yield X[:16] * (float("inf") if bad else 1.0), Y[:16]
            batches.append(i)

    def note(event, state):
        if event == "epoch_end" and not kept:
            kept.append(model.weight.tolist())
        if event == "batch_end" and state["epoch"] == 1 and state["step"] == 2:
            return "fit"

    history = et.nn.fit(
        model, optimizer, data, mse, epochs=3, mode=mode, on_non_finite="restore_best", callbacks=[note]
    )
    assert history.skipped_batches == 1 and history.was_cancelled
    assert model.weight.tolist() == kept[0] and optimizer.updates == 3
    with pytest.raises(et.InvalidArgumentError, match="'skip' or 'restore_best'"):
        et.nn.fit(model, optimizer, loader(), mse, on_non_finite="ignore")


def batches():
    for i in range(0, 48, 16):
        yield X[i : i + 16], np.asarray(Y[i : i + 16])


class Endless:
    def __iter__(self):
        while True:
            yield from batches()


@pytest.mark.parametrize(
    "data, options",
    [
        (batches, {}),
        (list(batches()), {}),
        (Endless(), {"steps_per_epoch": 3}),
        (lambda: Endless(), {"steps_per_epoch": 3}),
        ((b for _ in range(2) for b in batches()), {"steps_per_epoch": 3}),
    ],
    ids=["function", "list", "endless", "function of endless", "generator with steps"],
)
def test_iterables_are_data(data, options):
    plain, model, optimizer = et.nn.Dense(3, 1, weight_init="ones"), et.nn.Dense(3, 1, weight_init="ones"), et.optim.SGD(lr=0.1)
    own = et.optim.SGD(lr=0.1)
    unshuffled = et.data.Loader(X, Y, batch=16, shuffle=False)
    expected = et.nn.fit(plain, own, unshuffled, mse, epochs=2)
    history = et.nn.fit(model, optimizer, data, mse, epochs=2, **options)
    assert history.batch_losses == expected.batch_losses and bits(model) == bits(plain)
    assert len(history.epochs) == 2


def test_bad_data_is_refused():
    model, optimizer = et.nn.Dense(3, 1), et.optim.SGD(lr=0.1)

    def fit(data, **options):
        return et.nn.fit(model, optimizer, data, mse, **options)

    with pytest.raises(et.InvalidArgumentError, match="the data has no batches"):
        fit(iter(()))
    with pytest.raises(et.InvalidArgumentError, match="the data has no batches"):
        fit([])
    with pytest.raises(et.InvalidArgumentError, match="the data is a int. Pass an et.data.Loader"):
        fit(3)
    with pytest.raises(et.InvalidArgumentError, match=r"batch 1 of the data is a tuple of 3 items"):
        fit([(X, Y, Y)])
    with pytest.raises(et.InvalidArgumentError, match="epoch 2, batch 1. A generator gives its batches once"):
        fit(batches(), epochs=2)
    with pytest.raises(et.InvalidArgumentError, match="steps_per_epoch is 0"):
        fit(batches, steps_per_epoch=0)
    with pytest.raises(et.InvalidArgumentError, match="steps_per_epoch is for iterables"):
        fit(loader(), steps_per_epoch=2)
    with pytest.raises(et.InvalidArgumentError, match="the optimizer is a str, but must be one of et.optim"):
        et.nn.fit(model, "adam", loader(), mse)
    with pytest.raises(et.InvalidArgumentError, match="the data is a dict. Pass an et.data.Loader"):
        fit({"x": X})
    with pytest.raises(et.InvalidArgumentError, match=r"the optimizer is the class Adam. Make an object of it: Adam\("):
        et.nn.fit(model, et.optim.Adam, loader(), mse)
    with pytest.raises(et.InvalidArgumentError, match="the model is the class Dense"):
        et.nn.fit(et.nn.Dense, optimizer, loader(), mse)
    with pytest.raises(et.InvalidArgumentError, match=r"optim.Adam: options are given by name.*update\(model, gradients\)"):
        et.optim.Adam(model)
    with pytest.raises(et.InvalidArgumentError, match="epochs is 1.5, but must be an integer"):
        fit(loader(), epochs=1.5)
    with pytest.raises(et.InvalidArgumentError, match="validation is a Tensor, but must be a pair"):
        fit(loader(), validation=X)
    with pytest.raises(et.InvalidArgumentError, match="the metric 'a' is an int"):
        fit(loader(), metrics={"a": 3})
    with pytest.raises(et.InvalidArgumentError, match=r"monitor is 'loss', but must be an et.nn.Monitored\(name=...\)"):
        et.nn.keep_best(monitor="loss")
    with pytest.raises(et.InvalidArgumentError, match=r"^Adam.update: parameter 'weight' is float32\[3,1\]"):
        et.optim.Adam().update(et.nn.Dense(3, 1), et.nn.Dense(2, 1))
    with pytest.raises(et.InvalidArgumentError, match="TensorSpec: a size in the shape is 'a', but must be an integer"):
        et.TensorSpec((None, "a"))
    with pytest.raises(et.InvalidArgumentError, match="a callback is a int"):
        fit(loader(), callbacks=[3])
    with pytest.raises(et.InvalidArgumentError, match="the loss is a str"):
        et.nn.fit(model, optimizer, loader(), "mse")

    def broken():
        yield X, Y
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fit(broken)
    assert model.weight.shape == (3, 1) and len(bits(optimizer)) >= 1  # both have their tensors

    class NoResult(et.Module):
        def __init__(self):
            self.w = et.zeros(2)

        def __call__(self, x):
            pass

    with pytest.raises(et.InvalidArgumentError, match=r"the model returned None.*is a return missing\?"):
        et.nn.fit(NoResult(), optimizer, loader(), mse)


def test_an_optimizer_is_not_copied_while_it_trains():
    optimizer, found = et.optim.SGD(lr=0.1, momentum=0.9), []

    def look(event, state):
        if event == "batch_end":
            found.append(optimizer.state()["updates"].item())
            with pytest.raises(et.FailedPreconditionError, match="is in use, and its state belongs to the training"):
                copy.copy(optimizer)

    et.nn.fit(et.nn.Dense(3, 1), optimizer, loader(), mse, callbacks=[look])
    assert found == [1, 2, 3] and copy.copy(optimizer).updates == 3


def test_a_model_may_hold_its_optimizer():
    class Own(et.Module):
        def __init__(self):
            self.layer, self.optimizer = et.nn.Dense(3, 1, weight_init="ones"), et.optim.Adam(lr=0.1)

        def __call__(self, x):
            return self.layer(x)

    own, plain, optimizer = Own(), et.nn.Dense(3, 1, weight_init="ones"), et.optim.Adam(lr=0.1)
    for _ in range(3):
        own.optimizer.update(own, et.gradient(lambda m: mse(m(X), Y))(own))
        optimizer.update(plain, et.gradient(lambda m: mse(m(X), Y))(plain))
    assert bits(own.layer) == bits(plain) and own.optimizer.updates == 3
    assert own.optimizer.state()["mean/layer/weight"].tolist() == optimizer.state()["mean/weight"].tolist()


def test_a_model_may_not_change_while_it_is_called():
    class Changing(et.Module):
        def __init__(self, how):
            self.how, self.count, self.w, self.layer = how, 0, et.ones(3), et.nn.Dense(3, 1)

        def __call__(self, x):
            if self.how == "number":
                self.count += 1
            elif self.how == "attribute":
                self.last = x
            elif self.how == "tensor":
                self.w[0] = 2.0
            return self.layer(x * self.w)

    for how, part in (("number", "'count'"), ("attribute", "last="), ("tensor", "'w'")):
        for mode in ("eager", "staged"):
            model = Changing(how)
            with pytest.raises(et.InvalidArgumentError, match="while it is called.*keep it outside") as error:
                et.nn.fit(model, et.optim.SGD(lr=0.1), loader(), mse, mode=mode)
            assert part in str(error.value)
    et.nn.fit(Changing("not"), et.optim.SGD(lr=0.1), loader(), mse)


def test_an_optimizer_in_use_by_another_thread():
    import threading

    optimizer, model, found = et.optim.SGD(lr=0.1), et.nn.Dense(3, 1), []
    slopes = et.gradient(lambda m: mse(m(X), Y))(model)

    def other():
        try:
            optimizer.update(copy.copy(model), slopes)
        except et.FailedPreconditionError as error:
            found.append(str(error))

    def call(event, state):
        if event == "batch_end" and not found:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    et.nn.fit(model, optimizer, loader(), mse, callbacks=[call])
    assert "in use by another thread" in found[0] and "copy.copy(optimizer)" in found[0]


EXTRAS = {
    "clip": lambda o: o.add(et.optim.clip_by_global_norm(0.05), et.optim.centralize()),
    "accumulate": lambda o: o.add(et.optim.accumulate(3)),
    "ema": lambda o: o.add(et.optim.ema(0.9)),
    "groups": lambda o: o.group("*/bias", lr=et.optim.constant(0.5)) or o.group("hidden/*", lr=0.0, weight_decay=0),
    "freeze": lambda o: o.add(et.optim.freeze("hidden/*")),
}


@pytest.mark.filterwarnings("ignore:function .step. was traced")
@pytest.mark.parametrize("name", EXTRAS)
def test_transforms_and_groups(name):
    import pickle

    def parts():
        model, optimizer = Net(), et.optim.AdamW(lr=0.02)
        EXTRAS[name](optimizer)
        return model, optimizer

    def step(model, optimizer):
        slopes = et.gradient(lambda m: mse(m(X), Y))(model)
        optimizer.update(model, slopes)

    staged = et.function(step, donate=("model", "optimizer"))
    plain, start = Net(), bits(Net())
    own = et.optim.AdamW(lr=0.02)
    eager, other, third = parts(), parts(), parts()
    for i in range(7):
        step(*eager)
        step(plain, own)
        staged(*other)
        step(*third)
        third = (third[0], copy.copy(third[1])) if i % 2 else pickle.loads(pickle.dumps(third))
    assert bits(other[0]) == bits(eager[0]) == bits(third[0])
    assert bits(eager[0]) != start and (name == "ema" or bits(eager[0]) != bits(plain))
    assert {k: v.tolist() for k, v in other[1].state().items()} == {k: v.tolist() for k, v in eager[1].state().items()}
    if name in ("groups", "freeze"):
        assert eager[0].hidden.weight.tolist() == Net().hidden.weight.tolist()
    if name == "ema":
        assert bits(eager[1].averaged(eager[0])) != bits(eager[0])
    # Another optimiser of these options shares the graphs; one without them does not.
    count = staged.trace_count()
    fourth = parts()
    staged(*fourth)
    assert staged.trace_count() == count
    staged(Net(), et.optim.AdamW(lr=0.02))
    assert staged.trace_count() == count + 1


def test_transforms_that_are_none():
    optimizer = et.optim.SGD(lr=0.1)
    with pytest.raises(et.InvalidArgumentError, match="add: a float is no transform"):
        optimizer.add(1.0)
    with pytest.raises(et.InvalidArgumentError, match="group: lr is a str"):
        optimizer.group("*", lr="fast")
    optimizer.group("nothing/*", lr=0.5)
    with pytest.raises(et.InvalidArgumentError, match="nothing"):
        optimizer.update(et.nn.Dense(3, 1), et.nn.Dense(3, 1))


def test_averages_of_a_model():
    model, optimizer = et.nn.Dense(3, 1), et.optim.ASGD(lr=0.01)
    et.nn.fit(model, optimizer, loader(), mse, epochs=2)
    averaged = optimizer.averaged(model, "average")
    assert type(averaged) is et.nn.Dense and averaged.weight.shape == (3, 1)
    with pytest.raises(et.InvalidArgumentError, match="no state 'ema'"):
        optimizer.averaged(model)


@pytest.mark.parametrize("mode", ["eager", "staged", "lazy"])
@pytest.mark.parametrize("at", ["batch_start", "inference_end", "update_start", "batch_end"])
def test_a_run_that_a_callback_ends_resumes_with_all_batches(at, mode):
    def make():
        with et.SeedScope(1):
            model = et.nn.Sequential(et.nn.Dense(3, 4), et.nn.Dropout(0.5), et.nn.Dense(4, 1))
        et.set_seed(5)
        return model, et.optim.Adam(lr=0.1), et.data.Loader(X, Y, batch=12, seed=1)

    calls = []

    def stop(event, state):
        if event == at:
            calls.append(event)
            return "fit" if len(calls) == 4 else None

    expected = make()
    et.nn.fit(*expected, mse, epochs=2, mode=mode)
    model, optimizer, data = make()
    assert et.nn.fit(model, optimizer, data, mse, epochs=2, mode=mode, callbacks=[stop]).was_cancelled
    assert optimizer.updates == (4 if at == "batch_end" else 3)
    et.nn.fit(model, optimizer, data, mse, epochs=2, mode=mode)
    assert optimizer.updates == 8 and bits(model) == bits(expected[0])


def test_averages_of_a_restored_optimizer(tmp_path):
    import pickle

    def make():
        with et.SeedScope(1):
            optimizer = et.optim.SGD(lr=0.1)
            optimizer.add(et.optim.ema(0.9))
            return et.nn.Dense(3, 1), optimizer, loader()

    model, optimizer, data = make()
    et.nn.fit(model, optimizer, data, mse)
    expected = bits(optimizer.averaged(model))
    et.io.save_checkpoint(tmp_path / "run", model, optimizer, data)
    other, again, rest = make()
    et.io.load_checkpoint(tmp_path / "run", other, again, rest)
    assert bits(again.averaged(other)) == expected != bits(other)
    assert bits(pickle.loads(pickle.dumps(optimizer)).averaged(model)) == expected
    assert bits(copy.deepcopy(again).averaged(other)) == expected
    fresh = make()[1]
    with pytest.raises(et.InvalidArgumentError, match="made by the first update"):
        fresh.averaged(model)


def test_an_update_of_variables_names_the_path():
    class Model(et.Module):
        def __init__(self):
            self.w = et.Variable(et.ones(2))

    model = Model()
    slopes = et.gradient(lambda m: et.sum(m.w * m.w))(model)
    with pytest.raises(et.InvalidArgumentError, match="the model has a Variable at 'w', but optimizers move tensors"):
        et.optim.SGD(lr=0.1).update(model, slopes)
