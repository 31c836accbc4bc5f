// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// dropout: what it drops, on every backend alike and however a batch is divided.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/runtime/cpu_device.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

constexpr std::uint64_t kKey = 0x123456789abcdef0;

DropoutDesc dropout_of(Shape shape, double p) {
  return {.input = TensorLayout::plain(std::move(shape)), .p = p, .key = kKey};
}

// What it keeps of ones, in units of the scale: 0 or 1 an element.
Values mask_of(BackendFixture& fixture, const DropoutDesc& desc, const RandomDraw& draw,
               std::int64_t step = 0) {
  const auto op = fixture.backend().make(desc);
  OpInputs in = random_inputs(*op, 1);
  std::ranges::fill(in.inputs[0], 1.0F);
  in.draw = draw;
  in.step = step;
  Values mask = run(fixture, *op, in).output;
  for (float& value : mask) value *= static_cast<float>(1 - desc.p);
  return mask;
}

struct DropoutCase {
  const char* name;
  Shape shape;
  double p;
};
class DropoutShapes : public ::testing::TestWithParam<DropoutCase> {};

TEST_P(DropoutShapes, EqualsTheReference) {
  const DropoutDesc desc = dropout_of(GetParam().shape, GetParam().p);
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = random_inputs(*reference, 1);
  in.step = (std::int64_t{3} << 32) + 5;
  in.draw = {.places = {.first = 1, .parts = 3, .part = 2}, .first_sample = 1};
  const OpOutputs want = run(plain, *reference, in);
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    std::vector<TensorLayout> layouts = {desc.input};
    if (desc.input.shape.size() == 4) {
      layouts.push_back(image_layout(desc.input.shape, 8));
    }
    for (const TensorLayout& layout : layouts) {
      DropoutDesc hinted = desc;
      hinted.input = layout;
      const auto op = fixture.backend().make(hinted);
      EXPECT_TRUE(op->plan().draws_random_numbers);
      EXPECT_FALSE(op->plan().couples_samples);
      expect_same_bits(run(fixture, *op, in), want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DropoutShapes,
                         ::testing::Values(DropoutCase{"OneElement", {1, 1}, 0.5},
                                           DropoutCase{"OneGroup", {3, 64}, 0.5},
                                           DropoutCase{"BelowALane", {5, 7}, 0.3},
                                           DropoutCase{"OddGroups", {4, 200}, 0.9},
                                           DropoutCase{"Maps", {3, 5, 7, 3}, 0.25},
                                           DropoutCase{"NothingDropped", {2, 100}, 0.0},
                                           DropoutCase{"Long", {9, 4099}, 0.5}),
                         [](const auto& test) { return test.param.name; });

// At every instruction set this processor has.
TEST(Dropout, EqualsItselfAtEveryInstructionSet) {
  const std::int64_t step = 7;
  const Values x = random_values(3 * 333, 1);
  const void* const inputs[] = {x.data()};
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  std::vector<Values> results;
  for (int level = 0; level <= static_cast<int>(cpu::simd_level()); ++level) {
    const auto op =
        cpu::make_op(cpu::Team{static_cast<cpu::SimdLevel>(level), 1}, dropout_of({3, 333}, 0.4));
    Values y(x.size()), again(x.size());
    std::vector<std::uint8_t> saved(op->plan().saved_bytes);
    void* const grad_inputs[] = {again.data()};
    op->forward(
        *stream,
        {.inputs = inputs, .output = y.data(), .saved = saved.data(), .draw = {.step = &step}});
    op->backward(*stream, {.grad_output = x.data(),
                           .grad_inputs = grad_inputs,
                           .saved = saved.data(),
                           .draw = {.step = &step}});
    EXPECT_EQ(again, y);
    results.push_back(y);
  }
  for (const Values& result : results) EXPECT_TRUE(same_bits(result, results[0]));
}

TEST(Dropout, ScalesWhatItKeepsAndPassesTheirGradientsAlone) {
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(dropout_of({4, 100}, 0.2));
    const OpInputs in = random_inputs(*op, 1);
    const OpOutputs out = run(fixture, *op, in);
    int kept = 0;
    for (std::size_t k = 0; k < out.output.size(); ++k) {
      const bool keeps = out.output[k] != 0;
      EXPECT_EQ(out.output[k], keeps ? in.inputs[0][k] * 1.25F : 0);
      EXPECT_EQ(out.grad_inputs[0][k], keeps ? in.grad_output[k] * 1.25F : 0);
      kept += keeps ? 1 : 0;
    }
    EXPECT_NEAR(kept, 320, 40);  // 5 standard deviations, sqrt(400 * 0.2 * 0.8) = 8
  }
}

TEST(Dropout, CopiesInAnEvaluation) {
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(dropout_of({4, 100}, 0.5));
    OpInputs in = random_inputs(*op, 1);
    in.mode = Mode::evaluation;
    EXPECT_TRUE(same_bits(run(fixture, *op, in).output, in.inputs[0]));
  }
}

