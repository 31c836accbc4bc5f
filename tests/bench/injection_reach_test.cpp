// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/injection_reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "base/error.h"
#include "bench/options/option_injection.h"
#include "kernels/nn/model/model_reader.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

nn::ModelSpec small_model() {
  return nn::parse_model(R"({"name": "small", "input": [1, 4, 4], "layers": [
    {"name": "fc1", "type": "linear", "out_features": 100},
    {"name": "fc2", "type": "linear", "out_features": 10}]})",
                         "small");
}

// 3 steps of verification, at most 20 of warm-up, 2 x 5 of training: 33 in all.
TrainingJob job_of(const std::string& strategy, int devices, const std::string& fault) {
  TrainingJob job;
  job.cell = {.strategy = strategy,
              .world_size = devices,
              .servers = strategy == "ps" ? 2 : 0,
              .bucket_cap_mb = 0.001,
              .first_bucket_mb = 0.001};
  job.per_device_batch = 8;
  job.steps_per_epoch = 5;
  job.options.epochs = 2;
  job.options.warmup_steps = 2;
  job.options.verify_steps = 3;
  job.options.injections = {parse_injection(fault, "")};
  return job;
}

std::string why(const std::string& strategy, int devices, const std::string& fault) {
  const TrainingJob job = job_of(strategy, devices, fault);
  return why_it_misses(job.options.injections[0], job, small_model());
}

// Adam's update is the same for all multiples of a gradient.
TEST(Sum, ChangesNoUpdateOfAdam) {
  TrainingJob job = job_of("ddp", 2, "sum");
  EXPECT_THAT(why_it_misses(job.options.injections[0], job, small_model()), IsEmpty());
  job.options.optimizer = "adam";
  EXPECT_THAT(why_it_misses(job.options.injections[0], job, small_model()),
              HasSubstr("adam divides gradients by their own size"));
}

struct Hit {
  std::string strategy;
  int devices;
  std::string fault;
};
void PrintTo(const Hit& hit, std::ostream* out) { *out << hit.fault << " in " << hit.strategy; }

