// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d through oneDNN. 2 * batch * out * oh * ow * in * kh * kw FLOPs forward, the same for each
// gradient; bytes are those of input, output and weights, once each.
//
// 3x3 convolutions of stride 1 run as the own Winograd F(4x4, 3x3) (winograd.cpp), which
// multiplies 4 times less. oneDNN 2.6 has one, too, with AVX-512 (3.7 has none for x86), which is
// slower. Of the time of direct convolution (Zen 4, one thread) forward, backward data and backward
// weights took
//
//   samples x channels x map       oneDNN 2.6's        the own
//   16 x 32->64 x 14x14            0.70  0.68  0.60    0.50  0.49  0.43
//   16 x 256->256 x 14x14          0.53  0.54  0.46    0.46  0.46  0.42
//    1 x 512->512 x 7x7            2.50  3.35  3.50    1.85  2.26  3.67
//
// Results differ from direct convolution's by 6e-7 to 2e-6 of their norm, weight gradients by 1e-6
// to 7e-6, growing with the batch: far below the verification's tolerance.
//
// The library chooses the layouts (`any`): a forced channels-last layout of a one-channel input
// runs in a loop that is 300 times slower. Weights and their gradient are kept in forward's weight
// layout. Where backward-data wants another, it reorders the few weights at every call.
//
// In bf16 weights and their gradient are fp32 and have the layout of the gradient; forward and
// backward data make bf16 of them in the workspace. Winograd in fp32 takes as long as direct
// convolution in bf16, so 3x3 convolutions of many outputs run as the own over bf16 maps. Where the
// library has only a plain loop in bf16, the convolution runs in fp32.
//
// With AMX both gradients in bf16 may also run in other ways: that of weights as products of
// gathered rows (gathered_rows.cpp), that of the input as convolutions forward
// (turned_weights.cpp). With oneDNN 2.6's own a step of ResNet-50 on two samples runs 13.6 million
// tile instructions, with the others 7.7 million. No rule of shapes would hold for all processors
// and versions of the library, so a trial decides. It comes with the first gradient: then there are
// maps and a workspace, and a plan that never runs pays nothing. It costs at most six times each
// gradient of each geometry, once in a process, and all replicas in the process take its result.
// Processes may choose differently; their gradients then differ by the order of sums in fp32, and
// those of maps where that decides a rounding to bf16. Memory is planned for both. With AVX-512
// alone both ways take about as long, so the direct one runs, whose bits are the same in each run.
#include <functional>

#include "kernels/ops/backend.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/winograd.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"

