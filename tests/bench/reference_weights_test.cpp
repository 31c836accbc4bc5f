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

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

using Tensors = std::vector<nn::NamedTensor>;

constexpr double kTolerance = 1e-3;
const Tensors kBefore{{"a", {2}, {1, 1}}, {"b", {1}, {5}}};
const Tensors kAfter{{"a", {2}, {4, 5}}, {"b", {1}, {7}}};  // changes: (3, 4) and 2
const Tensors kLast{{"a", {2}, {4, 4}}, {"b", {1}, {8}}};   // changes: (0, -1) and 1

const Tensors kGradients{{"a", {2}, {3, 4}}, {"b", {1}, {2}}};

// Their differences are relative to 5 and 2, and in the second step to 1 and 1.
ReferenceWeights stored() {
  auto weights = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 2});
  weights.store_start(kBefore);
  weights.store_step(kAfter, kGradients, std::vector<double>{5, 2});
  weights.store_step(kLast, kGradients, std::vector<double>{1, 1});
  weights.finish();
  return weights;
}

std::vector<float> flat(const Tensors& tensors) {
  std::vector<float> values;
  for (const auto& tensor : tensors) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  return values;
}

VerificationResult compare_gradients(const Tensors& gradients) {
  VerificationResult result;
  stored().compare_gradients(1, gradients, kTolerance, result);
  return result;
}

// With updates of the sizes 5 and 2.
VerificationResult compare_update(const Tensors& after) {
  VerificationResult result;
  stored().compare_update(1, after, {flat(kAfter), {3, 4, 2}}, result);
  return result;
}

TEST(ReferenceWeights, AreStillThereWhenTheirPagesWereUnloaded) {
  const ReferenceWeights weights = stored();
  weights.unload();
  EXPECT_EQ(weights.steps(), 2);
  EXPECT_EQ(weights.first_difference(2, kLast), "");
}

TEST(ReferenceWeights, FindsNoErrorInWhatIsEqual) {
  for (const auto& result : {compare_gradients(kGradients), compare_update(kAfter)}) {
    EXPECT_EQ(result.max_relative_error, 0);
    EXPECT_TRUE(result.is_within_tolerance());
  }
  EXPECT_EQ(compare_update(kAfter).steps, 1);
}

TEST(ReferenceWeights, MeasuresTheErrorRelativeToTheTerms) {
  Tensors gradients = kGradients, after = kAfter;
  gradients[0].values[1] += 0.5F;  // 0.5 of a size of 5
  after[0].values[1] += 0.5F;
  const auto found = compare_gradients(gradients), updated = compare_update(after);
  EXPECT_EQ(found.tolerance, kTolerance);
  EXPECT_NEAR(updated.tolerance, ReferenceWeights::kUpdateTolerance, 1e-5);  // spacings are small
  for (const auto& result : {found, updated}) {
    EXPECT_NEAR(result.max_relative_error, 0.1, 1e-6);
    EXPECT_EQ(result.worst_tensor, "a");
    EXPECT_FALSE(result.is_within_tolerance());
  }
}

// Most of a's update of 5 may be rounding, a quarter of b's; and in the second step all of b's.
TEST(ReferenceWeights, CountsParametersThatMayDifferByHalfOfTheirUpdate) {
  constexpr auto kOne = static_cast<float>(1 / ReferenceWeights::kUpdateTolerance);
  EXPECT_EQ(compare_update(kAfter).vague_share, 0);
  const ReferenceWeights reference = stored();
  VerificationResult result;
  reference.compare_update(1, kAfter, {flat(kAfter), {4 * kOne, 0, 0.5F * kOne}}, result);
  EXPECT_DOUBLE_EQ(result.vague_share, 2.0 / 3);
  reference.compare_update(2, kLast, {flat(kLast), {1, 0, 5 * kOne}}, result);
  EXPECT_DOUBLE_EQ(result.vague_share, 1.0 / 3);
}

TEST(ReferenceWeights, TakesTheWorstTensor) {
  Tensors gradients = kGradients;
  gradients[0].values[1] += 0.5F;
  gradients[1].values[0] += 1;  // half of its size of 2
  const auto result = compare_gradients(gradients);
  EXPECT_NEAR(result.max_relative_error, 0.5, 1e-6);
  EXPECT_EQ(result.worst_tensor, "b");
}

