// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/convolution_candidates.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/library/autotuner.h"

namespace ddpbench::ops::cuda {
namespace {

// What differs between the three passes. `Memory` is that of x, w and y, or of their gradients.
struct Memory {
  void *x, *w, *y;
};

struct Forward {
  static constexpr ConvolutionPass kPass = ConvolutionPass::forward;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  // The algorithm that each pass has for channels-last tensors and that repeats its bits.
  static constexpr int kFirst = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  using Performance = cudnnConvolutionFwdAlgoPerf_t;

  static cudnnStatus_t workspace(const Context& c, const ConvolutionShape& s, int algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(
        c.cudnn, s.x.get(), s.w.get(), s.convolution(kPass), s.y.get(),
        static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), bytes);
  }
  static cudnnStatus_t find(const Context& c, const ConvolutionShape& s, const Memory& m,
                            std::vector<Performance>& results, int* count, void* workspace,
                            std::size_t bytes) {
    return cudnnFindConvolutionForwardAlgorithmEx(
        c.cudnn, s.x.get(), m.x, s.w.get(), m.w, s.convolution(kPass), s.y.get(), m.y,
        static_cast<int>(results.size()), count, results.data(), workspace, bytes);
  }
  static cudnnStatus_t guess(const Context& c, const ConvolutionShape& s,
                             std::vector<Performance>& results, int* count) {
    return cudnnGetConvolutionForwardAlgorithm_v7(
        c.cudnn, s.x.get(), s.w.get(), s.convolution(kPass), s.y.get(),
        static_cast<int>(results.size()), count, results.data());
  }
};

struct BackwardData {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_data;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr int kFirst = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  using Performance = cudnnConvolutionBwdDataAlgoPerf_t;

  static cudnnStatus_t workspace(const Context& c, const ConvolutionShape& s, int algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(
        c.cudnn, s.w.get(), s.y.get(), s.convolution(kPass), s.x.get(),
        static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
  }
  static cudnnStatus_t find(const Context& c, const ConvolutionShape& s, const Memory& m,
                            std::vector<Performance>& results, int* count, void* workspace,
                            std::size_t bytes) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(
        c.cudnn, s.w.get(), m.w, s.y.get(), m.y, s.convolution(kPass), s.x.get(), m.x,
        static_cast<int>(results.size()), count, results.data(), workspace, bytes);
  }
  static cudnnStatus_t guess(const Context& c, const ConvolutionShape& s,
                             std::vector<Performance>& results, int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(
        c.cudnn, s.w.get(), s.y.get(), s.convolution(kPass), s.x.get(),
        static_cast<int>(results.size()), count, results.data());
  }
};

struct BackwardFilter {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_filter;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr int kFirst = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  using Performance = cudnnConvolutionBwdFilterAlgoPerf_t;

  static cudnnStatus_t workspace(const Context& c, const ConvolutionShape& s, int algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        c.cudnn, s.x.get(), s.y.get(), s.convolution(kPass), s.w.get(),
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
  }
  static cudnnStatus_t find(const Context& c, const ConvolutionShape& s, const Memory& m,
                            std::vector<Performance>& results, int* count, void* workspace,
                            std::size_t bytes) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(
        c.cudnn, s.x.get(), m.x, s.y.get(), m.y, s.convolution(kPass), s.w.get(), m.w,
        static_cast<int>(results.size()), count, results.data(), workspace, bytes);
  }
  static cudnnStatus_t guess(const Context& c, const ConvolutionShape& s,
                             std::vector<Performance>& results, int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        c.cudnn, s.x.get(), s.y.get(), s.convolution(kPass), s.w.get(),
        static_cast<int>(results.size()), count, results.data());
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
    if (Pass::workspace(context_, shape_, choice.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
      return false;
    }
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
    const PlanningMemory workspace(workspace_bytes, shape_.where);
    TuningStream stream(context_);
    fill(memory, stream.native());

    const auto search = [&] {
      std::vector<typename Pass::Performance> results(kMostResults);
      int count = 0;
      const cudnnStatus_t status =
          Pass::find(context_, shape_, memory, results, &count, workspace.data(), workspace_bytes);
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
    check(Pass::guess(context_, shape_, results, &count), shape_.where,
          "cuDNN's guess of its fastest algorithm");
    results.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < results.size(); ++i) results[i].time = static_cast<float>(i);
    return pick(results);
  }

 private:
  static constexpr std::size_t kMostResults = 2 * Pass::kAlgorithms + 4;

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
      const cudnnStatus_t status = Pass::workspace(context_, shape_, algorithm, &bytes);
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

}  // namespace

std::optional<AlgorithmChoice> fastest_of_library(const Context& context,
                                                  const ConvolutionShape& shape,
                                                  ConvolutionPass pass) {
  return with_candidates_of(context, shape, pass,
                            [](const auto& candidates) { return candidates.measure(); });
}

std::optional<AlgorithmChoice> guess_of_library(const Context& context,
                                                const ConvolutionShape& shape,
                                                ConvolutionPass pass) {
  return with_candidates_of(context, shape, pass,
                            [](const auto& candidates) { return candidates.guess(); });
}

bool library_has(const Context& context, const ConvolutionShape& shape, ConvolutionPass pass,
                 AlgorithmChoice& choice) {
  return with_candidates_of(context, shape, pass,
                            [&](const auto& candidates) { return candidates.has(choice); });
}

}  // namespace ddpbench::ops::cuda
