// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's descriptors of a convolution, and its algorithms for a pass as candidates: the library
// times them itself (cudnnFind...Ex), which takes tens of milliseconds a pass and shape, once on
// each machine.
#include "kernels/ops/cuda/library/convolution.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

template <typename Struct, typename Create>
Descriptor<Struct> create(const Create& create_descriptor, const std::string& where) {
  Struct* descriptor = nullptr;
  check(create_descriptor(&descriptor), where, "creating a cuDNN descriptor");
  return Descriptor<Struct>(descriptor);
}

int narrow(std::int64_t value, const std::string& where) {
  if (value > std::numeric_limits<int>::max())
    throw DeviceError(fmt::format("{}: {} is more than cuDNN can count", where, value));
  return static_cast<int>(value);
}

Descriptor<cudnnTensorStruct> image(const Shape& shape, DataType type, const std::string& where) {
  auto descriptor = create<cudnnTensorStruct>(cudnnCreateTensorDescriptor, where);
  check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NHWC, cudnn_type(type),
                                   narrow(shape[0], where), narrow(shape[1], where),
                                   narrow(shape[2], where), narrow(shape[3], where)),
        where, "cudnnSetTensor4dDescriptor");
  return descriptor;
}

Descriptor<cudnnFilterStruct> filter(const Shape& shape, DataType type, const std::string& where) {
  auto descriptor = create<cudnnFilterStruct>(cudnnCreateFilterDescriptor, where);
  check(cudnnSetFilter4dDescriptor(descriptor.get(), cudnn_type(type), CUDNN_TENSOR_NHWC,
                                   narrow(shape[0], where), narrow(shape[1], where),
                                   narrow(shape[2], where), narrow(shape[3], where)),
        where, "cudnnSetFilter4dDescriptor");
  return descriptor;
}

Descriptor<cudnnConvolutionStruct> convolution(const Conv2dDesc& d, const std::string& where) {
  auto descriptor = create<cudnnConvolutionStruct>(cudnnCreateConvolutionDescriptor, where);
  const Window2d& w = d.window;
  check(cudnnSetConvolution2dDescriptor(
            descriptor.get(), narrow(w.pad_h, where), narrow(w.pad_w, where),
            narrow(w.stride_h, where), narrow(w.stride_w, where), narrow(d.dilation.h, where),
            narrow(d.dilation.w, where), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        where, "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionGroupCount(descriptor.get(), narrow(d.groups, where)), where,
        "cudnnSetConvolutionGroupCount");
  return descriptor;
}

std::string key_of(const Context& context, const Conv2dDesc& d) {
  const Window2d& w = d.window;
  return fmt::format(
      "{}|x {}|out {}|kernel {}x{}|stride {}x{}|pad {}x{}|dilation {}x{}|groups {}|bias {}|relu {}",
      context.machine, to_string(d.input.shape), d.out_channels, w.kernel_h, w.kernel_w, w.stride_h,
      w.stride_w, w.pad_h, w.pad_w, d.dilation.h, d.dilation.w, d.groups, d.bias ? 1 : 0,
      d.fuse_relu ? 1 : 0);
}

std::optional<FewChannelShape> few_channel_shape(const Context& context, const Conv2dDesc& d,
                                                 const std::string& where) {
  if (context.options.convolutions == ConvolutionKernels::library) return std::nullopt;
  if (d.groups != 1 || d.dilation != Dilation2d{}) return std::nullopt;
  const auto index = [&](std::int64_t extent) { return element_index(extent, where); };
  const Shape& in = d.input.shape;
  const Shape out = output_shape(d);
  FewChannelShape s{};
  s.batch = index(in[0]), s.channels = index(in[1]), s.in_h = index(in[2]), s.in_w = index(in[3]);
  s.out_channels = index(out[1]), s.out_h = index(out[2]), s.out_w = index(out[3]);
  const Window2d& w = d.window;
  s.window = {index(w.kernel_h), index(w.kernel_w), index(w.stride_h),
              index(w.stride_w), index(w.pad_h),    index(w.pad_w)};
  s.type = context.activation_type();
  s.multiprocessors = index(attribute_of(context.device, cudaDevAttrMultiProcessorCount, where));
  return has_few_channel_kernels(s) ? std::optional(s) : std::nullopt;
}

}  // namespace

