// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers that take pushes as they come. Workers are played by the test, so that their order is
// known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/nn/graph.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/comm_module.h"
#include "parallel/server_shard.h"
#include "parallel/step_parts.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using comm::Start;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

constexpr std::size_t kCount = 16;  // parameters, all of one server
constexpr comm::CallOptions kHere{.after = nullptr, .start = Start::deferred};

StrategyConfig served(int workers, int max_staleness, int backups = 0) {
  StrategyConfig config;
  config.strategy = "ps";
  config.replicas = workers;
  config.servers = 1;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 1, .momentum = 0};
  config.max_staleness = max_staleness;
  config.backup_workers = backups;
  return config;
}

// A worker that trains nothing: it sends what the test says, when it does.
class Worker {
 public:
  Worker(comm::Communicator& world, Device& device) : world_(world), stream_(device.make_stream()) {
    const PlanSummary own{.hash = 1, .flat_bytes = kCount * sizeof(float)};
    agree_on_plan(world, device, &own);
  }

  void command(ServerCommand command) {
    command_ = static_cast<std::int64_t>(command);
    world_.send({&command_, 1, DataType::int64}, server(), kHere).synchronize();
  }
  void set_weights(float value) {
    std::vector<float> all(kCount, value);
    world_.send({all.data(), kCount}, server(), kHere).synchronize();
  }
  void send_gradient(float gradient) {
    std::vector<float> all(kCount, gradient);
    world_.send({all.data(), kCount}, server(), kHere).synchronize();
    pulled_.assign(kCount, 0);
    pull_ = world_.recv({pulled_.data(), kCount}, server(), kHere);
  }
  void push(float gradient) {
    command(ServerCommand::push);
    send_gradient(gradient);
  }
  float pull() {
    pull_.synchronize();
    return pulled_.back();
  }
  // With backup workers: a push of a step, whose answer says which step comes next.
  void push_of(std::int64_t step, float gradient) {
    command_push_of(step);
    send_gradient(gradient);
  }
  void command_push_of(std::int64_t step) {
    command(static_cast<ServerCommand>((step << kStepBit) + 1));
  }
  std::int64_t next_step() {
    world_.recv({&command_, 1, DataType::int64}, server(), kHere).synchronize();
    return command_;
  }
  // Whether the server does not answer the push meanwhile.
  bool waits() {
    try {
      pull_.synchronize(comm::deadline_after(0.1));
      return false;
    } catch (const CommTimeout&) {
      return true;
    }
  }
  float receive() {
    pulled_.assign(kCount, 0);
    world_.recv({pulled_.data(), kCount}, server(), kHere).synchronize();
    return pulled_.back();
  }
  float step(float gradient) {
    push(gradient);
    return pull();
  }

 private:
  int server() const { return world_.size() - 1; }

  comm::Communicator& world_;
  std::unique_ptr<Stream> stream_;
  std::int64_t command_ = 0;
  std::vector<float> pulled_;
  comm::Work pull_;
};

// Runs one server, and `drive` with the workers, whose weights begin with 10.
ServedPushes serve(const StrategyConfig& config,
                   const std::function<void(std::vector<Worker>&)>& drive, double timeout_s = 20) {
  const auto workers = static_cast<std::size_t>(config.replicas);
  auto worlds =
      comm::make_thread_shm(config.replicas + 1, {.timeout_s = timeout_s, .thread_cores = {}});
  ServedPushes served;
  std::exception_ptr failure;
  std::thread server([&] {
    try {
      const auto device = make_cpu_device({.cores = {}});
      const auto backend = ops::make_onednn_backend(*device);
      device->bind_calling_thread();
      StrategyContext context;
      context.devices = {device.get()};
      context.backends = {backend.get()};
      context.world = worlds.back().get();
      ServerShard shard(config, context, 0);
      served = shard.serve();
    } catch (const std::exception& error) {
      failure = std::current_exception();
      worlds.back()->abort(error.what());
    }
  });
  const auto device = make_cpu_device({.cores = {}});
  std::vector<std::unique_ptr<Worker>> made(workers);
  std::vector<std::thread> setups;
  std::vector<Worker> all;
  for (std::size_t w = 0; w < workers; ++w) {
    setups.emplace_back([&, w] { made[w] = std::make_unique<Worker>(*worlds[w], *device); });
  }
  for (auto& setup : setups) setup.join();
  for (auto& worker : made) all.push_back(std::move(*worker));
  for (Worker& worker : all) worker.command(ServerCommand::reset);
  all[0].set_weights(10);
  drive(all);
  for (Worker& worker : all) worker.command(ServerCommand::goodbye);
  server.join();
  if (failure) std::rethrow_exception(failure);
  return served;
}

// Each of two workers moves the weights by half of the rate: what their mean would.
TEST(AsynchronousServer, AppliesEachPushAsItComesAndAnswersItsWorkerAlone) {
  serve(served(2, 9), [](std::vector<Worker>& workers) {
    EXPECT_EQ(workers[0].step(2), 9);
    EXPECT_EQ(workers[0].step(2), 8);
    EXPECT_EQ(workers[1].step(4), 6);
    EXPECT_EQ(workers[0].step(0), 6);
  });
}

