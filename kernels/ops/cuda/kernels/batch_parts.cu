// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread a channel, in the order of parts, so that all parts find the same bits; then a thread an
// element: it moves 3 times the bytes of a map.
#include "kernels/ops/cuda/kernels/batch_parts.h"

#include <cmath>

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

// As joined_moments (kernels/ops/batch_parts.h), which device code cannot call.
struct JoinStatistics {
  NormParts norm;
  JoinedStatistics args;

  __host__ __device__ const float* part(std::uint32_t p) const {
    return args.gathered + 2 * static_cast<std::size_t>(p) * norm.channels;
  }
  __host__ __device__ void operator()(std::uint32_t c) const {
    double mean = 0, squares = 0;
    for (std::uint32_t p = 0; p < norm.parts; ++p) mean += part(p)[c];
    mean /= norm.parts;
    for (std::uint32_t p = 0; p < norm.parts; ++p) {
      const double deviation = part(p)[c] - mean, inverse = part(p)[norm.channels + c];
      squares += norm.values * (1 / (inverse * inverse) - norm.eps + deviation * deviation);
    }
    const double all = norm.values * norm.parts;
    if (squares < 0) squares = 0;  // rounding
    args.mean[c] = static_cast<float>(mean);
    args.variance[c] = static_cast<float>(squares / all);
    args.inv_std[c] = static_cast<float>(1 / sqrt(squares / all + norm.eps));
    move(args.running_mean[c], mean);
    move(args.running_var[c], squares / (all - 1));
  }
  __host__ __device__ void move(float& running, double value) const {
    running = static_cast<float>((1 - args.momentum) * running + args.momentum * value);
  }
};

// With S the sums of g and P those of g x^: dx = w inv_std (g - S / n - x^ P / n), of which cuDNN's
// has the part's S, P and n.
struct FindFactors {
  NormParts norm;
  CorrectedGradient args;

  __host__ __device__ void operator()(std::uint32_t c) const {
    double product = 0, sum = 0;
    for (std::uint32_t p = 0; p < norm.parts; ++p) {
      const float* const part = args.gathered + 2 * static_cast<std::size_t>(p) * norm.channels;
      product += part[c];
      sum += part[norm.channels + c];
    }
    const double inverse = args.inv_std[c], by = args.weight[c] * inverse;
    const double all = norm.values * norm.parts;
    args.factors[c] =
        static_cast<float>(by * (args.own[norm.channels + c] / norm.values - sum / all));
    args.factors[norm.channels + c] =
        static_cast<float>(by * inverse * (args.own[c] / norm.values - product / all));
  }
};

template <typename T>
struct AddLine {
  CorrectedGradient args;
  std::uint32_t channels;
  Divisor pixels, of_channels;

  __host__ __device__ void operator()(std::uint32_t i) const {
    std::uint32_t c = pixels.quotient(i);
    c = of_channels.split(c);
    const float deviation = to_float(static_cast<const T*>(args.x)[i]) - args.mean[c];
    T& dx = static_cast<T*>(args.dx)[i];
    dx = from_float<T>(to_float(dx) + args.factors[c] + args.factors[channels + c] * deviation);
  }
};

}  // namespace

cudaError_t join_statistics(const NormParts& norm, const JoinedStatistics& args,
                            cudaStream_t stream) {
  return for_each(norm.channels, stream, JoinStatistics{norm, args});
}

cudaError_t correct_gradient(const NormParts& norm, const CorrectedGradient& args,
                             cudaStream_t stream) {
  const cudaError_t status = for_each(norm.channels, stream, FindFactors{norm, args});
  if (status != cudaSuccess) return status;
  return with_element_type(args.type, [&](auto element) {
    return for_each(args.count, stream,
                    AddLine<decltype(element)>{args, norm.channels, Divisor(args.pixels),
                                               Divisor(norm.channels)});
  });
}

}  // namespace ddpbench::ops::cuda
