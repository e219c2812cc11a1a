# SPDX-License-Identifier: Apache-2.0
"""A server of a test: starts etude-serve on free ports, asks it, and ends it."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

# A sanitizer keeps memory that was freed, and shadows all memory.
MEMORY_SCALE = float(os.environ.get("ETUDE_TEST_MEMORY_SCALE", 1))
PROGRAM, ETUDE, MODELS, VENV = sys.argv[1:5]
del sys.argv[1:5]


def write_models(folder):
    subprocess.run([MODELS, folder], check=True, timeout=120)


def write_model(folder, name, seed):
    subprocess.run([MODELS, folder, name, str(seed)], check=True, timeout=120)


class Server:
    """A running etude-serve; `log` has the lines that it has written."""

    def __init__(self, *args, program=(PROGRAM,)):
        self.process = subprocess.Popen([*program, *args, "--http-port", "0"] + ([] if "--grpc-port" in args else ["--grpc-port", "off"]),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log, self.port, self.grpc_port = [], None, None
        self.has_log = threading.Condition()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        wanted = 1 + ("--grpc-port" in args and args[args.index("--grpc-port") + 1] != "off")
        for line in self.process.stdout:
            found = re.match(r"(HTTP|gRPC) on (.*):(\d+)$", line.strip())
            if found and found[1] == "HTTP":
                self.address, self.port = found[2], int(found[3])
            elif found:
                self.grpc_port = int(found[3])
            if (self.port is not None) + (self.grpc_port is not None) == wanted:
                return
        raise RuntimeError("the server did not start: " + "".join(self.log))

    def read_log(self):
        for line in self.process.stderr:
            with self.has_log:
                self.log.append(line)
                self.has_log.notify_all()

    def wait_for(self, text, seconds=30):
        with self.has_log:
            if not self.has_log.wait_for(lambda: any(text in line for line in self.log), seconds):
                raise AssertionError(f"no line has {text!r}: {''.join(self.log)}")

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, json.loads(body) if body else None

    def post(self, path, content=None, **more):
        status, _, body = self.ask("POST", path, json.dumps(content) if content is not None else "", **more)
        return status, json.loads(body) if body else None

    def infer(self, model, rows, name="x", datatype="FP32", shape=None, **more):
        shape = [len(rows), len(rows[0])] if shape is None else shape
        return self.post(f"/v2/models/{model}/infer", {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": rows}]}, **more)

    def metric(self, text):
        """The value of the metric whose line begins with `text`."""
        _, _, body = self.ask("GET", "/metrics")
        for line in body.decode().splitlines():
            if line.startswith(text) and not line.startswith("#"):
                return float(line.rsplit(" ", 1)[1])
        return None

    def wait_for_metric(self, name, value, seconds=30):
        end = time.monotonic() + seconds
        while (seen := self.metric(name)) != value:
            if time.monotonic() > end:
                raise AssertionError(f"{name} is never {value}, but {seen}")
            time.sleep(0.01)

    def memory(self, name="VmRSS"):
        """Resident memory in MiB; with VmHWM the most that it was since forget_peak()."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(name + r":\s*(\d+)", file.read())[1]) / 1024 / MEMORY_SCALE

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.reader.join(5)
            self.process.stdout.close()
            self.process.stderr.close()


class ServerTest(unittest.TestCase):
    """The models are written once for a file of tests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.models = os.path.join(cls.folder.name, "models")
        os.mkdir(cls.models)
        write_models(cls.models)

    def start(self, *args, **more):
        server = Server(*(args or (self.models,)), **more)
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        return server

    def refusal(self, *args):
        """What the server says when it does not start."""
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def certificate(self, name):
        """The files of a key and of a certificate for 127.0.0.1, which signs itself."""
        key, cert = (os.path.join(self.folder.name, name + end) for end in (".key", ".pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert, "-subj",
                        "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
        return key, cert
