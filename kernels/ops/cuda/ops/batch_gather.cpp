// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gather of a batch on an own kernel.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/gather_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"

namespace ddpbench::ops::cuda {
namespace {

class DeviceGather final : public BatchGather {
 public:
  void run(Stream& stream, const GatherArgs& args) override {
    check_gather(args);
    if (static_cast<std::size_t>(args.channels) > kMaxGatherChannels) {
      throw ConfigError(fmt::format("batch_gather: {} channels; at most {} are possible",
                                    args.channels, kMaxGatherChannels));
    }
    element_index(args.batch * args.sample_elements, "batch_gather");
    element_index(args.batch * args.labels_per_sample, "batch_gather");
    check(gather_batch(args, ddpbench::cuda::native_stream(stream)), "batch_gather",
          "gather_batch");
  }
};

}  // namespace

std::unique_ptr<BatchGather> make_batch_gather() { return std::make_unique<DeviceGather>(); }

}  // namespace ddpbench::ops::cuda
