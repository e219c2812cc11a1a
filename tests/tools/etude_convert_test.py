# SPDX-License-Identifier: Apache-2.0
"""Runs `etude convert` between all forms: python3 etude_convert_test.py PATH_OF_ETUDE PATH_OF_SAVED_WRITER."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz"))
import onnx_seeds
from program_case import ProgramCase
from tensor_files import read_entries, write_entries

PROGRAM, WRITER = sys.argv.pop(1), sys.argv.pop(1)

FORMS = ("a folder of saved functions; FILE.onnx, a model of ONNX; FILE.mlir, StableHLO as text; FILE.safetensors, its "
         "state; FILE.txt, a graph as text; FILE.etude, a graph as bytes\n")
# Two functions share the weight; a captured tensor and the key of a random draw are inputs, too.
SCALE = """graph scale(x: float32[2,3], &model/w: float32[3], ^shift: float32[]) -> (float32[2,3], float32[2,3])
  %3 = multiply(x, &model/w)
  %4 = add(%3, ^shift)
  return %3, %4
"""


def floats(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class ConvertTest(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.net, cls.values, cls.checkpoint = (os.path.join(cls.shared.name, n) for n in ("net", "values", "run"))
        subprocess.run([WRITER, cls.net, cls.values, cls.checkpoint], timeout=60, check=True)
        cls.known = read_entries(cls.values)

    def etude(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr if status else done.stdout

    def convert(self, *args, status=0):
        return self.etude("convert", *args, status=status)

    def refused(self, *args):
        told = self.convert(*args, status=1)
        self.assertNotIn("convert_", told)  # no line of the program itself
        return told

    def copy(self):
        subprocess.run(["cp", "-r", self.net, self.path("net")], check=True)
        return self.path("net")

    def content(self, folder):
        return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(pathlib.Path(folder).rglob("*"))
                if f.is_file() and f.name != ".lock"}

    def scores(self, folder, function="predict"):
        inputs = write_entries(self.path("x.safetensors"), {"x": self.known["x"]})
        out = self.path("y.safetensors")
        self.etude("run", folder, "--function", function, "--inputs", inputs, "--output", out)
        return read_entries(out)["output"][2]

    # ---- weights

    def test_state_becomes_a_file_of_tensors(self):
        out = self.path("all.safetensors")
        self.assertEqual(self.convert(self.net, out), f"{out}: {os.path.getsize(out)} bytes\n")
        state = read_entries(out)
        self.assertEqual(state["net/hidden/weight"][:2], ("F32", [4, 8]))
        self.assertTrue(any(name.startswith("adam/") for name in state), list(state))
        shown = self.etude("inspect", self.net)
        for name in state:
            self.assertIn(f"variable {name}: ", shown)
        some = self.path("some.safetensors")
        self.convert(self.net, "--to", some, "--function", "predict")
        names = set(read_entries(some))
        self.assertIn("net/output/bias", names)
        self.assertFalse(any(name.startswith("adam/") for name in names), names)

    def test_tensors_become_state_and_back(self):
        net, weights = self.copy(), self.path("w.safetensors")
        self.convert(net, weights)
        before = self.content(net)
        self.convert(weights, net, "--into")
        self.assertEqual(self.content(net), before)  # equal values, equal bytes
        state = read_entries(weights)
        count = len(state["net/output/bias"][2]) // 4
        state["net/output/bias"] = ("F32", [count], floats(*[0.25] * count))
        write_entries(weights, state)
        told = self.convert(weights, net, "--into")
        self.assertIn("variable net/output/bias: float32[3]", told)
        again = self.path("again.safetensors")
        self.convert(net, again)
        self.assertEqual(read_entries(again), state)
        self.assertNotEqual(self.scores(net), self.known["scores"][2])

    def test_the_state_of_one_function(self):
        net, weights = self.copy(), self.path("w.safetensors")
        self.convert(net, weights, "--function", "predict")
        self.convert(weights, net, "--into", "--function", "predict")
        told = self.refused(weights, net, "--into")
        self.assertIn(f"'{weights}' has no tensor for 'adam/", told)
        self.assertIn(f" are state of '{net}'. Give --partial to keep the values that are missing, or --function for the "
                      "state of one function\n", told)
        self.convert(weights, net, "--into", "--partial")
        self.assertEqual(self.scores(net), self.known["scores"][2])

    def test_checkpoints_and_folders_are_sources_of_weights(self):
        net = self.copy()
        out = self.path("run.safetensors")
        self.convert(self.checkpoint, out)
        self.assertEqual(read_entries(out)["net/hidden/weight"][:2], ("F32", [4, 8]))
        told = self.refused(self.checkpoint, net, "--into", "--function", "train")
        self.assertIn("has no tensor for 'adam/", told)
        self.convert(self.net, net, "--into")
        self.assertEqual(self.content(net), self.content(self.net))

    def test_weights_that_do_not_fit_are_named_and_nothing_is_written(self):
        net, weights = self.copy(), self.path("w.safetensors")
        self.convert(net, weights)
        before, state = self.content(net), read_entries(weights)

        def refused(changed):
            write_entries(weights, changed)
            told = self.refused(weights, net, "--into")
            self.assertEqual(self.content(net), before)
            return told

        missing = {name: value for name, value in state.items() if name != "net/hidden/weight"}
        self.assertEqual(refused(missing), f"etude: '{weights}' has no tensor for 'net/hidden/weight', which is state of "
                         f"'{net}'. Give --partial to keep the values that are missing, or --function for the state of one "
                         "function\n")
        unknown = {**state, "net/hiden/weight": ("F32", [1], floats(1))}
        self.assertEqual(refused(unknown), f"etude: '{weights}' has 'net/hiden/weight', which is no state of '{net}'. The "
                         "nearest: net/hidden/weight, " + refused(unknown).split("net/hidden/weight, ")[1])
        shape = {**state, "net/hidden/weight": ("F32", [8, 4], floats(*range(32)))}
        self.assertEqual(refused(shape), f"etude: 'net/hidden/weight' is float32[8,4] in '{weights}', but float32[4,8] in "
                         f"'{net}'\n")
        dtype = {**state, "net/hidden/weight": ("F64", [4, 8], struct.pack("<32d", *range(32)))}
        self.assertEqual(refused(dtype), f"etude: 'net/hidden/weight' is float64[4,8] in '{weights}', but float32[4,8] in "
                         f"'{net}'\n")
        pathlib.Path(weights).write_bytes(pathlib.Path(weights).read_bytes()[:-5])
        self.assertIn("w.safetensors", self.refused(weights, net, "--into"))
        self.assertEqual(self.content(net), before)

    def test_errors_have_no_line_of_the_program(self):
        weights = write_entries(self.path("w.safetensors"), {"w": ("F32", [1], floats(1))})
        pathlib.Path(weights).write_bytes(pathlib.Path(weights).read_bytes()[:-1])
        other = write_entries(self.path("x.safetensors"), {"x": ("F32", [2, 5], floats(*[0] * 10))})
        run = ("run", self.net, "--function", "predict", "--inputs")
        for arguments in (("inspect", weights), ("convert", weights, self.path("a.safetensors")), (*run, weights),
                          (*run, other), ("run", self.path("none")), (*run[:2], "--function", "none")):
            told = self.etude(*arguments, status=1)
            self.assertNotIn("tools/", told)
            self.assertNotIn(".cc:", told.split("Saved signatures")[0])

    def test_a_file_of_tensors_keeps_its_metadata(self):
        weights, out = write_entries(self.path("w.safetensors"), {"w": ("F32", [1], floats(1))}), self.path("a.safetensors")
        raw = pathlib.Path(weights).read_bytes()
        header = json.dumps({"__metadata__": {"format": "pt", "by": "me"}, **json.loads(raw[8:-4])}).encode()
        pathlib.Path(weights).write_bytes(struct.pack("<Q", len(header)) + header + raw[-4:])
        self.assertEqual(self.convert(weights, out), f"{out}: {os.path.getsize(out)} bytes\n")
        raw = pathlib.Path(out).read_bytes()
        self.assertEqual(json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])["__metadata__"], {"format": "pt", "by": "me"})

    def test_into_needs_a_folder(self):
        weights = write_entries(self.path("w.safetensors"), {"w": ("F32", [1], floats(1))})
        none = self.path("none")
        self.assertEqual(self.refused(weights, none, "--into"), f"etude: --into: '{none}' is no folder of saved functions. "
                         "Name the folder that gets the tensors\n")
        graph = self.write("g.txt", SCALE)
        self.assertEqual(self.refused(graph, self.copy(), "--into"), f"etude: '{graph}' is a file of graphs, which has no "
                         "tensors. Tensors are in a safetensors file, a checkpoint or a folder of saved functions\n")
        self.assertIn("--partial requires --into", self.convert(weights, none, "--partial", status=107))

    def test_models_of_onnx_are_no_weights(self):
        # Their filters have other axes, which sizes cannot tell if all axes are equal.
        net, model = self.copy(), self.path("net.onnx")
        self.convert(net, model, "--function", "predict")
        before = self.content(net)
        told = (f"etude: '{model}' is a model of ONNX, whose filters of convolutions have their axes in another order, so "
                "its tensors are no weights of other functions. Convert the model to a folder instead: etude convert "
                f"'{model}' FOLDER\n")
        self.assertEqual(self.refused(model, net, "--into", "--partial"), told)
        self.assertEqual(self.content(net), before)
        graph = self.write("g.txt", SCALE)
        self.assertEqual(self.refused(graph, self.path("again"), "--weights", model), told)

    # ---- graphs

    def test_a_function_becomes_a_graph_and_back(self):
        text, weights, again = self.path("g.txt"), self.path("w.safetensors"), self.path("again")
        self.convert(self.net, text, "--function", "predict")
        graph = pathlib.Path(text).read_text()
        head = graph.splitlines()[0]
        self.assertTrue(head.startswith("graph predict("), head)
        self.assertIn("x: float32[8,4]", graph)
        self.assertIn("&net/hidden/weight: float32[4,8]", graph)
        self.convert(self.net, weights, "--function", "predict")
        told = self.convert(text, again, "--weights", weights)
        self.assertIn("function predict\n  (x: float32[8,4]) -> (output: float32[8,3])\n", told)
        self.assertEqual(self.scores(again), self.known["scores"][2])
        self.convert(self.net, text, "--function", "predict", "--size", "n=5")
        self.assertIn("x: float32[5,4]", pathlib.Path(text).read_text())
        # The state is state: training goes on, and ONNX has it as initialisers.
        model = self.path("again.onnx")
        self.convert(again, model)
        self.assertIn(b"net/hidden/weight", pathlib.Path(model).read_bytes())

    def test_bytes_keep_open_sizes(self):
        graph, weights, again = self.path("g.etude"), self.path("w.safetensors"), self.path("again")
        self.convert(self.net, graph, "--function", "predict")
        self.convert(self.net, weights, "--function", "predict")
        told = self.convert(graph, again, "--weights", weights)
        self.assertIn("function predict\n  (x: float32[n,4]) -> ", told)
        self.assertEqual(self.scores(again), self.known["scores"][2])
        fixed = self.path("fixed.etude")
        self.convert(self.net, fixed, "--function", "predict", "--fixed-sizes")
        self.assertIn("x: float32[8,4]", self.etude("graph", "show", fixed))
        text = self.path("fixed.txt")
        self.convert(fixed, text, "--weights", weights)
        self.assertIn("x: float32[8,4]", pathlib.Path(text).read_text())

    def test_graphs_with_state_become_files_of_graphs(self):
        # A file of graphs holds no state: inputs keep their roles, and no values are needed.
        hand, data, text = self.write("g.txt", SCALE), self.path("a.etude"), self.path("a.txt")
        self.convert(hand, data)
        self.assertEqual(self.convert(data, text), f"{text}: {os.path.getsize(text)} bytes\n")
        self.assertIn("    &model/w: float32[3],\n    ^shift: float32[])\n", pathlib.Path(text).read_text())
        self.convert(hand, self.path("b.txt"))
        self.assertEqual(pathlib.Path(text).read_text(), pathlib.Path(self.path("b.txt")).read_text())
        net, again = self.path("net.etude"), self.path("again.etude")
        self.convert(self.net, net, "--function", "predict")
        self.convert(net, again, "--function", "predict")
        self.assertEqual(pathlib.Path(again).read_bytes(), pathlib.Path(net).read_bytes())
        self.assertTrue(self.convert(net, text).endswith(" bytes, with n=8\n"))
        self.assertIn("x: float32[8,4]", pathlib.Path(text).read_text())
        self.assertIn("&net/hidden/weight: float32[4,8]", pathlib.Path(text).read_text())
        self.assertTrue(self.convert(net, text, "--size", "n=5").endswith(" bytes, with n=5\n"))
        self.assertIn("x: float32[5,4]", pathlib.Path(text).read_text())
        self.assertEqual(self.refused(net, text, "--size", "m=5"),
                         "etude: --size names 'm', but graph 'predict' has the open sizes n\n")
        self.assertEqual(self.refused(hand, text, "--size", "m=5"), "etude: --size names 'm', but graph 'scale' has no open size\n")

    def test_a_graph_by_hand_becomes_functions(self):
        graph, again = self.write("g.txt", SCALE), self.path("again")
        weights = write_entries(self.path("w.safetensors"), {"model/w": ("F32", [3], floats(1, 2, 3)),
                                                             "shift": ("F32", [], floats(0.5))})
        told = self.convert(graph, again, "--weights", weights)
        self.assertIn("function scale\n  (x: float32[2,3]) -> (0: float32[2,3], 1: float32[2,3])\n", told)
        inputs = write_entries(self.path("x.safetensors"), {"x": ("F32", [2, 3], floats(1, 1, 1, 2, 2, 2))})
        out = self.path("y.safetensors")
        self.etude("run", again, "--inputs", inputs, "--output", out)
        results = read_entries(out)
        self.assertEqual(results["0"][2], floats(1, 2, 3, 2, 4, 6))
        self.assertEqual(results["1"][2], floats(1.5, 2.5, 3.5, 2.5, 4.5, 6.5))

    def test_the_sizes_that_were_chosen_are_printed(self):
        for name, options, sizes in [("a.txt", [], ", with n=8"), ("b.txt", ["--size", "n=5"], ", with n=5"),
                                     ("a.etude", [], ""), ("b.etude", ["--size", "n=5"], ", with n=5"),
                                     ("c.etude", ["--fixed-sizes"], ", with n=8"), ("a.onnx", [], ""),
                                     ("b.onnx", ["--fixed-sizes"], ", with n=8"), ("a.mlir", [], ", with n=8"),
                                     ("a.safetensors", [], "")]:
            out = self.path(name)
            told = self.convert(self.net, out, "--function", "predict", *options)
            self.assertEqual(told, f"{out}: {os.path.getsize(out)} bytes{sizes}\n")
        model, text = self.path("a.onnx"), self.path("c.txt")
        told = self.convert(model, text)
        rows = pathlib.Path(text).read_text().split("x: float32[")[1].split(",")[0]
        self.assertTrue(told.endswith(f" bytes, with n={rows}\n"), told)

    def test_graphs_that_are_no_functions(self):
        graph, again = self.write("g.txt", SCALE), self.path("again")
        self.assertEqual(self.refused(graph, again), "etude: input 'model/w' of graph 'scale' is state and has no value. "
                         "Give --weights FILE.safetensors with a tensor of this name\n")
        weights = self.path("w.safetensors")
        good = {"model/w": ("F32", [3], floats(1, 2, 3)), "shift": ("F32", [], floats(0.5))}
        write_entries(weights, {**good, "model/w": ("F32", [4], floats(1, 2, 3, 4))})
        self.assertEqual(self.refused(graph, again, "--weights", weights), "etude: input 'model/w' of graph 'scale' is "
                         f"float32[3], but float32[4] in '{weights}'\n")
        write_entries(weights, {**good, "model/v": ("F32", [], floats(1))})
        self.assertEqual(self.refused(graph, again, "--weights", weights), f"etude: '{weights}' has 'model/v', but no graph "
                         "has an input of this name\n")
        none = self.write("none.txt", "graph f(x: float32[2]) -> ()\n  return\n")
        self.assertEqual(self.refused(none, again), "etude: graph 'f' has no output, but a saved function returns tensors\n")
        absent = self.write("absent.txt", "graph f(x: float32[2]) -> (float32[2], none)\n  return x, none\n")
        self.assertEqual(self.refused(absent, again),
                         "etude: graph 'f' has an absent output, but a saved function returns tensors\n")
        twice = self.write("twice.txt", "graph f(x: float32[2], x~2: float32[2]) -> (float32[2])\n  %2 = add(x, x~2)\n"
                           "  return %2\n")
        self.assertEqual(self.refused(twice, again), "etude: input 'x' of graph 'f' has the name of another input. Give "
                         "each input a name of its own\n")
        self.assertFalse(os.path.exists(again))
        self.assertIn("g2.txt: ", self.refused(self.write("g2.txt", "no graph"), again))

    def test_names_of_files_are_printed_in_quotes_and_short(self):
        graph, again = self.write("g.txt", SCALE), self.path("again")
        good = {"model/w": ("F32", [3], floats(1, 2, 3)), "shift": ("F32", [], floats(0.5))}
        name = "a\x1b[31m\nb"
        weights = write_entries(self.path("w.safetensors"), {**good, name: ("F32", [], floats(1))})
        self.assertEqual(self.refused(graph, again, "--weights", weights), f"etude: '{weights}' has 'a\\x1b[31m\\nb', but no "
                         "graph has an input of this name\n")
        self.assertIn("has 'a\\x1b[31m\\nb', ", self.refused(weights, self.copy(), "--into", "--partial"))
        weights = write_entries(self.path("w.safetensors"), {**good, "n" * 5000: ("F32", [], floats(1))})
        self.assertEqual(self.refused(graph, again, "--weights", weights), f"etude: '{weights}' has '{'n' * 97}...', but no "
                         "graph has an input of this name\n")
        strange = self.write("s.txt", 'graph "a\\x1b[31m"(x: float32[2]) -> (float32[2])\n  return x\n')
        self.assertEqual(self.refused(strange, again, "--function", "two"),
                         f"etude: '{strange}' has no function 'two'. There are: \"a\\x1b[31m\"\n")

    def test_functions_of_one_file(self):
        one = self.write("one.txt", "graph one(x: float32[2]) -> (float32[2])\n  %1 = exp(x)\n  return %1\n")
        again = self.path("again")
        self.convert(one, again)
        self.assertEqual(self.refused(one, again, "--function", "two"), f"etude: '{one}' has no function 'two'. There are: "
                         "one\n")
        self.convert(one, self.path("one.mlir"), "--function", "one")

    def test_a_text_holds_one_function(self):
        one = "graph one(x: float32[2]) -> (float32[2])\n  %1 = exp(x)\n  return %1\n"
        two = self.write("two.txt", one + "\n" + one.replace("one", "two"))
        told = (f"etude: {two}: no line names graph 'two' as @two, and a text holds one function, the first graph. Write "
                "each function in a file of its own\n")
        self.assertEqual(self.refused(two, self.path("again")), told)
        self.assertEqual(self.etude("inspect", two, status=1), told)
        self.assertEqual(self.etude("graph", "show", two, status=1), told)
        self.assertEqual(self.refused(self.write("two.txt", "# two\n" + one + one.replace("one", "two")), self.path("a")), told)

    def test_loops_of_strangers(self):
        loop = self.write("loop.txt", """graph loop(x: float32[]) -> (float32[])
  %1 = internal.while_loop(x, condition=@go, bodies=[@step], carried=[1])
  return %1

