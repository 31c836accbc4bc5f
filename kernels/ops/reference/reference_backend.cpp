// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/error.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops {
namespace {

class ReferenceBackend : public OpBackend {
 public:
  std::string name() const override { return "reference"; }
  std::unique_ptr<Op> make(const OpDesc& desc) override {
    const auto makers = [](const auto& d) requires requires { reference::make_op(d); }
    { return reference::make_op(d); };
    return make_with(makers, desc, name());
  }
  void loss(Stream&, const CrossEntropyDesc& desc, const LossArgs& args) override {
    reference::loss(desc, args);
  }
  void update(Stream&, const OptimizerArgs& args) override { reference::update(args); }
  void mean(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    reference::mean(inputs, out, count);
  }
  void gather(Stream&, const GatherArgs& args) override { reference::gather(args); }

  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    if (!from_layout.is_plain() || !to_layout.is_plain() || from_layout.bytes != to_layout.bytes)
      throw ConfigError(
          fmt::format("convert: {} {} to {} {}: the reference backend has plain layouts only",
                      to_string(from_layout.shape), from_layout.tag, to_string(to_layout.shape),
                      to_layout.tag));
    std::memcpy(to, from, from_layout.bytes);
  }

  std::int64_t micro_batch_hint(std::size_t) const override { return 0; }
};

}  // namespace

std::unique_ptr<OpBackend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace ddpbench::ops
