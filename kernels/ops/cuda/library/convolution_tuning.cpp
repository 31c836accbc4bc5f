// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's algorithms for a pass, as candidates: the library times them itself (cudnnFind...Ex),
// which takes tens of milliseconds a pass and shape, once on each machine. Its fastest and an own
// kernel are then timed as the operation would run them: with all passes around the library's call,
// recorded and replayed as in a step.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/cuda/library/autotuner.h"
#include "kernels/ops/cuda/library/convolution_pass.h"

namespace ddpbench::ops::cuda {
namespace {

// Enough for every algorithm of SimpleCNN and ResNet at the batches of one GPU. It counts in the
// workspace that all operations share.
constexpr std::size_t kWorkspaceLimit = 256 * kMiB;

// What differs between the three passes. `Memory` is that of x, w and y, or of their gradients.
struct Memory {
  void *x, *w, *y;
};

// kFirst: the algorithm that each pass has for channels-last tensors and that repeats its bits.
// `operands`: descriptor and memory of each, in the order of the library's arguments.
struct Forward {
  static constexpr ConvolutionPass kPass = ConvolutionPass::forward;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr int kFirst = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  using Performance = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr auto kWorkspace = &cudnnGetConvolutionForwardWorkspaceSize;
  static constexpr auto kFind = &cudnnFindConvolutionForwardAlgorithmEx;
  static constexpr auto kGuess = &cudnnGetConvolutionForwardAlgorithm_v7;
  static auto operands(const ConvolutionShape& s, const Memory& m) {
    return std::tuple(s.x.get(), m.x, s.w.get(), m.w, s.y.get(), m.y);
  }
};

struct BackwardData {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_data;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr int kFirst = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  using Performance = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr auto kWorkspace = &cudnnGetConvolutionBackwardDataWorkspaceSize;
  static constexpr auto kFind = &cudnnFindConvolutionBackwardDataAlgorithmEx;
  static constexpr auto kGuess = &cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static auto operands(const ConvolutionShape& s, const Memory& m) {
    return std::tuple(s.w.get(), m.w, s.y.get(), m.y, s.x.get(), m.x);
  }
};

struct BackwardFilter {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_filter;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr int kFirst = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  using Performance = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr auto kWorkspace = &cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static constexpr auto kFind = &cudnnFindConvolutionBackwardFilterAlgorithmEx;
  static constexpr auto kGuess = &cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static auto operands(const ConvolutionShape& s, const Memory& m) {
    return std::tuple(s.x.get(), m.x, s.y.get(), m.y, s.w.get(), m.w);
  }
};

// The arithmetic that a precision allows. bf16 products use tensor cores only on request.
cudnnMathType_t math_of(CudaPrecision precision) {
  switch (precision) {
    case CudaPrecision::fp32:
      return CUDNN_FMA_MATH;
    case CudaPrecision::tf32:
      return CUDNN_DEFAULT_MATH;
    case CudaPrecision::bf16:
      break;
  }
  return CUDNN_TENSOR_OP_MATH;
}

void set_math(const ConvolutionShape& shape, ConvolutionPass pass, int math) {
  check(cudnnSetConvolutionMathType(shape.convolution(pass), static_cast<cudnnMathType_t>(math)),
        shape.where, "cudnnSetConvolutionMathType");
}

template <typename Pass>
class LibraryCandidates {
 public:
  LibraryCandidates(const Context& context, const ConvolutionShape& shape)
      : context_(context), shape_(shape) {}

