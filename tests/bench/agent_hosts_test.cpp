// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a supervisor makes of the agents that it has, and what it tells them, without processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/launchers/agent_source.h"
#include "bench/plan/training_job.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankEnd end_of(int rank, int signal) {
  return {.rank = rank, .exit = {.code = 0, .signal = signal}, .note = {}};
}

// An agent, which answers on a thread of its own, and what it was told last.
struct FakeAgent {
  HostView view;
  HostInputs inputs = {
      .dataset = dataset_json({}).dump(), .contents = {{"the data set", "1f"}}, .decoded = {}};
  std::optional<AgentRefusal> refusal = {};  // in place of the inputs
  std::vector<AgentWord> answers = {};  // to a run; empty: its ranks end when they are asked to
  AgentRun run = {};
  std::string store_nonce = {};
  report::MachineSnapshot load = {};
  int inputs_asked = 0, runs = 0;
  std::atomic<bool> is_gone = false;  // for good
  bool writes = false;

  // Returns the supervisor's end of a connection to it.
  FileDescriptor come() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    serving_.emplace_back([this, socket = FileDescriptor(ends[1])]() mutable {
      launch::PipedProcess supervisor(std::move(socket));
      serve(supervisor);
    });
    return FileDescriptor(ends[0]);
  }
  void leave() {
    is_gone = true;
    serving_.clear();
  }

 private:
  void serve(launch::PipedProcess& supervisor) {
    while (!is_gone) {
      std::vector<pollfd> watched;
      supervisor.watch(watched);
      ::poll(watched.data(), watched.size(), 5);
      const bool ended = supervisor.look();
      for (const std::string& line : supervisor.take_output()) {
        for (const AgentWord& word : answers_to(*read_order(line))) {
          supervisor.write(word_line(word));
        }
      }
      if (ended) return;
    }
  }

  std::vector<AgentWord> answers_to(const AgentOrder& order) {
    if (std::holds_alternative<AgentGreeting>(order)) return {view};
    if (std::holds_alternative<AgentLook>(order)) return {HostLoad{load}};
    if (const auto* const store = std::get_if<AgentStore>(&order)) {
      store_nonce = store->nonce;
      return {HostStore{"127.0.0.1", 4711}};
    }
    if (const auto* const asked = std::get_if<AgentInputs>(&order)) {
      ++inputs_asked;
      writes = asked->writes;
      if (refusal) return {*refusal};
      return {inputs};
    }
    if (const auto* const started = std::get_if<AgentRun>(&order)) {
      ++runs;
      run = *started;
      return answers;
    }
    if (const auto* const signal = std::get_if<AgentSignal>(&order)) {
      return {end_of(signal->process, signal->number)};
    }
    return {};
  }

  std::vector<std::jthread> serving_;
};

// Agents that a launcher started, one for each rank, or one with `slots` on each host.
class FakeSource final : public AgentSource {
 public:
  FakeSource(std::deque<FakeAgent>& fakes, std::string launcher, int slots, bool anew)
      : fakes_(fakes), launcher_(std::move(launcher)), anew_(anew) {
    for (const FakeAgent& fake : fakes) agents_.push_back({fake.view.name, slots});
  }
  const std::vector<HostSlots>& agents() const override { return agents_; }
  void connect(std::vector<HostLink>& links, const std::set<std::size_t>& wanted) override {
    for (const std::size_t agent : wanted) {
      if (links[agent].lost().empty()) continue;
      if (fakes_[agent].is_gone) throw CommError(links[agent].lost());
      links[agent] = HostLink("agent " + std::to_string(agent),
                              std::make_unique<launch::PipedProcess>(fakes_[agent].come()), {});
      while (links[agent].view() == nullptr && links[agent].lost().empty()) {
        listen(links);
      }
    }
  }
  std::string launcher() const override { return launcher_; }
  bool starts_anew() const override { return anew_; }
  std::string address_of_first(const HostView& first) const override { return first.name; }
  int port() const override { return kUsualPort; }

 private:
  std::deque<FakeAgent>& fakes_;
  const std::string launcher_;
  const bool anew_;
  std::vector<HostSlots> agents_;
};

