# SPDX-License-Identifier: Apache-2.0
"""Short runs of what learns from games, texts and pictures: python3 learning_test.py FOLDER_OF_PROGRAMS."""
import os
import random
import re
import sys
import unittest

from short_runs import ShortRuns


def steps_to_goal():
    """The shortest way through the world of maze.cc, by breadth-first search."""
    world = ["S..#....", ".#.#.##.", ".#...#..", ".####..#", "......##", "###....G"]
    queue, seen = [(0, 0, 0)], {(0, 0)}
    for y, x, steps in queue:
        if world[y][x] == "G":
            return steps
        for row, column in ((y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x)):
            inside = 0 <= row < 6 and 0 <= column < 8 and (row, column) not in seen
            if inside and world[row][column] != "#":
                seen.add((row, column))
                queue.append((row, column, steps + 1))
    return None


def go_group(stones, field):
    """The fields that hang together with this one, and those around them."""
    group, around, queue = {field}, set(), [field]
    for y, x in queue:
        for near in ((y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x)):
            if near in stones and near not in group:
                if stones[near] == stones[field]:
                    group.add(near)
                    queue.append(near)
                else:
                    around.add(near)
    return group, around


def go_score(record):
    """Black's points less white's after these moves; a ValueError for one that the rules of Go forbid."""
    stones, turn, before = {(y, x): 0 for y in range(9) for x in range(9)}, 1, []
    for move in record:
        field = divmod(move, 9)
        if move < 81:
            taken, now = set(), dict(stones)
            if stones[field]:
                raise ValueError(f"{field} is taken")
            now[field] = turn
            for near in go_group(now, field)[1]:
                group, around = go_group(now, near)
                if now[near] == -turn and all(now[x] for x in around):
                    taken |= group
            now.update(dict.fromkeys(taken, 0))
            if all(now[x] for x in go_group(now, field)[1]) or [now] == before[-2:-1]:
                raise ValueError(f"{field} takes one's own stones, or takes back")
            stones = now
        before.append(stones)
        turn = -turn
    score = -5.5
    for field, stone in stones.items():
        touched = {stones[x] for x in go_group(stones, field)[1]} if stone == 0 else {stone}
        score += sum(touched) if len(touched) == 1 else 0
    return score


