# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/report.py makes of figures that are made up: python3 report_test.py FOLDER_OF_REPORT."""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, sys.argv.pop(1))
import report  # noqa: E402  (found by the line above)


def timed(seconds):
    return {"median": seconds, "p10": seconds, "p90": seconds}


RESULTS = {
    "faster": {"etude": timed(2e-6), "staged": timed(1e-6), "torch": timed(9e-6), "jax": timed(4e-6)},
    "slower": {"etude": timed(4e-3), "lazy": timed(8e-3), "compile": timed(2e-3), "jax": {"error": "no"}},
    "alone": {"etude": timed(1.0), "torch": {"skip": "not there"}},
}
RECORD = {"machine": {"cpu": "A processor", "time": "2026-01-01"}, "probes": {"gflops": 100, "copy_gb": 10},
          "threads": 1, "versions": {"etude": "1", "jax": "2"}, "skipped": {"libtorch": "no compiler"},
          "results": RESULTS}


class ReportTest(unittest.TestCase):
    def test_the_best_rival_is_the_fastest_with_a_figure(self):
        self.assertEqual(report.best_rival(RESULTS["faster"]), ("jax", 4e-6))
        self.assertEqual(report.best_rival(RESULTS["slower"]), ("compile", 2e-3))
        self.assertIsNone(report.best_rival(RESULTS["alone"]))

    def test_ratios_say_how_many_times_as_long_it_takes(self):
        self.assertAlmostEqual(report.against_best(RESULTS["faster"], "etude"), 2)
        self.assertAlmostEqual(report.against_best(RESULTS["faster"], "staged"), 4)
        self.assertAlmostEqual(report.against_best(RESULTS["slower"], "lazy"), .25)
        self.assertIsNone(report.against_best(RESULTS["slower"], "staged"))
        self.assertIsNone(report.against_best(RESULTS["alone"], "etude"))

    def test_the_page_has_all_rows_and_the_picture(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            report.write(folder, RECORD)
            page = (folder / "README.md").read_text()
            self.assertIn("| `faster` | 2 us | 1 us |  | 9 us |  | 4 us | JAX | 2.00 | 4.00 |  |", page)
            self.assertIn("| `slower` | 4 ms |  | 8 ms |  | 2 ms |  | torch.compile | 0.50 |  | 0.25 |", page)
            self.assertIn("| `alone` | 1 s |  |  |  |  |  |  |  |  |  |", page)
            self.assertIn("libtorch is missing: no compiler.", page)
            for file in ("against_best", *RESULTS):
                self.assertIn(f"({file}.svg)", page)
                xml.etree.ElementTree.parse(folder / f"{file}.svg")

    def test_bars_of_the_picture_lie_on_the_side_that_is_meant(self):
        root = xml.etree.ElementTree.fromstring(report.picture(RESULTS))
        space = "{http://www.w3.org/2000/svg}"
        bars = [r for r in root.iter(space + "rect") if r.get("height") == "5"]
        self.assertEqual([b.get("fill") for b in bars],
                         [report.COLOURS[m] for m in ("etude", "staged", "etude", "lazy")])
        one = next(p for p in root.iter(space + "path") if p.get("stroke-width") == "1.5").get("d")
        middle = float(one[1:one.index(" ")])
        left, width = ([float(b.get(key)) for b in bars] for key in ("x", "width"))
        for k in (0, 1):
            self.assertAlmostEqual(left[k], middle, delta=.1)
        for k in (2, 3):
            self.assertAlmostEqual(left[k] + width[k], middle, delta=.1)
        self.assertAlmostEqual(width[1], 2 * width[0], delta=.2)  # 4 and 2 times as fast


if __name__ == "__main__":
    unittest.main()
