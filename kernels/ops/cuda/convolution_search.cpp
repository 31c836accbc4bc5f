// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The measured choice of cuDNN's algorithms (cudnnFind...Ex): some tens of milliseconds a pass and
// shape, once a machine.
#include <algorithm>
#include <vector>

#include "kernels/ops/cuda/convolution.h"
#include "kernels/ops/cuda/elementwise_kernels.h"
#include "kernels/runtime/error.h"

namespace ddpbench::ops::cuda {
namespace {

// A stream for the time of a search. cuDNN keeps no stream that is gone.
class SearchStream {
 public:
  explicit SearchStream(Context& context)
      : context_(context), stream_(context.device.make_stream()), native_(context.use(*stream_)) {}
  ~SearchStream() { static_cast<void>(cudnnSetStream(context_.cudnn, nullptr)); }
  SearchStream(const SearchStream&) = delete;
  SearchStream& operator=(const SearchStream&) = delete;
  cudaStream_t native() const { return native_; }
  void synchronize() { stream_->synchronize(); }

 private:
  Context& context_;
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
};

// Enough for every algorithm of SimpleCNN and ResNet at the batches of one GPU; it is part of the
// workspace that all operations share.
constexpr std::size_t kWorkspaceLimit = std::size_t{256} << 20;

// What tells the three passes apart. `Memory` is that of x, w and y, or their gradients.
struct Memory {
  void *x, *w, *y;
};

struct Forward {
  static constexpr ConvolutionPass kPass = ConvolutionPass::forward;
  static constexpr const char* kName = "forward";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
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
};

struct BackwardData {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_data;
  static constexpr const char* kName = "backward data";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
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
};

struct BackwardFilter {
  static constexpr ConvolutionPass kPass = ConvolutionPass::backward_filter;
  static constexpr const char* kName = "backward filter";
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
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
};

// The arithmetic that a precision allows. bf16 products run on tensor cores only when told so.
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
class Search {
 public:
  Search(Context& context, const ConvolutionShape& shape) : context_(context), shape_(shape) {}

  AlgorithmChoice run() {
    const std::string key = shape_.key + "|" + Pass::kName;
    if (auto known = context_.algorithms.find(key); known && still_works(*known)) return *known;
    const AlgorithmChoice choice = measure();
    context_.algorithms.store(key, choice);
    return choice;
  }

 private:
  // Asks the library, whose answer counts; also sets the arithmetic.
  bool still_works(AlgorithmChoice& choice) const {
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

  // fp32 is to be strict, whatever the library thinks the fastest.
  bool may_use(cudnnMathType_t math) const {
    return context_.options.precision != CudaPrecision::fp32 || math == CUDNN_FMA_MATH;
  }

  AlgorithmChoice measure() {
    set_math(shape_, Pass::kPass, math_of(context_.options.precision));
    const std::size_t size = size_of(shape_.type);
    const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * size; };
    const PlanningMemory x(bytes(shape_.x_count), shape_.where);
    const PlanningMemory w(bytes(shape_.w_count), shape_.where);
    const PlanningMemory y(bytes(shape_.y_count), shape_.where);
    const Memory memory{x.data(), w.data(), y.data()};
    const std::size_t workspace_bytes = largest_workspace();
    const PlanningMemory workspace(workspace_bytes, shape_.where);
    SearchStream stream(context_);
    fill(memory, stream.native());

    std::vector<typename Pass::Performance> results(2 * Pass::kAlgorithms + 4);
    int count = 0;
    check(Pass::find(context_, shape_, memory, results, &count, workspace.data(), workspace_bytes),
          shape_.where, "the search for cuDNN's fastest algorithm");
    stream.synchronize();
    results.resize(static_cast<std::size_t>(count));
    AlgorithmChoice choice = pick(results);
    if constexpr (Pass::kPass == ConvolutionPass::forward) {
      choice.fused = can_fuse(choice, memory, stream);
    }
    return choice;
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
            shape_.where, "filling memory for the search");
    };
    fill_one(memory.x, shape_.x_count);
    fill_one(memory.w, shape_.w_count);
    fill_one(memory.y, shape_.y_count);
  }

  AlgorithmChoice pick(const std::vector<typename Pass::Performance>& results) const {
    std::vector<MeasuredAlgorithm> measured;
    for (const auto& result : results) {
      MeasuredAlgorithm candidate;
      candidate.choice.algorithm = static_cast<int>(result.algo);
      candidate.choice.math = static_cast<int>(result.mathType);
      // Where only FMA was allowed, the default means FMA.
      if (context_.options.precision == CudaPrecision::fp32 &&
          result.mathType == CUDNN_DEFAULT_MATH) {
        candidate.choice.math = CUDNN_FMA_MATH;
      }
      candidate.runs = result.status == CUDNN_STATUS_SUCCESS && still_works(candidate.choice);
      candidate.repeatable = result.determinism == CUDNN_DETERMINISTIC;
      candidate.time_s = static_cast<double>(result.time) * 1e-3;
      measured.push_back(candidate);
    }
    const bool repeatable = context_.options.deterministic;
    const MeasuredAlgorithm* best = pick_algorithm(measured, {kWorkspaceLimit, repeatable});
    if (best == nullptr) {
      throw DeviceError(fmt::format(
          "{}: {}: none of the {} algorithms that cuDNN tried works in {}{} and {} bytes",
          shape_.where, Pass::kName, measured.size(), precision_name(context_.options.precision),
          repeatable ? ", deterministically" : "", kWorkspaceLimit));
    }
    set_math(shape_, Pass::kPass, best->choice.math);
    return best->choice;
  }

  // Whether the library adds the bias and rectifies in the same call; it says so by doing it. An
  // activation of none is there for one algorithm only (cuDNN's reference of the call).
  bool can_fuse(AlgorithmChoice choice, const Memory& memory, SearchStream& stream) const {
    if (!shape_.bias) return false;
    if (!shape_.relu && choice.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
      return false;
    }
    choice.fused = true;
    // Of the chosen arithmetic, which may need more than the one that was searched with.
    const PlanningMemory workspace(std::max<std::size_t>(choice.workspace_bytes, 1), shape_.where);
    const PlanningMemory bias(static_cast<std::size_t>(shape_.out_channels) * size_of(shape_.type),
                              shape_.where);
    check(fill_with_pattern(shape_.type, bias.data(),
                            element_index(shape_.out_channels, shape_.where), stream.native()),
          shape_.where, "filling memory for the search");
    const cudnnStatus_t status = convolve(
        context_, shape_, choice, {memory.x, memory.w, bias.data(), memory.y}, workspace.data());
    stream.synchronize();
    return status == CUDNN_STATUS_SUCCESS;
  }

  Context& context_;
  const ConvolutionShape& shape_;
};

}  // namespace

AlgorithmChoice choose_algorithm(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return Search<Forward>(context, shape).run();
    case ConvolutionPass::backward_data:
      return Search<BackwardData>(context, shape).run();
    case ConvolutionPass::backward_filter:
      break;
  }
  return Search<BackwardFilter>(context, shape).run();
}

}  // namespace ddpbench::ops::cuda
