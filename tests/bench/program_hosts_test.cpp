// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrices whose runs a launcher starts. The remote shell is a script that runs the command here,
// so "hosts" are names for this machine; tests/netlab has hosts that share nothing. srun is a
// script, too, which starts the ranks as srun does (tests/slurm has a real one); mpirun is real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/clock.h"
#include "tests/bench/joined_ranks.h"
#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::free_port;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kConfig = test::small_config({.steps = 4, .verify_steps = 1, .timeout_s = 20});
constexpr const char* kHere = "#!/bin/sh\nshift\nexec sh -c \"$1\"\n";

// What is in the command lines of all processes at this moment.
std::string command_lines() {
  std::string all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line;
    std::getline(file, line, '\x01');
    all += line;
  }
  return all;
}

class Launchers : public testing::Test {
 protected:
  Launchers() {
    program.write("lenet.json", kConfig);
    write_script("shell", kHere);
    program.environment = {{"MASTER_PORT", std::to_string(free_port())}};
  }
  void write_script(const std::string& name, const std::string& text) const {
    program.write(name, text);
    ::chmod(program.path(name).c_str(), 0700);
  }
  // A program that is found before any other of that name.
  void put_in_path(const std::string& name, const std::string& text) {
    write_script(name, text);
    const char* const path = ::getenv("PATH");
    program.environment["PATH"] = std::string(program.directory()) + ":" + (path ? path : "");
  }
  std::vector<std::string> on_hosts(const std::string& strategies, const std::string& gpus,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--gpus=" + gpus, "--hosts=127.0.0.1:1,127.0.0.2:1",
                                    "--remote-shell=./shell"};
    all.insert(all.end(), more.begin(), more.end());
    return small_run(strategies, all);
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
  }
  // The processes whose place in the world is `rank`.
  std::vector<int> processes_of_rank(int rank) const {
    std::vector<int> found;
    for (const int pid : program.processes()) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
      for (std::string variable; std::getline(file, variable, '\0');) {
        if (variable == "RANK=" + std::to_string(rank)) found.push_back(pid);
      }
    }
    return found;
  }
  void expect_matrix(const json& report, const std::vector<std::string>& strategies) const {
    EXPECT_EQ(report["status"], "ok");
    std::vector<std::string> made;
    std::set<int> sequence;
    for (const json& run : report["runs"]) {
      made.push_back(run["strategy"]);
      sequence.insert(run["sequence"].get<int>());
      EXPECT_EQ(run["status"], "ok");
      EXPECT_EQ(run["step"]["count"], 4);
      EXPECT_EQ(run["verification"]["status"],
                run["strategy"] == "single" ? "reference" : "passed");
    }
    EXPECT_EQ(made, strategies);
    EXPECT_EQ(sequence.size(), strategies.size());
  }
  // Its runs are those of expect_matrix().
  void expect_trace() const {
    const json trace = json::parse(program.read("trace.json"));
    EXPECT_THAT(test::trace_problems(trace), testing::IsEmpty());
    EXPECT_THAT(
        test::process_names(trace),
        ElementsAre("single on 1 device, rank 0", "ddp on 1 device, rank 0",
                    "ddp on 2 devices, rank 0", "ddp on 2 devices, rank 1",
                    "ps on 1 device and 1 server, rank 0",
                    "ps on 1 device and 1 server, rank 1 (server)",
                    "ps on 2 devices and 1 server, rank 0", "ps on 2 devices and 1 server, rank 1",
                    "ps on 2 devices and 1 server, rank 2 (server)"));
    for (int process = 0; process < 9; ++process) {
      EXPECT_EQ(test::count_events(trace, process, "step"), 3) << process;
    }
  }
  Program program;
};

