// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of CUDA's operations share: a backend on the GPU, inputs, and the tolerances of
// results against the reference.
//
// Roundings of random factors in [-1, 1). Each of a product's two factors is off by at most u of
// itself: u = 2^-10 in TF32 (10 bits; hardware may cut off instead of rounding), u = 2^-9 in bf16
// (7 bits, to the nearest), u = 2^-12 in fp16 (10 bits). The products have a root mean square of
// 1/3. So one is off by sqrt(2) u / 3, and a sum of n, with random signs, by sqrt(2 n) u / 3; six
// times that is 2.9 u sqrt(n). The sum itself is fp32 (sum_tolerance), with ten times its tolerance
// where the library may use Winograd. A bf16 result is rounded once or, where the bias is added
// apart, twice: 2^-8 of the largest; fp16: 2^-11.
//
// Small whole numbers and their sums below 2^24 are exact in every precision. Only the rounding of
// a bf16 result is left, which keeps zero. So with them a ReLU cuts off the same elements in every
// precision.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/ops/cuda_backend.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {

class CudaOps : public ::testing::Test {
 protected:
  void SetUp() override { skip_without_gpu(); }
  static void skip_without_gpu();
};

// Throws where there is no GPU.
BackendFixture cuda_backend(const CudaBackendOptions& options = {});
std::string name_of(CudaPrecision precision);
// The precisions that the GPU has.
std::vector<CudaPrecision> precisions();

// Whole numbers in [-2, 2].
Values whole_values(std::int64_t count, std::uint32_t seed);
// An operation's inputs as whole numbers. Biases lie in the middle between two, so that no value is
// near a ReLU's kink.
OpInputs whole_inputs(const Op& op, std::uint32_t seed);

// The tolerance of a sum of `terms` products of random values.
double random_tolerance(CudaPrecision precision, std::int64_t terms, const Values& want);
// The same for whole numbers.
double whole_tolerance(CudaPrecision precision, const Values& want);

}  // namespace ddpbench::ops::testing
