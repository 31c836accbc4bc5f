// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The choice between the library's fastest algorithm and an own kernel: both are timed as the
// operation would run them, with all passes around the library's call, recorded and replayed as a
// step does it.
#include <array>

#include "kernels/ops/cuda/convolution_pass.h"
#include "kernels/ops/cuda/convolution_search.h"
#include "kernels/ops/cuda/elementwise_kernels.h"
#include "kernels/runtime/error.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr int kRounds = 3;    // of which the shortest counts
constexpr int kLaunches = 8;  // a round

const char* name_of(ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward) return "forward";
  return pass == ConvolutionPass::backward_data ? "backward data" : "backward filter";
}

// Memory and stream of one trial.
class Trial {
 public:
  Trial(const Context& context, const ConvolutionShape& shape)
      : context_(context),
        shape_(shape),
        x_(activation_bytes(shape.x_count), shape.where),
        y_(activation_bytes(shape.y_count), shape.where),
        dy_(activation_bytes(shape.y_count), shape.where),
        w_(parameter_bytes(shape.w_count), shape.where),
        bias_(parameter_bytes(shape.out_channels), shape.where),
        dw_(parameter_bytes(shape.w_count), shape.where),
        dbias_(parameter_bytes(shape.out_channels), shape.where),
        stream_(context) {
    fill(shape.type, x_, shape.x_count);
    fill(shape.type, y_, shape.y_count);
    fill(shape.type, dy_, shape.y_count);
    fill(DataType::fp32, w_, shape.w_count);
    fill(DataType::fp32, bias_, shape.out_channels);
  }

  double time_s(const ForwardPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<const void*, 2> parameters = {w_.data(), bias_.data()};
    return time_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .parameters = parameters,
                .workspace = workspace.data()},
               stream_.native());
    });
  }

  double time_s(const FilterPass& pass) {
    const PlanningMemory workspace(pass.workspace_bytes(), shape_.where);
    const std::array<const void*, 1> inputs = {x_.data()};
    const std::array<void*, 2> gradients = {dw_.data(), dbias_.data()};
    return time_s([&] {
      pass.run({.inputs = inputs,
                .output = y_.data(),
                .grad_output = dy_.data(),
                .grad_parameters = gradients,
                .workspace = workspace.data()},
               stream_.native());
    });
  }

 private:
  std::size_t activation_bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(shape_.type);
  }
  static std::size_t parameter_bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  void fill(DataType type, const PlanningMemory& memory, std::int64_t count) {
    check(fill_with_pattern(type, memory.data(), element_index(count, shape_.where),
                            stream_.native()),
          shape_.where, "filling memory for a trial");
  }

  // Of one call.
  template <typename Call>
  double time_s(const Call& call) {
    call();  // loads the kernels, which a recording cannot
    stream_.stream().synchronize();
    stream_.stream().begin_recording();
    for (int i = 0; i < kLaunches; ++i) call();
    const std::unique_ptr<Recording> recording = stream_.stream().end_recording();
    const auto begin = context_.device.make_event(), end = context_.device.make_event();
    double shortest = 0;
    for (int round = -1; round < kRounds; ++round) {  // the first one warms up
      stream_.stream().record(*begin);
      recording->replay(stream_.stream());
      stream_.stream().record(*end);
      stream_.stream().synchronize();
      const double time = (end->time_s() - begin->time_s()) / kLaunches;
      if (round <= 0 || time < shortest) shortest = time;
    }
    return shortest;
  }

  const Context& context_;
  const ConvolutionShape& shape_;
  PlanningMemory x_, y_, dy_, w_, bias_, dw_, dbias_;
  SearchStream stream_;
};

MeasuredAlgorithm measured(const Context& context, const ConvolutionShape& shape,
                           ConvolutionPass pass, const AlgorithmChoice& choice) {
  Trial trial(context, shape);
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

AlgorithmChoice measure(const Context& context, const ConvolutionShape& shape,
                        ConvolutionPass pass) {
  const Candidates may = candidates_for(context, shape, pass);
  const AlgorithmChoice own = may.own ? own_choice(shape, pass) : AlgorithmChoice();
  if (!may.library) return own;
  const std::optional<AlgorithmChoice> library = search_library(context, shape, pass);
  if (library && may.own) {
    const MeasuredAlgorithm both[] = {measured(context, shape, pass, *library),
                                      measured(context, shape, pass, own)};
    return pick_algorithm(both, {kWorkspaceLimit, false})->choice;
  }
  if (library || may.own) return library.value_or(own);
  throw DeviceError(
      fmt::format("{}: {}: no algorithm of cuDNN's works in {}{} and {} bytes", shape.where,
                  name_of(pass), precision_name(context.options.precision),
                  context.options.deterministic ? ", deterministically" : "", kWorkspaceLimit));
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
  AlgorithmChoice choice = measure(context, shape, pass);
  if (!is_own(choice)) library_has(context, shape, pass, choice);  // sets the arithmetic
  context.algorithms.store(key, choice);
  return choice;
}

}  // namespace ddpbench::ops::cuda
