// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients of weights as products of gathered rows against the reference in fp32. Both start from
// values rounded to bf16, whose products are exact in fp32.
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/runtime/bfloat16.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

using enum onednn::ConvAlgorithm;

std::vector<ConvCase> gathered_cases() {
  const auto with = [](Conv2dDesc desc, Dilation2d dilation, std::int64_t more_h,
                       std::int64_t more_w) {
    desc.dilation = dilation;
    desc.window.more_h = more_h, desc.window.more_w = more_w;
    return desc;
  };
  std::vector<ConvCase> cases = {
      {"OneByOne", conv({3, 32, 6, 5}, 48, 1)},
      {"OneByOneStrideTwo", conv({3, 32, 7, 9}, 16, 1, 2)},
      {"ThreeByThree", with_relu(conv({1, 16, 7, 8}, 32, 3, 1, 1))},
      {"ThreeByThreeStrideTwo", with_relu(conv({3, 32, 14, 13}, 32, 3, 2, 1))},
      {"Dilated", with(conv({3, 16, 11, 9}, 32, 3, 1, 2), {2, 2}, 0, 0)},
      {"DilatedInOneDirection", with(conv({1, 16, 9, 12}, 16, 3, 1, 1), {1, 3}, 0, 0)},
      {"SevenBySevenOfColours", first_layer(with_relu(conv({3, 3, 23, 21}, 64, 7, 2, 3)))},
      {"OddChannels", with_relu(conv({3, 5, 7, 9}, 17, 3, 1, 1))},
      {"ChannelsAboveABlock", conv({1, 33, 5, 5}, 40, 3)},
      {"UnevenSides", with(conv({3, 16, 9, 8}, 16, 3, 2, 1), {}, -1, 1)},
      {"UnevenSidesDilated", with_relu(with(conv({1, 6, 9, 9}, 7, 3), {2, 2}, 3, 1))},
      // Channels last, the first tap alone needs no gathering.
      {"PaddedAtTheEndOnly", with(conv({3, 16, 9, 8}, 16, 3), {}, 2, 2)},
      // Its rows come in several parts.
      {"ManyRows", conv({1, 16, 101, 100}, 16, 3, 1, 1)},
  };
  for (ConvCase& c : cases) c.desc = without_bias(c.desc);
  return cases;
}

std::shared_ptr<const onednn::Context> bf16_context(int threads) {
  auto context = std::make_shared<onednn::Context>();
  context->threads = threads;
  context->activations = DataType::bf16;
  return context;
}

OpInputs rounded_inputs(const Op& op) {
  OpInputs in = random_inputs(op, 1);
  for (Values* values : {&in.inputs[0], &in.parameters[0], &in.grad_output})
    for (float& v : *values) v = BFloat16::round(v);
  return in;
}

class GatheredRows : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_cpu_bf16(); !reason.empty())
      GTEST_SKIP() << "CPU devices do not compute in bf16 here: " << reason;
  }
  static double tolerance() {
    const Shape out = output_shape(GetParam().desc);
    return sum_tolerance(out[0] * out[2] * out[3] + 1);
  }
};

TEST_P(GatheredRows, GiveTheGradientsOfTheReference) {
  const Conv2dDesc& desc = GetParam().desc;
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = rounded_inputs(*reference);
  for (const bool accumulate : {false, true}) {
    if (accumulate)
      in.initial_gradients = {
          random_values(element_count(reference->plan().parameters[0].shape), 9)};
    const OpOutputs want = run(plain, *reference, in);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      const auto op = onednn::make_conv2d(bf16_context(threads), desc, gathered);
      SCOPED_TRACE(op->plan().description);
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(all_near(got.grad_parameters[0], want.grad_parameters[0], tolerance()));
      expect_same_bits(run(fixture, *op, in), got);
    }
  }
}

