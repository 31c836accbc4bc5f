# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Exchanges weights of the published networks with torchvision, in both directions, all names and
shapes alike; trains DeepLabV3 with both.

    torchvision_test.py DDPBENCH [unittest arguments]

Exits with 77, which ctest shows as skipped, where no interpreter has torchvision."""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

PROGRAM = None
STILL = "--lr=1e-30"  # too small a rate to change any weight but those that are 0


class Comparison(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "data").mkdir()

    def configure(self, name, side):
        """The network for images of `side` x `side`: no weight's shape depends on that."""
        text = (support.ROOT / "configs" / "models" / f"{name}.json").read_text()
        for published in (224, 513):
            text = text.replace(f"[3, {published}, {published}]", f"[3, {side}, {side}]")
        (self.folder / "model.json").write_text(text)
        (self.folder / "c.json").write_text(json.dumps({"model": "model.json", "last_batch": "pad"}))

    def train(self, *more, batch=2, steps=1):
        support.run([PROGRAM, "--config=c.json", "--data-dir=data", "--device=cpu", f"--batch-size={batch}",
                     f"--steps={steps}", "--warmup-steps=0", "--verify-steps=0", "--quiet", "--force",
                     "--json=r.json", *more], self.folder)
        return support.read_json(self.folder / "r.json")["runs"][0]


class Torchvision(Comparison):
    def exchange(self, name):
        # AlexNet needs 63 rows, so it gets synthetic images, of which there are fewer the larger they are.
        self.configure(name, 224 if name == "alexnet" else 32)
        support.write_cifar(self.folder / "data", 8, 4)
        torch.manual_seed(1)
        model = torchvision_model(name)
        drawn = {key: value.clone() for key, value in model.state_dict().items()}
        weights.write(str(self.folder / "theirs"), drawn)
        self.train("--load-model=theirs", "--save-model=loaded", STILL)
        loaded = weights.read(str(self.folder / "loaded"))
        for key, parameter in model.named_parameters():
            difference = (loaded[key] - drawn[key]).abs().max().item()
            # The step's update: the rate times a gradient, which is huge in 152 layers that have
            # learnt nothing. A weight that is not loaded differs by 1e-3 and more.
            self.assertLess(difference, 1e-9, key)
        self.train("--save-model=ours")
        ours = weights.read(str(self.folder / "ours"))
        model.load_state_dict(ours, strict=True)
        for key, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, ours[key]), key)


