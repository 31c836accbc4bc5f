// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A strategy that only this test has: a row, and an exchange of gradients.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "parallel/gradient_exchange.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

// Averages each bucket on a rank of its own, which sends the result to all.
class ReduceAndBroadcast final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void finish(bool) override {
    wait_for_started(Phase::comm_wait);
    Stream& stream = replica_->stream();
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      world()
          .broadcast(gradients_of(b), root_of(b),
                     {.after = &stream, .start = comm::Start::deferred})
          .wait(stream);
    }
  }

 private:
  void open(const std::vector<Bucket>&) override {
    registered_.add(world(), replica_->graph().gradients());
  }

  comm::Work start(std::size_t b, const comm::CallOptions& options) override {
    return world().reduce(gradients_of(b), comm::ReduceOp::average, root_of(b), options);
  }

  int root_of(std::size_t b) const {
    return static_cast<int>(b % static_cast<std::size_t>(world().size()));
  }
  comm::Elements gradients_of(std::size_t b) const {
    const Bucket& bucket = buckets()[b];
    return flat_elements(
        replica_->graph().gradients().view().slice(bucket.offset_bytes, bucket.bytes));
  }

  Registrations registered_;
};

TEST(OwnStrategy, IsARowAndAnExchange) {
  const StrategyTraits row = {
      .name = "reduce and broadcast",
      .plan = plan_rank_per_replica,
      .exchange = [](const StrategyConfig& config,
                     const StrategyContext& context) -> std::unique_ptr<GradientExchange> {
        return std::make_unique<ReduceAndBroadcast>(config, context);
      }};
  StrategyConfig reference;
  reference.strategy = "reference";
  reference.replicas = 3;
  reference.per_device_batch = 8;
  reference.optimizer = {.lr = 0.05, .momentum = 0.9};
  StrategyConfig own = reference;
  own.strategy = row.name;
  own.first_bucket_bytes = own.bucket_cap_bytes = 256;
  const nn::ModelSpec model = test::small_model();
  const auto start = test::starting_weights(model, 7);
  const auto expected = test::run_strategy(model, reference).weights[0];
  const auto result = test::run_strategy(model, own, {.row = &row});
  ASSERT_EQ(result.weights.size(), 3u);
  for (const auto& weights : result.weights) {
    EXPECT_LT(test::relative_error(start, weights, expected), 1e-4);
    EXPECT_EQ(test::relative_error(start, weights, result.weights[0]), 0);
  }
}

}  // namespace
}  // namespace ddpbench
