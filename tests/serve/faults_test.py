# SPDX-License-Identifier: Apache-2.0
"""Clients that send garbage, half requests or slow bytes, that vanish, or that are thousands; models that fail."""
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import threading
import time
import unittest

from server import ServerTest

INFER = "POST /v2/models/{}/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n"
CHUNKED = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = json.dumps({"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [10 ** 15]}]})


class FaultsTest(ServerTest):
    def connect(self, server):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self.addCleanup(client.close)
        return client

    def answer_to(self, server, data):
        client = self.connect(server)
        client.sendall(data)
        out = b""
        while chunk := client.recv(65536):
            out += chunk
        return out.decode(errors="replace")

    def check_alive(self, server):
        status, answer = server.infer("net", [[1, 2, 3, 4]])
        self.assertEqual(status, 200, answer)

    def test_garbage(self):
        server = self.start()
        generator = random.Random(1)
        for _ in range(50):
            client = self.connect(server)
            try:
                client.sendall(generator.randbytes(generator.randrange(1, 3000)))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except ConnectionError:
                pass
        self.assertIn("400 Bad Request", self.answer_to(server, b"NOT HTTP AT ALL\r\n\r\n"))
        self.assertIn("this is no HTTP request", self.answer_to(server, b"GET\r\n\r\n"))
        self.assertIn("400 Bad Request", self.answer_to(server, b"GET /v2 HTTP/1.1\r\nx: " + b"y" * 20000 + b"\r\n\r\n"))
        self.check_alive(server)

    def test_bodies_of_garbage(self):
        server = self.start()
        generator = random.Random(2)
        good = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
        for _ in range(200):
            text = bytearray(good, "ascii")
            for _ in range(generator.randrange(1, 4)):
                text[generator.randrange(len(text))] = generator.randrange(256)
            headers = {"Inference-Header-Content-Length": str(generator.randrange(200))} if generator.random() < 0.3 else {}
            status, _, body = server.ask("POST", "/v2/models/net/infer", bytes(text), headers)
            self.assertIn(status, (200, 400, 404, 413), body)
            json.loads(body)
        self.check_alive(server)

    def test_memory_of_hostile_json(self):
        server = self.start(self.models, "--access-log", "off")
        count = 10 ** 6

        def given(shape, data, name="x", datatype="FP32"):
            return '{"inputs":[{"name":"%s","datatype":"%s","shape":%s,"data":%s}]}' % (name, datatype, shape, data)

        small = given("[1,4]", "[1,2,3,4]")
        bodies = {
            "a million empty lists": (200, given("[1,4]", "[" + "[]," * count + "1,2,3,4]")),
            "a million lists of one number": (400, given("[1,4]", "[" + "[1]," * count + "1]")),
            "brackets": (413, given("[1,4]", "[" * count)),
            "brackets of an unknown member": (413, '{"more":' + "[" * count),
            "objects": (413, '{"a":' * count),
            "a number of a million digits": (200, given("[1,4]", "[0." + "3" * count + ",2,3,4]")),
            "a number that is too large": (400, given("[1,4]", "[1" + "0" * count + ",2,3,4]")),
            "a million sizes": (400, given("[" + "1," * count + "1]", "[1]")),
            "a shape without its data": (400, given("[1000000000000,4]", "[1]")),
            "a million inputs": (400, '{"inputs":[' + '{"name":"x","datatype":"FP32","shape":[0,4],"data":[]},' * (count // 10) + "{}]}"),
            "a million outputs": (413, small[:-1] + ',"outputs":[' + '{"name":"output"},' * (count // 10) + "{}]}"),
            "a million members": (200, small[:-1] + "".join(f',"{i}":{{}}' for i in range(count)) + "}"),
            "a long name": (400, given("[1,4]", "[1,2,3,4]", name="n" * count)),
            "a text without an end": (400, '{"inputs":"' + "\\u0041" * count),
            "a million numbers": (400, given(f"[{count // 4},4]", "[" + "0," * (count - 1) + "0]")[:-1] + ',"outputs":[{"name":"none"}]}'),
        }
        self.check_alive(server)
        for name, (wanted, text) in bodies.items():
            before = server.memory()
            server.forget_peak()
            status, _, answer = server.ask("POST", "/v2/models/net/infer", text)
            self.assertEqual(status, wanted, (name, answer[:300]))
            grown = server.memory("VmHWM") - before
            # The text once; its tensors, which take twice as much; and what the allocator keeps.
            self.assertLess(grown, 6 * len(text) / 2 ** 20 + 8, name)
        self.check_alive(server)

    def test_limits_of_bodies(self):
        server = self.start(self.models, "--body-limit", "1", "--memory", "2")
        self.assertIn("the body is larger than 1048576 bytes, the limit of this server (--body-limit)",
                      self.answer_to(server, INFER.format("net", 2 << 20).encode()))
        text = "the bodies of requests and answers have reached the limit of 2097152 bytes (--memory)"
        # One is short of a byte, one of the end of its chunks.
        holders = [self.connect(server) for _ in range(2)]
        holders[0].sendall(INFER.format("net", 1 << 20).encode() + b" " * ((1 << 20) - 1))
        holders[1].sendall(CHUNKED + b"100000\r\n" + b" " * (1 << 20))
        server.wait_for_metric("etude_serve_http_body_bytes", (2 << 20) - 1)
        status, answer = server.infer("net", [[1, 2, 3, 4]])
        self.assertEqual(status, 503)
        self.assertIn(text, answer["error"])
        # A body whose length is not known is refused when its bytes come.
        self.assertIn(text, self.answer_to(server, CHUNKED + b"ffff\r\n" + b" " * 0xffff))
        for holder in holders:
            holder.close()
        server.wait_for_metric("etude_serve_http_body_bytes", 0)
        self.check_alive(server)

    def test_half_sent_bodies_count_as_what_was_sent(self):
        # The budget is that of two whole bodies.
        server = self.start(self.models, "--body-limit", "1", "--memory", "2", "--access-log", "off")
        wanted = server.infer("net", [[1, 2, 3, 4]])[1]["outputs"][0]["data"]
        before = server.memory()
        holders = []
        for i in range(400):
            client = self.connect(server)
            client.sendall((CHUNKED + b"fffff\r\n", INFER.format("net", 1 << 20).encode())[i % 2] + b" " * 1000)
            holders.append(client)
        server.wait_for_metric("etude_serve_http_body_bytes", 400 * 1000)
        for _ in range(20):
            status, answer = server.infer("net", [[1, 2, 3, 4]])
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["outputs"][0]["data"], wanted)
        self.assertLess(server.memory() - before, 40)
        # One of the holders sends the rest, and has its answer.
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()
        rest = body + b" " * (0xfffff - 1000 - len(body))
        holders[0].sendall(rest + b"\r\n0\r\n\r\n")
        self.assertIn(b"200 OK", holders[0].recv(65536))

    def test_slow_bytes_are_cut(self):
        server = self.start(self.models, "--read-timeout", "0.5")
        for data in (b"GET /v2 HT", INFER.format("net", 100).encode() + b"{"):
            client = self.connect(server)
            client.sendall(data)
            begin = time.monotonic()
            try:
                while time.monotonic() < begin + 10:
                    client.sendall(b"x")
                    time.sleep(0.05)
            except ConnectionError:
                pass
            self.assertLess(time.monotonic() - begin, 5)
        self.check_alive(server)

    def test_a_client_that_leaves_cancels_its_call(self):
        server = self.start()
        client = self.connect(server)
        client.sendall(INFER.format("slow", len(SLOW)).encode() + SLOW.encode())
        while not server.metric('etude_serve_calls_total{model="slow",version="1"}'):
            time.sleep(0.01)
        client.close()
        # The only worker of the model is free again.
        status, answer = server.infer("slow", [5], name="n", datatype="INT64", shape=[])
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, [5]))
        self.assertEqual(server.metric("etude_serve_clients_gone_total"), 1)

    def test_deadlines(self):
        server = self.start(self.models, "--timeout", "1")
        request = json.loads(SLOW)
        for timeout_us, least_s, most_s in ((None, 1, 10), (50000, 0.05, 1)):
            if timeout_us:
                request["parameters"] = {"timeout": timeout_us}
            status, answer = server.post("/v2/models/slow/infer", request)
            self.assertEqual(status, 504)
            waited = re.search(r"the deadline of the request has passed, after (\d+\.\d+) s", answer["error"])
            self.assertTrue(waited and least_s <= float(waited[1]) < most_s, answer["error"])
        status, _ = server.infer("slow", [5], name="n", datatype="INT64", shape=[])
        self.assertEqual(status, 200)

    def test_a_full_queue(self):
        server = self.start(self.models, "--queue", "2")
        clients = [self.connect(server) for _ in range(3)]
        clients[0].sendall(INFER.format("slow", len(SLOW)).encode() + SLOW.encode())
        server.wait_for_metric('etude_serve_calls_total{model="slow",version="1"}', 1)
        for client in clients[1:]:
            client.sendall(INFER.format("slow", len(SLOW)).encode() + SLOW.encode())
        server.wait_for_metric('etude_serve_waiting{model="slow",version="1"}', 2)
        status, answer = server.post("/v2/models/slow/infer", json.loads(SLOW))
        self.assertEqual(status, 503)
        self.assertIn("model 'slow' has 2 requests in its queue, which is its limit (--queue)", answer["error"])
        self.check_alive(server)  # another model has a queue of its own

    def test_ten_thousand_connections(self):
        count = 10000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 500), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < count + 100:
            self.skipTest(f"this machine allows {hard} open files only")
        server = self.start(self.models, "--access-log", "off")
        self.check_alive(server)
        before = server.memory()
        clients = []
        for i in range(count):
            clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            clients[-1].sendall((b"GET /v2 HTTP/1.1\r\n", INFER.format("net", 1000).encode() + b"{", b"")[i % 3])
        server.wait_for_metric("etude_serve_http_connections", count + 1)
        self.check_alive(server)
        self.assertLess(server.memory() - before, 200)
        for client in clients:
            client.close()
        server.wait_for_metric("etude_serve_http_connections", 1)
        self.check_alive(server)
        self.assertEqual(server.stop(), 0)

    def test_clients_that_do_not_read_are_cut(self):
        server = self.start(self.models, "--read-timeout", "0.5", "--access-log", "off")
        rows = 400000
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 4], "parameters": {"binary_data_size": 16 * rows}}]})
        clients = [self.connect(server) for _ in range(3)]
        for client in clients:
            client.sendall(INFER.format("net", len(head) + 16 * rows).replace("Host: a", f"Inference-Header-Content-Length: {len(head)}").encode() +
                           head.encode() + bytes(16 * rows))
        server.wait_for_metric('etude_serve_requests_total{model="net",version="1"}', 3)
        server.wait_for_metric("etude_serve_http_connections", 1)  # all but the client that asks
        self.check_alive(server)

    def test_answers_that_nobody_reads_count(self):
        server = self.start(self.models, "--memory", "32", "--access-log", "off")
        # Its result has 16 MB.
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2000, 4], "parameters": {"binary_data_size": 32000}}],
                           "parameters": {"binary_data_output": True}})
        body = head.encode() + bytes(32000)
        holders = [self.connect(server) for _ in range(2)]
        for holder in holders:
            holder.sendall(INFER.format("pairs", len(body)).replace("Host: a", f"Inference-Header-Content-Length: {len(head)}").encode() + body)
        server.wait_for_metric('etude_serve_requests_total{model="pairs",version="1"}', 2)
        ask = lambda: server.ask("POST", "/v2/models/pairs/infer", body, {"Inference-Header-Content-Length": str(len(head))})  # noqa: E731
        status, _, answer = ask()
        self.assertEqual(status, 503)
        self.assertIn("the bodies of requests and answers have reached the limit of 33554432 bytes (--memory)", json.loads(answer)["error"])
        self.check_alive(server)  # a small answer
        for holder in holders:
            holder.close()
        server.wait_for_metric("etude_serve_http_connections", 1)
        self.assertEqual(ask()[0], 200)

    def test_answers_beyond_the_memory_are_not_written(self):
        server = self.start(self.models, "--memory", "16", "--access-log", "off")
        rows = 3000  # its result has 36 MB, and as JSON at least 18 MB
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 4], "parameters": {"binary_data_size": 16 * rows}}]})
        headers = {"Inference-Header-Content-Length": str(len(head))}
        server.forget_peak()
        before = server.memory()
        status, _, answer = server.ask("POST", "/v2/models/pairs/infer", head.encode() + struct.pack("<f", 0.3) * 4 * rows, headers)
        self.assertEqual(status, 413)
        text = json.loads(answer)["error"]
        self.assertIn(f"the answer has at least {2 * rows * rows} bytes and its request", text)
        self.assertIn("may have 16777216 together (--memory)", text)
        self.assertNotIn("again later", text)
        self.assertLess(server.memory("VmHWM") - before, 36 + 60)
        self.assertEqual(server.metric("etude_serve_http_body_bytes"), 0)
        self.check_alive(server)

    def test_right_answers_among_faulty_clients(self):
        server = self.start(self.models, "--access-log", "off", "--read-timeout", "1", "--batch", "8", "--queue", "16")
        wanted = server.infer("net", [[1, 2, 3, 4]])[1]["outputs"][0]["data"]
        before = server.memory()
        end = time.monotonic() + 3
        wrong, asked = [], []

        def fault(seed):
            generator = random.Random(seed)
            while time.monotonic() < end:
                client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
                data = (INFER.format("slow", len(SLOW)).encode() + SLOW.encode(), INFER.format("net", 500).encode() + b'{"inputs":[',
                        generator.randbytes(500), CHUNKED.replace(b"chunked", b"gzip") + b"fffffff\r\n", CHUNKED + b"fffffff\r\n{",
                        b"GET /v2/models/none HTTP/1.1\r\n\r\n" * 20)[generator.randrange(6)]
                try:
                    for i in range(0, len(data), 100):
                        client.sendall(data[i:i + 100])
                    time.sleep(generator.random() / 50)
                except OSError:
                    pass
                client.close()

        def ask():
            while time.monotonic() < end:
                status, answer = server.infer("net", [[1, 2, 3, 4]])
                asked.append(status)
                if status != 200 or any(abs(a - b) > 1e-6 for a, b in zip(answer["outputs"][0]["data"], wanted)):
                    wrong.append((status, answer))

        threads = [threading.Thread(target=fault, args=(seed,)) for seed in range(6)] + [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(asked), 20)
        server.wait_for_metric("etude_serve_http_connections", 1)
        self.assertLess(server.memory() - before, 100)
        # The worker of the slow model is free again, and its queue empty.
        self.assertEqual(server.infer("slow", [5], name="n", datatype="INT64", shape=[])[0], 200)
        self.assertEqual(server.metric('etude_serve_waiting{model="slow",version="1"}'), 0)

    def test_connections_beyond_the_limit_are_closed(self):
        server = self.start(self.models, "--connections", "3")
        held = [self.connect(server) for _ in range(3)]
        time.sleep(0.2)
        extra = self.connect(server)
        self.assertEqual(extra.recv(10), b"")
        for client in held:
            client.close()
        for _ in range(100):
            try:
                return self.check_alive(server)
            except OSError:
                time.sleep(0.05)
        self.fail("connections that were closed are still counted")

    def test_a_model_that_fails_leaves_the_others(self):
        broken = os.path.join(self.folder.name, "broken")
        os.makedirs(os.path.join(broken, "bad"), exist_ok=True)
        with open(os.path.join(broken, "bad", "saved.json"), "w", encoding="ascii") as file:
            file.write("{}")
        server = self.start(self.models, broken)
        self.assertEqual(server.get("/v2/health/ready"), (503, {"ready": False}))
        status, answer = server.get("/v2/models/bad/ready")
        self.assertEqual(status, 503)
        self.assertIn("model 'bad' is not ready: ", answer["error"])
        for _ in range(20):
            self.assertEqual(server.infer("checked", [[-1, 1, 1, 1]])[0], 400)
        # A result of 360 GB.
        rows = 300000
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 4], "parameters": {"binary_data_size": 16 * rows}}]})
        status, _, body = server.ask("POST", "/v2/models/pairs/infer", head.encode() + bytes(16 * rows),
                                     {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 413, body)
        self.assertIn("model 'pairs': ", json.loads(body)["error"])
        self.check_alive(server)
        self.assertEqual(server.stop(), 0)

    def test_no_client_counts_as_gone_while_it_waits(self):
        server = self.start(self.models, "--access-log", "off")
        for i in range(1500):
            status, answer = server.infer("net", [[i, 2, 3, 4]])
            self.assertEqual(status, 200, answer)
        self.assertIsNone(server.metric("etude_serve_clients_gone_total"))

    def test_answers_to_head_have_no_body(self):
        server = self.start()
        head, get = ("%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % parts for parts in (("HEAD", "/v2", ""), ("GET", "/v2/health/live", "Connection: close\r\n")))
        one, two, rest = self.answer_to(server, (head + get).encode()).split("\r\n\r\n")
        self.assertIn("200 OK", one)
        length = len(server.ask("GET", "/v2")[2])
        self.assertIn(f"Content-Length: {length}", one)
        self.assertIn("200 OK", two)
        self.assertEqual(json.loads(rest), {"live": True})
        self.assertIn("404 Not Found", self.answer_to(server, b"HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))

    def test_pipelined_requests(self):
        server = self.start()
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
        request = INFER.format("net", len(body)) + body
        last = request.replace("Host: a", "Host: a\r\nConnection: close")
        self.assertEqual(self.answer_to(server, (request * 5 + last).encode()).count("200 OK"), 6)

    def test_clients_in_parallel(self):
        server = self.start(self.models, "--workers", "2", "--batch", "16")
        wrong = []

        def ask(seed):
            generator = random.Random(seed)
            for _ in range(20):
                rows = [[generator.random() for _ in range(4)] for _ in range(generator.randrange(1, 4))]
                status, answer = server.infer("checked", rows)
                data = answer["outputs"][0]["data"] if status == 200 else []
                if len(data) != 4 * len(rows) or any(abs(y * y - x) > 1e-5 for y, x in zip(data, sum(rows, []))):
                    wrong.append((status, answer))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_drain_has_an_end(self):
        server = self.start(self.models, "--drain", "0.5")
        client = self.connect(server)
        client.sendall(INFER.format("slow", len(SLOW)).encode() + SLOW.encode())
        while not server.metric('etude_serve_calls_total{model="slow",version="1"}'):
            time.sleep(0.01)
        begin = time.monotonic()
        self.assertEqual(server.stop(signal.SIGTERM), 1)
        self.assertLess(time.monotonic() - begin, 10)
        server.wait_for('the time to drain (--drain) is over. Still running: calls of model="slow",version="1": 1, connections of HTTP: 1')


if __name__ == "__main__":
    unittest.main()
