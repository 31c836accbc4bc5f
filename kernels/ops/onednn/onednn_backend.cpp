// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// OpBackend for CPU devices.
#include "kernels/ops/backend.h"

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/onednn/instructions.h"
#include "kernels/ops/onednn/layout.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops {
namespace {

// A micro-batch's maps may be twice the L2 cache, since an operation needs its first maps no more
// when it comes to the last. SimpleCNN's step of 256 samples on Zen 4 (L2 1 MiB, largest maps 125
// KB a sample) took 48.2, 46.7 and 48.8 ms of processor time with micro-batches of 8, 16 and 32,
// and 53.9 ms without.
constexpr std::size_t kMapsPerL2 = 2;

class OnednnBackend : public OpBackend {
 public:
  OnednnBackend(Device& device, DataType activations) {
    onednn::limit_instructions();
    auto context = std::make_shared<onednn::Context>();
    context->activations = activations;
    context->threads = device.thread_count();
    context_ = std::move(context);
  }

  std::string name() const override { return "onednn"; }
  std::unique_ptr<Op> make(const OpDesc& desc) override {
    const auto makers = [&](const auto& d) requires requires { onednn::make_op(context_, d); }
    { return onednn::make_op(context_, d); };
    return make_with(makers, desc, name());
  }
  // A pool that writes a plain output itself saves the reorder, which would write the map again.
  FusedOp fuse(std::span<const OpDesc> chain) override {
    const auto* const pool = std::get_if<MaxPool2dDesc>(&chain[0]);
    if (pool == nullptr || chain.size() < 2 || !std::holds_alternative<ReorderDesc>(chain[1])) {
      return {};
    }
    return {onednn::make_max_pool2d(context_, *pool, true), 2};
  }
  std::unique_ptr<SoftmaxCrossEntropy> softmax_cross_entropy(
      const CrossEntropyDesc& desc) override {
    return cpu::make_softmax_cross_entropy(desc, context_->threads);
  }
  std::unique_ptr<Optimizer> optimizer() override {
    return cpu::make_optimizer({context_->simd, context_->threads});
  }
  std::unique_ptr<Mean> mean() override {
    return cpu::make_mean({context_->simd, context_->threads});
  }
  // The loader's own threads feed CPU devices, so this need not be fast.
  std::unique_ptr<BatchGather> batch_gather() override { return reference::make_batch_gather(); }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    onednn::convert(*context_, from_layout, from, to_layout, to);
  }

  TensorLayout for_samples(const TensorLayout& layout, std::int64_t samples) const override {
    return onednn::for_samples(layout, samples);
  }

  std::int64_t micro_batch_hint(std::size_t bytes_per_sample) const override {
    if (bytes_per_sample == 0) return 0;
    // The caller counts maps in fp32.
    const std::size_t per_element = sizeof(float) / size_of(context_->activations);
    return static_cast<std::int64_t>(kMapsPerL2 * per_element * context_->l2_bytes /
                                     bytes_per_sample);
  }

 private:
  onednn::ContextPtr context_;
};

}  // namespace

std::unique_ptr<OpBackend> make_onednn_backend(Device& device, DataType activations) {
  if (device.kind() != DeviceKind::cpu)
    throw UnavailableError(
        fmt::format("the oneDNN backend runs on CPU devices, not on {}", device.name()));
  ensure(activations == DataType::fp32 || activations == DataType::bf16,
         "CPU devices compute in fp32 or bf16, not in {}", to_string(activations));
  if (activations == DataType::bf16) {
    if (const std::string reason = why_no_cpu_bf16(); !reason.empty())
      throw UnavailableError("CPU devices cannot compute in bf16 here: " + reason);
  }
  return std::make_unique<OnednnBackend>(device, activations);
}

std::string why_no_cpu_bf16() { return onednn::why_no_bf16(); }

bool cpu_bf16_uses_amx() { return onednn::uses_amx(); }

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* version = dnnl_version();
  return {{"onednn", fmt::format("{}.{}.{}", version->major, version->minor, version->patch)}};
}

}  // namespace ddpbench::ops