TEST_F(Launchers, MakeOneReportAndOneTraceOfTheWholeMatrixOnHosts) {
  const ProgramResult result =
      program.run(on_hosts("single,ddp,ps", "1,2", {"--trace=trace.json", "--trace-steps=3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_trace();
  const json report = program.report();
  expect_matrix(report, {"single", "ddp", "ddp", "ps", "ps"});
  EXPECT_EQ(report["config"]["hosts"], "127.0.0.1:1,127.0.0.2:1");
  EXPECT_EQ(report["environment"]["hosts"].size(), 1u) << "both names are this machine";
  EXPECT_FALSE(report["runs"][2]["scaling"].is_null() &&
               !report["runs"][2]["oversubscribed"].get<bool>());
  EXPECT_THAT(result.out, AllOf(HasSubstr("run 5 of 5: ps on 2 devices and 1 server"),
                                HasSubstr("report: report.json")));
  EXPECT_EQ(result.err, "") << "ranks that succeed say nothing";
  expect_nothing_left();
}

TEST_F(Launchers, RunEveryRepetitionAndResumeAReport) {
  ASSERT_EQ(program.run(on_hosts("single,ddp", "2")).exit_code, 0);
  const ProgramResult result =
      program.run(on_hosts("single,ddp", "2", {"--repetitions=2", "--resume=report.json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 of its 2 runs are kept"));
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 4u);
  EXPECT_EQ(report["runs"][3]["repetition"], 1);
}

TEST_F(Launchers, ReadHostsFromAFileAndNameItsWrongLine) {
  program.write("hosts", "# two\n127.0.0.1 slots=2\n");
  const auto arguments = small_run("ddp", {"--hostfile=hosts", "--remote-shell=./shell"});
  EXPECT_EQ(program.run(arguments).exit_code, 0);
  program.write("hosts", "127.0.0.1\n-oProxyCommand=x\n");
  const ProgramResult result = program.run(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("hosts: line 2"));
}

TEST_F(Launchers, HandTheSecretToRanksWithoutACommandLine) {
  std::string seen, secret;
  const auto look = [&](int) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    seen = command_lines();
    for (const int pid : processes_of_rank(1)) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
      for (std::string variable; std::getline(file, variable, '\0');) {
        if (variable.starts_with("DDPBENCH_JOB_SECRET=")) secret = variable.substr(20);
      }
    }
  };
  EXPECT_EQ(program.run(on_hosts("ddp", "2"), look).exit_code, 0);
  ASSERT_GE(secret.size(), 32u);
  EXPECT_THAT(seen, HasSubstr("host-agent"));
  EXPECT_THAT(seen, Not(HasSubstr(secret)));
}

TEST_F(Launchers, RehearseOnTheHosts) {
  const ProgramResult result = program.run(on_hosts("single,ddp", "2", {"--dry-run"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("checked: 2 runs"));
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(Launchers, RefuseMoreDevicesThanSlotsBeforeAnythingRuns) {
  const ProgramResult result = program.run(on_hosts("single,ddp", "1,4"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("4 devices, but the hosts have 2 slots"));
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(Launchers, TakeAllGpusToBeTheSlots) {
  const ProgramResult result = program.run(on_hosts("ddp", "all"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["runs"][0]["world_size"], 2);
}

// ---- hosts that cannot be used ----

TEST_F(Launchers, NameAHostThatCannotBeReached) {
  write_script("shell",
               "#!/bin/sh\n[ $1 = 127.0.0.2 ] && echo no route >&2 && exit 255\n"
               "shift\nexec sh -c \"$1\"\n");
  const ProgramResult result = program.run(on_hosts("ddp", "2"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("host 127.0.0.2: it cannot be used"), HasSubstr("exit code 255"),
                    HasSubstr("no route"), Not(HasSubstr("host 127.0.0.1:"))));
  EXPECT_EQ(program.read("report.json"), "");
  expect_nothing_left();
}

TEST_F(Launchers, NameAHostThatLacksTheProgram) {
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--remote-program=/no/such place/ddpbench"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("host 127.0.0.1:"), HasSubstr("host 127.0.0.2:"),
                    HasSubstr("/no/such place/ddpbench"), HasSubstr("--remote-program=PATH")));
}

TEST_F(Launchers, NameAHostWithAnotherVersion) {
  // Says what the program says, but for the version.
  write_script("other", std::string("#!/bin/sh\n'") + DDPBENCH_BINARY +
                            "' host-agent | sed -u 's/\"version\":\"ddpbench [^\"]*\"/"
                            "\"version\":\"ddpbench 0.0.1\"/'\n");
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--remote-program=" + program.path("other")}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("host 127.0.0.1: the program there is another version"),
                                HasSubstr("0.0.1")));
  expect_nothing_left();
}

TEST_F(Launchers, TakeAProgramWithSpacesAndQuotesInItsPath) {
  const std::string odd = program.path("it's a \"path\" $HOME");
  std::filesystem::create_directory(odd);
  std::filesystem::create_symlink(DDPBENCH_BINARY, odd + "/ddp bench");
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--remote-program=" + odd + "/ddp bench"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Launchers, TakeNoNoticeOfALoginShellThatGreets) {
  write_script("shell",
               "#!/bin/sh\necho Welcome to $1; echo '{\"x\": 1}'\nshift\n"
               "exec sh -c \"$1\"\n");
  EXPECT_EQ(program.run(on_hosts("ddp", "2")).exit_code, 0);
}

// ---- faults ----

TEST_F(Launchers, NameTheRankThatFailedAndGoOnWithTheOtherRuns) {
  const ProgramResult result =
      program.run(on_hosts("ddp,ps", "2", {"--inject=kill:rank=1,step=2", "--servers=1"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  ASSERT_EQ(report["runs"].size(), 2u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["status"], "failed");
    EXPECT_EQ(run["error"]["rank"], 1);
    EXPECT_THAT(run["error"]["message"].get<std::string>(), HasSubstr("SIGKILL"));
  }
  EXPECT_THAT(result.err, HasSubstr("[127.0.0.1, rank 0] "));
  expect_nothing_left();
}

TEST_F(Launchers, KeepTheExitCodeOfAFailedVerification) {
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--inject=missing_bucket:bucket=0"}));
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_EQ(program.report()["runs"][0]["verification"]["status"], "failed");
}

TEST_F(Launchers, LeaveAReportAndNothingElseWhenInterrupted) {
  for (const int number : {SIGINT, SIGTERM}) {
    const auto interrupt = [&](int pid) {
      Program::wait_until([&] { return !processes_of_rank(1).empty(); });
      ::usleep(1500000);
      ::kill(pid, number);
    };
    const ProgramResult result = program.run(
        on_hosts("ddp,ps", "2", {"--steps=1000000", "--epochs=9", "--force"}), interrupt);
    EXPECT_EQ(result.exit_code, 130) << result.err;
    const json report = program.report();
    EXPECT_EQ(report["status"], "interrupted");
    ASSERT_EQ(report["runs"].size(), 1u);
    EXPECT_EQ(report["runs"][0]["status"], "interrupted");
    expect_nothing_left();
  }
}

TEST_F(Launchers, LeaveNothingWhenTheSupervisorIsKilled) {
  const auto kill = [&](int pid) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    ::kill(pid, SIGKILL);
  };
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=9"}), kill);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  expect_nothing_left();
}

TEST_F(Launchers, NameAHostWhoseConnectionIsLost) {
  // The shell of the second host ends in the middle of the run, and its agent with it.
  write_script("shell",
               "#!/bin/sh\n[ $1 = 127.0.0.2 ] && echo $$ > second\nshift\n"
               "exec sh -c \"$1\"\n");
  const auto cut = [&](int) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    ::usleep(1500000);
    ::kill(std::stoi(program.read("second")), SIGKILL);
  };
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=9"}), cut);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  expect_nothing_left();
}

// It would never end by itself.
TEST_F(Launchers, NameARankThatIsStoppedAndEndIt) {
  const ProgramResult result = program.run(
      on_hosts("ddp", "2", {"--inject=stop:rank=1,step=3", "--timeout=3", "--steps=100"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  expect_nothing_left();
}

// Its agent is stopped, while its rank goes on.
TEST_F(Launchers, GiveAHostUpThatSaysNothingAnyMore) {
  write_script("shell",
               "#!/bin/sh\n[ $1 = 127.0.0.2 ] && echo $$ > second\nshift\n"
               "exec sh -c \"$1\"\n");
  const auto stop = [&](int) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    ::usleep(500000);
    ::kill(std::stoi(program.read("second")), SIGSTOP);
  };
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=9", "--timeout=3"}), stop);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["status"], "failed");
  expect_nothing_left();
}

TEST_F(Launchers, AreRefusedInARank) {
  for (const auto& result :
       program.run_together(on_hosts("ddp", "2"), test::world(2, free_port()))) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("a launcher has started this process"));
  }
}

TEST_F(Launchers, AreNotTakenFromAConfigurationByACommandThatHasNone) {
  json config = json::parse(kConfig);
  config["hosts"] = "127.0.0.1:2";
  program.write("lenet.json", config.dump());
  const ProgramResult result = program.run({"tune", "--config=lenet.json", "--gpus=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--hosts=127.0.0.1:2: this command makes its runs on this host"));
}

// ---- mpirun, srun ----

class MpirunLauncher : public Launchers {
 protected:
  void SetUp() override {
    if (::system("command -v mpirun >/dev/null") != 0) {
      GTEST_SKIP() << "there is no mpirun in PATH";
    }
    program.environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                {"TMPDIR", program.directory()}});
  }
  std::vector<std::string> below_mpirun(const std::string& strategies, const std::string& gpus,
                                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--gpus=" + gpus, "--launcher=mpirun",
                                    "--launcher-args=--oversubscribe --bind-to none"};
    all.insert(all.end(), more.begin(), more.end());
    return small_run(strategies, all);
  }
};

