// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Launchers without processes: what options amount to, command lines, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/launchers/agent_messages.h"
#include "bench/launchers/agent_source.h"
#include "bench/launchers/make_launcher.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
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

TEST(LauncherWords, OfSrunLeaveTheEnvironmentToIt) {
  EXPECT_EQ(launcher_words({"srun", {{"a", 2}, {"b", 2}}, "--overlap"}, 4, 1, {"A"}),
            "srun -n 4 --kill-on-bad-exit=1 --nodelist=a,b --overlap");
}

// ---- worlds that a launcher started ----

Options fitted(int processes, const std::vector<std::string>& arguments) {
  launch::RankEnvironment environment;
  environment.world_size = processes;
  environment.launcher = "mpirun";
  Options options = options_of(arguments);
  fit_to_world(options, environment);
  return options;
}

TEST(FitToWorld, GivesAllProcessesADeviceWhereNoNumberIsAskedFor) {
  using testing::ElementsAre;
  EXPECT_THAT(fitted(3, {"--strategy=ddp"}).gpus, ElementsAre(3));
  EXPECT_THAT(fitted(5, {"--strategy=ps", "--servers=1,2"}).gpus, ElementsAre(3));
  EXPECT_THAT(fitted(3, {"--strategy=single,ddp", "--gpus=1,2"}).gpus, ElementsAre(1, 2));
  EXPECT_THAT(fitted(3, {"--strategy=ddp", "--gpus=1"}).gpus, ElementsAre(1)) << "asked for";
  EXPECT_EQ(most_processes(fitted(3, {"--strategy=dp,ddp,ps", "--servers=1"})), 3);
  EXPECT_EQ(fitted(3, {"--strategy=localsgd", "--sync-every=2"}).sync_every, std::vector{2})
      << "what only several devices use";
}

TEST(FitToWorld, RefusesServersWithoutAWorkerSharedProcessesAndSeveralRunsOfTheLaunchersEngine) {
  const auto refused = [](int processes, const std::vector<std::string>& arguments) {
    return message_of([&] { fitted(processes, arguments); });
  };
  EXPECT_THAT(refused(2, {"--strategy=ps", "--servers=2"}),
              HasSubstr("2 processes cannot be 2 servers and at least 1 worker"));
  const std::string several = "--backend=mpi: MPI starts once in each process that mpirun started";
  EXPECT_THAT(refused(2, {"--strategy=single,ddp", "--backend=mpi"}), HasSubstr(several));
  EXPECT_THAT(refused(2, {"--strategy=ddp", "--backend=mpi", "--repetitions=2"}),
              HasSubstr(several));
  EXPECT_EQ(fitted(2, {"--strategy=ddp", "--backend=mpi"}).backend, "mpi");
  EXPECT_THAT(refused(2, {"--strategy=ddp", "--devices-per-process=2"}),
              HasSubstr("--devices-per-process=2: each process that a launcher starts has one"));
}

TEST(CommonArguments, AreWhatALauncherGivesAllProcesses) {
  EXPECT_EQ(common_arguments({"/a/ddpbench", "--local-rank=1", "--strategy=ddp", "--json=a b"}),
            "--strategy=ddp '--json=a b'");
  EXPECT_EQ(common_arguments({"ddpbench", "--local_rank=0"}), "");
}

// ---- messages ----

TEST(AgentMessages, AreReadAsTheyWereWritten) {
  AgentRun run{.job = "{}",
               .devices_here = 3,
               .layout = {.ranks = 6, .step_capacity = 9},
               .variables = {{"A", "1 'quoted'\nline"}}};
  run.processes = {{2, {2}, {0}, {0}, {{"RANK", "2"}}}, {5, {5, 6}, {1, 2}, {1, 2}, {}}};
  run.reference = "key";
  run.extent.steps = 7;
  const std::string line = order_line(run);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  const auto read = std::get<AgentRun>(*read_order(line));
  EXPECT_EQ(read.devices_here, 3);
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
  EXPECT_EQ(std::get<AgentEnd>(*read_order(order_line(AgentEnd{2, "why"}))).message, "why");
}

TEST(AgentMessages, TellAHostWithItsEnvironment) {
  HostView host{.name = "h", .mark = "m", .gpus = {}, .environment = {}, .note = "n"};
  host.gpus.reason = "no driver";
  host.environment = report::test::sample_report().environment;
  host.cores = {2, 5};
  host.rank = 3;
  host.arguments = "--gpus=2";
  const auto read = std::get<HostView>(*read_word(word_line(host)));
  EXPECT_EQ(read.mark, "m");
  EXPECT_EQ(read.gpus.reason, "no driver");
  EXPECT_EQ(read.environment.cpu.model, host.environment.cpu.model);
  EXPECT_EQ(read.environment.libraries, host.environment.libraries);
  EXPECT_EQ(read.cores, host.cores);
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.arguments, host.arguments);
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
  EXPECT_EQ(std::get<AgentRefusal>(*read_word(word_line(AgentRefusal{1, "why", 2}))).why, "why");
  EXPECT_EQ(std::get<AgentTold>(*read_word(word_line(AgentTold{15}))).signal, 15);
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
  const HostInputs inputs{.dataset = "{}", .contents = {{"the data set", "1f"}}, .decoded = "7"};
  const auto read = std::get<HostInputs>(*read_word(word_line(inputs)));
  EXPECT_EQ(read.dataset, "{}");
  EXPECT_EQ(read.contents, inputs.contents);
  EXPECT_EQ(read.decoded, "7");
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

}  // namespace
}  // namespace ddpbench::bench
