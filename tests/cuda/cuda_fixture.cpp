// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cuda_fixture.h"

#include <algorithm>
#include <cmath>

#include "kernels/runtime/cuda_device.h"

namespace ddpbench::ops::testing {
namespace {

double largest(const Values& values) {
  double result = 0;
  for (const float v : values) result = std::max(result, std::abs(static_cast<double>(v)));
  return result;
}

}  // namespace

void CudaOps::skip_without_gpu() {
  const CudaProbe probe = probe_cuda();
  if (probe.devices.empty()) GTEST_SKIP() << "needs a GPU: " << probe.reason;
}

BackendFixture cuda_backend(const CudaBackendOptions& options) {
  return BackendFixture::on(make_cuda_device({.index = 0, .ordinal = 0}),
                            [&](Device& device) { return make_cuda_backend(device, options); });
}

std::string name_of(CudaPrecision precision) { return std::string(to_string(precision)); }

std::vector<CudaPrecision> precisions() {
  if (probe_cuda().devices.at(0).compute_capability < 80) return {CudaPrecision::fp32};
  return {CudaPrecision::fp32, CudaPrecision::tf32, CudaPrecision::bf16, CudaPrecision::fp16};
}

Values whole_values(std::int64_t count, std::uint32_t seed) {
  Values values = random_values(count, seed);
  for (float& v : values) v = std::round(2.4F * v);
  return values;
}

OpInputs whole_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in = random_inputs(op, seed);
  const auto replace = [&](Values& values) {
    values = whole_values(static_cast<std::int64_t>(values.size()), seed++);
  };
  std::for_each(in.inputs.begin(), in.inputs.end(), replace);
  std::for_each(in.parameters.begin(), in.parameters.end(), replace);
  replace(in.grad_output);
  if (in.parameters.size() == 2) {
    for (float& bias : in.parameters[1]) bias += 0.5F;
  }
  return in;
}

// What the roundings of a result are off by at most, of itself.
static double result_unit(CudaPrecision precision) {
  if (precision == CudaPrecision::fp16) return 0x1p-11;
  return precision == CudaPrecision::bf16 ? 0x1p-8 : 0;
}

double random_tolerance(CudaPrecision precision, std::int64_t terms, const Values& want) {
  const double sums = 10 * sum_tolerance(terms);
  if (precision == CudaPrecision::fp32) return sums;
  const double unit = precision == CudaPrecision::bf16   ? 0x1p-9
                      : precision == CudaPrecision::fp16 ? 0x1p-12
                                                         : 0x1p-10;
  const double products = 2.9 * unit * std::sqrt(static_cast<double>(terms + 1));
  return sums + products + result_unit(precision) * largest(want);
}

double whole_tolerance(CudaPrecision precision, const Values& want) {
  // Winograd's transforms are not exact: fp32 roundings of the largest result.
  const double sums = 0x1p-18 * largest(want);
  return sums + result_unit(precision) * largest(want);
}

}  // namespace ddpbench::ops::testing
