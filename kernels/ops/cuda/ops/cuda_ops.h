// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of the CUDA backend. None allocates, waits or reads anything back in forward and
// backward, so all can be recorded in a CUDA graph (after one call each, which loads the kernels).
#pragma once

#include <memory>

#include "kernels/ops/batch_gather.h"
#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/mean.h"
#include "kernels/ops/op.h"
#include "kernels/ops/sgd.h"

namespace ddpbench::ops::cuda {

std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc);
// Null where it is not to be had (OpBackend::conv2d_max_pool2d).
std::unique_ptr<Op> make_conv2d_max_pool2d(ContextPtr context, const Conv2dDesc& conv,
                                           const MaxPool2dDesc& pool);
std::unique_ptr<Op> make_linear(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc);
// OpBackend::adds_bias_in_pool. It saves a pass over the convolution's output where the library
// does not add the bias, and in any case one over its gradient.
bool adds_bias_in_pool(const Context& context, const Conv2dDesc& conv, const MaxPool2dDesc& pool);
std::unique_ptr<Op> make_relu(ContextPtr context, const ReluDesc& desc);
std::unique_ptr<Op> make_add(ContextPtr context, const AddDesc& desc);
std::unique_ptr<Op> make_reorder(ContextPtr context, const ReorderDesc& desc);
std::unique_ptr<Op> make_bias_pass(ContextPtr context, const BiasPassDesc& desc);
std::unique_ptr<Op> make_bare_product(ContextPtr context, const BareProductDesc& desc);
std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(ContextPtr context,
                                                                std::int64_t batch,
                                                                std::int64_t classes);
std::size_t loss_bytes(std::int64_t batch, std::int64_t classes);  // of the device, for the above
std::unique_ptr<Sgd> make_sgd();
std::unique_ptr<Mean> make_mean();
std::unique_ptr<BatchGather> make_batch_gather();

// Blocks until done, and before that until all that the device was given is done: the tensors may
// be another stream's results.
void convert(Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::cuda
