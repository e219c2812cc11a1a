# SPDX-License-Identifier: Apache-2.0
"""Short runs of the programs in examples/TOPIC/: python3 topics_test.py FOLDER_OF_PROGRAMS."""
import os
import re
import sys
import unittest

from short_runs import ShortRuns


def escape_steps(size, most, start):
    """Mean steps of z -> z z + c inside of the circle of radius 2, in double, and the share that never leaves."""
    steps, stayed = 0, 0
    for z, c in start(size):
        count = 0
        while count < most and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            count += 1
        steps += count
        stayed += count == most
    return steps / size ** 2, stayed / size ** 2


def pixels(size, left, right):
    half = (right - left) / 2
    for y in range(size):
        for x in range(size):
            yield complex(left + (right - left) * x / (size - 1), half - 2 * half * y / (size - 1))


def julia(size):
    return ((z, complex(-0.8, 0.156)) for z in pixels(size, -1.6, 1.6))


def mandelbrot(size):
    return ((0j, c) for c in pixels(size, -2.0, 0.6))


class TopicsTest(ShortRuns):
    programs = os.path.abspath(sys.argv.pop())

    def test_julia(self):  # spec: EX25
        out = self.run_program("julia", 48)
        for name, start in ("julia", julia), ("mandelbrot", mandelbrot):
            steps, stayed = escape_steps(48, 200, start)
            # Orbits near the edge hang on the last digit, which float32 has elsewhere.
            self.assertAlmostEqual(self.number(name + r" +mean steps ([\d.]+)", out) / steps, 1, delta=0.02)
            self.assertAlmostEqual(self.number(name + r".*never left ([\d.]+)", out), stayed, delta=0.005)
            self.assert_picture(name + ".png", 48, 48)

    def test_shallow_water(self):  # spec: EX23
        self.assertIn("all gradients agree", self.run_program("shallow_water_forms"))
        out = self.run_program("shallow_water", 24, 32, 40)
        self.assertLess(self.number(r"([\d.]+) of what it was", out), 0.2)
        self.assert_picture("water.png", 4 * 25 + 1, 26)

    def test_vae(self):  # spec: EX14
        out = self.run_on_images("vae", 2)
        costs = [float(x) for x in re.findall(r"loss ([\d.]+)", out)]
        self.assertEqual(len(costs), 3)
        self.assertLess(costs[1], costs[0])
        self.assertLess(costs[2], 400)  # 784 coins are 543
        self.assert_picture("vae.png", 16 * 29 + 1, 3 * 29 + 1)

    def test_gan(self):  # spec: EX15
        out = self.run_on_images("gan", 600)
        self.assertEqual(len(re.findall(r"^step +\d+  critic [\d.]+  artist [\d.]+$", out, re.M)), 6)
        self.assertLess(self.number(r"mean image: ([\d.]+) away", out), 0.2)  # grey is .28 away
        self.assert_picture("gan.png", 16 * 29 + 1, 6 * 29 + 1)

    def test_deep_q(self):  # spec: EX20
        self.assertGreater(self.number(r"episodes: ([\d.]+) of 200", self.run_program("deep_q", 4000)), 100)

    def test_cart_pole(self):  # spec: EX19
        out = self.run_program("cart_pole", 40)
        self.assertLess(self.number(r"update +0 +mean length ([\d.]+)", out), 40)
        self.assertGreater(self.number(r"stand ([\d.]+) of", out), 80)

    def test_growing(self):  # spec: EX26
        out = self.run_program("growing", 21)
        begin = self.number(r"update +0 +mean squared error ([\d.]+)", out)
        self.assertLess(self.number(r"error ([\d.]+) after", out), 0.8 * begin)
        self.assert_picture("growing.png", 8 * 41 + 1, 41 + 1)

    def test_regression(self):  # spec: EX29
        out = self.run_program("regression", 40)
        self.assertIn("3,009", out)
        self.assertGreater(self.number(r"R2 ([\d.]+)", out), 0.85)  # .957 would be all but the noise
        self.assert_curves("regression.svg", 2)

    def test_spline(self):  # spec: EX32
        out = self.run_program("spline")
        pooled = self.number(r"pooled: \d+ steps, loss ([\d.]+)", out)
        before, after = map(float, re.search(r"one user: \d+ steps, loss ([\d.]+), then ([\d.]+)", out).groups())
        self.assertLess(pooled, 0.1)
        self.assertLess(after, 0.5 * before)

    def test_plain_numbers(self):
        out = self.run_program("derivatives")
        self.assertIn("slope of x^5 at 3: 405\n", out)
        self.assertIn("x sin(y) at (2, 1): 1.6829, its slope by y 1.0806\n", out)
        self.assertIn("second derivative of x^3 at 2: 12\n", out)
        out = self.run_program("custom_derivative")
        by_rule = re.search(r"its slopes ([\d.]+) and ([\d.]+)", out).groups()
        self.assertIn("by differences       %s and %s\n" % by_rule, out)
        self.assertIn("clipped slope of exp(3x) at 2: 1\n", out)
        out = self.run_program("pendulum")
        self.assertAlmostEqual(self.number(r"length ([\d.]+) m", out), 1.3, delta=0.01)
        self.assertAlmostEqual(self.number(r"friction ([\d.]+),", out), 0.25, delta=0.01)
        self.assertLess(abs(self.number(r"its length less 1: (\S+)\n", self.run_program("rotation"))), 1e-12)


if __name__ == "__main__":
    unittest.main()