  // Asks the library, whose answer counts. Also sets the arithmetic.
  bool has(AlgorithmChoice& choice) const {
    if (choice.algorithm < 0 || choice.algorithm >= Pass::kAlgorithms) return false;
    if (!may_use(static_cast<cudnnMathType_t>(choice.math))) return false;
    set_math(shape_, Pass::kPass, choice.math);
    std::size_t bytes = 0;
    if (workspace(choice.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) return false;
    choice.workspace_bytes = bytes;
    return bytes <= kWorkspaceLimit;
  }

  std::optional<AlgorithmChoice> measure() const {
    set_math(shape_, Pass::kPass, math_of(context_.options.precision));
    const std::size_t size = size_of(shape_.type);
    const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * size; };
    const PlanningMemory x(bytes(shape_.x_count), shape_.where);
    const PlanningMemory w(bytes(shape_.w_count), shape_.where);
    const PlanningMemory y(bytes(shape_.y_count), shape_.where);
    const Memory memory{x.data(), w.data(), y.data()};
    const std::size_t workspace_bytes = largest_workspace();
    const PlanningMemory space(workspace_bytes, shape_.where);
    TuningStream stream(context_);
    fill(memory, stream.native());

    const auto search = [&] {
      std::vector<typename Pass::Performance> results(kMostResults);
      int count = 0;
      const auto [a, in_a, b, in_b, c, in_c] = Pass::operands(shape_, memory);
      const cudnnStatus_t status = Pass::kFind(
          context_.cudnn, a, in_a, b, in_b, shape_.convolution(Pass::kPass), c, in_c,
          static_cast<int>(results.size()), &count, results.data(), space.data(), workspace_bytes);
      if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
        throw NoPlanningMemory(shape_.where + ": cuDNN lacks memory for its search");
      }
      check(status, shape_.where, "the search for cuDNN's fastest algorithm");
      stream.stream().synchronize();
      results.resize(static_cast<std::size_t>(count));
      return results;
    };
    std::optional<AlgorithmChoice> choice = pick(shortest_of(search));
    if constexpr (Pass::kPass == ConvolutionPass::forward) {
      if (choice) choice->fused = can_fuse(*choice, memory, stream);
    }
    return choice;
  }

  // The library's guess of the fastest, with bias and ReLU in their own pass. It takes no memory.
  std::optional<AlgorithmChoice> guess() const {
    set_math(shape_, Pass::kPass, math_of(context_.options.precision));
    std::vector<typename Pass::Performance> results(kMostResults);
    int count = 0;
    const auto [a, in_a, b, in_b, c, in_c] = Pass::operands(shape_, {});
    check(Pass::kGuess(context_.cudnn, a, b, shape_.convolution(Pass::kPass), c,
                       static_cast<int>(results.size()), &count, results.data()),
          shape_.where, "cuDNN's guess of its fastest algorithm");
    results.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < results.size(); ++i) results[i].time = static_cast<float>(i);
    return pick(results);
  }

 private:
  static constexpr std::size_t kMostResults = 2 * Pass::kAlgorithms + 4;

  cudnnStatus_t workspace(int algorithm, std::size_t* bytes) const {
    const auto [a, in_a, b, in_b, c, in_c] = Pass::operands(shape_, {});
    return Pass::kWorkspace(context_.cudnn, a, b, shape_.convolution(Pass::kPass), c,
                            static_cast<decltype(Pass::Performance::algo)>(algorithm), bytes);
  }

  // fp32 must be strict, even where other arithmetic is faster.
  bool may_use(cudnnMathType_t math) const {
    return context_.options.precision != CudaPrecision::fp32 || math == CUDNN_FMA_MATH;
  }

  // The search times each algorithm once, and in its first run a kernel is loaded, which takes
  // longer than most convolutions (seen on an H200: the forward passes of one network took 2.6 ms
  // more with the choices of one process than of another). So a first search only loads, and of two
  // more the shorter time counts. In a deterministic run no time does.
  template <typename Search>
  std::vector<typename Pass::Performance> shortest_of(const Search& search) const {
    auto results = search();
    if (context_.options.deterministic) return results;
    results = search();
    for (const auto& again : search()) {
      for (auto& known : results) {
        if (known.algo != again.algo || known.mathType != again.mathType) continue;
        // The time of an algorithm that failed is negative.
        if (again.status == CUDNN_STATUS_SUCCESS) known.time = std::min(known.time, again.time);
      }
    }
    return results;
  }

  std::size_t largest_workspace() const {
    std::size_t largest = 0;
    for (int algorithm = 0; algorithm < Pass::kAlgorithms; ++algorithm) {
      std::size_t bytes = 0;
      const cudnnStatus_t status = workspace(algorithm, &bytes);
      if (status == CUDNN_STATUS_SUCCESS && bytes <= kWorkspaceLimit) {
        largest = std::max(largest, bytes);
      }
    }
    return largest;
  }

  void fill(const Memory& memory, cudaStream_t stream) const {
    const auto fill_one = [&](void* data, std::int64_t count) {
      check(fill_with_pattern(shape_.type, data, element_index(count, shape_.where), stream),
            shape_.where, "filling memory for autotuning");
    };
    fill_one(memory.x, shape_.x_count);
    fill_one(memory.w, shape_.w_count);
    fill_one(memory.y, shape_.y_count);
  }

