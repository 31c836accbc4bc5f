// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// 9 bytes an element each way, and forward a quarter of a Philox counter. Drawing takes 1.3 ns an
// element on one core (Zen 4, AVX2; portable 4.2), reading what forward kept 0.1 ns from the cache.
// So backward reads a byte an element, as PyTorch does, and does not draw again.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

constexpr auto kCounters = static_cast<std::size_t>(kMaskLanes);

// Counters side by side: word w of lane l, of element 16 w + l, is word[w * kCounters + l].
struct MaskLanes {
  std::uint32_t word[kMaskGroup];
};

// philox4x32 (base/random.h) on all lanes. The compiler vectorises its products only in loops of
// their own: with philox_round in one loop it takes 7.4 ns an element.
constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;

constexpr std::uint32_t upper_half(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}

__attribute__((always_inline)) inline void draw_lanes(const DropoutMask& mask, std::uint32_t first,
                                                      std::uint32_t place, std::int64_t step,
                                                      MaskLanes& lanes) {
  std::uint32_t* const c0 = lanes.word;
  std::uint32_t *const c1 = c0 + kCounters, *const c2 = c1 + kCounters, *const c3 = c2 + kCounters;
  const auto bits = static_cast<std::uint64_t>(step);
  const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
  for (std::size_t l = 0; l < kCounters; ++l) {
    c0[l] = first + static_cast<std::uint32_t>(l);
    c1[l] = place;
    c2[l] = low;
    c3[l] = high;
  }
  std::uint32_t high0[kCounters], high1[kCounters], low0[kCounters], low1[kCounters];
  std::uint32_t key0 = mask.key0, key1 = mask.key1;
  for (int round = 0; round < kPhiloxRounds; ++round) {
#pragma GCC ivdep
    for (std::size_t l = 0; l < kCounters; ++l) high0[l] = upper_half(c0[l], kPhiloxMultiplier0);
#pragma GCC ivdep
    for (std::size_t l = 0; l < kCounters; ++l) high1[l] = upper_half(c2[l], kPhiloxMultiplier1);
#pragma GCC ivdep
    for (std::size_t l = 0; l < kCounters; ++l) {
      low0[l] = c0[l] * kPhiloxMultiplier0;
      low1[l] = c2[l] * kPhiloxMultiplier1;
    }
#pragma GCC ivdep
    for (std::size_t l = 0; l < kCounters; ++l) {
      c0[l] = high1[l] ^ c1[l] ^ key0;
      c1[l] = low1[l];
      c2[l] = high0[l] ^ c3[l] ^ key1;
      c3[l] = low0[l];
    }
    philox_next_key(key0, key1);
  }
}

// Networks have it on the features that linear layers make or read, whose order is the plain one.
class Dropout : public DropoutOp {
 public:
  Dropout(Team team, const DropoutDesc& desc)
      : DropoutOp({.input = TensorLayout::plain(desc.input.shape), .p = desc.p, .key = desc.key}),
        team_(team) {
    plan_.saved_bytes = static_cast<std::size_t>(samples() * elements());
  }

  void forward(Stream&, const ForwardArgs& args) override {
    if (args.mode == Mode::evaluation) {
      std::memcpy(args.output, args.inputs[0], plan_.output.bytes);
      return;
    }
    const std::int64_t groups = ceil_div(elements(), kMaskGroup);  // of a sample
    const int threads = samples() * elements() < kMinParallelElements ? 1 : team_.threads;
    parallel_shares(threads, samples() * groups, 1,
                    [&](int, std::int64_t begin, std::int64_t end) { drop(args, begin, end); });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    const auto* const kept = static_cast<const std::uint8_t*>(args.saved);
    const auto* const dy = static_cast<const float*>(args.grad_output);
    auto* const dx = static_cast<float*>(args.grad_inputs[0]);
    parallel_elements(team_.threads, samples() * elements(),
                      [=, this](std::int64_t begin, std::int64_t end) {
                        run_simd(team_.simd, [=, scale = mask_.scale]() DDPBENCH_SIMD_BODY {
                          const float factor = scale;
#pragma GCC ivdep
                          for (std::int64_t i = begin; i < end; ++i)
                            dx[i] = dy[i] * (kept[i] != 0 ? factor : 0.0F);
                        });
                      });
  }

 private:
  // Groups [begin, end) of all samples' groups. What is saved gets 0 or 1 an element.
  void drop(const ForwardArgs& args, std::int64_t begin, std::int64_t end) const {
    run_simd(team_.simd, [=, this, &args]() DDPBENCH_SIMD_BODY {
      // Copies: stores may alias what the lambda captured, which would keep loops from vectors.
      const DropoutMask drawn = mask_;
      const auto* const from = static_cast<const float*>(args.inputs[0]);
      auto* const to = static_cast<float*>(args.output);
      auto* const keeps = static_cast<std::uint8_t*>(args.saved);
      const RandomDraw draw = args.draw;
      const std::int64_t all = elements(), groups = ceil_div(all, kMaskGroup), step = *draw.step;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t sample = i / groups, group = i % groups;
        const auto place = static_cast<std::uint32_t>(draw.places.of(draw.first_sample + sample));
        MaskLanes lanes;
        draw_lanes(drawn, static_cast<std::uint32_t>(group * kMaskLanes), place, step, lanes);
        const std::int64_t first = sample * all + group * kMaskGroup;
        const std::int64_t count = std::min(kMaskGroup, all - group * kMaskGroup);
#pragma GCC ivdep
        for (std::int64_t k = 0; k < count; ++k) {
          to[first + k] = from[first + k] * (lanes.word[k] < drawn.threshold ? 0.0F : drawn.scale);
        }
#pragma GCC ivdep
        for (std::int64_t k = 0; k < count; ++k) {
          keeps[first + k] = lanes.word[k] < drawn.threshold ? 0 : 1;
        }
      }
    });
  }

  Team team_;
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const DropoutDesc& desc) {
  return std::make_unique<Dropout>(team, desc);
}

}  // namespace ddpbench::ops::cpu
