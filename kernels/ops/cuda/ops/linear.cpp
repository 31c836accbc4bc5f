// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear as three products of cuBLASLt on row-major matrices:
//   y = x w^T + bias,  dx = dy w,  dw = dy^T x,  db = column sums of dy;
// Each product costs 2 * batch * in * out FLOPs and the bytes of its three matrices.
//
// Forward adds the bias and rectifies in the product's epilogue. Backward rectifies dy and sums db
// in one own pass (3 matrices of batch x out). Without a ReLU and accumulation, db comes from the
// epilogue of dw. (The library's epilogue for the gradient of a ReLU belongs to the product that
// *makes* dy, which is the next layer's.) Beside narrower activations the products read
// copies of weights and bias in their type; dw is fp32.
//
// Channels-last maps are not reordered. The terms of a product may have any order that x and w
// share, so the weight's columns have the order of the pixels (layout.h).
#include <algorithm>

#include "base/error.h"
#include "kernels/ops/cuda/library/gemm.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

Epilogue forward_epilogue(const LinearDesc& desc) {
  if (desc.bias) return desc.fuse_relu ? Epilogue::bias_relu : Epilogue::bias;
  return desc.fuse_relu ? Epilogue::relu : Epilogue::none;
}

class Linear final : public Op {
 public:
  Linear(ContextPtr context, const LinearDesc& desc, std::string where)
      : Op(plain_plan(desc)),
        context_(std::move(context)),
        desc_(desc),
        where_(std::move(where)),
        type_(desc.is_plain ? DataType::fp32 : context_->activation_type()) {
    const std::int64_t batch = desc.input.shape[0], in = plan_.parameters[0].shape[1];
    rows_ = element_index(batch, where_);
    columns_ = element_index(desc.out_features, where_);
    in_ = element_index(in, where_);
    element_index(in * desc.out_features, where_);
    element_index(batch * std::max(in, desc.out_features), where_);
    describe_input(desc.input);
    plan_.output = TensorLayout::plain(plan_.output.shape, type_);
    plan_.weight_type = type_;
    make_products();
    plan_.description += fmt::format(" (cublaslt {} candidate {})",
                                     to_string(context_->options.precision), forward_->place());
    lay_out_workspace();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const std::span<const void* const> parameters = parameters_beside(type_, args);
    const void* const bias = desc_.bias ? parameters[1] : nullptr;
    forward_->run(native_stream(stream), {parameters[0], args.inputs[0], args.output, bias},
                  args.workspace);
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = native_stream(stream);
    void* const library = static_cast<std::byte*>(args.workspace) + library_;
    const bool trained = args.grad_parameters[0] != nullptr;
    const bool sums_in_product = trained && with_bias_gradient_ && !args.accumulate;
    const void* dy = sums_in_product ? args.grad_output : gradient_pass_.run(args, native, where_);
    if (sums_in_product) {
      with_bias_gradient_->run(
          native, {args.inputs[0], dy, args.grad_parameters[0], args.grad_parameters[1]}, library);
    } else if (trained) {
      backward_weight_->run(
          native, {args.inputs[0], dy, args.grad_parameters[0], nullptr, args.accumulate}, library);
    }
    if (!backward_data_ || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const void* const weight = parameters_beside(type_, args)[0];
    backward_data_->run(native, {weight, dy, args.grad_inputs[0]}, library);
  }

 private:
  void describe_input(const TensorLayout& input) {
    if (!is_nhwc(input)) {
      plan_.inputs = {TensorLayout::plain(input.shape, type_)};
      return;
    }
    plan_.inputs = {nhwc_layout(input.shape, type_)};
    const Shape& maps = input.shape;
    plan_.parameters[0].layout = ohwi_layout({columns_, maps[1], maps[2], maps[3]});
  }

  void make_products() {
    const std::int64_t batch = rows_, in = in_, out = columns_;
    // y^T [out, batch] = w [out, in] x^T [in, batch]
    const GemmDesc forward{.m = out,
                           .n = batch,
                           .k = in,
                           .transpose_a = true,
                           .input = type_,
                           .output = type_,
                           .epilogue = forward_epilogue(desc_),
                           .is_tuned = !desc_.is_plain};
    forward_.emplace(*context_, forward, where_);
    // dw^T [in, out] = x^T [in, batch] dy [batch, out]
    GemmDesc weight{.m = in,
                    .n = out,
                    .k = batch,
                    .transpose_b = true,
                    .input = type_,
                    .output = DataType::fp32,
                    .is_tuned = !desc_.is_plain};
    backward_weight_.emplace(*context_, weight, where_);
    // The epilogue sums in an undocumented order.
    if (desc_.bias && !desc_.fuse_relu && type_ == DataType::fp32 &&
        !context_->options.deterministic) {
      weight.epilogue = Epilogue::bias_gradient;
      with_bias_gradient_ = Gemm::make_if_supported(*context_, weight, where_);
    }
    // dx^T [in, batch] = w^T [in, out] dy^T [out, batch]
    if (!desc_.needs_grad_input) return;
    GemmDesc data{.m = in, .n = batch, .k = out, .input = type_, .output = type_};
    data.is_tuned = !desc_.is_plain;
    backward_data_.emplace(*context_, data, where_);
  }

  void lay_out_workspace() {
    WorkspaceLayout backward;
    gradient_pass_ = GradientPass({.type = type_,
                                   .rows = rows_,
                                   .columns = columns_,
                                   .relu = desc_.fuse_relu,
                                   .bias = desc_.bias},
                                  backward);
    std::size_t products = backward_weight_->workspace_bytes();
    if (with_bias_gradient_) products = std::max(products, with_bias_gradient_->workspace_bytes());
    if (backward_data_) products = std::max(products, backward_data_->workspace_bytes());
    library_ = backward.add(products);
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), backward.bytes());
  }

  ContextPtr context_;
  LinearDesc desc_;
  std::string where_;
  DataType type_;
  std::uint32_t rows_ = 0, columns_ = 0, in_ = 0;
  std::optional<Gemm> forward_, backward_weight_, backward_data_;
  std::unique_ptr<Gemm> with_bias_gradient_;
  std::size_t library_ = 0;  // offset of the workspace of backward's products
  GradientPass gradient_pass_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc) {
  return std::make_unique<Linear>(std::move(context), desc, where_of(desc));
}

}  // namespace ddpbench::ops::cuda
