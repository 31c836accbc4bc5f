// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A sliced backend gives each part of a batch the bits that its own device would give it.
#include "kernels/ops/backend.h"

#include <gmock/gmock.h>

#include "tests/ops/op_harness.h"
#include "tests/ops/part_threads.h"

namespace ddpbench::ops::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kSlices = 3;

std::unique_ptr<OpBackend> sliced_onednn(Device& device, std::int64_t samples,
                                         std::size_t alignment = 1) {
  auto backend = make_onednn_backend(device, DataType::fp32);
  backend->slice(samples, alignment);
  return backend;
}

BackendFixture sliced(std::int64_t samples) {
  return BackendFixture::on(make_cpu_device({}),
                            [&](Device& device) { return sliced_onednn(device, samples); });
}

struct SlicedCase {
  const char* name;
  OpDesc whole, slice;
};
SlicedCase conv_case(const char* name, const Shape& slice, Conv2dDesc desc) {
  Shape whole = slice;
  whole[0] *= static_cast<std::int64_t>(kSlices);
  Conv2dDesc of_whole = desc;
  desc.input = TensorLayout::plain(slice);
  of_whole.input = TensorLayout::plain(whole);
  return {name, of_whole, desc};
}
SlicedCase linear_case(const char* name, const Shape& slice, bool relu) {
  Shape whole = slice;
  whole[0] *= static_cast<std::int64_t>(kSlices);
  LinearDesc desc{.input = TensorLayout::plain(slice), .out_features = 37, .fuse_relu = relu};
  LinearDesc of_whole = desc;
  of_whole.input = TensorLayout::plain(whole);
  return {name, of_whole, desc};
}
std::vector<SlicedCase> sliced_cases() {
  const Window2d wide = square_window(3, 1, 1);
  return {conv_case("OneChannel", {2, 1, 9, 9}, {.out_channels = 8, .window = wide}),
          conv_case("Winograd", {8, 32, 12, 12}, {.out_channels = 32, .window = wide}),
          conv_case("WithRelu", {2, 16, 8, 8},
                    {.out_channels = 32, .window = square_window(1, 1), .fuse_relu = true}),
          conv_case("WithoutInputGradient", {1, 3, 8, 8},
                    {.out_channels = 16, .window = wide, .bias = false, .needs_grad_input = false}),
          conv_case("Groups", {2, 32, 6, 6}, {.out_channels = 32, .window = wide, .groups = 4}),
          linear_case("Linear", {4, 50}, false),
          linear_case("LinearOfMaps", {2, 16, 5, 5}, true)};
}

class SlicedBackend : public ::testing::TestWithParam<SlicedCase> {};

