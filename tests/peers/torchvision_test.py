# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Exchanges weights of the published networks with torchvision, in both directions, all names and
shapes alike.

    torchvision_test.py DDPBENCH [unittest arguments]

Exits with 77, which ctest shows as skipped, where no interpreter has torchvision."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

PROGRAM = None
STILL = "--lr=1e-30"  # too small a rate to change any weight but those that are 0


class Torchvision(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        support.write_cifar(self.folder / "data", 8, 4)

    def configure(self, name):
        """The network for images of CIFAR-10: no weight's shape depends on that. AlexNet needs 63 rows,
        so it gets synthetic images, of which there are fewer the larger they are."""
        side = 224 if name == "alexnet" else 32
        text = (support.ROOT / "configs" / "models" / f"{name}.json").read_text()
        for published in (224, 513):
            text = text.replace(f"[3, {published}, {published}]", f"[3, {side}, {side}]")
        (self.folder / "model.json").write_text(text)
        (self.folder / "c.json").write_text(json.dumps({"model": "model.json", "last_batch": "pad"}))

    def train(self, *more):
        support.run([PROGRAM, "--config=c.json", "--data-dir=data", "--device=cpu", "--batch-size=2",
                     "--steps=1", "--warmup-steps=0", "--verify-steps=0", "--quiet", "--force",
                     "--json=r.json", *more], self.folder)

    def exchange(self, name):
        self.configure(name)
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
    sys.path.insert(0, str(support.PEERS))
    import torch
    import torchvision
    from pytorch_peer import weights
    torch.set_num_threads(1)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
