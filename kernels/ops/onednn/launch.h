// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What all operations of one oneDNN backend share: their context, and primitives with memory
// objects that are made once. Only their addresses change from call to call, so that running
// allocates nothing. Scratch memory comes from the caller.
#pragma once

#include <omp.h>

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::onednn {

struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;  // the device's OpenMP team, which oneDNN uses as well
  // What convolutions and linear layers read and write: fp32 or bf16. Weights and their gradients
  // are fp32.
  DataType activations = DataType::fp32;
  bool deterministic = false;  // results repeat bit by bit, so no trial chooses an algorithm
  cpu::SimdLevel simd = cpu::simd_level();
  std::size_t l2_bytes = cpu::l2_bytes_per_core();

  cpu::Team team() const { return {simd, threads}; }

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

// The attributes of every primitive: the caller provides scratch memory.
dnnl::primitive_attr user_scratchpad();

// Whether a plan runs in a plain loop, which is hundreds of times slower than the library's others.
bool is_plain_loop(const dnnl::primitive_desc_base& plan);

// A tensor that a primitive reads or writes.
struct Operand {
  int arg = 0;                // DNNL_ARG_...
  dnnl::memory::desc wanted;  // what the primitive works on
  dnnl::memory::desc stored;  // what the caller has; a reorder is planned where the two differ
  bool output = false;
};

// A primitive and the reorders of its operands, before or after it, through the workspace.
class Launch {
 public:
  // The context must outlive it.
  Launch(const Context& context, const dnnl::primitive& primitive,
         const dnnl::memory::desc& scratchpad, const std::vector<Operand>& operands);
  // A copy of two operands that no primitive makes.
  explicit Launch(std::function<void(const void* from, void* to)> copy) : copy_(std::move(copy)) {}

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Addresses in the order of the operands, maybe more; `workspace` is 64-byte aligned.
  void run(std::initializer_list<const void*> addresses, void* workspace) const;

 private:
  struct Conversion {
    std::size_t operand;
    std::size_t offset;  // of the converted operand in the workspace
    std::unique_ptr<Launch> reorder;
    bool after;
  };
  void convert(const Conversion& conversion, const void* stored, std::byte* workspace) const;

  const Context* context_ = nullptr;
  std::function<void(const void*, void*)> copy_;  // or the primitive:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // one an operand, then the scratchpad
  std::vector<dnnl_exec_arg_t> args_;
  std::vector<Conversion> conversions_;
  std::size_t workspace_bytes_ = 0;
};

// A reorder that does not use oneDNN's, for layouts of which that may lose values
// (table_reorder.cpp); empty where oneDNN's is right.
std::function<void(const void* from, void* to)> make_table_reorder(const dnnl::memory::desc& from,
                                                                   const dnnl::memory::desc& to);

// A reorder as a launch; operands are from, to.
Launch make_reorder_launch(const Context& context, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to);

// Rounds up to the alignment of device memory, so that slices of a workspace stay aligned.
constexpr std::size_t align_up(std::size_t bytes) { return round_up(bytes, 64); }

}  // namespace ddpbench::ops::onednn
