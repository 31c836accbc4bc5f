// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda_backend.h"

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/flat_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/runtime/cuda/cuda_calls.h"

namespace ddpbench::ops::cuda {
namespace {

class CudaBackend final : public OpBackend {
 public:
  explicit CudaBackend(ContextPtr context) : context_(std::move(context)) {}

  std::string name() const override { return "cuda"; }

  void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) override {
    check_loss(desc);
    const std::string where = describe(desc);
    element_index(desc.batch * desc.classes * desc.positions, where);
    ensure(args.samples >= 0 && args.samples <= desc.batch, "{}: {} samples", where, args.samples);
    ensure(args.workspace != nullptr, "{}: no workspace", where);
    check(softmax_cross_entropy(desc, args, native_stream(stream)), where, "softmax_cross_entropy");
  }

  std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) const override {
    return cuda::loss_workspace_bytes(desc);
  }

  void update(Stream& stream, const OptimizerArgs& args) override {
    element_index(static_cast<std::int64_t>(args.count), "optimizer");
    check(optimizer_step(args, native_stream(stream)), "optimizer", "optimizer_step");
  }

  void find_overflow(Stream& stream, const float* gradients, std::size_t count,
                     LossScale* scale) override {
    const std::uint32_t elements = element_index(static_cast<std::int64_t>(count), "gradients");
    check(cuda::find_overflow(gradients, elements, scale, native_stream(stream)), "gradients",
          "find_overflow");
  }

  void end_scaled_step(Stream& stream, LossScale* scale) override {
    check(cuda::end_scaled_step(scale, native_stream(stream)), "loss scale", "end_scaled_step");
  }

  void mean(Stream& stream, std::span<const float* const> inputs, float* out,
            std::size_t count) override {
    ensure(!inputs.empty(), "the mean of no buffers");
    if (inputs.size() > kMaxMeanInputs) {
      throw DeviceError(fmt::format("the mean of {} buffers; at most {} are possible",
                                    inputs.size(), kMaxMeanInputs));
    }
    const std::uint32_t elements = element_index(static_cast<std::int64_t>(count), "mean");
    check(mean_of(inputs, out, elements, native_stream(stream)), "mean", "mean_of");
  }

  void encode(Stream& stream, const EncodeArgs& args) override {
    check(cuda::encode(args, native_stream(stream)), "encoding", "encode");
  }
  void decode(Stream& stream, const DecodeArgs& args) override {
    check(cuda::decode(args, native_stream(stream)), "encoding", "decode");
  }
  void orthonormalize(Stream& stream, const OrthonormalArgs& args) override {
    check(cuda::orthonormalize(args, native_stream(stream)), "encoding", "orthonormalize");
  }

  void gather(Stream& stream, const GatherArgs& args) override {
    check_gather(args);
    if (static_cast<std::size_t>(args.channels) > kMaxGatherChannels) {
      throw ConfigError(fmt::format("batch_gather: {} channels; at most {} are possible",
                                    args.channels, kMaxGatherChannels));
    }
    element_index(args.batch * args.sample_elements, "batch_gather");
    element_index(args.batch * args.labels_per_sample, "batch_gather");
    check(gather_batch(args, native_stream(stream)), "batch_gather", "gather_batch");
  }

  void increment(Stream& stream, std::int64_t* counter) override {
    check(cuda::increment(counter, native_stream(stream)), "counting", "increment");
  }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    const ddpbench::cuda::CurrentDevice current(context_->device.ordinal());
    cuda::convert(*context_, from_layout, from, to_layout, to);
  }

 private:
  std::unique_ptr<Op> make_whole(const OpDesc& desc) override {
    const ddpbench::cuda::CurrentDevice current(context_->device.ordinal());
    return std::visit([&](const auto& d) { return make_op(context_, d); }, desc);
  }

  ContextPtr context_;
};

}  // namespace
}  // namespace ddpbench::ops::cuda

namespace ddpbench::ops {

std::unique_ptr<OpBackend> make_cuda_backend(Device& device, const CudaBackendOptions& options) {
  ddpbench::cuda::NativeDevice& native = ddpbench::cuda::native_device(device);
  const ddpbench::cuda::CurrentDevice current(native.ordinal());
  return std::make_unique<cuda::CudaBackend>(std::make_shared<cuda::Context>(native, options));
}

std::map<std::string, std::string> cuda_library_versions() {
  // The libraries' own numbering: 91900 is 9.19.0.
  const auto text = [](std::size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  };
  return {{"cudnn", text(cudnnGetVersion())}, {"cublaslt", text(cublasLtGetVersion())}};
}

}  // namespace ddpbench::ops
