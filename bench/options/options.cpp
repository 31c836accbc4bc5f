// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "kernels/runtime/phase.h"
#include "parallel/strategies.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {

namespace {

void check_trace(const Options& options) {
  if (options.trace_path.empty()) return;
  if (!options.observe)
    throw ConfigError(
        fmt::format("--trace={}: --observe=off leaves nothing to trace", options.trace_path));
}

void check_global_batches(const Options& options) {
  const bool several = std::ranges::any_of(options.strategies, [](const std::string& name) {
    return !strategy_traits(name).is_baseline();
  });
  if (!several) return;
  for (const std::int64_t global : options.global_batch_sizes)
    for (const int devices : options.gpus)
      if (global % devices != 0)
        throw ConfigError(fmt::format(
            "--global-batch-size={} cannot be divided by --gpus={}: each of the {} devices must "
            "get the same number of samples. The next size that can is {}.",
            global, devices, devices, (global / devices + 1) * devices));
}

void check_limits(const Options& options) {
  if (options.warmup_max_steps && *options.warmup_max_steps < options.warmup_steps)
    throw ConfigError(fmt::format("--warmup-max-steps={} is below --warmup-steps={}.",
                                  *options.warmup_max_steps, options.warmup_steps));
  if (options.until_ci && options.max_repetitions < options.repetitions)
    throw ConfigError(fmt::format("--max-repetitions={} is below --repetitions={}.",
                                  options.max_repetitions, options.repetitions));
  if (options.until_ci && options.max_repetitions < report::kFewestForInterval)
    throw ConfigError(fmt::format(
        "--max-repetitions={} leaves --until-ci={}% no interval to look at: a 95 % interval of the "
        "median needs {} repetitions. Allow at least that many, or give --repetitions alone.",
        options.max_repetitions, options.until_ci->value, report::kFewestForInterval));
}

void check_cuda_graphs(const Options& options) {
  const auto& listed = options.cuda_graphs;
  if (listed.size() > 1 && std::ranges::find(listed, "auto") != listed.end())
    throw ConfigError("--cuda-graph=auto chooses on or off; to compare both, list on,off.");
}

void check_all_reduces(const Options& options) {
  const auto& listed = options.all_reduces;
  if (listed.size() > 1 && std::ranges::find(listed, "auto") != listed.end())
    throw ConfigError(
        "--all-reduce=auto chooses ring or direct; to compare both, list ring,direct.");
}

void check_augmentation(const Options& options) {
  if (options.augment && options.residency == "device")
    throw ConfigError(
        "--residency=device: devices assemble their batches without the crops and flips of "
        "\"dataset\": {\"augment\": true}; use --residency=host, or do not augment");
}

void check_loader_cost(const Options& options) {
  if (options.loader_cost_us > 0 && options.residency == "device")
    throw ConfigError(
        fmt::format("--loader-cost={}: with --residency=device no loader assembles batches; use "
                    "--residency=host",
                    options.loader_cost_us));
}

// PyTorch refuses it as well.
void check_nesterov(const Options& options) {
  if (options.nesterov && options.momentum == 0)
    throw ConfigError("--nesterov: it changes the momentum, and --momentum is 0");
}

void check_schedule(const Options& options) {
  if (options.lr_schedule == "step" && !options.lr_step_size)
    throw ConfigError("--lr-schedule=step needs --lr-step-size=N, the steps between two changes");
  if (options.lr_schedule == "cosine" && options.lr_min > options.lr)
    throw ConfigError(fmt::format("--lr-min={} is above --lr={}", options.lr_min, options.lr));
}

struct NamedFile {
  std::string_view option;
  const std::string* path;
};

// Also of files that are not there yet. Streams and devices are no files that could be lost.
bool name_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == kStandardStream || b == kStandardStream) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(a, b, ignored)) return is_file(a);
  const auto normal = [&](const std::string& path) {
    return std::filesystem::absolute(path, ignored).lexically_normal();
  };
  return !std::filesystem::exists(a, ignored) && normal(a) == normal(b);
}

struct FaultKind {
  std::string name;
  std::vector<std::string> required, optional;
};

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> known = {
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
struct FaultReader {
  const std::string& text;
  const std::string& where;

  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format("{}: in \"{}\": {}", where, text, why));
  }

  const FaultKind& kind(const std::string& name) const {
    std::vector<std::string> names;
    for (const FaultKind& known : fault_kinds()) {
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

  void check_keys(const FaultKind& kind, const std::map<std::string, std::string>& values) const {
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

std::int64_t warmup_limit(const RunOptions& options) {
  if (options.warmup_steps == 0) return 0;  // no warm-up at all
  return options.warmup_max_steps.value_or(kWarmupLimitFactor * options.warmup_steps);
}

void check_options(const Options& options) {
  check_cuda_graphs(options);
  check_all_reduces(options);
  check_trace(options);
  check_global_batches(options);
  check_limits(options);
  check_augmentation(options);
  check_loader_cost(options);
  check_nesterov(options);
  check_schedule(options);
}

void check_file_conflicts(const Options& options) {
  const std::vector<NamedFile> written = {{"--json", &options.json_path},
                                          {"--trace", &options.trace_path},
                                          {"--save-model", &options.save_model}};
  const std::vector<NamedFile> read = {{"--resume", &options.resume_path},
                                       {"--config", &options.config_path},
                                       {"--load-model", &options.load_model},
                                       {"--hostfile", &options.host_file},
                                       {"model", &options.model}};
  const auto refuse = [](const NamedFile& result, const NamedFile& other) {
    if (!name_one_file(*result.path, *other.path)) return;
    throw ConfigError(fmt::format("{} and {} both name {}; give {} another name", result.option,
                                  other.option, *result.path, result.option));
  };
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) refuse(written[i], written[j]);
    for (const NamedFile& input : read) {
      const bool grows = written[i].option == "--json" && input.option == "--resume";
      if (!grows) refuse(written[i], input);
    }
  }
}

Injection parse_injection(const std::string& text, const std::string& where) {
  const FaultReader reader{text, where};
  const std::size_t colon = text.find(':');
  const FaultKind& kind = reader.kind(text.substr(0, colon));
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
