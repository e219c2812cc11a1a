# SPDX-License-Identifier: Apache-2.0
"""Runs `etude graph` on files: python3 etude_graph_test.py PATH_OF_ETUDE."""
import json
import os
import struct
import subprocess
import sys
import unittest
import unittest.mock

from program_case import ProgramCase
from tensor_files import read_file, write_file

PROGRAM = sys.argv.pop(1)

LAYER = """graph layer(x: float32[2], ^w: float32[2]) -> (float32[2])
  %2 = constant float32[17] hex {zeros}
  %3 = constant float32[] 0.5
  %4 = multiply(x, ^w)         # train.cc:41
  %5 = sum(%2, keepdims=true)  # train.cc:42
  %6 = add(%4, %5)             # train.cc:43
  %7 = add(%6, %3)
  return %7
""".format(zeros="00" * 68)

LINES = """graph lines(x: float32[400], w: float32[400]) -> (float32[400])
  %2 = multiply(x, w)              # model.cc:3
  %3 = tanh(%2)                    # model.cc:4
  %4 = sum(%3, keepdims=true)      # model.cc:5
  %5 = multiply(%3, %4)            # model.cc:6
  return %5
"""


class GraphTest(ProgramCase):
    def run_graph(self, *args):
        return subprocess.run([PROGRAM, "graph", *args], capture_output=True, text=True, timeout=60, check=False)

    def test_show(self):
        shown = self.run_graph("show", self.write("a", LAYER))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("%2 = constant float32[17] 0, 0, 0, ...\n", shown.stdout)
        self.assertIn("%4: float32[2] = multiply(x, ^w)", shown.stdout)
        self.assertIn("# train.cc:41\n", shown.stdout)

    def test_show_in_full_is_the_file(self):
        self.assertEqual(self.run_graph("show", self.write("a", LAYER), "--full").stdout, LAYER)

    def test_show_as_json_and_dot(self):
        path = self.write("a", LAYER)
        graph = json.loads(self.run_graph("show", path, "--json").stdout)["graphs"][0]
        self.assertEqual([node["op"] for node in graph["nodes"]], ["multiply", "sum", "add", "add"])
        self.assertTrue(self.run_graph("show", path, "--dot").stdout.startswith('digraph "layer" {'))
        both = self.run_graph("show", path, "--dot", "--json")
        self.assertNotEqual(both.returncode, 0)
        self.assertIn("excludes", both.stderr)

    def test_show_behind_the_passes(self):
        text = "graph f(x: float32[2]) -> (float32[2])\n  %1 = exp(x)\n  %2 = exp(x)\n  %3 = add(%1, %2)\n  return %3\n"
        shown = self.run_graph("show", self.write("a", text), "--passes", "--full")
        self.assertEqual(shown.stdout, "graph f(x: float32[2]) -> (float32[2])\n"
                                       "  %1 = internal.fused_elementwise(x, program={v1 = exp(x1); add(v1, v1)}, "
                                       "params=[])\n  return %1\n")

    def test_plan_with_the_lines_of_fused_calls(self):
        planned = self.run_graph("plan", self.write("a", LINES))
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertRegex(planned.stdout, r"      of multiply +# model.cc:3\n      of tanh +# model.cc:4\n")

    def test_plan_with_what_was_decided(self):
        planned = self.run_graph("plan", self.write("a", LINES), "--why")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("fuse_elementwise: 2 calls up to tanh (model.cc:4) are one sweep over "
                      "float32[400]: 2 functions, 2 operands\n", planned.stdout)
        self.assertIn("fuse_elementwise: tanh (model.cc:4) stays apart from multiply (model.cc:6): "
                      "1 others read its result, which must be in memory for them\n", planned.stdout)
        self.assertIn("clusters: sum (model.cc:5) is in no cluster: float32[400] is more than 64 elements",
                      planned.stdout)
        self.assertNotIn("fuse_elementwise:", self.run_graph("plan", self.write("a", LINES)).stdout)

    def test_plan_as_a_page(self):
        page = self.path("plan.html")
        planned = self.run_graph("plan", self.write("a", LINES), "--html", page)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for part in ("plan of lines", "2 calls in one sweep", "multiply model.cc:3",
                     "tanh model.cc:4", "1600 B", "result 0"):
            self.assertIn(part, text)
        self.assertEqual(text.count('class="fused"'), 1)
        self.assertNotIn("http", text.replace("http://www.w3.org/2000/svg", ""))

    def test_plan_with_what_each_pass_did(self):
        planned = self.run_graph("plan", self.write("a", LAYER), "--passes")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertRegex(planned.stdout, r"fold_constants +[0-9.]+  4 -> 3\n")
        self.assertRegex(planned.stdout, r"fuse_elementwise +[0-9.]+  3 -> 1\n")
        self.assertIn("plan of 'layer': 1 steps", planned.stdout)
        self.assertIn("fused_elementwise(x, w, constant0) {add(add(", planned.stdout)

    # An environment variable switches passes off; a misspelt name is told.
    def test_passes_are_switched_off_by_the_environment(self):
        path = self.write("a", LAYER)
        with unittest.mock.patch.dict(os.environ, {"ETUDE_PASSES_OFF": "fold_constants,merge_equal_nodes"}):
            planned = self.run_graph("plan", path, "--passes")
        self.assertRegex(planned.stdout, r"fold_constants +off\n")
        self.assertIn("plan of 'layer': 2 steps", planned.stdout)
        with unittest.mock.patch.dict(os.environ, {"ETUDE_PASSES_OFF": "fold"}):
            refused = self.run_graph("plan", path)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("ETUDE_PASSES_OFF: there is no pass or rule 'fold'. There are: fold_constants, ", refused.stderr)

    def test_a_wrong_file_shows_its_line(self):
        shown = self.run_graph("show", self.write("a", LAYER.replace("sum(%2", "sum(%9")))
        self.assertEqual(shown.returncode, 1)
        self.assertIn("a: line 5, column 12: there is no value %9 above", shown.stderr)
        self.assertIn("\n               ^\n", shown.stderr)
        self.assertEqual(shown.stdout, "")

    def test_a_missing_file_is_named(self):
        shown = self.run_graph("show", self.path("nothing"))
        self.assertEqual(shown.returncode, 1)
        self.assertIn("nothing", shown.stderr)

    def test_diff(self):
        a, b = self.write("a", LAYER), self.write("b", LAYER.replace("keepdims=true", "axis=[0], keepdims=true"))
        same = self.run_graph("diff", a, a)
        self.assertEqual((same.returncode, same.stdout, same.stderr), (0, "", ""))
        other = self.run_graph("diff", a, b)
        self.assertEqual(other.returncode, 1)
        self.assertEqual(other.stdout,
                         "%5 = sum: attribute 'axis' is none in the first graph and [0] in the second\n"
                         "  - %5 = sum(%2, keepdims=true)\n"
                         "  + %5 = sum(%2, axis=[0], keepdims=true)\n")
        self.assertEqual(other.stderr, "")

    def test_run(self):
        write_file(self.path("in"), {"x": ("F32", [2], [1.0, 2.0]), "w": ("F32", [2], [3.0, 4.0])})
        done = self.run_graph("run", self.write("a", LAYER), "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_file(self.path("out")), {"y": [3.5, 8.5]})

    def test_run_with_several_results_and_inputs_of_one_name(self):
        text = "graph f(x: float32[1], x~2: float32[1]) -> (float32[1], none, float32[1])\n" \
               "  %2 = subtract(x, x~2)\n  return %2, none, x\n"
        write_file(self.path("in"), {"x/0": ("F32", [1], [5.0]), "x/1": ("F32", [1], [3.0])})
        done = self.run_graph("run", self.write("a", text), "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_file(self.path("out")), {"ys/0": [2.0], "ys/2": [5.0]})

    def test_files_of_several_graphs(self):
        file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "saved", "files", "container_v2.etg")
        done = self.run_graph("show", file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("container_v2.etg: this file holds 2 graphs: 'step', 'predict'. Choose one by --name", done.stderr)
        self.assertIn("nn.elu(", self.run_graph("show", file, "--name", "step").stdout)
        self.assertIn("this file holds no graph 'sep'. There are: 'step', 'predict'",
                      self.run_graph("show", file, "--name", "sep").stderr)
        self.assertIn("this is a symbolic graph", self.run_graph("show", file, "--name", "predict").stderr)
        write_file(self.path("in"), {"x": ("F32", [2, 3], [0.0] * 6)})
        done = self.run_graph("run", file, "--name", "predict", "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(read_file(self.path("out"))), ["probabilities"])

    def test_run_checks_inputs(self):
        path = self.write("a", LAYER)
        for tensors, fragment in (
                ({"x": ("F32", [2], [1.0, 2.0])}, "input 'w' of graph 'layer' is missing"),
                ({"x": ("F32", [2], [1.0, 2.0]), "w": ("F32", [1], [1.0])},
                 "input 'w' of graph 'layer' is float32[2], but float32[1] was given"),
                ({"x": ("F32", [2], [1.0, 2.0]), "w": ("F32", [2], [1.0, 2.0]), "z": ("F32", [1], [1.0])},
                 "graph 'layer' has no input 'z'. There are: x, w")):
            write_file(self.path("in"), tensors)
            done = self.run_graph("run", path, "--inputs", self.path("in"), "--output", self.path("out"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(fragment, done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))
        self.assertIn("input 'x' of graph 'layer' is missing",
                      self.run_graph("run", path, "--output", self.path("out")).stderr)

    def test_run_of_a_symbolic_graph_takes_all_sizes(self):
        graphs = []
        for n in (4, 6):
            text = self.write("a", f"graph f(x: float32[{n},2]) -> (float32[{2 * n}])\n"
                              f"  %1 = reshape(x, shape=[{2 * n}])\n  return %1\n")
            self.assertEqual(self.run_graph("convert", text, self.path("b")).returncode, 0)
            with open(self.path("b"), "rb") as file:
                graphs.append(file.read())
        parts = [b"\x89ETF\r\n\x1a\n" + struct.pack("<3Q", 2, *map(len, graphs)), *graphs]
        symbolic = b"".join(part.ljust((len(part) + 63) // 64 * 64, b"\0") for part in parts[:-1]) + parts[-1]
        with open(self.path("symbolic"), "wb") as file:
            file.write(symbolic)
        write_file(self.path("in"), {"x": ("F32", [3, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])})
        done = self.run_graph("run", self.path("symbolic"), "--inputs", self.path("in"), "--output", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_file(self.path("out")), {"y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
        self.assertIn("symbolic: this is a symbolic graph: a graph for many sizes. `etude graph run` takes it",
                      self.run_graph("show", self.path("symbolic")).stderr)

    def test_convert_and_back(self):
        text, binary, back = self.write("a", LAYER), self.path("b"), self.path("c")
        self.assertEqual(self.run_graph("convert", text, binary).returncode, 0)
        with open(binary, "rb") as file:
            self.assertTrue(file.read().startswith(b"\x89ETG\r\n\x1a\n"))
        self.assertEqual(self.run_graph("convert", binary, back, "--to", "text").returncode, 0)
        with open(back, encoding="utf-8") as file:
            self.assertEqual(file.read(), LAYER)
        self.assertEqual(self.run_graph("show", binary, "--full").stdout, LAYER)
        self.assertEqual(self.run_graph("diff", text, binary).returncode, 0)
        self.assertEqual(self.run_graph("plan", text).stdout, self.run_graph("plan", binary).stdout)

    def test_convert_refuses_what_is_damaged(self):
        binary, out = self.path("b"), self.path("c")
        self.assertEqual(self.run_graph("convert", self.write("a", LAYER), binary).returncode, 0)
        with open(binary, "r+b") as file:
            file.truncate(100)
        done = self.run_graph("convert", binary, out)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "b: a graph in binary form is torn: it has 100 bytes, but [0-9]+ were written")
        self.assertFalse(os.path.exists(out))
        unknown = self.run_graph("convert", binary, out, "--to", "yaml")
        self.assertIn("yaml not in {binary,text}", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
