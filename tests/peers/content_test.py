# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the names and hashes that the PyTorch peer gives networks with ddpbench's own. Needs no
PyTorch.

    content_test.py MODEL_HASHES [unittest arguments]"""
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

sys.path.insert(0, str(support.PEERS))
from pytorch_peer import content  # noqa: E402
from pytorch_peer.errors import UsageError  # noqa: E402

PROGRAM = None

# Every kind of layer with every attribute, out of order, and a branch.
EVERYTHING = {"name": "everything", "input": [2, 20, 24], "output": "head",
              "loss": {"label_smoothing": 0.1, "ignore_index": 3},
              "auxiliary": [{"output": "early", "weight": 0.4, "loss": {"label_smoothing": 0.2}}],
              "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 8, "kernel": [3, 5], "stride": [1, 2],
     "padding": [1, 2], "dilation": [2, 1], "groups": 2, "bias": False},
    {"name": "norm", "type": "batch_norm2d", "eps": 0.001, "momentum": 0.25, "affine": False},
    {"name": "joined", "type": "concat", "inputs": ["average", "relu", "branch"]},
    {"name": "relu", "type": "relu", "inputs": ["norm"]},
    {"name": "average", "type": "avg_pool2d", "kernel": 3, "stride": 1, "padding": 1,
     "count_include_pad": False, "inputs": ["relu"]},
    {"name": "sides", "type": "conv2d", "out_channels": 8, "kernel": 2, "padding": [1, 0, 0, 1],
     "trainable": False},
    {"name": "same", "type": "conv2d", "out_channels": 8, "kernel": [4, 3], "padding": "same",
     "dilation": [1, 2]},
    {"name": "cut", "type": "max_pool2d", "kernel": 3, "stride": 1, "padding": 1,
     "ceil_mode": True},
    {"name": "branch", "type": "add", "inputs": ["relu", "cut"]},
    {"name": "pool", "type": "max_pool2d", "kernel": 2, "inputs": ["joined"]},
    {"name": "last", "type": "adaptive_avg_pool2d", "output_size": [2, 1]},
    {"name": "large", "type": "upsample_bilinear", "output_size": [3, 4]},
    {"name": "drop", "type": "dropout", "p": 0.25, "inputs": ["sized"]},
    {"name": "sized", "type": "upsample_bilinear", "inputs": ["large", "pool"]},
    {"name": "early", "type": "linear", "inputs": ["stem"], "out_features": 10},
    {"name": "head", "type": "linear", "inputs": ["drop"], "out_features": 10, "bias": False}]}


class Content(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, model):
        path = self.folder / "model.json"
        path.write_text(json.dumps(model))
        return path

    def expect_equal(self, *paths):
        ours = support.run([PROGRAM, *paths], self.folder).splitlines()
        peers = [content.describe(str(path)) for path in paths]
        self.assertEqual(ours, [f"{peer['name']} {peer['hash']}" for peer in peers])

    def test_the_networks_of_ddpbench_have_its_hashes(self):
        models = sorted((support.ROOT / "configs" / "models").glob("*.json"))
        self.assertGreater(len(models), 5)
        self.expect_equal(*models)

    def test_every_attribute_counts(self):
        self.expect_equal(self.write(EVERYTHING))
        whole = content.hash_of(EVERYTHING)
        for place, layer in enumerate(EVERYTHING["layers"]):
            for key in layer.keys() - {"name", "type", "inputs", "out_channels", "out_features"}:
                layers = [dict(each) for each in EVERYTHING["layers"]]
                del layers[place][key]
                if key in ("kernel", "output_size"):
                    layers[place][key] = 1
                with self.subTest(layer=layer["name"], key=key):
                    self.assertNotEqual(content.hash_of({**EVERYTHING, "layers": layers}), whole)

    def test_the_loss_counts(self):
        losses = [{}, {"label_smoothing": 0.1}, {"ignore_index": 3}, {"ignore_index": 0},
                  {"label_smoothing": 0.2, "ignore_index": 3}]
        found = {content.hash_of({**EVERYTHING, "loss": loss}) for loss in losses}
        self.assertEqual(len(found), len(losses))
        for loss in losses:
            self.expect_equal(self.write({**EVERYTHING, "loss": loss}))
        outputs = [[{"output": "early"}], [{"output": "early", "weight": 2}],
                   [{"output": "early", "loss": {"label_smoothing": 0.5}}]]
        for auxiliary in outputs:
            self.expect_equal(self.write({**EVERYTHING, "auxiliary": auxiliary}))
        plain = {"type": "cross_entropy", "label_smoothing": 0}
        self.assertEqual(content.hash_of({**EVERYTHING, "loss": plain}),
                         content.hash_of({**EVERYTHING, "loss": {}}))

    def test_the_name_does_not_count(self):
        self.assertEqual(content.hash_of({**EVERYTHING, "name": "other"}), content.hash_of(EVERYTHING))

    def test_what_is_no_model_is_refused(self):
        with self.assertRaises(UsageError):
            content.describe(str(self.write({"name": "none"})))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