class AgentHostsTest : public testing::Test {
 protected:
  // Each has a host by its letter, which may use these cores.
  void add(const std::string& letter, const std::vector<int>& cores) {
    const int rank = static_cast<int>(agents.size());
    FakeAgent& agent = agents.emplace_back();
    agent.answers = {end_of(rank, SIGKILL)};
    agent.view.name = letter;
    agent.view.mark = "boot-" + letter;
    agent.view.cores = cores;
  }
  std::unique_ptr<RunHosts> connected(const std::string& launcher = "mpirun", int slots = 1,
                                      bool anew = false) {
    return hosts_of_agents(std::make_unique<FakeSource>(agents, launcher, slots, anew));
  }
  static HostJob job_of(const std::vector<std::vector<int>>& devices) {
    HostJob job;
    job.kind = "training";
    job.description = {{"plan", nullptr}};
    job.plan = "/plan";
    job.backend = "gloo";
    job.devices = devices;
    return job;
  }
  static launch::SuperviseResult run(RunHosts& hosts, const HostJob& job) {
    auto channels = launch::RankChannels::create(
        {.ranks = static_cast<int>(job.devices.size()), .step_capacity = 1});
    launch::SuperviseOptions options;
    options.timeout_s = 20;
    options.interrupted = [] { return false; };
    hosts.prepare(job);
    return hosts.run(job, channels, options);
  }
  std::deque<FakeAgent> agents;
};

TEST_F(AgentHostsTest, CountsTheCoresOfAMachineOnceAndThoseOfBoundProcessesTogether) {
  add("a", {0, 1});
  add("a", {1, 2});
  add("b", {0});
  const auto hosts = connected();
  HostDevices devices;
  hosts->find_devices(devices, 0);
  EXPECT_EQ(devices.cpu.cores.size(), 4U);
  EXPECT_EQ(devices.launcher, "mpirun");
  EXPECT_EQ(hosts->slots(), 3);
  EXPECT_EQ(hosts->count(), 2);
  EXPECT_EQ(hosts->hosts_of(2), 1);
  EXPECT_EQ(hosts->hosts_of(3), 2);
}

TEST_F(AgentHostsTest, KnowsAMachineWithMoreThreadsThanCores) {
  add("a", {0});
  add("a", {1});
  add("b", {0});
  add("b", {0});
  const auto hosts = connected();
  EXPECT_FALSE(hosts->oversubscribes(job_of({{0}, {1}, {2}})));
  EXPECT_TRUE(hosts->oversubscribes(job_of({{0}, {1}, {2}, {3}}))) << "both are bound to one core";
  HostJob threads = job_of({{0}, {1}});
  threads.threads_per_device = 2;
  EXPECT_TRUE(hosts->oversubscribes(threads));
}

// The processes of fellow ranks are no other programs.
TEST_F(AgentHostsTest, AddsWhatAllRanksOfAMachineUsedThere) {
  add("a", {0});
  add("a", {1});
  add("b", {0});
  for (const auto& [agent, own_s] : {std::pair(0, 3.0), {1, 4.0}, {2, 5.0}})
    agents[static_cast<std::size_t>(agent)].load = {.busy_s = 9, .own_busy_s = own_s};
  const auto hosts = connected();
  hosts->prepare(job_of({{0}, {0}, {0}}));
  const auto all = hosts->snapshots();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].busy_s, 9);
  EXPECT_EQ(all[0].own_busy_s, 7);
  EXPECT_EQ(all[1].own_busy_s, 5);
  hosts->prepare(job_of({{0}, {0}}));
  EXPECT_EQ(hosts->snapshots().size(), 1U) << "b has no rank";
  agents[1].load.own_busy_s.reset();
  EXPECT_FALSE(hosts->snapshots()[0].own_busy_s);
}

TEST_F(AgentHostsTest, NamesHostsInTheEnvironmentWhereThereAreSeveral) {
  add("a", {0});
  add("a", {1});
  report::Environment environment;
  connected()->describe(environment);
  EXPECT_THAT(environment.hosts, IsEmpty());
  EXPECT_EQ(environment.launcher, "mpirun");
  add("b", {0});
  connected()->describe(environment);
  EXPECT_THAT(environment.hosts, ElementsAre("a", "b"));
}