TEST_P(SlicedBackend, GivesTheBitsOfEachSlice) {
  const SlicedCase& c = GetParam();
  BackendFixture one = BackendFixture::onednn();
  const auto slice = one.backend().make(c.slice);
  BackendFixture all = sliced(slice->plan().inputs[0].shape[0]);
  const auto whole = all.backend().make(c.whole);
  EXPECT_THAT(whole->plan().description, HasSubstr(slice->plan().description + " in 3 slices"));
  EXPECT_EQ(whole->plan().forward_flops, kSlices * slice->plan().forward_flops);
  EXPECT_EQ(whole->plan().backward_flops, kSlices * slice->plan().backward_flops);

  const OpInputs in = random_inputs(*whole, 5);
  const OpOutputs got = run(all, *whole, in);
  std::vector<Values> sums;
  for (std::size_t p = 0; p < kSlices; ++p) {
    OpInputs own = in;
    own.inputs[0] = part_of(in.inputs[0], p, kSlices);
    own.grad_output = part_of(in.grad_output, p, kSlices);
    own.initial_gradients = sums;
    const OpOutputs want = run(one, *slice, own);
    EXPECT_TRUE(same_bits(part_of(got.output, p, kSlices), want.output)) << p;
    ASSERT_EQ(got.grad_inputs.size(), want.grad_inputs.size());
    EXPECT_TRUE(same_bits(part_of(got.grad_inputs[0], p, kSlices), want.grad_inputs[0])) << p;
    sums = want.grad_parameters;
  }
  ASSERT_EQ(got.grad_parameters.size(), sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_TRUE(same_bits(got.grad_parameters[i], sums[i])) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, SlicedBackend, ::testing::ValuesIn(sliced_cases()),
                         [](const auto& test) { return test.param.name; });

// Algorithms round differently, and deep networks enlarge that.
TEST(SlicedBatch, ChoosesAlgorithmsAsForASlice) {
  const auto device = make_cpu_device({});
  const auto plain = make_onednn_backend(*device, DataType::fp32);
  const auto is_winograd = [](OpBackend& backend, std::int64_t batch) {
    const Conv2dDesc conv{.input = TensorLayout::plain({batch, 512, 7, 7}),
                          .out_channels = 512,
                          .window = square_window(3, 1, 1)};
    return backend.make(conv)->plan().description.find("wino") != std::string::npos;
  };
  int differ = 0;
  for (const std::int64_t batch : {1, 2, 4, 8, 16}) {
    const auto of_two = sliced_onednn(*device, batch);
    EXPECT_EQ(is_winograd(*of_two, 2 * batch), is_winograd(*plain, batch)) << batch;
    differ += is_winograd(*plain, 2 * batch) != is_winograd(*plain, batch);
  }
  if (is_winograd(*plain, 64)) {
    EXPECT_GE(differ, 1) << "no batch of these tells them apart";
  }
}

TEST(SlicedBatch, OnlyDividesWhatIsSeveralBatches) {
  BackendFixture fixture = sliced(4);
  const auto description = [&](std::int64_t batch) {
    return fixture.backend()
        .make(LinearDesc{.input = TensorLayout::plain({batch, 8}), .out_features = 3})
        ->plan()
        .description;
  };
  EXPECT_THAT(description(8), HasSubstr("in 2 slices"));
  for (const std::int64_t batch : {2, 4, 6})
    EXPECT_THAT(description(batch), Not(HasSubstr("slices")));
  // Batch norm takes the samples of all devices together.
  const auto norm =
      fixture.backend().make(BatchNorm2dDesc{.input = TensorLayout::plain({8, 3, 4, 4})});
  EXPECT_THAT(norm->plan().description, Not(HasSubstr("slices")));
  EXPECT_TRUE(norm->plan().couples_samples);
}

TEST(SlicedBatch, TakesAtOnceWhatWouldNotBeginAtAMultipleOfTheAlignment) {
  const auto description = [](std::int64_t features, std::size_t alignment) {
    BackendFixture fixture = BackendFixture::on(
        make_cpu_device({}), [&](Device& device) { return sliced_onednn(device, 2, alignment); });
    return fixture.backend()
        .make(LinearDesc{.input = TensorLayout::plain({4, 8}), .out_features = features})
        ->plan()
        .description;
  };
  EXPECT_THAT(description(3, 1), HasSubstr("in 2 slices"));
  EXPECT_THAT(description(4, 16), HasSubstr("in 2 slices"));
  EXPECT_THAT(description(3, 16), Not(HasSubstr("slices")));
}

// What a device divides into micro-batches is divided alike here, and nothing else.
TEST(SlicedBatch, HintsAtTheMicroBatchOfADevice) {
  const auto device = make_cpu_device({});
  const auto plain = make_onednn_backend(*device, DataType::fp32);
  const auto hint = [&](std::int64_t samples, std::size_t bytes) {
    return sliced_onednn(*device, samples)->micro_batch_hint(bytes);
  };
  EXPECT_EQ(hint(8, 0), 0);
  if (plain->micro_batch_hint(1) == 0) GTEST_SKIP() << "this system does not tell its L2 cache";
  EXPECT_EQ(hint(12, 1), 12);  // all samples of the device fit
  std::size_t bytes = 1;
  while (plain->micro_batch_hint(bytes) > 8) ++bytes;
  EXPECT_EQ(plain->micro_batch_hint(bytes), 8);
  EXPECT_EQ(hint(12, bytes), 6);
  EXPECT_EQ(hint(7, bytes), 7);
  EXPECT_EQ(hint(11, bytes), 1);
}

TEST(SlicedBatch, KnowsLayoutsOfOtherBatches) {
  BackendFixture fixture = BackendFixture::onednn();
  OpBackend& backend = fixture.backend();
  const auto conv = [&](std::int64_t batch, std::int64_t channels, std::int64_t groups) {
    return backend.make(Conv2dDesc{.input = TensorLayout::plain({batch, channels, 8, 8}),
                                   .out_channels = channels,
                                   .window = square_window(3, 1, 1),
                                   .groups = groups});
  };
  struct Channels {
    std::int64_t all, groups;
  };
  // Groups of 4, 12, 8 and 16 channels, and one channel a group.
  for (const auto& [all, groups] :
       {Channels{32, 1}, {16, 4}, {24, 2}, {128, 32}, {32, 4}, {64, 4}, {16, 16}}) {
    SCOPED_TRACE(fmt::format("{} channels in {} groups", all, groups));
    const auto two = conv(2, all, groups), six = conv(6, all, groups);
    for (const auto& [from, to] : {std::pair{two.get(), six.get()}, {six.get(), two.get()}}) {
      const TensorLayout& want = to->plan().output;
      const TensorLayout got = for_samples(from->plan().output, want.shape[0]);
      EXPECT_EQ(got, want);
      EXPECT_EQ(got.bytes, want.bytes);
    }
  }
  EXPECT_FALSE(conv(2, 32, 1)->plan().output.is_plain());
  const TensorLayout plain = for_samples(TensorLayout::plain({2, 3}), 5);
  EXPECT_EQ(plain, TensorLayout::plain({5, 3}));
  EXPECT_EQ(plain.bytes, 60U);
}

}  // namespace
}  // namespace ddpbench::ops::testing