TEST_F(MpirunLauncher, MakesTheSameMatrix) {
  const ProgramResult result =
      program.run(below_mpirun("single,ddp,ps", "1,2", {"--trace=trace.json", "--trace-steps=3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_trace();
  expect_matrix(program.report(), {"single", "ddp", "ddp", "ps", "ps"});
  EXPECT_EQ(program.report()["config"]["launcher"], "mpirun");
  expect_nothing_left();
}

TEST_F(MpirunLauncher, BringsTheBackendThatNeedsIt) {
  const ProgramResult result = program.run(below_mpirun("single,ddp", "2", {"--backend=mpi"}));
  if (result.exit_code == 3) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["runs"][1]["backend"], "mpi");
}

TEST_F(MpirunLauncher, ReportsAFaultThoughMpirunEndsTheOthersAtOnce) {
  const ProgramResult result =
      program.run(below_mpirun("ddp", "2", {"--inject=kill:rank=1,step=2"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  expect_nothing_left();
}

TEST_F(MpirunLauncher, LeavesAReportAndNothingElseWhenInterrupted) {
  const auto interrupt = [&](int pid) {
    Program::wait_until([&] { return program.processes().size() >= 4; });
    ::sleep(8);  // verified and at work, also on a busy machine
    ::kill(pid, SIGINT);
  };
  const ProgramResult result =
      program.run(below_mpirun("ddp", "2", {"--steps=1000000", "--epochs=9"}), interrupt);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(program.report()["status"], "interrupted");
  EXPECT_EQ(program.report()["runs"][0]["devices"].size(), 2u);
  expect_nothing_left();
}

TEST_F(Launchers, SaysThatALauncherIsNotHere) {
  program.environment["PATH"] = program.directory();
  const ProgramResult result = program.run(small_run("ddp", {"--launcher=mpirun"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("mpirun"), HasSubstr("not found")));
}

constexpr const char* kStuckMpirun = R"(#!/bin/sh
# As mpirun of Open MPI 4.1 where it locks up in its own end: its ranks are gone, and it stays, also
# at SIGTERM.
n=$2
for program; do :; done
r=0
while [ $r -lt $n ]; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 "$program" &
  r=$((r + 1))
done
wait
trap '' TERM
exec sleep 600
)";

TEST_F(Launchers, EndALauncherThatStaysBehindItsRanks) {
  put_in_path("mpirun", kStuckMpirun);
  const double begin_s = steady_s();
  const ProgramResult result = program.run(
      small_run("ddp", {"--gpus=2", "--launcher=mpirun", "--timeout=600", "--verify-steps=0"}));
  EXPECT_LT(steady_s() - begin_s, 120) << "it waited for more than the report";
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
  EXPECT_EQ(program.report()["runs"][0]["step"]["count"], 4);
  expect_nothing_left();
}

TEST_F(Launchers, EndALauncherThatStaysBehindRanksWithoutAReport) {
  put_in_path("mpirun", "#!/bin/sh\necho 'ddpbench: rank 1: it broke' >&2\nexec sleep 600 >&2\n");
  const ProgramResult result =
      program.run(small_run("ddp", {"--gpus=2", "--launcher=mpirun", "--timeout=1"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["runs"][0]["error"]["message"], "rank 1: it broke");
}

constexpr const char* kSrun = R"(#!/bin/sh
# As srun -n N COMMAND: ranks with Slurm's variables, and the worst of their codes.
[ "$1$3" = -n--kill-on-bad-exit=1 ] || exit 9
n=$2; shift 3
r=0; pids=
while [ $r -lt $n ]; do
  SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=$n SLURM_STEP_ID=0 SLURM_JOB_ID=7 "$@" &
  pids="$pids $!"; r=$((r + 1))
done
code=0
for p in $pids; do wait $p || code=$?; done
exit $code
)";

TEST_F(Launchers, StartRunsBySlurmsVariables) {
  put_in_path("srun", kSrun);
  const ProgramResult result =
      program.run(small_run("single,ddp", {"--gpus=2", "--launcher=srun"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_matrix(program.report(), {"single", "ddp"});
}

}  // namespace
}  // namespace ddpbench