// As in a synchronous server, the gradients of the first worker alone are applied.
TEST(AsynchronousServer, LacksTheGradientsThatAPlantedFaultLoses) {
  StrategyConfig config = served(2, 9);
  config.faults.missing_bucket = 0;
  const ServedPushes pushes = serve(config, [](std::vector<Worker>& workers) {
    EXPECT_EQ(workers[1].step(4), 10);
    EXPECT_EQ(workers[0].step(2), 9);
  });
  EXPECT_EQ(pushes.updates, 1);
}

TEST(AsynchronousServer, CountsTheUpdatesByOthersSinceThePull) {
  const ServedPushes pushes = serve(served(3, 9), [](std::vector<Worker>& workers) {
    workers[0].step(1);  // 0
    workers[0].step(1);  // 0: its own are no others'
    workers[1].step(1);  // 2
    workers[0].step(1);  // 1
    workers[2].step(1);  // 4
    workers[2].step(1);  // 0
    workers[1].step(1);  // 3
  });
  EXPECT_EQ(pushes.updates, 7);
  EXPECT_THAT(pushes.staleness,
              ElementsAre(Pair(0, 3), Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1)));
}

// By the rules of optimizer.h, one update a step by the mean of equal gradients.
float synchronous_weight(const ops::OptimizerOptions& by, const std::vector<float>& gradients) {
  double weight = 10, m = 0, v = 0, power1 = 1, power2 = 1;
  for (const double g : gradients) {
    if (!by.is_adaptive()) {
      m = by.momentum * m + g;
      weight -= by.lr * (by.nesterov ? g + by.momentum * m : m);
      continue;
    }
    m = by.beta1 * m + (1 - by.beta1) * g;
    v = by.beta2 * v + (1 - by.beta2) * g * g;
    weight -= by.lr * (m / (1 - (power1 *= by.beta1))) / std::sqrt(v / (1 - (power2 *= by.beta2)));
  }
  return static_cast<float>(weight);
}

// What each push of three workers moves adds up to what one update by their mean would.
TEST(AsynchronousServer, MovesTheWeightsAsFarAsTheMeanWould) {
  std::vector<float> gradients(15, 1.0F);
  gradients.resize(35, -0.5F);  // what is kept of the gradients before matters
  for (const ops::OptimizerOptions& optimizer :
       {ops::OptimizerOptions{.lr = 0.01, .momentum = 0},
        ops::OptimizerOptions{.lr = 0.01, .momentum = 0.9},
        ops::OptimizerOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true},
        ops::OptimizerOptions{.kind = ops::OptimizerKind::adam, .lr = 0.01}}) {
    StrategyConfig config = served(3, 9);
    config.optimizer = optimizer;
    serve(config, [&](std::vector<Worker>& workers) {
      float weight = 0;
      for (const float gradient : gradients) {
        for (Worker& worker : workers) weight = worker.step(gradient);
      }
      const float exact = 10 - synchronous_weight(optimizer, gradients);
      EXPECT_NEAR((10 - weight) / exact, 1, 0.05) << ops::to_string(optimizer.kind) << exact;
    });
  }
}

TEST(AsynchronousServer, LetsNoWorkerGetFurtherAheadThanTheBound) {
  serve(served(3, 2), [](std::vector<Worker>& workers) {
    workers[0].step(1);
    workers[0].step(1);
    workers[0].push(1);  // 3 steps, and the slowest has none
    EXPECT_TRUE(workers[0].waits());
    workers[1].step(1);
    EXPECT_TRUE(workers[0].waits());
    workers[2].step(3);
    EXPECT_FLOAT_EQ(workers[0].pull(), 10 - 4.0F / 3 - 1);  // all pushes so far
    workers[0].push(1);
    EXPECT_TRUE(workers[0].waits());
    workers[1].step(1);
    workers[2].step(1);
    workers[0].pull();
  });
}

TEST(AsynchronousServer, AnswersOthersWhileAWorkersGradientIsUnderWay) {
  serve(served(2, 9), [](std::vector<Worker>& workers) {
    workers[0].command(ServerCommand::push);
    EXPECT_EQ(workers[1].step(2), 9);
    EXPECT_EQ(workers[1].step(2), 8);
    workers[0].send_gradient(4);
    EXPECT_EQ(workers[0].pull(), 6);
  });
}

TEST(BackupWorkers, AreNotWaitedForWhileTheirGradientsAreUnderWay) {
  const ServedPushes pushes = serve(served(2, 0, 1), [](std::vector<Worker>& workers) {
    workers[0].command_push_of(0);
    workers[1].push_of(0, 2);
    EXPECT_EQ(workers[1].pull(), 8);
    EXPECT_EQ(workers[1].next_step(), 1);
    workers[0].send_gradient(5);
    EXPECT_EQ(workers[0].pull(), 8);
    EXPECT_EQ(workers[0].next_step(), 1);
  });
  EXPECT_EQ(pushes.updates, 1);
  EXPECT_EQ(pushes.dropped, 1);
}

