#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Checks deploy/ and the command lines of docs/launch.md as far as no cluster is needed: manifests
are YAML with what they must have, and every option, file and variable that is named exists.

    deploy_test.py DDPBENCH
"""

import pathlib
import re
import shlex
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DDPBENCH = "ddpbench"


def text_of(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def documents(name):
    return list(yaml.safe_load_all(text_of("deploy", "kubernetes", name)))


def command_lines(text):
    """The lines that start ddpbench, with continued ones joined: its own arguments of each."""
    joined = re.sub(r"\\\n\s*#?\s*", "", text)
    for line in joined.splitlines():
        line = re.split(r"\s2?> ", line)[0].strip().lstrip("#").strip()
        if "kubectl" in line:
            continue
        words = re.split(r"(?:^|\s)(?:\S*/)?ddpbench(?:-cuda)?\s+(?=--)", line, maxsplit=1)
        if len(words) == 2:
            yield shlex.split(words[1], comments=True)


class CommandLines(unittest.TestCase):
    def check(self, arguments):
        """Whether the program takes these options, but for what they stand for here."""
        text = subprocess.run([DDPBENCH, "help", "options"], capture_output=True, text=True,
                              check=True).stdout
        known = set(re.findall(r"(?m)^ +(?:-[a-z], )?(--[a-z][a-z-]*)", text))
        named = {word.split("=")[0] for word in arguments if word.startswith("--")}
        self.assertEqual(named - known, set())

    def test_of_documents_and_files_name_options_that_exist(self):
        found = 0
        for path in [ROOT / "docs" / "launch.md", DEPLOY / "ddpbench.sbatch",
                     DEPLOY / "Dockerfile", DEPLOY / "Dockerfile.cuda",
                     DEPLOY / "kubernetes" / "indexed-job.yaml"]:
            lines = list(command_lines(path.read_text(encoding="utf-8")))
            self.assertTrue(lines, f"{path} has no command line")
            for line in lines:
                with self.subTest(path=path.name, line=line):
                    self.check(line)
                    found += 1
        self.assertGreater(found, 11)

    def test_that_name_no_launcher_can_be_planned(self):
        for line in command_lines(text_of("deploy", "kubernetes", "indexed-job.yaml")):
            plain = [word for word in line if not word.startswith("--json")]
            done = subprocess.run([DDPBENCH, *plain, "--gpus=2", "--dry-run", "--steps=1"],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_wrong_option_would_be_found(self):
        with self.assertRaises(AssertionError):
            self.check(["--no-such-option=1"])


class Scripts(unittest.TestCase):
    def test_the_batch_script_is_one(self):
        subprocess.run(["bash", "-n", str(DEPLOY / "ddpbench.sbatch")], check=True)
        text = text_of("deploy", "ddpbench.sbatch")
        self.assertIn("--launcher=srun", text)
        self.assertRegex(text, r"(?m)^export MASTER_ADDR$")

    def test_images_run_scripts_that_exist(self):
        for name in ("Dockerfile", "Dockerfile.cuda"):
            text = text_of("deploy", name)
            scripts = set(re.findall(r"scripts/[\w.]+\.sh", text))
            self.assertIn("scripts/package.sh", scripts)
            for script in scripts:
                self.assertTrue((ROOT / script).is_file(), script)
            groups = re.search(r"install_packages\.sh ([a-z ]+?) &&", text).group(1).split()
            known = {line.split()[0] for line in text_of("scripts", "packages.txt").splitlines()
                     if line and not line.startswith("#")}
            self.assertLessEqual(set(groups), known)

    def test_the_image_lets_the_mpi_operator_log_in_with_its_keys(self):
        text = text_of("deploy", "Dockerfile")
        for settings, folder in (
                (["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"], "ssh_config.d"),
                (["StrictModes no"], "sshd_config.d")):
            written = re.search(r"printf '%s\\n'((?: '[^']+')+) (?:\\\n\s+)?> /etc/ssh/"
                                + re.escape(folder) + r"/[\w-]+\.conf", text)
            self.assertIsNotNone(written, folder)
            self.assertEqual(shlex.split(written.group(1)), settings)

    def test_the_page_names_files_that_exist(self):
        named = re.findall(r"\]\(\.\./([^)#]+)\)", text_of("docs", "launch.md"))
        self.assertGreaterEqual(len(set(named)), 5)
        for name in named:
            self.assertTrue((ROOT / name).is_file(), name)


@unittest.skipIf(yaml is None, "there is no PyYAML here")
class Manifests(unittest.TestCase):
    def test_pods_of_the_indexed_job_find_the_first_one(self):
        service, job = documents("indexed-job.yaml")
        self.assertEqual((service["kind"], job["kind"]), ("Service", "Job"))
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(spec["completions"], spec["parallelism"])
        self.assertEqual(spec["backoffLimit"], 0)
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(service["spec"]["selector"], {"job-name": job["metadata"]["name"]})
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        container = pod["containers"][0]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        self.assertEqual(variables["WORLD_SIZE"], str(spec["completions"]))
        self.assertEqual(variables["MASTER_ADDR"],
                         f"{job['metadata']['name']}-0.{service['metadata']['name']}")
        self.assertIn("DDPBENCH_JOB_SECRET", variables)
        self.assertEqual(variables["LOCAL_RANK"], "0")
        self.assertIn('RANK="$JOB_COMPLETION_INDEX"', container["command"][2])
        subprocess.run(["sh", "-n", "-c", container["command"][2]], check=True)

    # kubectl logs has both streams of a pod, and takes any pod of a job that is named alone.
    def test_the_log_of_the_first_pod_is_the_report_alone(self):
        text = text_of("deploy", "kubernetes", "indexed-job.yaml")
        script = documents("indexed-job.yaml")[1]["spec"]["template"]["spec"]["containers"][0][
            "command"][2]
        (start,) = [line for line in script.replace("\\\n", " ").splitlines() if "ddpbench " in line]
        self.assertRegex(start, r" --quiet --json=- +2> /dev/termination-log$")
        line = re.search(r"(?s)# +(kubectl logs .*?) > report\.json", text).group(1)
        words = shlex.split(re.sub(r"\\\n#", " ", line))
        self.assertIn("--tail=-1", words)  # with a selector it prints ten lines
        self.assertIn("--selector=job-name=ddpbench,batch.kubernetes.io/job-completion-index=0",
                      words)

    def test_the_mpi_job_starts_as_many_ranks_as_it_has_slots(self):
        (job,) = documents("mpijob.yaml")
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        roles = job["spec"]["mpiReplicaSpecs"]
        container = roles["Launcher"]["template"]["spec"]["containers"][0]
        command = container["command"]
        self.assertEqual(command[0], "mpirun")
        slots = roles["Worker"]["replicas"] * job["spec"]["slotsPerWorker"]
        self.assertEqual(int(command[command.index("-n") + 1]), slots)
        variables = {one["name"] for one in container["env"]}
        handed_on = {command[i + 1] for i, word in enumerate(command) if word == "-x"}
        self.assertEqual(handed_on, variables)
        self.assertEqual(variables, {"MASTER_ADDR", "DDPBENCH_JOB_SECRET"})
        CommandLines().check(command[command.index("ddpbench") + 1:])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DDPBENCH = sys.argv.pop(1)
    unittest.main()