TEST(ReferenceWeights, TakesTheWorstStep) {
  Tensors after = kAfter;
  after[1].values[0] += 1;
  VerificationResult result;
  const ReferenceWeights reference = stored();
  reference.compare_update(1, after, {flat(kAfter), {3, 4, 2}}, result);
  reference.compare_update(2, kLast, {flat(kLast), {1, 1, 1}}, result);
  EXPECT_EQ(result.worst_step, 1);
  EXPECT_EQ(result.worst_tensor, "b");
  EXPECT_EQ(result.steps, 2);
}

// An update of 1e-9 of a weight of 5 is rounded away or to the whole spacing of 4.8e-7.
TEST(ReferenceWeights, AllowsTheRoundingOfStoredWeights) {
  const ReferenceWeights reference = stored();
  const ExpectedUpdate tiny{flat(kBefore), {1e-9F, 0, 1e-9F}};
  Tensors after = kBefore;
  after[1].values[0] = std::nextafter(5.0F, 6.0F);
  VerificationResult result;
  reference.compare_update(1, after, tiny, result);
  EXPECT_TRUE(result.is_within_tolerance()) << result.max_relative_error;
  after[1].values[0] = 5 + 8 * (after[1].values[0] - 5);
  reference.compare_update(1, after, tiny, result);
  EXPECT_FALSE(result.is_within_tolerance());
}

TEST(ReferenceWeights, CallsNotANumberInfinitelyWrong) {
  for (const float wrong : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensors gradients = kGradients, after = kAfter;
    gradients[1].values[0] = after[1].values[0] = wrong;
    for (const auto& result : {compare_gradients(gradients), compare_update(after)}) {
      EXPECT_TRUE(std::isinf(result.max_relative_error));
      EXPECT_FALSE(result.is_within_tolerance());
    }
  }
}

TEST(ReferenceWeights, CallsADifferenceWithoutTermsInfinitelyWrong) {
  auto reference = ReferenceWeights::create({.parameters = 3, .tensors = 2, .steps = 1});
  const Tensors none{{"a", {2}, {0, 0}}, {"b", {1}, {0}}};
  reference.store_start(kBefore);
  reference.store_step(kBefore, none, std::vector<double>{0, 0});
  reference.finish();
  const ExpectedUpdate nothing{flat(kBefore), {0, 0, 0}};
  VerificationResult equal, gradient, update;
  reference.compare_gradients(1, none, kTolerance, equal);
  reference.compare_update(1, kBefore, nothing, equal);
  EXPECT_TRUE(equal.is_within_tolerance());
  reference.compare_gradients(1, kGradients, kTolerance, gradient);
  EXPECT_TRUE(std::isinf(gradient.max_relative_error));
  reference.compare_update(1, kAfter, nothing, update);
  EXPECT_TRUE(std::isinf(update.max_relative_error));
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
  reference.store_start(kBefore, state_of(3, 7));
  reference.store_slice_state(1, 0, state_of(3.5f, 8), std::vector<double>{0.5, 0});
  reference.store_slice_state(1, 1, state_of(5, 8), std::vector<double>{2, 0});
  reference.store_step(kAfter, kGradients, std::vector<double>{5, 2});
  reference.finish();
  return reference;
}

VerificationResult compare_state(std::int64_t slice, const Tensors& state) {
  VerificationResult result;
  const ReferenceWeights reference = with_state();
  reference.compare_update(1, kAfter, {flat(kAfter), {3, 4, 2}}, result);
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

TEST(ReferenceWeights, HashesTellOneBitApartInAnyStep) {
  Tensors after = kAfter;
  after[0].values[0] = std::nextafter(after[0].values[0], 10.0f);
  const ReferenceWeights reference = stored();
  VerificationResult equal, other;
  const ExpectedUpdate first{flat(kAfter), {3, 4, 2}}, second{flat(kLast), {1, 1, 1}};
  reference.compare_update(1, kAfter, first, equal);
  reference.compare_update(1, after, first, other);
  EXPECT_NE(equal.weights_hash, other.weights_hash);
  reference.compare_update(2, kLast, second, equal);
  reference.compare_update(2, kLast, second, other);
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
  reference.store_step(kAfter, kGradients, std::vector<double>{5, 2});
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
  job.cell.strategy = "ddp";
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
