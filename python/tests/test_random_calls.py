# SPDX-License-Identifier: Apache-2.0
"""100,000 random calls with values that do not fit: an exception each time, no crash, no internal
error. random_calls.py makes the calls."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import etude as et

PROGRAM = pathlib.Path(__file__).parent / "random_calls.py"


@pytest.mark.parametrize("seed", range(5))
def test_each_call_returns_or_raises(seed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", PROGRAM, str(seed), "20000"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.search(r"calls (\d+) fine (\d+)", done.stdout)
    assert found and int(found[1]) == 20000 and int(found[2]) > 500
    assert "internal:" not in done.stderr, done.stderr[-3000:]


def test_values_that_no_parameter_takes():
    with pytest.raises(et.InvalidArgumentError, match="the integer 1180591620717411303424 has more than 64 bits"):
        et.nn.Dense(2**70, 3)
    recursive: list = []
    recursive.append(recursive)
    with pytest.raises(et.InvalidArgumentError, match="nested more than 64 deep. Does it contain itself?"):
        et.nn.constant(recursive)
    with pytest.raises(UnicodeEncodeError):
        et.optim.constant("\ud800")
    with pytest.raises(et.InvalidArgumentError, match="operand 'y' is a scalar"):
        et.ones((2, 3)) @ 2.0
    x = et.ones((2, 3))
    with pytest.raises(et.InvalidArgumentError, match="operand 'y' is a scalar"):
        x @= 2.0
    with pytest.raises((et.Error, TypeError)):
        et.random.normal(et.ones((2, 3)))
    layer = et.tree.map(lambda leaf: "text", et.nn.Dense(2, 1))
    with pytest.raises((et.InvalidArgumentError, TypeError), match="a str"):
        layer(x)
    with pytest.raises(et.InvalidArgumentError, match="weight is a str, but must be a tensor"):
        et.io.save(layer, "nothing")
    with pytest.raises(et.InvalidArgumentError, match="is a str"):
        et.function(lambda m: 1.0)(layer)
