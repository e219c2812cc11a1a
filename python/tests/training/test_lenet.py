# SPDX-License-Identifier: Apache-2.0
"""The program that trains LeNet on Fashion-MNIST."""
import os
import subprocess
import sys

import pytest

DATA = [
    os.path.join(os.environ.get("ETUDE_DATA", ""), "fashion-mnist"),
    "/usr/share/dataset-fashion-mnist",
    "/usr/share/datasets/fashion-mnist",
]


@pytest.mark.skipif(not any(os.path.isdir(d) for d in DATA), reason="Fashion-MNIST is not installed")
def test_one_epoch_of_lenet():
    done = subprocess.run(
        [sys.executable, "-m", "etude.examples.lenet", "1"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy = float(done.stdout.rpartition("accuracy ")[2].split()[0])
    assert accuracy > 0.75
