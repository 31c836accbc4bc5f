// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/memory_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "kernels/runtime/error.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

// Between two looks whether the others can still come.
constexpr double kLook_s = 0.2;

std::string key_of(int index) { return fmt::format("memory/{}", index); }

std::string to_text(const MemoryClaim& claim) {
  json text{{"pool", claim.pool},     {"what", claim.what},   {"device", claim.device},
            {"advice", claim.advice}, {"bytes", claim.bytes}, {"by_category", claim.by_category}};
  if (claim.free_bytes) text["free"] = *claim.free_bytes;
  return text.dump();
}

MemoryClaim claim_from(const json& text) {
  MemoryClaim claim{.pool = text.at("pool"),
                    .what = text.at("what"),
                    .device = text.at("device"),
                    .advice = text.at("advice"),
                    .bytes = text.at("bytes"),
                    .by_category = text.at("by_category")};
  if (text.contains("free")) claim.free_bytes = text.at("free");
  return claim;
}

}  // namespace

std::vector<MemoryClaim> MemoryMeeting::exchange(int index, const MemoryClaim& own) const {
  options_.store->set(key_of(index), to_text(own));
  std::vector<MemoryClaim> same;
  for (int device = 0; device < options_.devices; ++device) {
    if (device == index) {
      same.push_back(own);
      continue;
    }
    MemoryClaim claim = claim_from(json::parse(wait_for(device)));
    if (!own.pool.empty() && claim.pool == own.pool) same.push_back(std::move(claim));
  }
  return same;
}

std::string MemoryMeeting::wait_for(int device) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(options_.timeout_s);
  for (;;) {
    const double left_s = std::chrono::duration<double>(end - Clock::now()).count();
    try {
      return options_.store->get(key_of(device), std::clamp(left_s, 0.0, kLook_s));
    } catch (const CommTimeout&) {
      if (left_s <= kLook_s) throw;
    }
    if (options_.check_peers) options_.check_peers();
  }
}

}  // namespace ddpbench::bench
