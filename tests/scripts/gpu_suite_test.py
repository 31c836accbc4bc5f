#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/gpu_suite.sh with stand-ins for the GPU, the toolkit, CMake and what they build."""

import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_suite.sh"

NVIDIA_SMI = "#!/bin/bash\n[[ -e $STAGE/gpu ]] && echo 'NVIDIA H200, 580.65.06, 9.0'\n"
NVCC = "#!/bin/bash\necho 'Cuda compilation tools, release 13.0'\n"
# Configuring fails if `no-configure` exists. Building installs the programs, and fails if
# `no-build` exists.
CMAKE = """#!/bin/bash
[[ $1 == --version ]] && { echo 'cmake version 3.31.6'; exit; }
echo "$*" >>"$STAGE/cmake-log"
[[ $1 == --build ]] || { [[ ! -e $STAGE/no-configure ]]; exit; }
mkdir -p "$2/bin" "$2/lib/ddpbench"
cp "$STAGE"/programs/* "$2/bin" && : >"$2/lib/ddpbench/libddpbench_cuda.so"
[[ ! -e $STAGE/no-build ]]
"""
OLD_CMAKE = "#!/bin/bash\necho 'cmake version 3.22.1'\n"
CTEST = """#!/bin/bash
echo "$*" >>"$STAGE/ctest-log"
echo '100% tests passed, 0 tests failed out of 1'
"""
DDPBENCH = """#!/bin/bash
[[ $1 == --version ]] && { echo 'ddpbench 0.1.0 (commit 0a1b2c3d4e5f, with local changes)'; exit; }
echo "$*" >>"$STAGE/ddpbench-log"
echo "$1 $CUDA_VISIBLE_DEVICES" >>"$STAGE/visible-log"
if [[ $1 == show ]]; then
  # As the program: reports of collectives have a table of their own and no markdown.
  if [[ $* == */comm-* && $* == *--format=markdown* ]]; then echo 'holds collectives' >&2; exit 2; fi
  if [[ -e $STAGE/one-broken && $* == */graphs.json* ]]; then exit 2; fi
  for file; do [[ $file == *.json ]] && echo "table of ${file##*/}"; done
  exit 0
fi
for option; do
  [[ $option == --json=* && -e ${option#--json=} && $* != *--force* ]] && { echo 'is there already'; exit 2; }
  [[ $option == --json=* ]] && : >>"${option#--json=}"
  [[ -e $STAGE/no-bf16 && $option == --precision=bf16 ]] && { echo 'ddpbench: no bf16'; exit 3; }
done
exit 0
"""
SANITIZER = """#!/bin/bash
echo "$*" >>"$STAGE/sanitizer-log"
if [[ ! -e $STAGE/nothing-matches ]]; then echo '[       OK ] Cuda.A (0 ms)'; fi
echo '========= ERROR SUMMARY: 0 errors'
"""
GPU_TESTS = """#!/bin/bash
echo "${0##*/} $GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS data=$DDPBENCH_TEST_DATA_DIR $*" >>"$STAGE/gpu-tests-log"
if [[ -e $STAGE/slow ]]; then sleep 100; fi
if [[ -e $STAGE/all-skip ]]; then
  printf 'x_test.cpp:9: Skipped\\nneeds a GPU: there is no NVIDIA driver\\n\\n[  SKIPPED ] Cuda.A (0 ms)\\n'
else
  printf '[       OK ] Cuda.A (0 ms)\\n'
fi
if [[ $0 == *program* ]]; then printf 'x_test.cpp:9: Skipped\\nneeds the files of MNIST\\n\\n[  SKIPPED ] A.B (0 ms)\\n'; fi
echo '[  PASSED  ] 7 tests.'
[[ ! -e $STAGE/fails || $0 != *ops* ]]
"""
# Python without PyTorch and without NVIDIA's packages.
PYTHON = """#!/bin/bash
[[ $1 == -c ]] && { echo 'no module torch' >&2; exit 1; }
exec python3 -S "$@"
"""
# Writes JSON like Google Benchmark.
OPS_BENCH = """#!/bin/bash
echo "$*" >>"$STAGE/operations-log"
for option; do
  [[ $option == --benchmark_out=* ]] && cat >"${option#--benchmark_out=}" <<'JSON'
{"benchmarks": [
  {"name": "copy/fp32/size:9/iterations:32/manual_time", "real_time": 91.25, "bytes": 419430400.0,
   "bytes_per_s": 4e12},
  {"name": "forward/conv2/bf16/size:256/iterations:32/manual_time", "real_time": 9.5, "bytes": 1e7,
   "bytes_per_s": 1e12, "FLOP_per_s": 5e13},
  {"name": "forward/fc1/fp32/size:256", "error_occurred": true, "error_message": "no room"}]}
JSON
done
exit 0
"""
# Leaves the file like Google Benchmark when it is stopped.
STOPPED_BENCH = """#!/bin/bash
for option; do
  [[ $option == --benchmark_out=* ]] && cat >"${option#--benchmark_out=}" <<'JSON'
{
  "context": {"date": "now"},
  "benchmarks": [
    {
      "name": "copy/fp32", "real_time": 91.25, "bytes": 419430400.0, "bytes_per_s": 4e12
    },
    {
      "name": "sgd", "real_time": 1.0, "bytes": 4e8, "bytes_per_s": 2e12
    }
JSON
done
exit 137
"""
PROGRAMS = ("runtime", "ops", "comm_threads", "program", "comm_processes")
SHARDED = ("ops", "program", "comm_processes")