graph go(a: float32[]) -> (bool[])
  %1 = constant bool[] true
  return %1

graph step(a: float32[]) -> (float32[])
  return a
""")
        self.assertIn("a while_loop has no limit, but at most 9 steps are allowed",
                      self.refused(loop, self.path("again"), "--max-loop-steps", "9"))
        self.convert(loop, self.path("again"))

    # ---- forms

    def test_models_become_all_forms(self):
        model = self.path("net.onnx")
        self.convert(self.net, model, "--function", "predict")
        for name in ("a.safetensors", "a.txt", "a.etude", "a.mlir", "a.onnx"):
            self.convert(model, self.path(name))
            self.assertGreater(os.path.getsize(self.path(name)), 100)
        self.assertIn("net/hidden/weight", read_entries(self.path("a.safetensors")))
        self.convert(model, self.path("b.mlir"), "--size", "n=6")
        self.assertIn("%x: tensor<6x4xf32>", pathlib.Path(self.path("b.mlir")).read_text())

    def test_stablehlo(self):
        out = self.path("net.mlir")
        told = self.convert(self.net, out, "--function", "predict")
        self.assertEqual(told, f"{out}: {os.path.getsize(out)} bytes, with n=8\n")
        text = pathlib.Path(out).read_text()
        self.assertIn("@main(%x: tensor<8x4xf32> {etude.name = \"x\"}) -> (tensor<8x3xf32>", text)
        self.convert(self.net, out, "--function", "predict", "--size", "n=1", "--weights-as-arguments")
        text = pathlib.Path(out).read_text()
        self.assertIn("@main(%x: tensor<1x4xf32> {etude.name = \"x\"}, %net_", text)
        self.assertIn("changes 'net/hidden/weight' and ", self.refused(self.net, out, "--function", "train"))
        self.assertEqual(pathlib.Path(out).read_text(), text)

    def test_forms_that_cannot_be(self):
        pb = self.path("net.pb")
        self.assertEqual(self.refused(self.net, pb), f"etude: '{pb}' has the extension '.pb', which is no form of a function."
                         f" '{self.net}' converts to: {FORMS}")
        weights = self.path("w.safetensors")
        self.convert(self.net, weights)
        self.assertEqual(self.refused(weights, self.path("w.onnx")), f"etude: '{weights}' is a file of tensors, which has no "
                         "function. It converts to: FILE.safetensors; with --into, the state of a folder of saved functions\n")
        self.assertIn("is a checkpoint, which has no function", self.refused(self.checkpoint, self.path("net")))
        self.assertIn(f"'{self.net}' has 2 functions: predict, train. Choose one by --function",
                      self.refused(self.net, self.path("a.txt")))
        self.assertIn("function 'train' changes 'net/hidden/weight' and ", self.refused(self.net, self.path("a.txt"), "--function", "train"))
        none = self.path("none")
        self.assertEqual(self.refused(none, self.path("a.txt")), f"etude: '{none}' does not exist. Is the path right?\n")
        one = self.write("one.txt", "graph one(x: float32[2]) -> (float32[2])\n  %1 = exp(x)\n  return %1\n")
        self.assertEqual(self.refused(one, self.path("w2.safetensors")),
                         f"etude: '{one}' has no state, so there are no tensors to write\n")
        self.assertEqual(self.refused(self.net, self.path("a.txt"), "--function", "predict", "--size", "m=3"),
                         "etude: --size names 'm', but the open sizes of the graph are n\n")
        self.assertEqual(self.refused(self.net, self.path("a.txt"), "--size", "n"),
                         "etude: --size is 'n', but a name and a size are needed, such as batch=8\n")
        for text in ("=3", "n="):
            self.assertIn(f"--size is '{text}', but a name and a size are needed", self.refused(self.net, pb, "--size", text))
        for size in ("-1", "9223372036854775808", "+3", "x", "1.5"):
            self.assertEqual(self.refused(self.net, self.path("a.txt"), "--size", f"n={size}"), f"etude: --size is 'n={size}', "
                             "but a size is a whole number from 0 to 9223372036854775807\n")
        self.assertFalse(os.path.exists(self.path("a.txt")))

    def test_files_of_no_form_that_is_read(self):
        forms = ("Forms that are read: a folder of saved functions, a checkpoint, a safetensors file, a file of graphs as "
                 "text or bytes; `etude convert` also reads FILE.onnx\n")
        out, module = self.path("out"), self.path("net.mlir")
        self.convert(self.net, module, "--function", "predict")
        self.assertEqual(self.refused(module, out), f"etude: '{module}' is StableHLO, which is written, not read. {forms}")
        empty = self.write("empty.etude", "")
        self.assertEqual(self.refused(empty, out), f"etude: '{empty}' is empty. {forms}")
        for name, text in (("x.npy", "\x93NUMPY\x01"), ("w.pt", "PK\x03\x04"), ("a.etude", "\x1b[31m"), ("b.txt", "\x00")):
            file = self.write(name, text)
            self.assertEqual(self.refused(file, out), f"etude: '{file}' has no form that is read. {forms}")
            self.assertEqual(self.etude("inspect", file, status=1), f"etude: '{file}' has no form that is read. {forms}")
        index = os.path.join(self.net, "saved.json")
        self.assertIn("saved.json' has no form that is read", self.refused(index, out))

    def test_a_file_without_a_graph_is_not_read_whole(self):
        huge = self.write("huge.txt", "")
        os.truncate(huge, 1 << 42)
        self.assertIn(f"'{huge}' has no form that is read", self.refused(huge, self.path("out")))
        self.assertEqual(self.etude("graph", "show", huge, status=1), f"etude: {huge} is no file of graphs: its first bytes "
                         "are neither those of a graph in bytes nor text\n")

    # ---- inputs of a model of ONNX

    def reshape(self):
        """z = Reshape(x, s): its sizes need the elements of s."""
        ports = [onnx_seeds.port("x", ["n", 4]), onnx_seeds.port("s", [2], 7)]
        graph = onnx_seeds.graph([onnx_seeds.node("Reshape", "xs", "z")], ports, [onnx_seeds.port("z", [])])
        path = pathlib.Path(self.path("reshape.onnx"))
        path.write_bytes(onnx_seeds.model(graph))
        return str(path)

    def test_values_for_inputs_of_a_model(self):
        model, out = self.reshape(), self.path("net")
        told = self.refused(model, out)
        self.assertIn("Pass values for these inputs of the model in a file, by --constants FILE.safetensors: \"s\"", told)
        self.assertNotIn("Options::", told)
        values = write_entries(self.path("s.safetensors"), {"s": ("I64", [2], struct.pack("<2q", -1, 2))})
        shown = self.convert(model, out, "--constants", values)
        self.assertIn("function predict\n  (x: float32[n,4]) -> (output: float32[2*n,2])\n", shown)
        wrong = write_entries(self.path("t.safetensors"), {"t": ("I64", [2], struct.pack("<2q", -1, 2))})
        told = self.refused(model, self.path("other"), "--constants", wrong)
        self.assertIn("--constants names 't', but ", told)
        self.assertNotIn("Options::", told)

    def test_shapes_for_inputs_of_a_model(self):
        model = pathlib.Path(self.path("relu.onnx"))
        bare = onnx_seeds.data(1, "x") + onnx_seeds.data(2, onnx_seeds.data(1, onnx_seeds.number(1, 1)))
        graph = onnx_seeds.graph([onnx_seeds.node("Relu", "x", "z")], [bare], [onnx_seeds.port("z", [])])
        model.write_bytes(onnx_seeds.model(graph))
        told = self.refused(str(model), self.path("net"))
        self.assertIn("input 'x' has no shape in the model. State it: --shape \"x\"=?,3", told)
        shown = self.convert(str(model), self.path("net"), "--shape", "x=?,3")
        self.assertIn("-> (output: float32[n,3])\n", shown)
        self.assertIn("-> (output: float32[])\n", self.convert(str(model), self.path("scalar"), "--shape", "x="))
        for text in ("x", "=3"):
            self.assertEqual(self.refused(str(model), self.path("no"), "--shape", text), f"etude: --shape is '{text}', but a "
                             "name and sizes are needed, such as x=?,3\n")
        for text in ("x=a", "x=3,,4", "x=-1", "x=1,"):
            self.assertEqual(self.refused(str(model), self.path("no"), "--shape", text), f"etude: --shape is '{text}', but a "
                             "size is a whole number from 0 to 9223372036854775807\n")
        self.assertEqual(self.refused(str(model), self.path("no"), "--shape", "x=1", "--shape", "x=2"),
                         "etude: --shape is 'x=2', but 'x' occurs twice. Give each name once\n")
        self.assertIn("--shape names 'y', but ", self.refused(str(model), self.path("no"), "--shape", "y=1", "--shape", "x=1"))

    def test_options_come_before_names_of_files(self):
        model, out = self.path("net.onnx"), self.path("a.txt")
        self.convert(self.net, model, "--function", "predict")
        self.convert("--function", "predict", "--size", "n=6", self.net, out)
        self.assertIn("x: float32[6,4]", pathlib.Path(out).read_text())
        self.convert("--shape", "x=7,4", model, out)
        self.assertIn("x: float32[7,4]", pathlib.Path(out).read_text())

    def test_what_is_missing_has_the_name_of_the_usage(self):
        self.assertIn("TO is required", self.convert(self.net, status=106))
        self.assertIn("FROM is required", self.convert(status=106))

    def test_options_without_effect(self):
        weights, graph, model = self.path("w.safetensors"), self.write("g.txt", SCALE), self.path("net.onnx")
        self.convert(self.net, weights)
        self.convert(self.net, model, "--function", "predict")
        folder = "a folder of saved functions"
        for source, kind, target, form, options in [
                (self.net, folder, "again", folder, [["--function", "predict"], ["--size", "n=2"], ["--graph", "1"],
                                                     ["--weights", weights]]),
                (self.net, folder, "a.txt", "a graph as text", [["--fixed-sizes"], ["--opset", "18"], ["--doc", "a"],
                                                                ["--weights-as-arguments"], ["--max-loop-steps", "3"]]),
                (self.net, folder, "a.mlir", "StableHLO as text", [["--fixed-sizes"], ["--opset", "18"]]),
                (self.net, folder, "a.onnx", "a model of ONNX", [["--size", "n=2"], ["--weights-as-arguments"]]),
                (self.net, folder, "a.safetensors", "its state", [["--graph", "1"], ["--training"]]),
                (model, "a model of ONNX", "a.etude", "a graph as bytes", [["--weights", weights], ["--doc", "a"]]),
                (graph, "a file of graphs", "again", folder, [["--size", "n=2"], ["--training"]]),
                (weights, "a file of tensors", "a.safetensors", "a file of tensors", [["--function", "f"]])]:
            for option in options:
                self.assertEqual(self.refused(source, self.path(target), *option),
                                 f"etude: {option[0]} is no option for the conversion of '{source}', which is {kind}, to "
                                 f"{form}. Leave it out\n")
                self.assertFalse(os.path.exists(self.path(target)))
        self.assertEqual(self.refused(weights, self.copy(), "--into", "--size", "n=2"), "etude: --size is no option for the "
                         f"conversion of '{weights}', which is a source of tensors, to the state of a folder. Leave it out\n")
        self.assertEqual(self.refused(model, self.path("a.txt"), "--size", "n=2", "--size", "n=3"),
                         "etude: --size is 'n=3', but 'n' occurs twice. Give each name once\n")

    def test_a_folder_becomes_the_same_folder(self):
        again = self.path("again.v2")
        os.mkdir(again)  # a folder may have a dot in its name
        self.convert(self.net, again)
        self.assertEqual(self.content(again), self.content(self.net))


if __name__ == "__main__":
    unittest.main()