class Hits : public testing::TestWithParam<Hit> {};
TEST_P(Hits, Something) {
  EXPECT_THAT(why(GetParam().strategy, GetParam().devices, GetParam().fault), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(
    , Hits,
    testing::Values(Hit{"ddp", 2, "kill:rank=1,step=32"}, Hit{"ddp", 2, "sum"},
                    Hit{"ddp", 2, "missing_bucket:bucket=1"}, Hit{"ddp", 2, "stale:rank=1,step=0"},
                    Hit{"ddp", 2, "slow:phase=comm_wait,percent=5"},
                    Hit{"dp", 2, "stale:rank=1,step=1"}, Hit{"dp", 2, "stale:rank=0,step=0"},
                    Hit{"dp", 2, "missing_bucket:bucket=0"},
                    Hit{"dp", 2, "slow:rank=0,phase=replicate,percent=5"},
                    Hit{"dp", 2, "slow:rank=1,phase=backward,percent=5"},
                    Hit{"dp", 2, "slow:phase=optimizer,percent=5"}, Hit{"ddp", 2, "seed:rank=1"},
                    Hit{"ps", 2, "seed:rank=0"}, Hit{"ps", 2, "throw:rank=1,step=0"},
                    Hit{"ps", 2, "missing_bucket:bucket=1"},
                    Hit{"ps", 1, "slow:phase=pull,percent=5"}, Hit{"ddp", 2, "slow:ms=20"},
                    Hit{"ps", 1, "stall:rank=0,step=4"},
                    // single is not verified, so it takes 3 steps fewer.
                    Hit{"single", 1, "stop:rank=0,step=29"}));

struct Miss {
  std::string strategy;
  int devices;
  std::string fault, reason;
};
void PrintTo(const Miss& miss, std::ostream* out) { *out << miss.fault << " in " << miss.strategy; }

class Misses : public testing::TestWithParam<Miss> {};
TEST_P(Misses, ForAReason) {
  EXPECT_THAT(why(GetParam().strategy, GetParam().devices, GetParam().fault),
              HasSubstr(GetParam().reason));
}
INSTANTIATE_TEST_SUITE_P(
    , Misses,
    testing::Values(Miss{"ddp", 2, "kill:rank=2,step=5", "its ranks are 0 to 1"},
                    Miss{"ddp", 2, "kill:rank=1,step=33", "its steps are 0 to 32 at most"},
                    Miss{"dp", 2, "kill:rank=1,step=5", "it is one process, rank 0"},
                    Miss{"dp", 2, "slow:rank=2,phase=forward,percent=5", "its devices are 0 to 1"},
                    Miss{"dp", 2, "slow:rank=1,phase=optimizer,percent=5",
                         "device 0 has the phase optimizer for all"},
                    Miss{"dp", 1, "slow:rank=1,phase=forward,percent=5", "it is one process"},
                    Miss{"single", 1, "stop:rank=0,step=30", "its steps are 0 to 29 at most"},
                    Miss{"ps", 2, "kill:rank=2,step=5", "rank 2 is a server there"},
                    Miss{"ps", 2, "kill:rank=4,step=5", "its ranks are 0 to 3"},
                    Miss{"ps", 2, "slow:phase=optimizer,percent=5", "no phase optimizer"},
                    Miss{"ddp", 2, "slow:phase=push,percent=5", "no phase push"},
                    Miss{"ddp", 1, "slow:phase=comm_wait,percent=5", "no phase comm_wait"},
                    Miss{"ddp", 1, "sum", "nothing to reduce"},
                    Miss{"single", 1, "sum", "what others are compared with"},
                    Miss{"ddp", 2, "missing_bucket:bucket=9", "its buckets are 0 to"},
                    Miss{"ps", 2, "missing_bucket:bucket=2", "its buckets are 0 to 1"},
                    Miss{"dp", 2, "missing_bucket:bucket=1", "it has one bucket, 0"},
                    Miss{"dp", 2, "stale:rank=2,step=1", "its devices are 0 to 1"},
                    Miss{"dp", 2, "stale:rank=1,step=0", "the parameters of step 0 anyway"},
                    Miss{"ddp", 2, "seed:rank=2", "its ranks are 0 to 1"},
                    Miss{"dp", 2, "seed:rank=0", "it is one process, whose weights are all"},
                    Miss{"single", 1, "seed:rank=0", "it is one process"},
                    Miss{"ps", 2, "seed:rank=2", "gets its weights from worker 0"},
                    Miss{"ddp", 1, "stall:rank=0,step=4",
                         "it is one process, which calls no other"},
                    Miss{"dp", 2, "slow:ms=20", "it is one process, which calls no other"},
                    Miss{"ps", 2, "stall:rank=2,step=4", "rank 2 is a server there"},
                    Miss{"ddp", 2, "drop-link:rank=1,step=33", "its steps are 0 to 32 at most"},
                    Miss{"ps", 2, "stale:rank=1,step=20", "its steps are 0 to 19 at most"}));

TEST(InjectionReach, OfFaultsOfCallsDependsOnTheBackend) {
  const auto why_on = [](const std::string& backend, const std::string& fault) {
    TrainingJob job = job_of("ddp", 2, fault);
    job.backend = backend;
    return why_it_misses(job.options.injections[0], job, small_model());
  };
  EXPECT_THAT(why_on("gloo", "drop-link:rank=1,step=3"), IsEmpty());
  EXPECT_THAT(why_on("mpi", "drop-link:rank=1,step=3,ms=5"), IsEmpty());
  EXPECT_THAT(why_on("shm+mpi", "drop-link:rank=1,step=3"), IsEmpty()) << "hosts meet later";
  EXPECT_THAT(why_on("shm", "drop-link:rank=1,step=3"), HasSubstr("has no link that could"));
  EXPECT_THAT(why_on("shm", "stall:rank=1,step=3"), IsEmpty());
  EXPECT_THAT(why_on("nccl", "stall:rank=1,step=3"), HasSubstr("the calls of nccl run on GPUs"));
}

TEST(InjectionReach, NamesTheRunsOfASweepThatAFaultDoesNotHit) {
  const std::string fault = "kill:rank=2,step=5";
  const auto lines = check_injections(
      {job_of("single", 1, fault), job_of("dp", 2, fault), job_of("ddp", 3, fault)}, small_model());
  EXPECT_THAT(lines,
              ElementsAre(AllOf(HasSubstr("--inject=kill:rank=2,step=5 hits nothing in "),
                                HasSubstr("single on 1 device"), HasSubstr("dp on 2 devices"),
                                testing::Not(HasSubstr("ddp")))));
}

TEST(InjectionReach, RefusesAFaultThatHitsNoRun) {
  const std::string fault = "kill:rank=2,step=5";
  EXPECT_THAT([&] { check_injections({job_of("ddp", 2, fault)}, small_model()); },
              testing::ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("--inject=kill:rank=2,step=5: it hits nothing"),
                        HasSubstr("ddp on 2 devices (its ranks are 0 to 1)"))));
  EXPECT_THAT(check_injections({job_of("ddp", 3, fault)}, small_model()), IsEmpty());
}

}  // namespace
}  // namespace ddpbench::bench