class LearningTest(ShortRuns):
    programs = os.path.abspath(sys.argv.pop())

    def write_cifar(self, records):
        """Files of CIFAR-10 whose classes are colours, with noise."""
        generator = random.Random(1)
        for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
            with open(os.path.join(self.folder, name), "wb") as file:
                for _ in range(records):
                    label = generator.randrange(10)
                    file.write(bytes([label]))
                    for plane in range(3):
                        level = (label * (plane + 3) * 37) % 200
                        file.write(bytes(level + x % 40 for x in generator.randbytes(1024)))

    def test_cifar_reads_files(self):  # spec: EX1
        self.write_cifar(64)
        out = self.run_program("cifar", "convnet", 3, self.folder)
        # 3-32-32-64-64 by 3 by 3, then 2304-512-10.
        count = 27 * 32 + 32 + 9 * 32 * 32 + 32 + 9 * 32 * 64 + 64 + 9 * 64 * 64 + 64 + 2304 * 512 + 512 + 5130
        self.assertIn(f"{count} parameters", out)
        self.assertGreater(self.number(r"test accuracy ([\d.]+)", out), 0.6)

    def test_cifar_by_a_residual_network(self):  # spec: EX5.a
        self.write_cifar(64)
        out = self.run_program("cifar", 8, 4, self.folder)
        self.assertIn("78042 parameters", out)  # of ResNet-8, as L27 counts the 855,770 of ResNet-56
        for batch in (10, 128):
            self.assertGreater(self.number(rf"batches of +{batch}: (\d+) images a second", out), 0)
        self.assertGreater(self.number(r"test accuracy ([\d.]+)", out), 0.6)

    def test_zoo(self):  # spec: EX7 EX30
        out = self.run_program("zoo")
        for name, count in (("vgg 16", 138357544), ("resnet 50", 25557032), ("gpt2 small", 124439808),
                            ("efficientnet b8", 87413142), ("albert base", 11683584)):
            self.assertRegex(out, rf"{name} +{count} ")
        before, after = self.numbers(r"by heart: loss ([\d.]+), then ([\d.]+)", out)
        self.assertLess(after, 0.7 * before)
        self.assertRegex(self.run_program("zoo", "vgg 16"), r"head/0 +Dense +\[1,4096\] +102,764,544 ")

    def test_autoencoder(self):  # spec: EX13
        out = self.run_on_images("autoencoder", 10)
        for kind in ("numbers", "images"):
            before, after = self.numbers(kind + r": mean squared error ([\d.]+), then ([\d.]+)", out)
            self.assertLess(after, 0.5 * before)
        self.assert_picture("autoencoder.png", 16 * 29 + 1, 3 * 29 + 1)

    def test_normed(self):  # spec: L15, F1.d
        out = self.run_on_images("normed", 3, train=8000, test=10000)
        line = r"accuracy ([\d.]+) while training, ([\d.]+) on its images, ([\d.]+) on others"
        by_fit, by_hand = (self.numbers(f"by {way}: " + line, out) for way in ("fit", "hand"))
        self.assertEqual(by_fit, by_hand)
        last, seen, unseen = by_fit
        self.assertGreater(last, 0.8)
        self.assertGreater(seen, last - 0.01)
        self.assertGreater(unseen, last - 0.01)

    def test_dcgan(self):  # spec: EX16
        out = self.run_on_images("dcgan", 60, 8)
        self.assertEqual(len(re.findall(r"^step +\d+  critic [\d.]+  artist [\d.]+$", out, re.M)), 6)
        self.assertLess(self.number(r"mean image: ([\d.]+) away", out), 0.28)  # of grey
        self.assert_picture("dcgan.png", 16 * 29 + 1, 6 * 29 + 1)

    def test_pictures_from_pictures(self):  # spec: EX17
        out = self.run_on_images("pix2pix", 120, test=100)
        before, after = self.numbers(r"edges: ([\d.]+) away at first, ([\d.]+) in the end", out)
        self.assertLess(after, 0.5 * before)
        self.assert_picture("pix2pix.png", 12 * 33 + 1, 3 * 33 + 1)

    def test_pictures_without_pairs(self):  # spec: EX17
        out = self.run_on_images("cyclegan", 120, test=400)
        trousers, dresses = self.numbers(r"back: trousers ([\d.]+) away, dresses ([\d.]+)", out)
        self.assertLess(max(trousers, dresses), 0.12)
        self.assertGreater(self.number(r"made of trousers: ([\d.]+) away", out), trousers)
        self.assert_picture("cyclegan.png", 12 * 33 + 1, 6 * 33 + 1)

    def test_style(self):  # spec: EX24
        out = self.run_on_images("style", 60)
        before, after = self.numbers(r"style: ([\d.]+) away, then ([\d.]+)", out)
        self.assertLess(after, 0.5 * before)
        self.assert_picture("style.png", 8 * 29 + 1, 3 * 29 + 1)

    def test_pose(self):  # spec: EX28
        out = self.run_program("pose", 150)
        self.assertLess(self.number(r"within ([\d.]+) pixels", out), 5)  # by chance about 10
        self.assert_picture("pose.png", 8 * 49 + 1, 4 * 49 + 1)

    def test_transfer(self):  # spec: EX8
        out = self.run_program("transfer", 120)
        self.assertGreater(self.number(r"ten directions: accuracy ([\d.]+)", out), 0.5)
        learned, nothing = self.numbers(r"accuracy ([\d.]+), with a body that learned nothing ([\d.]+)", out)
        self.assertGreater(learned, nothing)

    def test_fine_tune(self):  # spec: SV-01.d, SV-09.d
        self.assertIn("saved to body", self.run_program("pretrain", "body", 150))
        out = self.run_program("fine_tune", "body", "tuned", 60)
        self.assertIn("function features\n  (images: float32[n,16,16,3])", out)
        before = self.number(r"before: accuracy ([\d.]+)", out)
        after = self.number(r"images: accuracy ([\d.]+)", out)
        self.assertLess(before, 0.3)
        self.assertGreater(after, 0.5)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "tuned", "saved.json")))

    def test_bert(self):  # spec: EX9
        first, last = self.numbers(r"accuracy ([\d.]+) at first, ([\d.]+) in the end", self.run_program("bert", 300))
        self.assertLess(first, 0.65)
        self.assertGreater(last, 0.9)

    def test_gpt(self):  # spec: EX10 EX11
        texts = []
        for name, sentence in (("one", "big dwarf jumps quickly. "), ("two", "my fox naps. ")):
            texts.append(os.path.join(self.folder, name))
            with open(texts[-1], "w", encoding="utf-8") as file:
                file.write(sentence * 40)
        out = self.run_program("gpt", 150, *texts, "big d")
        self.assertLess(self.number(r"learnt: .* then ([\d.]+)", out), 0.8)
        before, after = self.numbers(r"tuned: ([\d.]+) bits a letter, then ([\d.]+)", out)
        self.assertLess(after, 0.8 * before)
        self.assertIn("big dwarf jumps quickly. big dwarf jumps", out)

    def test_words(self):  # spec: EX12
        out = self.run_program("words", 200, 64)
        self.assertEqual(re.findall(r"covered ([\d.]+)", out), ["4.0000", "8.0000", "14.0000"])
        self.assertGreater(self.number(r"14 letters: ([\d.]+) of words", out), 0.6)
        for length in (4, 8, 14):
            shown = re.search(rf"{length} letters: .*: ([a-z ]+)\n", out)[1]
            self.assertEqual(len(shown.replace(" ", "")), length)

    def test_games_of_chance(self):  # spec: EX18
        out = self.run_program("blackjack", 60)
        learned, chance = self.numbers(r"wins (-[\d.]+), by chance (-[\d.]+)", out)
        self.assertGreater(learned, -0.1)  # the best is about -.05
        self.assertLess(chance, -0.25)
        self.assertIn("with 20 against 10 it stays\nwith 12 against 10 it takes a card\n", out)
        out = self.run_program("frozen_lake", 1500)
        self.assertGreater(self.number(r"the goal in ([\d.]+)", out), 0.5)  # the best is .74 in 100 steps

    def test_catch(self):  # spec: EX18
        first, last = self.numbers(r"caught ([\d.]+) of the balls at first, ([\d.]+)", self.run_program("catch_ball", 500))
        self.assertLess(first, 0.4)
        self.assertGreater(last, 0.8)
        self.assert_curves("catch_ball.svg", 1)

    def test_ppo(self):  # spec: EX21
        self.assertGreater(self.number(r"stand ([\d.]+) of 200", self.run_program("ppo", 20)), 60)  # at first about 10
        self.assert_curves("ppo.svg", 1)

    def test_go(self):  # spec: EX22
        out = self.run_program("go", 120, 1, 60, 4)
        self.assertEqual(len(re.findall(r"^game +\d+  loss [\d.]+$", out, re.M)), 9)
        self.assertGreaterEqual(self.number(r"wins (\d) of 4 games", out), 2)
        record, score = re.search(r"a game: ([\d ]+) score ([-\d.]+)", out).groups()
        self.assertEqual(go_score([int(x) for x in record.split()]), float(score))

    def test_ratings(self):  # spec: EX27
        before, after = self.numbers(r"first three of 51: ([\d.]+) at first, ([\d.]+)", self.run_program("ratings", 5))
        self.assertLess(before, 0.35)
        self.assertGreater(after, 0.6)

    def test_search(self):  # spec: EX31
        out = self.run_program("maze")
        self.assertEqual(self.number(r"(\d+) steps to the goal", out), steps_to_goal())
        # Perfect players draw; of 5,478 boards that can arise 958 are the end of a game.
        self.assertIn("tic-tac-toe: worth 0 to who begins, 4520 boards before the end; worth 1 after corner and edge", out)

    def test_building(self):  # spec: EX33.a
        out = self.run_program("building")
        derivative, difference = self.numbers(r"more: ([\d.]+) K, by differences ([\d.]+) K", out)
        self.assertAlmostEqual(derivative / difference, 1, delta=1e-3)
        self.assertAlmostEqual(self.number(r"m of tube: ([\d.]+) K", out), 296.15, delta=0.1)


if __name__ == "__main__":
    unittest.main()
