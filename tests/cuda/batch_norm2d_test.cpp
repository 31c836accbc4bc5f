// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d of the CUDA backend against the reference.
//
// Inputs are whole numbers, exact in bf16. Results of fp32 are those of sums of n values of at most
// 2 times the largest scale; bf16 results are rounded to 8 bits once for each of their passes (up
// to three), and gradients that pass through a bf16 map once more.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/norm_parts.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

OpInputs norm_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in = whole_inputs(op, seed);
  const auto channels = op.plan().output.shape[1];
  in.state = {random_values(channels, seed + 10), random_values(channels, seed + 11), {41}};
  for (float& variance : in.state[1]) variance = 1.5F + variance;
  // No channel is constant, which would make its scale as large as 1 / sqrt(eps).
  const auto pixels =
      static_cast<std::size_t>(op.plan().output.shape[2] * op.plan().output.shape[3]);
  for (std::size_t i = 0; i < in.inputs[0].size(); ++i) {
    if (i < static_cast<std::size_t>(channels) * pixels && i % pixels == 0) in.inputs[0][i] = 5;
  }
  return in;
}

// For the parts of a batch, whose gradients are added up.
void add_zero_gradients(const Op& op, OpInputs& in) {
  for (const ParameterSpec& spec : op.plan().parameters) {
    in.initial_gradients.emplace_back(static_cast<std::size_t>(element_count(spec.shape)), 0.0F);
  }
}

double largest_of(const Values& values) {
  double largest = 1;
  for (const float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

class CudaBatchNorm2d : public CudaOps, public ::testing::WithParamInterface<NormCase> {
 protected:
  static const BatchNorm2dDesc& desc() { return GetParam().desc; }
  static std::vector<BatchNorm2dDesc> in_every_layout() {
    const Shape& shape = desc().input.shape;
    std::vector<BatchNorm2dDesc> all;
    for (const TensorLayout& layout :
         {TensorLayout::plain(shape), TensorLayout::plain(shape, DataType::bf16),
          cuda::nhwc_layout(shape, DataType::fp32), cuda::nhwc_layout(shape, DataType::bf16)}) {
      all.push_back(desc());
      all.back().input = layout;
    }
    return all;
  }
  static double tolerance(DataType type, const Values& want) {
    const Shape& shape = desc().input.shape;
    const double sums = 4 * sum_tolerance(shape[0] * shape[2] * shape[3]) + 16 * kEpsilon;
    return (sums + (type == DataType::bf16 ? 3 * 0x1p-8 : 0)) * largest_of(want);
  }
  static void compare(const OpOutputs& got, const OpOutputs& want, DataType type) {
    EXPECT_TRUE(all_near(got.output, want.output, tolerance(type, want.output)));
    ASSERT_EQ(got.grad_inputs.size(), want.grad_inputs.size());
    for (std::size_t i = 0; i < got.grad_inputs.size(); ++i)
      EXPECT_TRUE(
          all_near(got.grad_inputs[i], want.grad_inputs[i], tolerance(type, want.grad_inputs[i])))
          << "input " << i;
    ASSERT_EQ(got.grad_parameters.size(), want.grad_parameters.size());
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                           tolerance(DataType::fp32, want.grad_parameters[i])))
          << "parameter " << i;
    ASSERT_EQ(got.state.size(), 3U);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(all_near(got.state[i], want.state[i], tolerance(DataType::fp32, want.state[i])));
    EXPECT_EQ(got.state[2], want.state[2]);
  }
};

TEST_P(CudaBatchNorm2d, EqualsTheReferenceAlsoWhenRecorded) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  const auto reference = plain.backend().make(desc());
  OpInputs in = norm_inputs(*reference, 1);
  for (const bool accumulate : {false, true}) {
    for (const ParameterSpec& spec : reference->plan().parameters) {
      if (accumulate) in.initial_gradients.push_back(whole_values(element_count(spec.shape), 77));
    }
    const OpOutputs want = run(plain, *reference, in);
    for (const BatchNorm2dDesc& norm : in_every_layout())
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        SCOPED_TRACE(norm.input.tag + (accumulate ? " accumulating" : ""));
        const auto op = fixture.backend().make(norm);
        EXPECT_EQ(op->plan().output, norm.input);
        compare(run(fixture, *op, in, execution), want, norm.input.type);
      }
  }
}

