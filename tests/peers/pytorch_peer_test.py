# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the PyTorch peer with ddpbench: same start, same training, a valid report.

    pytorch_peer_test.py DDPBENCH VALIDATE_REPORT [unittest arguments]

Exits with 77, which ctest shows as skipped, where no interpreter has PyTorch."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

PROGRAM = VALIDATE = None
# |difference| / |change since step 0|, in 2-norms. Rounding alone gives 1e-6 here. Where two pixels
# of a pooling window are that close, another algorithm (Winograd) may choose the other one. That
# moves one of thousands of gradients and gives a few 1e-4. One wrong batch of a dozen gives 1e-1.
TOLERANCE = 2e-3
STILL = ["--epochs=1", "--steps=1", "--lr=1e-30"]  # steps too small to change any weight


class Comparison(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        support.write_mnist(self.folder / "data")

    def options(self, name, *more):
        device = [] if any("--device" in word for word in more) else ["--device=cpu"]
        return [*device, "--data-dir=data", f"--json={name}.json", "--warmup-steps=2",
                "--quiet", *([] if any("batch-size" in word for word in more) else ["--batch-size=8"]),
                *more]

    def ours(self, name, *more):
        support.run([PROGRAM, *self.options(name, "--verify-steps=0", *more)], self.folder)
        return support.read_json(self.folder / f"{name}.json")

    def peer(self, name, *more, expected=0):
        self.said = support.run([sys.executable, "-B", support.SCRIPT, *self.options(name, *more)],
                                self.folder, expected)
        return support.read_json(self.folder / f"{name}.json")

    def weights(self, name):
        return weights.read(str(self.folder / name))

    def model(self, name, **dataset):
        section = {"dataset": dataset} if dataset else {}
        (self.folder / "c.json").write_text(json.dumps({"model": name, "last_batch": "pad", **section}))
        return "--config=c.json"


# The last layer's result is the sum of a normalised and a plain branch.
NORMALIZED = {"name": "normalized", "input": [1, 28, 28], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 6, "kernel": 3, "stride": 2, "bias": False},
    {"name": "norm1", "type": "batch_norm2d", "momentum": 0.3},
    {"name": "relu1", "type": "relu"},
    {"name": "conv2", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1, "bias": False},
    {"name": "norm2", "type": "batch_norm2d", "eps": 0.001},
    {"name": "sum", "type": "add", "inputs": ["norm2", "relu1"]},
    {"name": "relu2", "type": "relu"},
    {"name": "norm3", "type": "batch_norm2d", "affine": False},
    {"name": "drop", "type": "dropout", "p": 0},
    {"name": "head", "type": "linear", "out_features": 10}]}


class TrainsUntilAnAccuracy(Comparison):
    def test_all_ranks_end_with_the_same_epoch(self):
        for target, epochs in (("1%", 1), ("100%", 2)):
            more = ["--strategy=ddp", "--gpus=2", "--epochs=2", "--steps=2", "--force",
                    f"--until-accuracy={target}"]
            for report in (self.ours("ours", *more), self.peer("peer", *more)):
                run = report["runs"][0]
                self.assertEqual(len(run["epochs"]), epochs)
                section = run["until_accuracy"]
                if epochs == 1:
                    self.assertEqual(section, {"target": 0.01,
                                               "train_s": run["epochs"][0]["time_s"]})
                else:
                    self.assertIsNone(section["train_s"])
                    self.assertRegex(section["train_s_reason"],
                                     r"^100 % was not reached in 2 epochs: at best \d+\.\d\d %$")
            support.run([VALIDATE, "peer.json"], self.folder)


