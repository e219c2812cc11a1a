# SPDX-License-Identifier: Apache-2.0
"""Runs `etude inspect` and `etude diff`: python3 etude_inspect_test.py PATH_OF_ETUDE PATH_OF_SAVED_WRITER."""
import html.parser
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest
import zlib

from program_case import ProgramCase
from tensor_files import write_file

PROGRAM, WRITER = sys.argv.pop(1), sys.argv.pop(1)
READ_EVENTS = pathlib.Path(__file__).parent.parent / "training" / "read_events.py"

LAYER = """graph layer(x: float32[2], ^w: float32[2]) -> (float32[2])
  %2 = constant float32[] 0.5
  %3 = multiply(x, ^w)         # models/train.cc:41
  %4 = sum(%3, keepdims=true)  # models/train.cc:42
  %5 = add(%3, %4)             # models/train.cc:43
  %6 = add(%5, %2)
  return %6
"""
# A chain that passes forty other calls, names that a page has to escape, and an inner graph.
WIDE = """graph wide(x: float32[3]) -> (float32[3], float32[3])
  %1 = exp(x)                                                  # <b>&.cc:7
{chain}  %{n} = add(%{last}, %1)
  %{m}, %{k} = internal.while_loop(%{n}, x, condition=@go, bodies=[@step], carried=[2], max_steps=3)
  return %{m}, %{k}

graph go(a: float32[3], b: float32[3]) -> (bool[])
  %2 = constant bool[] true
  return %2

graph step(a: float32[3], b: float32[3]) -> (float32[3], float32[3])
  %2 = add(a, b)
  return %2, b
"""


def no_room():
    """Writes of more than 64 bytes to a file fail from now on, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def npy(path, shape, elements):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                                   struct.pack(f"<{len(elements)}f", *elements))
    return path


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects anchors, links and text."""
    VOID = {"meta", "circle", "path"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.texts, self.open_groups = [], [], [], [], 0
        self.feed(text)
        self.close()
        assert not self.open, self.open
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs:
            self.links.append(attrs["href"])
        assert not {"src", "action"} & set(attrs), (tag, attrs)
        self.open_groups += tag == "details" and attrs.get("class") == "group" and "open" in attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open, self.getpos())

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)


