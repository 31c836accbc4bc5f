// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs primitives through the C interface: the C++ one builds a map and a vector at every call.
#include "kernels/ops/onednn/launch.h"

#include <algorithm>
#include <array>

namespace ddpbench::ops::onednn {
namespace {

constexpr std::size_t kMaxOperands = 8;

void check(dnnl_status_t status, const char* call) {
  if (status != dnnl_success)
    throw DeviceError(
        fmt::format("{} failed with oneDNN status {}", call, static_cast<int>(status)));
}

std::vector<std::pair<int, dnnl::memory::desc>> wanted_of(const std::vector<Operand>& operands) {
  std::vector<std::pair<int, dnnl::memory::desc>> wanted;
  for (const Operand& operand : operands) wanted.emplace_back(operand.arg, operand.wanted);
  return wanted;
}

}  // namespace

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Launch::Launch(const Context& context, const dnnl::primitive& primitive,
               const std::vector<std::pair<int, dnnl::memory::desc>>& operands,
               const dnnl::memory::desc& scratchpad)
    : primitive_(primitive), scratchpad_bytes_(scratchpad.get_size()) {
  const auto add = [&](int arg, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, context.engine, nullptr);  // no memory yet
    args_.push_back({arg, memories_.back().get()});
  };
  for (const auto& [arg, desc] : operands) add(arg, desc);
  if (scratchpad_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

void Launch::run(const dnnl::stream& stream, const void* const* addresses, void* scratchpad) const {
  const std::size_t operands = memories_.size() - (scratchpad_bytes_ > 0 ? 1 : 0);
  // oneDNN takes no pointer to const, but writes to no operand that a primitive only reads.
  for (std::size_t i = 0; i < operands; ++i)
    check(dnnl_memory_set_data_handle(memories_[i].get(), const_cast<void*>(addresses[i])),
          "dnnl_memory_set_data_handle");
  if (scratchpad_bytes_ > 0)
    check(dnnl_memory_set_data_handle(memories_.back().get(), scratchpad),
          "dnnl_memory_set_data_handle");
  check(dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(args_.size()),
                               args_.data()),
        "dnnl_primitive_execute");
}

Launch make_reorder_launch(const Context& context, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to) {
  const dnnl::reorder::primitive_desc desc(context.engine, from, context.engine, to,
                                           user_scratchpad());
  return Launch(context, dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                desc.scratchpad_desc());
}

ConvertingLaunch::ConvertingLaunch(ContextPtr context, const dnnl::primitive& primitive,
                                   const dnnl::memory::desc& scratchpad,
                                   std::vector<Operand> operands)
    : context_(std::move(context)), main_(*context_, primitive, wanted_of(operands), scratchpad) {
  ensure(operands.size() <= kMaxOperands, "a primitive with {} operands", operands.size());
  std::size_t scratch = main_.scratchpad_bytes();
  std::size_t converted = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (operand.wanted == operand.stored) continue;
    const auto& from = operand.output ? operand.wanted : operand.stored;
    const auto& to = operand.output ? operand.stored : operand.wanted;
    conversions_.push_back(
        {i, converted, make_reorder_launch(*context_, from, to), operand.output});
    scratch = std::max(scratch, conversions_.back().reorder.scratchpad_bytes());
    converted += align_up(operand.wanted.get_size());
  }
  // The workspace: scratch memory of the one primitive that runs, then the converted operands.
  for (Conversion& conversion : conversions_) conversion.offset += align_up(scratch);
  workspace_bytes_ = align_up(scratch) + converted;
}

void ConvertingLaunch::convert(const Conversion& conversion, const void* stored,
                               std::byte* workspace) const {
  const void* converted = workspace + conversion.offset;
  const std::array<const void*, 2> addresses = {conversion.after ? converted : stored,
                                                conversion.after ? stored : converted};
  conversion.reorder.run(context_->stream, addresses.data(), workspace);
}

void ConvertingLaunch::run(std::initializer_list<const void*> addresses, void* workspace) const {
  context_->use_team();
  auto* const base = static_cast<std::byte*>(workspace);
  std::array<const void*, kMaxOperands> stored{};
  std::copy(addresses.begin(), addresses.end(), stored.begin());
  std::array<const void*, kMaxOperands> wanted = stored;
  for (const Conversion& conversion : conversions_) {
    wanted[conversion.operand] = base + conversion.offset;
    if (!conversion.after) convert(conversion, stored[conversion.operand], base);
  }
  main_.run(context_->stream, wanted.data(), workspace);
  for (const Conversion& conversion : conversions_)
    if (conversion.after) convert(conversion, stored[conversion.operand], base);
}

}  // namespace ddpbench::ops::onednn
