// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/reference_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "bench/host/host_limits.h"
#include "bench/rank/state_sizes.h"

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

using Tensors = std::vector<nn::NamedTensor>;

constexpr double kTolerance = 1e-3;
const Tensors kBefore{{"a", {2}, {1, 1}}, {"b", {1}, {5}}};
const Tensors kAfter{{"a", {2}, {4, 5}}, {"b", {1}, {7}}};  // changes: (3, 4) and 2
const Tensors kLast{{"a", {2}, {4, 4}}, {"b", {1}, {8}}};   // changes: (0, -1) and 1

ReferenceWeights stored() {
  auto weights = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 2});
  weights.store_start(kBefore);
  weights.store_step(kAfter, std::vector<double>{5, 2});
  weights.store_step(kLast, std::vector<double>{1, 1});
  weights.finish();
  return weights;
}

VerificationResult compare(const Tensors& after, std::int64_t step = 1) {
  VerificationResult result;
  stored().compare(step, after, kTolerance, result);
  return result;
}

TEST(ReferenceWeights, FindsNoErrorInEqualWeights) {
  const auto result = compare(kAfter);
  EXPECT_EQ(result.max_relative_error, 0);
  EXPECT_TRUE(result.is_within_tolerance());
  EXPECT_EQ(result.steps, 1);
}

TEST(ReferenceWeights, MeasuresTheErrorRelativeToTheUpdate) {
  Tensors after = kAfter;
  after[0].values[1] += 0.5f;  // 0.5 of an update of size 5
  const auto result = compare(after);
  EXPECT_NEAR(result.max_relative_error, 0.1, 1e-6);
  EXPECT_NEAR(result.tolerance, kTolerance, 1e-5);  // spacings are far smaller
  EXPECT_EQ(result.worst_tensor, "a");
  EXPECT_FALSE(result.is_within_tolerance());
}

// Sizes of 4000 and 500 allow differences of 4 and 0.5: most of a's update of 5, a quarter of b's.
TEST(ReferenceWeights, CountsParametersThatMayDifferByHalfOfTheirUpdate) {
  EXPECT_EQ(compare(kAfter).vague_share, 0);
  auto reference = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 2});
  reference.store_start(kBefore);
  reference.store_step(kAfter, std::vector<double>{4000, 500});
  reference.store_step(kLast, std::vector<double>{1, 5000});
  reference.finish();
  VerificationResult result;
  reference.compare(1, kAfter, kTolerance, result);
  EXPECT_DOUBLE_EQ(result.vague_share, 2.0 / 3);
  reference.compare(2, kLast, kTolerance, result);  // b, which is a third of them
  EXPECT_DOUBLE_EQ(result.vague_share, 1.0 / 3);
}

TEST(ReferenceWeights, TakesTheWorstTensor) {
  Tensors after = kAfter;
  after[0].values[1] += 0.5f;
  after[1].values[0] += 1;  // half of its update of 2
  const auto result = compare(after);
  EXPECT_NEAR(result.max_relative_error, 0.5, 1e-6);
  EXPECT_EQ(result.worst_tensor, "b");
}

// The sizes of the updates of the two tensors are 5 and 2, so b is compared with a coarser grid.
TEST(ReferenceWeights, TakesTheSharpestComparisonWhereNothingDiffers) {
  const auto result = compare(kAfter);
  EXPECT_EQ(result.worst_tensor, "a");
  auto other = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 1});
  other.store_start(kBefore);
  other.store_step(kAfter, std::vector<double>{1e-6, 2});
  other.finish();
  VerificationResult coarse;
  other.compare(1, kAfter, kTolerance, coarse);
  EXPECT_EQ(coarse.worst_tensor, "b");
}

TEST(ReferenceWeights, TakesTheWorstStep) {
  Tensors after = kAfter;
  after[1].values[0] += 1;
  VerificationResult result;
  const ReferenceWeights reference = stored();
  reference.compare(1, after, kTolerance, result);
  reference.compare(2, kLast, kTolerance, result);
  EXPECT_EQ(result.worst_step, 1);
  EXPECT_EQ(result.worst_tensor, "b");
  EXPECT_EQ(result.steps, 2);
}

