// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// k operations and 4 (k + 1) bytes an element for k inputs: bound by memory bandwidth. The loop
// works in blocks that stay in the L1 cache while the inputs are added one by one.
#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/parallel.h"

namespace ddpbench::ops::cpu {
namespace {

constexpr std::int64_t kBlock = 2048;  // 8 KiB of sums

class BlockedMean final : public Mean {
 public:
  explicit BlockedMean(Team team) : team_(team) {}

  void run(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    ensure(!inputs.empty(), "the mean of no buffers");
    parallel_elements(team_.threads, static_cast<std::int64_t>(count),
                      [&](std::int64_t begin, std::int64_t end) {
                        for (; begin < end; begin += kBlock) {
                          block(inputs, out, begin, std::min(begin + kBlock, end));
                        }
                      });
  }

 private:
  void block(std::span<const float* const> inputs, float* out, std::int64_t begin,
             std::int64_t end) const {
    float sums[kBlock];
    std::copy(inputs[0] + begin, inputs[0] + end, sums);
    for (const float* input : inputs.subspan(1)) {
      const float* in = input + begin;
      run_simd(team_.simd, [&sums, in, n = end - begin]() DDPBENCH_SIMD_BODY {
        for (std::int64_t i = 0; i < n; ++i) sums[i] += in[i];
      });
    }
    const auto divisor = static_cast<float>(inputs.size());
    run_simd(team_.simd, [&sums, to = out + begin, divisor, n = end - begin]() DDPBENCH_SIMD_BODY {
      for (std::int64_t i = 0; i < n; ++i) to[i] = sums[i] / divisor;
    });
  }

  Team team_;
};

}  // namespace

std::unique_ptr<Mean> make_mean(Team team) { return std::make_unique<BlockedMean>(team); }

}  // namespace ddpbench::ops::cpu
