// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that are no Op, since they need no layouts: the loss and the assembly of a batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/math.h"
#include "kernels/ops/loss_scale.h"
#include "kernels/ops/tensor_layout.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

// ---- softmax cross-entropy with its gradient, and the running totals that it keeps ----

// It lives in device memory. The loss adds to it; it is read at the end of an epoch.
struct LossTotals {
  double loss_sum = 0;        // sum over predictions, natural logarithm
  std::uint64_t correct = 0;  // those whose largest logit is the label's (first wins a tie)
  std::uint64_t counted = 0;  // predictions whose label is not ignored
  // A step adds the loss of the output first, then those of the auxiliary outputs.
  std::uint64_t steps = 0;
  std::uint64_t diverged_step = 0;  // the first, from 1, whose losses are not finite; 0: none

  // Adds the totals of other predictions in the same steps.
  LossTotals& operator+=(const LossTotals& part) {
    loss_sum += part.loss_sum;
    correct += part.correct;
    counted += part.counted;
    steps = std::max(steps, part.steps);
    const auto [earlier, later] = std::minmax({diverged_step, part.diverged_step});
    diverged_step = earlier == 0 ? later : earlier;
    return *this;
  }
};

// No label is negative.
inline constexpr std::int32_t kIgnoresNothing = -1;

// The loss of one output. A sample has `positions` predictions: one, or one for each pixel of a
// map. A prediction whose label is `ignore_index` has no loss and no gradient, and is not counted.
struct CrossEntropyDesc {
  std::int64_t batch = 0, classes = 0;
  std::int64_t positions = 1;
  double label_smoothing = 0;  // in [0, 1]
  std::int32_t ignore_index = kIgnoresNothing;
  double weight = 1;        // multiplies loss and gradient
  bool counts_hits = true;  // false: adds to the totals' loss alone (an auxiliary output)
};

struct LossArgs {
  const float* logits = nullptr;  // [batch, classes, positions], plain
  // [batch, positions], each in [0, classes) or ignored.
  const std::int32_t* labels = nullptr;
  std::int64_t samples = 0;  // the first `samples` of the batch count; at most the batch
  float grad_scale = 1;      // gradient of (grad_scale * valid_weight * sum of losses)
  // In device memory, and read when the work runs, so that it may differ between replays of a step.
  // It is the number of predictions in the global batch divided by the number of those that count.
  // A scale of 1 / predictions then gives the mean over those that count. Null: 1.
  const float* valid_weight = nullptr;
  const LossScale* loss_scale = nullptr;  // likewise: multiplies the gradient; null: 1
  float* grad_logits = nullptr;  // as logits, 0 for samples past `samples`; null: evaluation
  LossTotals* totals = nullptr;  // in device memory; added to
  // [batch, positions]: of each prediction that counts, the class with the largest logit (first
  // wins a tie); null: not wanted.
  std::int32_t* predicted = nullptr;
  void* workspace = nullptr;  // of OpBackend::loss_workspace_bytes(); free between calls
};

// loss_i = log(sum_j exp(x_ij)) - (1 - s) x_i,label - s mean_j(x_ij) for the smoothing s, computed
// after subtracting the largest logit. (Szegedy et al., CVPR 2016, section 7, as PyTorch has it:
// the label's share of the target is 1 - s + s / classes.)
//
// Throws ConfigError for an empty shape or a smoothing that is no share.
void check_loss(const CrossEntropyDesc& desc);
// "softmax_cross_entropy on [64, 10]", for messages.
std::string describe(const CrossEntropyDesc& desc);

// The factor of the gradient, where the host can read the device's memory.
inline float gradient_scale(const CrossEntropyDesc& desc, const LossArgs& args) {
  const float weight = args.valid_weight != nullptr ? *args.valid_weight : 1.0F;
  const float scale = args.loss_scale != nullptr ? args.loss_scale->scale : 1.0F;
  return args.grad_scale * weight * static_cast<float>(desc.weight) * scale;
}

// Adds the sums over all predictions of one output in one step to the totals. `desc` has `weight`
// and `counts_hits` as CrossEntropyDesc.
template <typename Sums, typename Desc>
DDPBENCH_HOST_DEVICE inline void add_output(LossTotals& totals, const Sums& sums,
                                            const Desc& desc) {
  const double loss_sum = static_cast<double>(desc.weight) * sums.loss_sum;
  totals.loss_sum += loss_sum;
  if (desc.counts_hits) {
    totals.correct += sums.correct;
    totals.counted += sums.counted;
    ++totals.steps;
  }
  const bool is_finite = loss_sum - loss_sum == 0;
  if (!is_finite && totals.diverged_step == 0) totals.diverged_step = totals.steps;
}

// ---- batch gather ----

// Assembles a batch on the device from a data set in the device's memory: picks the samples,
// normalises them, widens the labels. It reads 1 byte and writes 4 bytes an element.
//
// All pointers are to device memory.
struct GatherArgs {
  const std::uint8_t* images = nullptr;  // [count, sample_elements]; a sample is [channels, pixels]
  const std::uint16_t* labels = nullptr;  // [count, labels_per_sample]
  const std::int32_t* indices = nullptr;  // of samples; batch of them are used
  // Where in `indices` the batch begins. It is read when the work runs, so that a recorded step can
  // move on through an epoch. Null: at the first.
  const std::uint64_t* position = nullptr;
  std::int64_t batch = 0;
  std::int64_t sample_elements = 0;
  std::int64_t labels_per_sample = 1;
  std::int64_t channels = 1;           // divides sample_elements
  std::span<const double> mean, std;   // one a channel, of bytes / 255; read before run() returns
  float* out = nullptr;                // [batch, sample_elements]
  std::int32_t* labels_out = nullptr;  // [batch, labels_per_sample]
};

// (byte / 255 - mean) / std = byte * factor + offset, rounded as the loader rounds: a batch has the
// same bits on host and device.
struct ByteScale {
  float factor = 1, offset = 0;
};
inline ByteScale byte_scale(double mean, double std) {
  return {static_cast<float>(1 / (255 * std)), static_cast<float>(-mean / std)};
}

// The check that all backends make.
void check_gather(const GatherArgs& args);

}  // namespace ddpbench::ops
