// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// dropout of the CUDA backend against the reference loops; everything is exact.
#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

using CudaDropout = CudaOps;

// Whole numbers times a power of two are exact in every type.
TEST_F(CudaDropout, EqualsTheReferenceInEveryType) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const Shape& shape : std::vector<Shape>{{1, 1}, {3, 64}, {5, 7}, {4, 200}, {3, 5, 7, 3}}) {
    DropoutDesc desc{.input = TensorLayout::plain(shape), .p = 0.5, .key = 77};
    const auto reference = plain.backend().make(desc);
    OpInputs in = whole_inputs(*reference, 1);
    in.step = (std::int64_t{3} << 32) + 5;
    in.draw = {.places = {.first = 1, .parts = 3, .part = 2}, .first_sample = 1};
    const OpOutputs want = run(plain, *reference, in);
    for (const DataType type : {DataType::fp32, DataType::bf16})
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        SCOPED_TRACE(to_string(shape));
        desc.input = TensorLayout::plain(shape, type);
        const auto op = fixture.backend().make(desc);
        EXPECT_EQ(op->plan().output, desc.input);
        expect_same_bits(run(fixture, *op, in, execution), want);
      }
  }
}

TEST_F(CudaDropout, CopiesInAnEvaluation) {
  BackendFixture fixture = cuda_backend();
  const auto op = fixture.backend().make(
      DropoutDesc{.input = cuda::nhwc_layout({2, 3, 4, 5}, DataType::bf16), .p = 0.5});
  EXPECT_TRUE(op->plan().output.is_plain());
  OpInputs in = whole_inputs(*op, 1);
  in.mode = Mode::evaluation;
  EXPECT_TRUE(same_bits(run(fixture, *op, in).output, in.inputs[0]));
}

TEST_F(CudaDropout, RefusesWhatIsNoProbabilityBelowOne) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().make(DropoutDesc{.input = TensorLayout::plain({2, 3}), .p = 1.0}),
               InternalError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
