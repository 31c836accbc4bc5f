// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of cuBLASLt's algorithms a product takes. The stand-in refuses to run its second.
#include <gmock/gmock.h>

#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/planning_conditions.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

using ::testing::HasSubstr;

class CudaProduct : public ::testing::Test {
 protected:
  CudaProduct() { test::product_algorithms() = 3; }
  ~CudaProduct() override { test::product_algorithms() = 1; }

  static LinearDesc desc() {
    LinearDesc result = linear(Shape{3, 5}, 4);
    result.bias = true;
    result.needs_grad_input = true;
    return result;
  }
  static std::string description(const CudaBackendOptions& options) {
    BackendFixture fixture = cuda_backend(options);
    return fixture.backend().linear(desc())->description();
  }
  std::map<std::string, cuda::AlgorithmChoice> choices() const { return directory_.choices(); }

  CacheDirectory directory_;
  CudaBackendOptions options_{.cache_directory = directory_.path()};
};

TEST_F(CudaProduct, TakesTheFastestThatRunsAndRemembersItOnDisk) {
  {
    const PretendCosts first_is_slow({.first_product_ms = 1e4});
    EXPECT_THAT(description(options_), HasSubstr("algorithm 2)"));
  }
  EXPECT_EQ(choices().size(), 4U);  // forward, weight with and without the bias, data
  for (const auto& [key, choice] : choices()) EXPECT_EQ(choice.algorithm, 2) << key;
  const LittleMemory nothing_can_be_tried;
  EXPECT_THAT(description(options_), HasSubstr("algorithm 2)"));
}

TEST_F(CudaProduct, ComputesTheSameByAnyAlgorithm) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  BackendFixture cuda = cuda_backend({.precision = CudaPrecision::fp32}),
                 plain = BackendFixture::reference();
  const auto op = cuda.backend().linear(desc()), reference = plain.backend().linear(desc());
  const OpInputs inputs = whole_inputs(*reference, 1);
  const OpOutputs got = run(cuda, *op, inputs), want = run(plain, *reference, inputs);
  EXPECT_EQ(got.output, want.output);
  EXPECT_EQ(got.grad_inputs, want.grad_inputs);
  EXPECT_EQ(got.grad_parameters, want.grad_parameters);
}

TEST_F(CudaProduct, TakesTheHeuristicsFirstWithoutATrial) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  options_.deterministic = true;
  EXPECT_THAT(description(options_), HasSubstr("algorithm 0)"));
  options_.deterministic = false;
  const LittleMemory nothing_can_be_tried;
  EXPECT_THAT(description(options_), HasSubstr("algorithm 0)"));
  EXPECT_TRUE(choices().empty());
}

TEST_F(CudaProduct, MeasuresAgainWhenTheLibraryHasOthers) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  description(options_);
  const auto of_this_library = choices();
  auto beyond = of_this_library, other = of_this_library;
  for (auto& [key, choice] : beyond) choice.algorithm = 7;
  for (auto& [key, choice] : other) choice.algorithm = 0;  // with the workspace of another one
  for (const auto& stale : {beyond, other}) {
    directory_.write(stale);
    description(options_);
    EXPECT_EQ(choices(), of_this_library);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
