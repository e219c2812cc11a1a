# SPDX-License-Identifier: Apache-2.0
"""Versions that appear, go, or are damaged while a server runs, and a server that is killed meanwhile."""
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from server import ETUDE, ServerTest, write_model


class ReloadTest(ServerTest):
    def setUp(self):
        self.root = os.path.join(self.folder.name, self._testMethodName)
        os.makedirs(os.path.join(self.root, "net"))

    def write(self, version, seed=None):
        write_model(os.path.join(self.root, "net", str(version)), "net", version if seed is None else seed)

    def wait_for_version(self, server, version):
        for _ in range(400):
            status, answer = server.infer("net", [[1, 2, 3, 4]])
            self.assertEqual(status, 200, answer)  # one version or the other answers, at any time
            if answer["model_version"] == str(version):
                return answer["outputs"][0]["data"]
            time.sleep(0.02)
        self.fail(f"version {version} never answers")

    def test_a_new_version_takes_over(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.1")
        first = self.wait_for_version(server, 1)
        self.write(2)
        second = self.wait_for_version(server, 2)
        self.assertNotEqual(first, second)
        self.assertEqual(server.get("/v2/models/net/versions/1")[0], 404)
        server.wait_for("model 'net' version 1 is unloaded")
        self.assertEqual(server.get("/v2/models/net")[1]["versions"], ["2"])

    def test_two_versions_side_by_side(self):
        self.write(1)
        self.write(3)
        server = self.start(self.root, "--poll", "0.1", "--versions", "2")
        self.assertEqual(server.get("/v2/models/net")[1]["versions"], ["1", "3"])
        request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
        answers = [server.post(f"/v2/models/net/versions/{v}/infer", request)[1] for v in (1, 3)]
        self.assertEqual([a["model_version"] for a in answers], ["1", "3"])
        self.assertNotEqual(answers[0]["outputs"], answers[1]["outputs"])
        self.assertEqual(self.wait_for_version(server, 3), answers[1]["outputs"][0]["data"])

    def test_a_damaged_version_leaves_the_one_before(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.1")
        first = self.wait_for_version(server, 1)
        damaged = os.path.join(self.root, "net", "2")
        os.mkdir(damaged)
        with open(os.path.join(damaged, "saved.json"), "w", encoding="ascii") as file:
            file.write("{")
        server.wait_for("model 'net' version 2 cannot be loaded")
        self.assertEqual(self.wait_for_version(server, 1), first)
        self.assertEqual(server.get("/v2/health/ready"), (200, {"ready": True}))
        def index():
            return {entry["version"]: entry["state"] for entry in server.post("/v2/repository/index")[1]}

        while index() == {"1": "READY"}:  # the log has its line first
            time.sleep(0.01)
        self.assertEqual(index(), {"1": "READY", "2": "UNAVAILABLE"})
        shutil.rmtree(damaged)
        self.write(2)  # mended
        self.wait_for_version(server, 2)

    def test_a_folder_that_is_no_model_leaves_the_others(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.1")
        self.wait_for_version(server, 1)
        os.makedirs(os.path.join(self.root, "net copy", "1"))
        self.wait_for_version(self.start(self.root), 1)  # also at the start
        self.assertIn("cannot be a model: its name 'net copy' must have", self.refusal(os.path.join(self.root, "net copy")))
        server.wait_for("cannot be a model: its name 'net copy' must have letters")
        self.write(2)
        self.wait_for_version(server, 2)
        self.assertEqual(server.post("/v2/repository/models/net/load"), (200, None))
        with server.has_log:
            self.assertEqual(sum("'net copy'" in line for line in server.log), 1)

    def test_saved_again_in_place(self):
        folder = os.path.join(self.root, "net")
        write_model(folder, "net", 1)
        server = self.start(folder, "--poll", "0.1")
        first = self.wait_for_version(server, 1)
        write_model(folder, "net", 2)
        for _ in range(400):
            if self.wait_for_version(server, 1) != first:
                return
            time.sleep(0.02)
        self.fail("the new content is not served")

    def switch(self, link, target):
        """Makes a symbolic link, in the place of the former link if there is one."""
        os.symlink(target, link + ".new")
        os.rename(link + ".new", link)

    def outputs_of(self, server, model):
        return server.infer(model, [[1, 2, 3, 4]])[1]["outputs"]

    def test_a_link_that_is_switched(self):
        store, links = (os.path.join(self.root, name) for name in ("store", "links"))
        os.makedirs(links)
        for seed in (1, 2):
            write_model(os.path.join(store, f"rel{seed}"), "net", seed)
        for name in ("prod", "same"):
            self.switch(os.path.join(links, name), "../store/rel1")
        self.switch(os.path.join(self.root, "canary"), "store/rel2")
        server = self.start(links, os.path.join(self.root, "canary") + "/", "--poll", "0.1")
        names = [entry["name"] for entry in server.post("/v2/repository/index")[1]]
        self.assertEqual(names, ["canary", "prod", "same"])
        one, two = self.outputs_of(server, "prod"), self.outputs_of(server, "canary")
        self.assertEqual(self.outputs_of(server, "same"), one)
        self.assertNotEqual(one, two)
        self.switch(os.path.join(links, "prod"), "../store/rel2")
        while self.outputs_of(server, "prod") != two:
            time.sleep(0.02)
        self.assertEqual(self.outputs_of(server, "same"), one)

    def test_a_folder_without_a_name_of_its_own(self):
        self.write(1)
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(os.path.join(self.root, "net", "1"))
        for folder in (".", "./"):
            server = self.start(folder)
            self.assertEqual(server.get("/v2/models/1/ready")[0], 200)
            self.assertEqual(server.stop(), 0)

    def test_a_version_that_is_seen_while_it_is_copied(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.1")
        self.wait_for_version(server, 1)
        whole, copy = os.path.join(self.folder.name, "whole"), os.path.join(self.root, "net", "2")
        write_model(whole, "net", 2)
        os.mkdir(copy)
        names = sorted(os.listdir(whole), key=lambda name: name.endswith(".safetensors"))
        for name in names[:-1]:
            shutil.copy(os.path.join(whole, name), copy)
        server.wait_for("model 'net' version 2 cannot be loaded")
        shutil.copy(os.path.join(whole, names[-1]), copy)
        self.wait_for_version(server, 2)

    def test_a_load_of_a_damaged_version_is_no_success(self):
        self.write(1)
        server = self.start(self.root, "--poll", "86400")
        damaged = os.path.join(self.root, "net", "2")
        os.mkdir(damaged)
        with open(os.path.join(damaged, "saved.json"), "w", encoding="ascii") as file:
            file.write("{")
        for _ in range(2):
            status, answer = server.post("/v2/repository/models/net/load")
            self.assertEqual(status, 503, answer)
            self.assertIn("model 'net' version 2 cannot be loaded: ", answer["error"])
            self.assertIn("Version 1 is still served", answer["error"])
        self.wait_for_version(server, 1)
        shutil.rmtree(damaged)
        self.write(2)
        self.assertEqual(server.post("/v2/repository/models/net/load"), (200, None))
        self.wait_for_version(server, 2)

    def test_unload_and_load(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.1")
        self.assertEqual(server.post("/v2/repository/models/net/unload"), (200, None))
        status, answer = server.infer("net", [[1, 2, 3, 4]])
        self.assertEqual(status, 503)
        self.assertIn("model 'net' is not ready: it was unloaded", answer["error"])
        time.sleep(0.4)  # the poller leaves it alone
        self.assertEqual(server.get("/v2/models/net/ready")[0], 503)
        self.assertEqual(server.post("/v2/repository/index")[1], [{"name": "net", "state": "UNAVAILABLE", "reason": "unloaded"}])
        self.assertEqual(server.post("/v2/repository/models/net/load"), (200, None))
        self.wait_for_version(server, 1)
        self.assertEqual(server.post("/v2/repository/models/none/load")[0], 404)

    def test_a_load_that_does_not_end_leaves_the_others(self):
        self.write(1)
        server = self.start(self.root, "--poll", "86400", "--access-log", "off")
        write_model(os.path.join(self.root, "endless"), "endless", 1)
        for _ in range(6):  # more than the threads of HTTP
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            self.addCleanup(client.close)
            client.sendall(b"POST /v2/repository/models/endless/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")

        server.wait_for("loading model 'endless' version 1")
        for _ in range(20):
            self.assertEqual(server.ask("GET", "/v2/health/live", timeout=10)[0], 200)
            self.assertEqual(server.infer("net", [[1, 2, 3, 4]], timeout=10)[0], 200)

    def test_requests_while_versions_change(self):
        self.write(1)
        server = self.start(self.root, "--poll", "0.05", "--access-log", "off")
        stop, wrong = threading.Event(), []

        def ask():
            while not stop.is_set():
                status, answer = server.infer("net", [[1, 2, 3, 4]])
                if status != 200:
                    wrong.append(answer)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(2, 6):
            self.write(version)
            server.wait_for(f"model 'net' version {version} is ready")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_killed_in_the_middle_of_a_reload(self):
        folder = os.path.join(self.root, "net")
        write_model(folder, "net", 1)
        for seed in range(2, 7):
            server = self.start(folder, "--poll", "0.05")
            writer = threading.Thread(target=write_model, args=(folder, "net", seed))
            writer.start()
            time.sleep(0.02 * seed)
            server.stop(signal.SIGKILL)
            writer.join()
            shown = subprocess.run([ETUDE, "inspect", folder], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(shown.returncode, 0, shown.stderr)
        self.wait_for_version(self.start(folder), 1)


if __name__ == "__main__":
    unittest.main()