TEST_P(CudaBatchNorm2d, EvaluatesByTheRunningStatisticsAndKeepsThem) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  const auto reference = plain.backend().make(desc());
  OpInputs in = norm_inputs(*reference, 2);
  in.mode = Mode::evaluation;
  const OpOutputs want = run(plain, *reference, in);
  for (const BatchNorm2dDesc& norm : in_every_layout()) {
    SCOPED_TRACE(norm.input.tag);
    const OpOutputs got = run(fixture, *fixture.backend().make(norm), in);
    EXPECT_TRUE(all_near(got.output, want.output, tolerance(norm.input.type, want.output)));
    EXPECT_EQ(got.state, in.state);
  }
}

TEST_P(CudaBatchNorm2d, GivesNoGradientThatNobodyWants) {
  BackendFixture fixture = cuda_backend();
  for (const BatchNorm2dDesc& whole : in_every_layout()) {
    SCOPED_TRACE(whole.input.tag + " " + std::string(to_string(whole.input.type)));
    const auto op = fixture.backend().make(whole);
    OpInputs in = norm_inputs(*op, 3);
    const OpOutputs want = run(fixture, *op, in);
    ASSERT_EQ(want.grad_inputs.size(), op->plan().inputs.size());
    // The images' gradient is unwanted by plan, the addend's by each call.
    BatchNorm2dDesc first = whole;
    first.needs_grad_input = false;
    const auto of_images = fixture.backend().make(first);
    in.unwanted = {0};
    expect_same_bits(run(fixture, *of_images, in), without_gradients(want, in.unwanted));
    if (!whole.fuse_add) continue;
    in.unwanted = {1};
    expect_same_bits(run(fixture, *op, in), without_gradients(want, in.unwanted));
    in.unwanted = {0, 1};
    expect_same_bits(run(fixture, *of_images, in), without_gradients(want, in.unwanted));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaBatchNorm2d, ::testing::ValuesIn(norm_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_F(CudaOps, BatchNormKeepsSmallDeviationsFromALargeMean) {
  const Shape shape = {4, 16, 20, 20};
  BackendFixture plain = BackendFixture::reference(), fixture = cuda_backend();
  const auto reference = plain.backend().make(BatchNorm2dDesc{TensorLayout::plain(shape)});
  OpInputs in = norm_inputs(*reference, 6);
  for (float& x : in.inputs[0]) x = 1000 + x / 4;
  const OpOutputs want = run(plain, *reference, in);
  for (const TensorLayout& layout :
       {TensorLayout::plain(shape), cuda::nhwc_layout(shape, DataType::fp32)}) {
    const OpOutputs got = run(fixture, *fixture.backend().make(BatchNorm2dDesc{layout}), in);
    // A mean is rounded to 2^-14 of a deviation.
    EXPECT_TRUE(all_near(got.output, want.output, 1000 * 2 * kEpsilon));
    EXPECT_TRUE(all_near(got.state[1], want.state[1], 8 * kEpsilon));
  }
}

// As in the reference, NaN is not taken for something that the ReLU cuts or that is rounding.
TEST_F(CudaOps, BatchNormOfNaNIsNaNInItsChannel) {
  const Shape shape = {2, 16, 5, 7};
  BackendFixture fixture = cuda_backend();
  for (const TensorLayout& layout :
       {TensorLayout::plain(shape), cuda::nhwc_layout(shape, DataType::fp32)}) {
    const auto op = fixture.backend().make(BatchNorm2dDesc{.input = layout, .fuse_relu = true});
    OpInputs in = norm_inputs(*op, 7);
    in.inputs[0][3 * 35 + 4] = std::numeric_limits<float>::quiet_NaN();  // of channel 3
    const OpOutputs got = run(fixture, *op, in);
    for (std::size_t i = 0; i < got.output.size(); ++i) {
      EXPECT_EQ(std::isnan(got.output[i]), i / 35 % 16 == 3) << i;
    }
    for (std::size_t c = 0; c < 16; ++c) EXPECT_EQ(std::isnan(got.state[1][c]), c == 3) << c;
  }
}

// Two parts of a batch, each on a thread with a backend of its own, against the whole.
TEST_F(CudaOps, BatchNormOfPartsIsThatOfTheWholeBatch) {
  constexpr std::size_t kParts = 2;
  const Shape whole = {6, 5, 4, 3}, part = {3, 5, 4, 3};
  for (const bool fused : {false, true}) {
    const auto desc = [&](const TensorLayout& layout) {
      return BatchNorm2dDesc{
          .input = layout, .affine = fused, .fuse_add = fused, .fuse_relu = fused};
    };
    BackendFixture plain = BackendFixture::reference();
    const auto reference = plain.backend().make(desc(TensorLayout::plain(whole)));
    OpInputs in = norm_inputs(*reference, 1);
    add_zero_gradients(*reference, in);
    const OpOutputs want = run(plain, *reference, in);
    for (const DataType type : {DataType::fp32, DataType::bf16})
      for (const bool channels_last : {false, true}) {
        SCOPED_TRACE(fmt::format("fused {}, channels last {}", fused, channels_last));
        const TensorLayout layout =
            channels_last ? cuda::nhwc_layout(part, type) : TensorLayout::plain(part, type);
        const auto got = run_norm_parts([] { return cuda_backend(); }, in, kParts, desc(layout));
        const double maps = type == DataType::bf16 ? 4 * 0x1p-8 : 64 * kEpsilon;
        for (std::size_t p = 0; p < kParts; ++p) {
          const auto expect_part = [&](const Values& values, const Values& of_whole) {
            EXPECT_TRUE(
                all_near(values, part_of(of_whole, p, kParts), maps * largest_of(of_whole)));
          };
          expect_part(got[p].output, want.output);
          for (std::size_t i = 0; i < want.grad_inputs.size(); ++i) {
            expect_part(got[p].grad_inputs[i], want.grad_inputs[i]);
          }
          for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_TRUE(all_near(got[p].state[i], want.state[i],
                                 16 * kEpsilon * largest_of(want.state[i])));
            EXPECT_TRUE(same_bits(got[p].state[i], got[0].state[i]));
          }
        }
        for (std::size_t i = 0; i < want.grad_parameters.size(); ++i) {
          Values sum = got[0].grad_parameters[i];
          for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += got[1].grad_parameters[i][c];
          EXPECT_TRUE(all_near(sum, want.grad_parameters[i],
                               72 * 8 * kEpsilon * largest_of(want.grad_parameters[i])));
        }
      }
  }
}

// The verification of --sync-batch-norm rests on this: behind a ReLU one rounding more would change
// whole terms of gradients. Sums of so few values differ too little to change a float.
TEST_F(CudaOps, BatchNormOfPartsHasTheBitsOfTheWholeBatch) {
  constexpr std::size_t kParts = 2;
  for (const Shape& part : {Shape{3, 5, 4, 3}, Shape{2, 8, 23, 19}, Shape{1, 264, 13, 11},
                            Shape{1, 2, 71, 64}, Shape{2, 64, 37, 29}})
    for (const DataType type : {DataType::fp32, DataType::bf16})
      for (const bool channels_last : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, channels last {}", to_string(part), channels_last));
        const auto desc = [&](std::size_t parts) {
          Shape shape = part;
          shape[0] *= static_cast<std::int64_t>(parts);
          return BatchNorm2dDesc{.input = channels_last ? cuda::nhwc_layout(shape, type)
                                                        : TensorLayout::plain(shape, type),
                                 .fuse_add = part[0] == 2,
                                 .fuse_relu = true};
        };
        BackendFixture fixture = cuda_backend();
        const auto whole = fixture.backend().make(desc(kParts));
        OpInputs in = norm_inputs(*whole, 1);
        add_zero_gradients(*whole, in);
        const OpOutputs want = run(fixture, *whole, in);
        const auto got = run_norm_parts([] { return cuda_backend(); }, in, kParts, desc(1));
        for (std::size_t p = 0; p < kParts; ++p) {
          EXPECT_TRUE(same_bits(got[p].output, part_of(want.output, p, kParts)));
          for (std::size_t i = 0; i < want.grad_inputs.size(); ++i) {
            EXPECT_TRUE(same_bits(got[p].grad_inputs[i], part_of(want.grad_inputs[i], p, kParts)));
          }
          for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_TRUE(same_bits(got[p].state[i], want.state[i]));
          }
        }
      }
}

}  // namespace
}  // namespace ddpbench::ops::testing