namespace ddpbench::ops::onednn {
namespace {

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
using Desc = dnnl::memory::desc;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Desc any_layout(const Shape& shape, DataType type = DataType::fp32) {
  return Desc(shape, to_dnnl(type), dnnl::memory::format_tag::any);
}

// The parameters of a convolution as oneDNN takes them.
struct Geometry {
  explicit Geometry(const Conv2dDesc& d)
      : strides{d.window.stride_h, d.window.stride_w},
        pads{d.window.pad_h, d.window.pad_w},
        end_pads{d.window.pad_h + d.window.more_h, d.window.pad_w + d.window.more_w},
        dilation{d.dilation.h - 1, d.dilation.w - 1},
        weight(weight_shape(d)),
        bias(d.bias
                 ? Desc({d.out_channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a)
                 : Desc()) {
    if (d.groups == 1) return;
    weight[0] /= d.groups;
    weight.insert(weight.begin(), d.groups);
  }
  Shape strides, pads, end_pads;
  Shape dilation;  // elements left out between two of the kernel
  Shape weight;    // [groups, out / groups, in / groups, kh, kw] where there are several groups
  Desc bias;
};

// Whether Winograd is faster than direct convolution. Two things speak against it: outputs of the
// last tiles that are not in the map, and weights that are transformed for few tiles. The limits
// are from measurements with one thread (16 to 512 channels, maps of 4x4 to 56x56, 1 to 32
// samples). On AMX direct convolution in bf16 takes 0.26 to 0.57 of Winograd's time.
bool winograd_pays(const Context& context, const Conv2dDesc& desc) {
  const bool bf16 = context.activations == DataType::bf16;
  if (context.simd == cpu::SimdLevel::portable || !cpu::has_winograd(desc)) return false;
  if (bf16 && (context.simd != cpu::SimdLevel::avx512 || cpu_bf16_uses_amx())) return false;
  const std::int64_t in = desc.input.shape[1], out = desc.out_channels;
  if (in % 16 != 0 || out % 16 != 0) return false;
  const cpu::WinogradShape shape = cpu::winograd_shape(desc, 16);
  const auto outputs = static_cast<double>(shape.batch * shape.out_h * shape.out_w);
  const double used = outputs / (16.0 * static_cast<double>(shape.tiles()));
  const auto weight_bytes =
      cpu::kWinogradProducts * static_cast<std::size_t>(in * out) * sizeof(float);
  // Each thread reads all weights for its tiles, from memory or the shared cache where they are
  // many.
  const bool many = weight_bytes > 4 * context.l2_bytes;
  const double least = bf16 ? 1000.0 * context.threads : many ? 200.0 * context.threads : 64.0;
  return used >= 0.5 && outputs * used >= least;
}

// `type` is that of the maps and of the weights as the product reads them.
Forward::primitive_desc plan_forward(const Context& context, const Conv2dDesc& desc,
                                     const Geometry& g, DataType type) {
  dnnl::primitive_attr attr = user_scratchpad();
  if (desc.fuse_relu) {
    dnnl::post_ops ops;
    append_relu(ops);
    attr.set_post_ops(ops);
  }
  return plan_primitive<Forward>(context.engine, attr, dnnl::prop_kind::forward_training, kDirect,
                                 any_layout(desc.input.shape, type), any_layout(g.weight, type),
                                 g.bias, any_layout(output_shape(desc), type), g.strides,
                                 g.dilation, g.pads, g.end_pads);
}

// Plans a gradient in the layouts that the tensors are stored in. Where the library has only a
// plain loop for those, plans it in the layouts that it prefers (Launch reorders then).
template <typename PrimitiveDesc>
PrimitiveDesc plan_gradient(const std::function<PrimitiveDesc(bool any)>& plan) {
  try {
    PrimitiveDesc stored = plan(false);
    if (!is_plain_loop(stored)) return stored;
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  return plan(true);
}

// A gradient that has two ways.
struct Choice {
  std::unique_ptr<ConvGradient> other;  // null: the direct way alone
  std::optional<bool> takes_other;      // nothing before the trial
};

class Conv2d : public Op {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc, DataType type, ConvAlgorithm algorithm)
      : Op(plain_plan(desc)),
        context_(std::move(context)),
        desc_(desc),
        geometry_(desc),
        type_(type) {
    const auto forward = plan_forward(*context_, desc, geometry_, type);
    source_ = forward.src_desc();
    target_ = forward.dst_desc();
    weight_ = type == DataType::fp32 ? forward.weights_desc()
                                     : plan_weight_gradient(forward, false).diff_weights_desc();
    is_slow_ = is_plain_loop(forward);
    plan_.inputs = {to_layout(source_)};
    plan_.output = to_layout(target_);
    plan_.parameters[0].layout = to_layout(weight_, plan_.parameters[0].shape);
    plan_.description += fmt::format(" ({})", forward.impl_info_str());
    make_forward(forward);
    make_backward_weights(forward);
    if (desc.needs_grad_input) make_backward_data(forward);
    plan_choices(algorithm);
    lay_out_workspace();
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const void* const bias = desc_.bias ? args.parameters[1] : nullptr;
    forward_->run({args.inputs[0], args.parameters[0], args.output, bias}, args.workspace);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const void* const dy = desc_.fuse_relu ? mask(args) : args.grad_output;
    if (args.grad_parameters[0]) run_backward_weights(args, dy);
    if (!backward_data_ || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    void* const primitives = static_cast<std::byte*>(args.workspace) + main_offset_;
    void* const dx = args.grad_inputs[0];
    run_chosen(
        data_choice_, "input",
        [&] {
          backward_data_->run({dy, args.parameters[0], dx}, primitives);
        },
        [&] { data_choice_.other->run(args.parameters[0], dy, dx, primitives); });
  }

  // Whether the library has only a plain loop for one of the passes.
  bool is_slow() const { return is_slow_; }

 private:
  void make_forward(const Forward::primitive_desc& desc) {
    std::vector<Operand> operands = {{DNNL_ARG_SRC, source_, source_},
                                     {DNNL_ARG_WEIGHTS, desc.weights_desc(), weight_},
                                     {DNNL_ARG_DST, target_, target_, true}};
    if (desc_.bias) operands.push_back({DNNL_ARG_BIAS, geometry_.bias, geometry_.bias});
    forward_.emplace(*context_, Forward(desc), desc.scratchpad_desc(), std::move(operands));
  }

  // `any`: for maps of any layout, not as they are stored. Until weight_ is known, for any weights.
  BackwardWeights::primitive_desc plan_weight_gradient(const Forward::primitive_desc& hint,
                                                       bool any) const {
    return plan_gradient_of<BackwardWeights>(
        hint, context_->engine, user_scratchpad(), kDirect,
        any ? any_layout(dims_of(source_), type_) : source_,
        any || weight_ == Desc() ? any_layout(geometry_.weight) : weight_, geometry_.bias,
        any ? any_layout(dims_of(target_), type_) : target_, geometry_.strides, geometry_.dilation,
        geometry_.pads, geometry_.end_pads);
  }

  void make_backward_weights(const Forward::primitive_desc& hint) {
    const auto desc = plan_gradient<BackwardWeights::primitive_desc>(
        [&](bool any) { return plan_weight_gradient(hint, any); });
    is_slow_ = is_slow_ || is_plain_loop(desc);
    std::vector<Operand> operands = {
        {DNNL_ARG_SRC, desc.src_desc(), source_},
        {DNNL_ARG_DIFF_DST, desc.diff_dst_desc(), target_},
        {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc(), weight_, true}};
    if (desc_.bias) operands.push_back({DNNL_ARG_DIFF_BIAS, geometry_.bias, geometry_.bias, true});
    backward_weights_.emplace(*context_, BackwardWeights(desc), desc.scratchpad_desc(),
                              std::move(operands));
  }

  void make_backward_data(const Forward::primitive_desc& hint) {
    const auto desc = plan_gradient<BackwardData::primitive_desc>([&](bool any) {
      return plan_gradient_of<BackwardData>(
          hint, context_->engine, user_scratchpad(), kDirect,
          any ? any_layout(dims_of(source_), type_) : source_, any_layout(geometry_.weight, type_),
          any ? any_layout(dims_of(target_), type_) : target_, geometry_.strides,
          geometry_.dilation, geometry_.pads, geometry_.end_pads);
    });
    is_slow_ = is_slow_ || is_plain_loop(desc);
    backward_data_.emplace(
        *context_, BackwardData(desc), desc.scratchpad_desc(),
        std::vector<Operand>{{DNNL_ARG_DIFF_DST, desc.diff_dst_desc(), target_},
                             {DNNL_ARG_WEIGHTS, desc.weights_desc(), weight_},
                             {DNNL_ARG_DIFF_SRC, desc.diff_src_desc(), source_, true}});
  }

  void plan_choices(ConvAlgorithm algorithm) {
    using enum ConvAlgorithm;
    const bool tries = algorithm == automatic && !context_->deterministic && cpu_bf16_uses_amx();
    const auto choose = [&](Choice& choice, const auto& plan, ConvAlgorithm way) {
      const bool is_forced = algorithm == way;
      if (is_forced || tries)
        choice.other = plan(*context_, desc_, plan_.inputs[0], plan_.output, weight_);
      ensure(choice.other || !is_forced, "no other gradient of {}", where_of(desc_));
      if (!choice.other || is_forced) choice.takes_other = is_forced;
    };
    choose(weights_choice_, plan_gathered_rows, gathered);
    if (backward_data_) choose(data_choice_, plan_turned_weights, turned);
  }

  // Backward's workspace: [masked output gradient][new weight and bias gradient][primitives].
  void lay_out_workspace() {
    fresh_offset_ = masked_offset_ + (desc_.fuse_relu ? align_up(target_.get_size()) : 0);
    fresh_bias_offset_ = fresh_offset_ + align_up(weight_.get_size());
    main_offset_ = fresh_bias_offset_ + (desc_.bias ? align_up(geometry_.bias.get_size()) : 0);
    std::size_t primitives = backward_weights_->workspace_bytes();
    if (backward_data_) primitives = std::max(primitives, backward_data_->workspace_bytes());
    for (const Choice* choice : {&weights_choice_, &data_choice_})
      if (choice->other) primitives = std::max(primitives, choice->other->workspace_bytes());
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), main_offset_ + primitives);
  }

