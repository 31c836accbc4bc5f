// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrices whose runs a launcher starts. The remote shell is a script that runs the command here,
// so "hosts" are names for this machine; tests/netlab has hosts that share nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/clock.h"
#include "tests/bench/launcher_fixture.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::free_port;
using test::Launchers;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_THAT(result.out, HasSubstr("2 runs checked"));
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(Launchers, RefuseMoreDevicesThanSlotsBeforeAnythingRuns) {
  const ProgramResult result = program.run(on_hosts("single,ddp", "1,4"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("4 devices, but the hosts have 2 slots"));
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(Launchers, LookWhereRankZeroWritesForTheFoldersOfItsFiles) {
  for (const std::string option : {"--save-model", "--checkpoint"}) {
    const ProgramResult result =
        program.run(on_hosts("ddp", "2", {option + "=nowhere/w.safetensors"}));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("host 127.0.0.1: " + option), HasSubstr("nowhere")));
  }
}

TEST_F(Launchers, RefuseAPortThatIsNoneBeforeAnythingRuns) {
  for (const char* port : {"70000", "29x", "0"}) {
    program.environment["MASTER_PORT"] = port;
    const ProgramResult result = program.run(on_hosts("ddp", "2"));
    EXPECT_EQ(result.exit_code, 2) << port;
    EXPECT_THAT(result.err, HasSubstr(std::string("MASTER_PORT=") + port + " is not a port"));
    EXPECT_EQ(program.read("report.json"), "");
  }
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

TEST_F(Launchers, NameAHostWhoseProgramIsAnother) {
  const ProgramResult result = program.run(on_hosts("ddp", "2", {"--remote-program=/bin/true"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("exit code 0 and nothing there answered as ddpbench does"));
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
  const ProgramResult result = program.run(on_hosts(
      "ddp,ps", "2",
      {"--inject=kill:rank=1,step=3", "--servers=1", "--warmup-steps=0", "--trace=trace.json"}));
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
  EXPECT_THAT(result.err, HasSubstr("ddp on 2 devices: rank 1 was killed by SIGKILL in step 3"));
  // Rank 0 has at least its first step by then: the second ends in exchanges of both.
  const json trace = json::parse(program.read("trace.json"));
  EXPECT_THAT(test::trace_problems(trace), testing::IsEmpty());
  EXPECT_THAT(
      test::process_names(trace),
      testing::IsSupersetOf({"ddp on 2 devices, rank 0", "ps on 2 devices and 1 server, rank 0"}));
  expect_nothing_left();
}

// It mostly dies before the ranks have met, so that only its agent knows.
TEST_F(Launchers, EndARunWhoseRankIsKilledAtItsStart) {
  const auto kill_rank = [&](int) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    for (const int pid : processes_of_rank(1)) ::kill(pid, SIGKILL);
  };
  const ProgramResult result = program.run(on_hosts("ddp", "2", {"--timeout=600"}), kill_rank);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  expect_nothing_left();
}

TEST_F(Launchers, RefuseMoreDevicesOfOneProcessThanItsHostHas) {
  const ProgramResult result = program.run(on_hosts("dp", "3"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("a process with 3 devices is on the first host"),
                                HasSubstr("has 2 slots")))
      << "both names are this machine";
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
        on_hosts("ddp,ps", "2", {"--steps=1000000", "--epochs=5000", "--force"}), interrupt);
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
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=5000"}), kill);
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
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=5000"}), cut);
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

// Nobody waits for it.
TEST_F(Launchers, EndARankThatIsStoppedAndAlone) {
  const ProgramResult result = program.run(
      on_hosts("single", "1", {"--inject=stop:rank=0,step=3", "--timeout=2", "--steps=100"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 0);
  expect_nothing_left();
}

TEST_F(Launchers, TakeASignalToARankForTheEndOfThatRank) {
  const auto ask = [&](int) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    ::usleep(1000000);
    for (const int pid : processes_of_rank(1)) ::kill(pid, SIGTERM);
  };
  const ProgramResult result =
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=5000"}), ask);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json error = program.report()["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["signal"], SIGTERM);
  EXPECT_FALSE(error["host"].get<std::string>().empty());
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
      program.run(on_hosts("ddp", "2", {"--steps=1000000", "--epochs=5000", "--timeout=3"}), stop);
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
  json changed = json::parse(config);
  changed["hosts"] = "127.0.0.1:2";
  program.write("lenet.json", changed.dump());
  const ProgramResult result = program.run({"tune", "--config=lenet.json", "--gpus=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--hosts=127.0.0.1:2: this command makes its runs on this host"));
}

}  // namespace
}  // namespace ddpbench
