# SPDX-License-Identifier: Apache-2.0
"""Runs the program `etude` on safetensors files: python3 etude_program_test.py PATH_OF_ETUDE."""
import json
import os
import struct
import subprocess
import sys
import unittest

from program_case import ProgramCase
from tensor_files import read_file, write_file

PROGRAM = sys.argv.pop(1)


class EtudeTest(ProgramCase):
    def run_etude(self, *args):
        return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False)

    def test_version(self):
        shown = self.run_etude("--version")
        self.assertEqual(shown.returncode, 0)
        self.assertRegex(shown.stdout, r"^etude \d+\.\d+\.\d+\n$")

    def test_output_that_is_lost_is_an_error(self):
        one, two = self.path("one"), self.path("two")
        write_file(one, {"x": ("F32", [1], [1.0])})
        write_file(two, {"x": ("F32", [1], [2.0])})
        for words, status in ((["--version"], 1), (["--help"], 1), (["convert", "--help"], 1), (["ops", "list"], 1),
                              (["kinds", "--json"], 1), (["inspect", one], 1), (["diff", one, two], 2), (["diff", one, one], 0)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, words)
            self.assertEqual(done.stderr, "etude: standard output: No space left on device\n" if status else "", words)

    def test_a_result_has_a_form_by_its_extension(self):
        graph = self.write("g.txt", "graph f(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n")
        data, text = self.path("a.etude"), self.path("a.txt")
        for words in ((graph, data), (data, text), (text, self.path("b.txt"), "--to", "binary")):
            self.assertEqual(self.run_etude("graph", "convert", *words).returncode, 0)
        with open(graph, encoding="utf-8") as a, open(text, encoding="utf-8") as b:
            self.assertEqual(a.read(), b.read())
        with open(data, "rb") as a, open(self.path("b.txt"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        done = self.run_etude("run", self.folder, "--output", "a.json")
        self.assertEqual(done.stderr, "etude: --output is 'a.json', but results are written as FILE.npy or FILE.safetensors\n")

    def test_compile_needs_a_name_of_files(self):
        graph = self.write("g.txt", "graph f(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n")
        os.mkdir(self.path("taken.o"))
        for output, told in (("/dev/null", "'/dev/null' exists and is no regular file. Choose another name"),
                             (self.path("taken"), f"'{self.path('taken.o')}' exists and is no regular file. Choose another name"),
                             (self.path("none/a"), f"'{self.path('none')}' is no folder. Make it first")):
            done = self.run_etude("compile", graph, "-o", output)
            self.assertEqual((done.returncode, done.stderr), (1, f"etude: --output is '{output}', but {told}\n"))
        done = self.run_etude("compile", graph, "-o", self.folder + "/")
        self.assertIn("which has no name of a file. Name a model: ", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.txt", "taken.o"])

    def test_names_from_files_are_escaped(self):
        name = "a\x1b[31m\nb"
        one, two = self.path("one"), self.path("two")
        write_file(one, {name: ("F32", [1], [1.0])})
        write_file(two, {name: ("F32", [1], [2.0]), name + "2": ("F32", [1], [2.0])})
        graph = self.write("g.txt", 'graph "a\\x1b[31m"("x\\x1b": float32[2]) -> (float32[2])\n  %1 = tanh("x\\x1b")\n  return %1\n')
        for words in (["inspect", one], ["diff", one, two], ["graph", "show", graph], ["graph", "plan", graph], ["inspect", graph]):
            shown = self.run_etude(*words).stdout
            self.assertNotIn("\x1b", shown, words)
            self.assertIn("a\\x1b[31m", shown, words)
        self.assertIn("a\\x1b[31m\\nb: ", self.run_etude("diff", one, two).stdout)

    def test_numbers_of_options_are_finite(self):
        one = self.path("one")
        write_file(one, {"x": ("F32", [1], [1.0])})
        for option in ("--rtol", "--atol"):
            for number in ("nan", "inf", "-1", "1e999", "two"):
                done = self.run_etude("diff", option, number, one, one)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{option}: '{number}' is no finite number of 0 or more, such as 1e-6\n", done.stderr)
            self.assertEqual(self.run_etude("diff", option, "1e-3", one, one).returncode, 0)
        for words, option, least in ((["compile", one, "-o", "a"], "--size", 1), (["compile", one, "-o", "a"], "--graph", 1),
                                     (["convert", one, "a.txt"], "--max-loop-steps", 0), (["run", one], "--graph", 1)):
            for number in ("-1", "nan", "9223372036854775808"):
                self.assertIn(f"{option}: '{number}' is no whole number from {least} to 9223372036854775807\n",
                              self.run_etude(*words, option, number).stderr)

    def test_list_and_show(self):
        names = self.run_etude("ops", "list", "--names").stdout.split()
        self.assertIn("multiply", names)
        self.assertEqual(len(names), len(set(names)))
        shown = self.run_etude("ops", "show", "multiply")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("multiply(x1, x2) -> y", shown.stdout)
        self.assertIn("x1: x2", shown.stdout)  # what the gradient keeps
        self.assertIn("y = multiply(x1, x2)", shown.stdout)

    def test_every_record_can_be_shown(self):
        names = self.run_etude("ops", "list", "--names").stdout.split()
        shown = self.run_etude("ops", "show", *names)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for name in names:
            self.assertRegex(shown.stdout, r"(?m)^(\w+ )?" + name.replace(".", r"\.") + r"\(")

    def test_unknown_op_names_the_nearest(self):
        shown = self.run_etude("ops", "show", "multiplx")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("multiply", shown.stderr)
        self.assertIn("Nearest: nn.relu, ", self.run_etude("ops", "show", "nn.rleu").stderr)

    def test_run_with_gradient(self):
        write_file(self.path("in"), {"x1": ("F32", [2], [2.0, 3.0]), "x2": ("F32", [2], [5.0, 7.0])})
        done = self.run_etude("ops", "run", "multiply", "--inputs", self.path("in"), "--output", self.path("out"),
                              "--gradient")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_file(self.path("out")), {"y": [10.0, 21.0], "grad/x1": [5.0, 7.0], "grad/x2": [2.0, 3.0]})

    def test_run_with_cotangent_and_attributes(self):
        write_file(self.path("in"), {"value": ("F64", [], [2.0]), "ct/y": ("F64", [3], [1.0, 2.0, 4.0])})
        done = self.run_etude("ops", "run", "full", "--inputs", self.path("in"), "--output", self.path("out"),
                              "--attrs", '{"shape": [3]}', "--gradient")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_file(self.path("out")), {"y": [2.0, 2.0, 2.0], "grad/value": [7.0]})

    def test_attributes_are_checked(self):
        write_file(self.path("in"), {"value": ("F64", [], [2.0])})
        deep = "[" * 5000 + "]" * 5000
        for attrs, fragment in (('{"shape": "x"}', "full: attribute 'shape' is \"x\", but must be a list of integers"),
                                ('{"shap": [1]}', "full: there is no attribute 'shap'"),
                                ('{"shape": [2, -5]}', "full: shape [2,-5] has a negative size"),
                                ("{", "no JSON"), ('{"shape": [1], "shape": [2]}', "twice"),
                                ("{}", "full: attribute 'shape' is missing"), (deep, "nested deeper"),
                                ('{"shape": [1e999]}', "no JSON"), ('{"shape": [18446744073709551615]}', "64 bits")):
            done = self.run_etude("ops", "run", "full", "--inputs", self.path("in"), "--output", self.path("out"),
                                  "--attrs", attrs)
            self.assertEqual(done.returncode, 1, attrs[:40])
            self.assertIn(fragment, done.stderr, attrs[:40])
            self.assertNotIn("json.exception", done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))

    def test_operands_are_checked(self):
        write_file(self.path("in"), {"x1": ("F32", [2], [2.0, 3.0]), "y2": ("F32", [2], [5.0, 7.0])})
        done = self.run_etude("ops", "run", "multiply", "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("operand 'x2' is missing", done.stderr)
        write_file(self.path("in"), {"x": ("F32", [2], [2.0, 3.0]), "y2": ("F32", [2], [5.0, 7.0])})
        done = self.run_etude("ops", "run", "negative", "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertIn("no operand 'y2'", done.stderr)

    def test_a_misspelt_cotangent_is_refused(self):
        write_file(self.path("in"), {"x": ("F32", [2], [2.0, 3.0]), "ct/Y": ("F32", [2], [5.0, 7.0])})
        for flags in (["--gradient"], []):
            done = self.run_etude("ops", "run", "negative", "--inputs", self.path("in"), "--output",
                                  self.path("out"), *flags)
            self.assertEqual(done.returncode, 1)
            self.assertIn("negative: there is no result for the cotangent 'ct/Y'. Results are: y", done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))

    def test_unknown_commands_name_the_known_ones(self):
        for words, want in ((["bogus"], "etude: 'bogus' is no command. There are: ops, compile, convert, diff, graph, inspect, kinds, profile, run"),
                            ([], "etude: a command is missing. There are: ops, compile, convert, diff, graph, inspect, kinds, profile, run"),
                            (["ops", "bogus"], "etude ops: 'bogus' is no command. There are: list, show, run"),
                            (["graph", "shwo"], "etude graph: 'shwo' is no command. There are: show, diff, plan, convert, run"),
                            (["ops"], "etude ops: a command is missing. There are: list, show, run")):
            done = self.run_etude(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(want, done.stderr)
        self.assertEqual(self.run_etude("--help").returncode, 0)
        self.assertIn("--output", self.run_etude("ops", "run", "abs").stderr)

    def test_a_damaged_file_is_an_error(self):
        with open(self.path("in"), "wb") as file:
            file.write(b"\x10\0\0\0\0\0\0\0{\"x1\":")
        done = self.run_etude("ops", "run", "negative", "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("etude:", done.stderr)
        header = b'{"x":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}'
        with open(self.path("in"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
        done = self.run_etude("ops", "run", "negative", "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertIn("number overflow", done.stderr)
        self.assertNotIn("json.exception", done.stderr)

    def test_cases(self):
        write_file(self.path("all.safetensors"),
                   {"a/x1": ("F32", [2], [2.0, 3.0]), "a/x2": ("F32", [], [5.0]), "b/x1": ("F32", [2], [1.0, 2.0]),
                    "b/x2": ("I32", [2], [1, 2]), "3/x": ("F32", [1], [4.0])})
        cases = {"inputs": "all.safetensors",
                 "cases": [{"id": "a", "op": "multiply", "gradient": True}, {"id": "b", "op": "bitwise_and"}, 7,
                           {"op": "negative"}, {"op": 5}, {"op": "no_such_op"}]}
        with open(self.path("cases.json"), "w", encoding="utf-8") as file:
            json.dump(cases, file)
        done = self.run_etude("ops", "run", "--cases", self.path("cases.json"), "--output", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("4 of 6 cases failed", done.stderr)
        with open(self.path("results.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual([("error" in entry) for entry in report], [False, True, True, False, True, True])
        self.assertEqual(report[0]["results"], {"y": "float32[2]", "grad/x1": "float32[2]", "grad/x2": "float32[]"})
        self.assertEqual(report[1]["error"]["code"], "invalid argument")
        self.assertIn("operand 'x1' is float32", report[1]["error"]["message"])
        self.assertEqual(report[5]["error"]["code"], "not found")
        out = read_file(self.path("results.safetensors"))
        self.assertEqual(out, {"a/y": [10.0, 15.0], "a/grad/x1": [5.0, 5.0], "a/grad/x2": [5.0], "3/y": [-4.0]})
        cases["cases"] = [cases["cases"][0]]
        with open(self.path("cases.json"), "w", encoding="utf-8") as file:
            json.dump(cases, file)
        done = self.run_etude("ops", "run", "--cases", self.path("cases.json"), "--output", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