TEST_F(AgentHostsTest, RefusesBackendsAndNumbersThatDoNotFitTheAgents) {
  add("a", {0});
  add("a", {1});
  add("b", {0});
  const auto hosts = connected();
  const auto refused = [&](const std::string& backend, int workers, int servers, int devices) {
    return message_of([&] { hosts->backend(backend, "cpu", workers, servers, devices); });
  };
  EXPECT_EQ(hosts->backend("shm", "cpu", 2, 0, 1), "shm") << "on one host";
  EXPECT_THAT(refused("shm", 3, 0, 1), HasSubstr("the ranks are on 2 hosts"));
  EXPECT_THAT(refused("shm", 3, 1, 1), HasSubstr("a run has 4 ranks (--gpus, --servers), but "
                                                 "mpirun started 3"));
  EXPECT_THAT(refused("shm", 1, 0, 3), HasSubstr("a process with 3 devices is on the first host, "
                                                 "but a has 2 slots"));
  EXPECT_THAT(refused("mpi", 2, 0, 1), AllOf(HasSubstr("--backend=mpi: MPI waits for all 3 ranks"),
                                             HasSubstr("a run has 2")));
  EXPECT_EQ(hosts->backend("mpi", "cpu", 3, 0, 1), "mpi");
  EXPECT_EQ(connected("mpirun", 1, true)->backend("mpi", "cpu", 2, 0, 1), "mpi");
}

TEST_F(AgentHostsTest, TellsRanksTheirPlaces) {
  add("a", {0});
  add("b", {0});
  add("a", {1});
  const auto hosts = connected();
  run(*hosts, job_of({{0}, {1}, {2}}));
  const AgentRun::Process& last = agents[2].run.processes.at(0);
  EXPECT_EQ(last.number, 2);
  EXPECT_THAT(last.devices, ElementsAre(2));
  EXPECT_THAT(last.places, ElementsAre(0)) << "the first on its own core";
  EXPECT_THAT(last.gpu_places, ElementsAre(1)) << "the second of two devices on a";
  EXPECT_EQ(agents[2].run.devices_here, 1);
  EXPECT_THAT(agents[2].run.cores, IsEmpty()) << "those that it is bound to";
  EXPECT_EQ(last.variables.at("RANK"), "2");
  EXPECT_EQ(last.variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(last.variables.at("DDPBENCH_RANK_HOST"), "a");
  EXPECT_EQ(agents[1].run.variables.at("WORLD_SIZE"), "3");
  EXPECT_EQ(agents[1].run.variables.at("MASTER_PORT"), "4711");
  const std::string nonce = agents[0].run.nonce;
  EXPECT_GE(nonce.size(), 32u);
  EXPECT_EQ(agents[2].run.nonce, nonce);
  EXPECT_EQ(agents[0].store_nonce, nonce);
  EXPECT_EQ(agents[0].run.variables.count("DDPBENCH_JOB_SECRET"), 0U) << "agents derive it";
  run(*hosts, job_of({{0, 1, 2}}));
  EXPECT_NE(agents[0].run.nonce, nonce) << "each run has its own secret";
  EXPECT_THAT(agents[0].run.cores, ElementsAre(0, 1)) << "all of the machine's";
  EXPECT_EQ(agents[1].runs, 1) << "it has no part in the second";
}

TEST_F(AgentHostsTest, NamesTheRankThatEndsWithItsHostItsSignalAndTheAgentsNote) {
  add("a", {0});
  add("b", {0});
  RankEnd killed = end_of(1, SIGKILL);
  killed.note = "memory ran out";
  agents[0].answers = {};
  agents[1].answers = {killed};
  const auto hosts = connected();
  const auto result = run(*hosts, job_of({{0}, {1}}));
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->rank, 1);
  EXPECT_EQ(result.failure->host, "b");
  EXPECT_THAT(result.failure->error.message,
              AllOf(HasSubstr("killed by SIGKILL"), HasSubstr("memory ran out")));
}

