# SPDX-License-Identifier: Apache-2.0
"""The Open Inference Protocol over HTTP, asked with Python's own client and with curl."""
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import unittest
import urllib.request

from server import ETUDE, PROGRAM, ServerTest


class ProtocolTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from server import Server
        cls.server = Server(cls.models)
        cls.addClassCleanup(cls.server.stop)

    def test_health_and_metadata(self):
        get = self.server.get
        self.assertEqual(get("/v2/health/live"), (200, {"live": True}))
        self.assertEqual(get("/v2/health/ready"), (200, {"ready": True}))
        status, server = get("/v2")
        self.assertEqual((status, server["name"]), (200, "etude"))
        self.assertIn("binary_tensor_data", server["extensions"])
        self.assertEqual(get("/v2/models/net/ready"), (200, {"name": "net", "ready": True}))
        self.assertEqual(get("/v2/models/net/versions/1/ready")[0], 200)
        status, net = get("/v2/models/net")
        self.assertEqual(net, {"name": "net", "versions": ["1"], "platform": "etude",
                               "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                               "outputs": [{"name": "output", "datatype": "FP32", "shape": [-1, 3]}]})
        self.assertEqual(get("/v2/models/net/versions/1")[1], net)

    def test_answers_equal_those_of_etude_run(self):
        rows = [[0.1, 2.0, -3.0, 4.5], [1.0, 0.0, 0.25, 8.0]]
        status, answer = self.server.infer("net", rows)
        self.assertEqual(status, 200)
        path = os.path.join(self.folder.name, "x.npy")
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                       struct.pack("<8f", *rows[0], *rows[1]))
        out = os.path.join(self.folder.name, "y.npy")
        subprocess.run([ETUDE, "run", os.path.join(self.models, "net"), "--input", path, "--output", out], check=True, timeout=60)
        with open(out, "rb") as file:
            wanted = struct.unpack("<6f", file.read()[-24:])
        output = answer["outputs"][0]
        self.assertEqual((output["name"], output["datatype"], output["shape"]), ("output", "FP32", [2, 3]))
        got = struct.unpack("<6f", struct.pack("<6f", *output["data"]))  # JSON keeps every bit
        self.assertEqual(got, wanted)

    def test_binary_tensors(self):
        values = struct.pack("<4f", 1, 2, 3, 4)
        head = json.dumps({"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4],
                                                 "parameters": {"binary_data_size": 16}}],
                           "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
        status, headers, body = self.server.ask("POST", "/v2/models/net/versions/1/infer", head + values,
                                                {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 200, body)
        length = int(headers["Inference-Header-Content-Length"])
        answer = json.loads(body[:length])
        self.assertEqual(answer["id"], "a")
        self.assertEqual(answer["outputs"][0]["parameters"]["binary_data_size"], 12)
        got = struct.unpack("<3f", body[length:])
        _, plain = self.server.infer("net", [[1, 2, 3, 4]])
        self.assertEqual(got, struct.unpack("<3f", struct.pack("<3f", *plain["outputs"][0]["data"])))

    def test_all_dtypes(self):
        names = {"b": "BOOL", "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64", "u8": "UINT8", "u16": "UINT16",
                 "u32": "UINT32", "u64": "UINT64", "f16": "FP16", "bf16": "BF16", "f32": "FP32", "f64": "FP64"}
        _, metadata = self.server.get("/v2/models/dtypes")
        paths = {each["datatype"]: each["name"] for each in metadata["inputs"]}
        self.assertEqual(sorted(paths), sorted(names.values()))
        inputs = [{"name": paths[t], "datatype": t, "shape": [2], "data": [True, False] if t == "BOOL" else [3, 50]} for t in names.values()]
        status, answer = self.server.post("/v2/models/dtypes/infer", {"inputs": inputs})
        self.assertEqual(status, 200, answer)
        for output in answer["outputs"]:
            wanted = [False, True] if output["datatype"] == "BOOL" else [6, 100]
            self.assertEqual(output["data"], wanted, output)
        self.assertEqual(sorted(o["datatype"] for o in answer["outputs"]), sorted(names.values()))

    def test_errors(self):
        for status, fragment, answer in (
                (404, "there is no model 'nett'. There are: centred, checked", self.server.get("/v2/models/nett")),
                (404, "model 'net' has no version '9'. Its versions: 1", self.server.get("/v2/models/net/versions/9")),
                (404, "there is no GET /v3", self.server.get("/v3")),
                (405, "takes POST, not GET", self.server.get("/v2/models/net/infer")),
                (405, "takes GET, not POST", self.server.post("/v2/models/net")),
                (400, "model 'net': input 'x' is FP32 of shape [1,5], but the model needs FP32 of shape [-1,4]",
                 self.server.infer("net", [[1, 2, 3, 4, 5]])),
                (400, "model 'net': input 'x' is INT32 of shape [1,4], but the model needs FP32",
                 self.server.infer("net", [[1, 2, 3, 4]], datatype="INT32")),
                (400, "model 'net' has no input 'y'. Its inputs: x", self.server.infer("net", [[1, 2, 3, 4]], name="y")),
                (400, "model 'net': input 'x' is missing; it is FP32 of shape [-1,4]", self.server.post("/v2/models/net/infer", {"inputs": []})),
                (400, "output 'output' has the value -inf, which JSON cannot write", self.server.infer("logarithm", [[0, 1, 1, 1]])),
                (400, "x must be positive", self.server.infer("checked", [[-1, 1, 1, 1]])),
                (400, "the request is no JSON", self.server.post("/v2/models/net/infer"))):
            self.assertEqual(answer[0], status, answer)
            self.assertIn(fragment, answer[1]["error"])

    def test_allowed_methods(self):
        for method, path, allowed in (("POST", "/v2/models/net", "GET, HEAD"), ("GET", "/v2/models/net/infer", "POST"),
                                      ("PUT", "/v2/repository/index", "POST")):
            status, headers, _ = self.server.ask(method, path, "")
            self.assertEqual((status, headers["Allow"]), (405, allowed))

    def test_metrics(self):
        self.server.infer("net", [[1, 2, 3, 4]])
        self.assertGreaterEqual(self.server.metric('etude_serve_requests_total{model="net",version="1"}'), 1)
        self.assertGreaterEqual(self.server.metric('etude_serve_http_responses_total{code="200"}'), 1)
        self.assertGreaterEqual(self.server.metric('etude_serve_request_seconds_count{model="net",version="1"}'), 1)

    def test_gauges(self):
        self.assertGreater(self.server.metric("process_resident_memory_bytes"), 1 << 20)
        self.assertEqual(self.server.metric('etude_serve_waiting{model="net",version="1"}'), 0)
        clients = [socket.create_connection(("127.0.0.1", self.server.port), timeout=30) for _ in range(5)]
        self.server.wait_for_metric("etude_serve_http_connections", 6)  # and the client that asks
        self.assertGreaterEqual(self.server.metric("process_open_fds"), 11)
        for client in clients:
            client.close()
        self.server.wait_for_metric("etude_serve_http_connections", 1)

    def test_access_log(self):
        self.server.get("/v2/models/none%0a")
        self.server.wait_for('127.0.0.1 "GET /v2/models/none%0a" 404 ')

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        url = f"http://127.0.0.1:{self.server.port}/v2/models/net/infer"
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
        for more in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], ["--http1.0"]):
            done = subprocess.run(["curl", "-sS", "--fail", "-d", body, url, *more], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertAlmostEqual(sum(json.loads(done.stdout)["outputs"][0]["data"]), 1, places=5)


class SecurityTest(ServerTest):
    def test_only_loopback_without_tls(self):
        text = self.refusal(self.models, "--host", "0.0.0.0")
        self.assertIn("--host 0.0.0.0 is not loopback, and there is no TLS", text)

    def test_refusals_at_the_start(self):
        self.assertIn("is no folder. Name a folder that saved::save() wrote", self.refusal(self.models + "/none"))
        self.assertIn("--http-port is '70000', but must be a port", self.refusal(self.models, "--http-port", "70000"))
        self.assertIn("two folders have the name of model 'net'", self.refusal(self.models, self.models + "/net"))
        self.check_refused_tokens()
        for option in ("--poll", "--timeout", "--drain", "--delay", "--read-timeout"):
            for value in ("nan", "inf", "-1", "x"):
                self.assertIn(f"{option}: '{value}' is no number from ", self.refusal(self.models, f"{option}={value}"))
        self.assertIn("--host is 'example.com', but must be an IP address, such as 127.0.0.1",
                      self.refusal(self.models, "--host", "example.com"))
        self.assertIn("cannot be used for TLS", self.refusal(self.models, "--tls-cert", "/dev/null", "--tls-key", "/dev/null"))
        server = self.start()
        self.assertIn("Choose another --http-port", self.refusal(self.models, "--grpc-port", "off", "--http-port", str(server.port)))
        self.assertEqual(server.stop(), 0)

    def check_refused_tokens(self):
        path = os.path.join(self.folder.name, "token")
        for content, text in ((b" \r\nsecret", "has no token in its first line"), (b"a" * 65537, "has 65537 bytes, but must be a regular file")):
            with open(path, "wb") as file:
                file.write(content)
            self.assertIn(text, self.refusal(self.models, "--token-file", path))
        self.assertIn("is no regular file", self.refusal(self.models, "--token-file", "/dev/zero"))
        self.assertIn("cannot be read (No such file", self.refusal(self.models, "--token-file", path + "none"))
        for option in ("--token", "--token-file"):
            self.assertIn(f"{option}: the text is empty. Is a variable not set?", self.refusal(self.models, option, ""))

    def test_hosts(self):
        server = self.start(self.models, "--host", "localhost")
        self.assertEqual(server.get("/v2/health/live")[0], 200)
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("this machine has no IPv6")
        server = self.start(self.models, "--host", "::1")
        self.assertEqual(server.address, "http://[::1]")
        with urllib.request.urlopen(f"{server.address}:{server.port}/v2/health/live", timeout=20) as answer:
            self.assertEqual(json.load(answer), {"live": True})

    def test_a_token_of_a_file(self):
        path = os.path.join(self.folder.name, "crlf")
        with open(path, "wb") as file:
            file.write(b"secret \t\r\n")
        server = self.start(self.models, "--token-file", path)
        for header, status in (("Bearer secret", 200), ("bearer secret", 200), ("BEARER secret", 200), ("Bearer Secret", 401), ("Bearer", 401),
                               ("Basic secret", 401)):
            self.assertEqual(server.ask("GET", "/v2/models/net", headers={"Authorization": header})[0], status, header)

    def test_a_key_of_another_certificate(self):
        if not shutil.which("openssl"):
            self.skipTest("the program openssl is not installed")
        key, cert = self.certificate("one")[0], self.certificate("two")[1]
        self.assertIn(f"the key '{key}' (--tls-key) does not belong to the certificate '{cert}'",
                      self.refusal(self.models, "--tls-cert", cert, "--tls-key", key))

    def test_token(self):
        server = self.start(self.models, "--token", "secret")
        self.assertEqual(server.get("/v2/health/live")[0], 200)
        for headers in ({}, {"Authorization": "Bearer secreT"}, {"Authorization": "Bearer secret1"}):
            status, answer, body = server.ask("GET", "/v2/models/net", headers=headers)
            self.assertEqual((status, answer["WWW-Authenticate"]), (401, "Bearer"))
            self.assertIn("needs the header 'Authorization: Bearer TOKEN'", body.decode())
        self.assertEqual(server.ask("GET", "/v2/models/net", headers={"Authorization": "Bearer secret"})[0], 200)

    def test_mutual_tls(self):
        if not shutil.which("openssl"):
            self.skipTest("the program openssl is not installed")
        key, cert = self.certificate("server")
        client_key, client_cert = self.certificate("client")
        server = self.start(self.models, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", client_cert)
        url = f"https://127.0.0.1:{server.port}/v2/models/net"
        context = ssl.create_default_context(cafile=cert)
        with self.assertRaises((OSError, ssl.SSLError)):
            urllib.request.urlopen(url, context=context, timeout=20).read()
        context.load_cert_chain(client_cert, client_key)
        with urllib.request.urlopen(url, context=context, timeout=20) as answer:
            self.assertEqual(json.load(answer)["name"], "net")
        self.assertEqual(server.stop(), 0)


class JoiningTest(ServerTest):
    def ask_together(self, server, model, rows, **more):
        """The answers to requests of one row each, which are sent at the same time."""
        answers = [None] * len(rows)

        def ask(i):
            answers[i] = server.infer(model, [rows[i]], **more)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(rows))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def test_joined_answers_are_those_of_single_requests(self):
        server = self.start(self.models, "--batch", "8", "--delay", "300")
        alone = self.start(self.models)
        answers = self.ask_together(server, "net", [[i, 1, 2, 3] for i in range(8)])
        calls = server.metric('etude_serve_calls_total{model="net",version="1"}')
        self.assertLess(calls, 8)
        self.assertEqual(server.metric('etude_serve_requests_total{model="net",version="1"}'), 8)
        equal = any("model 'net'" in line and "with equal bits" in line for line in server.log)
        for i, (status, answer) in enumerate(answers):
            self.assertEqual(status, 200)
            wanted = alone.infer("net", [[i, 1, 2, 3]])[1]["outputs"][0]["data"]
            for got, value in zip(answer["outputs"][0]["data"], wanted):
                self.assertAlmostEqual(got, value, delta=0 if equal else 1e-6)

    def test_rows_that_depend_on_each_other_stay_alone(self):
        server = self.start(self.models, "--batch", "8", "--delay", "100")
        server.wait_for("the results of function 'f' for a row depend on the other rows")
        for status, answer in self.ask_together(server, "centred", [[i, 1, 2, 3] for i in range(4)]):
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [0, 0, 0, 0])

    def test_functions_of_several_graphs_stay_alone(self):
        server = self.start(self.models, "--batch", "8", "--delay", "100")
        server.wait_for("model 'ranks' version 1 is ready; requests stay alone: function 'f' has 2 graphs")
        for status, answer in self.ask_together(server, "ranks", [[[i, 1], [2, 3]] for i in range(4)], shape=[1, 2, 2]):
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], [0, 0, 0, 0])

    def test_a_bad_request_fails_alone(self):
        server = self.start(self.models, "--batch", "8", "--delay", "300")
        answers = self.ask_together(server, "checked", [[4] * 4, [-1] * 4])
        self.assertEqual((answers[0][0], answers[0][1]["outputs"][0]["data"]), (200, [2, 2, 2, 2]))
        self.assertEqual(answers[1][0], 400)


class DrainTest(ServerTest):
    def test_requests_are_answered_after_sigterm(self):
        server = self.start(os.path.join(self.models, "slow"))
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            server.infer("slow", [2000000], name="n", datatype="INT64", shape=[], timeout=60)))
        thread.start()
        while not server.metric("etude_serve_calls_total"):
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        thread.join()
        self.assertEqual(answers[0][0], 200, answers)
        self.assertEqual(answers[0][1]["outputs"][0]["data"], [2000000])
        self.assertEqual(server.process.wait(30), 0)  # a second signal would end it with status 1
        server.stop()
        server.wait_for("all requests are answered")

    def test_etude_without_its_server(self):
        alone = os.path.join(self.folder.name, "etude")
        shutil.copy(ETUDE, alone)
        done = subprocess.run([alone, "serve", self.models], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"etude: serve: the program {alone}-serve cannot be run: No such file or directory", done.stderr)

    def test_version(self):
        for program in ((PROGRAM,), (ETUDE, "serve")):
            done = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^etude \d+\.\d+\.\d+\n$")

    def test_etude_starts_the_server(self):
        server = self.start(self.models, program=(ETUDE, "serve"))
        self.assertEqual(server.get("/v2/models/net/ready")[0], 200)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
