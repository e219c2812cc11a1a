# SPDX-License-Identifier: Apache-2.0
"""The systems that run the workloads: Etude, PyTorch from Python, and PyTorch's C++ library."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
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
        self.workloads = self.hello.get("workloads", {})

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


class Missing(Exception):
    """A peer that cannot be had, and why."""


def run_quietly(command, what, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=dict(os.environ, **(environment or {})))
    if done.returncode != 0:
        raise Missing(f"{what}: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout.strip()


class Torch:
    """PyTorch in a private environment, made at first use."""

    def __init__(self):
        folder = pathlib.Path(os.environ.get("ETUDE_BENCH_TORCH", ROOT / "build" / "bench" / "torch"))
        self.python = folder / "bin" / "python"
        if not self.python.exists():
            print("==> installing the peer (PyTorch) into", folder, file=sys.stderr)
            run_quietly([sys.executable, "-m", "venv", folder], "python3-venv is missing")
            run_quietly([self.python, "-m", "pip", "install", "-q", "--no-deps", *TORCH_PACKAGES], "pip")
        libraries = [str(p) for p in folder.glob("lib/python3*/site-packages/nvidia/*/lib")]
        libraries += [str(p) for p in pathlib.Path("/usr/local").glob("cuda*/lib64")]
        self.environment = {"LD_LIBRARY_PATH": ":".join(libraries)}
        program = "import torch, pathlib; print(pathlib.Path(torch.__file__).parent)"
        self.package = pathlib.Path(run_quietly([self.python, "-c", program], "import torch", self.environment))

    def worker(self, threads):
        return Worker("torch", [self.python, HERE / "workloads" / "torch" / "worker.py"], threads, self.environment)

    def cpp_worker(self, threads):
        sources = [HERE / "workloads" / "libtorch" / "worker.cc", HERE / "worker.cc", HERE / "probes.cc"]
        headers = [HERE / "worker.h", HERE / "probes.h", HERE / "workloads" / "values.h"]
        program = ROOT / "build" / "bench" / "libtorch-worker"
        newest = max(p.stat().st_mtime for p in sources + headers)
        if not program.exists() or program.stat().st_mtime < newest:
            print("==> compiling the peer (libtorch)", file=sys.stderr)
            program.parent.mkdir(parents=True, exist_ok=True)
            include, library = self.package / "include", self.package / "lib"
            run_quietly(["c++", "-std=c++20", "-O2", "-w", f"-I{ROOT}", f"-I{include}",
                         f"-I{include}/torch/csrc/api/include", *sources, "-o", program, f"-L{library}", "-ltorch",
                         "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{library}", "-Wl,--allow-shlib-undefined"],
                        "compiling", {})
        return Worker("libtorch", [program, "--serve"], threads, self.environment)


def start(program, threads, with_peers):
    """The workers, and why others are missing."""
    systems, missing = [Worker("etude", [program, "--serve"], threads)], {}
    if not with_peers:
        return systems, missing
    try:
        torch = Torch()
    except Missing as reason:
        return systems, {"torch": str(reason), "libtorch": str(reason)}
    for name, make in (("torch", torch.worker), ("libtorch", torch.cpp_worker)):
        try:
            systems.append(make(threads))
        except Missing as reason:
            missing[name] = str(reason)
    return systems, missing
