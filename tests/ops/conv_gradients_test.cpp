// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution's gradients in other ways than oneDNN's own against the reference in fp32.
#include <functional>

#include "base/error.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "tests/ops/bf16_harness.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

using enum onednn::ConvAlgorithm;

std::vector<ConvCase> all_without_bias(std::vector<ConvCase> cases) {
  for (ConvCase& c : cases) c.desc = without_bias(c.desc);
  return cases;
}

Conv2dDesc with(Conv2dDesc desc, Dilation2d dilation, std::int64_t more_h, std::int64_t more_w) {
  desc.dilation = dilation;
  desc.window.more_h = more_h, desc.window.more_w = more_w;
  return desc;
}

Conv2dDesc in_one_direction(Conv2dDesc desc) {
  desc.window.stride_w = 1;
  return desc;
}

std::vector<ConvCase> gathered_cases() {
  return all_without_bias({
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
  });
}

std::vector<ConvCase> turned_cases() {
  return all_without_bias({
      {"OneByOne", conv({3, 32, 6, 5}, 48, 1)},
      {"OneByOneStrideTwo", with_relu(conv({3, 32, 8, 9}, 16, 1, 2))},
      {"OneByOneStrideThree", conv({3, 48, 12, 9}, 32, 1, 3)},
      {"OneByOneOfOneRow", conv({3, 32, 1, 9}, 16, 1, 2)},
      {"TwoByTwoStrideTwo", conv({3, 32, 8, 6}, 16, 2, 2)},
      {"ThreeByThreeStrideTwo", with_relu(conv({3, 32, 14, 13}, 32, 3, 2, 1))},
      {"FiveByFiveStrideThree", conv({2, 16, 12, 13}, 32, 5, 3, 2)},
      {"StrideInOneDirection", in_one_direction(conv({2, 16, 8, 9}, 32, 3, 2, 1))},
      {"ThreeByThree", with_relu(conv({1, 16, 7, 8}, 32, 3, 1, 1))},
      {"WithoutPadding", conv({3, 32, 7, 8}, 32, 3)},
      {"FiveByFive", conv({3, 16, 11, 9}, 16, 5, 1, 1)},
      {"Dilated", with(conv({3, 16, 11, 9}, 32, 3, 1, 2), {2, 2}, 0, 0)},
      {"DilatedInOneDirection", with_relu(with(conv({1, 16, 9, 12}, 16, 3, 1, 1), {1, 3}, 0, 0))},
      {"UnevenSides", with(conv({3, 16, 9, 8}, 16, 3, 1, 1), {}, -1, 1)},
  });
}

class Gradients : public OnCases<ConvCase> {
 protected:
  static void compare_with_reference(onednn::ConvAlgorithm way) {
    const Conv2dDesc& desc = GetParam().desc;
    compare_bf16(desc, conv_sums(desc), make_conv2d(desc, way));
  }
  // Where a trial chooses, its memory serves both.
  static void expect_plan_of_direct_way(onednn::ConvAlgorithm way) {
    BackendFixture fixture = bf16_backend();
    const auto plan_of = [&](onednn::ConvAlgorithm algorithm) {
      return make_conv2d(GetParam().desc, algorithm)(fixture, 1)->plan();
    };
    const OpPlan want = plan_of(direct), got = plan_of(way);
    EXPECT_GE(got.workspace_bytes, want.workspace_bytes);
    EXPECT_EQ(got.description, want.description);
    EXPECT_EQ(got.inputs, want.inputs);
    EXPECT_EQ(got.output, want.output);
    EXPECT_EQ(got.parameters[0].layout, want.parameters[0].layout);
  }
};
class GatheredRows : public Gradients {};
class TurnedWeights : public Gradients {};

TEST_P(GatheredRows, GiveTheGradientsOfTheReference) { compare_with_reference(gathered); }
TEST_P(TurnedWeights, GiveTheGradientsOfTheReference) { compare_with_reference(turned); }

// 0: channels last.
TensorLayout bf16_map(const Shape& shape, std::int64_t block) {
  return image_layout(shape, block == 0 ? shape[1] : block, DataType::bf16);
}

// What a gradient is computed from alone, without its operation, and what the reference gives.
struct Alone {
  explicit Alone(Conv2dDesc of) : desc(std::move(of)) {
    desc.fuse_relu = false;
    BackendFixture plain = BackendFixture::reference();
    const auto reference = plain.backend().make(desc);
    in = rounded_inputs(*reference, 1);
    want = run(plain, *reference, in);
    weight = TensorLayout::plain(reference->plan().parameters[0].shape);
  }
  // Returns the gradient, of the layout `to`.
  Values computed(const onednn::ConvGradient& gradient, const OpMemory& operand,
                  const TensorLayout& dy, const TensorLayout& to) {
    const OpMemory result = fixture.allocate(to.bytes);
    gradient.run(operand.data(), fixture.to_layout(in.grad_output, dy).data(), result.data(),
                 fixture.allocate(gradient.workspace_bytes()).data());
    return fixture.to_plain(result, to);
  }

