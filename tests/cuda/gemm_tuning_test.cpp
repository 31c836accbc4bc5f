// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The choice among cuBLASLt's algorithms for a product. The stand-in refuses to run its second.
#include <gmock/gmock.h>

#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/planning_conditions.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

using ::testing::HasSubstr;

class CudaGemm : public ::testing::Test {
 protected:
  CudaGemm() { test::products().algorithms = 3; }
  ~CudaGemm() override { test::products() = {}; }

  static LinearDesc desc() {
    LinearDesc result = linear(Shape{3, 5}, 4);
    result.bias = true;
    result.needs_grad_input = true;
    return result;
  }
  static std::string description(const CudaBackendOptions& options) {
    BackendFixture fixture = cuda_backend(options);
    return fixture.backend().make(desc())->plan().description;
  }
  std::map<std::string, cuda::AlgorithmChoice> choices() const { return directory_.choices(); }

  CacheDirectory directory_;
  CudaBackendOptions options_{.cache_directory = directory_.path()};
};

TEST_F(CudaGemm, TakesTheFastestThatRunsAndRemembersItOnDisk) {
  {
    const PretendCosts first_is_slow({.first_product_ms = 1e4});
    EXPECT_THAT(description(options_), HasSubstr("candidate 2)"));
  }
  EXPECT_EQ(choices().size(), 4U);  // forward, weight with and without the bias, data
  const LittleMemory nothing_can_be_tried;
  EXPECT_THAT(description(options_), HasSubstr("candidate 2)"));
}

// In a library whose list has the same algorithms in another order.
TEST_F(CudaGemm, KnowsAnAlgorithmByWhatItIsNotByItsPlace) {
  {
    const PretendCosts first_is_slow({.first_product_ms = 1e4});
    description(options_);
  }
  test::products() = {.algorithms = 4, .backwards = true};
  const LittleMemory nothing_can_be_tried;
  EXPECT_THAT(description(options_), HasSubstr("candidate 1)"));
}

TEST_F(CudaGemm, ComputesTheSameByAnyAlgorithm) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc());
  OpInputs inputs = whole_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, inputs);
  for (const CudaPrecision precision : {CudaPrecision::fp32, CudaPrecision::bf16}) {
    BackendFixture cuda = cuda_backend({.precision = precision});
    const auto op = cuda.backend().make(desc());
    EXPECT_THAT(op->plan().description, HasSubstr("candidate 2)"));
    expect_same_bits(run(cuda, *op, inputs), want);  // whole numbers, small enough for bf16
  }
}

TEST_F(CudaGemm, TakesTheHeuristicsFirstWithoutATrial) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  options_.deterministic = true;
  EXPECT_THAT(description(options_), HasSubstr("candidate 0)"));
  options_.deterministic = false;
  const LittleMemory nothing_can_be_tried;
  EXPECT_THAT(description(options_), HasSubstr("candidate 0)"));
  EXPECT_TRUE(choices().empty());
}

TEST_F(CudaGemm, RemembersNothingOfATrialInWhichNoneRan) {
  test::products().refused = true;
  EXPECT_THAT(description(options_), HasSubstr("candidate 0)"));
  EXPECT_TRUE(choices().empty());
}

TEST_F(CudaGemm, MeasuresAgainWhenTheLibraryHasOthers) {
  const PretendCosts first_is_slow({.first_product_ms = 1e4});
  description(options_);
  const auto of_this_library = choices();
  auto unknown = of_this_library, other = of_this_library;
  for (auto& [key, choice] : unknown) ++choice.algorithm;
  for (auto& [key, choice] : other) ++choice.workspace_bytes;
  for (const auto& stale : {unknown, other}) {
    directory_.write(stale);
    description(options_);
    EXPECT_EQ(choices(), of_this_library);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
