// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d through oneDNN. 2 * batch * out * oh * ow * in * kh * kw FLOPs forward, the same for each
// gradient; bytes are those of input, output and weights, once each.
//
// 3x3 convolutions of stride 1 run as Winograd F(4x4, 3x3) (Lavin and Gray, CVPR 2016) where the
// library has it (2.6 with AVX-512; 3.7 has none for x86): it multiplies 4 times less. Against
// direct convolution it takes 0.40 to 0.85 of the time for 16 to 512 channels and maps of 7x7 to
// 56x56 in all three passes (Zen 4, one thread; 32->64 channels on 14x14: 0.6 to 0.7), and 1.3
// times the time for maps of 6x6. Its results differ from direct convolution's by 7e-7 of their
// norm, weight gradients by 1e-6 to 4e-6, growing with the batch: far below the verification's
// tolerance.
//
// The library chooses the layouts (`any`): a forced channels-last layout of a one-channel input,
// for one, runs in a loop that is 300 times slower. Weights and their gradient are kept in
// forward's weight layout. Where backward-data wants another, it reorders the few weights at every
// call.
#include <cstring>
#include <functional>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/launch.h"
#include "kernels/ops/onednn/layout.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kWinograd = dnnl::algorithm::convolution_winograd;

Desc any_layout(const Shape& shape) {
  return Desc(shape, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
}

// The parameters of a convolution as oneDNN takes them.
struct Geometry {
  explicit Geometry(const Conv2dDesc& d)
      : strides{d.window.stride_h, d.window.stride_w},
        pads{d.window.pad_h, d.window.pad_w},
        dilation{d.dilation.h - 1, d.dilation.w - 1},
        weight(weight_shape(d)),
        bias(d.bias
                 ? Desc({d.out_channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a)
                 : Desc()) {
    if (d.groups == 1) return;
    weight[0] /= d.groups;
    weight.insert(weight.begin(), d.groups);
  }
  Shape strides, pads;
  Shape dilation;  // elements left out between two of the kernel
  Shape weight;    // [groups, out / groups, in / groups, kh, kw] where there are several groups
  Desc bias;
};

// Whether Winograd is worth trying: the library supports it, and the measurement above favours it.
bool winograd_pays(const Conv2dDesc& desc) {
  const Shape out = output_shape(desc);
  const Window2d& w = desc.window;
  return desc.groups == 1 && desc.dilation == Dilation2d{} && w.kernel_h == 3 && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && w.pad_h <= 1 && w.pad_w <= 1 &&
         desc.input.shape[1] % 16 == 0 && desc.out_channels % 16 == 0 && out[2] >= 7 && out[3] >= 7;
}

// Returns the first plan that the library implements. Throws what the last one throws.
template <typename PrimitiveDesc>
PrimitiveDesc first_implemented(const std::vector<std::function<PrimitiveDesc()>>& plans) {
  for (std::size_t i = 0; i + 1 < plans.size(); ++i) {
    try {
      return plans[i]();
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  return plans.back()();
}

Forward::primitive_desc plan_forward(const Context& context, const Conv2dDesc& desc,
                                     const Geometry& g) {
  dnnl::primitive_attr attr = user_scratchpad();
  if (desc.fuse_relu) {
    dnnl::post_ops ops;
    append_relu(ops);
    attr.set_post_ops(ops);
  }
  const auto plan = [&](dnnl::algorithm algorithm) {
    return plan_primitive<Forward>(context.engine, attr, dnnl::prop_kind::forward_training,
                                   algorithm, any_layout(desc.input.shape), any_layout(g.weight),
                                   g.bias, any_layout(output_shape(desc)), g.strides, g.dilation,
                                   g.pads, g.pads);
  };
  if (!winograd_pays(desc)) return plan(kDirect);
  return first_implemented<Forward::primitive_desc>(
      {[&] { return plan(kWinograd); }, [&] { return plan(kDirect); }});
}

bool is_slow(const dnnl::primitive_desc_base& desc) {
  return std::strstr(desc.impl_info_str(), "ref") != nullptr;
}

// Plans a gradient in the layouts that the tensors are stored in. Where the library has only a
// plain loop for those, plans it in the layouts that it prefers (ConvertingLaunch reorders then).
template <typename PrimitiveDesc>
PrimitiveDesc plan_gradient(
    const Conv2dDesc& desc,
    const std::function<PrimitiveDesc(dnnl::algorithm algorithm, bool any)>& plan) {
  const auto stored = [&] {
    PrimitiveDesc direct = plan(kDirect, false);
    if (is_slow(direct)) throw dnnl::error(dnnl_unimplemented, "only the plain loop");
    return direct;
  };
  const auto any = [&] { return plan(kDirect, true); };
  if (!winograd_pays(desc)) return first_implemented<PrimitiveDesc>({stored, any});
  return first_implemented<PrimitiveDesc>({[&] { return plan(kWinograd, false); }, stored, any});
}

class Conv2d : public PlannedOp {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc)
      : PlannedOp(plain_plan(desc)), context_(std::move(context)), desc_(desc), geometry_(desc) {
    const auto forward = plan_forward(*context_, desc, geometry_);
    source_ = forward.src_desc();
    weight_ = forward.weights_desc();
    target_ = forward.dst_desc();
    plan_.inputs = {to_layout(source_)};
    plan_.output = to_layout(target_);
    plan_.parameters[0].layout = to_layout(weight_, plan_.parameters[0].shape);
    plan_.description += fmt::format(" ({})", forward.impl_info_str());
    make_forward(forward);
    make_backward_weights(forward);
    if (desc.needs_grad_input) make_backward_data(forward);
    lay_out_workspace();
  }

  void forward(Stream&, const ForwardArgs& args) override {
    if (desc_.bias)
      forward_->run({args.inputs[0], args.parameters[0], args.parameters[1], args.output},
                    args.workspace);
    else
      forward_->run({args.inputs[0], args.parameters[0], args.output}, args.workspace);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    const void* dy = args.grad_output;
    if (desc_.fuse_relu) {
      auto* const masked = reinterpret_cast<float*>(workspace + masked_offset_);
      cpu::relu_backward(team(), static_cast<const float*>(args.output),
                         static_cast<const float*>(dy), masked, float_count(target_));
      dy = masked;
    }
    run_backward_weights(args, dy);
    if (backward_data_ && !args.grad_inputs.empty() && args.grad_inputs[0])
      backward_data_->run({dy, args.parameters[0], args.grad_inputs[0]}, workspace + main_offset_);
  }

 private:
  void make_forward(const Forward::primitive_desc& desc) {
    std::vector<Operand> operands = {Operand::in(DNNL_ARG_SRC, source_),
                                     Operand::in(DNNL_ARG_WEIGHTS, weight_)};
    if (desc_.bias) operands.push_back(Operand::in(DNNL_ARG_BIAS, geometry_.bias));
    operands.push_back(Operand::out(DNNL_ARG_DST, target_));
    forward_.emplace(context_, Forward(desc), desc.scratchpad_desc(), std::move(operands));
  }

  void make_backward_weights(const Forward::primitive_desc& hint) {
    const auto desc = plan_gradient<BackwardWeights::primitive_desc>(
        desc_, [&](dnnl::algorithm algorithm, bool any) {
          return plan_gradient_of<BackwardWeights>(
              hint, context_->engine, user_scratchpad(), algorithm,
              any ? any_layout(dims_of(source_)) : source_,
              any ? any_layout(geometry_.weight) : weight_, geometry_.bias,
              any ? any_layout(dims_of(target_)) : target_, geometry_.strides, geometry_.dilation,
              geometry_.pads, geometry_.pads);
        });
    std::vector<Operand> operands = {
        Operand::in(DNNL_ARG_SRC, desc.src_desc(), source_),
        Operand::in(DNNL_ARG_DIFF_DST, desc.diff_dst_desc(), target_),
        Operand::out(DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc(), weight_)};
    if (desc_.bias) operands.push_back(Operand::out(DNNL_ARG_DIFF_BIAS, geometry_.bias));
    backward_weights_.emplace(context_, BackwardWeights(desc), desc.scratchpad_desc(),
                              std::move(operands));
  }

  void make_backward_data(const Forward::primitive_desc& hint) {
    const auto desc = plan_gradient<BackwardData::primitive_desc>(
        desc_, [&](dnnl::algorithm algorithm, bool any) {
          return plan_gradient_of<BackwardData>(
              hint, context_->engine, user_scratchpad(), algorithm,
              any ? any_layout(dims_of(source_)) : source_, any_layout(geometry_.weight),
              any ? any_layout(dims_of(target_)) : target_, geometry_.strides, geometry_.dilation,
              geometry_.pads, geometry_.pads);
        });
    backward_data_.emplace(
        context_, BackwardData(desc), desc.scratchpad_desc(),
        std::vector<Operand>{Operand::in(DNNL_ARG_DIFF_DST, desc.diff_dst_desc(), target_),
                             Operand::in(DNNL_ARG_WEIGHTS, desc.weights_desc(), weight_),
                             Operand::out(DNNL_ARG_DIFF_SRC, desc.diff_src_desc(), source_)});
  }

  // Backward's workspace: [masked output gradient][new weight and bias gradient][primitives].
  void lay_out_workspace() {
    fresh_offset_ = masked_offset_ + (desc_.fuse_relu ? align_up(target_.get_size()) : 0);
    fresh_bias_offset_ = fresh_offset_ + align_up(weight_.get_size());
    main_offset_ = fresh_bias_offset_ + (desc_.bias ? align_up(geometry_.bias.get_size()) : 0);
    std::size_t primitives = backward_weights_->workspace_bytes();
    if (backward_data_) primitives = std::max(primitives, backward_data_->workspace_bytes());
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), main_offset_ + primitives);
  }

  // oneDNN overwrites weight gradients. To accumulate, they are made in the workspace and then
  // added (0.1 MB for the largest of SimpleCNN).
  void run_backward_weights(const BackwardArgs& args, const void* dy) const {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    void* const dw = args.accumulate ? workspace + fresh_offset_ : args.grad_parameters[0];
    void* const primitives = workspace + main_offset_;
    if (!desc_.bias) {
      backward_weights_->run({args.inputs[0], dy, dw}, primitives);
    } else {
      void* const db = args.accumulate ? workspace + fresh_bias_offset_ : args.grad_parameters[1];
      backward_weights_->run({args.inputs[0], dy, dw, db}, primitives);
      if (args.accumulate) accumulate(db, args.grad_parameters[1], geometry_.bias);
    }
    if (args.accumulate) accumulate(dw, args.grad_parameters[0], weight_);
  }

  void accumulate(const void* fresh, void* total, const Desc& desc) const {
    auto* const sum = static_cast<float*>(total);
    cpu::add(team(), sum, static_cast<const float*>(fresh), sum, float_count(desc));
  }

  static std::int64_t float_count(const Desc& desc) {
    return static_cast<std::int64_t>(desc.get_size() / sizeof(float));
  }
  cpu::Team team() const { return {context_->simd, context_->threads}; }

  ContextPtr context_;
  Conv2dDesc desc_;
  Geometry geometry_;
  Desc source_, weight_, target_;  // as stored
  std::optional<ConvertingLaunch> forward_, backward_weights_, backward_data_;
  std::size_t masked_offset_ = 0, fresh_offset_ = 0, fresh_bias_offset_ = 0, main_offset_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc) {
  output_shape(desc);
  const Context& c = *context;
  return plan_with_onednn(c, fmt::format("{} on {}", describe(desc), to_string(desc.input.shape)),
                          [&] { return std::make_unique<Conv2d>(std::move(context), desc); });
}

}  // namespace ddpbench::ops::onednn
