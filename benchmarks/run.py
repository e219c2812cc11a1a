#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the workloads beside their peers and prints ratios: `./dev bench [NAME...] [--threads N] [--no-peers]`.

One process per system is held open; systems take turns, so that noise of the machine meets all alike; a
workload is timed only after its result was checked. What a program costs before it computes follows: start,
compile, compile_O2 and, only when named since it takes minutes, build_library. Writes build/bench/results.json.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import costs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ORDER = ["add_2x2", "add_chain_2x2", "tape_add_2x2", "tape100_2x2", "tape100_scalar", "matmul_many_2x2",
         "matmul_many_16x16", "scan", "l2hmc_10", "l2hmc_200", "rnn_fb", "mlp_b32", "mlp_b128", "lenet_b64",
         "lenet_b128", "resnet56_b32", "resnet56_b128", "transformer", "ew_1e3", "ew_1e6", "ew_3e7", "gemm_32",
         "gemm_64", "gemm_128", "gemm_256", "gemm_512", "gemm_1024", "conv3x3_fwd", "conv3x3_fb"]
TORCH_PACKAGES = ["torch==2.15.0", "numpy", "sympy", "networkx", "jinja2", "filelock", "fsspec", "markupsafe",
                  "typing_extensions", "mpmath", "nvidia-cusparselt-cu13", "nvidia-nccl-cu13",
                  "nvidia-nvshmem-cu13", "nvidia-cufile"]


class Worker:
    """A system that answers the worker protocol."""

    def __init__(self, name, command, threads, environment=None):
        self.name = name
        environment = dict(os.environ, **(environment or {}), BENCH_THREADS=str(threads))
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env=environment,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.hello = self.ask(":hello")

    def ask(self, request):
        print(request, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            return {"error": f"{self.name} ended"}
        return json.loads(line)

    def close(self):
        try:
            self.ask(":quit")
        except (BrokenPipeError, ValueError):
            pass
        self.process.wait(timeout=20)


def torch_environment():
    """The private environment of the peer, made at first use; None and the reason if it cannot be had."""
    folder = pathlib.Path(os.environ.get("ETUDE_BENCH_TORCH", ROOT / "build" / "bench" / "torch"))
    python = folder / "bin" / "python"
    if not python.exists():
        print("==> installing the peer (PyTorch) into", folder, file=sys.stderr)
        made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return None, {}, "python3-venv is missing"
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", *TORCH_PACKAGES]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None, {}, "pip: " + (done.stderr.strip().splitlines() or ["failed"])[-1]
    libraries = [str(p) for p in folder.glob("lib/python3*/site-packages/nvidia/*/lib")]
    libraries += [str(p) for p in pathlib.Path("/usr/local").glob("cuda*/lib64")]
    environment = {"LD_LIBRARY_PATH": ":".join(libraries)}
    trial = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False,
                           env=dict(os.environ, **environment))
    if trial.returncode != 0:
        return None, {}, "import torch: " + trial.stderr.strip().splitlines()[-1]
    return python, environment, ""


def workers(args):
    systems = [Worker("etude", [args.program, "--serve"], args.threads)]
    skipped = {}
    if not args.no_peers:
        python, environment, reason = torch_environment()
        if python:
            command = [python, HERE / "workloads" / "torch" / "worker.py"]
            systems.append(Worker("torch", command, args.threads, environment))
        else:
            skipped["torch"] = reason
    return systems, skipped


def measure(systems, name, rounds, budget_ms):
    results = {}
    for system in systems:
        reply = system.ask(f"{name} mode=eager setup=1")
        if "checksum" not in reply:
            results[system.name] = reply
    samples = {s.name: [] for s in systems if s.name not in results}
    for _ in range(rounds):
        for system in systems:
            if system.name in samples:
                samples[system.name].append(system.ask(f"{name} mode=eager ms={budget_ms}"))
    for system, replies in samples.items():
        medians = [r["median"] for r in replies]
        results[system] = {"median": statistics.median(medians), "p10": min(r["p10"] for r in replies),
                           "p90": max(r["p90"] for r in replies), "checksum": replies[0]["checksum"]}
    for system in systems:
        system.ask(":drop")
    return results


def human(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= scale or unit == "ns":
            return f"{seconds / scale:.3g} {unit}"


def cell(result):
    if "median" not in result:
        return result.get("skip") or result.get("error") or "-"
    return human(result["median"])


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cpu": model or platform.processor(), "cpus": len(os.sched_getaffinity(0)),
            "time": time.strftime("%Y-%m-%d"), "kernel": platform.release()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="workloads, or beginnings of their names")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "bin" / "etude-bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=int, default=60)
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args()
    systems, skipped = workers(args)
    chosen = [n for n in ORDER if not args.names or any(n.startswith(p) for p in args.names)]
    print(f"{machine()['cpu']}, {args.threads} thread(s); medians of {args.rounds} interleaved rounds")
    for name, reason in skipped.items():
        print(f"{name}: skipped: {reason}")
    print(f"{'workload':20}" + "".join(f"{s.name:>14}" for s in systems) + "         ratio  (torch / etude)")
    results, failed = {}, False
    for name in chosen:
        results[name] = measure(systems, name, args.rounds, args.ms)
        ours, peer = results[name].get("etude", {}), results[name].get("torch", {})
        ratio = f"{peer['median'] / ours['median']:10.2f}" if "median" in ours and "median" in peer else " " * 10
        failed = failed or "error" in ours
        print(f"{name:20}" + "".join(f"{cell(results[name][s.name]):>14}" for s in systems) + "    " + ratio, flush=True)
    for system in systems:
        system.close()
    wanted = [n for n in costs.ENTRIES
              if (n in args.names if args.names else n != "build_library" and args.threads == 1)]
    before = costs.print_costs(wanted, human)
    failed = failed or any(isinstance(cost, str) for cost in before.values())
    out = ROOT / "build" / "bench" / "results.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "threads": args.threads, "skipped": skipped,
                               "versions": {s.name: s.hello.get("version") for s in systems},
                               "results": results, "costs": before}, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
