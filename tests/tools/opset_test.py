# SPDX-License-Identifier: Apache-2.0
"""The check of the op set against an earlier one: python3 opset_test.py ROOT."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "tools"))
import check_opset  # noqa: E402

OLD = "nn.clip v2 (x; low?: int32, int64) {limit: real = 1; mode: text} -> y; float32, float64; upgrades v1\n"


class OpsetTest(unittest.TestCase):
    def only_fault(self, new):
        found = check_opset.faults(OLD, new)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def assert_refused(self, new):
        text = self.only_fault(new)
        self.assertIn("the line of op 'nn.clip' changed, but its version is still 2", text)
        self.assertIn("set `.version = 3` in its record and add {2, function} to `.upgrades`", text)
        self.assertIn('CONTRIBUTING.md, "Change an op"', text)
        self.assertIn("  - " + OLD.strip(), text)
        self.assertIn("  + " + new.strip(), text)

    def test_the_same_line_is_fine(self):
        self.assertEqual(check_opset.faults(OLD, OLD), [])

    def test_a_new_op_is_fine(self):
        self.assertEqual(check_opset.faults(OLD, "abs v1 (x) {} -> y; float32\n# a comment\n" + OLD), [])

    def test_additions_are_fine(self):
        for new in (OLD.replace("mode: text", "mode: text; more: flag = false"),
                    OLD.replace("int32, int64)", "int32, int64; high?)"),
                    OLD.replace("int32, int64)", "int16, int32, int64)"),
                    OLD.replace("float32, float64", "float16, float32, float64")):
            self.assertEqual(check_opset.faults(OLD, new), [], new)

    def test_other_changes_need_a_version(self):
        for new in (OLD.replace("real = 1", "real = 2"),                             # a default
                    OLD.replace("real = 1", "int = 1"),                              # a kind
                    OLD.replace("limit: real = 1; mode: text", "mode: text; limit: real = 1"),
                    OLD.replace("; mode: text", ""),
                    OLD.replace("mode: text", "mode: text; more: flag"),             # a required attribute
                    OLD.replace("int32, int64)", "int32, int64; high)"),             # a required operand
                    OLD.replace("low?", "high?"),
                    OLD.replace("low?", "low"),
                    OLD.replace("int32, int64", "int64"),
                    OLD.replace("float32, float64", "float32"),
                    OLD.replace("-> y", "-> y, z"),
                    OLD.replace("; upgrades", "; has an effect outside; upgrades")):
            self.assertNotEqual(new, OLD)
            self.assert_refused(new)

    def test_nothing_comes_after_any_number_of_operands(self):
        old = "stack v1 (xs...) {axis: int = 0} -> y; float32\n"
        self.assertEqual(len(check_opset.faults(old, old.replace("xs...", "xs...; key?"))), 1)

    def test_a_version_with_an_upgrade_is_fine(self):
        new = OLD.replace("v2", "v3").replace("real = 1", "real = 2").replace("upgrades v1", "upgrades v1; upgrades v2")
        self.assertEqual(check_opset.faults(OLD, new), [])
        self.assertEqual(check_opset.faults(OLD, OLD.replace("v2", "v4").replace(
            "upgrades v1", "upgrades v1; upgrades v2; upgrades v3")), [])

    def test_a_version_without_an_upgrade_is_refused(self):
        text = self.only_fault(OLD.replace("clip v2", "clip v3"))
        self.assertIn("op 'nn.clip' has version 3, but no upgrade from version 2. Add {2, function} to `.upgrades`", text)
        text = self.only_fault(OLD.replace("clip v2", "clip v4").replace("upgrades v1", "upgrades v1; upgrades v3"))
        self.assertIn("has version 4, but no upgrade from version 2", text)

    def test_upgrades_stay(self):
        self.assertIn("op 'nn.clip' has lost its upgrade from version 1",
                      self.only_fault(OLD.replace("; upgrades v1", "")))

    def test_versions_only_rise(self):
        self.assertIn("the version of op 'nn.clip' went back from 2 to 1: versions only rise",
                      self.only_fault(OLD.replace("clip v2", "clip v1")))

    def test_ops_stay(self):
        self.assertIn("op 'nn.clip' is gone, but files may call it. Keep its record", self.only_fault(""))

    def test_the_file_of_this_tree_is_read_whole(self):
        text = (ROOT / "docs" / "opset.txt").read_text()
        ops = check_opset.ops_of(text)
        self.assertGreater(len(ops), 300)
        self.assertEqual([op.line for op in ops.values()],
                         [line for line in text.splitlines() if not line.startswith("#")])
        self.assertEqual(check_opset.faults(text, text), [])
        # Each line alone, with an attribute whose default changed or a dtype less.
        for op in ops.values():
            self.assertEqual(len(check_opset.faults(op.line, op.line.replace(" -> ", " -> other"))), 1, op.line)


if __name__ == "__main__":
    unittest.main()
