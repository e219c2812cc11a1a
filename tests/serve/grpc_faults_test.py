# SPDX-License-Identifier: Apache-2.0
"""Clients of gRPC that cancel, flood, send garbage, or that are thousands."""
import in_venv  # isort: skip; runs this file again with the packages

import os
import random
import re
import shutil
import socket
import struct
import time
import unittest

import grpc
from tritonclient.grpc import service_pb2

from grpc_seeds import varint
from server import ServerTest, write_model

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = struct.pack("!IBI", 4, 0, 0)  # length 0 and type 4, flags, stream
SERVICE = "/inference.GRPCInferenceService/"
INFER = SERVICE + "ModelInfer"


def request(model, name, datatype, shape, raw):
    out = service_pb2.ModelInferRequest(model_name=model)
    out.inputs.add(name=name, datatype=datatype, shape=shape)
    out.raw_input_contents.append(raw)
    return out


NET = request("net", "x", "FP32", [1, 4], struct.pack("<4f", 1, 2, 3, 4)).SerializeToString()
SLOW = request("slow", "n", "INT64", [], struct.pack("<q", 10 ** 15)).SerializeToString()
SHORT = request("slow", "n", "INT64", [], struct.pack("<q", 5)).SerializeToString()


class GrpcFaultsTest(ServerTest):
    def start_grpc(self, *args):
        try:
            return self.start(self.models, "--grpc-port", "0", "--access-log", "off", *args)
        except RuntimeError as error:
            if "was built without gRPC" not in str(error):
                raise
            self.skipTest("etude-serve was built without gRPC")

    def call_of(self, server, method="ModelInfer", **options):
        """A call of the method that takes and returns bytes."""
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)], **options)
        self.addCleanup(channel.close)
        return channel.unary_unary(SERVICE + method)

    def code_of(self, call, message, **more):
        try:
            call(message, timeout=60, **more)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.detail = error.details()
            return error.code()

    def check_alive(self, server):
        self.assertEqual(self.code_of(self.call_of(server), NET), grpc.StatusCode.OK)

    def connect(self, server, data=b""):
        out = socket.create_connection(("127.0.0.1", server.grpc_port), timeout=30)
        self.addCleanup(out.close)
        out.sendall(data)
        return out

    def wait_for_end(self, client):
        """Reads until the server has closed the connection."""
        try:
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except ConnectionError:
            pass

    def test_a_cancelled_call_frees_its_worker(self):
        server = self.start_grpc()
        call = self.call_of(server)
        for count in range(1, 4):
            running = call.future(SLOW)
            server.wait_for_metric('etude_serve_calls_total{model="slow",version="1"}', 2 * count - 1)
            running.cancel()
            self.assertEqual(running.code(), grpc.StatusCode.CANCELLED)
            self.assertEqual(self.code_of(call, SHORT), grpc.StatusCode.OK)

    def test_calls_that_wait_are_cancelled(self):
        server = self.start_grpc()
        call = self.call_of(server)
        running = [call.future(SLOW) for _ in range(20)]
        server.wait_for_metric('etude_serve_waiting{model="slow",version="1"}', 19)
        for each in running:
            each.cancel()
        server.wait_for_metric('etude_serve_waiting{model="slow",version="1"}', 0)
        self.assertEqual(self.code_of(call, SHORT), grpc.StatusCode.OK)

    def test_deadlines(self):
        server = self.start_grpc("--timeout", "0.4")
        call = self.call_of(server)
        begin = time.monotonic()
        with self.assertRaises(grpc.RpcError) as raised:
            call(SLOW, timeout=0.2)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(self.code_of(call, SLOW), grpc.StatusCode.DEADLINE_EXCEEDED)
        waited = re.search(r"the deadline of the request has passed, after (\d+\.\d+) s", self.detail)
        self.assertTrue(waited and 0.4 <= float(waited[1]) < 10, self.detail)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(self.code_of(call, SHORT), grpc.StatusCode.OK)

    def test_a_client_that_vanishes_frees_its_worker(self):
        server = self.start_grpc()
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        running = channel.unary_unary(INFER).future(SLOW)
        server.wait_for_metric('etude_serve_calls_total{model="slow",version="1"}', 1)
        channel.close()
        self.assertEqual(running.code(), grpc.StatusCode.CANCELLED)
        self.assertEqual(self.code_of(self.call_of(server), SHORT), grpc.StatusCode.OK)

    def test_a_full_queue(self):
        server = self.start_grpc("--queue", "4")
        call = self.call_of(server)
        running = [call.future(SLOW)]
        server.wait_for_metric('etude_serve_calls_total{model="slow",version="1"}', 1)
        running += [call.future(SLOW) for _ in range(4)]
        server.wait_for_metric('etude_serve_waiting{model="slow",version="1"}', 4)
        self.assertEqual(self.code_of(call, SLOW), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("model 'slow' has 4 requests in its queue, which is its limit (--queue)", self.detail)
        self.check_alive(server)
        for each in running:
            each.cancel()

    def test_streams_of_one_connection_are_limited(self):
        server = self.start_grpc("--queue", "100000")
        before = server.memory()
        call = self.call_of(server)
        running = [call.future(SLOW) for _ in range(3000)]
        server.wait_for_metric('etude_serve_waiting{model="slow",version="1"}', 1023)
        self.check_alive(server)  # another connection
        self.assertLess(server.memory() - before, 100)
        for each in running:
            each.cancel()
        self.assertEqual(self.code_of(self.call_of(server), SHORT), grpc.StatusCode.OK)

    def test_metadata_floods(self):
        server = self.start_grpc()
        call = self.call_of(server)
        before = server.memory()
        for metadata in ([("flood", "x" * 100000)], [(f"flood{i}", "x" * 100) for i in range(1000)], [("flood-bin", b"\0" * 50000)]):
            for _ in range(20):
                # The latter if the server closes the connection.
                self.assertIn(self.code_of(call, NET, metadata=metadata),
                              (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE))
        self.assertLess(server.memory() - before, 50)
        self.check_alive(server)

    def test_messages_that_are_too_long(self):
        server = self.start_grpc("--body-limit", "1")
        call = self.call_of(server)
        before = server.memory()
        for _ in range(20):
            self.assertEqual(self.code_of(call, bytes(3 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertLess(server.memory() - before, 50)
        self.check_alive(server)

    def test_compressed_messages_are_refused(self):
        server = self.start_grpc()
        server.forget_peak()
        before = server.memory()
        call = self.call_of(server, compression=grpc.Compression.Gzip)
        self.assertEqual(self.code_of(call, bytes(200 << 20)), grpc.StatusCode.UNIMPLEMENTED)
        self.assertLess(server.memory("VmHWM") - before, 50)
        self.check_alive(server)

    def test_messages_of_many_parts(self):
        server = self.start_grpc()
        call = self.call_of(server)
        self.check_alive(server)
        net = request("net", "x", "FP32", [1, 4], b"").SerializeToString()
        count = 4 << 20
        texts = bytes((0x42, 0)) * count  # bytes_contents
        contents = bytes((0x2a,)) + varint(len(texts)) + texts
        for name, parts, wanted in (
                ("inputs", bytes((0x2a, 0)) * count, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("outputs", bytes((0x32, 0)) * count, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("raw contents", bytes((0x3a, 0)) * count, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("parameters", bytes((0x22, 0)) * count, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("contents of bytes", bytes((0x2a,)) + varint(len(contents)) + contents, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("unknown numbers", bytes((0x78, 0)) * count, grpc.StatusCode.RESOURCE_EXHAUSTED),
                ("groups", bytes((0x7b, 0x7c)) * count, grpc.StatusCode.INVALID_ARGUMENT)):
            before = server.memory()
            server.forget_peak()
            self.assertEqual(self.code_of(call, net + parts), wanted, name)
            self.assertLess(server.memory("VmHWM") - before, 3 * len(parts) / 2 ** 20 + 20, name)
        before = server.memory()
        server.forget_peak()
        index = self.call_of(server, "RepositoryIndex")
        self.assertEqual(self.code_of(index, bytes((0x78, 0)) * count), grpc.StatusCode.OK)  # unknown fields
        self.assertLess(server.memory("VmHWM") - before, 4 * 2 * count / 2 ** 20 + 20)
        self.check_alive(server)

    def test_texts_of_errors_are_cut(self):
        many = os.path.join(self.folder.name, "many")
        for i in range(200):
            os.makedirs(os.path.join(many, f"{'n' * 120}{i}", "1"))
        server = self.start_grpc(many)
        call = self.call_of(server)
        self.assertEqual(self.code_of(call, request("none", "x", "FP32", [1], b"").SerializeToString()), grpc.StatusCode.NOT_FOUND)
        self.assertIn("there is no model 'none'. There are: ", self.detail)
        self.assertEqual(self.code_of(call, request("\1" * 4000, "x", "FP32", [1], b"").SerializeToString()), grpc.StatusCode.NOT_FOUND)

    def test_messages_of_garbage(self):
        server = self.start_grpc()
        call = self.call_of(server)
        generator = random.Random(4)
        codes = set()
        for i in range(500):
            message = bytearray(generator.randbytes(generator.randrange(300)) if i % 5 == 0 else NET)
            for _ in range(generator.randrange(1, 4)):
                if message:
                    message[generator.randrange(len(message))] = generator.randrange(256)
            codes.add(self.code_of(call, bytes(message)))
        self.assertLessEqual(codes, {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
                                     grpc.StatusCode.UNIMPLEMENTED})
        self.assertIn(grpc.StatusCode.INVALID_ARGUMENT, codes)
        self.check_alive(server)

    def test_requests_that_are_refused(self):
        server = self.start_grpc()
        call = self.call_of(server)
        many = service_pb2.ModelInferRequest(model_name="net")
        for _ in range(5000):
            many.inputs.add(name="x", datatype="FP32", shape=[0, 4])
        axes = request("net", "x", "FP32", [1] * 17, bytes(4))
        for message, code, text in (
                (many, grpc.StatusCode.RESOURCE_EXHAUSTED, "the request has 5000 inputs, but may have 4096"),
                (axes, grpc.StatusCode.INVALID_ARGUMENT, "input 'x' has more than 16 axes"),
                (request("net", "n" * 2000, "FP32", [1], bytes(4)), grpc.StatusCode.INVALID_ARGUMENT,
                 "the name of an input has 2000 bytes, but may have 1024"),
                (request("net", "x", "FP32", [0, 123456], b""), grpc.StatusCode.INVALID_ARGUMENT,
                 "input 'x' is FP32 of shape [0,123456], but the model needs FP32 of shape [-1,4]")):
            self.assertEqual(self.code_of(call, message.SerializeToString()), code)
            self.assertIn(text, self.detail)

    def test_bytes_of_garbage(self):
        server = self.start_grpc()
        generator = random.Random(5)
        for i in range(100):
            client = self.connect(server)
            client.sendall((PREFACE + SETTINGS if i % 2 else b"") + generator.randbytes(generator.randrange(1, 3000)))
            self.wait_for_end(client)
        self.check_alive(server)

    def test_connections_are_counted_and_silent_ones_closed(self):
        server = self.start_grpc("--read-timeout", "3")
        half = [self.connect(server, PREFACE[:10]) for _ in range(20)]
        begin = time.monotonic()
        for client in half:
            try:
                while client.recv(65536):
                    pass
            except ConnectionError:
                pass
        self.assertLess(time.monotonic() - begin, 30)
        ready = [self.connect(server, PREFACE + SETTINGS) for _ in range(20)]
        server.wait_for_metric("etude_serve_grpc_connections", 20)
        for client in ready:
            client.close()
        server.wait_for_metric("etude_serve_grpc_connections", 0)
        self.check_alive(server)

    def test_thousands_of_connections(self):
        server = self.start_grpc()
        self.check_alive(server)
        before = server.memory()
        clients = [self.connect(server, PREFACE + SETTINGS) for _ in range(2000)]
        self.check_alive(server)
        self.assertLess(server.memory() - before, 300)
        for client in clients:
            client.close()
        self.check_alive(server)
        self.assertEqual(server.stop(), 0)

    def test_an_answered_call_needs_no_time_of_a_drain(self):
        for _ in range(5):
            server = self.start_grpc("--drain", "0")
            self.assertEqual(self.code_of(self.call_of(server), SHORT), grpc.StatusCode.OK)
            self.assertEqual(server.stop(), 0)

    def test_a_drain_cancels_calls_at_its_end(self):
        server = self.start_grpc("--drain", "0.5")
        running = self.call_of(server).future(SLOW)
        server.wait_for_metric('etude_serve_running{model="slow",version="1"}', 1)
        self.assertEqual(server.metric("etude_serve_grpc_calls"), 1)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 1)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn(running.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE))
        server.wait_for("the time to drain (--drain) is over. Still running: "
                        'calls of model="slow",version="1": 1, calls of gRPC: 1')

    def test_connections_without_a_call_need_no_time_of_a_drain(self):
        server = self.start_grpc("--drain", "600", "--read-timeout", "600")
        raw, ready = self.connect(server), self.connect(server, PREFACE + SETTINGS)
        call = self.call_of(server)
        self.assertEqual(self.code_of(call, SHORT), grpc.StatusCode.OK)
        self.assertTrue(ready.recv(100))
        self.assertEqual(server.stop(), 0)
        server.wait_for("all requests are answered")
        for client in (raw, ready):
            self.wait_for_end(client)

    def test_a_drain_answers_the_calls_that_run(self):
        server = self.start_grpc("--drain", "600")
        self.connect(server, PREFACE + SETTINGS)
        call = self.call_of(server)
        running = call.future(request("slow", "n", "INT64", [], struct.pack("<q", 10 ** 6)).SerializeToString())
        server.wait_for_metric("etude_serve_grpc_calls", 1)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(running.code(), grpc.StatusCode.OK)

    def test_shared_memory_is_refused(self):
        call = self.call_of(self.start_grpc())
        for part in ("inputs", "outputs"):
            message = service_pb2.ModelInferRequest.FromString(NET)
            if part == "outputs":
                message.outputs.add(name="output")
            getattr(message, part)[0].parameters["shared_memory_region"].string_param = "r"
            self.assertEqual(self.code_of(call, message.SerializeToString()), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn(f"{part[:-1]} '{'x' if part == 'inputs' else 'output'}' has the parameter 'shared_memory_region', but this server",
                          self.detail)

    def test_a_drain_during_a_load_that_does_not_end(self):
        server = self.start_grpc("--drain", "0.5", "--poll", "86400")
        endless = os.path.join(self.models, "endless")
        write_model(endless, "endless", 1)
        self.addCleanup(shutil.rmtree, endless)
        load = self.call_of(server, "RepositoryModelLoad")
        loads = [load.future(service_pb2.RepositoryModelLoadRequest(model_name="endless").SerializeToString()) for _ in range(2)]
        server.wait_for_metric('etude_serve_loading{model="endless"', 1)
        server.wait_for_metric("etude_serve_grpc_calls", 2)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 1)
        self.assertLess(time.monotonic() - begin, 10)
        for each in loads:
            self.assertIn(each.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE))
        server.wait_for("the time to drain (--drain) is over. Still running: "
                        'loads of model="endless",version="1": 1, calls of gRPC: 2')


if __name__ == "__main__":
    unittest.main()