class StartsAsDdpbench(Comparison):
    def test_initial_weights_are_the_same_bits(self):
        (self.folder / "drawn.json").write_text(json.dumps(
            {**NORMALIZED, "init": {"conv2d": "normal_fan_out", "linear": 0.01}}))
        for model in ("simple_cnn", "lenet5", str(self.folder / "drawn.json")):
            for seed in (1, 2**40 + 5):
                with self.subTest(model=model, seed=seed):
                    more = [self.model(model), f"--seed={seed}", *STILL, "--save-model=w", "--force"]
                    self.ours("ours", *more)
                    network = networks.load(options.model_path(model))
                    drawn = networks.initial_weights(network, seed)
                    saved = self.weights("w")
                    self.assertEqual(list(drawn), list(saved))
                    for name, _ in network.named_parameters():
                        # What begins with 0 did move by the tiny rate.
                        moved = (saved[name] - drawn[name]).abs().max().item()
                        self.assertLess(moved, 1e-25, name)

    def test_loads_and_saves_ddpbenchs_weights(self):
        self.ours("ours", "--steps=3", "--lr=0.1", "--save-model=trained")
        self.peer("peer", *STILL, "--load-model=trained", "--save-model=again")
        again = self.weights("again")
        for name, values in self.weights("trained").items():
            self.assertTrue(torch.equal(values, again[name]), name)


