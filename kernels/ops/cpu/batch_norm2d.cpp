// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d on the own kernels (kernels/ops/cpu/batch_norm.h), over the layout that the input
// has. With a map of S bytes, forward reads it twice and writes it once; backward reads x and dy
// twice and writes dx: 8 S. The ReLU costs nothing: backward computes again what it cut. The
// gradient of a fused addend, written with the sums, then stands for dy, both parts of it included.
//
// oneDNN's batch normalisation keeps no running statistics, overwrites the parameters' gradients,
// and before version 3 cannot add in the same pass.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/ops/cpu/batch_norm.h"
#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// The state, in the order of plain_plan().
constexpr std::size_t kRunningMean = 0, kRunningVar = 1, kBatches = 2;

class BatchNorm2d : public Op {
 public:
  BatchNorm2d(Team team, const BatchNorm2dDesc& desc)
      : Op(plain_plan(desc)), team_(team), desc_(desc) {
    const Shape& shape = plan_.output.shape;
    std::int64_t block = channel_block(desc.input);
    if (block > 0) {
      plan_.inputs.assign(plan_.inputs.size(), desc.input);
      plan_.output = desc.input;
    } else {
      block = 1;  // not a layout of these kernels: read it plain
    }
    channels_ = static_cast<std::size_t>(shape[1]);
    maps_ = {.batch = shape[0],
             .channels = shape[1],
             .pixels = shape[2] * shape[3],
             .inner = block,
             .type = plan_.output.type};
    plan_.saved_bytes = 2 * channels_ * sizeof(float);
    // A sum would hold its addend in place of the output.
    plan_.recomputes_output = !desc.fuse_add;
    plan_.adds_grad_outputs = true;
    const auto partial = static_cast<std::size_t>(maps_.partial_count());
    if (desc.parts != nullptr) parts_ = desc.parts->count();
    plan_.workspace_bytes =
        (partial + 2 * channels_ + gathered()) * sizeof(double) + 5 * channels_ * kFloat;
    plan_.description += fmt::format(" ({})", to_string(team_.simd));
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const Memory memory = divide(args.workspace);
    const void* const x = args.inputs[0];
    auto* const mean = static_cast<float*>(args.saved);
    float* const inv_std = mean + channels_;
    if (args.mode == Mode::training) {
      norm_statistics(team_, maps_, x, memory.partial, memory.first, memory.second);
      if (desc_.parts != nullptr) join_statistics(stream, memory);
      take_statistics(args, memory, mean, inv_std);
    } else {
      const auto* running_var = static_cast<const float*>(args.state[kRunningVar]);
      std::copy_n(static_cast<const float*>(args.state[kRunningMean]), channels_, mean);
      for (std::size_t c = 0; c < channels_; ++c) inv_std[c] = inverse(running_var[c]);
    }
    put_result(args);
  }