class DeepLab(Comparison):
    """Trains the whole network with both, without dropout, from the same weights and on the same images.
    Batch norm is settled (record_steps.py), or rounding would grow to some percent in a few steps, and its
    statistics follow the batches, or one class would be predicted everywhere."""
    NAME = "deeplabv3_resnet101"
    SHAPE, CLASSES, IGNORED, SEED = (3, 97, 97), 21, 255, 1
    BATCH, STEPS, RATE = 4, 3, 0.01

    def setUp(self):
        super().setUp()
        self.configure(self.NAME, self.SHAPE[1])
        file = self.folder / "model.json"
        text = re.sub(r'"p": 0\.\d', '"p": 0', file.read_text())
        file.write_text(text.replace('"batch_norm2d"', '"batch_norm2d", "momentum": 0.9'))
        torch.manual_seed(1)
        self.model = torchvision_model(self.NAME)
        for layer in self.model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = 0.9
        self.counts = synthetic.counts(self.SHAPE, self.SHAPE[1:])

    def sample(self, number):
        images, maps = synthetic.draw(self.SEED, self.SHAPE, self.CLASSES, number, 1,
                                      synthetic.Maps(*self.SHAPE[1:], self.IGNORED))
        scale = 255 * synthetic.DEVIATION
        return (torch.from_numpy(images) / scale - synthetic.MEAN / synthetic.DEVIATION,
                torch.from_numpy(maps).long())

    def learn(self):
        """Returns the mean loss of the steps' labels."""
        order = sampler.permutation(self.counts[0], self.SEED, 0)
        optimizer = torch.optim.SGD(self.model.train().parameters(), lr=self.RATE, momentum=0.9)
        total = labels = 0
        for step in range(self.STEPS):
            batch = order[self.BATCH * step:self.BATCH * (step + 1)]
            images, maps = map(torch.cat, zip(*map(self.sample, batch)))
            optimizer.zero_grad()
            outputs = self.model(images)
            of_map = [torch.nn.functional.cross_entropy(outputs[key], maps, ignore_index=self.IGNORED)
                      for key in ("out", "aux")]
            loss = of_map[0] + 0.5 * of_map[1]
            loss.backward()
            optimizer.step()
            valid = (maps != self.IGNORED).sum().item()
            total, labels = total + loss.item() * valid, labels + valid
        return total / labels

    def mean_iou(self):
        self.model.eval()
        pairs = torch.zeros(self.CLASSES ** 2)
        for at in range(self.counts[1]):
            images, maps = self.sample(synthetic.TEST_SAMPLES_FROM + at)
            with torch.no_grad():
                predicted = self.model(images)["out"].argmax(1)
            valid = maps != self.IGNORED
            pairs += torch.bincount(self.CLASSES * maps[valid] + predicted[valid], minlength=len(pairs))
        pairs = pairs.reshape(self.CLASSES, self.CLASSES)
        hits = pairs.diagonal()
        either = pairs.sum(0) + pairs.sum(1) - hits
        self.assertGreater((pairs.sum(0) > 0).sum(), 1)  # classes that are predicted
        return (hits / either)[either > 0].mean().item()

    def test_learns_and_is_judged_alike(self):
        start = {name: each.clone() for name, each in self.model.state_dict().items()}
        record_steps.settle(start)
        self.model.load_state_dict(start)
        weights.write(str(self.folder / "theirs"), start)
        run = self.train("--dataset=synthetic", f"--seed={self.SEED}", f"--lr={self.RATE}", "--momentum=0.9",
                         "--weight-decay=0", "--load-model=theirs", "--save-model=ours", batch=self.BATCH,
                         steps=self.STEPS)
        ours = run["epochs"][0]
        loss, theirs = self.learn(), self.mean_iou()
        learnt = {name: each.clone() for name, each in self.model.named_parameters()}
        saved = weights.read(str(self.folder / "ours"))
        self.model.load_state_dict(saved, strict=True)
        again = self.mean_iou()
        difference = max(((saved[name] - each).norm() / (each - start[name]).norm()).item()
                         for name, each in learnt.items())
        print(f"loss {ours['train_loss']:.7g}, torchvision {loss:.7g}; mIoU {ours['test_miou']:.6g}, "
              f"torchvision with our weights {again:.6g}, with its own {theirs:.6g}; "
              f"weights differ by up to {difference:.2g} of their change")
        self.assertLess(abs(ours["train_loss"] / loss - 1), 1e-5)
        self.assertLess(abs(ours["test_miou"] / again - 1), 1e-4)
        self.assertLess(abs(ours["test_miou"] / theirs - 1), 5e-2)
        self.assertLess(difference, 5e-2)


def torchvision_model(name):
    if hasattr(torchvision.models, name):
        return getattr(torchvision.models, name)()
    make = getattr(torchvision.models.segmentation, name)
    return make(weights=None, weights_backbone=None, num_classes=21, aux_loss=True)


def add_test(name):
    setattr(Torchvision, f"test_{name}", lambda self: self.exchange(name))


for each in ("alexnet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "vgg16",
             "deeplabv3_resnet101"):
    add_test(each)


if __name__ == "__main__":
    found = support.python_with("torchvision")
    if found is None:
        print("skipped: no interpreter here has torchvision (Debian: python3-torchvision)")
        sys.exit(77)
    if os.path.realpath(found) != os.path.realpath(sys.executable):
        os.execv(found, [found, "-B", *sys.argv])
    sys.path[:0] = [str(support.PEERS), str(support.ROOT / "tests" / "nn")]
    import record_steps
    import torch
    import torchvision
    from pytorch_peer import sampler, synthetic, weights
    torch.set_num_threads(1)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