  // oneDNN overwrites weight gradients. To accumulate, they are made in the workspace and then
  // added (0.1 MB for the largest of SimpleCNN).
  void run_backward_weights(const BackwardArgs& args, const void* dy) {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    void* const dw = args.accumulate ? workspace + fresh_offset_ : args.grad_parameters[0];
    void* const primitives = workspace + main_offset_;
    void* const bias = desc_.bias ? args.grad_parameters[1] : nullptr;
    void* const db = args.accumulate ? workspace + fresh_bias_offset_ : bias;
    run_chosen(
        weights_choice_, "weights",
        [&] {
          backward_weights_->run({args.inputs[0], dy, dw, db}, primitives);
        },
        [&] { weights_choice_.other->run(args.inputs[0], dy, dw, primitives); });
    if (!args.accumulate) return;
    accumulate(dw, args.grad_parameters[0], weight_);
    if (desc_.bias) accumulate(db, bias, geometry_.bias);
  }

  void run_chosen(Choice& choice, const char* gradient, const auto& direct, const auto& other) {
    if (!choice.takes_other)
      choice.takes_other =
          other_way_pays(fmt::format("{} of {}", gradient, geometry_name()), direct, other);
    *choice.takes_other ? other() : direct();
  }

  // All that the time of a gradient depends on.
  std::string geometry_name() const {
    return fmt::format("{}, pads {}, {}, from {} to {} and {}, {} threads", where_of(desc_),
                       to_string(geometry_.pads), to_string(geometry_.end_pads),
                       plan_.inputs[0].tag, plan_.output.tag, plan_.parameters[0].layout.tag,
                       context_->threads);
  }

