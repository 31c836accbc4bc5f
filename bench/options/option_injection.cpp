// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_injection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "kernels/runtime/phase.h"

namespace ddpbench::bench {
namespace {

struct Kind {
  std::string name;
  std::vector<std::string> required, optional;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> known = {
      {"slow", {}, {"rank", "step", "phase", "percent", "ms"}},
      {"kill", {"rank", "step"}, {}},
      {"stop", {"rank", "step"}, {}},
      {"throw", {"rank", "step"}, {}},
      {"missing_bucket", {"bucket"}, {}},
      {"sum", {}, {}},
      {"stale", {"rank", "step"}, {}},
      {"seed", {"rank"}, {}},
      {"stall", {"rank", "step"}, {"ms"}},
  };
  return known;
}

// One text being read, with what every message begins with.
struct Reader {
  const std::string& text;
  const std::string& where;

  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format("{}: in \"{}\": {}", where, text, why));
  }

  const Kind& kind(const std::string& name) const {
    std::vector<std::string> names;
    for (const Kind& known : kinds()) {
      if (known.name == name) return known;
      names.push_back(known.name);
    }
    refuse(fmt::format("unknown fault \"{}\".{} Known are {}.", name, suggestion(name, names),
                       fmt::join(names, ", ")));
  }

  // Reads "key=value,key=value" after the colon.
  std::map<std::string, std::string> pairs(std::size_t colon) const {
    std::map<std::string, std::string> found;
    if (colon == std::string::npos) return found;
    const std::string list = text.substr(colon + 1);
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      const std::string part = list.substr(begin, end - begin);
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
        refuse(fmt::format("expected key=value, got \"{}\".", part));
      if (!found.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
        refuse(fmt::format("{} is given twice.", part.substr(0, equals)));
      begin = end + 1;
    }
    return found;
  }

  void check_keys(const Kind& kind, const std::map<std::string, std::string>& values) const {
    std::vector<std::string> allowed = kind.required;
    allowed.insert(allowed.end(), kind.optional.begin(), kind.optional.end());
    for (const auto& [key, value] : values)
      if (std::ranges::count(allowed, key) == 0)
        refuse(fmt::format("{} does not take \"{}\".{} It takes {}.", kind.name, key,
                           suggestion(key, allowed), fmt::join(allowed, ", ")));
    for (const std::string& key : kind.required)
      if (!values.contains(key)) refuse(fmt::format("{} needs {}=...", kind.name, key));
  }

  template <typename T>
  T whole(const std::string& key, const std::string& value) const {
    const auto number = number_in<T>(value);
    if (!number || *number < 0)
      refuse(fmt::format("{} must be a whole number from 0, got \"{}\".", key, value));
    return *number;
  }

  // A phase is stretched by a share of itself or by a time, a call by a time.
  void check_slow(const std::map<std::string, std::string>& values) const {
    if (values.contains("percent") == values.contains("ms"))
      refuse("slow needs percent=... or ms=..., one of the two.");
    if (values.contains("percent") && !values.contains("phase"))
      refuse("slow needs phase=... beside percent (ms alone slows each call between ranks).");
  }

  double above_zero(const std::string& key, const std::string& value) const {
    const auto number = number_in<double>(value);
    if (!number || !std::isfinite(*number) || *number <= 0)
      refuse(fmt::format("{} must be a number above 0, got \"{}\".", key, value));
    return *number;
  }

  std::string phase(const std::string& value) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      names.emplace_back(to_string(static_cast<Phase>(i)));
    if (std::ranges::count(names, value) == 0)
      refuse(fmt::format("unknown phase \"{}\".{} Known are {}.", value, suggestion(value, names),
                         fmt::join(names, ", ")));
    return value;
  }
};

}  // namespace

Injection parse_injection(const std::string& text, const std::string& where) {
  const Reader reader{text, where};
  const std::size_t colon = text.find(':');
  const Kind& kind = reader.kind(text.substr(0, colon));
  const auto values = reader.pairs(colon);
  reader.check_keys(kind, values);
  if (kind.name == "slow") reader.check_slow(values);
  Injection injection;
  injection.kind = kind.name;
  injection.text = text;
  for (const auto& [key, value] : values) {
    if (key == "rank") injection.rank = reader.whole<int>(key, value);
    if (key == "step") injection.step = reader.whole<std::int64_t>(key, value);
    if (key == "bucket") injection.bucket = reader.whole<int>(key, value);
    if (key == "percent") injection.percent = reader.above_zero(key, value);
    if (key == "ms") injection.ms = reader.above_zero(key, value);
    if (key == "phase") injection.phase = reader.phase(value);
  }
  return injection;
}

bool strikes_calls(const Injection& injection) {
  return injection.kind == "stall" || (injection.kind == "slow" && injection.phase.empty());
}

}  // namespace ddpbench::bench
