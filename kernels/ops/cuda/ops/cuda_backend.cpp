// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda_backend.h"

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/runtime/cuda/cuda_calls.h"

namespace ddpbench::ops {
namespace {

class CudaBackend final : public OpBackend {
 public:
  explicit CudaBackend(cuda::ContextPtr context) : context_(std::move(context)) {}

  std::string name() const override { return "cuda"; }
  std::unique_ptr<Op> make(const OpDesc& desc) override {
    const auto current = make_current();
    const auto makers = [&](const auto& d) requires requires { cuda::make_op(context_, d); }
    { return cuda::make_op(context_, d); };
    return make_with(makers, desc, name());
  }
  FusedOp fuse(std::span<const OpDesc> chain) override {
    if (chain.size() < 2) return {};
    const auto* const conv = std::get_if<Conv2dDesc>(&chain[0]);
    const auto* const pool = std::get_if<MaxPool2dDesc>(&chain[1]);
    if (conv == nullptr || pool == nullptr) return {};
    const auto current = make_current();
    return {cuda::make_conv2d_max_pool2d(context_, *conv, *pool), 2};
  }
  void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) override {
    cuda::loss(stream, desc, args);
  }
  std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) const override {
    return cuda::loss_workspace_bytes(desc);
  }
  void update(Stream& stream, const OptimizerArgs& args) override { cuda::update(stream, args); }
  void mean(Stream& stream, std::span<const float* const> inputs, float* out,
            std::size_t count) override {
    cuda::mean(stream, inputs, out, count);
  }
  void gather(Stream& stream, const GatherArgs& args) override { cuda::gather(stream, args); }

  void increment(Stream& stream, std::int64_t* counter) override {
    cuda::check(cuda::increment(counter, cuda::native_stream(stream)), "counting", "increment");
  }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    const auto current = make_current();
    cuda::convert(*context_, from_layout, from, to_layout, to);
  }

  // A GPU's caches are small beside the work that fills it: the larger the batch, the better.
  std::int64_t micro_batch_hint(std::size_t) const override { return 0; }

 private:
  ddpbench::cuda::CurrentDevice make_current() const {
    return ddpbench::cuda::CurrentDevice(context_->device.ordinal());
  }

  cuda::ContextPtr context_;
};

// The libraries' own numbering: 91900 is 9.19.0.
std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

std::unique_ptr<OpBackend> make_cuda_backend(Device& device, const CudaBackendOptions& options) {
  if (device.kind() != DeviceKind::cuda)
    throw UnavailableError(
        fmt::format("the CUDA backend runs on CUDA devices, not on {}", device.name()));
  ddpbench::cuda::NativeDevice& native = ddpbench::cuda::native_device(device);
  const ddpbench::cuda::CurrentDevice current(native.ordinal());
  return std::make_unique<CudaBackend>(std::make_shared<cuda::Context>(native, options));
}

std::map<std::string, std::string> cuda_library_versions() {
  return {{"cudnn", version_text(cudnnGetVersion())},
          {"cublaslt", version_text(cublasLtGetVersion())}};
}

}  // namespace ddpbench::ops
