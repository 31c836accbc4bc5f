// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations that oneDNN runs. The others of CPU devices are in kernels/ops/cpu.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/ops/onednn/launch.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc);
// How a convolution is computed: by a rule and a trial (conv2d.cpp), or, for tests, in one way.
// `gathered` is the direct way but for the gradient of weights.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd, gathered };
std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc,
                                ConvAlgorithm algorithm);

// dw [out, in] = dy^T x, or dw += dy^T x, as one product. Operands are dy [rows, out] and
// x [rows, in], row-major of `type`, and dw, row-major in fp32. The context must outlive it.
Launch make_weight_gradient(const Context& context, DataType type, std::int64_t rows,
                            std::int64_t in, std::int64_t out, bool accumulate);

// The gradient of a convolution's weights as products of gathered rows.
class GatheredRows {
 public:
  virtual ~GatheredRows() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Overwrites dw; `workspace` is 64-byte aligned.
  virtual void run(const void* x, const void* dy, void* dw, void* workspace) const = 0;
};
// x is laid out as `source`, dy as `target`, dw as `weight` ([out, in, kh, kw] in fp32). Null where
// there is none: for several groups, a bias, other types than bf16, maps that are no
// image_layout, or rows whose number divides badly. The context must outlive it.
std::unique_ptr<GatheredRows> plan_gathered_rows(const Context& context, const Conv2dDesc& desc,
                                                 const TensorLayout& source,
                                                 const TensorLayout& target,
                                                 const dnnl::memory::desc& weight);
// Whether gathering is faster by enough. The first call in the process for a geometry tries: it
// runs each way up to three times; both write the gradient to the same place. Thread-safe.
bool gathering_pays(const std::string& geometry, const std::function<void()>& direct,
                    const std::function<void()>& gathered);

// Blocks until done. Either layout may be plain with a flattened shape of the other's.
void convert(const Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::onednn
