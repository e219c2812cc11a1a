# SPDX-License-Identifier: Apache-2.0
"""`etude kinds` lists and shows kinds; rows have the parameters of the headers: etude_kinds_test.py PATH_OF_ETUDE."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import kind_headers  # noqa: E402

PROGRAM = sys.argv.pop(1)
# Defaults of C++ that etude writes otherwise.
SAME = {"{}": ("none", "[]"), "constant(0.25)": ("nn.constant(value=0.25)",),
        "kMixedBFloat16": ("nn.PrecisionPolicy(compute=bfloat16)",)}
# Parameters that a row names otherwise: the layers of a template are a list.
OTHER_NAMES = {("nn.Sequential", "layer"): "layers"}


def run(*args):
    return subprocess.run([PROGRAM, "kinds", *args], capture_output=True, text=True, timeout=60, check=False)


def is_same(cpp, shown):
    """Whether a default in a header is the one that the table shows."""
    try:
        return float(cpp) == float(shown)
    except ValueError:
        return shown == cpp or shown in SAME.get(cpp, ())


class KindsTest(unittest.TestCase):
    def test_list(self):
        names = run("--names").stdout.split()
        self.assertEqual(names, sorted(names))
        self.assertIn("nn.Dense", names)
        optimizers = run("--group", "optimizer", "--names").stdout.split()
        self.assertIn("optim.SGD", optimizers)
        self.assertNotIn("nn.Dense", optimizers)
        wrong = run("--group", "layers")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("there is no group 'layers'", wrong.stderr)

    def test_show(self):
        shown = run("optim.SGD").stdout
        self.assertIn("optim.SGD(*, lr: number or schedule = 0.01, momentum: float = 0.0", shown)
        self.assertIn("momentum: float = 0.0, in [0, 1)\n", shown)
        self.assertIn("decay: float = 0.0, at least 0: lr / (1 + decay * updates done)", shown)
        wrong = run("optim.SDG")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("there is no kind 'optim.SDG'. Similar: optim.SGD", wrong.stderr)

    def test_parameters_are_those_of_the_headers(self):
        declared, structs = kind_headers.read()
        rows = {kind["name"]: kind for kind in json.loads(run("--json").stdout)}
        self.assertGreater(len(rows), 200)
        compared, seen = 0, set()
        for each in declared:
            row = rows.get(each.name)
            if row is None or each.name in seen:
                continue
            seen.add(each.name)
            with self.subTest(each.name):
                self.assertEqual(row["group"], each.group)
                self.assertEqual(row["doc"], each.doc)
                positional = row["parameters"][:row["positional"]]
                wanted = [] if each.group == "activation" else each.parameters
                self.assertEqual(len(positional), len(wanted))
                for parameter, (_, name, _) in zip(positional, wanted):
                    # A constructor calls a parameter `given` if a field has its name, which is that of the row.
                    self.assertIn(OTHER_NAMES.get((each.name, name), name), (parameter["name"], "given"))
                for parameter, (_, name, default) in zip(positional, wanted):
                    shown = parameter.get("default")
                    self.assertEqual(shown is None, default is None, name)
                    self.assertTrue(shown is None or is_same(default, shown), f"{name}: {shown}, but {default} in C++")
                options = [parameter["name"] for parameter in row["parameters"][row["positional"]:]]
                fields = [field for field in structs.get(each.options, {}) if field]
                self.assertEqual(options, fields)
                compared += 1
        self.assertGreater(compared, 190)


if __name__ == "__main__":
    unittest.main()