// Each host computes a reference, by a rank that is its first.
TEST_F(AgentHostsTest, NamesTheFirstRankOfTheHostWhoseReferenceFails) {
  add("a", {0, 1});
  add("b", {0, 1});
  agents[0].answers = {};
  agents[1].answers = {end_of(0, SIGKILL)};
  const auto hosts = connected("", 2, true);
  HostJob job = job_of({{0}, {1}, {2}, {3}});
  hosts->prepare(job);
  job.is_reference = true;
  job.devices.resize(1);
  job.servers = 0;
  hosts->prepare(job);
  auto channels = launch::RankChannels::create({.ranks = hosts->count(), .step_capacity = 1});
  launch::SuperviseOptions options;
  options.interrupted = [] { return false; };
  const auto result = hosts->run(job, channels, options);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->rank, 2);
  EXPECT_EQ(result.failure->host, "b");
  EXPECT_THAT(result.failure->error.message, HasSubstr("rank 2 on b was killed by SIGKILL"));
}

// Whether a launcher started it or a remote shell does, in vain.
TEST_F(AgentHostsTest, NamesTheRankWhoseAgentWasGoneBeforeTheRun) {
  add("a", {0});
  add("b", {0});
  for (const auto& [launcher, gone] : {std::pair("mpirun", 1), {"", 1}, {"", 0}}) {
    for (FakeAgent& agent : agents) {
      agent.is_gone = false;
      agent.answers.clear();
    }
    const auto hosts = connected(launcher, 1, std::string(launcher).empty());
    agents[static_cast<std::size_t>(gone)].leave();
    const auto result = run(*hosts, job_of({{0}, {1}}));
    ASSERT_TRUE(result.failure) << launcher;
    EXPECT_EQ(result.failure->rank, gone) << launcher;
    EXPECT_EQ(result.failure->host, gone == 1 ? "b" : "a");
    EXPECT_THAT(result.failure->error.message, HasSubstr("the connection is gone"));
  }
}

TEST_F(AgentHostsTest, TakesASignalToAnAgentForAnInterruption) {
  add("a", {0});
  add("a", {1});
  const auto hosts = connected();
  agents[0].answers = {};
  agents[1].answers = {AgentTold{SIGTERM}, end_of(1, SIGTERM)};
  const auto result = run(*hosts, job_of({{0}, {1}}));
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.failure);
}

// mpirun asks all others to end when it has lost one, which is then the cause.
TEST_F(AgentHostsTest, TakesAnAgentThatIsLostBetweenTwoRunsForTheCauseOfTheLaunchersSignal) {
  add("a", {0});
  add("b", {0});
  const auto hosts = connected();
  agents[0].answers = {AgentTold{SIGTERM}, end_of(0, SIGTERM)};
  EXPECT_TRUE(run(*hosts, job_of({{0}})).interrupted);
  agents[1].leave();
  EXPECT_THROW(hosts->prepare(job_of({{0}, {1}})), CommError);
}

TEST_F(AgentHostsTest, RefusesHostsWithDifferentFiles) {
  add("a", {0});
  add("b", {0});
  agents[1].inputs.contents["the data set"] = "2e";
  const auto hosts = connected("", 1, true);
  EXPECT_THAT(message_of([&] { hosts->share_inputs(options_of({})); }),
              HasSubstr("the data set on agent 1 is not that on agent 0: its content has hash 2e"));
  agents[1].refusal = {-1, "no such folder", 3};
  EXPECT_THAT(message_of<UnavailableError>([&] { hosts->share_inputs(options_of({})); }),
              "agent 1: no such folder");
}

// Open MPI allows each process one MPI_Init.
TEST_F(AgentHostsTest, StartsTheAgentsOfALaunchersEngineAnewForEachRun) {
  add("a", {0});
  add("a", {1});
  const auto hosts = connected("mpirun", 1, true);
  hosts->share_inputs(options_of({}));
  HostJob job = job_of({{0}, {1}});
  run(*hosts, job);
  EXPECT_EQ(agents[1].inputs_asked, 1);
  EXPECT_TRUE(agents[0].writes);
  EXPECT_FALSE(agents[1].writes);
  job.backend = "mpi";
  run(*hosts, job);
  EXPECT_EQ(agents[1].inputs_asked, 1) << "it has not been used";
  run(*hosts, job);
  EXPECT_EQ(agents[1].inputs_asked, 2);
  EXPECT_FALSE(agents[0].writes) << "a run may have written by now";
  EXPECT_EQ(agents[1].runs, 3);
}

}  // namespace
}  // namespace ddpbench::bench
