# SPDX-License-Identifier: Apache-2.0
"""The systems that run the workloads: Etude; PyTorch from Python as it is and compiled, and its C++ library; JAX;
TensorFlow's functions as graphs and compiled by XLA."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TORCH_PACKAGES = ["torch==2.15.0", "numpy", "sympy", "networkx", "jinja2", "filelock", "fsspec", "markupsafe",
                  "typing_extensions", "mpmath", "nvidia-cusparselt-cu13", "nvidia-nccl-cu13",
                  "nvidia-nvshmem-cu13", "nvidia-cufile", "pandas", "python-dateutil", "six", "pillow", "safetensors"]
JAX_PACKAGES = ["jax==0.10.2", "jaxlib==0.10.2", "ml_dtypes==0.6.0", "numpy==2.4.6", "opt_einsum==3.4.0",
                "scipy==1.17.1"]
TENSORFLOW_PACKAGES = ["tensorflow-cpu==2.21.0", "absl-py==2.5.1", "astunparse==1.6.3", "flatbuffers==25.12.19",
                       "gast==0.7.0", "google-pasta==0.2.0", "grpcio==1.85.3", "h5py==3.14.0", "keras==3.15.1",
                       "ml_dtypes==0.6.0", "namex==0.1.0", "numpy==2.4.6", "opt_einsum==3.4.0", "optree==0.20.0",
                       "packaging==26.4", "protobuf==7.36.2", "requests==2.34.2", "certifi", "charset-normalizer",
                       "idna", "urllib3==2.8.0", "rich==15.0.0", "markdown-it-py==4.3.0", "mdurl==0.1.2", "Pygments",
                       "six==1.17.0", "termcolor==3.3.0", "typing_extensions", "wheel", "setuptools", "wrapt==2.5.2"]

# Etude's columns and the modes they are.
OURS = {"etude": "eager", "staged": "staged", "lazy": "lazy"}


class Worker:
    """A system that answers the worker protocol."""

    def __init__(self, name, command, threads, environment=None, mode=None):
        self.name = name
        environment = dict(os.environ, **(environment or {}), BENCH_THREADS=str(threads))
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env=environment,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.hello = self.ask(":hello")
        served = self.hello.get("workloads", {})
        # By workload, the mode that is asked for: the given one, or the first that the system has.
        self.modes = {w: mode or modes[0] for w, modes in served.items() if (mode in modes if mode else modes)}
        self.workloads = list(served)
        # A worker that cannot start has no rows, which nobody would miss.
        why = self.hello.get("error")
        self.fault = why and f"{why} before its first row; this says why: {' '.join(str(word) for word in command)}"

    def run(self, workload, options):
        return self.ask(f"{workload} mode={self.modes[workload]} {options}")

    def ask(self, request):
        try:
            print(request, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": f"{self.name} ended"}

    def close(self):
        self.ask(":quit")
        self.process.wait(timeout=20)


class Missing(Exception):
    """A peer that cannot be had, and why."""


def run_quietly(command, what, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=dict(os.environ, **(environment or {})))
    if done.returncode != 0:
        raise Missing(f"{what}: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout.strip()


def installed(name, title, packages):
    """The folder of a private environment with these packages: made at first use, completed when their list grows.

    One that is named by ETUDE_BENCH_NAME stays as it is where it is there.
    """
    given = os.environ.get(f"ETUDE_BENCH_{name.upper()}")
    folder = pathlib.Path(given or ROOT / "build" / "bench" / name)
    python, stamp = folder / "bin" / "python", folder / "packages.txt"
    is_new, wanted = not python.exists(), "\n".join(packages)
    if not is_new and (given or stamp.exists() and stamp.read_text() == wanted):
        return folder
    print(f"==> installing the peer ({title}) into", folder, file=sys.stderr)
    if is_new:
        run_quietly([sys.executable, "-m", "venv", folder], "python3-venv is missing")
    try:
        run_quietly([python, "-m", "pip", "install", "-q", "--no-deps", *packages], "pip")
    except Missing:
        if is_new:
            shutil.rmtree(folder)  # or it would be taken for a whole one next time
        raise
    stamp.write_text(wanted)
    return folder


class Torch:
    """PyTorch, from Python and from C++."""

    def __init__(self):
        folder = installed("torch", "PyTorch", TORCH_PACKAGES)
        self.python = folder / "bin" / "python"
        libraries = [str(p) for p in folder.glob("lib/python3*/site-packages/nvidia/*/lib")]
        libraries += [str(p) for p in pathlib.Path("/usr/local").glob("cuda*/lib64")]
        self.environment = {"LD_LIBRARY_PATH": ":".join(libraries)}
        program = "import torch, pathlib; print(pathlib.Path(torch.__file__).parent)"
        self.package = pathlib.Path(run_quietly([self.python, "-c", program], "import torch", self.environment))
        self.workers = {"torch": self.worker, "compile": self.compiled_worker, "libtorch": self.cpp_worker}

    def worker(self, threads, name="torch", mode="eager"):
        return Worker(name, [self.python, HERE / "workloads" / "torch" / "worker.py"], threads, self.environment, mode)

    def compiled_worker(self, threads):
        """The steps under torch.compile, which runs a C++ compiler for each."""
        return self.worker(threads, "compile", "staged")

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


class Jax:
    def __init__(self):
        self.python = installed("jax", "JAX", JAX_PACKAGES) / "bin" / "python"
        run_quietly([self.python, "-c", "import jax"], "import jax")
        self.workers = {"jax": self.worker}

    def worker(self, threads):
        return Worker("jax", [self.python, HERE / "workloads" / "jax" / "worker.py"], threads)


class TensorFlow:
    def __init__(self):
        self.python = installed("tensorflow", "TensorFlow", TENSORFLOW_PACKAGES) / "bin" / "python"
        run_quietly([self.python, "-c", "import tensorflow"], "import tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "3"})
        self.workers = {"tensorflow": lambda threads: self.worker(threads, "tensorflow", "graph"),
                        "xla": lambda threads: self.worker(threads, "xla", "xla")}

    def worker(self, threads, name, mode):
        return Worker(name, [self.python, HERE / "workloads" / "tensorflow" / "worker.py"], threads, mode=mode)


PACKAGES = {Torch: ("torch", "compile", "libtorch"), Jax: ("jax",), TensorFlow: ("tensorflow", "xla")}
PEERS = [name for names in PACKAGES.values() for name in names]


def start(program, threads, wanted):
    """The workers, Etude's first in its modes, and why some of the wanted peers are missing."""
    systems = [Worker(name, [program, "--serve"], threads, mode=mode) for name, mode in OURS.items()]
    missing = {}
    for package, names in PACKAGES.items():
        names = [name for name in names if name in wanted]
        try:
            workers = package().workers if names else {}
        except Missing as reason:
            missing |= dict.fromkeys(names, str(reason))
            continue
        for name in names:
            try:
                systems.append(workers[name](threads))
            except Missing as reason:
                missing[name] = str(reason)
    return systems, missing