  void recompute(Stream&, const ForwardArgs& args) override { put_result(args); }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const Memory memory = divide(args.workspace);
    const void* const x = args.inputs[0];
    const auto* const mean = static_cast<const float*>(args.saved);
    const float* const inv_std = mean + channels_;
    find_line(args.parameters, mean, inv_std, memory);
    NormGradient gradient{.dy = args.grad_output,
                          .more = args.more_grad_output,
                          .mean = mean,
                          .relu = desc_.fuse_relu,
                          .y = args.output,
                          .scale = memory.scale,
                          .shift = memory.shift};
    void* const addend = desc_.fuse_add ? args.grad_inputs[1] : nullptr;
    norm_gradient_sums(team_, maps_, x, gradient, addend, memory.partial, memory.first,
                       memory.second);
    if (desc_.affine) put_gradients(args, memory, inv_std);
    // Sums over all parts serve the input's gradient alone.
    if (desc_.parts != nullptr && desc_.needs_grad_input) join_sums(stream, memory);
    void* const dx = args.grad_inputs[0];
    if (dx == nullptr) return;
    if (addend != nullptr) {
      gradient.dy = addend;
      gradient.more = nullptr;
      gradient.relu = false;
    }
    // dx = weight * inv_std * (g - sum(g) / n - (x - mean) inv_std^2 sum(g (x - mean)) / n)
    for (std::size_t c = 0; c < channels_; ++c) {
      const double factor = weight(args.parameters, c) * static_cast<double>(inv_std[c]);
      const double of_mean = factor / values();
      memory.a[c] = static_cast<float>(factor);
      memory.b[c] = static_cast<float>(-of_mean * memory.second[c] * inv_std[c] * inv_std[c]);
      memory.c[c] = static_cast<float>(-of_mean * memory.first[c]);
    }
    norm_backward(team_, maps_, x, gradient, memory.a, memory.b, memory.c, dx);
  }

 private:
  static constexpr std::size_t kFloat = sizeof(float);

  // The parts of the workspace. Values of channels have channels_ elements.
  struct Memory {
    double *partial, *first, *second;  // second follows first
    double* all;                       // first and second of every part
    float *scale, *shift;
    float *a, *b, *c;
  };
  Memory divide(void* workspace) const {
    Memory memory{};
    memory.partial = static_cast<double*>(workspace);
    memory.first = memory.partial + maps_.partial_count();
    memory.second = memory.first + channels_;
    memory.all = memory.second + channels_;
    memory.scale = reinterpret_cast<float*>(memory.all + gathered());
    memory.shift = memory.scale + channels_;
    memory.a = memory.shift + channels_;
    memory.b = memory.a + channels_;
    memory.c = memory.b + channels_;
    return memory;
  }

  std::size_t gathered() const { return desc_.parts == nullptr ? 0 : parts_ * 2 * channels_; }
  std::size_t exchange_bytes() const { return 2 * channels_ * sizeof(double); }
  // How many values a channel has, over all parts.
  double values() const { return maps_.values() * static_cast<double>(parts_); }

  void join_statistics(Stream& stream, const Memory& memory) const {
    desc_.parts->gather(stream, memory.first, memory.all, exchange_bytes());
    for (std::size_t c = 0; c < channels_; ++c) {
      const Moments joined = joined_moments(parts_, maps_.values(), [&](std::size_t p) -> Moments {
        const double* const of_part = memory.all + p * 2 * channels_;
        return {of_part[c], of_part[channels_ + c]};
      });
      memory.first[c] = joined.sum;
      memory.second[c] = joined.squares;
    }
  }

  // Adds up both sums in the order of the parts.
  void join_sums(Stream& stream, const Memory& memory) const {
    desc_.parts->gather(stream, memory.first, memory.all, exchange_bytes());
    for (std::size_t c = 0; c < 2 * channels_; ++c) {
      memory.first[c] = 0;
      for (std::size_t p = 0; p < parts_; ++p) memory.first[c] += memory.all[p * 2 * channels_ + c];
    }
  }

  float inverse(double variance) const {
    return static_cast<float>(1 / std::sqrt(variance + desc_.eps));
  }
  float weight(std::span<const void* const> parameters, std::size_t channel) const {
    return desc_.affine ? static_cast<const float*>(parameters[0])[channel] : 1.0F;
  }

  void take_statistics(const ForwardArgs& args, const Memory& memory, float* mean,
                       float* inv_std) const {
    const auto move = [this](void* running, std::size_t channel, double value) {
      float& r = static_cast<float*>(running)[channel];
      r = static_cast<float>((1 - desc_.momentum) * r + desc_.momentum * value);
    };
    for (std::size_t c = 0; c < channels_; ++c) {
      const double mean_of_all = memory.first[c] / values();
      mean[c] = static_cast<float>(mean_of_all);
      inv_std[c] = inverse(memory.second[c] / values());
      move(args.state[kRunningMean], c, mean_of_all);
      move(args.state[kRunningVar], c, memory.second[c] / (values() - 1));
    }
    ++*static_cast<std::int64_t*>(args.state[kBatches]);
  }

  // The result is scale * x + shift. From saved values alone, so that backward finds the same.
  void find_line(std::span<const void* const> parameters, const float* mean, const float* inv_std,
                 const Memory& memory) const {
    for (std::size_t c = 0; c < channels_; ++c) {
      const float bias = desc_.affine ? static_cast<const float*>(parameters[1])[c] : 0.0F;
      memory.scale[c] = weight(parameters, c) * inv_std[c];
      memory.shift[c] = static_cast<float>(bias - static_cast<double>(mean[c]) * memory.scale[c]);
    }
  }

  // The output, by the values that are saved.
  void put_result(const ForwardArgs& args) const {
    const Memory memory = divide(args.workspace);
    const auto* const mean = static_cast<const float*>(args.saved);
    find_line(args.parameters, mean, mean + channels_, memory);
    norm_forward(team_, maps_, args.inputs[0],
                 {.scale = memory.scale,
                  .shift = memory.shift,
                  .addend = desc_.fuse_add ? args.inputs[1] : nullptr,
                  .relu = desc_.fuse_relu},
                 args.output);
  }

  void put_gradients(const BackwardArgs& args, const Memory& memory, const float* inv_std) const {
    auto* const weights = static_cast<float*>(args.grad_parameters[0]);
    if (weights == nullptr) return;
    auto* const biases = static_cast<float*>(args.grad_parameters[1]);
    for (std::size_t c = 0; c < channels_; ++c) {
      const double of_weight = memory.second[c] * inv_std[c];
      weights[c] = static_cast<float>(args.accumulate ? weights[c] + of_weight : of_weight);
      biases[c] =
          static_cast<float>(args.accumulate ? biases[c] + memory.first[c] : memory.first[c]);
    }
  }

  Team team_;
  BatchNorm2dDesc desc_;
  NormMaps maps_;
  std::size_t channels_ = 0, parts_ = 1;
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const BatchNorm2dDesc& desc) {
  return std::make_unique<BatchNorm2d>(team, desc);
}

}  // namespace ddpbench::ops::cpu