// An update of 1e-9 of a weight of 5 is rounded away or to the whole spacing of 4.8e-7.
TEST(ReferenceWeights, AllowsTheRoundingOfStoredWeights) {
  auto reference = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 1});
  reference.store_start(kBefore);
  reference.store_step(kBefore, std::vector<double>{1e-9, 1e-9});
  reference.finish();
  Tensors after = kBefore;
  after[1].values[0] = std::nextafter(5.0f, 6.0f);
  VerificationResult result;
  reference.compare(1, after, kTolerance, result);
  EXPECT_TRUE(result.is_within_tolerance()) << result.max_relative_error;
  after[1].values[0] = 5 + 8 * (after[1].values[0] - 5);
  reference.compare(1, after, kTolerance, result);
  EXPECT_FALSE(result.is_within_tolerance());
}

TEST(ReferenceWeights, CallsNotANumberInfinitelyWrong) {
  for (const float wrong : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensors after = kAfter;
    after[1].values[0] = wrong;
    const auto result = compare(after);
    EXPECT_TRUE(std::isinf(result.max_relative_error));
    EXPECT_FALSE(result.is_within_tolerance());
  }
}

TEST(ReferenceWeights, CallsAChangeWithoutAnUpdateInfinitelyWrong) {
  auto reference = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 1});
  reference.store_start(kBefore);
  reference.store_step(kBefore, std::vector<double>{0, 0});
  reference.finish();
  VerificationResult result;
  reference.compare(1, kBefore, kTolerance, result);
  EXPECT_TRUE(result.is_within_tolerance());
  reference.compare(1, kAfter, kTolerance, result);
  EXPECT_TRUE(std::isinf(result.max_relative_error));
}

TEST(ReferenceWeights, RefusesOtherStartingWeights) {
  EXPECT_NO_THROW(stored().check_start(kBefore, {}));
  Tensors before = kBefore;
  before[1].values[0] += 1;
  EXPECT_THROW(stored().check_start(before, {}), VerificationError);
}

// Two slices, whose statistics begin at 3 and move to 3.5 and 5. Their layer also counts.
Tensors state_of(float mean, std::int64_t count) {
  return {{"n.mean", {1}, {mean}}, {"n.count", {}, {}, DataType::int64, {count}}};
}

ReferenceWeights with_state() {
  auto reference = ReferenceWeights::create({.parameters = 3,
                                             .tensors = 2,
                                             .steps = 1,
                                             .slices = 2,
                                             .state_values = 2,
                                             .state_tensors = 2});
  reference.store_start(kBefore);
  reference.store_start_state(state_of(3, 7));
  reference.store_slice_state(1, 0, state_of(3.5f, 8), std::vector<double>{0.5, 0});
  reference.store_slice_state(1, 1, state_of(5, 8), std::vector<double>{2, 0});
  reference.store_step(kAfter, std::vector<double>{5, 2});
  reference.finish();
  return reference;
}

VerificationResult compare_state(std::int64_t slice, const Tensors& state) {
  VerificationResult result;
  const ReferenceWeights reference = with_state();
  reference.compare(1, kAfter, kTolerance, result);
  reference.compare_state(1, slice, state, kTolerance, result);
  return result;
}

TEST(ReferenceWeights, ComparesTheStateOfEachReplicaWithThatOfItsSlice) {
  EXPECT_TRUE(compare_state(0, state_of(3.5f, 8)).is_within_tolerance());
  EXPECT_TRUE(compare_state(1, state_of(5, 8)).is_within_tolerance());
  const VerificationResult other = compare_state(1, state_of(3.5f, 8));
  EXPECT_FALSE(other.is_within_tolerance());
  EXPECT_NEAR(other.max_relative_error, 0.75, 1e-6);
  EXPECT_EQ(other.worst_tensor, "n.mean");
}

TEST(ReferenceWeights, CallsAWrongCountInfinitelyWrong) {
  const VerificationResult result = compare_state(0, state_of(3.5f, 9));
  EXPECT_TRUE(std::isinf(result.max_relative_error));
  EXPECT_EQ(result.worst_tensor, "n.count");
}