// The share that is dropped in rows of samples, steps and elements, and between neighbours of each:
// equal to p within 5 standard deviations.
TEST(Dropout, DropsIndependently) {
  BackendFixture fixture = BackendFixture::onednn();
  constexpr std::int64_t kBatch = 64, kFeatures = 512;
  constexpr double kP = 0.3, kCount = kBatch * kFeatures;
  const Values first = mask_of(fixture, dropout_of({kBatch, kFeatures}, kP), {}, 0);
  const Values next = mask_of(fixture, dropout_of({kBatch, kFeatures}, kP), {}, 1);
  DropoutDesc of_other_layer = dropout_of({kBatch, kFeatures}, kP);
  of_other_layer.key += 1;
  const Values other = mask_of(fixture, of_other_layer, {}, 0);
  const auto share_of_both = [&](const Values& a, const Values& b, std::size_t shift) {
    double both = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      both += a[k] == 0 && b[(k + shift) % b.size()] == 0 ? 1 : 0;
    }
    return both / kCount;
  };
  const double deviation = std::sqrt(kP * (1 - kP) / kCount);
  EXPECT_NEAR(share_of_both(first, first, 0), kP, 5 * deviation);
  const double deviation_of_both = std::sqrt(kP * kP * (1 - kP * kP) / kCount);
  for (const std::size_t shift : {std::size_t{1}, std::size_t{16}, std::size_t{kFeatures}}) {
    EXPECT_NEAR(share_of_both(first, first, shift), kP * kP, 5 * deviation_of_both) << shift;
  }
  EXPECT_NEAR(share_of_both(first, next, 0), kP * kP, 5 * deviation_of_both);
  EXPECT_NEAR(share_of_both(first, other, 0), kP * kP, 5 * deviation_of_both);
}

// A global batch of 12: at once, in turns among 2 and 3 parts, the parts one after the other, and
// in calls of 2 samples.
TEST(Dropout, DropsTheSameHoweverABatchIsDivided) {
  BackendFixture fixture = BackendFixture::onednn();
  constexpr std::size_t kWholeBatch = 12, kSampleSize = 70;
  const auto mask = [&](std::int64_t samples, const RandomDraw& draw) {
    return mask_of(fixture, dropout_of({samples, kSampleSize}, 0.5), draw, 3);
  };
  const Values whole = mask(kWholeBatch, {});
  const auto expect_sample = [&](const Values& part, std::size_t i, std::size_t place) {
    const auto at = [](const Values& values, std::size_t sample) {
      return Values(values.begin() + static_cast<std::ptrdiff_t>(sample * kSampleSize),
                    values.begin() + static_cast<std::ptrdiff_t>((sample + 1) * kSampleSize));
    };
    EXPECT_EQ(at(part, i), at(whole, place)) << i << " at " << place;
  };
  for (const std::size_t parts : {2, 3}) {
    const std::size_t size = kWholeBatch / parts;
    const SamplePlaces all{.parts = static_cast<std::int64_t>(parts),
                           .part = static_cast<std::int64_t>(size)};
    const Values joined = mask(kWholeBatch, {.places = all});
    for (std::size_t p = 0; p < parts; ++p) {
      SamplePlaces places = all;
      places.first = static_cast<std::int64_t>(p);
      const Values part = mask(static_cast<std::int64_t>(size), {.places = places});
      const Values pair = mask(2, {.places = places, .first_sample = 2});
      for (std::size_t j = 0; j < size; ++j) {
        expect_sample(part, j, p + j * parts);
        expect_sample(joined, p * size + j, p + j * parts);
      }
      for (std::size_t j = 0; j < 2; ++j) expect_sample(pair, j, p + (2 + j) * parts);
    }
  }
}

TEST(Dropout, RefusesWhatIsNoProbabilityBelowOne) {
  for (BackendFixture& fixture : all_backends()) {
    for (const double p : {-0.1, 1.0, 1.5, std::nan("")}) {
      EXPECT_THROW(fixture.backend().make(dropout_of({2, 3}, p)), InternalError) << p;
    }
    EXPECT_THROW(fixture.backend().make(dropout_of({2, 0}, 0.5)), ConfigError);
  }
}

// 1 - 2^-40 rounds to a threshold of 2^32, which has no 32 bits: the largest that has is taken.
TEST(Dropout, TakesAProbabilityNextToOne) {
  EXPECT_EQ(dropout_mask(1 - 0x1p-40, kKey).threshold, 0xffffffffU);
  EXPECT_EQ(dropout_mask(0, kKey).threshold, 0U);
  EXPECT_EQ(dropout_mask(0.5, kKey).threshold, 0x80000000U);
}

}  // namespace
}  // namespace ddpbench::ops::testing
