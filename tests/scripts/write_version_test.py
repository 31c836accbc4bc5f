#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests which commit cmake/WriteVersion.cmake finds: in checkouts, and in copies of the sources.

    write_version_test.py CMAKE
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = "cmake"
GIVEN = "0123456789abcdef0123456789abcdef01234567"


class WriteVersion(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.stage)
        self.source = self.stage / "source"
        self.source.mkdir()
        (self.source / "file").write_text("text\n")

    def git(self, *arguments):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", "-C", self.source, *identity, *arguments], check=True,
                              capture_output=True, text=True).stdout.strip()

    def checkout(self):
        self.git("init", "--quiet")
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", "Add file")
        return self.git("rev-parse", "HEAD")

    def written(self, given="", git=shutil.which("git") or ""):
        """(commit, whether there are changes, reason) of the header."""
        values = self.stage / "values.cmake"
        values.write_text("\n".join(f'set({name} "{value}")' for name, value in (
            ("SOURCE_DIR", self.source), ("GIT", git), ("GIVEN_COMMIT", given), ("CUDA_MODULE", "false"))))
        header = self.stage / "version.h"
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.stage), "HOME": str(self.stage)}
        subprocess.run([CMAKE, f"-DVALUES={values}", f"-DTEMPLATE={ROOT / 'bench' / 'host' / 'version.h.in'}",
                        f"-DOUTPUT={header}", "-P", ROOT / "cmake" / "WriteVersion.cmake"],
                       check=True, env=environment)
        found = {}
        for line in header.read_text().splitlines():
            for name in ("kGitCommit", "kGitDirty", "kGitReason"):
                if f" {name} = " in line:
                    found[name] = line.split(" = ")[1].split(";")[0].strip('"')
        return found["kGitCommit"], found["kGitDirty"], found["kGitReason"]

    def test_a_checkout_tells_its_commit_and_changes(self):
        commit = self.checkout()
        self.assertEqual(self.written(), (commit, "false", ""))
        (self.source / "file").write_text("other\n")
        self.assertEqual(self.written(given=GIVEN), (commit, "true", ""))

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_a_checkout_of_another_user_is_one(self):
        commit = self.checkout()
        for path in (self.source, *self.source.rglob("*")):
            os.chown(path, 12345, 12345)
        self.assertEqual(self.written(), (commit, "false", ""))

    def test_a_copy_has_a_reason_instead(self):
        commit, _, reason = self.written()
        self.assertEqual(commit, "")
        self.assertIn("not built from a git checkout", reason)
        self.assertEqual(self.written(git="")[2], "git was not found when this was built")

    def test_of_a_commit_that_is_given_changes_are_not_known(self):
        for git in (shutil.which("git"), ""):
            commit, _, reason = self.written(given=GIVEN, git=git)
            self.assertEqual(commit, GIVEN)
            self.assertIn("given when this was built", reason)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CMAKE = sys.argv.pop(1)
    unittest.main()
