// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's fastest algorithm and an own kernel are timed as the operation would run them: with
// all passes around the library's call, recorded and replayed as in a step.
#include "kernels/ops/cuda/library/convolution_tuning.h"

#include <array>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/cuda/library/autotuner.h"
#include "kernels/ops/cuda/library/convolution_candidates.h"
#include "kernels/ops/cuda/library/convolution_pass.h"

namespace ddpbench::ops::cuda {
namespace {

const char* name_of(ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward) return "forward";
  return pass == ConvolutionPass::backward_data ? "backward data" : "backward filter";
}

// The memory and the stream for trials of one pass. The pass touches no more memory than in a step,
// so that a batch that can be trained can be tried.
class PassTuning {
 public:
  PassTuning(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass)
      : shape_(shape),
        is_forward_(pass == ConvolutionPass::forward),
        x_(activation_bytes(shape.x_count), shape.where),
        y_(is_forward_ || shape.relu ? activation_bytes(shape.y_count) : 0, shape.where),
        dy_(is_forward_ ? 0 : activation_bytes(shape.y_count), shape.where),
        w_(parameter_bytes(shape.w_count), shape.where),
        bias_(parameter_bytes(shape.out_channels), shape.where),
        bf16_w_(bf16_bytes(shape.w_count), shape.where),
        bf16_bias_(bf16_bytes(shape.out_channels), shape.where),
        tuning_(context) {
    fill(shape.type, x_, shape.x_count);
    fill(shape.type, y_, shape.y_count);
    fill(shape.type, dy_, shape.y_count);
    fill(DataType::fp32, w_, shape.w_count);
    fill(DataType::fp32, bias_, shape.out_channels);
    fill(DataType::bf16, bf16_w_, shape.w_count);
    fill(DataType::bf16, bf16_bias_, shape.out_channels);
  }

  double time_s(const ForwardPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<const void*, 2> parameters = {w_.data(), bias_.data()};
    const std::array<const void*, 2> bf16 = {bf16_w_.data(), bf16_bias_.data()};
    return tuning_.recorded_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .parameters = parameters,
                .workspace = workspace.data(),
                .bf16_weights = bf16},
               tuning_.native());
    });
  }

  double time_s(const FilterPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<void*, 2> gradients = {w_.data(), bias_.data()};
    return tuning_.recorded_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .grad_output = dy_.data(),
                .grad_parameters = gradients,
                .workspace = workspace.data()},
               tuning_.native());
    });
  }

 private:
  std::size_t activation_bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(shape_.type);
  }
  static std::size_t parameter_bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  // The size of a bf16 copy, which only forward reads.
  std::size_t bf16_bytes(std::int64_t count) const {
    return is_forward_ && shape_.type == DataType::bf16 ? activation_bytes(count) : 0;
  }

  void fill(DataType type, const PlanningMemory& memory, std::int64_t count) {
    tuning_.fill(type, memory, count, shape_.where);
  }

  const ConvolutionShape& shape_;
  bool is_forward_;
  PlanningMemory x_, y_, dy_, w_, bias_;  // w and bias, or their gradients
  PlanningMemory bf16_w_, bf16_bias_;
  TuningStream tuning_;
};

MeasuredAlgorithm measured(const Context& context, const ConvolutionShape& shape,
                           ConvolutionPass pass, const AlgorithmChoice& choice) {
  PassTuning tuning(context, shape, pass);
  const double time = pass == ConvolutionPass::forward
                          ? tuning.time_s(ForwardPass(context, shape, choice))
                          : tuning.time_s(FilterPass(context, shape, choice));
  return {.choice = choice, .runs = true, .repeatable = true, .time_s = time};
}

AlgorithmChoice own_choice(const ConvolutionShape& shape, ConvolutionPass pass) {
  AlgorithmChoice choice{.algorithm = kOwnKernel, .math = CUDNN_FMA_MATH};
  if (pass == ConvolutionPass::backward_filter) {
    choice.workspace_bytes = few_channel_workspace_bytes(*shape.few_channels);
  }
  return choice;
}

// The kinds of candidates. In a deterministic run an own kernel is taken untried: no measurement
// may decide the bits, since its result differs from day to day.
struct Kinds {
  bool own, library;
};

Kinds kinds_for(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass) {
  const CudaBackendOptions& options = context.options;
  const bool own = shape.few_channels && pass != ConvolutionPass::backward_data &&
                   options.convolutions != ConvolutionKernels::library;
  const bool tried = options.convolutions == ConvolutionKernels::measured && !options.deterministic;
  return {own, !own || tried};
}

std::optional<AlgorithmChoice> fastest(const Context& context, const ConvolutionShape& shape,
                                       ConvolutionPass pass, const Kinds& kinds) {
  if (!kinds.library) return own_choice(shape, pass);
  const std::optional<AlgorithmChoice> library = fastest_of_library(context, shape, pass);
  if (!kinds.own) return library;
  const AlgorithmChoice own = own_choice(shape, pass);
  if (!library) return own;
  const MeasuredAlgorithm both[] = {measured(context, shape, pass, *library),
                                    measured(context, shape, pass, own)};
  return pick_algorithm(both, {kWorkspaceLimit, std::nullopt})->choice;
}

}  // namespace

AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass) {
  const Kinds kinds = kinds_for(context, shape, pass);
  auto choice = autotune(context.algorithms, shape.key + "|" + name_of(pass),
                         {.has =
                              [&](AlgorithmChoice& known) {
                                if (is_own(known))
                                  return kinds.own && known == own_choice(shape, pass);
                                return kinds.library && library_has(context, shape, pass, known);
                              },
                          .fastest = [&] { return fastest(context, shape, pass, kinds); },
                          .untried =
                              [&] {
                                return kinds.own ? std::optional(own_choice(shape, pass))
                                                 : guess_of_library(context, shape, pass);
                              },
                          .must_run = !kinds.own});
  if (!choice) {
    throw DeviceError(
        fmt::format("{}: {}: no algorithm of cuDNN's works in {}{} and {} bytes", shape.where,
                    name_of(pass), precision_name(context.options.precision),
                    context.options.deterministic ? ", deterministically" : "", kWorkspaceLimit));
  }
  if (!is_own(*choice)) library_has(context, shape, pass, *choice);  // sets the arithmetic
  return *choice;
}

}  // namespace ddpbench::ops::cuda