ConvolutionShape::ConvolutionShape(const Context& context, const Conv2dDesc& desc,
                                   std::string where_text)
    : where(std::move(where_text)),
      key(key_of(context, desc)),
      bias(desc.bias),
      relu(desc.fuse_relu),
      needs_grad_input(desc.needs_grad_input),
      type(context.activation_type()),
      few_channels(few_channel_shape(context, desc, where)) {
  const Shape& input = desc.input.shape;
  const Shape weight = weight_shape(desc);
  const Shape output = output_shape(desc);
  x_count = element_count(input), w_count = element_count(weight), y_count = element_count(output);
  element_index(x_count, where), element_index(y_count, where);  // cuDNN refuses more, too
  out_channels = desc.out_channels;
  x = image(input, type, where);
  y = image(output, type, where);
  bias_vector = image({1, desc.out_channels, 1, 1}, type, where);
  w = filter(weight, type, where);
  for (auto& pass : convolutions) pass = cuda::convolution(desc, where);
  activation = create<cudnnActivationStruct>(cudnnCreateActivationDescriptor, where);
  // An activation may be refused with NaN propagation; the own pass after the call then has it.
  // Without an activation it is not needed. The last argument bounds what a ReLU lets pass.
  check(cudnnSetActivationDescriptor(activation.get(),
                                     relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                                     relu ? CUDNN_PROPAGATE_NAN : CUDNN_NOT_PROPAGATE_NAN,
                                     std::numeric_limits<double>::max()),
        where, "cudnnSetActivationDescriptor");
}

cudnnStatus_t convolve(const Context& context, const ConvolutionShape& s,
                       const AlgorithmChoice& choice, const ForwardOperands& o, void* workspace) {
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm);
  const cudnnConvolutionDescriptor_t convolution = s.convolution(ConvolutionPass::forward);
  if (!choice.fused) {
    return cudnnConvolutionForward(context.cudnn, &kOne, s.x.get(), o.x, s.w.get(), o.w,
                                   convolution, algorithm, workspace, choice.workspace_bytes,
                                   &kZero, s.y.get(), o.y);
  }
  // y = activation(1 * conv(x) + 0 * z + bias). With a factor of zero, z (here y) is not read.
  return cudnnConvolutionBiasActivationForward(
      context.cudnn, &kOne, s.x.get(), o.x, s.w.get(), o.w, convolution, algorithm, workspace,
      choice.workspace_bytes, &kZero, s.y.get(), o.y, s.bias_vector.get(), o.bias,
      s.activation.get(), s.y.get(), o.y);
}

namespace {

// Enough for every algorithm of SimpleCNN and ResNet at the batches of one GPU. It counts in the
// workspace that all operations share.
constexpr std::size_t kWorkspaceLimit = 256 * kMiB;

struct CudaFree {
  void operator()(void* data) const { static_cast<void>(cudaFree(data)); }
};
// Device memory for a trial only. It is not counted, since no step holds it.
using PlanningMemory = std::unique_ptr<void, CudaFree>;
// Throws DeviceError when the GPU has no memory left.
PlanningMemory planning_memory(std::size_t bytes, std::string_view operation) {
  void* data = nullptr;
  if (bytes > 0) check(cudaMalloc(&data, bytes), operation, "cudaMalloc for planning");
  return PlanningMemory(data);
}

// The stream on which algorithms are tried.
class TrialStream {
 public:
  explicit TrialStream(const Context& context)
      : context_(context), stream_(context.device.make_stream()), native_(context.use(*stream_)) {}
  // cuDNN must not keep a stream that no longer exists. Where no algorithm ran, the memory that is
  // freed next may still be filled.
  ~TrialStream() {
    static_cast<void>(cudnnSetStream(context_.cudnn, nullptr));
    static_cast<void>(cudaStreamSynchronize(native_));
  }
  TrialStream(const TrialStream&) = delete;
  TrialStream& operator=(const TrialStream&) = delete;

