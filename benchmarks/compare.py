#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which workloads became slower than in a stored run: `compare.py STORED NEW`, both written by `./dev bench`.

What is compared is Etude's time over that of a peer in the same round, never milliseconds: a machine that is
slow today is slow for both. A row is slower if against every peer that both runs have

* the median of these ratios has grown by more than TOLERATED, which two runs of one program may differ by, and
* the rounds say the same: by the rank test of Mann and Whitney rounds of one program lie so with a
  probability below SIGNIFICANCE.

Rows that are as fast as before are not printed. Exit status 1: a row is slower, or is there no more.
"""
import json
import math
import pathlib
import statistics
import sys

TOLERATED = 1.05
SIGNIFICANCE = 0.005
OURS = {"etude", "staged", "lazy"}  # one program: a peer that gets slower with us tells nothing
FEWEST_ROUNDS = 5  # with less even five against five can not be told from chance


class Incomparable(Exception):
    """Two runs, or two rows, of which nothing can be said, and why."""


def chance(new, old):
    """How probable it is that values of one distribution rank as high as `new` does above `old`."""
    wins = sum((a > b) + (a == b) / 2 for a in new for b in old)
    # ways[k][w]: choices of k of the values so far, with w pairs (chosen, not chosen) that the chosen one wins.
    ways = [{0: 1}] + [{} for _ in new]
    for place in range(len(new) + len(old)):
        for k in range(min(place, len(new) - 1), -1, -1):
            for w, count in ways[k].items():
                beaten = place - k
                ways[k + 1][w + beaten] = ways[k + 1].get(w + beaten, 0) + count
    return sum(c for w, c in ways[-1].items() if w >= wins) / math.comb(len(new) + len(old), len(new))


def over_peer(found, peer):
    """Etude's time over the peer's, round by round."""
    ours, theirs = (found[system]["rounds"] for system in ("etude", peer))
    return [a / b for a, b in zip(ours, theirs)]


def verdict_of(then, now):
    """(growth of the median, what that is: "SLOWER", "faster" or "" for what chance does)."""
    growth = statistics.median(now) / statistics.median(then)
    if growth > TOLERATED and chance(now, then) < SIGNIFICANCE:
        return growth, "SLOWER"
    if growth < 1 / TOLERATED and chance(then, now) < SIGNIFICANCE:
        return growth, "faster"
    return growth, ""


def compare_row(old, new):
    """(growth of the ratio, verdict, peer): of the peer that shows the smallest change."""
    timed = [{s for s, r in row.items() if "rounds" in r} for row in (old, new)]
    for when, systems in zip(("stored", "new"), timed):
        if "etude" not in systems:
            raise Incomparable(f"Etude has no figure in the {when} run")
    peers = sorted((timed[0] & timed[1]) - OURS)
    if not peers:
        raise Incomparable("no peer ran in both runs")
    found = []
    for peer in peers:
        then, now = over_peer(old, peer), over_peer(new, peer)
        if min(len(then), len(now)) < FEWEST_ROUNDS:
            raise Incomparable(f"fewer than {FEWEST_ROUNDS} rounds")
        found.append((*verdict_of(then, now), peer))
    growth, verdict, peer = min(found, key=lambda f: abs(math.log(f[0])))
    return growth, verdict if all(f[1] == verdict for f in found) else "", peer


def compare(old, new, chosen=None):
    """The lines to print and whether a row is slower or gone. `chosen`: rows that were asked for; None: all."""
    if old["threads"] != new["threads"]:
        raise Incomparable(f"the stored run had {old['threads']} thread(s), this one {new['threads']}")
    lines, bad, compared = [], False, 0
    if old["machine"]["cpu"] != new["machine"]["cpu"]:
        lines.append(f"another processor: stored on {old['machine']['cpu']}, now {new['machine']['cpu']}")
    for name in sorted(set(old["versions"]) & set(new["versions"]) - OURS):
        if old["versions"][name] != new["versions"][name]:
            lines.append(f"another {name}: stored with {old['versions'][name]}, now {new['versions'][name]}")
    for name, row in old["results"].items():
        if chosen is not None and name not in chosen:
            continue
        if name not in new["results"]:
            lines.append(f"{name}: GONE: it is in the stored run only")
            bad = True
            continue
        try:
            growth, verdict, peer = compare_row(row, new["results"][name])
        except Incomparable as reason:
            lines.append(f"{name}: not compared: {reason}")
            continue
        compared += 1
        bad = bad or verdict == "SLOWER"
        if verdict:
            lines.append(f"{name}: {verdict}: {growth - 1:+.1%} beside {peer}")
        elif not 1 / TOLERATED < growth < TOLERATED:
            lines.append(f"{name}: {growth - 1:+.1%} beside {peer}, within the noise of the rounds")
    if compared == 0:
        raise Incomparable("\n".join(lines + ["no row could be compared"]))
    summary = "see above" if bad else "none slower"
    return [*lines, f"{compared} rows compared with the run of {old['machine']['time']}: {summary}"], bad


def load(path):
    """A stored run. Incomparable if it is none."""
    try:
        record = json.loads(pathlib.Path(path).read_text())
        record["results"], record["threads"], record["versions"], record["machine"]["time"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Incomparable(f"{path} is no run that ./dev bench stored: {error}") from error
    return record


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        lines, bad = compare(*(load(path) for path in sys.argv[1:]))
    except Incomparable as reason:
        sys.exit(f"compare: {reason}")
    print("\n".join(lines))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
