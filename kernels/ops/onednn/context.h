// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What all operations of one oneDNN backend share.
#pragma once

#include <omp.h>

#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <utility>

#include "base/error.h"
#include "kernels/ops/cpu/simd.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::onednn {

struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;  // the device's OpenMP team, which oneDNN uses as well
  // What convolutions and linear layers read and write: fp32 or bf16. Weights and their gradients
  // are fp32.
  DataType activations = DataType::fp32;
  cpu::SimdLevel simd = cpu::simd_level();
  std::size_t l2_bytes = cpu::l2_bytes_per_core();

  // oneDNN plans for the calling thread's team size and runs on that team: this makes it the
  // device's. It costs nothing once the leading thread is bound.
  void use_team() const {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  }
};
using ContextPtr = std::shared_ptr<const Context>;

// Runs planning code and turns oneDNN's exceptions into ours.
template <typename Plan>
auto plan_with_onednn(const Context& context, const std::string& what, const Plan& plan) {
  context.use_team();
  try {
    return plan();
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("oneDNN refused {}: {} (status {})", what, error.message,
                                  static_cast<int>(error.status)));
  }
}

}  // namespace ddpbench::ops::onednn
