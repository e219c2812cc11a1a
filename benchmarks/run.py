#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the workloads beside their peers and prints ratios: `./dev bench [NAME...] [--threads N] [--peers LIST]`.

One process per system is held open; systems take turns, so that noise of the machine meets all alike; a
workload is timed only after its result was checked. What a program costs before it computes follows: start,
header, compile, compile_O2 and, only when named since it takes minutes, build_library. Writes results.json,
README.md and a chart per workload into build/bench. --store keeps results.json elsewhere as well; --compare holds the
run against such a file (compare.py) and fails if a workload is slower by more than noise, beside its peers.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import time

import compare
import costs
import peers
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(systems, name, rounds, budget_ms):
    results = {}
    for system in systems:
        if name not in system.modes:
            continue
        reply = system.run(name, "setup=1")
        if "checksum" not in reply:
            results[system.name] = reply
    samples = {s.name: [] for s in systems if name in s.modes and s.name not in results}
    for _ in range(rounds):
        for system in systems:
            if system.name in samples:
                samples[system.name].append(system.run(name, f"ms={budget_ms}"))
    for system, replies in samples.items():
        medians = [r["median"] for r in replies]
        results[system] = {"median": statistics.median(medians), "rounds": medians,
                           "p10": min(r["p10"] for r in replies), "p90": max(r["p90"] for r in replies),
                           "checksum": replies[0]["checksum"]}
    for system in systems:
        system.ask(":drop")
    return results


def disagreement(results):
    """Which peer's check values differ from ours; workloads without published values compare by these."""
    ours = results.get("etude", results.get("staged", {})).get("checksum", [])
    for system, found in results.items():
        theirs = found.get("checksum", [])
        if any(abs(a - b) > 1e-2 * max(abs(a), abs(b), 1e-3) for a, b in zip(ours, theirs)):
            return f"{system} computes something else: {theirs} beside {ours}"
    return None


def cell(result):
    if result is None:
        return ""
    if "median" not in result:
        return result.get("skip") or result.get("error") or "-"
    return report.human(result["median"])


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cpu": model or platform.processor(), "cpus": len(os.sched_getaffinity(0)),
            "time": time.strftime("%Y-%m-%d"), "kernel": platform.release()}


def run_workloads(systems, chosen, args):
    print(f"{'workload':18}" + "".join(f"{s.name:>12}" for s in systems)
          + "".join(f"{'best / ' + mode:>14}" for mode in report.OURS))
    results, failed = {}, False
    for name in chosen:
        found = results[name] = measure(systems, name, args.rounds, args.ms)
        ratios = [report.against_best(found, mode) for mode in report.OURS]
        print(f"{name:18}" + "".join(f"{cell(found.get(s.name)):>12}" for s in systems)
              + "".join(f"{r:14.2f}" if r else " " * 14 for r in ratios), flush=True)
        wrong = disagreement(found)
        if wrong:
            print(f"  {wrong}")
        failed = failed or bool(wrong) or any("error" in result for result in found.values())
    for system in systems:
        if system.fault:
            print(system.fault)
            failed = True
    return results, failed


def peer_names(text):
    """The names in LIST of --peers LIST."""
    names = text.split(",")
    for name in names:
        if name not in peers.PEERS:
            raise argparse.ArgumentTypeError(f"no peer is called '{name}'; there are: {', '.join(peers.PEERS)}")
    return names


def read_stored(path):
    """The run to compare with, before anything is timed."""
    try:
        return compare.load(path) if path else None
    except compare.Incomparable as reason:
        sys.exit(str(reason))


def is_slower(stored, record, chosen):
    """Prints what became of the rows of a stored run."""
    try:
        lines, bad = compare.compare(stored, record, chosen)
    except compare.Incomparable as reason:
        lines, bad = [str(reason)], True
    print("\n".join(["", *lines]))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="workloads, or beginnings of their names")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "bin" / "etude-bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=int, default=60)
    parser.add_argument("--peers", type=peer_names, default=peers.PEERS, metavar="LIST",
                        help=f"those of {','.join(peers.PEERS)} that run as well: all of them, if not given")
    parser.add_argument("--no-peers", action="store_const", dest="peers", const=[], help="Etude alone")
    parser.add_argument("--store", metavar="FILE", help="writes the run there, for --compare")
    parser.add_argument("--compare", metavar="FILE", help="says what is slower than in this stored run")
    args = parser.parse_args()
    if args.compare and not args.peers:
        parser.error("--compare needs the peers: it holds ratios to them against the stored ones")
    stored = read_stored(args.compare)
    systems, skipped = peers.start(args.program, args.threads, args.peers)
    chosen = [n for n in systems[0].workloads if not args.names or any(n.startswith(p) for p in args.names)]
    probes = systems[0].ask(":probes")
    print(f"{machine()['cpu']}, {args.threads} thread(s); medians of {args.rounds} interleaved rounds")
    print(f"probes: {probes['gflops']:.0f} GFLOP/s, copy {probes['copy_gb']:.1f} GB/s")
    for name, reason in skipped.items():
        print(f"{name}: skipped: {reason}")
    results, failed = run_workloads(systems, chosen, args)
    for system in systems:
        system.close()
    wanted = [n for n in costs.ENTRIES
              if (n in args.names if args.names else n != "build_library" and args.threads == 1)]
    before = costs.print_costs(wanted, report.human)
    failed = failed or any(isinstance(cost, str) for cost in before.values())
    record = {"machine": machine(), "probes": probes, "threads": args.threads, "skipped": skipped,
              "versions": {s.name: s.hello.get("version") for s in systems}, "results": results, "costs": before}
    out = ROOT / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    report.write(out, record)
    print(f"written: {out}/README.md")
    if args.store:
        pathlib.Path(args.store).write_text(json.dumps(record, indent=1) + "\n")
    if stored:
        failed = is_slower(stored, record, chosen if args.names else None) or failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
