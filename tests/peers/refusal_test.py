# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests what the PyTorch peer refuses, and with which exit code. Needs no PyTorch."""
import json
import pathlib
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

sys.path.insert(0, str(support.PEERS))
from pytorch_peer import (blocks, catalog, cifar, content, figures, options, plan,  # noqa: E402
                          sampler, shapes)


class Refusals(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def refuse(self, expected, *arguments, **variables):
        return support.run([sys.executable, "-B", support.SCRIPT, *arguments], self.folder, expected,
                           **variables)

    def test_without_pytorch_it_says_so_and_leaves_nothing(self):
        support.write_mnist(self.folder / "data", 20, 10)
        (self.folder / "torch.py").write_text("raise ImportError('no torch, says the test')\n")
        text = self.refuse(3, "--data-dir=data", "--json=r.json", PYTHONPATH=str(self.folder))
        self.assertIn("PyTorch is not here", text)
        self.assertIn("no torch, says the test", text)
        self.assertFalse((self.folder / "r.json").exists())

    def test_an_existing_report_is_refused_before_anything_else(self):
        (self.folder / "r.json").write_text("mine")
        self.assertIn("--force", self.refuse(2, "--json=r.json"))
        self.assertEqual((self.folder / "r.json").read_text(), "mine")

    def test_usage(self):
        for arguments, words in (
                (["--batchsize=3"], "--batch-size"), (["--batch-size=0"], "at least 1"),
                (["--batch-size=x"], "no value"), (["--strategy=fsdp"], "--strategy"),
                (["--gpus"], "needs a value"), (["more"], "unexpected"),
                (["--lr=1", "--lr=1"], "once"),
                (["--batch-size=2", "--global-batch-size=2"], "exclude"),
                (["--overlap=off"], "overlaps"), (["--config=mnits"], "mnist"),
                (["--momentum=1"], "less than 1"), (["--beta1=0.5"], "it is for adam, adamw"),
                (["--optimizer=adam", "--nesterov"], "it is for sgd"),
                (["--lr-schedule=step"], "needs --lr-step-size"),
                (["--lr-gamma=0.5"], "it is for step"),
                (["--lr-warmup-factor=0.5"], "it is for --lr-warmup-steps"),
                (["--lr-schedule=cosine", "--compile=cuda-graphs"], "recorded with"),
                (["--nesterov", "--momentum=0"], "--momentum is 0"), (["--data-dir=nowhere"], "data fetch mnist")):
            with self.subTest(arguments):
                self.assertIn(words, self.refuse(2, "--json=r.json", *arguments))

    def test_configuration_files(self):
        for document, words in (({"batchsize": 3}, "batch_size"), ([], "JSON object"),
                                ({"inject": "sum"}, "plants no faults"),
                                ({"hosts": "a,b"}, "this host alone"),
                                ({"sync_batch_norm": True}, "SyncBatchNorm"),
                                ({"devices_per_process": [2]}, "one device a process"),
                                ({"runs": [{"strategy": "dp"}]}, "makes no list of runs"),
                                ({"optimizer": {"name": "lamb"}}, "adamw"),
                                ({"optimizer": {"name": "adam", "momentum": 0}}, "does nothing"),
                                ({"optimizer": "adam"}, "an object"),
                                ({"dataset": {"name": "cifar"}}, "cifar10"),
                                ({"model": "simple_cn"}, "simple_cnn")):
            with self.subTest(document):
                (self.folder / "c.json").write_text(json.dumps(document))
                self.assertIn(words, self.refuse(2, "--config=c.json", "--data-dir=nowhere"))

    def refuse_model(self, words, dataset, more=None, **change):
        """Of resnet20, changed, on a subset of CIFAR-10."""
        model = json.loads((support.ROOT / "configs/models/resnet20.json").read_text())
        (self.folder / "model.json").write_text(json.dumps({**model, **change}))
        (self.folder / "c.json").write_text(json.dumps(
            {"model": "model.json", "last_batch": "pad", "dataset": {**dataset, **(more or {})}}))
        self.assertIn(words, self.refuse(2, "--config=c.json", "--data-dir=data", "--json=r.json"))

    def test_data_sets_that_do_not_fit_the_network(self):
        support.write_cifar(self.folder / "data", 8, 4)
        support.write_mnist(self.folder / "data", 8, 4)
        cifar = {"name": "cifar10", "on_missing": "error"}
        self.refuse_model("takes images of [3, 32, 32], but mnist has [1, 28, 28]", {"name": "mnist"})
        self.refuse_model("takes images of [3, 64, 64], but cifar10 has [3, 32, 32]", cifar,
                          input=[3, 64, 64])
        self.refuse_model("has 7 outputs, but cifar10 has 10 classes", cifar,
                          layers=[{"name": "fc", "type": "linear", "out_features": 7}],
                          blocks={})
        self.refuse_model("dataset.mean has 2 values, but the images of cifar10 have 3 channels", cifar,
                          {"mean": [0.1, 0.2]})

    def test_a_prediction_for_each_pixel_of_images_with_one_label(self):
        support.write_cifar(self.folder / "data", 8, 4)
        layers = [{"name": "conv", "type": "conv2d", "out_channels": 10, "kernel": 3, "padding": 1}]
        self.refuse_model("a prediction for each of 1024 pixels, but cifar10 has one label",
                          {"name": "cifar10"}, blocks={}, layers=layers)
        self.refuse_model("not their maps of labels", {"name": "synthetic", "augment": True}, blocks={},
                          layers=layers)

    def test_damaged_and_missing_files_of_cifar(self):
        cifar = {"name": "cifar10", "on_missing": "error"}
        self.refuse_model("data fetch cifar10", cifar)
        support.write_cifar(self.folder / "data", 8, 4)
        place = self.folder / "data" / "cifar10"
        (place / "test_batch.bin").write_bytes(b"\0" * 3072)
        self.refuse_model("records of 3073 bytes, found 3072", cifar)
        (place / "test_batch.bin").unlink()
        self.refuse_model("test_batch.bin is missing", cifar)


class DataSets(unittest.TestCase):
    def settled(self, model, **given):
        found = options.resolve([], {})
        found.update(model=model, **given)
        catalog.settle(found, content.describe(options.model_path(model)))
        return found["dataset/name"], found["dataset/mean"]

    def test_auto_is_the_first_that_fits(self):
        self.assertEqual(self.settled("lenet5"), ("mnist", 0.1307))
        self.assertEqual(self.settled("resnet20"), ("cifar10", [0.4914, 0.4822, 0.4465]))
        self.assertEqual(self.settled("resnet18"), ("synthetic", 0.5))
        self.assertEqual(self.settled("resnet20", **{"dataset/mean": 0.25}), ("cifar10", 0.25))

    def test_shapes_are_those_of_the_networks(self):
        for model, image in (("resnet152", [3, 224, 224]), ("vgg16", [3, 224, 224])):
            described = content.describe(options.model_path(model))
            self.assertEqual((described["input"], described["classes"], described["map"]),
                             (image, 1000, None))
        self.assertEqual(shapes.of_layer({"type": "max_pool2d", "kernel": 3, "stride": 2, "padding": 1},
                                         [(64, 112, 112)]), (64, 56, 56))
        self.assertEqual(shapes.of_layer({"type": "avg_pool2d", "kernel": 2, "stride": [5, 10],
                                          "padding": 1, "ceil_mode": True}, [(8, 12, 9)]), (8, 3, 1))
        self.assertEqual(shapes.of_layer({"type": "conv2d", "out_channels": 4, "kernel": [4, 3],
                                          "padding": "same"}, [(1, 12, 9)]), (4, 12, 9))
        self.assertEqual(shapes.of_layer({"type": "conv2d", "out_channels": 4, "kernel": [3, 1],
                                          "dilation": 2}, [(1, 9, 8)]), (4, 5, 8))

    def test_cifar_is_read_as_it_lies(self):
        with tempfile.TemporaryDirectory() as folder:
            support.write_cifar(folder, 5, 3)
            archive = pathlib.Path(folder) / "archived" / "cifar10"
            archive.mkdir(parents=True)
            with tarfile.open(archive / cifar.ARCHIVE, "w:gz") as made:
                made.add(pathlib.Path(folder) / "cifar10", cifar.FOLDER)
            plain = cifar.find(folder, "cifar10")
            self.assertEqual((cifar.count(plain["train"]), cifar.count(plain["test"])), (5, 3))
            images, labels = cifar.read(plain["train"])
            record = (pathlib.Path(folder) / "cifar10" / "data_batch_1.bin").read_bytes()[3073:6146]
            self.assertEqual((labels[1], images[3072:6144]), (record[0], record[1:]))
            packed = cifar.find(str(pathlib.Path(folder) / "archived"), "cifar10")
            self.assertEqual(cifar.read(packed["test"]), cifar.read(plain["test"]))

    def test_every_key_of_configuration_files_is_known(self):
        schema = support.read_json(support.ROOT / "configs/schema/config.schema.json")
        keys = {f"{key}/{member}" if "properties" in (value or {}) else key
                for key, value in schema["properties"].items() if isinstance(value, dict)
                for member in value.get("properties", [""])}
        known = {*options.BY_NAME, *options.NOT_HEEDED, *options.REFUSED, "optimizer/name",
                 *(f"optimizer/{name}" for name in options.OPTIMIZER_OPTIONS)}
        self.assertEqual(keys - known, set())


class Layers(unittest.TestCase):
    def test_optimizers_have_their_defaults_and_forget_those_of_others(self):
        found = options.resolve(["--config=mnist", "--optimizer=adamw"], {})
        self.assertEqual((found["lr"], found["weight_decay"]), (0.01, 0))  # the file's
        found = options.resolve(["--optimizer=adamw"], {})
        self.assertEqual((found["lr"], found["weight_decay"]), (0.001, 0.01))
        found = options.resolve([], {})
        self.assertEqual((found["lr"], found["weight_decay"]), (0.01, 0))

    def test_flags_win_over_variables_over_the_file(self):
        found = options.resolve(["--config=mnist", "--lr=0.5"],
                                {"DDPBENCH_LR": "0.25", "DDPBENCH_EPOCHS": "7"})
        self.assertEqual((found["lr"], found["epochs"], found["batch_size"]), (0.5, 7, 64))

    def test_batch_sizes_replace_each_other(self):
        found = options.resolve(["--config=mnist", "--global_batch_size", "32"], {})
        self.assertEqual((found["batch_size"], found["global_batch_size"]), (None, 32))
        found = options.resolve(["--batch-size=8"], {"DDPBENCH_GLOBAL_BATCH_SIZE": "32"})
        self.assertEqual((found["batch_size"], found["global_batch_size"]), (8, None))

    def test_every_configuration_of_the_project_is_understood(self):
        for path in (support.ROOT / "configs").glob("*.json"):
            self.assertTrue(options.resolve([f"--config={path}"], {})["strategy"])


class Numbers(unittest.TestCase):
    def test_a_strategy_that_it_does_not_know_is_skipped(self):
        for strategy, device in (("fsdp", "cpu"), ("fsdp", "cuda"), ("ps", "cuda"), ("dp", "cpu")):
            self.assertTrue(plan.skip_reason(strategy, device, {"compile": "none"}), strategy)
        self.assertIsNone(plan.skip_reason("ddp", "cpu", {"compile": "none"}))

    def test_the_sampler_has_ddpbenchs_order(self):
        # The same values as in tests/datasets/sharded_sampler_test.cpp.
        self.assertEqual(sampler.permutation(10, 1, 0), [6, 9, 5, 7, 4, 0, 1, 2, 3, 8])
        order = [6, 9, 5, 7, 4]
        places = sampler.shard_places(4, 2, 1, 2)
        self.assertEqual([[order[at % 5] for at in step] for step in places], [[9, 7], [6, 5]])
        self.assertEqual(sampler.steps_per_epoch(10, 4, "pad"), 3)
        self.assertEqual(sampler.steps_per_epoch(10, 4, "drop"), 2)

    def test_statistics(self):
        self.assertEqual(figures.summary([4.0, 1.0, 3.0, 2.0])["median"], 2.5)
        self.assertIsNone(figures.summary([4.0])["iqr"])
        self.assertEqual(figures.quantile([1.0, 2.0], 0.25), 1.25)
        self.assertIsNone(figures.median_interval([1.0] * 5))
        self.assertEqual(figures.median_interval([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), (1.0, 6.0))


class Blocks(unittest.TestCase):
    """As tests/nn/block_test.cpp has it."""

    RESIDUAL = {"parameters": {"channels": None, "kernel": 3}, "layers": [
        {"name": "conv", "type": "conv2d", "out_channels": "$channels", "kernel": ["$kernel", 1]},
        {"name": "sum", "type": "add", "inputs": ["conv", "input"]}]}

    def test_repetitions_are_a_chain_of_layers(self):
        layers, outputs = blocks.placed({"blocks": {"residual": self.RESIDUAL}, "layers": [
            {"name": "s", "block": "residual", "repeat": 2, "first": 1, "with": {"channels": 4}},
            {"name": "r", "type": "add", "inputs": ["s", "s.1"]}]})
        self.assertEqual([(layer["name"], layer["inputs"]) for layer in layers], [
            ("s.1.conv", ["input"]), ("s.1.sum", ["s.1.conv", "input"]),
            ("s.2.conv", ["s.1.sum"]), ("s.2.sum", ["s.2.conv", "s.1.sum"]),
            ("r", ["s.2.sum", "s.1.sum"])])
        self.assertEqual(layers[0]["out_channels"], 4)
        self.assertEqual(layers[2]["kernel"], [3, 1])
        self.assertEqual(outputs, ["r"])

    def test_blocks_of_blocks_hand_values_on_and_name_inputs_and_output(self):
        outer = {"parameters": {"width": None}, "inputs": ["left", "right"], "output": "sum",
                 "layers": [{"name": "sum", "type": "add", "inputs": ["body", "right"]},
                            {"name": "body", "block": "residual", "inputs": ["left"],
                             "with": {"channels": "$width", "kernel": 1}}]}
        layers, outputs = blocks.placed({
            "blocks": {"residual": self.RESIDUAL, "outer": outer},
            "layers": [{"name": "a", "type": "relu"},
                       {"name": "b", "block": "outer", "inputs": ["input", "a"],
                        "with": {"width": 6}}]})
        self.assertEqual([(layer["name"], layer["inputs"]) for layer in layers], [
            ("a", ["input"]), ("b.sum", ["b.body.sum", "a"]), ("b.body.conv", ["input"]),
            ("b.body.sum", ["b.body.conv", "input"])])
        self.assertEqual((layers[2]["out_channels"], layers[2]["kernel"]), (6, [1, 1]))
        self.assertEqual(outputs, ["b.sum"])

    def test_a_network_without_blocks_stays_as_it_is(self):
        layers, outputs = blocks.placed({"layers": [{"name": "a", "type": "relu"},
                                                    {"name": "b", "type": "relu"}]})
        self.assertEqual(layers, [{"name": "a", "type": "relu", "inputs": ["input"]},
                                  {"name": "b", "type": "relu", "inputs": ["a"]}])
        self.assertEqual(outputs, ["b"])


if __name__ == "__main__":
    unittest.main()