class TrainsLikeDdpbench(Comparison):
    """Epochs have one or few steps: the loss shows which samples were used, with which weights."""

    def relative_difference(self, initial, ours, theirs):
        self.assertEqual(ours.keys(), theirs.keys())
        counts = [name for name in ours if not ours[name].is_floating_point()]
        for name in counts:
            self.assertTrue(torch.equal(ours[name], theirs[name]), name)
        return max(((theirs[name] - ours[name]).norm() / (ours[name] - initial[name]).norm()).item()
                   for name in ours if name not in counts)

    def compare(self, *more, model="simple_cnn", seed=1, **dataset):
        more = [self.model(model, **dataset), *more]
        ours = self.ours("ours", *more, "--save-model=w_ours")
        theirs = self.peer("peer", *more, "--save-model=w_peer")
        initial = networks.initial_weights(networks.load(options.model_path(model)), seed)
        difference = self.relative_difference(initial, self.weights("w_ours"),
                                              self.weights("w_peer"))
        print(f"{model} {more[1:]}: weights differ by {difference:.2g} of their change")
        self.assertLess(difference, TOLERANCE)
        epochs = list(zip(ours["runs"][0]["epochs"], theirs["runs"][0]["epochs"]))
        self.assertEqual(len(epochs), len(ours["runs"][0]["epochs"]))
        for mine, other in epochs:
            self.assertEqual(mine["samples"], other["samples"])
            self.assertAlmostEqual(mine["train_loss"], other["train_loss"], delta=1e-4)
            self.assertAlmostEqual(mine["train_accuracy"], other["train_accuracy"], delta=0.02)
            self.assertAlmostEqual(mine["test_accuracy"], other["test_accuracy"], delta=0.02)

    def test_single(self):
        self.compare("--epochs=6", "--steps=2", "--lr=0.05")

    def test_single_over_whole_epochs_with_a_padded_batch(self):
        self.compare("--epochs=2", "--batch-size=96", "--weight-decay=0.01", model="lenet5")

    # Adam's first steps are as long as the learning rate however small a gradient is, so elements
    # that are nothing but rounding may go either way; epsilon keeps these small.
    def test_nesterov(self):
        self.compare("--epochs=6", "--steps=2", "--nesterov", "--weight-decay=0.01")

    def test_adam(self):
        self.compare("--optimizer=adam", "--epochs=6", "--steps=2", "--epsilon=1e-3",
                     "--weight-decay=0.01")

    def test_adamw_of_ddp(self):
        self.compare("--optimizer=adamw", "--strategy=ddp", "--gpus=2", "--epochs=4", "--steps=3",
                     "--epsilon=1e-3", "--beta1=0.8", "--weight-decay=0.1", model="lenet5")

    def test_step_schedule_with_warm_up(self):
        self.compare("--epochs=6", "--steps=2", "--lr=0.05", "--lr-schedule=step",
                     "--lr-step-size=3", "--lr-gamma=0.5", "--lr-warmup-steps=4")

    def test_cosine_schedule_of_adam(self):
        self.compare("--optimizer=adam", "--epochs=5", "--steps=2", "--epsilon=1e-3",
                     "--lr-schedule=cosine", "--lr-min=1e-5", "--lr-warmup-steps=3",
                     "--lr-warmup-factor=0.1")

    def normalized(self):
        (self.folder / "normalized.json").write_text(json.dumps(NORMALIZED))
        return str(self.folder / "normalized.json")

    # On one device: PyTorch's DDP averages the means of its ranks, however many labels each has.
    def test_smoothed_and_ignored_labels(self):
        model = json.loads(pathlib.Path(options.model_path("lenet5")).read_text())
        model["loss"] = {"label_smoothing": 0.1, "ignore_index": 3}
        (self.folder / "smoothed.json").write_text(json.dumps(model))
        self.compare("--epochs=3", "--steps=4", "--lr=0.05",
                     model=str(self.folder / "smoothed.json"))

    # With DDP the logits of both heads are outputs of the wrapped module.
    def test_auxiliary_output(self):
        layers = [{"name": "conv", "type": "conv2d", "out_channels": 6, "kernel": 5, "stride": 3},
                  {"name": "relu1", "type": "relu"},
                  {"name": "early", "type": "linear", "out_features": 10},
                  {"name": "hidden", "type": "linear", "inputs": ["relu1"], "out_features": 32},
                  {"name": "relu2", "type": "relu"},
                  {"name": "head", "type": "linear", "out_features": 10}]
        heads = {"name": "heads", "input": [1, 28, 28], "layers": layers, "auxiliary": [
            {"output": "early", "weight": 0.4, "loss": {"label_smoothing": 0.1}}]}
        (self.folder / "heads.json").write_text(json.dumps(heads))
        for more in (["--strategy=single"], ["--strategy=ddp", "--gpus=2", "--force"]):
            self.compare("--epochs=3", "--steps=4", "--lr=0.05", *more,
                         model=str(self.folder / "heads.json"))

    def test_batch_norm(self):
        self.compare("--epochs=3", "--steps=4", "--lr=0.05", model=self.normalized())

    def linear(self, side, classes):
        """A network of colour images in which rounding decides nothing."""
        layers = [{"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 5, "stride": 4},
                  {"name": "head", "type": "linear", "out_features": classes}]
        path = self.folder / "linear.json"
        path.write_text(json.dumps({"name": "linear", "input": [3, side, side], "layers": layers}))
        return str(path)

    # ddpbench takes cifar10 for images of this shape, and so does the peer.
    def test_colour_images_plain_and_augmented(self):
        support.write_cifar(self.folder / "data", 96, 24)
        for augment in (False, True):
            with self.subTest(augment=augment):
                self.compare("--epochs=3", "--steps=2", "--force", model=self.linear(32, 10),
                             augment=augment)
                reports = [support.read_json(self.folder / f"{name}.json") for name in ("ours", "peer")]
                mine, other = (report["runs"][0]["dataset"] for report in reports)
                self.assertEqual(mine, other)
                self.assertEqual((mine["source"], mine["augment"]), ("files", augment))

    def test_synthetic_images(self):
        self.compare("--epochs=2", "--steps=2", "--seed=7", "--batch-size=4", seed=7,
                     model=self.linear(400, 12))
        report = support.read_json(self.folder / "peer.json")
        self.assertEqual(report["runs"][0]["dataset"]["source"], "synthetic")

    # With ignored labels on one device: each rank of DDP takes the mean over its own labels.
    def test_maps_of_labels(self):
        layers = [{"name": "conv", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1},
                  {"name": "head", "type": "conv2d", "out_channels": 5, "kernel": 5, "stride": 2}]
        path = self.folder / "maps.json"
        for loss, more in (({"ignore_index": 255}, ["--strategy=single"]),
                           ({"label_smoothing": 0.1}, ["--strategy=ddp", "--gpus=2"])):
            path.write_text(json.dumps({"name": "maps", "input": [3, 24, 20], "layers": layers,
                                        "loss": loss}))
            with self.subTest(loss):
                self.compare("--epochs=2", "--steps=2", "--lr=0.05", "--force", *more,
                             model=str(path))
        mine, other = (support.read_json(self.folder / f"{name}.json")["runs"][0]
                       for name in ("ours", "peer"))
        self.assertEqual(mine["dataset"], other["dataset"])
        self.assertEqual(mine["epochs"][1]["test_accuracy"], other["epochs"][1]["test_accuracy"])

    # Each rank evaluates with its own statistics, and rank 0's are saved.
    def test_ddp_that_keeps_its_buffers(self):
        self.compare("--strategy=ddp", "--gpus=2", "--epochs=2", "--steps=3", "--lr=0.05",
                     "--broadcast-buffers=off", model=self.normalized())
        for name in ("ours", "peer"):
            run = support.read_json(self.folder / f"{name}.json")["runs"][0]
            self.assertIs(run["strategy_options"]["broadcast_buffers"], False)

    # Rank 0's running statistics survive, as those of DistributedDataParallel's default.
    def test_ddp_with_batch_norm(self):
        self.compare("--strategy=ddp", "--gpus=2", "--epochs=2", "--steps=3", "--lr=0.05",
                     model=self.normalized())

    def test_ddp(self):
        self.compare("--strategy=ddp", "--gpus=2", "--epochs=4", "--steps=3", "--lr=0.05")

    def test_ddp_on_three_devices_with_a_global_batch(self):
        self.compare("--strategy=ddp", "--gpus=3", "--epochs=2", "--global-batch-size=24",
                     "--lr-scaling=linear", "--last-batch=drop", model="lenet5")


class WritesReports(Comparison):
    def validate(self, *names):
        support.run([VALIDATE, *names], self.folder)

    def test_report_is_valid_and_shown(self):
        report = self.peer("peer", "--strategy=single,dp,ddp,ps", "--gpus=1,2", "--epochs=2",
                           "--steps=3", "--repetitions=2")
        self.validate("peer.json")
        self.assertEqual(report["generator"]["name"], "ddpbench-pytorch-peer")
        self.assertEqual(report["environment"]["libraries"]["torch"], torch.__version__)
        found = [(run["strategy"], run["world_size"], run["repetition"], run["status"])
                 for run in report["runs"]]
        self.assertEqual(found, [
            (strategy, world, repetition, "ok" if strategy in ("single", "ddp") else "skipped")
            for strategy, world in (("single", 1), ("dp", 1), ("dp", 2), ("ddp", 1), ("ddp", 2),
                                    ("ps", 1), ("ps", 2))
            for repetition in (0, 1)])
        self.assertEqual(sorted(run["sequence"] for run in report["runs"]), list(range(14)))
        ddp = report["runs"][8]
        self.assertEqual(ddp["step"]["count"], 6)
        self.assertEqual(len(ddp["devices"]), 2)
        self.assertIsNone(ddp["devices"][0]["memory"]["peak_bytes"])
        self.assertIsNone(ddp["phases"]["comm_s"])
        self.assertIn("DataParallel", report["runs"][2]["reason"])
        self.assertNotEqual(report["runs"][5]["status"], "ok")
        ours = self.ours("ours", "--strategy=single,ddp", "--gpus=2", "--epochs=2", "--steps=3")
        for key in ("model", "model_hash"):
            self.assertEqual(ddp[key], ours["runs"][0][key])
        text = support.run([PROGRAM, "show", "peer.json", "ours.json"], self.folder)
        self.assertIn("ddpbench-pytorch-peer", text)
        support.run([PROGRAM, "chart", "peer.json", "ours.json"], self.folder)
        support.run([PROGRAM, "html", "peer.json", "ours.json", "-o", "page.html"], self.folder)
        # Either may be faster. The test is that the gate can compare them.
        text = support.run([PROGRAM, "check", "ours.json", "--baseline", "peer.json"], self.folder,
                           expected=(0, 6, 7))
        self.assertIn("single, 1 device (1 new repetition against 2 of the baseline)", text)

    def test_a_published_networks_report_is_shown_and_checked(self):
        support.write_cifar(self.folder / "data", 64, 16)
        more = [self.model("resnet20"), "--strategy=single,ddp", "--gpus=2", "--steps=1"]
        peer, ours = self.peer("peer", *more), self.ours("ours", *more)
        self.validate("peer.json")
        for mine, other in zip(ours["runs"], peer["runs"], strict=True):
            for key in ("strategy", "model", "model_hash", "dataset", "parameters", "status"):
                self.assertEqual(mine[key], other[key], key)
            # Of the start weights. A step further, rectifiers near 0 may have chosen other paths
            # (tests/nn/record_steps.py).
            losses = [run["epochs"][0]["train_loss"] for run in (mine, other)]
            self.assertAlmostEqual(*losses, delta=1e-5)
        self.assertIs(peer["runs"][1]["strategy_options"]["broadcast_buffers"], True)
        self.assertIn("resnet20", support.run([PROGRAM, "show", "peer.json"], self.folder))
        text = support.run([PROGRAM, "check", "ours.json", "--baseline", "peer.json"], self.folder,
                           expected=(0, 6, 7))
        self.assertIn("single, 1 device", text)

    def test_what_needs_a_gpu_is_not_here(self):
        for option in ("--device=cuda", "--compile=cuda-graphs", "--precision=tf32",
                       "--residency=device"):
            if option == "--device=cuda" and torch.cuda.is_available():
                continue
            with self.subTest(option):
                support.run([sys.executable, "-B", support.SCRIPT, *self.options("r", option)],
                            self.folder, 3)
                self.assertFalse((self.folder / "r.json").exists())

    def test_a_rank_that_dies_is_recorded(self):
        process = self.start("--strategy=ddp", "--gpus=2", "--epochs=100000")
        self.kill_a_rank(process)
        self.assertEqual(process.wait(120), 4)
        report = support.read_json(self.folder / "r.json")
        self.validate("r.json")
        self.assertEqual((report["status"], report["error"]["signal"]), ("failed", 9))
        self.assertEqual(self.ranks_of(process), [])

    def test_ctrl_c_leaves_a_partial_report(self):
        process = self.start("--strategy=ddp", "--gpus=2", "--epochs=100000")
        self.await_training(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(120), 130)
        report = support.read_json(self.folder / "r.json")
        self.validate("r.json")
        self.assertEqual((report["status"], report["runs"][0]["status"]), ("interrupted",) * 2)
        self.assertGreater(len(report["runs"][0]["epochs"]), 0)

    def test_a_stalled_rank_ends_the_run(self):
        process = self.start("--strategy=ddp", "--gpus=2", "--epochs=100000", "--timeout=15")
        os.kill(self.await_training(process)[1], signal.SIGSTOP)
        self.assertEqual(process.wait(180), 4)
        self.assertEqual(support.read_json(self.folder / "r.json")["error"]["kind"], "timeout")

    def start(self, *more):
        return subprocess.Popen([sys.executable, "-B", str(support.SCRIPT),
                                 *self.options("r", "--steps=2", *more)],
                                cwd=self.folder, stdout=subprocess.DEVNULL,
                                env=support.clean_environment(TMPDIR=str(self.folder)))

    def ranks_of(self, process):
        """Returns the training processes that it started."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == process.pid and b"run" in words:
                found.append((words[-2], int(entry.name)))
        return [pid for _, pid in sorted(found)]

    def await_training(self, process):
        """Waits until all ranks have reported an epoch. Returns their processes."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if len(list(self.folder.glob("ddpbench-peer-*/result_*.json"))) == 2:
                return self.ranks_of(process)
            time.sleep(0.05)
        self.fail("the ranks did not start to train")

    def kill_a_rank(self, process):
        os.kill(self.await_training(process)[1], signal.SIGKILL)


if __name__ == "__main__":
    found = support.python_with("torch")
    if found is None:
        print("skipped: no interpreter here has PyTorch (Debian: python3-torch)")
        sys.exit(77)
    if os.path.realpath(found) != os.path.realpath(sys.executable):
        os.execv(found, [found, "-B", *sys.argv])
    sys.path.insert(0, str(support.PEERS))
    import torch
    from pytorch_peer import network as networks
    from pytorch_peer import options, weights
    torch.set_num_threads(1)
    PROGRAM, VALIDATE = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
