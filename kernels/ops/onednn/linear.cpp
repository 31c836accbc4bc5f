// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear as three oneDNN matrix products on row-major matrices:
//   y = x w^T + bias,  dx = dy w,  dw = dy^T x,  db = column sums of dy;
// Each product costs 2 * batch * in * out FLOPs and the bytes of its three matrices.
//
// matmul is as fast as inner_product and sgemm (114 GFLOP/s for 256 x 3136 x 128 on Zen 4, one
// thread), and its row-major weights need no reorder.
//
// In bf16 x, y and their gradients are bf16; w becomes bf16 in the workspace, once for each of y
// and dx. dw and db are sums in fp32, of fp32.
//
// Blocked input (aBcd16b) is never reordered. The sum over features may have any order, so the
// weight's columns are kept in the order of the input's memory.
#include <algorithm>

#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

// A row-major matrix, or the transpose of one.
Desc matrix(DataType type, std::int64_t rows, std::int64_t columns, Tag tag = Tag::ab) {
  return Desc({rows, columns}, to_dnnl(type), tag);
}

// What a product does after multiplying.
struct Epilogue {
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
};

// Operands of the launch: a, b, the result, then the bias if there is one. The caller has b as
// `stored`.
Launch make_product(const Context& context, const Desc& a, const Desc& b, const Desc& stored,
                    const Desc& result, const Epilogue& epilogue) {
  dnnl::primitive_attr attr = user_scratchpad();
  dnnl::post_ops ops;
  if (epilogue.accumulate) ops.append_sum(1.0F);
  if (epilogue.relu) append_relu(ops);
  attr.set_post_ops(ops);
  const Desc bias = epilogue.bias ? matrix(DataType::fp32, 1, dims_of(result)[1]) : Desc();
  const auto desc = plan_primitive<dnnl::matmul>(context.engine, attr, a, b, bias, result);
  std::vector<Operand> operands = {
      {DNNL_ARG_SRC, a, a}, {DNNL_ARG_WEIGHTS, b, stored}, {DNNL_ARG_DST, result, result, true}};
  if (epilogue.bias) operands.push_back({DNNL_ARG_BIAS, bias, bias});
  return Launch(context, dnnl::matmul(desc), desc.scratchpad_desc(), operands);
}

// The layout of one sample, repeated for each row of the weight. So the weight of `out` rows lies
// in memory as a batch of `out` samples does. REQUIRES: `block` is the input's channel_block().
TensorLayout weight_layout(const TensorLayout& input, std::int64_t block, const Shape& weight) {
  Shape samples = input.shape;
  samples[0] = weight[0];
  return to_layout(to_desc(image_layout(samples, block)), weight);
}

class Linear : public Op {
 public:
  Linear(ContextPtr context, const LinearDesc& desc)
      : Op(plain_plan(desc)),
        context_(std::move(context)),
        desc_(desc),
        type_(desc.is_plain ? DataType::fp32 : context_->activations) {
    const std::int64_t block = desc.input.is_plain() ? 1 : channel_block(desc.input);
    plan_.inputs = {TensorLayout::plain(desc.input.shape, type_)};
    plan_.output = TensorLayout::plain(plan_.output.shape, type_);
    if (block > 1) {
      plan_.inputs = {with_type(desc.input, type_)};
      plan_.parameters[0].layout = weight_layout(desc.input, block, plan_.parameters[0].shape);
    }
    batch_ = desc.input.shape[0];
    out_ = desc.out_features;
    // The features in memory. Padding channels count: they are zero on both sides of the product.
    in_ = static_cast<std::int64_t>(plan_.inputs[0].bytes / size_of(type_)) / batch_;
    make_products();
    plan_.description += fmt::format(" (matmul{})", type_ == DataType::bf16 ? " bf16" : "");
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const void* const bias = desc_.bias ? args.parameters[1] : nullptr;
    forward_->run({args.inputs[0], args.parameters[0], args.output, bias}, args.workspace);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const void* const dy = desc_.fuse_relu ? mask(args) : args.grad_output;
    void* const scratch = static_cast<std::byte*>(args.workspace) + masked_bytes();
    const auto& weights = args.accumulate ? accumulate_weights_ : backward_weights_;
    const bool trained = args.grad_parameters[0] != nullptr;
    if (trained) weights->run({dy, args.inputs[0], args.grad_parameters[0]}, scratch);
    if (trained && desc_.bias) {
      cpu::column_sums(context_->team(), type_, dy, batch_, out_,
                       static_cast<float*>(args.grad_parameters[1]), args.accumulate);
    }
    if (backward_data_ && !args.grad_inputs.empty() && args.grad_inputs[0])
      backward_data_->run({dy, args.parameters[0], args.grad_inputs[0]}, scratch);
  }

 private:
  // The output's gradient before the ReLU, in the workspace.
  const void* mask(const BackwardArgs& args) const {
    cpu::activation_backward(context_->team(), Activation::relu, type_, args.output,
                             args.grad_output, args.workspace, batch_ * out_);
    return args.workspace;
  }

  void make_products() {
    const Desc x = matrix(type_, batch_, in_), y = matrix(type_, batch_, out_);
    forward_ = make_product(*context_, x, matrix(type_, in_, out_, Tag::ba),
                            matrix(DataType::fp32, in_, out_, Tag::ba), y,
                            {.bias = desc_.bias, .relu = desc_.fuse_relu});
    backward_weights_ = make_weight_gradient(*context_, type_, batch_, in_, out_, false);
    accumulate_weights_ = make_weight_gradient(*context_, type_, batch_, in_, out_, true);
    std::size_t backward =
        std::max(backward_weights_->workspace_bytes(), accumulate_weights_->workspace_bytes());
    if (desc_.needs_grad_input) {
      backward_data_ = make_product(*context_, y, matrix(type_, out_, in_),
                                    matrix(DataType::fp32, out_, in_), x, {});
      backward = std::max(backward, backward_data_->workspace_bytes());
    }
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), masked_bytes() + backward);
  }

  std::size_t masked_bytes() const {
    return desc_.fuse_relu ? align_up(static_cast<std::size_t>(batch_ * out_) * size_of(type_)) : 0;
  }

  ContextPtr context_;
  LinearDesc desc_;
  DataType type_;  // of x and y
  std::int64_t batch_ = 0, in_ = 0, out_ = 0;
  std::optional<Launch> forward_, backward_weights_, accumulate_weights_, backward_data_;
};

}  // namespace

Launch make_weight_gradient(const Context& context, DataType type, std::int64_t rows,
                            std::int64_t in, std::int64_t out, bool accumulate) {
  const Desc x = matrix(type, rows, in);
  return make_product(context, matrix(type, out, rows, Tag::ba), x, x,
                      matrix(DataType::fp32, out, in), {.accumulate = accumulate});
}

std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc) {
  const Context& c = *context;
  return plan_with_onednn(c, where_of(desc),
                          [&] { return std::make_unique<Linear>(std::move(context), desc); });
}

}  // namespace ddpbench::ops::onednn
