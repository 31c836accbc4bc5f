// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/claim_exchange.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

// Between two looks whether the others have come.
constexpr auto kLook = std::chrono::milliseconds(5);

std::string claim_key(int index) { return fmt::format("memory/{}", index); }

std::string to_text(const MemoryClaim& claim) {
  json text{{"pool", claim.pool},
            {"what", claim.what},
            {"device", claim.device},
            {"advice", claim.advice},
            {"shared_advice", claim.shared_advice},
            {"bytes", claim.bytes},
            {"by_category", claim.by_category}};
  if (claim.free_bytes) text["free"] = *claim.free_bytes;
  return text.dump();
}

MemoryClaim claim_from(const json& text) {
  MemoryClaim claim{.pool = text.at("pool"),
                    .what = text.at("what"),
                    .device = text.at("device"),
                    .advice = text.at("advice"),
                    .shared_advice = text.at("shared_advice"),
                    .bytes = text.at("bytes"),
                    .by_category = text.at("by_category")};
  if (text.contains("free")) claim.free_bytes = text.at("free");
  return claim;
}

}  // namespace

void ClaimExchange::await_plans(int index) const { await_all(index, "has not planned"); }

std::vector<MemoryClaim> ClaimExchange::exchange(int index, const MemoryClaim& own) const {
  options_.store->set(claim_key(index), to_text(own));
  await_all(index, "did not say what memory it needs");
  std::vector<MemoryClaim> same;
  for (int device = 0; device < options_.devices; ++device) {
    if (device == index) {
      same.push_back(own);
      continue;
    }
    MemoryClaim claim =
        claim_from(json::parse(options_.store->get(claim_key(device), options_.timeout_s)));
    if (!own.pool.empty() && claim.pool == own.pool) same.push_back(std::move(claim));
  }
  return same;
}

// By counters, which answer at once: a store drops the connection of a wait that times out.
void ClaimExchange::await_all(int index, const std::string& what) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(options_.timeout_s);
  const auto key = [&](int device) { return fmt::format("memory/{} {}", device, what); };
  options_.store->add(key(index), 1);
  for (int device = 0; device < options_.devices; ++device) {
    while (options_.store->add(key(device), 0) == 0) {
      if (options_.check_peers) options_.check_peers();
      if (Clock::now() >= end) {
        throw CommTimeout(fmt::format("device {} of {} {} within {} s (--timeout)", device,
                                      options_.devices, what, options_.timeout_s));
      }
      std::this_thread::sleep_for(kLook);
    }
  }
}

}  // namespace ddpbench::bench
