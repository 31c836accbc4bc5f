#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Checks deploy/ and the command lines of docs/launch.md as far as no cluster is needed: manifests
are YAML with what they must have, and every option, file and variable that is named exists.

    deploy_test.py DDPBENCH
"""

import functools
import hashlib
import http.server
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
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


class QuietServer(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        self.server.asked.append(self.path)

    def log_message(self, format, *arguments):
        pass


MACHINE = os.uname().machine
NAME = f"ddpbench-1.2.3-linux-{MACHINE}"


class Installation(unittest.TestCase):
    """A release of a program that prints its name, on a server."""

    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.stage)
        self.served = self.stage / "served"
        self.served.mkdir()
        program = self.stage / NAME / "bin" / "ddpbench"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho ddpbench 1.2.3\n")
        program.chmod(0o755)
        with tarfile.open(self.served / f"{NAME}.tar.gz", "w:gz") as archive:
            archive.add(self.stage / NAME, NAME)
        self.digest = hashlib.sha256((self.served / f"{NAME}.tar.gz").read_bytes()).hexdigest()
        (self.served / f"{NAME}.tar.gz.sha256").write_text(f"{self.digest}  {NAME}.tar.gz\n")
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(QuietServer, directory=str(self.served)))
        self.server.asked = []
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.place = self.stage / "tools" / "ddpbench"

    def install(self, *sha256, version="1.2.3", url=None):
        done = subprocess.run([str(DEPLOY / "action" / "install.sh"), version, url or self.url,
                               str(self.place), *sha256], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def test_downloads_once_and_then_uses_what_is_there(self):
        self.assertEqual(self.install(), (0, "ddpbench 1.2.3\n"))
        self.assertEqual(self.server.asked, [f"/{NAME}.tar.gz", f"/{NAME}.tar.gz.sha256"])
        self.assertEqual(self.install(), (0, "ddpbench 1.2.3\n"))
        self.assertEqual(len(self.server.asked), 2)
        self.assertEqual([path.name for path in self.place.parent.iterdir()], ["ddpbench"])

    def test_takes_a_folder_of_this_machine(self):
        self.assertEqual(self.install(url=self.served.as_uri() + "/")[0], 0)

    def test_installs_nothing_of_another_checksum(self):
        other = "0" * 64
        code, out = self.install(other)
        self.assertEqual(code, 1)
        self.assertIn(f"has the SHA-256 {self.digest}, not {other}: nothing was installed", out)
        with open(self.served / f"{NAME}.tar.gz", "ab") as archive:
            archive.write(b"x")
        code, out = self.install()
        self.assertEqual(code, 1)
        self.assertIn(f"not {self.digest}: nothing was installed", out)
        self.assertEqual(list(self.place.parent.iterdir()), [])
        code, out = self.install(self.digest)
        self.assertEqual(code, 1)

    def test_says_what_cannot_be_downloaded(self):
        code, out = self.install(version="9.9.9")
        self.assertEqual(code, 1)
        self.assertIn(f"{self.url}/ddpbench-9.9.9-linux-{MACHINE}.tar.gz cannot be downloaded", out)

    @unittest.skipIf(yaml is None, "there is no PyYAML here")
    def test_the_action_puts_the_release_of_its_own_repository_in_the_path(self):
        releases = self.served / "owner" / "repository" / "releases" / "download"
        releases.mkdir(parents=True)
        (releases / "v1.2.3").symlink_to(self.served)
        runner = GitHubRunner(self.stage, self.url, "owner/repository")
        runner.run({"version": "1.2.3", "sha256": self.digest})
        place = self.stage / "tool_cache" / "ddpbench" / f"1.2.3-{MACHINE}-{self.digest}"
        self.assertEqual(runner.cached["path"], str(place))
        self.assertEqual(runner.cached["key"], f"ddpbench-1.2.3-{MACHINE}-{self.digest}")
        self.assertEqual(runner.path(), [str(place / "bin")])
        self.assertEqual(runner.outputs, {"path": str(place)})
        self.assertIn(f"/owner/repository/releases/download/v1.2.3/{NAME}.tar.gz",
                      self.server.asked)

    @unittest.skipIf(yaml is None, "there is no PyYAML here")
    def test_the_action_takes_another_folder_and_fails_on_another_checksum(self):
        runner = GitHubRunner(self.stage, "http://127.0.0.1:9", "owner/repository")
        runner.run({"version": "1.2.3", "url": self.url})
        self.assertEqual(len(runner.path()), 1)
        with self.assertRaises(subprocess.CalledProcessError):
            runner.run({"version": "1.2.3", "url": self.url, "sha256": "1" * 64})

    @unittest.skipIf(yaml is None, "there is no PyYAML here")
    def test_the_action_installs_this_version_when_none_is_named(self):
        version = re.search(r"project\(ddpbench VERSION (\S+)", text_of("CMakeLists.txt")).group(1)
        self.assertEqual(action()["inputs"]["version"]["default"], version)
        self.assertIn(f"deploy/action@v{version}", text_of("docs", "ci.md"))


def action():
    return yaml.safe_load(text_of("deploy", "action", "action.yml"))


class GitHubRunner:
    """Runs the shell steps of the action as a runner does; its cache is always empty."""

    def __init__(self, stage, server, repository):
        self.stage = stage
        self.known = {"github.action_repository": repository}
        self.variables = {
            **os.environ, "GITHUB_PATH": str(stage / "path"), "GITHUB_OUTPUT": str(stage / "output"),
            "GITHUB_ACTION_PATH": str(DEPLOY / "action"), "GITHUB_SERVER_URL": server,
            "RUNNER_TOOL_CACHE": str(stage / "tool_cache")}
        self.cached = self.outputs = None

    def value_of(self, text):
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self.known[found.group(1)], text)

    def path(self):
        return (self.stage / "path").read_text().splitlines()

    def run(self, inputs):
        what = action()
        for name, one in what["inputs"].items():
            self.known[f"inputs.{name}"] = inputs.get(name, one["default"])
        for step in what["runs"]["steps"]:
            if "uses" in step:
                self.cached = {key: self.value_of(text) for key, text in step["with"].items()}
                continue
            (self.stage / "output").write_text("")
            self.check_no_expression(step["run"])
            own = {name: self.value_of(text) for name, text in step["env"].items()}
            subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                           env={**self.variables, **own}, check=True, capture_output=True)
            for line in (self.stage / "output").read_text().splitlines():
                name, value = line.split("=", 1)
                self.known[f"steps.{step['id']}.outputs.{name}"] = value
        self.outputs = {name: self.value_of(one["value"]) for name, one in what["outputs"].items()}

    @staticmethod
    def check_no_expression(script):
        # There the action's repository is empty (actions/runner#2473), and inputs would be code.
        assert "${{" not in script, script


class Archive(unittest.TestCase):
    def test_works_without_the_source_tree_and_the_build(self):
        build = pathlib.Path(DDPBENCH).resolve().parents[1]
        with tempfile.TemporaryDirectory() as name:
            stage = pathlib.Path(name)
            made = subprocess.run([str(ROOT / "scripts" / "package.sh"), f"--archive={build}",
                                   str(stage / "release")], check=True, capture_output=True,
                                  text=True).stdout.strip()
            version = re.search(r"project\(ddpbench VERSION (\S+)",
                                text_of("CMakeLists.txt")).group(1)
            self.assertEqual(made, f"{stage}/release/ddpbench-{version}-linux-{MACHINE}.tar.gz")
            place = stage / "installed"
            subprocess.run([str(DEPLOY / "action" / "install.sh"), version,
                            (stage / "release").as_uri(), str(place)], check=True,
                           capture_output=True)
            program = place / "bin" / "ddpbench"
            info = subprocess.run([str(program), "info"], check=True, capture_output=True,
                                  text=True, cwd=stage).stdout
            self.assertIn("(installed)", info)
            needed = subprocess.run(["ldd", str(program)], check=True, capture_output=True,
                                    text=True).stdout
            for library in ("libdnnl", "libfmt", "libhwloc"):
                self.assertRegex(needed, rf"{library}\S+ => {place}/bin/\.\./lib/ddpbench/")
            self.assertRegex(needed, r"libstdc\+\+\S+ => /(usr/)?lib")
            self.assertTrue(os.access(place / "bin" / "ddpbench-ci-gate", os.X_OK))
            self.assertTrue((place / "share" / "ddpbench" / "configs" / "quick.json").is_file())


class PublishedCurve(unittest.TestCase):
    def test_is_drawn_by_the_command_of_the_page(self):
        command = re.search(r"`ddpbench (chart docs/\S+)`", text_of("docs", "claims.md")).group(1)
        drawn = subprocess.run([DDPBENCH, *command.split()], check=True, capture_output=True,
                               text=True, cwd=ROOT).stdout
        for devices, efficiency in ((1, "100.0"), (4, "75.0"), (8, "48.8")):
            self.assertRegex(drawn, rf"(?m)^ +{devices}\b.* {efficiency} %$")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DDPBENCH = sys.argv.pop(1)
    unittest.main()
