# SPDX-License-Identifier: Apache-2.0
"""A test of a program, with a folder of its own."""
import os
import pathlib
import tempfile
import unittest


class ProgramCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")
        return self.path(name)