TEST(AsynchronousServer, WaitsForAllWorkersBeforeItSendsTheWeights) {
  serve(served(2, 5), [](std::vector<Worker>& workers) {
    workers[0].step(2);
    workers[0].command(ServerCommand::weights);
    workers[1].step(2);
    workers[1].step(2);
    workers[1].command(ServerCommand::weights);
    for (Worker& worker : workers) EXPECT_EQ(worker.receive(), 7);
  });
}

// Others notice who stands still.
TEST(Server, WaitsForWorkersThatEvaluateForLongerThanItsDeadline) {
  serve(
      served(1, 0),
      [](std::vector<Worker>& workers) {
        EXPECT_EQ(workers[0].step(2), 8);
        std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        EXPECT_EQ(workers[0].step(2), 6);
      },
      /*timeout_s=*/1);
}

TEST(BackupWorkers, AreThoseWhosePushesComeLast) {
  const ServedPushes pushes = serve(served(3, 0, 1), [](std::vector<Worker>& workers) {
    workers[2].push_of(0, 2);
    EXPECT_TRUE(workers[2].waits());
    workers[0].push_of(0, 4);  // two of three: their mean is 3
    for (const std::size_t w : {2U, 0U}) {
      EXPECT_EQ(workers[w].pull(), 7);
      EXPECT_EQ(workers[w].next_step(), 1);
    }
    workers[0].push_of(1, 1);
    workers[2].push_of(1, 1);
    for (const std::size_t w : {0U, 2U}) {
      EXPECT_EQ(workers[w].pull(), 6);
      EXPECT_EQ(workers[w].next_step(), 2);
    }
    workers[1].push_of(0, 100);  // dropped; it goes on where the others are
    EXPECT_EQ(workers[1].pull(), 6);
    EXPECT_EQ(workers[1].next_step(), 2);
    workers[1].push_of(2, 3);
    workers[0].push_of(2, 5);
    EXPECT_EQ(workers[1].pull(), 2);
    workers[1].next_step();
    workers[0].pull();
    workers[0].next_step();
  });
  EXPECT_EQ(pushes.updates, 3);
  EXPECT_EQ(pushes.dropped, 1);
}

StrategyConfig training(int max_staleness) {
  StrategyConfig config = served(3, max_staleness);
  config.servers = 2;
  config.optimizer.lr = 0.05;
  return config;
}

bool are_equal(const std::vector<nn::NamedTensor>& a, const std::vector<nn::NamedTensor>& b) {
  for (std::size_t t = 0; t < a.size(); ++t) {
    if (a[t].values != b[t].values) return false;
  }
  return a.size() == b.size();
}

TEST(AsynchronousTraining, EndsWithOneSetOfWeightsThatIsNearTheSynchronousOne) {
  const nn::ModelSpec model = test::small_model();
  const test::HarnessOptions options{.steps = 5, .reset_in_between = true};
  const auto exact = test::run_strategy(model, training(0), options);
  const auto result = test::run_strategy(model, training(3), options);
  EXPECT_TRUE(are_equal(result.weights[0], result.weights[1]));
  EXPECT_TRUE(are_equal(result.weights[0], result.weights[2]));
  const auto start = test::starting_weights(model, options.seed);
  const double error = test::relative_error(start, result.weights[0], exact.weights[0]);
  EXPECT_LT(error, 0.7);
  EXPECT_GT(error, 0);
}

// All gradients of a worker that is late may be dropped; its replica ends with the others' weights.
TEST(BackupWorkers, EndWithTheWeightsOfAll) {
  StrategyConfig config = training(0);
  config.backup_workers = 1;
  const auto result =
      test::run_strategy(test::small_model(), config, {.steps = 12, .reset_in_between = true});
  EXPECT_TRUE(are_equal(result.weights[0], result.weights[1]));
  EXPECT_TRUE(are_equal(result.weights[0], result.weights[2]));
  EXPECT_EQ(outcome_of(config), Outcome::approximate);
  const auto plan = [&] { plan_strategy(config); };
  config.sync_batch_norm = true;
  EXPECT_THAT(plan, ThrowsMessage<ConfigError>(HasSubstr("--backup-workers --sync-batch-norm")));
  config.sync_batch_norm = false;
  EXPECT_NO_THROW(plan_strategy(config));
  config.backup_workers = 3;
  EXPECT_THAT(plan, ThrowsMessage<ConfigError>(HasSubstr("--gpus=3 --backup-workers=3")));
}

TEST(AsynchronousTraining, IsApproximateUnlessItsBoundIsZero) {
  EXPECT_EQ(outcome_of(training(0)), Outcome::exact);
  EXPECT_EQ(outcome_of(training(1)), Outcome::approximate);
}

TEST(AsynchronousTraining, UpdatesOnServersAlone) {
  StrategyConfig config = training(1);
  config.ps_update = PsUpdate::worker;
  EXPECT_THROW(plan_strategy(config), ConfigError);
  config.max_staleness = 0;
  EXPECT_NO_THROW(plan_strategy(config));
  config.backup_workers = 1;
  EXPECT_THROW(plan_strategy(config), ConfigError);
}

}  // namespace
}  // namespace ddpbench
