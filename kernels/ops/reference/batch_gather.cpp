// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference gather, for every CPU backend: two operations and 5 bytes an element (batch_gather.h).
#include <algorithm>

#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class PlainGather final : public BatchGather {
 public:
  void run(Stream&, const GatherArgs& args) override {
    check_gather(args);
    const std::int32_t* indices =
        args.indices + (args.position != nullptr ? static_cast<std::int64_t>(*args.position) : 0);
    for (std::int64_t n = 0; n < args.batch; ++n) {
      const std::int64_t sample = indices[n];
      gather(args, args.images + sample * args.sample_elements,
             args.out + n * args.sample_elements);
      std::copy_n(args.labels + sample * args.labels_per_sample, args.labels_per_sample,
                  args.labels_out + n * args.labels_per_sample);
    }
  }

 private:
  static void gather(const GatherArgs& args, const std::uint8_t* bytes, float* out) {
    const std::int64_t pixels = args.sample_elements / args.channels;
    for (std::int64_t c = 0; c < args.channels; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      const ByteScale scale = byte_scale(args.mean[channel], args.std[channel]);
      for (std::int64_t i = c * pixels; i < (c + 1) * pixels; ++i) {
        out[i] = static_cast<float>(bytes[i]) * scale.factor + scale.offset;
      }
    }
  }
};

}  // namespace

std::unique_ptr<BatchGather> make_batch_gather() { return std::make_unique<PlainGather>(); }

}  // namespace ddpbench::ops::reference
