# SPDX-License-Identifier: Apache-2.0
"""Random draws, keys, generators."""
import copy
import pickle

import pytest

import etude as et
from etude import random


def test_seeds_repeat():
    et.set_seed(3)
    a = random.normal([4]).tolist()
    assert random.normal([4]).tolist() != a
    et.set_seed(3)
    assert random.normal([4]).tolist() == a
    with et.SeedScope(3):
        b = random.uniform([3]).tolist()
    with et.SeedScope(et.Generator(3)):
        assert random.uniform([3]).tolist() == b


def test_keys_are_values():
    key = random.key(7)
    assert key.dtype == et.uint64 and key.shape == (2,)
    assert random.normal([3], key=key).tolist() == random.normal([3], key=key).tolist()
    assert random.split(key, 3).shape == (3, 2)
    assert random.fold_in(key, 1).tolist() != random.fold_in(key, 2).tolist()


def test_draws():
    assert random.uniform([2, 3], low=2.0, high=3.0).shape == (2, 3)
    assert all(2 <= v < 3 for v in random.uniform([50], low=2.0, high=3.0).tolist())
    assert random.normal((), dtype=et.float64).dtype == et.float64
    assert max(abs(v) for v in random.truncated_normal(100).tolist()) <= 2
    draws = random.randint([100], 2, 5).tolist()
    assert set(draws) == {2, 3, 4}
    assert random.bernoulli(0.5, [10]).dtype == et.bool
    assert sorted(random.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(random.shuffle([3, 1, 2]).tolist()) == [1, 2, 3]
    assert random.choice([5, 6], [4]).shape == (4,)
    assert random.categorical([0.0, 100.0], [3]).tolist() == [1, 1, 1]
    with pytest.raises(ValueError):
        random.randint([2], 5, 2)


def test_generators_are_values():
    g = et.Generator(5, stream=2)
    h = copy.copy(g)
    assert g == h and g.next_key().tolist() == h.next_key().tolist()
    assert pickle.loads(pickle.dumps(g)) == g and repr(g) == "Generator(seed=5, stream=2, position=1)"
