// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs primitives through the C interface: the C++ one builds a map and a vector at every call.
#include "kernels/ops/onednn/launch.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddpbench::ops::onednn {
namespace {

constexpr std::size_t kMaxMemories = 8;  // operands and the scratchpad

void check(dnnl_status_t status, const char* call) {
  if (status != dnnl_success)
    throw DeviceError(
        fmt::format("{} failed with oneDNN status {}", call, static_cast<int>(status)));
}

}  // namespace

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool is_plain_loop(const dnnl::primitive_desc_base& plan) {
  return std::strstr(plan.impl_info_str(), "ref") != nullptr;
}

Launch make_reorder_launch(const Context& context, const dnnl::memory::desc& from,
                           const dnnl::memory::desc& to) {
  if (auto copy = make_table_reorder(from, to)) return Launch(std::move(copy));
  const dnnl::reorder::primitive_desc desc(context.engine, from, context.engine, to,
                                           user_scratchpad());
  return Launch(context, dnnl::reorder(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_FROM, from, from}, {DNNL_ARG_TO, to, to, true}});
}

Launch::Launch(const Context& context, const dnnl::primitive& primitive,
               const dnnl::memory::desc& scratchpad, const std::vector<Operand>& operands)
    : context_(&context), primitive_(primitive) {
  ensure(operands.size() < kMaxMemories, "a primitive with {} operands", operands.size());
  const auto add = [&](int arg, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, context.engine, nullptr);  // no memory yet
    args_.push_back({arg, memories_.back().get()});
  };
  std::size_t scratch = scratchpad.get_size(), converted = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    add(operand.arg, operand.wanted);
    if (operand.wanted == operand.stored) continue;
    const auto& from = operand.output ? operand.wanted : operand.stored;
    const auto& to = operand.output ? operand.stored : operand.wanted;
    auto reorder = std::make_unique<Launch>(make_reorder_launch(context, from, to));
    scratch = std::max(scratch, reorder->workspace_bytes());
    conversions_.push_back({i, converted, std::move(reorder), operand.output});
    converted += align_up(operand.wanted.get_size());
  }
  if (scratchpad.get_size() > 0) add(DNNL_ARG_SCRATCHPAD, scratchpad);
  // The workspace: scratch memory of the one primitive that runs, then the converted operands.
  for (Conversion& conversion : conversions_) conversion.offset += align_up(scratch);
  workspace_bytes_ = align_up(scratch) + converted;
}

void Launch::convert(const Conversion& conversion, const void* stored, std::byte* workspace) const {
  const void* const converted = workspace + conversion.offset;
  if (conversion.after) return conversion.reorder->run({converted, stored}, workspace);
  conversion.reorder->run({stored, converted}, workspace);
}

void Launch::run(std::initializer_list<const void*> addresses, void* workspace) const {
  if (copy_) return copy_(addresses.begin()[0], const_cast<void*>(addresses.begin()[1]));
  context_->use_team();
  auto* const base = static_cast<std::byte*>(workspace);
  std::array<const void*, kMaxMemories> stored{};
  std::copy(addresses.begin(), addresses.end(), stored.begin());
  std::array<const void*, kMaxMemories> wanted = stored;
  for (const Conversion& conversion : conversions_) {
    wanted[conversion.operand] = base + conversion.offset;
    if (!conversion.after) convert(conversion, stored[conversion.operand], base);
  }
  if (args_.back().arg == DNNL_ARG_SCRATCHPAD) wanted[args_.size() - 1] = workspace;
  // oneDNN takes no pointer to const, but writes to no operand that a primitive only reads.
  for (std::size_t i = 0; i < args_.size(); ++i)
    check(dnnl_memory_set_data_handle(args_[i].memory, const_cast<void*>(wanted[i])),
          "dnnl_memory_set_data_handle");
  check(dnnl_primitive_execute(primitive_.get(), context_->stream.get(),
                               static_cast<int>(args_.size()), args_.data()),
        "dnnl_primitive_execute");
  for (const Conversion& conversion : conversions_)
    if (conversion.after) convert(conversion, stored[conversion.operand], base);
}

}  // namespace ddpbench::ops::onednn
