// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The choice between the library's fastest algorithm and an own kernel: both are timed as the
// operation would run them, with all passes around the library's call, recorded and replayed as a
// step does it.
#include <array>

#include "base/error.h"
#include "kernels/ops/cuda/library/convolution_pass.h"
#include "kernels/ops/cuda/library/convolution_search.h"
#include "kernels/ops/cuda/library/recorded_trial.h"

namespace ddpbench::ops::cuda {
namespace {

const char* name_of(ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward) return "forward";
  return pass == ConvolutionPass::backward_data ? "backward data" : "backward filter";
}

// Memory and stream of one pass's trial: what the pass touches in a step and no more, so that a
// batch that can be trained can be tried.
class Trial {
 public:
  Trial(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass)
      : shape_(shape),
        is_forward_(pass == ConvolutionPass::forward),
        x_(activation_bytes(shape.x_count), shape.where),
        y_(is_forward_ || shape.relu ? activation_bytes(shape.y_count) : 0, shape.where),
        dy_(is_forward_ ? 0 : activation_bytes(shape.y_count), shape.where),
        w_(parameter_bytes(shape.w_count), shape.where),
        bias_(parameter_bytes(shape.out_channels), shape.where),
        rounded_w_(rounded_bytes(shape.w_count), shape.where),
        rounded_bias_(rounded_bytes(shape.out_channels), shape.where),
        trial_(context) {
    fill(shape.type, x_, shape.x_count);
    fill(shape.type, y_, shape.y_count);
    fill(shape.type, dy_, shape.y_count);
    fill(DataType::fp32, w_, shape.w_count);
    fill(DataType::fp32, bias_, shape.out_channels);
    fill(DataType::bf16, rounded_w_, shape.w_count);
    fill(DataType::bf16, rounded_bias_, shape.out_channels);
  }

  double time_s(const ForwardPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<const void*, 2> parameters = {w_.data(), bias_.data()};
    const std::array<const void*, 2> rounded = {rounded_w_.data(), rounded_bias_.data()};
    return trial_.time_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .parameters = parameters,
                .workspace = workspace.data(),
                .rounded = rounded},
               trial_.native());
    });
  }

  double time_s(const FilterPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<void*, 2> gradients = {w_.data(), bias_.data()};
    return trial_.time_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .grad_output = dy_.data(),
                .grad_parameters = gradients,
                .workspace = workspace.data()},
               trial_.native());
    });
  }

 private:
  std::size_t activation_bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(shape_.type);
  }
  static std::size_t parameter_bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  // Of what only forward reads.
  std::size_t rounded_bytes(std::int64_t count) const {
    return is_forward_ && shape_.type == DataType::bf16 ? activation_bytes(count) : 0;
  }

  void fill(DataType type, const PlanningMemory& memory, std::int64_t count) {
    trial_.fill(type, memory, count, shape_.where);
  }

  const ConvolutionShape& shape_;
  bool is_forward_;
  PlanningMemory x_, y_, dy_, w_, bias_;  // or the gradients of the last two
  PlanningMemory rounded_w_, rounded_bias_;
  RecordedTrial trial_;
};

MeasuredAlgorithm measured(const Context& context, const ConvolutionShape& shape,
                           ConvolutionPass pass, const AlgorithmChoice& choice) {
  Trial trial(context, shape, pass);
  const double time = pass == ConvolutionPass::forward
                          ? trial.time_s(ForwardPass(context, shape, choice))
                          : trial.time_s(FilterPass(context, shape, choice));
  return {.choice = choice, .runs = true, .repeatable = true, .time_s = time};
}

AlgorithmChoice own_choice(const ConvolutionShape& shape, ConvolutionPass pass) {
  AlgorithmChoice choice{.algorithm = kOwnKernel, .math = CUDNN_FMA_MATH};
  if (pass == ConvolutionPass::backward_filter) {
    choice.workspace_bytes = few_channel_workspace_bytes(*shape.few_channels);
  }
  return choice;
}

// What may be chosen from. Deterministic, an own kernel is taken untried: no measurement, which may
// fall out one way today and another way tomorrow, shall decide the bits.
struct Candidates {
  bool own, library;
};

Candidates candidates_for(const Context& context, const ConvolutionShape& shape,
                          ConvolutionPass pass) {
  const CudaBackendOptions& options = context.options;
  const bool own = shape.few_channels && pass != ConvolutionPass::backward_data &&
                   options.convolutions != ConvolutionKernels::library;
  const bool tried = options.convolutions == ConvolutionKernels::measured && !options.deterministic;
  return {own, !own || tried};
}

// nullopt: there is none.
std::optional<AlgorithmChoice> measure(const Context& context, const ConvolutionShape& shape,
                                       ConvolutionPass pass, const Candidates& may) {
  if (!may.library) return own_choice(shape, pass);
  const std::optional<AlgorithmChoice> library = search_library(context, shape, pass);
  if (!may.own) return library;
  const AlgorithmChoice own = own_choice(shape, pass);
  if (library) {
    const MeasuredAlgorithm both[] = {measured(context, shape, pass, *library),
                                      measured(context, shape, pass, own)};
    return pick_algorithm(both, {kWorkspaceLimit, std::nullopt})->choice;
  }
  return own;
}

struct Decision {
  std::optional<AlgorithmChoice> choice;  // nullopt: there is none
  bool lasts = true;                      // for the next process, too
};

// By measurement, or without where there can be none.
Decision decide(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass) {
  const Candidates may = candidates_for(context, shape, pass);
  try {
    return {measure(context, shape, pass, may)};
  } catch (const NoPlanningMemory&) {
    if (!may.own) return {guess_library(context, shape, pass), false};
  } catch (const DeviceError&) {
    // A call that cannot be recorded, say. If it is the GPU that fails, the next call tells.
    if (!may.own) throw;
    static_cast<void>(cudaGetLastError());
  }
  return {own_choice(shape, pass), false};
}

bool still_works(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass,
                 AlgorithmChoice& choice) {
  const Candidates may = candidates_for(context, shape, pass);
  if (is_own(choice)) return may.own && choice == own_choice(shape, pass);
  return may.library && library_has(context, shape, pass, choice);
}

}  // namespace

AlgorithmChoice choose_algorithm(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass) {
  const std::string key = shape.key + "|" + name_of(pass);
  if (auto known = context.algorithms.find(key);
      known && still_works(context, shape, pass, *known)) {
    return *known;
  }
  auto [choice, lasts] = decide(context, shape, pass);
  if (!choice) {
    throw DeviceError(
        fmt::format("{}: {}: no algorithm of cuDNN's works in {}{} and {} bytes", shape.where,
                    name_of(pass), precision_name(context.options.precision),
                    context.options.deterministic ? ", deterministically" : "", kWorkspaceLimit));
  }
  if (!is_own(*choice)) library_has(context, shape, pass, *choice);  // sets the arithmetic
  if (lasts) context.algorithms.store(key, *choice);
  return *choice;
}

}  // namespace ddpbench::ops::cuda
