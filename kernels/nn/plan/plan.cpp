// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Values and how both kinds of steps see them.
#include "kernels/nn/plan/plan.h"

#include <utility>

#include "base/error.h"

namespace ddpbench::nn {

ops::TensorLayout layout_at(const Plan& plan, int value, bool micro) {
  const Value& v = plan.values[static_cast<std::size_t>(value)];
  if (v.micro == micro) return v.layout;
  ensure(v.layout.is_plain(), "a tensor of layout {} crosses the segment's end", v.layout.tag);
  ops::Shape shape = v.layout.shape;
  shape[0] = micro ? plan.micro_batch : plan.batch;
  return ops::TensorLayout::plain(std::move(shape), v.layout.type);
}

int add_value(Plan& plan, ops::TensorLayout layout, bool micro) {
  plan.values.push_back({.layout = std::move(layout), .micro = micro});
  return static_cast<int>(plan.values.size()) - 1;
}

}  // namespace ddpbench::nn
