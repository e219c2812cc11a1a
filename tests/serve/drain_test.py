# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: a server ends by its deadline, whatever its models do."""
import os
import signal
import socket
import subprocess
import time
import unittest

from server import PROGRAM, ServerTest, write_model

LOAD = b"POST /v2/repository/models/endless/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


class DrainTest(ServerTest):
    def setUp(self):
        self.root = os.path.join(self.folder.name, self._testMethodName)
        write_model(os.path.join(self.root, "net"), "net", 1)

    def write_endless(self):
        """A model whose load does not end: the server calls it when it loads it."""
        write_model(os.path.join(self.root, "endless"), "endless", 1)

    def check_end(self, server, drain_s):
        begin = time.monotonic()
        self.assertEqual(server.stop(signal.SIGTERM), 1)
        self.assertLess(time.monotonic() - begin, drain_s + 10)
        server.wait_for("the time to drain (--drain) is over. Still running: loads of model=\"endless\",version=\"1\": 1")

    def test_a_load_for_a_request(self):
        server = self.start(self.root, "--drain", "0.5", "--poll", "86400")
        self.write_endless()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(LOAD)
            server.wait_for_metric('etude_serve_loading{model="endless"', 1)
            self.check_end(server, 0.5)

    def test_a_load_of_a_client_that_has_gone(self):
        server = self.start(self.root, "--drain", "0.5", "--poll", "86400")
        self.write_endless()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(LOAD)
            server.wait_for_metric('etude_serve_loading{model="endless"', 1)
        self.check_end(server, 0.5)

    def test_a_load_of_the_poller(self):
        server = self.start(self.root, "--drain", "0.5", "--poll", "0.05")
        self.write_endless()
        server.wait_for_metric('etude_serve_loading{model="endless"', 1)
        self.check_end(server, 0.5)
        server.wait_for("all requests are answered")

    def test_a_load_before_the_start(self):
        self.write_endless()
        process = subprocess.Popen([PROGRAM, self.root, "--http-port", "0", "--grpc-port", "off"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not self.blocks(process.pid, signal.SIGTERM):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        self.assertIn("a signal has ended the server before its start", process.stderr.read())

    def blocks(self, pid, which):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return any(line.startswith("SigBlk:") and int(line.split()[1], 16) >> (which - 1) & 1 for line in file)

    def test_a_second_signal_ends_it_at_once(self):
        server = self.start(self.root, "--drain", "86400", "--poll", "0.05")
        self.write_endless()
        server.wait_for_metric('etude_serve_loading{model="endless"', 1)
        for _ in range(2):  # at the same time, as from a program that also signals its group
            server.process.send_signal(signal.SIGTERM)
        server.wait_for("all requests are answered")
        with self.assertRaises(subprocess.TimeoutExpired):
            server.process.wait(1)
        self.assertEqual(server.stop(signal.SIGINT), 1)
        server.wait_for("a second signal has ended the server. Still running: loads of model=\"endless\",version=\"1\": 1")

    def test_a_log_that_nobody_reads(self):
        path = os.path.join(self.folder.name, "pipe")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        server = self.start(self.root, "--drain", "0.5", program=("sh", "-c", 'exec "$@" 2>"$0"', path, PROGRAM))
        for size in (4096, 1):
            try:
                while True:
                    os.write(writer, b"x" * size)
            except BlockingIOError:  # the pipe is full
                pass
        self.assertEqual(server.stop(signal.SIGTERM), 1)

    def test_no_request_needs_no_time(self):
        server = self.start(self.root, "--drain", "0")
        server.get("/v2/health/ready")
        self.assertEqual(server.stop(signal.SIGTERM), 0)
        server.wait_for("all requests are answered")

    def test_an_idle_connection_needs_no_time(self):
        server = self.start(self.root, "--drain", "0")
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client, \
                socket.create_connection(("127.0.0.1", server.port), timeout=30) as half:
            client.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertIn(b"200", client.recv(4096))
            half.sendall(b"GET /v2/hea")
            server.wait_for_metric("etude_serve_http_connections", 3)  # with the one that asks
            self.assertEqual(server.stop(signal.SIGTERM), 0)
            server.wait_for("all requests are answered")
            self.assertEqual(client.recv(4096), b"")


if __name__ == "__main__":
    unittest.main()
