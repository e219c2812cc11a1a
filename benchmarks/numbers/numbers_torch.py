#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The thermal program (programs/thermal.h) in PyTorch eager: numbers_torch.py PATH/numbers_bench

Takes parameters, value, derivatives and time from `numbers_bench --json thermal`, computes the same
from the same parameters, and prints how many times as long it takes.
"""
import json
import math
import statistics
import subprocess
import sys
import time

import torch

STEPS, STEP, WANTED = 20, 60.0, 300.0
ROUNDS, ROUND_SECONDS = 7, 0.05


class Part:
    """A struct of numbers, in the order of the fields in programs/thermal.h."""

    def __init__(self, names, numbers):
        for name in names.split():
            setattr(self, name, next(numbers))


def house_of(numbers):
    numbers = iter(numbers)
    return (
        Part("length radius wall conductivity", numbers),
        Part("area thickness density heat temperature", numbers),
        Part("flow density heat temperature", numbers),
        Part("volume loss temperature", numbers),
        Part("temperature film", numbers),
    )


def mix(water, tank):
    share = water.flow * STEP / tank.volume
    warm = tank.temperature
    tank.temperature = warm + share * (water.temperature - warm)
    water.temperature = warm


def cool_tank(tank, water, room):
    capacity = tank.volume * water.density * water.heat
    lost = tank.loss * (tank.temperature - room.temperature)
    tank.temperature = tank.temperature - lost * STEP / capacity


def capacity_of(slab):
    return slab.area * slab.thickness * slab.density * slab.heat


def heat_slab(water, tube, slab):
    wall = torch.log((tube.radius + tube.wall) / tube.radius)
    conductance = 2 * math.pi * tube.conductivity * tube.length / wall
    carried = water.flow * water.density * water.heat
    given = 1.0 - torch.exp(-conductance / carried)
    drop = given * (water.temperature - slab.temperature)
    water.temperature = water.temperature - drop
    slab.temperature = slab.temperature + carried * drop * STEP / capacity_of(slab)


def cool_slab(slab, room):
    heat = room.film * slab.area * (slab.temperature - room.temperature)
    slab.temperature = slab.temperature - heat * STEP / capacity_of(slab)


def thermal(numbers):
    tube, slab, water, tank, room = house_of(numbers)
    for _ in range(STEPS):
        mix(water, tank)
        cool_tank(tank, water, room)
        heat_slab(water, tube, slab)
        cool_slab(slab, room)
    return torch.abs(slab.temperature - WANTED)


def value_with_gradient(parameters):
    numbers = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in parameters]
    value = thermal(numbers)
    return value, torch.autograd.grad(value, numbers)


def median_seconds(fn):
    """Median over rounds of at least ROUND_SECONDS, as numbers_bench takes it."""
    times, took = 1, 0.0
    samples = []
    while len(samples) < ROUNDS:
        start = time.perf_counter()
        for _ in range(times):
            fn()
        took = time.perf_counter() - start
        if took < ROUND_SECONDS:
            times *= 2
        else:
            samples.append(took / times)
    return statistics.median(samples)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    answer = subprocess.run([sys.argv[1], "--json", "thermal"], check=True, capture_output=True)
    row = json.loads(answer.stdout)
    value, derivatives = value_with_gradient(row["parameters"])
    largest = max(abs(d) for d in row["derivatives"])
    pairs = zip(row["derivatives"], derivatives, strict=True)
    off = max(abs(d - t.item()) for d, t in pairs) / largest
    if abs(value.item() - row["value"]) > 1e-8 * abs(row["value"]) or not off <= 1e-8:
        sys.exit(f"value {value.item()} for {row['value']}, derivatives off by {off}")
    with torch.no_grad():
        plain = [torch.tensor(x, dtype=torch.float64) for x in row["parameters"]]
        primal = median_seconds(lambda: thermal(plain))
    seconds = median_seconds(lambda: value_with_gradient(row["parameters"]))
    ours = row["gradient"]["seconds"]
    print(f"thermal, value {row['value']:.6g}, derivatives equal within {off:.1g}")
    print(f"PyTorch {torch.__version__}, eager, one thread: {seconds * 1e6:.4g} us for value and")
    print(f"gradient, {primal * 1e6:.4g} us for the value alone")
    print(f"Etude, {row['compiler']}: {ours * 1e6:.4g} us for value and gradient")
    print(f"PyTorch / Etude: {seconds / ours:.4g}")


if __name__ == "__main__":
    main()
