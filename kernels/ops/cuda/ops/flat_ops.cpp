// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands around a network, on own kernels: the optimizers, the mean of buffers, the gather of
// a batch, and the loss.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/flat_kernels.h"
#include "kernels/ops/cuda/kernels/loss_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"

namespace ddpbench::ops::cuda {
namespace {

LossShape loss_shape(const CrossEntropyDesc& desc) {
  LossShape shape;
  shape.batch = static_cast<std::uint32_t>(desc.batch);
  shape.classes = static_cast<std::uint32_t>(desc.classes);
  shape.positions = static_cast<std::uint32_t>(desc.positions);
  shape.ignore_index = desc.ignore_index;
  shape.label_share = static_cast<float>(1 - desc.label_smoothing);
  shape.class_share = static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes));
  shape.weight = static_cast<float>(desc.weight);
  shape.counts_hits = desc.counts_hits;
  return shape;
}

}  // namespace

void update(Stream& stream, const OptimizerArgs& args) {
  element_index(static_cast<std::int64_t>(args.count), "optimizer");
  check(optimizer_step(args, native_stream(stream)), "optimizer", "optimizer_step");
}

void mean(Stream& stream, std::span<const float* const> inputs, float* out, std::size_t count) {
  ensure(!inputs.empty(), "the mean of no buffers");
  if (inputs.size() > kMaxMeanInputs) {
    throw DeviceError(fmt::format("the mean of {} buffers; at most {} are possible", inputs.size(),
                                  kMaxMeanInputs));
  }
  const std::uint32_t elements = element_index(static_cast<std::int64_t>(count), "mean");
  check(mean_of(inputs, out, elements, native_stream(stream)), "mean", "mean_of");
}

void gather(Stream& stream, const GatherArgs& args) {
  check_gather(args);
  if (static_cast<std::size_t>(args.channels) > kMaxGatherChannels) {
    throw ConfigError(fmt::format("batch_gather: {} channels; at most {} are possible",
                                  args.channels, kMaxGatherChannels));
  }
  element_index(args.batch * args.sample_elements, "batch_gather");
  element_index(args.batch * args.labels_per_sample, "batch_gather");
  check(gather_batch(args, native_stream(stream)), "batch_gather", "gather_batch");
}

void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) {
  check_loss(desc);
  const std::string where = describe(desc);
  element_index(desc.batch * desc.classes * desc.positions, where);
  ensure(args.samples >= 0 && args.samples <= desc.batch, "{}: {} samples", where, args.samples);
  ensure(args.workspace != nullptr, "{}: no workspace", where);
  check(softmax_cross_entropy(loss_shape(desc), args, native_stream(stream)), where,
        "softmax_cross_entropy");
}

std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) {
  return loss_workspace_bytes(loss_shape(desc));
}

}  // namespace ddpbench::ops::cuda