// The library chooses one layout for a processor; the others occur on other ones.
TEST_P(GatheredRows, ReadMapsOfEveryLayout) {
  Conv2dDesc desc = GetParam().desc;
  desc.fuse_relu = false;
  BackendFixture plain = BackendFixture::reference(), fixture = BackendFixture::onednn();
  const auto reference = plain.backend().make(desc);
  const OpInputs in = rounded_inputs(*reference);
  const Values want = run(plain, *reference, in).grad_parameters[0];
  const TensorLayout weight = TensorLayout::plain(reference->plan().parameters[0].shape);
  const auto context = bf16_context(1);
  const auto blocked = [](const Shape& shape, std::int64_t block) {
    return image_layout(shape, block == 0 ? shape[1] : block, DataType::bf16);
  };
  for (const std::int64_t x_block : {0, 1, 8, 16})
    for (const std::int64_t dy_block : {0, 1, 8, 16}) {
      const TensorLayout x = blocked(desc.input.shape, x_block);
      const TensorLayout dy = blocked(output_shape(desc), dy_block);
      SCOPED_TRACE(x.tag + " and " + dy.tag);
      const auto rows = onednn::plan_gathered_rows(*context, desc, x, dy, onednn::to_desc(weight));
      ASSERT_NE(rows, nullptr);
      const OpMemory dw = fixture.allocate(weight.bytes);
      rows->run(fixture.to_layout(in.inputs[0], x).data(),
                fixture.to_layout(in.grad_output, dy).data(), dw.data(),
                fixture.allocate(rows->workspace_bytes()).data());
      EXPECT_TRUE(all_near(fixture.to_plain(dw, weight), want, tolerance()));
    }
}

// Where a trial chooses, its memory serves both.
TEST_P(GatheredRows, HaveThePlanOfTheDirectWay) {
  const auto plan_of = [](onednn::ConvAlgorithm algorithm) {
    return onednn::make_conv2d(bf16_context(1), GetParam().desc, algorithm)->plan();
  };
  const OpPlan want = plan_of(direct), got = plan_of(gathered);
  EXPECT_GE(got.workspace_bytes, want.workspace_bytes);
  EXPECT_EQ(got.description, want.description);
  EXPECT_EQ(got.inputs, want.inputs);
  EXPECT_EQ(got.output, want.output);
  EXPECT_EQ(got.parameters[0].layout, want.parameters[0].layout);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GatheredRows, ::testing::ValuesIn(gathered_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_F(GatheredRows, AreRefusedWhereThereAreNone) {
  const auto make = [](const Conv2dDesc& desc, DataType type) {
    auto context = std::make_shared<onednn::Context>();
    context->activations = type;
    return onednn::make_conv2d(std::move(context), desc, gathered);
  };
  const Conv2dDesc desc = without_bias(conv({2, 32, 8, 8}, 32, 3, 1, 1));
  EXPECT_NO_THROW(make(desc, DataType::bf16));
  EXPECT_THROW(make(desc, DataType::fp32), InternalError);
  EXPECT_THROW(make(conv({2, 32, 8, 8}, 32, 3, 1, 1), DataType::bf16), InternalError);
  Conv2dDesc groups = desc;
  groups.groups = 2;
  EXPECT_THROW(make(groups, DataType::bf16), InternalError);
}

TEST(GatheringTrial, RunsBothWaysAndItsResultStays) {
  struct Way {
    double seconds;
    int runs = 0;
    void operator()() { ++runs, spend_cpu_s(seconds); }
  };
  const auto pays = [](const char* geometry, double direct_s, double gathered_s, int runs) {
    Way direct{direct_s}, gathered{gathered_s};
    const bool choice = onednn::gathering_pays(geometry, std::ref(direct), std::ref(gathered));
    EXPECT_EQ(direct.runs, runs);
    EXPECT_EQ(gathered.runs, runs);
    return choice;
  };
  EXPECT_TRUE(pays("first", 0.02, 0.001, 3));
  EXPECT_FALSE(pays("second", 0.02, 0.019, 3));
  EXPECT_FALSE(pays("hopeless", 0.001, 0.02, 1));
  EXPECT_TRUE(pays("first", 0.001, 0.02, 0));
  EXPECT_FALSE(pays("second", 0.02, 0.001, 0));
}

}  // namespace
}  // namespace ddpbench::ops::testing
