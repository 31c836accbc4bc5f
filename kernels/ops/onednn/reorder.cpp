// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reorders between layouts: no FLOPs; every byte of both sides moves once.
#include <cstring>

#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"

namespace ddpbench::ops::onednn {
namespace {

// Descriptors of both sides with equal dimensions. A plain side takes the other's grouping, since
// its row-major memory is the same in both ([128, 3136] is [128, 64, 7, 7]).
std::pair<dnnl::memory::desc, dnnl::memory::desc> matching_descs(const TensorLayout& from,
                                                                 const TensorLayout& to) {
  const dnnl::memory::desc a = to_desc(from), b = to_desc(to);
  const Shape a_dims = dims_of(a), b_dims = dims_of(b);
  if (a_dims == b_dims) return {a, b};
  if (element_count(a_dims) == element_count(b_dims)) {
    if (from.is_plain()) return {to_desc(TensorLayout::plain(b_dims, from.type)), b};
    if (to.is_plain()) return {a, to_desc(TensorLayout::plain(a_dims, to.type))};
  }
  throw ConfigError(fmt::format("no conversion from {} {} to {} {}", to_string(from.shape),
                                from.tag, to_string(to.shape), to.tag));
}

class Reorder : public Op {
 public:
  Reorder(ContextPtr context, const ReorderDesc& desc)
      : Op(plain_plan(desc)), context_(std::move(context)) {
    const auto [from, to] = matching_descs(desc.from, desc.to);
    forward_.emplace(make_reorder_launch(*context_, from, to));
    backward_.emplace(make_reorder_launch(*context_, to, from));
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), backward_->workspace_bytes());
  }

  void forward(Stream&, const ForwardArgs& args) override {
    forward_->run({args.inputs[0], args.output}, args.workspace);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0])
      backward_->run({args.grad_output, args.grad_inputs[0]}, args.workspace);
  }

 private:
  ContextPtr context_;
  std::optional<Launch> forward_, backward_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc) {
  const Context& c = *context;
  return plan_with_onednn(c, "a reorder of " + to_string(desc.from.shape),
                          [&] { return std::make_unique<Reorder>(std::move(context), desc); });
}

void convert(const Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to) {
  if (from_layout == to_layout) {
    std::memcpy(to, from, from_layout.bytes);
    return;
  }
  plan_with_onednn(context, "a conversion of " + to_string(from_layout.shape), [&] {
    const auto [a, b] = matching_descs(from_layout, to_layout);
    const Launch launch = make_reorder_launch(context, a, b);
    std::vector<std::byte> scratch(launch.workspace_bytes() + 64);
    void* aligned = scratch.data();
    std::size_t room = scratch.size();
    launch.run({from, to}, std::align(64, launch.workspace_bytes(), aligned, room));
  });
}

}  // namespace ddpbench::ops::onednn