class Folder(ProgramCase):
    def etude(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr if status > 1 or (status and not done.stdout) else done.stdout

    def saved(self, name="net"):
        subprocess.run([WRITER, self.path(name), self.path(name + ".safetensors")], timeout=60, check=True)
        return self.path(name)

    def page(self, *args):
        out = self.path("page.html")
        self.assertEqual(self.etude("inspect", *args, "--html", out), "")
        text = pathlib.Path(out).read_text(encoding="utf-8")
        self.assertNotRegex(text, r"https?://|@import|url\(")
        page = Page(text)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        for link in page.links:
            self.assertIn(link[1:], page.ids)
        return page


class InspectTest(Folder):
    def test_logs_that_cannot_be_written_leave_no_file(self):
        logs = self.path("logs")
        done = subprocess.run([PROGRAM, "inspect", self.saved(), "--tensorboard", logs], capture_output=True, text=True, timeout=60,
                              check=False, preexec_fn=no_room)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([files for _, _, files in os.walk(logs) if files], [])

    def test_logs_of_tensorboard(self):
        logs = self.path("logs")
        told = self.etude("inspect", self.saved(), "--tensorboard", logs)
        self.assertEqual(sorted(os.listdir(logs)), ["predict", "train"])
        files = told.splitlines()
        self.assertEqual([os.path.dirname(file) for file in files], [os.path.join(logs, n) for n in ("predict", "train")])
        text = subprocess.run([sys.executable, str(READ_EVENTS), files[0]], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        self.assertIn("\nx: Argument() -> [8, 4]\n", text)
        self.assertIn("\nnet/hidden/weight: State() -> [4, 8]\n", text)
        self.assertRegex(text, r"\nnet/hidden/matmul: matmul\(x, net/hidden/weight\) -> \[8, 8\], .*line .*saved_writer.cc:")
        subprocess.run([sys.executable, str(READ_EVENTS), files[1]], capture_output=True, timeout=60, check=True)
        self.etude("inspect", self.saved(), "--function", "predict", "--tensorboard", self.path("one"))
        self.assertEqual(os.listdir(self.path("one")), ["predict"])
        layer = self.etude("inspect", self.write("layer", LAYER), "--tensorboard", self.path("layers")).strip()
        text = subprocess.run([sys.executable, str(READ_EVENTS), layer], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        self.assertIn("\nmultiply: multiply(x, w) -> [2], line models/train.cc:41\n", text)
        weights = self.path("w.safetensors")
        write_file(weights, {"w": ("F32", [1], [1.0])})
        self.assertEqual(self.etude("inspect", weights, "--tensorboard", logs, status=1),
                         f"etude: '{weights}' is a file of tensors, which has no functions. TensorBoard shows the graphs of "
                         "functions\n")

    def test_each_graph_has_logs_of_its_own(self):
        dots = self.write("dots", 'graph ".."(x: float32[2]) -> (float32[2])\n  return x\n')
        logs = self.path("logs")
        self.assertEqual(self.etude("inspect", dots, "--tensorboard", logs).count("/graph/"), 1)
        self.assertEqual(os.listdir(logs), ["graph"])
        # Of functions whose names end alike.
        graphs, logs = next(pathlib.Path(self.saved()).glob("graphs*")), self.path("equal")
        raw = graphs.read_bytes().replace(b"predict#0", b"a/graph_2").replace(b"predict#1", b"b/graph_2")
        raw = raw.replace(b"predict#2", b"c/graphs/")
        graphs.write_bytes(raw[:12] + struct.pack("<I", zlib.crc32(raw[16:])) + raw[16:])
        files = self.etude("inspect", str(graphs), "--tensorboard", logs).split()
        self.assertEqual(len({os.path.dirname(file) for file in files}), 4)
        self.assertEqual(sorted(os.listdir(logs)), ["graph", "graph_2", "graph_2_2", "train#0"])
        long = "n" * 255  # with a number behind it no name of a file
        many = self.path("many.etude")
        one = self.write("one", f"graph {long}(x: float32[2]) -> (float32[2])\n  return x\n")
        self.etude("graph", "convert", one, many)
        logs = self.path("long")
        self.etude("inspect", many, "--tensorboard", logs)
        self.assertEqual(os.listdir(logs), ["n" * 197 + "..."])

    def test_files_of_graphs_as_text(self):
        shown = self.etude("inspect", self.write("layer", LAYER))
        self.assertIn("%3: float32[2] = multiply(x, ^w)", shown)
        self.assertIn("# models/train.cc:41", shown)

    def test_tensors_as_text(self):
        file = self.path("a.safetensors")
        write_file(file, {"net/w": ("F32", [2, 3], list(range(6))),
                          "net/b": ("I32", [3], [1, 2, 3])})
        self.assertEqual(self.etude("inspect", file), "net/b: int32[3]\nnet/w: float32[2,3]\n2 tensors, 36 B\n")
        one = self.path("b.safetensors")
        write_file(one, {"w": ("F32", [2], [0, 1])})
        self.assertEqual(self.etude("inspect", one), "w: float32[2]\n1 tensor, 8 B\n")
        page = self.page(file)
        self.assertIn("2 tensors, 9 numbers, 36 B", page.text)
        self.assertIn("float32[2,3] 24 B", page.text)

    def test_a_page_of_a_file_of_graphs(self):
        page = self.page(self.write("layer", LAYER))
        for part in ("layer", "(x: float32[2])", "4 calls", "x float32[2] argument", "multiply %3 float32[2] x1: x",
                     "x2: w float32[2] train.cc:41", "sum %4 float32[1] x: %3 keepdims=true train.cc:42",
                     "add %6 float32[2] x1: %5 x2: 0.5", "result 0 float32[2] result: %6"):
            self.assertIn(part, page.text)

    def test_a_page_with_long_lines_escaped_names_and_inner_graphs(self):
        chain = "".join(f"  %{i} = add(%{i - 1}, x)\n" for i in range(2, 50))
        page = self.page(self.write("wide", WIDE.format(chain=chain, n=50, last=49, m=51, k=52)))
        self.assertIn("<b>&.cc:7", page.text)
        self.assertIn("@go", page.text)
        self.assertIn("graph @step: 1 call", page.text)
        self.assertIn("#f0g0-v1", page.links)  # its reader is too far for a line, not for a link

    def test_times_of_a_file_of_graphs(self):
        layer = self.write("layer", LAYER)
        x, w = npy(self.path("x.npy"), [2], [1, 2]), npy(self.path("w.npy"), [2], [3, 4])
        page = self.page(layer, "--input", f"x={x}", "--input", f"w={w}")
        self.assertRegex(page.text, r"multiply %3 float32\[2\] [0-9.]+ µs")
        told = self.etude("inspect", layer, "--input", f"x={x}", "--input", f"w={w}")
        self.assertRegex(told, r"(?m)^ +[0-9.]+ µs +[0-9.]+ %  multiply +float32\[2\] +train\.cc:41$")
        self.assertIn("Times: each call alone", told)
        refused = self.etude("inspect", layer, "--input", f"x={x}", status=1)
        self.assertEqual(refused, "etude: input 'w' of graph 'layer' is missing: there is no tensor of that name, "
                                  "float32[2], in --inputs\n")

    def test_a_page_of_a_saved_folder(self):
        page = self.page(self.saved())
        for part in ("predict", "(x: float32[n,4])", "exported: x -> output", "hidden 40 numbers 160 B bias float32[8] 32 B weight float32[4,8] 128 B",
                     "matmul", "float32[n,8]", "net/hidden/weight float32[4,8]", "saved_writer.cc:",
                     "a folder of saved functions", "train"):
            self.assertIn(part, page.text)
        only = self.page(self.path("net"), "--function", "predict")
        self.assertNotIn("(x: float32[8,4], labels: int32[8])", only.text)

    def test_times_of_a_saved_folder(self):
        net, x = self.saved(), npy(self.path("x.npy"), [16, 4], [0.5] * 64)
        page = self.page(net, "--function", "predict", "--input", x)
        self.assertIn("float32[16,8]", page.text)  # the graph at the sizes of the input
        self.assertRegex(page.text, r"Times: .* in all calls, [0-9.]+ [µm]s for a call of the function\.")
        refused = self.etude("inspect", net, "--input", x, status=1)
        self.assertEqual(refused, f"etude: '{net}' has 2 functions: predict, train. Choose one by --function\n")
        wrong = npy(self.path("y.npy"), [2, 5], [0.0] * 10)
        refused = self.etude("inspect", net, "--function", "predict", "--input", wrong, status=1)
        self.assertIn("function 'predict' has no graph for (x: float32[2,5])", refused)
        labels = self.path("all.safetensors")
        write_file(labels, {"x": ("F32", [8, 4], [0.5] * 32),
                            "labels": ("I32", [8], [1] * 8)})
        page = self.page(net, "--function", "train", "--inputs", labels)  # random keys and changed state
        self.assertIn("a new random key", page.text)
        refused = self.etude("inspect", net, "--function", "train", "--inputs", labels, "--training", status=1)
        self.assertIn("function 'train' has no graph for (labels: int32[8], x: float32[8,4]) in the training phase", refused)

    def test_what_is_none_of_these(self):
        self.assertEqual(self.etude("inspect", self.path("none"), status=1),
                         f"etude: '{self.path('none')}' does not exist. Is the path right?\n")
        self.assertEqual(self.etude("inspect", self.folder, status=1),
                         f"etude: '{self.folder}' is a folder, but neither saved functions nor a checkpoint: it has no "
                         "file saved.json or manifest.json. Name the folder that has one\n")
        self.assertIn("net.txt: ", self.etude("inspect", self.write("net.txt", "no graph"), status=1))
        file = self.path("a.safetensors")
        write_file(file, {"w": ("F32", [1], [1])})
        self.assertEqual(self.etude("inspect", file, "--function", "f", status=1),
                         f"etude: '{file}' is a file of tensors, which has no functions. Leave --function and --input "
                         "out\n")

    def test_checkpoints(self):
        net, checkpoint = self.path("net"), self.path("checkpoint")
        subprocess.run([WRITER, net, self.path("values.safetensors"), checkpoint], timeout=60, check=True)
        told = self.etude("inspect", checkpoint)
        self.assertIn("net/hidden/weight: float32[4,8]\n", told)
        self.assertRegex(told, r"\n[0-9]+ tensors, [0-9]+ B\n")
        self.assertIn("a checkpoint", self.page(checkpoint).text)
        self.assertEqual(self.etude("diff", checkpoint, checkpoint), "")
        told = self.etude("diff", checkpoint, net, status=1)
        self.assertIn("  + adam/slots/count: int64[]\n", told)  # of the training function
        self.assertNotIn("net/hidden/weight", told)  # the same values
        pathlib.Path(checkpoint, "manifest.json").write_text("{", encoding="utf-8")
        self.assertIn("manifest.json", self.etude("inspect", checkpoint, status=1))

    def test_a_page_has_a_limit(self):
        lines = "".join(f"  %{i} = exp(%{i - 1})\n" for i in range(2, 20_002))
        graph = f"graph long(x: float32[1]) -> (float32[1])\n  %1 = exp(x)\n{lines}  return %20001\n"
        refused = self.etude("inspect", self.write("long", graph), "--html", self.path("page.html"), status=1)
        self.assertEqual(refused, "etude: graph 'long' has 20001 nodes, but a page shows 20000 at most. "
                                  "`etude graph show` prints it as text\n")

    def test_groups_fold(self):
        page = self.page(self.saved())
        self.assertGreater(page.open_groups, 0)


class DiffTest(Folder):
    def diff(self, a, b, *args, status=1):
        return self.etude("diff", a, b, *args, status=status)

    def tensors(self, name, **tensors):
        write_file(self.path(name), {
            path: ("F32", [len(values)], values) for path, values in tensors.items()})
        return self.path(name)

    def test_graphs(self):
        a = self.write("a", LAYER)
        self.assertEqual(self.diff(a, a, status=0), "")
        self.assertEqual(self.diff(a, self.write("same", LAYER.replace("train.cc:42", "train.cc:52")), status=0), "")
        b = self.write("b", LAYER.replace("%5 = add(%3, %4) ", "%5 = multiply(%3, %4)"))
        told = self.diff(a, b)
        self.assertTrue(told.startswith("function layer\n  graph (x: float32[2])\n    calls: add 2 -> 1, multiply 1 -> 2\n"),
                        told)
        self.assertIn("    node 2 is add in the first graph and multiply in the second\n", told)
        self.assertEqual(self.diff(a, self.write("c", LAYER.replace("graph layer", "graph other"))),
                         "- function layer\n+ function other\n")

    def test_tensors(self):
        nan, inf = float("nan"), float("inf")
        a = self.tensors("a.safetensors", **{"w": [1, 2, 4], "old": [1], "n": [nan, inf, 0.0], "z": [0.0], "s": [1, 2]})
        b = self.tensors("b.safetensors", **{"w": [1, 2.5, 4], "new": [1], "n": [nan, inf, nan], "z": [-0.0], "s": [1]})
        self.assertEqual(self.diff(a, a, status=0), "")
        self.assertEqual(self.diff(a, b), "state\n"
                         "  n: 1 of 3 elements differ, by inf at most, relative inf\n"
                         "  - old: float32[1]\n"
                         "  - s: float32[2]\n"
                         "  + s: float32[1]\n"
                         "  w: 1 of 3 elements differ, by 0.5 at most, relative 0.2\n"
                         "  z: equal numbers with other bits, such as -0 and 0\n"
                         "  + new: float32[1]\n")

    def test_tolerances(self):
        a, b = self.tensors("a.safetensors", w=[1, 100, 0]), self.tensors("b.safetensors", w=[1.001, 101, 0])
        self.assertIn("w: 2 of 3 elements differ", self.diff(a, b))
        self.assertIn("w: 1 of 3 elements differ", self.diff(a, b, "--atol", "0.01"))
        self.assertEqual(self.diff(a, b, "--rtol", "0.02", status=0), "")

    def test_integers_of_64_bits(self):
        for name, last in (("a", 2**62), ("b", 2**62 + 1)):
            write_file(self.path(name + ".safetensors"), {"n": ("I64", [2], [-2**63, last])})
        self.assertEqual(self.diff(self.path("a.safetensors"), self.path("b.safetensors")),
                         "state\n  n: 1 of 2 elements differ, by 1 at most, relative 2.168e-19\n")

    def test_saved_folders(self):
        a, b = self.saved("a"), self.path("b")
        shutil.copytree(a, b)
        self.assertEqual(self.diff(a, b, status=0), "")
        self.assertEqual(self.diff(a, b, "--function", "predict", status=0), "")
        trained = self.saved("c")  # equal programs save equal folders
        self.assertEqual(self.diff(a, trained, status=0), "")
        refused = self.diff(a, b, "--function", "none", status=2)
        self.assertEqual(refused, f"etude: '{a}' has no function 'none'. There are: predict, train\n")
        weights = self.tensors("w.safetensors", **{"net/hidden/bias": [0.0] * 8})
        told = self.diff(a, weights)
        self.assertRegex(told, r"  net/hidden/bias: 8 of 8 elements differ, by [0-9.e-]+ at most, relative 1\n")
        self.assertIn("  - net/output/bias: float32[3]\n", told)

    def test_errors(self):
        a = self.write("a", LAYER)
        w = self.tensors("w.safetensors", w=[1])
        self.assertEqual(self.diff(a, w, status=2),
                         f"etude: '{a}' is a file of graphs and '{w}' is a file of tensors: they have nothing to "
                         "compare. Name two that have functions, or two that have state\n")
        self.assertIn("does not exist", self.diff(a, self.path("none"), status=2))
        self.assertIn("B is required", self.etude("diff", a, status=2))
        self.assertIn("--atol", self.diff(a, a, "--atol", "-1", status=2))
        self.assertEqual(self.etude("graph", "diff", a, self.path("none"), status=2).count("etude: "), 1)

    def test_help(self):
        for command, words in (("diff", "Status: 0 equal, 1 different, 2 an error"), ("inspect", "--html")):
            self.assertIn(words, " ".join(self.etude(command, "--help").split()))


if __name__ == "__main__":
    unittest.main()
