// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_result.h"

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::report {

std::string_view to_string(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::pass:
      return "PASS";
    case GateVerdict::improved:
      return "IMPROVED";
    case GateVerdict::inconclusive:
      return "INCONCLUSIVE";
    case GateVerdict::regressed:
      return "REGRESSED";
  }
  throw InternalError("unknown verdict");
}

std::string to_string(const PairKey& key) {
  std::string text = fmt::format("{}, {}", key.strategy,
                                 counted(key.world_size, key.collective ? "rank" : "device"));
  if (key.servers > 0) text += ", " + counted(key.servers, "server");
  if (!key.backend.empty() && key.backend != "none") text += ", " + key.backend;
  if (key.bytes > 0) text += ", " + size_text(key.bytes);
  return text;
}

std::string to_string(const PairKey& key, const std::string& setting) {
  return setting.empty() ? to_string(key) : to_string(key) + ", " + setting;
}

}  // namespace ddpbench::report