  void synchronize() { stream_->synchronize(); }
  // Fills memory with values like those of a step, not with zeros: power, and so the clock rate,
  // depends on them.
  void fill(DataType type, const PlanningMemory& memory, std::int64_t count,
            const std::string& where) {
    check(fill_with_pattern(type, memory.get(), element_index(count, where), native_), where,
          "filling memory for a trial");
  }

 private:
  const Context& context_;
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
};

// What differs between the three passes. `Memory` is that of x, w and y, or of their gradients.
struct Memory {
  void *x, *w, *y;
};

// kFirst: the algorithm that each pass has for channels-last tensors and that repeats its bits.
// `operands`: descriptor and memory of each, in the order of the library's arguments.
struct Forward {
  static constexpr ConvolutionPass kPass = ConvolutionPass::forward;
  static constexpr const char* kName = "forward";
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
  static constexpr const char* kName = "backward data";
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
  static constexpr const char* kName = "backward filter";
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
  if (precision == CudaPrecision::fp32) return CUDNN_FMA_MATH;
  return precision == CudaPrecision::tf32 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
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
    // fp32 must be strict, even where other arithmetic is faster.
    const bool strict = context_.options.precision == CudaPrecision::fp32;
    if (strict && choice.math != CUDNN_FMA_MATH) return false;
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
    const auto x = planning_memory(bytes(shape_.x_count), shape_.where);
    const auto w = planning_memory(bytes(shape_.w_count), shape_.where);
    const auto y = planning_memory(bytes(shape_.y_count), shape_.where);
    const Memory memory{x.get(), w.get(), y.get()};
    const std::size_t workspace_bytes = largest_workspace();
    const auto space = planning_memory(workspace_bytes, shape_.where);
    TrialStream stream(context_);
    stream.fill(shape_.type, x, shape_.x_count, shape_.where);
    stream.fill(shape_.type, w, shape_.w_count, shape_.where);
    stream.fill(shape_.type, y, shape_.y_count, shape_.where);