  std::optional<AlgorithmChoice> pick(
      const std::vector<typename Pass::Performance>& results) const {
    std::vector<MeasuredAlgorithm> measured;
    for (const auto& result : results) {
      MeasuredAlgorithm candidate;
      candidate.choice.algorithm = static_cast<int>(result.algo);
      candidate.choice.math = static_cast<int>(result.mathType);
      if (context_.options.precision == CudaPrecision::fp32 &&
          result.mathType == CUDNN_DEFAULT_MATH) {
        // Where the library reports only its default, it ran FMA, as it was told. Where it reports
        // both, the default ran in TF32, and its time does not count.
        if (is_measured_strictly(results, result.algo)) continue;
        candidate.choice.math = CUDNN_FMA_MATH;
      }
      candidate.runs = result.status == CUDNN_STATUS_SUCCESS && has(candidate.choice);
      candidate.repeatable = result.determinism == CUDNN_DETERMINISTIC;
      candidate.time_s = static_cast<double>(result.time) * 1e-3;
      measured.push_back(candidate);
    }
    AlgorithmRules rules{.workspace_limit_bytes = kWorkspaceLimit};
    if (context_.options.deterministic) {
      rules.repeatable = {Pass::kFirst, math_of(context_.options.precision)};
    }
    const MeasuredAlgorithm* best = pick_algorithm(measured, rules);
    if (best == nullptr) return std::nullopt;
    set_math(shape_, Pass::kPass, best->choice.math);
    return best->choice;
  }

  template <typename Algorithm>
  static bool is_measured_strictly(const std::vector<typename Pass::Performance>& results,
                                   Algorithm algorithm) {
    return std::ranges::any_of(results, [&](const auto& result) {
      return result.algo == algorithm && result.mathType == CUDNN_FMA_MATH;
    });
  }

  // Whether the library adds the bias and rectifies in the same call, found by calling it. Only one
  // algorithm has the identity activation (cuDNN's reference of the call).
  bool can_fuse(AlgorithmChoice choice, const Memory& memory, TuningStream& stream) const {
    if (!shape_.bias) return false;
    if (!shape_.relu && choice.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
      return false;
    }
    choice.fused = true;
    // The workspace of the chosen arithmetic, which may exceed that of the searched one.
    const PlanningMemory workspace(std::max<std::size_t>(choice.workspace_bytes, 1), shape_.where);
    const PlanningMemory bias(static_cast<std::size_t>(shape_.out_channels) * size_of(shape_.type),
                              shape_.where);
    check(fill_with_pattern(shape_.type, bias.data(),
                            element_index(shape_.out_channels, shape_.where), stream.native()),
          shape_.where, "filling memory for autotuning");
    const cudnnStatus_t status = convolve(
        context_, shape_, choice, {memory.x, memory.w, bias.data(), memory.y}, workspace.data());
    stream.stream().synchronize();
    return status == CUDNN_STATUS_SUCCESS;
  }

  const Context& context_;
  const ConvolutionShape& shape_;
};

// Calls with_candidates(LibraryCandidates<Pass>()) for the pass.
template <typename WithCandidates>
auto with_candidates_of(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass,
                        const WithCandidates& with_candidates) {
  switch (pass) {
    case ConvolutionPass::forward:
      return with_candidates(LibraryCandidates<Forward>(context, shape));
    case ConvolutionPass::backward_data:
      return with_candidates(LibraryCandidates<BackwardData>(context, shape));
    case ConvolutionPass::backward_filter:
      break;
  }
  return with_candidates(LibraryCandidates<BackwardFilter>(context, shape));
}

// The fastest algorithm that keeps to the options, measured on memory and data of its own; nullopt:
// none. If deterministic, the first in a fixed order of those that ran. Throws NoPlanningMemory.
std::optional<AlgorithmChoice> fastest_of_library(const Context& context,
                                                  const ConvolutionShape& shape,
                                                  ConvolutionPass pass) {
  return with_candidates_of(context, shape, pass,
                            [](const auto& candidates) { return candidates.measure(); });
}

// The same without memory: the algorithm that the library guesses to be the fastest, unmeasured.
std::optional<AlgorithmChoice> guess_of_library(const Context& context,
                                                const ConvolutionShape& shape,
                                                ConvolutionPass pass) {
  return with_candidates_of(context, shape, pass,
                            [](const auto& candidates) { return candidates.guess(); });
}

// Whether the library (still) runs the choice within the options. Sets the choice's workspace, and
// the arithmetic in the pass's descriptor.
bool library_has(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass,
                 AlgorithmChoice& choice) {
  return with_candidates_of(context, shape, pass,
                            [&](const auto& candidates) { return candidates.has(choice); });
}

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
