# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/compare.py says of made-up runs: python3 compare_test.py FOLDER_OF_COMPARE."""
import copy
import itertools
import random
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import compare  # noqa: E402  (found by the line above)

ROUNDS = 7


def row(seed, spread, **seconds):
    """A workload's figures: `spread` is the standard deviation of the logarithm of a round's time."""
    draw = random.Random(seed)
    return {system: {"median": s, "rounds": [s * draw.lognormvariate(0, spread) for _ in range(ROUNDS)]}
            for system, s in seconds.items()}


def run(rows, threads=1, versions=None):
    return {"results": rows, "threads": threads, "machine": {"cpu": "made up", "time": "2026-01-01"},
            "versions": {"etude": "1", "torch": "2", **(versions or {})}}


def says(old, new, **options):
    lines, bad = compare.compare(old, new, **options)
    return "\n".join(lines), bad


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.stored = run({"quiet": row(1, .01, etude=1.0, torch=2.0, libtorch=1.5),
                           "noisy": row(2, .25, etude=1.0, torch=2.0, libtorch=1.5)})

    def again(self, **changed):
        """A second run of the same program, with other noise, and rows that are `changed` times as slow."""
        rows = {"quiet": row(3, .01, etude=changed.get("quiet", 1.0), torch=2.0, libtorch=1.5),
                "noisy": row(4, .25, etude=changed.get("noisy", 1.0), torch=2.0, libtorch=1.5)}
        return run(rows)

    def test_a_run_of_the_same_program_is_not_slower(self):
        text, bad = says(self.stored, self.again())
        self.assertFalse(bad, text)
        self.assertIn("2 rows compared", text)
        self.assertNotIn("quiet:", text)

    def test_a_slow_row_is_found(self):
        text, bad = says(self.stored, self.again(quiet=1.1))
        self.assertTrue(bad)
        self.assertRegex(text, r"quiet: SLOWER: \+(9|10|11)\.\d% beside")

    def test_a_noisy_row_is_not(self):
        text, bad = says(self.stored, self.again(noisy=1.1))
        self.assertFalse(bad, text)

    def test_a_noisy_row_is_found_when_it_is_much_slower(self):
        self.assertTrue(says(self.stored, self.again(noisy=3))[1])

    def test_many_pairs_of_noisy_runs_raise_few_alarms(self):
        alarms = 0
        for seed in range(400):
            old, new = (run({"a": row(2 * seed + i, .25, etude=1.0, torch=2.0)}) for i in range(2))
            alarms += says(old, new)[1]
        self.assertLessEqual(alarms, 6)  # two are expected

    def test_less_than_what_is_tolerated_is_no_alarm(self):
        text, bad = says(self.stored, self.again(quiet=1.03))
        self.assertFalse(bad, text)

    def test_a_machine_that_is_slow_today_is_no_alarm(self):
        slow = self.again()
        for found in slow["results"]["quiet"].values():
            found["rounds"] = [s * 1.7 for s in found["rounds"]]
        text, bad = says(self.stored, slow)
        self.assertFalse(bad, text)
        self.assertNotIn("faster", text)

    def test_a_machine_that_slows_down_in_between_is_no_alarm(self):
        slow = self.again()
        for found in slow["results"]["quiet"].values():
            found["rounds"] = [s * (1 + i) for i, s in enumerate(found["rounds"])]
        self.assertFalse(says(self.stored, slow)[1])

    def test_one_peer_that_became_faster_is_no_alarm(self):
        new = self.again()
        torch = new["results"]["quiet"]["torch"]
        torch["rounds"] = [s * .7 for s in torch["rounds"]]
        self.assertFalse(says(self.stored, new)[1])

    def test_a_faster_row_is_told(self):
        text, bad = says(self.stored, self.again(quiet=.8))
        self.assertFalse(bad)
        self.assertIn("quiet: faster: -", text)

    def test_a_row_that_is_gone_fails_but_one_that_was_not_asked_for(self):
        new = self.again()
        del new["results"]["noisy"]
        text, bad = says(self.stored, new)
        self.assertTrue(bad)
        self.assertIn("noisy: GONE", text)
        text, bad = says(self.stored, new, chosen=["quiet"])
        self.assertFalse(bad, text)

    def test_rows_that_cannot_be_compared_are_named(self):
        no_peer, short, error = (copy.deepcopy(self.again()) for _ in range(3))
        for system in ("torch", "libtorch"):
            no_peer["results"]["quiet"][system] = {"skip": "left out"}
        short["results"]["quiet"]["etude"]["rounds"] = [1.0] * 3
        error["results"]["quiet"]["etude"] = {"error": "wrong result"}
        for new, reason in ((no_peer, "no peer ran in both"), (short, "fewer than 5 rounds"),
                            (error, "Etude has no figure in the new run")):
            self.assertIn(f"quiet: not compared: {reason}", says(self.stored, new)[0])
        del no_peer["results"]["noisy"], self.stored["results"]["noisy"]
        with self.assertRaisesRegex(compare.Incomparable, "no row could be compared"):
            says(self.stored, no_peer)

    def test_other_numbers_of_threads_are_refused(self):
        with self.assertRaisesRegex(compare.Incomparable, r"had 1 thread\(s\), this one 2"):
            says(self.stored, run(self.stored["results"], threads=2))

    def test_another_peer_is_told(self):
        text, _ = says(self.stored, run(self.stored["results"], versions={"torch": "3"}))
        self.assertIn("another torch: stored with 2, now 3", text)

    def test_a_file_that_is_no_run_is_refused(self):
        for path in (__file__, "/nowhere/run.json"):
            with self.assertRaisesRegex(compare.Incomparable, "is no run that ./dev bench stored"):
                compare.load(path)

    def test_the_chance_is_that_of_all_orders(self):
        values = list(range(8))
        wins = sorted(sum(a > b for a in s for b in values if b not in s) for s in itertools.combinations(values, 4))
        for chosen in itertools.combinations(values, 4):
            rest = [v for v in values if v not in chosen]
            seen = sum(a > b for a in chosen for b in rest)
            self.assertAlmostEqual(compare.chance(chosen, rest), sum(w >= seen for w in wins) / len(wins))


if __name__ == "__main__":
    unittest.main()
