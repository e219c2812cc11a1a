# SPDX-License-Identifier: Apache-2.0
"""Runs of the programs in examples/, each in a folder of its own."""
import os
import re
import struct
import subprocess
import tempfile
import unittest

from short_images import shorten


class ShortRuns(unittest.TestCase):
    programs = None  # the folder of the programs

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_program(self, name, *args, **environment):
        done = subprocess.run([os.path.join(self.programs, name), *map(str, args)], cwd=self.folder, text=True,
                              capture_output=True, check=False, env=dict(os.environ, **environment))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def run_on_images(self, name, *args, train=2560, test=64):
        """The same on the first images of Fashion-MNIST."""
        images = os.path.join(self.folder, "fashion-mnist")
        os.mkdir(images)
        for part, count in (("train", train), ("t10k", test)):
            shorten(part + "-images-idx3-ubyte", count, images)
            shorten(part + "-labels-idx1-ubyte", count, images)
        return self.run_program(name, *args, ETUDE_DATA=self.folder)

    def number(self, pattern, text):
        found = re.search(pattern, text)
        self.assertIsNotNone(found, text)
        return float(found[1])

    def numbers(self, pattern, text):
        found = re.search(pattern, text)
        self.assertIsNotNone(found, text)
        return [float(x) for x in found.groups()]

    def assert_picture(self, name, width, height):
        with open(os.path.join(self.folder, name), "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", head[16:]), (width, height))

    def assert_curves(self, name, count):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            self.assertEqual(file.read().count("<polyline"), count)
