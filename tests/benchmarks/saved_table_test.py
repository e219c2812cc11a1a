# SPDX-License-Identifier: Apache-2.0
"""How benchmarks/saved/table.py judges figures that are made up: python3 saved_table_test.py FOLDER_OF_TABLE."""
import array
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import table  # noqa: E402  (found by the line above)


def timed(**seconds):
    return {system: {"median": s} for system, s in seconds.items()}


class SavedTableTest(unittest.TestCase):
    def test_ratios_are_to_the_faster_form_of_the_peer(self):
        found = timed(loaded=2e-3, ahead=1e-3, onnxruntime=9e-3, rewritten=3e-3)
        self.assertEqual(table.best_peer(found), ("rewritten", 3e-3))
        self.assertEqual(table.ratios(found), {"loaded": 1.5, "ahead": 3.0})
        self.assertEqual(table.ratios(timed(loaded=1.0)), {})

    def test_a_row_of_the_disk_is_compared_with_a_copy(self):
        self.assertEqual(table.ratios(timed(loaded=2.0, copy=1.0)), {"loaded": .5})

    def test_half_of_the_answers_must_be_good(self):
        rows = {"lenet_1": timed(loaded=1, ahead=2, onnxruntime=2), "lstm_1": timed(loaded=1, ahead=1, onnxruntime=1.2)}
        self.assertEqual(table.summary(rows), ("1 of 4 answers are 1.3 times as fast or more", False))
        rows["lstm_1"] = timed(loaded=1, ahead=2, onnxruntime=1.3)
        self.assertEqual(table.summary(rows), ("2 of 4 answers are 1.3 times as fast or more", True))
        self.assertTrue(table.summary({"first_lenet": timed(loaded=1, onnxruntime=1)})[1])

    def test_a_row_in_bold_misses_its_aim(self):
        lines = list(table.markdown({"lenet_1": timed(loaded=1e-6, ahead=3e-6, onnxruntime=2e-6),
                                     "first_lenet": timed(loaded=1e-3, onnxruntime=4e-3)}))
        self.assertEqual(lines[2], "| **`lenet_1`** | 2 us | 1 us | 3 us | 2.00, 0.67 | 1 |")
        self.assertEqual(lines[3], "| `first_lenet` | 4 ms | 1 ms |  | 4.00 | 3 |")

    def test_answers_that_differ_by_more_than_rounding_are_a_fault(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            answers = {"onnxruntime": [1, 2], "loaded": [1.0009, 2], "ahead": [1, 2.003], "rewritten": [1]}
            for system, numbers in answers.items():
                (folder / f"row.{system}.f32").write_bytes(array.array("f", numbers).tobytes())
            self.assertEqual(list(table.differences(folder, "row", list(answers))), [
                "row: ahead differs from onnxruntime: 2.003 beside 2 at 1",
                "row: rewritten differs from onnxruntime: 1 numbers beside 2"])
            self.assertEqual(list(table.differences(folder, "row", ["ahead", "loaded"])),
                             ["row: ahead differs from loaded: 2.003 beside 2 at 1"])
            (folder / "row.ahead.f32").write_bytes(array.array("f", [float("nan"), 2]).tobytes())
            self.assertIn("nan beside 1 at 0", next(table.differences(folder, "row", list(answers))))


if __name__ == "__main__":
    unittest.main()
