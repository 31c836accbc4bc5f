// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/comm/collective_case.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename F>
std::string config_error_of(F&& function) {
  try {
    function();
    return "no error";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// The host has 1 GiB of memory, and so has each GPU.
HostDevices host_with(int cores, int gpus = 0) {
  HostDevices host;
  for (int i = 0; i < cores; ++i) host.cpu.cores.push_back(i);
  host.cpu.memory_bytes = std::size_t{1} << 30;
  for (int i = 0; i < gpus; ++i) {
    host.cuda.devices.push_back({.ordinal = i, .name = "Imaginary GPU"});
    host.cuda.devices.back().memory_bytes = std::size_t{1} << 30;
  }
  if (gpus == 0) host.cuda.reason = "there is no NVIDIA driver";
  return host;
}

Options resolve(Options words, const HostDevices& host) {
  resolve_comm(words, host);
  return words;
}
Options resolve(const Options& words, int cores) { return resolve(words, host_with(cores)); }

TEST(Sizes, AreNumbersWithOrWithoutUnits) {
  EXPECT_THAT(parse_sizes("1,4K,2m,1G"), ElementsAre(1, 4096, 2 << 20, 1 << 30));
}

TEST(Sizes, OfARangeDoubleOrTakeTheGivenFactor) {
  EXPECT_THAT(parse_sizes("1K..8K"), ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_THAT(parse_sizes("1K..20K*4"), ElementsAre(1024, 4096, 16384));
  EXPECT_THAT(parse_sizes("3..3"), ElementsAre(3));
  EXPECT_THAT(parse_sizes("1K..2K,5"), ElementsAre(1024, 2048, 5));
}

TEST(Sizes, AreMeasuredOnceHoweverOftenTheyAreNamed) {
  EXPECT_THAT(parse_sizes("4096,4096,1K..8K,4K"), ElementsAre(4096, 1024, 2048, 8192));
}

TEST(Sizes, OfARangeEndBelowTheLargestNumber) {
  const auto sizes = parse_sizes("1..1024G*1099511627776");
  EXPECT_THAT(sizes, ElementsAre(1, std::uint64_t{1} << 40));
}

class BadSizes : public testing::TestWithParam<const char*> {};

TEST_P(BadSizes, AreRefusedWithOptionValueAndExample) {
  EXPECT_THAT(config_error_of([] { parse_sizes(GetParam()); }),
              AllOf(HasSubstr(std::string("--sizes=") + GetParam()), HasSubstr("4K..128M")));
}

INSTANTIATE_TEST_SUITE_P(, BadSizes,
                         testing::Values("", "4X", "K", "-4K", "4.5K", "0", "4K..", "..4K",
                                         "8K..4K", "4K..8K*1", "4K..8K*", "4K..8K*x", "4K,",
                                         "4K..8K..16K", "99999999999999999999", "2000G",
                                         "17179869184G"));

TEST(CommOptions, HaveDefaultsThatWork) {
  const CommJob job = make_comm_job(resolve({}, 2), 2, host_with(2));
  EXPECT_EQ(job.rows.front().operation, "all_reduce");
  EXPECT_EQ(job.bytes(job.rows.front()), 4096u);
  EXPECT_EQ(job.bytes(job.rows.back()), std::size_t{128} << 20);
  EXPECT_THAT(resolve({}, 2).ranks, ElementsAre("2"));
}

TEST(CommOptions, TakeAllOperationsAndAllCores) {
  Options words;
  words.operations = find_flag("op")->rule.choices;
  words.ranks = {"2", "all"};
  const Options options = resolve(words, 6);
  EXPECT_EQ(options.operations.size(), 9u);
  EXPECT_THAT(options.ranks, ElementsAre("2", "6"));
}

TEST(CommOptions, OfTheTableAreAllCollectives) {
  const OptionDefinition& op = *find_flag("op");
  std::vector<std::string> names;
  for (const CollectiveCase& collective : collective_cases()) names.emplace_back(collective.name);
  EXPECT_EQ(op.rule.choices, names);
  EXPECT_EQ(parse({"comm", "--op=all"}).options.operations, names);
}

TEST(CommOptions, NameTheNearestKnownWord) {
  EXPECT_THAT(refusal({"comm", "--op=all_reduse"}),
              AllOf(HasSubstr("--op: expected one of"), HasSubstr("Did you mean 'all_reduce'")));
  EXPECT_THAT(refusal({"comm", "--type=fp33"}), HasSubstr("--type: expected one of"));
  EXPECT_THAT(refusal({"comm", "--redop=averages"}), HasSubstr("--redop"));
  EXPECT_THAT(refusal({"comm", "--mode=threads"}), HasSubstr("'thread'"));
  EXPECT_THAT(refusal({"comm", "--device=gpu"}), HasSubstr("--device: expected one of"));
  EXPECT_THAT(refusal({"comm", "--all-reduce=auto,ring"}), HasSubstr("--all-reduce=auto"));
  EXPECT_THAT(refusal({"comm", "--strategy=ddp"}),
              HasSubstr("--strategy does not apply to `ddpbench comm`"));
  EXPECT_THAT(refusal({"--op=reduce"}), HasSubstr("but to `ddpbench comm`"));
}

TEST(CommOptions, CallRanksAlsoGpus) {
  EXPECT_THAT(parse({"comm", "--gpus=2,all"}).options.ranks, ElementsAre("2", "all"));
  EXPECT_THAT(parse({"comm"}, {{{"DDPBENCH_GPUS", "4"}}}).options.ranks, ElementsAre("4"));
  EXPECT_THAT(parse({"--gpus=2"}).options.gpus, ElementsAre(2));
  EXPECT_THAT(refusal({"comm"}, {{{"DDPBENCH_RANKS", "2"}, {"DDPBENCH_GPUS", "4"}}}),
              HasSubstr("DDPBENCH_RANKS and DDPBENCH_GPUS set the same option"));
}

TEST(CommOptions, RefuseNumbersThatMeasureNothing) {
  for (const char* ranks : {"1", "0", "-2", "two", ""}) {
    Options words;
    words.ranks = {ranks};
    EXPECT_THAT(config_error_of([&] { resolve(words, 2); }), HasSubstr("--ranks"));
  }
  EXPECT_THAT(refusal({"comm", "--iterations=0"}), HasSubstr("--iterations"));
  EXPECT_THAT(refusal({"comm", "--warmup=-1"}), HasSubstr("--warmup"));
}

TEST(CommOptions, RefuseATimeoutThatIsNoTime) {
  for (const char* seconds : {"-1", "inf", "nan"}) {
    EXPECT_THAT(refusal({"comm", std::string("--timeout=") + seconds}), HasSubstr("--timeout"));
  }
}

TEST(CommOptions, RefuseABackendThatIsNotHere) {
  Options words;
  words.backend = "nccl";
  EXPECT_THROW(resolve(words, 2), UnavailableError);
}

TEST(CommOptions, RefuseSumsThatTheTypeCannotHold) {
  Options words;
  words.sizes = "4K";
  words.type = "uint8";
  const HostDevices host = host_with(2);
  EXPECT_THAT(config_error_of([&] { make_comm_job(resolve(words, 2), 300, host); }),
              HasSubstr("uint8"));
  words.operations = {"broadcast"};
  EXPECT_EQ(make_comm_job(resolve(words, 2), 300, host).ranks, 300);
}

HostDevices two_cores() { return host_with(2); }

TEST(CommJob, RoundsSizesDownToEqualParts) {
  Options words;
  words.operations = {"all_reduce", "all_gather"};
  words.sizes = "1003";
  const CommJob job = make_comm_job(resolve(words, 2), 2, two_cores());
  ASSERT_EQ(job.rows.size(), 2u);
  EXPECT_EQ(job.rows[0].count, 250u);
  EXPECT_EQ(job.rows[1].count, 250u);
  const CommJob odd = make_comm_job(resolve(words, 2), 3, two_cores());
  EXPECT_EQ(odd.rows[0].count, 250u);
  EXPECT_EQ(odd.rows[1].count, 249u);
}

TEST(CommJob, HasOneRowForABarrier) {
  Options words;
  words.operations = {"barrier"};
  EXPECT_EQ(make_comm_job(resolve(words, 2), 2, two_cores()).rows.size(), 1u);
}

TEST(CommJob, RefusesSizesWithoutAnElementAndBeyondTheMemory) {
  Options words;
  words.operations = {"all_gather"};
  words.sizes = "4";
  EXPECT_THAT(config_error_of([&] { make_comm_job(resolve(words, 2), 2, two_cores()); }),
              HasSubstr("4 bytes"));
  words.sizes = "1G";
  EXPECT_THAT(config_error_of([&] { make_comm_job(resolve(words, 2), 2, two_cores()); }),
              HasSubstr("memory"));
}

TEST(CommJob, MarksMoreRanksThanCoresAndMeasuresNoBound) {
  const CommJob job = make_comm_job(resolve({}, 2), 3, two_cores());
  EXPECT_TRUE(job.devices.oversubscribed);
  EXPECT_TRUE(job.working_sets.empty());
}

template <typename F>
std::string unavailable(F&& function) {
  try {
    function();
    return "no error";
  } catch (const UnavailableError& error) {
    return error.what();
  }
}

Options words_for(const char* device, const char* backend = "auto") {
  Options words;
  words.device = device;
  words.backend = backend;
  words.sizes = "1M";
  return words;
}

TEST(CommJob, HasAWorldForEachAlgorithmWithAllReducesOnly) {
  const HostDevices host = host_with(2, 0);
  Options words = words_for("cpu");
  words.operations = {"all_reduce", "broadcast"};
  words.sizes = "4K";
  words.all_reduces = {"ring", "direct"};
  const std::vector<CommJob> worlds = make_comm_jobs(resolve(words, host), host);
  ASSERT_EQ(worlds.size(), 2u);
  EXPECT_EQ(worlds[0].all_reduce, "ring");
  EXPECT_EQ(worlds[0].rows.size(), 2u);
  EXPECT_EQ(worlds[1].all_reduce, "direct");
  EXPECT_EQ(worlds[1].rows.size(), 1u);
  words.all_reduces = {"auto"};
  EXPECT_EQ(make_comm_jobs(resolve(words, host), host).at(0).all_reduce, "direct");
}

TEST(CommDevices, AreGpusWhereThereAreAnyAndAutoSaysSo) {
  Options words = words_for("auto");
  EXPECT_THAT(resolve_comm(words, host_with(2, 2)), HasSubstr("2 GPUs"));
  EXPECT_EQ(words.device, "cuda");
  words = words_for("auto");
  EXPECT_THAT(resolve_comm(words, host_with(2)), HasSubstr("there is no NVIDIA driver"));
  EXPECT_EQ(words.device, "cpu");
  EXPECT_EQ(resolve_comm(words, host_with(2, 2)), "");
}

TEST(CommDevices, AreNeverOthersThanThoseAskedFor) {
  EXPECT_THAT(unavailable([] { resolve(words_for("cuda"), host_with(2)); }),
              HasSubstr("--device=cuda: there is no NVIDIA driver"));
  EXPECT_THAT(unavailable([] { resolve(words_for("cpu", "nccl"), host_with(2, 2)); }),
              HasSubstr("--backend=nccl"));
}

TEST(CommDevices, AllRanksAreOneAGpu) {
  Options words = words_for("cuda");
  words.ranks = {"all"};
  EXPECT_THAT(resolve(words, host_with(8, 3)).ranks, ElementsAre("3"));
}

TEST(CommDevices, OfAllRanksAreMoreThanOne) {
  Options words = words_for("cuda");
  words.ranks = {"all"};
  words.oversubscribe = true;  // "all" stays one per GPU
  EXPECT_THAT(config_error_of([&] { resolve(words, host_with(8, 1)); }),
              HasSubstr("--ranks=all: 1 ranks; a collective has 2"));
}

TEST(CommJob, AdvisesFewerRanksWhereThatCanBeOnly) {
  const HostDevices host = host_with(4, 2);
  Options words = words_for("cuda");
  EXPECT_THAT(unavailable([&] { make_comm_job(resolve(words, host), 3, host); }),
              AllOf(HasSubstr("--ranks=3: there are 2 GPUs here; use fewer"),
                    HasSubstr("share them"), testing::Not(HasSubstr("launcher"))));
}

TEST(CommJob, GivesEveryRankAGpuAndTakesNccl) {
  const HostDevices host = host_with(2, 2);
  const CommJob job = make_comm_job(resolve(words_for("cuda"), host), 2, host);
  EXPECT_THAT(job.devices.gpus, ElementsAre(0, 1));
  EXPECT_EQ(job.devices.backend, "nccl");
  EXPECT_FALSE(job.devices.oversubscribed);
  EXPECT_TRUE(job.working_sets.empty());  // links bound them
}

TEST(CommJob, SharesGpusOnlyWhenAskedToAndMarksIt) {
  const HostDevices host = host_with(4, 1);
  Options words = words_for("cuda");
  EXPECT_THAT(unavailable([&] { make_comm_job(resolve(words, host), 2, host); }),
              testing::StrEq("--ranks=2: there is 1 GPU here; --oversubscribe lets ranks share it, "
                             "--device=cpu measures the cores"));
  words.oversubscribe = true;
  const CommJob job = make_comm_job(resolve(words, host), 2, host);
  EXPECT_THAT(job.devices.gpus, ElementsAre(0, 0));
  EXPECT_EQ(job.devices.backend, "shm");
  EXPECT_TRUE(job.devices.oversubscribed);
  EXPECT_TRUE(job.working_sets.empty());  // the host is between them
}

TEST(CommJob, CountsTheRanksThatShareAGpu) {
  const HostDevices host = host_with(4, 1);
  Options words = words_for("cuda");
  words.oversubscribe = true;
  words.ranks = {"4"};
  const CommJob job = make_comm_job(resolve(words, host), 4, host);
  EXPECT_EQ(job.sharers(3), 4);
  const HostDevices two = host_with(4, 2);
  EXPECT_EQ(make_comm_job(resolve(words, two), 4, two).sharers(3), 2);
  words.device = "cpu";
  EXPECT_EQ(make_comm_job(resolve(words, host), 4, host).sharers(3), 1);
}

TEST(CommJob, RefusesNcclBetweenThreadsThatShareAGpu) {
  const HostDevices host = host_with(4, 1);
  Options words = words_for("cuda", "nccl");
  words.oversubscribe = true;
  EXPECT_EQ(make_comm_job(resolve(words, host), 2, host).devices.backend, "nccl");
  words.mode = "thread";
  EXPECT_THAT(unavailable([&] { make_comm_job(resolve(words, host), 2, host); }),
              HasSubstr("--mode=thread --backend=nccl"));
}

TEST(CommJob, RefusesSizesBeyondTheMemoryOfAGpu) {
  const HostDevices host = host_with(4, 1);
  Options words = words_for("cuda");
  words.oversubscribe = true;
  words.sizes = "300M";
  EXPECT_THAT(config_error_of([&] { make_comm_job(resolve(words, host), 2, host); }),
              HasSubstr("memory of GPU 0"));
}

TEST(CommJob, ReachesTheRanksAsItWas) {
  const HostDevices host = host_with(4, 1);
  Options words = words_for("cuda");
  words.oversubscribe = true;
  const CommJob job = make_comm_job(resolve(words, host), 2, host);
  const CommJob read = comm_job_from_json(to_json(job));
  EXPECT_EQ(to_json(read), to_json(job));
  EXPECT_EQ(read.devices.gpus, job.devices.gpus);
  EXPECT_EQ(read.devices.device, "cuda");
}

}  // namespace
}  // namespace ddpbench::bench
