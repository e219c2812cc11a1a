#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load on etude-serve and on FastAPI with onnxruntime: LeNet, one image a request, 64 clients.

  python3 benchmarks/serve/load.py BIN PYTHON [--clients 64] [--seconds 5] [--rounds 5]

BIN: the folder of etude-serve, etude, serve_models and serve-load; PYTHON: with the packages of requirements.txt. Answers are
compared first. Then the servers take turns, with the clients of load.cc. The peer has a process for each processor, which is its
fastest way. Servers and clients share the processors, so the ratio is lower than it is with clients on another machine; the first
line shows what the clients and HTTP alone reach.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PATH = "/v2/models/lenet/infer"
PROCESSES = len(os.sched_getaffinity(0))
ALONE, JOINED, PEER = "etude serve", "etude serve --batch 64", f"FastAPI, onnxruntime, {PROCESSES} processes"
# Name, what is compared with what, the figure of each (0: requests a second, 2: p99), and the aim.
AIMS = (("requests/s, single, beside the peer", ALONE, PEER, 0, 3.0), ("requests/s, joined, beside the peer", JOINED, PEER, 0, 3.0),
        ("p99, single, beside the peer", ALONE, PEER, 2, 0.5), ("p99, joined, beside the peer", JOINED, PEER, 2, 0.5),
        ("requests/s, joined, beside single", JOINED, ALONE, 0, 1.5))
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def say(text):
    print(text, file=sys.stderr, flush=True)


def body():
    data = [round(((i * 7919) % 255) / 255, 4) for i in range(784)]
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 28, 28, 1], "data": data}]}).encode()


def answer_of(port):
    with OPENER.open(f"http://127.0.0.1:{port}{PATH}", body(), timeout=30) as answer:
        return json.load(answer)["outputs"][0]["data"]


def check_answers(ports, clients):
    """Requires that all servers return the scores of the peer, also to many clients at once. A server may join their requests."""
    wanted = answer_of(ports[PEER])
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for name, port in ports.items():
            for got in pool.map(answer_of, [port] * 4 * clients):
                for a, b in zip(got, wanted, strict=True):
                    if abs(a - b) > 1e-3 * abs(b) + 1e-5:
                        raise RuntimeError(f"{name} answers {got}, but {PEER} {wanted}")


def load(program, port, options, method, path, *more):
    """Requests a second, and the 50th and 99th percentile of their time in ms."""
    done = subprocess.run([program, str(port), str(options.clients), str(options.seconds), method, path, *more], capture_output=True,
                          text=True, timeout=options.seconds + 60, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return tuple(json.loads(done.stdout).values())


@contextlib.contextmanager
def running(command, log, **more):
    """The process of a server, which ends with the block. An error of the block is told with what the server wrote."""
    with open(log, "w+", encoding="utf-8") as errors, subprocess.Popen(command, stderr=errors, **more) as process:
        try:
            yield process
        except Exception:
            errors.seek(0)
            say(f"{command[0]} wrote:\n{errors.read()[-2000:]}")
            raise
        finally:
            process.terminate()
            process.wait(30)


def start(stack, command, log):
    process = stack.enter_context(running(command, log, stdout=subprocess.PIPE, text=True))
    line = process.stdout.readline()
    if not line.startswith("HTTP on "):
        raise RuntimeError(f"{command[0]} does not start")
    return int(line.rsplit(":", 1)[1])


def start_peer(stack, python, model, log):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = stack.enter_context(running([python, os.path.join(os.path.dirname(__file__), "peer.py"), model, str(port), str(PROCESSES)], log))
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return port
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise RuntimeError(f"the peer, {PEER}, does not start")


def measure(options, folder):
    """By name the figures of each round; and those of the clients alone."""
    program = lambda name: os.path.join(options.bin, name)  # noqa: E731
    subprocess.run([program("serve_models"), folder + "/lenet", "lenet", "1"], check=True)
    subprocess.run([program("etude"), "convert", folder + "/lenet", "--to", folder + "/lenet.onnx"], check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/body.json", "wb") as file:
        file.write(body())
    serve = [program("etude-serve"), folder + "/lenet", "--http-port", "0", "--grpc-port", "off", "--access-log", "off"]
    with contextlib.ExitStack() as stack:
        ports = {ALONE: start(stack, serve, folder + "/alone.log"), JOINED: start(stack, [*serve, "--batch", "64"], folder + "/joined.log"),
                 PEER: start_peer(stack, options.python, folder + "/lenet.onnx", folder + "/peer.log")}
        check_answers(ports, options.clients)
        say("the answers of all servers agree")
        alone = load(program("serve-load"), ports[ALONE], options, "GET", "/v2/health/live")
        runs = {name: [] for name in ports}
        for i in range(options.rounds):
            say(f"round {i + 1} of {options.rounds}")
            for name, port in ports.items():
                runs[name].append(load(program("serve-load"), port, options, "POST", PATH, folder + "/body.json"))
        return runs, alone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("python")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            runs, alone = measure(options, folder)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"load.py: {error}")
    medians = {name: tuple(statistics.median(column) for column in zip(*each)) for name, each in runs.items()}
    print(f"LeNet, one image a request, {options.clients} clients; medians of rounds of {options.seconds:g} s: {options.rounds}\n")
    print("| server | requests/s | p50 | p99 |\n| --- | --- | --- | --- |")
    print(f"| the clients alone: GET /v2/health/live | {alone[0]:.0f} | {alone[1]:.2f} ms | {alone[2]:.2f} ms |")
    for name, (rate, middle, last) in medians.items():
        print(f"| {name} | {rate:.0f} | {middle:.2f} ms | {last:.2f} ms |")
    print("\n| ratio | median | rounds | aim | |\n| --- | --- | --- | --- | --- |")
    for name, of, to, figure, aim in AIMS:
        each = [a[figure] / b[figure] for a, b in zip(runs[of], runs[to])]
        ratio = statistics.median(each)
        met = ratio >= aim if figure == 0 else ratio <= aim
        bound = f"at least {aim}" if figure == 0 else f"at most {aim}"
        print(f"| {name} | {ratio:.2f} | {min(each):.2f} to {max(each):.2f} | {bound} | {'met' if met else 'missed'} |")


if __name__ == "__main__":
    main()