  Conv2dDesc desc;
  BackendFixture fixture = BackendFixture::onednn();
  onednn::Context context;
  OpInputs in;
  OpOutputs want;
  TensorLayout weight;
};

// The library chooses one layout for a processor; the others occur on other ones.
TEST_P(GatheredRows, ReadMapsOfEveryLayout) {
  Alone alone(GetParam().desc);
  const Conv2dDesc& desc = alone.desc;
  const TensorLayout& weight = alone.weight;
  for (const std::int64_t x_block : {0, 1, 8, 16})
    for (const std::int64_t dy_block : {0, 1, 8, 16}) {
      const TensorLayout x = bf16_map(desc.input.shape, x_block);
      const TensorLayout dy = bf16_map(output_shape(desc), dy_block);
      SCOPED_TRACE(x.tag + " and " + dy.tag);
      const auto rows =
          onednn::plan_gathered_rows(alone.context, desc, x, dy, onednn::to_desc(weight));
      ASSERT_NE(rows, nullptr);
      const Values dw =
          alone.computed(*rows, alone.fixture.to_layout(alone.in.inputs[0], x), dy, weight);
      EXPECT_TRUE(all_near(dw, alone.want.grad_parameters[0], conv_sums(desc).grad_parameter));
    }
}

TEST_P(TurnedWeights, WriteMapsOfEveryLayout) {
  Alone alone(GetParam().desc);
  const Conv2dDesc& desc = alone.desc;
  const OpMemory weights = alone.fixture.to_layout(alone.in.parameters[0], alone.weight);
  int planned = 0;
  for (const std::int64_t block : {0, 1, 8, 16}) {
    const TensorLayout x = bf16_map(desc.input.shape, block);
    const TensorLayout dy = bf16_map(output_shape(desc), block);
    SCOPED_TRACE(x.tag + " and " + dy.tag);
    const auto turned_weights =
        onednn::plan_turned_weights(alone.context, desc, x, dy, onednn::to_desc(alone.weight));
    if (turned_weights == nullptr) continue;  // the library has a plain loop for these
    ++planned;
    const Values dx = alone.computed(*turned_weights, weights, dy, x);
    EXPECT_TRUE(near_rounded(dx, alone.want.grad_inputs[0], conv_sums(desc).grad_input, x));
  }
  EXPECT_GE(planned, 2);
}

TEST_P(GatheredRows, HaveThePlanOfTheDirectWay) { expect_plan_of_direct_way(gathered); }
TEST_P(TurnedWeights, HaveThePlanOfTheDirectWay) { expect_plan_of_direct_way(turned); }

const auto kCaseName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Shapes, GatheredRows, ::testing::ValuesIn(gathered_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Shapes, TurnedWeights, ::testing::ValuesIn(turned_cases()), kCaseName);

TEST_F(Gradients, AreRefusedWhereThereAreNone) {
  const auto refuses = [](const Conv2dDesc& desc, onednn::ConvAlgorithm way,
                          DataType type = DataType::bf16) {
    auto context = std::make_shared<onednn::Context>();
    context->activations = type;
    try {
      return onednn::make_conv2d(std::move(context), desc, way) == nullptr;
    } catch (const InternalError&) {
      return true;
    }
  };
  const Conv2dDesc biased = conv({2, 32, 8, 8}, 32, 3, 1, 1), desc = without_bias(biased);
  Conv2dDesc groups = desc;
  groups.groups = 2;
  for (const auto way : {gathered, turned}) {
    EXPECT_FALSE(refuses(desc, way));
    EXPECT_TRUE(refuses(desc, way, DataType::fp32));
    EXPECT_TRUE(refuses(groups, way));
  }
  EXPECT_TRUE(refuses(biased, gathered));
  EXPECT_FALSE(refuses(biased, turned));
  const std::vector<Conv2dDesc> not_turned = {with(conv({2, 32, 8, 8}, 32, 3, 2, 2), {2, 2}, 0, 0),
                                              conv({2, 32, 8, 8}, 32, 3, 1, 3),
                                              conv({2, 24, 8, 8}, 32, 3, 1, 1),
                                              conv({2, 32, 8, 8}, 40, 3, 1, 1),
                                              conv({2, 32, 8, 8}, 32, 1, 2, 1),
                                              with(conv({2, 32, 8, 8}, 32, 1, 2), {}, 1, 1)};
  for (const Conv2dDesc& other : not_turned) EXPECT_TRUE(refuses(other, turned)) << where_of(other);
}

TEST(GradientTrial, RunsBothWaysAndItsResultStays) {
  struct Way {
    double seconds;
    double& now_s;
    int runs = 0;
    void operator()() { ++runs, now_s += seconds; }
  };
  double now_s = 0;
  const auto pays = [&now_s](const char* gradient, double direct_s, double other_s, int runs) {
    Way direct{direct_s, now_s}, other{other_s, now_s};
    const bool choice = onednn::other_way_pays(gradient, std::ref(direct), std::ref(other),
                                               [&now_s] { return now_s; });
    EXPECT_EQ(direct.runs, runs);
    EXPECT_EQ(other.runs, runs);
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
