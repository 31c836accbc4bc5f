// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Launchers without processes: what options amount to, command lines, messages, and what the end of
// a run means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/host/build_info.h"
#include "bench/launchers/agent_messages.h"
#include "bench/launchers/command_launcher.h"
#include "bench/launchers/launched_run.h"
#include "bench/launchers/make_launcher.h"
#include "reports/exports/trace.h"
#include "reports/json/report_json.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Hosts = std::vector<HostSlots>;

LauncherChoice choice_of(const std::vector<std::string>& arguments) {
  return choose_launcher(options_of(arguments));
}
std::string choice_error(const std::vector<std::string>& arguments) {
  return message_of([&] { choice_of(arguments); });
}

TEST(LauncherChoice, IsLocalWithoutHostsAndSshWithThem) {
  EXPECT_EQ(choice_of({}).launcher, "local");
  EXPECT_EQ(choice_of({"--launcher=local"}).launcher, "local");
  const LauncherChoice hosts = choice_of({"--hosts=a:2,b"});
  EXPECT_EQ(hosts.launcher, "ssh");
  EXPECT_EQ(hosts.hosts, (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(choice_of({"--launcher=mpirun"}).launcher, "mpirun");
  EXPECT_EQ(choice_of({"--launcher=srun", "--hosts=a"}).hosts, (Hosts{{"a", 1}}));
}

TEST(LauncherChoice, ReadsAHostFile) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("hosts", "a slots=2\nb\n");
  EXPECT_EQ(choice_of({"--hostfile=" + path}).hosts, (Hosts{{"a", 2}, {"b", 1}}));
}

TEST(LauncherChoice, RefusesWhatContradictsOrDoesNothing) {
  EXPECT_THAT(choice_error({"--hosts=a", "--hostfile=f"}), HasSubstr("exclude each other"));
  EXPECT_THAT(choice_error({"--hosts=a", "--launcher=local"}), HasSubstr("--launcher=ssh"));
  EXPECT_THAT(choice_error({"--launcher=ssh"}), HasSubstr("needs --hosts or --hostfile"));
  EXPECT_THAT(choice_error({"--remote-shell=rsh"}), HasSubstr("--remote-shell=rsh"));
  EXPECT_THAT(choice_error({"--launcher=srun", "--remote-program=/d"}),
              HasSubstr("does nothing with --launcher=srun"));
  EXPECT_THAT(choice_error({"--hosts=a", "--launcher-args=-v"}), HasSubstr("--launcher-args=-v"));
  EXPECT_EQ(choice_of({"--launcher=mpirun", "--launcher-args=-x A=\"it's\" \\' '\\'"}).launcher,
            "mpirun");
  EXPECT_THAT(
      choice_error({"--hosts=a", "--strategy=ddp", "--gpus=4", "--devices-per-process=2"}),
      HasSubstr("--devices-per-process=2 --launcher=ssh: each process that a launcher starts"));
  EXPECT_THAT(choice_error({"--hosts=localhost,b"}), HasSubstr("would not reach it at localhost"));
  EXPECT_THAT(choice_error({"--hosts=me@127.0.0.1,b"}), HasSubstr("me@127.0.0.1"));
  EXPECT_EQ(choice_of({"--hosts=127.0.0.1,127.0.0.2"}).hosts.size(), 2u);
  EXPECT_THAT(refusal({"--launcher=pbs"}), HasSubstr("pbs"));
}

TEST(LauncherChoice, IsNoneOfARank) {
  EXPECT_THAT(message_of([] { refuse_launchers(options_of({"--hosts=a"}), kIsRank); }),
              HasSubstr("--hosts=a: a launcher has started this process"));
  EXPECT_THAT(message_of([] { refuse_launchers(options_of({"--launcher=srun"}), kRunsHere); }),
              HasSubstr("--launcher=srun: this command makes its runs on this host only"));
  refuse_launchers(options_of({"--launcher=local"}), kIsRank);
  refuse_launchers(options_of({}), kIsRank);
}

// ---- mpirun and srun ----

TEST(LauncherWords, OfMpirunHandOnVariablesByName) {
  EXPECT_EQ(launcher_words({"mpirun", {}, ""}, 2, 4, {"DDPBENCH_JOB_SECRET"}),
            "mpirun -n 2 -x DDPBENCH_JOB_SECRET");
  EXPECT_EQ(launcher_words({"mpirun", {{"a", 2}, {"me@b", 1}}, "--bind-to none"}, 3, 1, {"A", "B"}),
            "mpirun -n 3 --host a:2,b:1 -x A -x B --bind-to none");
}

TEST(LauncherWords, OfMpirunGoBeyondTheCoresOrSlotsOnlyWhereTheyMust) {
  EXPECT_EQ(launcher_words({"mpirun", {}, ""}, 3, 2, {}), "mpirun -n 3 --oversubscribe");
  EXPECT_EQ(launcher_words({"mpirun", {{"a", 2}}, ""}, 3, 8, {}),
            "mpirun -n 3 --host a:2 --oversubscribe");
}

TEST(LauncherWords, OfMpirunNameTheInterfaceUnlessTheUserDoes) {
  EXPECT_EQ(launcher_words({"mpirun", {}, "", "eth0"}, 2, 4, {"A"}),
            "mpirun -n 2 -x A --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0");
  EXPECT_EQ(launcher_words({"mpirun", {}, "--mca btl_tcp_if_include ib0", "eth0"}, 2, 4, {}),
            "mpirun -n 2 --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include ib0");
  EXPECT_EQ(launcher_words({"srun", {}, "", "eth0"}, 2, 4, {}), "srun -n 2 --kill-on-bad-exit=1");
}

TEST(LauncherWords, OfSrunLeaveTheEnvironmentToIt) {
  EXPECT_EQ(launcher_words({"srun", {{"a", 2}, {"b", 2}}, "--overlap"}, 4, 1, {"A"}),
            "srun -n 4 --kill-on-bad-exit=1 --nodelist=a,b --overlap");
}

// ---- a run's settings on their way to its ranks ----

TEST(LaunchedRun, HasTheSettingsOfOneRunAndNothingOfItsLauncher) {
  Options options = options_of({"--strategy=ddp", "--gpus=2", "--hosts=a:2", "--json=r.json",
                                "--remote-shell=rsh", "--lr=0.5", "--timeout=7"});
  options.config_path = "c.json";
  const Options ranks = launched_run_options(launched_run_text(options));
  EXPECT_EQ(ranks.json_path, "-");
  EXPECT_TRUE(ranks.quiet);
  EXPECT_EQ(ranks.hosts, "");
  EXPECT_EQ(ranks.remote_shell, "");
  EXPECT_EQ(ranks.config_path, "c.json") << "advice names it";
  EXPECT_EQ(ranks.lr, 0.5);
  EXPECT_EQ(ranks.timeout_s, 7);
  EXPECT_EQ(ranks.strategies, std::vector<std::string>{"ddp"});
  EXPECT_EQ(plan_matrix(ranks), plan_matrix(options));
}

TEST(LaunchedRun, HasASecretOfItsOwnEachTime) {
  const Options options = options_of({});
  const auto first = launched_run_variables(options), second = launched_run_variables(options);
  EXPECT_GE(first.at("DDPBENCH_JOB_SECRET").size(), 32u);
  EXPECT_NE(first.at("DDPBENCH_JOB_SECRET"), second.at("DDPBENCH_JOB_SECRET"));
  EXPECT_THAT(first.at(kLaunchedRunVariable), Not(HasSubstr(first.at("DDPBENCH_JOB_SECRET"))));
}

// ---- messages ----

TEST(AgentMessages, AreReadAsTheyWereWritten) {
  AgentRun run{.job = "{}",
               .machine_devices = 3,
               .layout = {.ranks = 6, .step_capacity = 9},
               .variables = {{"A", "1 'quoted'\nline"}}};
  run.processes = {{2, {2}, {0}, {{"RANK", "2"}}}, {5, {5, 6}, {1, 2}, {}}};
  run.reference = "key";
  run.extent.steps = 7;
  const std::string line = order_line(run);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  const auto read = std::get<AgentRun>(*read_order(line));
  EXPECT_EQ(read.machine_devices, 3);
  EXPECT_EQ(read.layout, run.layout);
  EXPECT_EQ(read.variables, run.variables);
  ASSERT_EQ(read.processes.size(), 2u);
  EXPECT_EQ(read.processes[0].variables, run.processes[0].variables);
  EXPECT_EQ(read.processes[1].number, 5);
  EXPECT_EQ(read.processes[1].places, run.processes[1].places);
  EXPECT_EQ(read.reference, "key");
  EXPECT_EQ(read.extent.steps, 7);
  EXPECT_EQ(std::get<AgentSignal>(*read_order(order_line(AgentSignal{1, 15}))).number, 15);
  const auto greeting =
      std::get<AgentGreeting>(*read_order(order_line(AgentGreeting{"cpu", "/a b"})));
  EXPECT_EQ(greeting.directory, "/a b");
}

TEST(AgentMessages, TellAHostWithItsEnvironment) {
  HostView host{.version = version_text(),
                .name = "h",
                .mark = "m",
                .gpus = {},
                .environment = {},
                .note = "n"};
  host.gpus.probe.reason = "no driver";
  host.environment = report::test::sample_report().environment;
  const auto read = std::get<HostView>(*read_word(word_line(host)));
  EXPECT_EQ(read.version, host.version);
  EXPECT_EQ(read.mark, "m");
  EXPECT_EQ(read.gpus.probe.reason, "no driver");
  EXPECT_EQ(read.environment.cpu.model, host.environment.cpu.model);
  EXPECT_EQ(read.environment.libraries, host.environment.libraries);
}

TEST(AgentMessages, TellWhatRanksSayAndHowTheyEnd) {
  const auto line = std::get<RankLine>(*read_word(word_line(RankLine{3,
                                                                     "a\xff"
                                                                     "b"})));
  EXPECT_EQ(line.rank, 3);
  EXPECT_EQ(line.text,
            "a\xef\xbf\xbd"
            "b")
      << "what is not UTF-8 is replaced";
  const auto end =
      std::get<RankEnd>(*read_word(word_line(RankEnd{1, {.code = 0, .signal = 9}, "note"})));
  EXPECT_EQ(end.exit.signal, 9);
  EXPECT_TRUE(end.exit.is_known);
  EXPECT_EQ(end.note, "note");
  EXPECT_EQ(std::get<RankRefusal>(*read_word(word_line(RankRefusal{1, "why", 2}))).why, "why");
}

TEST(AgentMessages, CarryRecordsOfAnyBytesAndLength) {
  for (const std::size_t size : {0u, 1u, 2u, 3u, 4u, 255u, 70000u}) {
    RankNews news{4, std::string(size, '\0')};
    for (std::size_t i = 0; i < size; ++i) news.bytes[i] = static_cast<char>(i * 7);
    const auto read = std::get<RankNews>(*read_word(word_line(news)));
    EXPECT_EQ(read.rank, 4);
    EXPECT_EQ(read.bytes, news.bytes) << size;
  }
}

TEST(AgentMessages, TellWhatAHostHasAndHowBusyItIs) {
  HostInputs inputs{
      .dataset = {}, .contents = {{"the data set", "1f"}}, .error = "no", .exit_code = 2};
  inputs.dataset.name = "mnist";
  const auto read = std::get<HostInputs>(*read_word(word_line(inputs)));
  EXPECT_EQ(read.dataset.name, "mnist");
  EXPECT_EQ(read.contents, inputs.contents);
  EXPECT_EQ(read.exit_code, 2);
  const HostLoad load{{.wall_s = 1.5, .own_major_page_faults = 7}};
  const auto snapshot = std::get<HostLoad>(*read_word(word_line(load))).snapshot;
  EXPECT_EQ(snapshot.wall_s, 1.5);
  EXPECT_EQ(snapshot.own_major_page_faults, 7u);
  EXPECT_FALSE(snapshot.busy_s);
  const AgentHeartbeat heartbeat{2.5, {1, 3}};
  EXPECT_EQ(std::get<AgentHeartbeat>(*read_word(word_line(heartbeat))).stopped, heartbeat.stopped);
}

TEST(AgentMessages, AreNotWhatOthersWriteToTheSameStream) {
  for (const char* const line :
       {"Welcome to b!", "", "{", "[]", "{}", "{\"host\":1}", "{\"end\":{}}"}) {
    EXPECT_FALSE(read_word(line)) << line;
  }
}

// ---- the end of a run ----

using report::Status;

std::vector<std::string> lines_of(const report::Report& report) {
  std::istringstream text(report::report_text(report));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

void write_report(RunOutcome& outcome, const report::Report& report) {
  for (const std::string& line : lines_of(report)) outcome.add_output(line);
}

report::Report report_with(Status status, int guilty = -1) {
  report::Report report = report::test::report_of({report::test::sample_run("ddp", 2, 100)});
  report.status = report.runs[0].status = status;
  if (status == Status::failed) {
    report::ErrorInfo error;
    error.kind = "comm";
    error.message = "it broke";
    error.rank = guilty;
    report.error = report.runs[0].error = error;
  }
  return report;
}

TEST(RunOutcome, IsTheRunThatTheRanksReport) {
  RunOutcome outcome;
  outcome.add_output("model: lenet5");
  write_report(outcome, report_with(Status::ok));
  EXPECT_FALSE(outcome.has_ended());
  outcome.end({});
  EXPECT_TRUE(outcome.has_ended());
  const LaunchedRun made = outcome.conclude(false);
  ASSERT_TRUE(made.run);
  EXPECT_EQ(made.run->strategy, "ddp");
  EXPECT_EQ(made.exit_code, 0);
  EXPECT_FALSE(made.error);
}

TEST(RunOutcome, IsThatOfTheLastWholeReport) {
  RunOutcome outcome;
  write_report(outcome, report_with(Status::failed, 0));
  write_report(outcome, report_with(Status::ok));
  outcome.add_output("{");
  outcome.add_output("  \"schema_version\": 1,");  // killed while it wrote
  outcome.end({.code = 0, .signal = SIGKILL});
  EXPECT_EQ(outcome.conclude(false).run->status, Status::ok);
}

TEST(RunOutcome, KeepsAReportThoughWhatFollowsIsMixedOrNone) {
  RunOutcome outcome;
  outcome.add_output("{");
  outcome.add_output("}");
  EXPECT_FALSE(outcome.has_report()) << "a shell may greet so";
  write_report(outcome, report_with(Status::failed, 0));
  EXPECT_TRUE(outcome.has_report());
  const std::vector<std::string> lines = lines_of(report_with(Status::failed, 0));
  for (const std::string& line : lines) {
    outcome.add_output(line);
    if (line != "}") outcome.add_output(line);  // that of another rank
  }
  outcome.end({.code = 4});
  EXPECT_EQ(outcome.conclude(false).error->message, "it broke");
}

TEST(RunOutcome, HasTheCodeOfTheLauncherWhereThatSaysWhy) {
  const auto code_of = [](const launch::ChildExit& exit) {
    RunOutcome outcome;
    write_report(outcome, report_with(Status::failed, 1));
    outcome.end(exit);
    return outcome.conclude(false).exit_code;
  };
  EXPECT_EQ(code_of({.code = 5}), 5);
  EXPECT_EQ(code_of({.code = 4}), 4);
  EXPECT_EQ(code_of({.code = 0, .signal = SIGKILL}), 4);
}

TEST(RunOutcome, WithoutAReportIsWhatARankSaidLast) {
  RunOutcome outcome;
  outcome.add_error("ddpbench: rank 0: rank 1 is gone");
  outcome.add_error("some library: warning");
  outcome.add_error("ddpbench: --lr is 3");
  outcome.end({.code = 2});
  const LaunchedRun made = outcome.conclude(false);
  EXPECT_FALSE(made.run);
  EXPECT_EQ(made.error->kind, "config");
  EXPECT_EQ(made.error->message, "--lr is 3");
  EXPECT_EQ(made.exit_code, 2);
}

// srun, or the shell, ends before there is any rank.
TEST(RunOutcome, WithoutARankIsWhatItsLauncherSaid) {
  RunOutcome outcome;
  outcome.add_error("---------");
  outcome.add_error("srun: Job 5 step creation temporarily disabled, retrying");
  outcome.add_error("srun: error: n0: task 0: Exited with exit code 2");
  outcome.add_error("srun: error: Unable to create step for job 5: More processors requested");
  outcome.add_error("srun: error: another");
  outcome.end({.code = 1});
  const LaunchedRun made = outcome.conclude(false);
  EXPECT_THAT(made.error->message,
              AllOf(HasSubstr("exit code 1"), HasSubstr("said: srun: error: Unable to create step"),
                    Not(HasSubstr("another"))));
  EXPECT_EQ(made.exit_code, 4);
  RunOutcome quiet;
  quiet.end({.code = 1});
  EXPECT_THAT(quiet.conclude(false).error->message, HasSubstr("said nothing"));
}

TEST(RunOutcome, IsInterruptedByTheSupervisorOrByTheRanks) {
  RunOutcome asked;
  asked.end({.code = 130});
  EXPECT_TRUE(asked.conclude(true).interrupted);
  EXPECT_TRUE(asked.conclude(false).interrupted);
  RunOutcome reported;
  write_report(reported, report_with(Status::interrupted));
  reported.end({.code = 130});
  EXPECT_TRUE(reported.conclude(false).interrupted);
  EXPECT_TRUE(reported.conclude(false).run);
  RunOutcome done;
  write_report(done, report_with(Status::ok));
  done.end({});
  EXPECT_FALSE(done.conclude(true).interrupted) << "it had ended before";
}

// It asks all ranks to end before they have noticed anything.
TEST(RunOutcome, IsAFailureWhereMpirunHasLostAHost) {
  const auto end_of = [](bool by_user) {
    RunOutcome outcome;
    report::Report partial = report_with(Status::interrupted);
    partial.runs[0].devices.clear();
    for (const char* host : {"10.77.0.1", "10.77.0.3", "10.77.0.3"}) {
      report::DeviceRow& device = partial.runs[0].devices.emplace_back();
      device.rank = static_cast<int>(partial.runs[0].devices.size()) - 1;
      device.host = host;
    }
    outcome.add_report(0, report::report_text(partial));
    outcome.add_error("ORTE has lost communication with a remote daemon.");
    outcome.add_error("  Remote daemon: [[7483,0],3] on node 10.77.0.3");
    outcome.end({.code = 9});
    return outcome.conclude(by_user);
  };
  const LaunchedRun made = end_of(false);
  EXPECT_FALSE(made.interrupted);
  EXPECT_EQ(made.exit_code, 4);
  EXPECT_EQ(made.run->status, Status::failed);
  EXPECT_THAT(made.error->message,
              AllOf(HasSubstr("lost communication"), HasSubstr("on node 10.77.0.3")));
  EXPECT_EQ(made.error->host, "10.77.0.3");
  EXPECT_EQ(made.error->rank, 1) << "the first on that host";
  EXPECT_TRUE(end_of(true).interrupted);
}

TEST(RunOutcome, KnowsFromAReportThatTheRunHasFailed) {
  RunOutcome outcome;
  EXPECT_FALSE(outcome.has_failed_report());
  outcome.add_report(0, report::report_text(report_with(Status::ok)));
  EXPECT_FALSE(outcome.has_failed_report());
  outcome.add_report(0, report::report_text(report_with(Status::failed, 1)));
  EXPECT_TRUE(outcome.has_failed_report());
}

TEST(RunOutcome, HasTheTraceOfTheHostWhoseReportCounts) {
  const auto send = [](RunOutcome& outcome, int host, const report::Trace& trace) {
    for (const std::string& part : report::trace_texts(trace, 1)) outcome.add_report(host, part);
  };
  report::Trace trace;
  trace.processes = {{.id = 0, .name = "rank 0"}, {.id = 1, .name = "rank 1"}};
  RunOutcome outcome;
  outcome.add_report(1, report::report_text(report_with(Status::failed, 0)));
  send(outcome, 1, {});
  write_report(outcome, report_with(Status::ok));
  send(outcome, 0, trace);
  outcome.add_report(0, "{\n\"trace_part\": 0\n}\n");
  outcome.end({});
  const LaunchedRun made = outcome.conclude(false);
  EXPECT_EQ(made.trace, trace);
  EXPECT_TRUE(made.run);
}

TEST(RunOutcome, TellsTheReportsOfHostsApartBehindOneLauncher) {
  RunOutcome outcome;
  outcome.add_report(0, report::report_text(report_with(Status::failed, 2)));
  outcome.add_report(1, report::report_text(report_with(Status::failed, 0)));
  outcome.end({.code = 4});
  EXPECT_EQ(outcome.conclude(false).error->rank, 2);
}

TEST(RunOutcome, KnowsARankThatSaysWhyItEndsFromOneThatWaits) {
  RunOutcome outcome;
  outcome.add_error("mpirun: warning: no help file");
  outcome.add_error("ddpbench: rank 0: waiting for rank 1 of 2 to come, 3 s of 60 s (--timeout)");
  EXPECT_FALSE(outcome.is_given_up());
  outcome.add_error("ddpbench: rank 0: --batch-size differs");
  EXPECT_TRUE(outcome.is_given_up());
}

TEST(RunOutcome, OfARehearsalNeedsNoReport) {
  RunOutcome outcome;
  outcome.end({});
  const LaunchedRun made = outcome.conclude(false);
  EXPECT_FALSE(made.error);
  EXPECT_EQ(made.exit_code, 0);
}

TEST(EndLimit, IsTheEarliestAndMovesWithPauses) {
  EndLimit limit;
  EXPECT_FALSE(limit.passed(1e9));
  limit.after_failure(100, 0);
  EXPECT_FALSE(limit.passed(1e9)) << "--timeout=0: never";
  limit.after_failure(100, 30);
  limit.within(100, 50);
  EXPECT_FALSE(limit.passed(134));
  EXPECT_TRUE(limit.passed(135)) << "all processes must have ended 5 s after the deadline";
  limit.move(10);
  EXPECT_FALSE(limit.passed(144));
  limit.renew(200);
  EXPECT_FALSE(limit.passed(205));
  EXPECT_TRUE(limit.passed(206));
}

}  // namespace
}  // namespace ddpbench::bench
