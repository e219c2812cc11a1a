# SPDX-License-Identifier: Apache-2.0
"""The worker protocol of benchmarks/README.md, for peers written in Python (worker.cc in C++).

A workload is made by a function without arguments. It has `check()`, the values that are compared before
anything is timed, `run()`, one timed call, and `units`, how many of the workload's unit that call does.
"""
import json
import os
import resource
import sys
import time

import numpy as np
import values

SHORTEST = 3e-3  # seconds of a sample
# Of samples: time that has passed or, for a machine that others use as well, time that this process has computed.
CLOCK = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter


class Ready:
    """A workload whose check passed, warm, with as many calls to a sample as the clock needs."""

    def __init__(self, name, make):
        self.checksum = make().check()
        values.verify(name, self.checksum)
        self.instance = make()
        self.instance.run()
        self.inner = 1
        while self.sample() * self.inner * self.instance.units < SHORTEST:
            self.inner *= 2

    def sample(self):
        run, start = self.instance.run, CLOCK()
        for _ in range(self.inner):
            run()
        return (CLOCK() - start) / (self.inner * self.instance.units)

    def timed(self, budget):
        """Samples for so many seconds, and three at least, unless those take too long."""
        samples, start, passed = [], time.perf_counter(), 0
        while not samples or passed < (budget if len(samples) >= 3 else 10 * budget):
            samples.append(self.sample())
            passed = time.perf_counter() - start
        median, p10, p90 = np.quantile(samples, (.5, .1, .9))
        return {"median": median, "p10": p10, "p90": p90, "n": len(samples), "inner": self.inner,
                "checksum": self.checksum}


def rss():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


class Server:
    """Answers requests; `tables` has the workloads by mode: {"eager": {name: make}}."""

    def __init__(self, peer, version, tables):
        self.peer, self.version, self.tables = peer, version, tables
        self.ready, self.start_kb = {}, rss()

    def hello(self):
        names = {}
        for mode, table in self.tables.items():
            for name in table:
                names.setdefault(name, []).append(mode)
        return {"peer": self.peer, "version": self.version, "rss_kb": rss(), "workloads": names}

    def answer(self, line):
        name, *options = line.split()
        options = dict(option.split("=") for option in options)
        if name == ":hello":
            return self.hello()
        if name == ":rss":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return {"rss_kb": rss(), "peak_kb": peak, "start_kb": self.start_kb}
        if name == ":drop":
            self.ready.clear()
            return {"ok": True}
        mode = options.get("mode")
        if name not in self.tables.get(mode, ()):
            return {"skip": f"no workload {name} in mode {mode}"}
        return self.measure(name, mode, options)

    def measure(self, name, mode, options):
        make = self.tables[mode][name]
        if "first" in options:
            instance, start = make(), time.perf_counter()
            instance.run()
            return {"first_call": time.perf_counter() - start}
        if (name, mode) not in self.ready:
            self.ready[name, mode] = Ready(name, make)
        ready = self.ready[name, mode]
        if "setup" in options:
            return {"checksum": ready.checksum, "first_call": None}
        return ready.timed(float(options.get("ms", 100)) / 1e3)


def serve(peer, version, tables):
    server = Server(peer, version, tables)
    for line in sys.stdin:
        if line.strip() == ":quit":
            print(json.dumps({"ok": True}), flush=True)
            return
        try:
            reply = server.answer(line)
        except Exception as error:  # a failing workload is an answer, not an end
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)
