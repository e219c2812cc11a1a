# SPDX-License-Identifier: Apache-2.0
"""How benchmarks/peers.py asks systems that are made up: python3 peers_test.py FOLDER_OF_PEERS."""
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, sys.argv.pop(1))
import peers  # noqa: E402  (found by the line above)

SYSTEM = f"""#!{sys.executable}
import json, sys
for line in sys.stdin:
    reply = {{"workloads": {{"a": ["staged", "eager", "lazy"]}}}} if line.strip() == ":hello" else {{"asked": line.strip()}}
    print(json.dumps(reply), flush=True)
    if line.strip() == ":quit":
        break
"""
BROKEN = "#!/bin/sh\necho 'no such wheel' >&2\nexit 1\n"


class PeersTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.program = self.script("system", SYSTEM)

    def script(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def start(self, wanted):
        systems, missing = peers.start(self.program, 1, wanted)
        for system in systems:
            self.addCleanup(system.process.stdout.close)
            self.addCleanup(system.process.stdin.close)
            self.addCleanup(system.close)
        return systems, missing

    def test_our_program_is_asked_in_all_modes(self):
        systems, missing = self.start([])
        self.assertEqual(missing, {})
        self.assertEqual([(s.name, s.run("a", "ms=5")["asked"]) for s in systems],
                         [("etude", "a mode=eager ms=5"), ("staged", "a mode=staged ms=5"),
                          ("lazy", "a mode=lazy ms=5")])

    def test_a_peer_is_asked_in_its_first_mode(self):
        peer = peers.Worker("peer", [self.program], 1)
        self.addCleanup(peer.process.stdout.close)
        self.addCleanup(peer.process.stdin.close)
        self.addCleanup(peer.close)
        self.assertEqual(peer.run("a", "ms=5"), {"asked": "a mode=staged ms=5"})

    def test_a_peer_that_cannot_be_had_has_a_reason(self):
        self.script("bin/python", BROKEN)
        places = {f"ETUDE_BENCH_{name}": str(self.folder) for name in ("TORCH", "JAX", "TENSORFLOW")}
        with unittest.mock.patch.dict(os.environ, places):
            systems, missing = self.start(peers.PEERS)
        self.assertEqual([s.name for s in systems], ["etude", "staged", "lazy"])
        torch = dict.fromkeys(("torch", "compile", "libtorch"), "import torch: no such wheel")
        tensorflow = dict.fromkeys(("tensorflow", "xla"), "import tensorflow: no such wheel")
        self.assertEqual(missing, torch | {"jax": "import jax: no such wheel"} | tensorflow)


if __name__ == "__main__":
    unittest.main()
