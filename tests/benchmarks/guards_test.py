# SPDX-License-Identifier: Apache-2.0
"""What tools/check_guards.py says of made-up counts: python3 guards_test.py FOLDER_OF_CHECK_GUARDS."""
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import check_guards  # noqa: E402  (found by the line above)

RECORD = {"step": {"instructions": 10000.0, "calls": 40, "tensors": 30, "heap": 20}}


def check(record=None, **changed):
    lines, failed = check_guards.check(RECORD if record is None else record, {"step": {**RECORD["step"], **changed}})
    return "\n".join(lines), failed


class GuardsTest(unittest.TestCase):
    def test_equal_counts_pass(self):
        self.assertEqual(check()[1], [])

    def test_more_instructions_fail_from_a_bound_on(self):
        self.assertEqual(check(instructions=10490.0)[1], [])
        text, failed = check(instructions=10510.0)
        self.assertEqual(failed, ["step"])
        self.assertIn("+5.1% against 10000.0; FAILED", text)

    def test_fewer_instructions_are_printed(self):
        text, failed = check(instructions=9000.0)
        self.assertEqual(failed, [])
        self.assertIn("look at it", text)

    def test_every_other_count_is_exact(self):
        for key, words in check_guards.EXACT.items():
            for difference in (1, -1):
                text, failed = check(**{key: RECORD["step"][key] + difference})
                self.assertEqual(failed, ["step"], key)
                self.assertIn(f"{words}, recorded are {RECORD['step'][key]}", text)

    def test_what_is_on_one_side_only_fails(self):
        self.assertEqual(check(record={})[1], ["step"])
        text, failed = check(record={**RECORD, "old": RECORD["step"]})
        self.assertEqual(failed, ["old"])
        self.assertIn("old: is recorded, but the program does not know it", text)


if __name__ == "__main__":
    unittest.main()
