// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference operations: plain loops over plain layouts, one thread, sums in double precision.
// They define every operation; speed is no aim.
#pragma once

#include <memory>

#include "kernels/ops/flat_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::reference {

std::unique_ptr<Op> make_op(const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(const BatchNorm2dDesc& desc);
std::unique_ptr<Op> make_op(const MaxPool2dDesc& desc);
std::unique_ptr<Op> make_op(const LinearDesc& desc);
std::unique_ptr<Op> make_op(const ActivationDesc& desc);
std::unique_ptr<Op> make_op(const AddDesc& desc);
std::unique_ptr<Op> make_op(const ReorderDesc& desc);
std::unique_ptr<Op> make_op(const AvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const AdaptiveAvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const UpsampleBilinearDesc& desc);
std::unique_ptr<Op> make_op(const ConcatDesc& desc);
std::unique_ptr<Op> make_op(const DropoutDesc& desc);
// As OpBackend's.
void gather(const GatherArgs& args);

inline const float* floats(const void* tensor) { return static_cast<const float*>(tensor); }
inline float* floats(void* tensor) { return static_cast<float*>(tensor); }

[[noreturn]] inline void refuse_layouts(const char* operation, const TensorLayout& from,
                                        const TensorLayout& to) {
  throw ConfigError(fmt::format("{}: {} {} to {} {}: the reference backend has plain layouts only",
                                operation, to_string(from.shape), from.tag, to_string(to.shape),
                                to.tag));
}

// Stores a gradient, or adds it to what is there.
inline void put(float* where, double value, bool accumulate) {
  *where = static_cast<float>(accumulate ? *where + value : value);
}

}  // namespace ddpbench::ops::reference