TEST(ReferenceWeights, GivesTheStateThatTheNextStepBeginsWith) {
  const ReferenceWeights reference = with_state();
  EXPECT_THAT(reference.state(0), testing::ElementsAre(3, 7));
  EXPECT_THAT(reference.state(1), testing::ElementsAre(3.5, 8));
  EXPECT_THAT(reference.weights(1), testing::ElementsAre(4, 5, 7));
  EXPECT_NO_THROW(reference.check_start(kBefore, state_of(3, 7)));
  EXPECT_THROW(reference.check_start(kBefore, state_of(3, 8)), VerificationError);
}

// A mean of 2 and a variance of 9, with momentum 1/4: (2 + 3) / 4, and 3 (2 + 3) / 4.
TEST(StateSizes, AreOfWhatTheStatisticsAreMadeOf) {
  nn::ModelSpec model;
  model.input_shape = {1, 4, 4};
  model.layers = {{.name = "n", .type = nn::LayerType::batch_norm2d, .momentum = 0.25}};
  const auto tensors = [](float mean, float variance) {
    return Tensors{{"n.running_mean", {1}, {mean}},
                   {"n.running_var", {1}, {variance}},
                   {"n.num_batches_tracked", {}, {}, DataType::int64, {0}}};
  };
  EXPECT_THAT(
      state_sizes(model, tensors(4, 1), tensors(3.5f, 3)),
      testing::ElementsAre(testing::DoubleNear(1.25, 1e-6), testing::DoubleNear(3.75, 1e-6), 0));
}

TEST(ReferenceWeights, HashesTellOneBitApartInAnyStep) {
  Tensors after = kAfter;
  after[0].values[0] = std::nextafter(after[0].values[0], 10.0f);
  const ReferenceWeights reference = stored();
  VerificationResult equal, other;
  reference.compare(1, kAfter, kTolerance, equal);
  reference.compare(1, after, kTolerance, other);
  EXPECT_NE(equal.weights_hash, other.weights_hash);
  reference.compare(2, kLast, kTolerance, equal);
  reference.compare(2, kLast, kTolerance, other);
  EXPECT_NE(equal.weights_hash, other.weights_hash);
}

TEST(ReferenceWeights, GivesTheWeightsOfEachStep) {
  const ReferenceWeights reference = stored();
  EXPECT_EQ(reference.steps(), 2);
  EXPECT_THAT(reference.weights(0), testing::ElementsAre(1, 1, 5));
  EXPECT_THAT(reference.weights(2), testing::ElementsAre(4, 4, 8));
}

TEST(ReferenceWeights, TellsWhyItEndedEarly) {
  auto reference = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 2});
  reference.store_start(kBefore);
  reference.store_step(kAfter, std::vector<double>{5, 2});
  reference.finish("training diverged in step 2");
  EXPECT_EQ(reference.steps(), 1);
  EXPECT_EQ(reference.diverged(), "training diverged in step 2");
  EXPECT_EQ(stored().diverged(), "");
}

TEST(ReferenceWeights, IsNotUsedBeforeItIsComplete) {
  const auto weights = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 1});
  EXPECT_FALSE(weights.complete());
  EXPECT_THROW(static_cast<void>(weights.steps()), InternalError);
}

TEST(ReferenceWeights, RefusesMemoryOfAnotherForm) {
  const auto other = SharedMemory::create("other", 4096);
  EXPECT_THROW(ReferenceWeights::open(other.handle()), CommError);
  const auto small = SharedMemory::create("small", 8);
  EXPECT_THROW(ReferenceWeights::open(small.handle()), CommError);
}

TEST(ReferenceWeights, RefusesMoreStepsThanMemoryHolds) {
  TrainingJob job;
  nn::ModelSpec model;
  model.input_shape = {1000, 1000, 1};
  model.layers = {{.name = "fc",
                   .type = nn::LayerType::linear,
                   .inputs = {-1},
                   .out = 100,
                   .output_shape = {100}}};
  model.output = 0;
  job.options.verify_steps = 3;
  EXPECT_EQ(ReferenceWeights::extent_of(job, model).tensors, 2);
  const double all = static_cast<double>(memory_limit(read_host_limits()).bytes);
  job.options.verify_steps = static_cast<int>(all / 400e6) + 10;
  try {
    ReferenceWeights::extent_of(job, model);
    FAIL() << "was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--verify-steps="));
    EXPECT_THAT(error.what(), HasSubstr("use at most"));
  }
}

}  // namespace
}  // namespace ddpbench::bench
