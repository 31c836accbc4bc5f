// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations that oneDNN runs. The others of CPU devices are in kernels/ops/cpu.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "kernels/ops/onednn/launch.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc);
// How a convolution is computed: by a rule and a trial (conv2d.cpp), or, for tests, in one way.
// `gathered` is the direct way but for the gradient of weights, `turned` but for that of the input.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd, gathered, turned };
std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc,
                                ConvAlgorithm algorithm);

// dw [out, in] = dy^T x, or dw += dy^T x, as one product. Operands are dy [rows, out] and
// x [rows, in], row-major of `type`, and dw, row-major in fp32. The context must outlive it.
Launch make_weight_gradient(const Context& context, DataType type, std::int64_t rows,
                            std::int64_t in, std::int64_t out, bool accumulate);

// A gradient of a bf16 convolution in another way than the library's. The context must outlive it.
class ConvGradient {
 public:
  virtual ~ConvGradient() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Overwrites `gradient`. `operand` is the other factor's: x for that of weights, the weights for
  // that of x. `workspace` is 64-byte aligned.
  virtual void run(const void* operand, const void* dy, void* gradient, void* workspace) const = 0;
};
// Both take x laid out as `source`, dy as `target`, weights as `weight` ([out, in, kh, kw] in
// fp32), and return null where there is none: for several groups and other types than bf16 ...
// ... of weights as products of gathered rows; none with a bias, for maps that are no image_layout,
// or rows whose number divides badly.
std::unique_ptr<ConvGradient> plan_gathered_rows(const Context& context, const Conv2dDesc& desc,
                                                 const TensorLayout& source,
                                                 const TensorLayout& target,
                                                 const dnnl::memory::desc& weight);
// ... of x as convolutions of dy with turned weights; none for strides with dilation, padding
// beyond the kernel, channels that are no multiple of 16, or where the library has a plain loop.
std::unique_ptr<ConvGradient> plan_turned_weights(const Context& context, const Conv2dDesc& desc,
                                                  const TensorLayout& source,
                                                  const TensorLayout& target,
                                                  const dnnl::memory::desc& weight);
// Whether the other way is faster by enough, in the clock's seconds. The first call in the process
// for a gradient runs each way up to three times; both write to the same place. Thread-safe.
bool other_way_pays(const std::string& gradient, const std::function<void()>& direct,
                    const std::function<void()>& other,
                    const std::function<double()>& now_s = steady_s);

// Blocks until done. Either layout may be plain with a flattened shape of the other's.
void convert(const Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::onednn
