// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference backend. Its optimizers, mean and loss compute in double precision (optimizer.h,
// backend.h and flat_ops.h have their formulas). The gather is that of every CPU backend; encodings
// are exact rules, and those of the others in one thread.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/ops/backend.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops {
namespace {

double descend(const OptimizerOptions& o, const OptimizerState& state, std::size_t k,
               double gradient) {
  if (o.momentum == 0) return gradient;
  const double velocity = o.momentum * state.slots[0][k] + gradient;
  state.slots[0][k] = static_cast<float>(velocity);
  return o.nesterov ? gradient + o.momentum * velocity : velocity;
}

double adapt(const OptimizerOptions& o, const OptimizerState& state, std::size_t k,
             double gradient) {
  const auto updates = static_cast<double>(state.step->updates);
  const double mean = o.beta1 * state.slots[0][k] + (1 - o.beta1) * gradient;
  const double square = o.beta2 * state.slots[1][k] + (1 - o.beta2) * gradient * gradient;
  state.slots[0][k] = static_cast<float>(mean);
  state.slots[1][k] = static_cast<float>(square);
  const double size = std::sqrt(square / (1 - std::pow(o.beta2, updates)));
  return mean / (1 - std::pow(o.beta1, updates)) / (size + o.epsilon);
}

void gather_sample(const GatherArgs& args, const std::uint8_t* bytes, float* out) {
  const std::int64_t pixels = args.sample_elements / args.channels;
  for (std::int64_t c = 0; c < args.channels; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const ByteScale scale = byte_scale(args.mean[channel], args.std[channel]);
    for (std::int64_t i = c * pixels; i < (c + 1) * pixels; ++i) {
      out[i] = static_cast<float>(bytes[i]) * scale.factor + scale.offset;
    }
  }
}

// Of prediction i. d loss_i / d x_ij = softmax(x_i)_j - s / classes - (1 - s) [j = label_i].
void predict(const CrossEntropyDesc& desc, const LossArgs& args, std::int64_t i, LossTotals& sums) {
  const std::int64_t stride = desc.positions;
  const std::int64_t first = i / stride * desc.classes * stride + i % stride;
  const auto at = [&](std::size_t j) { return first + static_cast<std::int64_t>(j) * stride; };
  const auto label = static_cast<std::size_t>(args.labels[i]);
  std::vector<double> x(static_cast<std::size_t>(desc.classes));
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = args.logits[at(j)];
  const auto best = static_cast<std::size_t>(std::ranges::max_element(x) - x.begin());
  const double largest = x[best];
  double sum = 0, gaps = 0;
  for (const double logit : x) {
    sum += std::exp(logit - largest);
    gaps += largest - logit;
  }
  const double spread = desc.label_smoothing / static_cast<double>(desc.classes);
  const double kept = 1 - desc.label_smoothing;
  sums.loss_sum += std::log(sum) + kept * (largest - x[label]) + spread * gaps;
  sums.correct += best == label ? 1 : 0;
  if (args.predicted) args.predicted[i] = static_cast<std::int32_t>(best);
  ++sums.counted;
  for (std::size_t j = 0; args.grad_logits && j < x.size(); ++j) {
    const double target = spread + (j == label ? kept : 0);
    const double share = std::exp(x[j] - largest) / sum;
    args.grad_logits[at(j)] = static_cast<float>(gradient_scale(desc, args) * (share - target));
  }
}

class ReferenceBackend : public OpBackend {
 public:
  std::string name() const override { return "reference"; }

  void loss(Stream&, const CrossEntropyDesc& desc, const LossArgs& args) override {
    check_loss(desc);
    if (args.grad_logits) {
      std::fill_n(args.grad_logits, desc.batch * desc.classes * desc.positions, 0.0F);
    }
    LossTotals sums;
    for (std::int64_t i = 0; i < args.samples * desc.positions; ++i) {
      if (args.labels[i] != desc.ignore_index) predict(desc, args, i, sums);
    }
    add_output(*args.totals, sums, desc);
  }

  void update(Stream&, const OptimizerArgs& args) override {
    const OptimizerOptions& o = args.options;
    const OptimizerState state = state_of(args);
    if (args.loss_scale != nullptr && args.loss_scale->overflow != 0) return;
    const double scale =
        args.grad_scale / (args.loss_scale != nullptr ? args.loss_scale->scale : 1.0);
    if (state.step != nullptr && args.state_first == 0) advance(o, *state.step);
    const double lr = learning_rate(o, state.step != nullptr ? state.step->updates - 1 : 0);
    const bool decoupled = o.kind == OptimizerKind::adamw;
    for (std::size_t k = 0; k < args.count; ++k) {
      const double gradient = static_cast<double>(args.gradients[k]) * scale +
                              (decoupled ? 0 : o.weight_decay * args.weights[k]);
      const double moved =
          o.is_adaptive() ? adapt(o, state, k, gradient) : descend(o, state, k, gradient);
      const double kept = decoupled ? 1 - lr * o.weight_decay : 1;
      args.weights[k] = static_cast<float>(kept * args.weights[k] - lr * moved);
    }
  }

  void find_overflow(Stream&, const float* gradients, std::size_t count,
                     LossScale* scale) override {
    cpu::find_overflow({}, gradients, static_cast<std::int64_t>(count), scale);
  }

  void mean(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const float* input : inputs) sum += input[i];
      out[i] = static_cast<float>(sum / static_cast<double>(inputs.size()));
    }
  }

  void encode(Stream&, const EncodeArgs& args) override { cpu::encode({}, args); }
  void decode(Stream&, const DecodeArgs& args) override { cpu::decode({}, args); }
  void orthonormalize(Stream&, const OrthonormalArgs& args) override { cpu::orthonormalize(args); }

  void gather(Stream&, const GatherArgs& args) override { reference::gather(args); }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    if (!from_layout.is_plain() || !to_layout.is_plain() || from_layout.bytes != to_layout.bytes)
      reference::refuse_layouts("convert", from_layout, to_layout);
    std::memcpy(to, from, from_layout.bytes);
  }

 private:
  std::unique_ptr<Op> make_whole(const OpDesc& desc) override {
    return std::visit([](const auto& d) { return reference::make_op(d); }, desc);
  }
};

}  // namespace

void reference::gather(const GatherArgs& args) {
  check_gather(args);
  const std::int32_t* indices =
      args.indices + (args.position != nullptr ? static_cast<std::int64_t>(*args.position) : 0);
  for (std::int64_t n = 0; n < args.batch; ++n) {
    const std::int64_t sample = indices[n];
    gather_sample(args, args.images + sample * args.sample_elements,
                  args.out + n * args.sample_elements);
    std::copy_n(args.labels + sample * args.labels_per_sample, args.labels_per_sample,
                args.labels_out + n * args.labels_per_sample);
  }
}

std::unique_ptr<OpBackend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace ddpbench::ops