class GpuSuite(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.stage)
        (self.stage / "bin").mkdir()
        (self.stage / "programs").mkdir()
        for name, text in (("nvidia-smi", NVIDIA_SMI), ("nvcc", NVCC), ("cmake", CMAKE),
                           ("ctest", CTEST), ("compute-sanitizer", SANITIZER),
                           ("bare-python", PYTHON)):
            self.tool("bin", name, text)
        self.tool("programs", "ddpbench", DDPBENCH)
        for name in PROGRAMS:
            self.tool("programs", f"cuda_{name}_gpu_tests", GPU_TESTS)
        self.tool("programs", "ops_bench", OPS_BENCH)
        self.out = self.stage / "out"
        self.mark("gpu")

    def tool(self, folder, name, text):
        file = self.stage / folder / name
        file.write_text(text)
        file.chmod(0o755)

    def mark(self, name):
        (self.stage / name).touch()

    def run_script(self, *arguments, python="bare-python", script=SCRIPT):
        environment = {**os.environ, "STAGE": str(self.stage),
                       "PATH": f"{self.stage / 'bin'}:{os.environ['PATH']}"}
        environment.pop("CUDACXX", None)
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        return subprocess.run(
            [str(script), f"--out={self.out}", f"--build-dir={self.stage / 'build'}",
             f"--python={python}", *arguments],
            env=environment, capture_output=True, text=True, timeout=60)

    def log(self, name):
        file = self.stage / f"{name}-log"
        return file.read_text() if file.exists() else ""

    def summary(self):
        return (self.out / "summary.md").read_text()

    def test_runs_every_stage_and_leaves_a_summary(self):
        run = self.run_script()
        self.assertEqual(run.returncode, 0, run.stderr)
        for row in ("| configure | ok |", "| build | ok |", "| tests-runtime | ok |",
                    "| tests-comm_processes | ok |", "| tests-program | ok |", "7 tests.",
                    "| tests-program-skipped | skipped in part |  | needs the files of MNIST |",
                    "| bench-mnist | ok |", "| bench-graphs | ok |",
                    "| bench-resnet50-b32-bf16 | ok |",
                    "| bench-strategies-4-oversubscribed | ok |",
                    "| bench-ddp-2-nccl-oversubscribed | ok |",
                    "| bench-single-b256-observe-off-2 | ok |", "| bench-single-b4096-bf16 | ok |",
                    "| bench-ps-servers-cuda | ok |", "| bench-ps-servers-cpu | ok |",
                    "| bench-comm-shm-thread | ok |", "| bench-comm-shm-process-all | ok |",
                    "| bench-comm-nccl | ok |",
                    "| bench-pytorch | skipped |  | bare-python has no PyTorch with CUDA: no module torch |",
                    "| memcheck-ops | ok |", "| memcheck-comm_threads | ok |", "0 errors", "## Reports"):
            self.assertIn(row, self.summary())
        self.assertIn("NVIDIA H200, 580.65.06", self.summary())
        self.assertIn("-DDDPBENCH_CUDA_ARCHITECTURES=90 ", self.log("cmake"))
        self.assertIn("--tool=racecheck", self.log("sanitizer"))
        self.assertIn("0 failed, 0 without enough time", self.summary())
        collectives = [line for line in self.log("ddpbench").splitlines() if line.startswith("comm ")]
        self.assertEqual(len(collectives), 5)
        for line in collectives:
            self.assertIn(" --device=cuda --ranks=2 --oversubscribe ", line)
        for mode in ("thread", "process"):
            self.assertTrue([line for line in collectives
                             if f"--backend=shm --mode={mode}" in line and ",100000000 " in line])
        visible = {line for line in self.log("visible").splitlines() if line.startswith("comm")}
        self.assertEqual(visible, {"comm 0"})  # both ranks, for any number of GPUs
        observed = [line.split("--observe=")[1].split()[0]
                    for line in self.log("ddpbench").splitlines() if "--observe=" in line]
        self.assertEqual(observed, ["on", "off", "on", "off"])
        servers = [line.split("--server-device=")[1].split()[0]
                   for line in self.log("ddpbench").splitlines() if "--strategy=ps " in line]
        self.assertEqual(servers, ["cuda", "cpu"])

    def test_shows_reports_and_the_shares_of_single_operations(self):
        run = self.run_script("--quick", "--parts=build,benchmarks")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("-DDDPBENCH_BUILD_MICRO=AUTO ", self.log("cmake"))
        self.assertIn("--launches=16 ", self.log("operations"))
        for row in ("| bench-operations | ok |", "| copy/fp32/size:9 | 91.2 | 4.194e+08 | 100% |  |",
                    "| forward/conv2/bf16/size:256 | 9.5 | 1e+07 | 25% | 50 |",
                    "| forward/fc1/fp32/size:256 | failed: no room | | | |"):
            self.assertIn(row, self.summary())
        for name in ("mnist", "graphs", "ps-servers-cpu", "comm-nccl", "comm-shm-thread"):
            self.assertEqual(self.summary().count(f"table of {name}.json\n"), 1, name)
        self.assertNotIn("cannot be shown", self.summary())

    def test_shows_what_can_be_shown(self):
        self.tool("programs", "ops_bench", STOPPED_BENCH)
        self.mark("one-broken")
        self.assertEqual(self.run_script("--quick", "--parts=build,benchmarks").returncode, 1)
        self.assertIn("graphs.json cannot be shown", self.summary())
        self.assertEqual(self.summary().count("table of mnist.json\n"), 1)
        for row in ("| copy/fp32 | 91.2 | 4.194e+08 | 100% |  |", "| sgd | 1.0 | 4e+08 | 50% |  |"):
            self.assertIn(row, self.summary())

    def test_without_google_benchmark_it_says_so(self):
        (self.stage / "programs" / "ops_bench").unlink()
        run = self.run_script("--quick", "--parts=build,benchmarks")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| bench-operations | skipped |  | Google Benchmark was not found", self.summary())
        self.assertNotIn("## Operations", self.summary())

    def test_goes_on_after_a_failure_and_says_so(self):
        self.mark("no-bf16")
        run = self.run_script("--quick", "--parts=build,benchmarks,sanitizers")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(self.summary(), r"\| bench-single-b4096-bf16 \| failed \(3\) \| \d+ \| ddpbench: no bf16 \|")
        self.assertIn("| bench-mnist | ok |", self.summary())
        self.assertNotIn("racecheck", self.log("sanitizer"))

    def test_runs_each_test_program_whole_and_once(self):
        data = self.stage / "data"
        data.mkdir()
        self.run_script("--parts=build,tests", f"--data-dir={data}")
        runs = {name: [] for name in PROGRAMS}
        for line in self.log("gpu-tests").splitlines():
            program, shard, given, xml = line.split(" ")
            name = program.removeprefix("cuda_").removesuffix("_gpu_tests")
            self.assertEqual(given, f"data={data}")
            runs[name].append((shard, xml.removeprefix(f"--gtest_output=xml:{self.out}/tests/")))
        for name, found in runs.items():
            if name in SHARDED:
                self.assertEqual(sorted(found), [(f"{i}/4", f"{name}-{i}.xml") for i in range(4)])
            else:
                self.assertEqual(found, [("/", f"{name}.xml")])

    def test_adds_up_the_tests_of_processes_and_tells_which_failed(self):
        self.assertEqual(self.run_script("--parts=build,tests").returncode, 0)
        self.assertRegex(self.summary(), r"\| tests-ops \| ok \| \d+ \| \[  PASSED  \] 28 tests in 4 processes. \|")
        self.mark("fails")
        self.assertEqual(self.run_script("--parts=build,tests").returncode, 1)
        self.assertIn("| tests-ops | failed (1) |", self.summary())
        self.assertIn("\n1 failed, 0 without", self.summary())
        self.assertNotIn("in 4 processes", self.summary().split("tests-ops")[1].splitlines()[0])

    def test_sanitizes_a_few_cases_of_each_kernel(self):
        self.assertEqual(self.run_script("--parts=build,sanitizers").returncode, 0)
        runs = {}
        for line in self.log("sanitizer").splitlines():
            tool, _, program, tests = line.split()
            runs[tool.split("=")[1], pathlib.Path(program).name] = tests.removeprefix("--gtest_filter=")
        # Without communication between processes; only operations use shared memory in kernels.
        self.assertEqual(set(runs), {("memcheck", "cuda_ops_gpu_tests"),
                                     ("memcheck", "cuda_comm_threads_gpu_tests"),
                                     ("memcheck", "cuda_runtime_gpu_tests"),
                                     ("racecheck", "cuda_ops_gpu_tests")})
        self.assertIn("CudaOptimizer.*", runs["memcheck", "cuda_ops_gpu_tests"].split(":"))
        self.assertNotIn("CudaOptimizer.*", runs["racecheck", "cuda_ops_gpu_tests"].split(":"))

    def test_sanitizing_nothing_is_a_failure(self):
        self.mark("nothing-matches")
        self.assertEqual(self.run_script("--quick", "--parts=build,sanitizers").returncode, 1)
        self.assertIn("| memcheck-ops-ran | failed |", self.summary())

    def test_what_had_no_time_is_not_what_failed(self):
        self.assertEqual(self.run_script("--quick", "--parts=build,tests").returncode, 0)
        self.mark("slow")
        run = self.run_script("--quick", "--minutes=1")
        self.assertEqual(run.returncode, 1)
        # The tests use up only their own share.
        self.assertIn("| tests-runtime | not finished: no time left after ", self.summary())
        # The log of an earlier call is not shown.
        self.assertIn("| tests-ops | not run: no time left | 0 |  |", self.summary())
        self.assertIn("| bench-mnist | ok |", self.summary())
        self.assertIn("| memcheck-ops | ok |", self.summary())
        self.assertIn("\n0 failed, 5 without enough time", self.summary())

    def test_a_program_that_it_does_not_know_is_a_failure(self):
        self.tool("programs", "cuda_new_gpu_tests", GPU_TESTS)
        self.assertEqual(self.run_script("--parts=build,tests").returncode, 1)
        self.assertIn("| tests-new | failed |", self.summary())

    def test_tests_that_all_skip_are_a_failure(self):
        self.mark("all-skip")
        self.assertEqual(self.run_script("--parts=build,tests").returncode, 1)
        self.assertIn("| tests-ops-ran | failed |", self.summary())

    def test_ends_when_nothing_can_be_built(self):
        self.mark("no-configure")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("| configure | failed (1) |", self.summary())
        self.assertEqual(self.log("ddpbench"), "")

    def test_runs_nothing_of_an_earlier_build_when_nothing_can_be_configured(self):
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        host_tests = self.stage / "build" / "bin" / "cuda_ops_tests"
        host_tests.touch()
        self.mark("no-configure")
        self.assertEqual(self.run_script("--quick").returncode, 1)
        self.assertIn("| program | failed |", self.summary())
        self.assertEqual(self.log("gpu-tests") + self.log("ddpbench") + self.log("sanitizer"), "")
        self.assertFalse(host_tests.exists())

    def test_runs_what_was_built_when_some_was_not(self):
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        # A program of the last build does not replace one that this build could not make.
        (self.stage / "programs" / "cuda_ops_gpu_tests").unlink()
        self.mark("no-build")
        self.assertEqual(self.run_script("--quick").returncode, 1)
        for row in ("| build | failed (1) |", "| tests-ops | failed |  | it was not built: see build.log |",
                    "| tests-program | ok |", "| bench-mnist | ok |"):
            self.assertIn(row, self.summary())

    def test_runs_the_parts_that_are_asked_for(self):
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        self.assertIn("| build | ok |", self.summary())
        self.assertEqual(self.log("gpu-tests") + self.log("ddpbench") + self.log("sanitizer"), "")
        builds = self.log("cmake")
        self.assertEqual(self.run_script("--parts=tests,sanitizers", "--quick").returncode, 0)
        self.assertEqual(self.log("cmake"), builds)
        for row in ("| tests-program | ok |", "| memcheck-ops | ok |"):
            self.assertIn(row, self.summary())
        self.assertNotIn("| bench-", self.summary())

    def test_parts_called_in_turn_leave_one_summary(self):
        for part in ("build", "tests", "benchmarks", "sanitizers"):
            run = self.run_script(f"--parts={part}", "--quick")
            self.assertEqual(run.returncode, 0, run.stderr)
        for row in ("| build | ok |", "\n\n# Later: tests\n", "| tests-program | ok |",
                    "| bench-mnist | ok |", "| memcheck-ops | ok |"):
            self.assertEqual(self.summary().count(row), 1, row)
        # They are shown once, below the part that measured them.
        for text in ("## Reports", "table of mnist.json\n", "| copy/fp32/size:9 | 91.2 |"):
            self.assertEqual(self.summary().count(text), 1, text)
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        self.assertNotIn("# Later", self.summary())
        self.assertNotIn("table of ", self.summary())

    def test_benchmarks_that_are_repeated_replace_their_reports(self):
        self.assertEqual(self.run_script("--quick", "--parts=build,benchmarks").returncode, 0)
        self.mark("no-bf16")  # that run leaves no report
        self.assertEqual(self.run_script("--quick", "--parts=benchmarks").returncode, 1)
        for row in ("| bench-single-b4096-bf16 | ok |", "| bench-single-b4096-bf16 | failed (3) |"):
            self.assertIn(row, self.summary())
        self.assertEqual(self.summary().count("| bench-mnist | ok |"), 2)
        self.assertEqual(self.summary().count("table of single-b4096-bf16.json\n"), 1)
        left = {file.name for file in (self.out / "reports").iterdir()}
        self.assertIn("mnist.json", left)
        self.assertFalse([name for name in left if "bf16" in name or not name.endswith(".json")])

    def test_without_a_build_there_are_no_other_parts(self):
        run = self.run_script("--parts=benchmarks")
        self.assertEqual(run.returncode, 1)
        self.assertIn("there is nothing to run", self.summary())

    def test_leaves_everything_in_one_archive_too(self):
        archive = self.stage / "archive.tar.gz"
        parts = "--parts=build,benchmarks,sanitizers"
        self.assertEqual(self.run_script("--quick", parts, f"--archive={archive}").returncode, 0)
        self.assertEqual(self.run_script("--quick", "--parts=sanitizers").returncode, 0)
        for file in (archive, self.stage / "out.tar.gz"):
            with tarfile.open(file) as packed:
                names = packed.getnames()
                summary = packed.extractfile("out/summary.md").read().decode()
            self.assertIn("out/reports/mnist.json", names)
            self.assertIn("out/memcheck-ops.log", names)
            self.assertIn("0 failed, 0 without enough time", summary)

    def copy(self, folder):
        """Returns the script in a copy of its folder."""
        shutil.copytree(SCRIPT.parent, folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        return folder / "scripts" / SCRIPT.name

    def git(self, folder, *arguments):
        return subprocess.run(
            ["git", "-C", folder, "-c", "user.name=A", "-c", "user.email=a@b", *arguments],
            check=True, capture_output=True, text=True).stdout.strip()

    def test_names_the_commit_that_is_given_for_a_copy(self):
        # Without git, and inside another project's checkout.
        commit = "0123456789abcdef0123456789abcdef01234567"
        outer = self.stage / "outer"
        self.git(self.stage, "init", "--quiet", outer)
        self.git(outer, "commit", "--quiet", "--allow-empty", "--message=other")
        for folder in (self.stage / "copy", outer / "copy"):
            script = self.copy(folder)
            run = self.run_script("--parts=build", f"--commit={commit}", script=script)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"- commit: {commit}\n", self.summary())
            self.assertIn(f"-DDDPBENCH_COMMIT={commit} ", self.log("cmake"))
            self.assertEqual(self.run_script("--parts=build", script=script).returncode, 0)
            self.assertIn("- commit: unknown\n", self.summary())

    def test_names_the_commit_of_a_checkout_also_by_a_link(self):
        self.copy(self.stage / "checkout")
        self.git(self.stage, "init", "--quiet", "checkout")
        self.git(self.stage / "checkout", "add", "--all")
        self.git(self.stage / "checkout", "commit", "--quiet", "--message=all")
        (self.stage / "link").symlink_to(self.stage / "checkout")
        for folder in ("checkout", "link"):
            script = self.stage / folder / "scripts" / SCRIPT.name
            self.assertEqual(self.run_script("--parts=build", script=script).returncode, 0)
            commit = self.git(self.stage / "checkout", "rev-parse", "--short", "HEAD")
            self.assertIn(f"- commit: {commit}\n", self.summary())

    def test_names_the_commit_of_what_was_built_before(self):
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        self.assertNotIn("0a1b2c3d4e5f", self.summary())
        self.assertEqual(self.run_script("--parts=tests").returncode, 0)
        later = self.summary().split("# Later: tests")[1]
        self.assertIn("- commit: 0a1b2c3d4e5f, with local changes\n", later)

    def test_takes_cmake_beside_the_interpreter_when_the_systems_is_old(self):
        (self.stage / "venv").mkdir()
        (self.stage / "bin" / "cmake").rename(self.stage / "venv" / "cmake")
        self.tool("bin", "cmake", OLD_CMAKE)
        run = self.run_script("--build-only")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no cmake of version 3.25", run.stderr)
        self.tool("venv", "python", f"""#!/bin/bash
[[ $1 == -c && $2 == *executable* ]] && {{ echo '{self.stage / "venv"}'; exit; }}
exec python3 "$@"
""")
        run = self.run_script("--build-only", python=self.stage / "venv" / "python")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_asks_nvcc_for_the_architecture_when_the_driver_does_not_say(self):
        self.tool("bin", "nvidia-smi", "#!/bin/bash\necho 'NVIDIA H200, 580.65.06, [N/A]'\n")
        self.assertEqual(self.run_script("--parts=build").returncode, 0)
        self.assertIn("-DDDPBENCH_CUDA_ARCHITECTURES=native ", self.log("cmake"))

    def test_finds_what_python_has_of_nvidias(self):
        site = self.stage / "site"
        for name in ("cudnn", "nccl", "cu13"):
            (site / "nvidia" / name / "include").mkdir(parents=True)
        self.tool("bin", "full-python", f"""#!/bin/bash
export PYTHONPATH='{site}'
exec python3 "$@"
""")
        self.assertEqual(self.run_script("--build-only", python="full-python").returncode, 0)
        roots = ";".join(str(site / "nvidia" / name) for name in ("cudnn", "nccl", "cu13"))
        self.assertIn(f"-DDDPBENCH_CUDA_ROOTS={roots}", self.log("cmake"))

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a GPU here")
    def test_without_a_gpu_it_stops_before_it_writes_anything(self):
        (self.stage / "gpu").unlink()
        run = self.run_script()
        self.assertEqual(run.returncode, 3)
        self.assertIn("no GPU is here", run.stderr)
        self.assertFalse(self.out.exists())

    def test_build_only_needs_no_gpu(self):
        (self.stage / "gpu").unlink()
        run = self.run_script("--build-only", "--architectures=80;90")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("-DDDPBENCH_CUDA_ARCHITECTURES=80;90 ", self.log("cmake"))
        self.assertIn("| tests-cpu | ok |", self.summary())
        self.assertNotIn("bench-", self.summary())
        self.assertIn("-LE gpu", self.log("ctest"))
        self.assertEqual(self.log("gpu-tests"), "")

    def test_takes_packages_from_a_folder_or_an_archive(self):
        prefix = self.stage / "prefix"
        (prefix / "usr" / "lib" / "x86_64-linux-gnu").mkdir(parents=True)
        archive = self.stage / "packages.tar.xz"
        subprocess.run(["tar", "-cJf", archive, "-C", prefix, "."], check=True)
        for given, used in ((prefix, prefix), (archive, self.stage / "build" / "prefix")):
            self.assertEqual(self.run_script(f"--prefix={given}", "--build-only").returncode, 0)
            line = [x for x in self.log("cmake").splitlines() if "CMAKE_PREFIX_PATH" in x][-1]
            if given == archive:
                self.unpacked_without_xz(archive)
            self.assertIn(f"-DCMAKE_PREFIX_PATH={used}/usr ", line)
            self.assertIn(f"-Wl,-rpath,{used}/usr/lib/x86_64-linux-gnu ", line)

    # A `tar` without `xz` fails as this one does.
    def unpacked_without_xz(self, archive):
        self.tool("bin", "tar", "#!/bin/bash\n[[ $* == *--extract* ]] && exit 2\nexec /bin/tar \"$@\"\n")
        folder = self.stage / "build" / "prefix" / "usr" / "lib" / "x86_64-linux-gnu"
        shutil.rmtree(self.stage / "build")
        run = self.run_script(f"--prefix={archive}", "--build-only", python="python3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(folder.is_dir())

    def test_refuses_what_it_does_not_know(self):
        for wrong in (("--bogus=1",), ("--jobs=many",), ("--prefix=/nonexistent",), ("--out",),
                      ("--parts=",), ("--parts=build,all",), ("--parts=,",), ("--parts=tests,",),
                      ("--parts=build tests",), ("--parts= tests",), ("--parts=test",),
                      ("--build-only", "--parts=tests"), ("--commit=abc",),
                      ("--archive=/nonexistent/a.tar.gz",)):
            self.assertEqual(self.run_script(*wrong).returncode, 2, wrong)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