    const auto search = [&] {
      Results results(kMostResults);
      int count = 0;
      const auto [a, in_a, b, in_b, c, in_c] = Pass::operands(shape_, memory);
      const cudnnStatus_t status = Pass::kFind(
          context_.cudnn, a, in_a, b, in_b, shape_.convolution(Pass::kPass), c, in_c,
          static_cast<int>(results.size()), &count, results.data(), space.get(), workspace_bytes);
      check(status, shape_.where, "the search for cuDNN's fastest algorithm");
      stream.synchronize();
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
    Results results(kMostResults);
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
  using Results = std::vector<typename Pass::Performance>;
  static constexpr std::size_t kMostResults = 2 * Pass::kAlgorithms + 4;

  cudnnStatus_t workspace(int algorithm, std::size_t* bytes) const {
    const auto [a, in_a, b, in_b, c, in_c] = Pass::operands(shape_, {});
    return Pass::kWorkspace(context_.cudnn, a, b, shape_.convolution(Pass::kPass), c,
                            static_cast<decltype(Pass::Performance::algo)>(algorithm), bytes);
  }

  // The search times each algorithm once, and in its first run a kernel is loaded, which takes
  // longer than most convolutions (seen on an H200: the forward passes of one network took 2.6 ms
  // more with the choices of one process than of another). So a first search only loads, and of two
  // more the shorter time counts. In a deterministic run no time does.
  template <typename Search>
  Results shortest_of(const Search& search) const {
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

  // The fastest, or, since times differ from day to day, of those that repeat their bits the first
  // in a fixed order. Sets the arithmetic.
  std::optional<AlgorithmChoice> pick(const Results& results) const {
    const bool repeats = context_.options.deterministic;
    std::optional<AlgorithmChoice> best;
    std::tuple<float, bool, int, bool, int> first;
    for (const auto& result : results) {
      AlgorithmChoice choice{.algorithm = static_cast<int>(result.algo),
                             .math = static_cast<int>(result.mathType)};
      if (context_.options.precision == CudaPrecision::fp32 &&
          result.mathType == CUDNN_DEFAULT_MATH) {
        // Where the library reports only its default, it ran FMA, as it was told. Where it reports
        // both, the default ran in TF32, and its time does not count.
        const auto is_strict = [&](const auto& other) {
          return other.algo == result.algo && other.mathType == CUDNN_FMA_MATH;
        };
        if (std::ranges::any_of(results, is_strict)) continue;
        choice.math = CUDNN_FMA_MATH;
      }
      if (result.status != CUDNN_STATUS_SUCCESS || !has(choice)) continue;
      if (repeats && result.determinism != CUDNN_DETERMINISTIC) continue;
      const std::tuple place(repeats ? 0 : result.time, choice.algorithm != Pass::kFirst,
                             choice.algorithm, choice.math != math_of(context_.options.precision),
                             choice.math);
      if (!best || place < first) best = choice, first = place;
    }
    if (best) set_math(shape_, Pass::kPass, best->math);
    return best;
  }

  // Whether the library adds the bias and rectifies in the same call, found by calling it. Only one
  // algorithm has the identity activation (cuDNN's reference of the call).
  bool can_fuse(AlgorithmChoice choice, const Memory& memory, TrialStream& stream) const {
    if (!shape_.bias) return false;
    if (!shape_.relu && choice.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
      return false;
    }
    choice.fused = true;
    // The workspace of the chosen arithmetic, which may exceed that of the searched one.
    const auto workspace =
        planning_memory(std::max<std::size_t>(choice.workspace_bytes, 1), shape_.where);
    const auto bias = planning_memory(
        static_cast<std::size_t>(shape_.out_channels) * size_of(shape_.type), shape_.where);
    stream.fill(shape_.type, bias, shape_.out_channels, shape_.where);
    const cudnnStatus_t status = convolve(
        context_, shape_, choice, {memory.x, memory.w, bias.get(), memory.y}, workspace.get());
    stream.synchronize();
    return status == CUDNN_STATUS_SUCCESS;
  }

  const Context& context_;
  const ConvolutionShape& shape_;
};

// The choice that the cache remembers, else the fastest by trial, which it then remembers; nullopt:
// none ran.
template <typename Pass>
std::optional<AlgorithmChoice> choose(Context& context, const std::string& key,
                                      const LibraryCandidates<Pass>& candidates) {
  if (auto known = context.algorithms.find(key); known && candidates.has(*known)) return known;
  try {
    const std::optional<AlgorithmChoice> fastest = candidates.measure();
    if (fastest) context.algorithms.store(key, *fastest);
    return fastest;
  } catch (const DeviceError&) {
    // Without memory for a trial, planning goes on with a guess: the run itself may need less. If
    // the GPU itself fails, the next call reports it.
    static_cast<void>(cudaGetLastError());
    return candidates.guess();
  }
}

template <typename Pass>
AlgorithmChoice tune(Context& context, const ConvolutionShape& shape) {
  const LibraryCandidates<Pass> candidates(context, shape);
  auto choice = choose(context, shape.key + "|" + Pass::kName, candidates);
  if (!choice) {
    throw DeviceError(fmt::format("{}: {}: no algorithm of cuDNN's works in {}{} and {} bytes",
                                  shape.where, Pass::kName, to_string(context.options.precision),
                                  context.options.deterministic ? ", deterministically" : "",
                                  kWorkspaceLimit));
  }
  candidates.has(*choice);  // sets the arithmetic
  return *choice;
}

}  // namespace

AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward) return tune<Forward>(context, shape);
  if (pass == ConvolutionPass::backward_data) return tune<BackwardData>(context, shape);
  return tune<BackwardFilter>(context, shape);
}

}  // namespace ddpbench::ops::cuda
