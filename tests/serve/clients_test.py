# SPDX-License-Identifier: Apache-2.0
"""Clients of the protocol from PyPI: tritonclient over HTTP and over gRPC."""
import in_venv  # isort: skip; runs this file again with the packages

import shutil
import threading
import time
import unittest

import ml_dtypes
import numpy as np
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from server import Server, ServerTest

DTYPES = {"BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
          "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
          "BF16": ml_dtypes.bfloat16}


class ClientTests:
    """What both clients do in the same way. A subclass has `triton` and `client`."""

    def infer(self, model, arrays, outputs=None, **more):
        inputs = []
        for name, array in arrays.items():
            inputs.append(self.triton.InferInput(name, list(array.shape), self.datatype(array)))
            inputs[-1].set_data_from_numpy(array)
        return self.client.infer(model, inputs, outputs=outputs, **more)

    def datatype(self, array):
        return next(name for name, dtype in DTYPES.items() if array.dtype == dtype)

    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("net"))
        self.assertTrue(self.client.is_model_ready("net", "1"))

    def test_answers(self):
        x = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
        y = self.infer("net", {"x": x}).as_numpy("output")
        self.assertEqual((y.shape, y.dtype), ((6, 3), np.float32))
        np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-5)
        again = self.infer("net", {"x": x}, [self.triton.InferRequestedOutput("output")]).as_numpy("output")
        np.testing.assert_array_equal(y, again)

    def test_image(self):
        y = self.infer("lenet", {"x": np.ones((3, 28, 28, 1), np.float32)}).as_numpy("output")
        self.assertEqual(y.shape, (3, 10))
        np.testing.assert_array_equal(y[0], y[1])

    def test_dtypes(self):
        arrays = {}
        for each in self.metadata("dtypes")["inputs"]:
            dtype = DTYPES[each["datatype"]]
            arrays[each["name"]] = np.array([1, 0] if dtype is np.bool_ else [1, 60], dtype)
        result = self.infer("dtypes", arrays)
        for each in self.metadata("dtypes")["outputs"]:
            got = result.as_numpy(each["name"])
            wanted = [False, True] if each["datatype"] == "BOOL" else [2, 120]
            self.assertEqual(got.astype(float).tolist(), [float(w) for w in wanted], each)

    def test_errors(self):
        with self.assertRaisesRegex(InferenceServerException, "there is no model 'none'"):
            self.infer("none", {"x": np.ones((1, 4), np.float32)})
        with self.assertRaisesRegex(InferenceServerException, r"input 'x' is FP32 of shape \[1,5\], but the model needs FP32"):
            self.infer("net", {"x": np.ones((1, 5), np.float32)})
        with self.assertRaisesRegex(InferenceServerException, "model 'net' has no output 'z'. Its outputs: output"):
            self.infer("net", {"x": np.ones((1, 4), np.float32)}, [self.triton.InferRequestedOutput("z")])
        with self.assertRaisesRegex(InferenceServerException, "x must be positive"):
            self.infer("checked", {"x": -np.ones((1, 4), np.float32)})

    def test_repository(self):
        self.client.unload_model("logarithm")
        self.assertFalse(self.client.is_model_ready("logarithm"))
        self.client.load_model("logarithm")
        self.assertTrue(self.client.is_model_ready("logarithm"))

    def test_timeout(self):
        begin = time.monotonic()
        with self.assertRaisesRegex(InferenceServerException, "the deadline of the request has passed"):
            self.infer("slow", {"n": np.array(10 ** 15, np.int64)}, timeout=200000)
        self.assertLess(time.monotonic() - begin, 10)

    def test_threads(self):
        x = np.random.default_rng(2).random(size=(32, 4)).astype(np.float32)
        wrong = []

        def ask(i):
            with self.new_client() as client:
                for _ in range(10):
                    x1 = self.triton.InferInput("x", [1, 4], "FP32")
                    x1.set_data_from_numpy(x[i:i + 1])
                    y = client.infer("checked", [x1]).as_numpy("output")
                    if not np.allclose(y * y, x[i:i + 1], atol=1e-6):
                        wrong.append(y)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class HttpTest(ClientTests, ServerTest):
    triton = triton_http

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.models, "--batch", "16")
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.client = self.new_client()
        self.addCleanup(self.client.close)

    def new_client(self):
        return triton_http.InferenceServerClient(f"127.0.0.1:{self.server.port}")

    def metadata(self, model):
        return self.client.get_model_metadata(model)

    def test_metadata(self):
        self.assertEqual(self.client.get_server_metadata()["name"], "etude")
        self.assertEqual(self.metadata("net")["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertIn({"name": "net", "version": "1", "state": "READY"}, self.client.get_model_repository_index())

    def test_json_and_binary_are_equal(self):
        x = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
        results = []
        for binary in (False, True):
            given = triton_http.InferInput("x", [2, 4], "FP32")
            given.set_data_from_numpy(x, binary_data=binary)
            wanted = triton_http.InferRequestedOutput("output", binary_data=binary)
            results.append(self.client.infer("net", [given], outputs=[wanted]).as_numpy("output"))
        np.testing.assert_array_equal(*results)


class GrpcTest(ClientTests, ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.server = Server(cls.models, "--grpc-port", "0")
        except RuntimeError as error:
            if "was built without gRPC" not in str(error):
                raise
            raise unittest.SkipTest("etude-serve was built without gRPC") from error
        cls.addClassCleanup(cls.server.stop)
        import tritonclient.grpc as triton_grpc
        cls.triton = triton_grpc

    def setUp(self):
        self.client = self.new_client()
        self.addCleanup(self.client.close)

    def new_client(self):
        return self.triton.InferenceServerClient(f"127.0.0.1:{self.server.grpc_port}")

    def metadata(self, model):
        return self.client.get_model_metadata(model, as_json=True)

    def test_metadata(self):
        self.assertEqual(self.client.get_server_metadata().name, "etude")
        net = self.client.get_model_metadata("net")
        self.assertEqual((net.inputs[0].name, net.inputs[0].datatype, list(net.inputs[0].shape)), ("x", "FP32", [-1, 4]))
        self.assertIn("net", [m.name for m in self.client.get_model_repository_index().models])

    def test_a_deadline_of_grpc_cancels_the_call(self):
        given = self.triton.InferInput("n", [], "INT64")
        given.set_data_from_numpy(np.array(10 ** 15, np.int64))
        with self.assertRaisesRegex(InferenceServerException, "(?i)deadline"):
            self.client.infer("slow", [given], client_timeout=0.3)
        given.set_data_from_numpy(np.array(4, np.int64))
        self.assertEqual(self.client.infer("slow", [given]).as_numpy("output"), 4)

    def test_contents_that_are_not_raw(self):
        from tritonclient.grpc import service_pb2
        request = service_pb2.ModelInferRequest(model_name="net")
        given = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        given.contents.fp32_contents.extend([1, 2, 3, 4])
        answer = self.client._client_stub.ModelInfer(request)
        got = np.frombuffer(answer.raw_output_contents[0], np.float32)
        wanted = self.infer("net", {"x": np.array([[1, 2, 3, 4]], np.float32)}).as_numpy("output")[0]
        np.testing.assert_array_equal(got, wanted)


class GrpcSecurityTest(ServerTest):
    """The options of access and of limits, over gRPC."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import tritonclient.grpc as triton_grpc
        cls.triton = triton_grpc

    def start_grpc(self, *args):
        try:
            return self.start(self.models, "--grpc-port", "0", *args)
        except RuntimeError as error:
            if "was built without gRPC" not in str(error):
                raise
            self.skipTest("etude-serve was built without gRPC")

    def test_token(self):
        server = self.start_grpc("--token", "secret")
        with self.triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            self.assertTrue(client.is_server_live())
            for headers in (None, {"authorization": "Bearer secreT"}):
                with self.assertRaisesRegex(InferenceServerException, "needs the metadata 'authorization: Bearer TOKEN'"):
                    client.get_model_metadata("net", headers=headers)
            self.assertEqual(client.get_model_metadata("net", headers={"authorization": "Bearer secret"}).name, "net")

    def test_messages_are_limited(self):
        server = self.start_grpc("--body-limit", "1")
        with self.triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            x = self.triton.InferInput("x", [100000, 4], "FP32")
            x.set_data_from_numpy(np.ones((100000, 4), np.float32))
            with self.assertRaisesRegex(InferenceServerException, "larger than max"):
                client.infer("net", [x])

    def test_mutual_tls(self):
        if not shutil.which("openssl"):
            self.skipTest("the program openssl is not installed")
        key, cert = self.certificate("server")
        client_key, client_cert = self.certificate("client")
        server = self.start_grpc("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", client_cert)
        address = f"127.0.0.1:{server.grpc_port}"
        with self.triton.InferenceServerClient(address, ssl=True, root_certificates=cert) as client:
            with self.assertRaises(InferenceServerException):
                client.get_model_metadata("net", client_timeout=20)
        with self.triton.InferenceServerClient(address, ssl=True, root_certificates=cert, private_key=client_key,
                                               certificate_chain=client_cert) as client:
            self.assertEqual(client.get_model_metadata("net", client_timeout=20).name, "net")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
