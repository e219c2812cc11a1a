# SPDX-License-Identifier: Apache-2.0
"""Runs lenet and quickstart on a few images, as a user would: python3 examples_test.py LENET QUICKSTART."""
import glob
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from short_images import shorten

QUICKSTART = os.path.abspath(sys.argv.pop())
LENET = os.path.abspath(sys.argv.pop())
TRAIN, TEST = 2560, 500  # 20 steps of 128
STEPS = TRAIN // 128


def entries(path):
    """{name: (description, bytes)} of the safetensors files of a checkpoint."""
    out = {}
    for shard in sorted(glob.glob(os.path.join(path, "shard-*.safetensors"))):
        with open(shard, "rb") as file:
            raw = file.read()
        length = struct.unpack("<Q", raw[:8])[0]
        header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
        header.pop("__metadata__", None)
        out.update({name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for name, e in header.items()})
    return out


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        images = os.path.join(cls.folder.name, "fashion-mnist")
        os.mkdir(images)
        for part, count in (("train", TRAIN), ("t10k", TEST)):
            shorten(part + "-images-idx3-ubyte", count, images)
            shorten(part + "-labels-idx1-ubyte", count, images)
        cls.environment = dict(os.environ, ETUDE_DATA=cls.folder.name)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, program, *args, **streams):
        return subprocess.Popen([program, *args], env=self.environment, cwd=self.folder.name, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams)

    def run_program(self, program, *args):
        process = self.start(program, *args)
        self.addCleanup(process.kill)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def train(self, name, *args):
        """The checkpoint of a run that has to succeed."""
        code, out, err = self.run_program(LENET, "--save", self.path(name), *args)
        self.assertEqual(code, 0, out + err)
        return entries(self.path(name)), out, err

    def test_quickstart(self):
        code, out, err = self.run_program(QUICKSTART)
        self.assertEqual(code, 0, err)
        accuracy = re.fullmatch(r"test accuracy (0\.\d{4})\n", out)
        self.assertTrue(accuracy, out)
        self.assertGreater(float(accuracy[1]), 0.7)
        self.assertEqual(len(re.findall(r"^epoch +\d+/10  loss \d", err, re.M)), 10, err)

    def test_interrupted_and_resumed_equals_uninterrupted(self):
        whole, out, _ = self.train("whole", "--epochs", "4")
        self.assertIn("test accuracy 0.", out)
        process = self.start(LENET, "--epochs", "4", "--save", self.path("first"))
        self.addCleanup(process.kill)
        first_epoch = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertIn("epoch 1/4", first_epoch)
        self.assertEqual(process.returncode, 0, err)
        self.assertRegex(out, "stopped; go on with --resume .*first\n")
        position = struct.unpack("<2q", entries(self.path("first"))["data/.position"][2])
        self.assertTrue((1, 0) < position < (4, 0), position)
        second, out, _ = self.train("second", "--epochs", "4", "--resume", self.path("first"), "--seed", "1")
        self.assertIn("test accuracy 0.", out)
        self.assertEqual(sorted(whole), sorted(second))
        for name, value in whole.items():
            self.assertEqual(value, second[name], name)

    def test_steps_stop_and_resume_at_any_place(self):
        whole, _, _ = self.train("whole2", "--epochs", "2")
        for steps in (1, STEPS - 1, STEPS, STEPS + 1):
            _, out, _ = self.train("part", "--epochs", "2", "--steps", str(steps))
            self.assertIn("stopped; go on", out)
            resumed, _, _ = self.train("rest", "--epochs", "2", "--resume", self.path("part"))
            self.assertEqual(whole, resumed, steps)

    def test_modes_give_the_same_bits_and_resume_each_other(self):
        whole, _, _ = self.train("eager", "--epochs", "2")
        staged, _, _ = self.train("staged", "--epochs", "2", "--mode", "staged")
        self.assertEqual(whole, staged)
        for first, second in (("eager", "staged"), ("staged", "eager"), ("staged", "staged")):
            self.train("half", "--epochs", "2", "--steps", str(STEPS - 1), "--mode", first)
            resumed, _, _ = self.train("other_half", "--epochs", "2", "--mode", second, "--resume", self.path("half"))
            self.assertEqual(whole, resumed, (first, second))

    def test_going_on_otherwise_is_refused(self):
        self.train("begun", "--epochs", "2", "--steps", "3")
        for args, text in ((("--epochs", "3"), "epochs is 3, but the checkpoint '%s' was made in a run of 2"),
                           (("--epochs", "2", "--seed", "7"), "%s: the checkpoint was made with 1, but here the seed "
                                                              "of the data is 7")):
            code, _, err = self.run_program(LENET, "--resume", self.path("begun"), "--save", self.path("on"), *args)
            self.assertEqual(code, 1, err)
            self.assertIn(text % self.path("begun"), err)
            self.assertRegex(err, r"\n  at examples/lenet\.cc:\d+")
            self.assertFalse(os.path.exists(self.path("on")))

    def test_a_profile_of_training_shows_lines_of_the_program(self):
        self.environment = dict(self.environment, ETUDE_PROFILE=self.path("trace"))
        self.train("profiled", "--epochs", "1")
        with open(self.path("trace")) as file:
            events = json.load(file)["traceEvents"]
        lines = {event["args"]["line"] for event in events}
        self.assertGreaterEqual(len(lines), 4, lines)  # of the model made and called, of fit and evaluate
        self.assertEqual([line for line in lines if not re.fullmatch(r"examples/lenet\.(cc|h):\d+", line)], [])

    def test_threads_do_not_matter_and_seeds_do(self):
        one, _, _ = self.train("one", "--epochs", "1", "--threads", "1")
        three, _, _ = self.train("three", "--epochs", "1", "--threads", "3")
        self.assertEqual(one, three)
        other, _, _ = self.train("other", "--epochs", "1", "--seed", "2")
        self.assertNotEqual(one["model/fc3/weight"], other["model/fc3/weight"])

    def test_a_log_is_plain(self):
        _, out, err = self.train("log", "--epochs", "2")
        for text in (out, err):
            self.assertNotIn("\r", text)
            self.assertNotIn("\x1b", text)
        self.assertEqual(len(err.splitlines()), 2, err)
        self.assertIn("61,706", out)
        self.assertIn("9 Boot", out)

    def test_a_terminal_gets_a_bar(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([LENET, "--epochs", "1", "--save", self.path("bar")], env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=theirs)
        self.addCleanup(process.kill)
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 4096):
                text += chunk
        except OSError:  # how the end of a terminal shows
            pass
        os.close(ours)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn("━".encode(), text)
        self.assertIn(b"100%", text)
        self.assertTrue(text.endswith(b" s\r\n"), text[-200:])

    def program(self, name):
        """The lines that a program of plain C++ prints."""
        code, out, err = self.run_program(os.path.join(os.path.dirname(QUICKSTART), name))
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def test_derivatives(self):
        lines = self.program("derivatives")
        self.assertEqual(lines[0], "slope of x^5 at 3: 405")
        self.assertIn("-2 -28 28 4 0 is the gradient of the chain", lines[2])
        self.assertEqual(lines[3:], ["fitted line: y = 2.000 x + 1.000", "second derivative of x^3 at 2: 12"])

    def test_custom_derivative(self):
        lines = self.program("custom_derivative")
        self.assertEqual(lines[0].split("slopes ")[1], lines[1].split("differences")[1].strip())
        self.assertEqual(lines[3], "clipped slope of exp(3x) at 2: 1")

    def test_filter(self):
        taps, curve = self.program("filter")
        self.assertIn("taps 0.100 -0.400 1.000 0.300 -0.200,", taps)
        self.assertLess(float(taps.split()[-1]), 1e-12)
        self.assertLess(float(curve.split()[-1]), 0.08)  # the noise is 0.14

    def test_pendulum(self):
        self.assertIn("length 1.300 m, friction 0.250", self.program("pendulum")[-1])

    def test_rotation(self):
        lines = self.program("rotation")
        self.assertLess(float(lines[3].split()[-1]), 1e-12)
        self.assertIn("rotation (0.5000 0.5000 -0.5000 0.5000)", lines[4])

    def test_spline(self):
        pooled, own, *points = self.program("spline")
        self.assertEqual(len(points), 16)
        self.assertRegex(pooled, r"pooled: \d+ steps, loss 0\.0[01]")
        before, after = re.findall(r"0\.\d+", own)
        self.assertLess(float(after), 0.3 * float(before))

    def test_mistakes_are_told(self):
        for args, fragment in ((("--resume", self.path("none")), "none"), (("--epochs", "x"), "--epochs")):
            code, _, err = self.run_program(LENET, *args)
            self.assertNotEqual(code, 0)
            self.assertGreater(code, 0, "ended by a signal")
            self.assertIn(fragment, err)


if __name__ == "__main__":
    unittest.main()
