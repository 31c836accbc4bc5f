// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A oneDNN primitive with memory objects that are made once. Only their addresses change from call
// to call, so that running allocates nothing. Scratch memory comes from the caller.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/math.h"
#include "kernels/ops/onednn/context.h"

namespace ddpbench::ops::onednn {

// The attributes of every primitive: the caller provides scratch memory.
dnnl::primitive_attr user_scratchpad();

// A tensor that a primitive reads or writes.
struct Operand {
  int arg = 0;                // DNNL_ARG_...
  dnnl::memory::desc wanted;  // what the primitive works on
  dnnl::memory::desc stored;  // what the caller has; a reorder is planned where the two differ
  bool output = false;

  static Operand in(int arg, const dnnl::memory::desc& wanted, const dnnl::memory::desc& stored) {
    return {arg, wanted, stored, false};
  }
  static Operand out(int arg, const dnnl::memory::desc& wanted, const dnnl::memory::desc& stored) {
    return {arg, wanted, stored, true};
  }
  static Operand in(int arg, const dnnl::memory::desc& desc) { return in(arg, desc, desc); }
  static Operand out(int arg, const dnnl::memory::desc& desc) { return out(arg, desc, desc); }
};

// One primitive whose operands all have the layouts that it wants.
class Launch {
 public:
  Launch(const Context& context, const dnnl::primitive& primitive,
         const std::vector<std::pair<int, dnnl::memory::desc>>& operands,
         const dnnl::memory::desc& scratchpad);
  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  // Addresses in the order of the operands. REQUIRES: the context's team is in use.
  void run(const dnnl::stream& stream, const void* const* addresses, void* scratchpad) const;

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // one an operand, then the scratchpad if there is one
  std::vector<dnnl_exec_arg_t> args_;
  std::size_t scratchpad_bytes_;
};

// A primitive and the reorders of its operands, before or after it, through the workspace.
class ConvertingLaunch {
 public:
  ConvertingLaunch(ContextPtr context, const dnnl::primitive& primitive,
                   const dnnl::memory::desc& scratchpad, std::vector<Operand> operands);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Addresses in the order of the operands; `workspace` is 64-byte aligned.
  void run(std::initializer_list<const void*> addresses, void* workspace) const;

 private:
  struct Conversion {
    std::size_t operand;
    std::size_t offset;  // of the converted operand in the workspace
    Launch reorder;
    bool after;
  };
  void convert(const Conversion& conversion, const void* stored, std::byte* workspace) const;

  ContextPtr context_;
  Launch main_;
  std::vector<Conversion> conversions_;
  std::size_t workspace_bytes_ = 0;
};

// A reorder as a launch; operands are from, to.
Launch make_reorder_launch(const Context& context, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to);

// Rounds up to the alignment of device memory, so that slices of a workspace stay aligned.
constexpr std::size_t align_up(std::size_t bytes) { return round_up(bytes, 64); }

}  // namespace ddpbench::ops::onednn