  // The output's gradient before the ReLU, in the workspace.
  const void* mask(const BackwardArgs& args) const {
    void* const masked = static_cast<std::byte*>(args.workspace) + masked_offset_;
    cpu::activation_backward(context_->team(), Activation::relu, type_, args.output,
                             args.grad_output, masked,
                             static_cast<std::int64_t>(target_.get_size() / size_of(type_)));
    return masked;
  }

  void accumulate(const void* fresh, void* total, const Desc& desc) const {
    cpu::add(context_->team(), DataType::fp32, total, fresh, total,
             static_cast<std::int64_t>(desc.get_size() / sizeof(float)));
  }

  ContextPtr context_;
  Conv2dDesc desc_;
  Geometry geometry_;
  DataType type_;
  bool is_slow_ = false;
  Desc source_, weight_, target_;  // as stored
  std::optional<Launch> forward_, backward_weights_, backward_data_;
  Choice weights_choice_, data_choice_;
  std::size_t masked_offset_ = 0, fresh_offset_ = 0, fresh_bias_offset_ = 0, main_offset_ = 0;
};

// Null where the library has none in bf16, or only a plain loop.
std::unique_ptr<Op> make_bf16_conv2d(const ContextPtr& context, const Conv2dDesc& desc,
                                     ConvAlgorithm algorithm) {
  try {
    auto op = std::make_unique<Conv2d>(context, desc, DataType::bf16, algorithm);
    return op->is_slow() ? nullptr : std::move(op);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc,
                                ConvAlgorithm algorithm) {
  const Context& c = *context;
  const auto plan = [&]() -> std::unique_ptr<Op> {
    using enum ConvAlgorithm;
    if (algorithm == winograd || (algorithm == automatic && winograd_pays(c, desc)))
      return cpu::make_winograd_conv2d(c.team(), c.l2_bytes, c.activations, desc);
    if (c.activations == DataType::bf16) {
      if (auto op = make_bf16_conv2d(context, desc, algorithm)) return op;
    }
    return std::make_unique<Conv2d>(std::move(context), desc, DataType::fp32, algorithm);
  };
  return plan_with_onednn(c, where_of(desc), plan);
}

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc) {
  return make_conv2d(std::move(context), desc, ConvAlgorithm::automatic);
}

}  // namespace ddpbench::ops::onednn
