#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load on etude-serve and on FastAPI with onnxruntime: LeNet, one image a request, 64 clients.

  python3 benchmarks/serve/load.py BIN PYTHON [--clients 64] [--seconds 5] [--rounds 3]

BIN: the folder of etude-serve, etude and serve_models; PYTHON: with the packages of requirements.txt. The servers take turns, with the same
clients: one process with a socket for each client, which sends its next request when it has its answer. Answers are compared first.
Servers and clients share the processors, so the ratio is lower than it is with clients on another machine.
"""
import argparse
import json
import os
import re
import selectors
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

PATH = "/v2/models/lenet/infer"


def body():
    data = [round(((i * 7919) % 255) / 255, 4) for i in range(784)]
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 28, 28, 1], "data": data}]}).encode()


def answer_of(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}", body(), timeout=30) as answer:
        return json.load(answer)["outputs"][0]["data"]


class Client:
    """A connection that always has one request on its way."""

    def __init__(self, port, request):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request, self.got = request, b""

    def send(self):
        self.begin = time.perf_counter()
        self.socket.sendall(self.request)

    def read(self):
        """The seconds that the answer took, or None while it is incomplete."""
        self.got += self.socket.recv(65536)
        end = self.got.find(b"\r\n\r\n")
        if end < 0:
            return None
        length = int(re.search(rb"(?i)\ncontent-length: (\d+)", self.got)[1])
        if len(self.got) < end + 4 + length:
            return None
        if not self.got.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self.got[:300])
        self.got = b""
        return time.perf_counter() - self.begin


def load(port, count, seconds):
    """Requests a second, and the 99th percentile of their time in ms."""
    data = body()
    request = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    selector = selectors.DefaultSelector()
    for _ in range(count):
        client = Client(port, request)
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for key, _ in selector.select(1):
            took = key.data.read()
            if took is not None:
                times.append(took)
                key.data.send()
    whole = time.perf_counter() - begin
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    return len(times) / whole, 1e3 * statistics.quantiles(times, n=100)[98]


def start(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, int(process.stdout.readline().rsplit(":", 1)[1])


def start_peer(python, model):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([python, os.path.join(os.path.dirname(__file__), "peer.py"), model, str(port)])
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the peer does not start")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("python")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program = lambda name: os.path.join(options.bin, name)  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program("serve_models"), folder + "/lenet", "lenet", "1"], check=True)
        subprocess.run([program("etude"), "convert", folder + "/lenet", "--to", folder + "/lenet.onnx"], check=True)
        serve = [program("etude-serve"), folder + "/lenet", "--http-port", "0", "--grpc-port", "off", "--access-log", "off"]
        servers = {"etude serve": start(serve), "etude serve --batch 64": start([*serve, "--batch", "64"]),
                   "FastAPI, onnxruntime": start_peer(options.python, folder + "/lenet.onnx")}
        try:
            answers = {name: answer_of(port) for name, (_, port) in servers.items()}
            for name, got in answers.items():
                for a, b in zip(got, answers["FastAPI, onnxruntime"]):
                    assert abs(a - b) <= 1e-3 * abs(b) + 1e-5, (name, a, b)
            runs = {name: [] for name in servers}
            for _ in range(options.rounds):
                for name, (_, port) in servers.items():
                    runs[name].append(load(port, options.clients, options.seconds))
        finally:
            for process, _ in servers.values():
                process.terminate()
                process.wait(30)
    peer = [statistics.median(column) for column in zip(*runs["FastAPI, onnxruntime"])]
    print(f"{options.clients} clients, median of {options.rounds} rounds; ratios to FastAPI")
    for name, each in runs.items():
        rate, p99 = (statistics.median(column) for column in zip(*each))
        print(f"{name:24} {rate:9.0f} requests/s ({rate / peer[0]:5.2f}x)   p99 {p99:8.2f} ms ({p99 / peer[1]:5.2f}x)")


if __name__ == "__main__":
    main()
