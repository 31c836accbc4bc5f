// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/ranges.h"
#include "base/text.h"
#include "kernels/runtime/phase.h"
#include "parallel/comm_hook.h"
#include "parallel/strategies.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {

namespace {

// Every device gets the same number of samples.
void check_global_batches(const Options& options) {
  const bool several = std::ranges::any_of(options.strategies, [](const std::string& name) {
    return !strategy_traits(name).is_baseline();
  });
  if (!several) return;
  for (const std::int64_t global : options.global_batch_sizes)
    for (const int devices : options.gpus)
      if (global % devices != 0)
        throw ConfigError(fmt::format(
            "--global-batch-size={} cannot be divided by --gpus={}; the next size that can is {}.",
            global, devices, (global / devices + 1) * devices));
}

bool mixes_auto(const std::vector<std::string>& listed) {
  return listed.size() > 1 && std::ranges::count(listed, "auto") != 0;
}

// Also of files that are not there yet. Streams and devices are no files that could be lost.
bool name_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == kStandardStream || b == kStandardStream) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(a, b, ignored)) return is_file(a);
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return !std::filesystem::exists(a, ignored) && whole(a) == whole(b);
}

using Names = std::vector<std::string>;

struct FaultKind {
  std::string name;
  Names required, optional;
};

const std::vector<FaultKind> kFaultKinds = {
    {"slow", {}, {"rank", "step", "phase", "percent", "ms"}},
    {"kill", {"rank", "step"}, {}},
    {"stop", {"rank", "step"}, {}},
    {"throw", {"rank", "step"}, {}},
    {"missing_bucket", {"bucket"}, {}},
    {"sum", {}, {}},
    {"stale", {"rank", "step"}, {}},
    {"seed", {"rank"}, {}},
    {"epoch", {}, {}},
    {"stall", {"rank", "step"}, {"ms"}},
};

template <typename T>
bool read_whole(const std::string& text, T& value) {
  value = number_in<T>(text).value_or(-1);
  return value >= 0;
}

bool read_above_zero(const std::string& text, double& value) {
  value = number_in<double>(text).value_or(0);
  return std::isfinite(value) && value > 0;
}

Names phase_names() {
  return mapped(std::views::iota(std::size_t{0}, kPhaseCount),
                [](std::size_t i) { return std::string(to_string(static_cast<Phase>(i))); });
}

// Whether the value is one of the key.
bool read_fault_key(Injection& fault, const std::string& key, const std::string& value) {
  if (key == "rank") return read_whole(value, fault.rank);
  if (key == "step") return read_whole(value, fault.step);
  if (key == "bucket") return read_whole(value, fault.bucket);
  if (key == "ms") return read_above_zero(value, fault.ms);
  if (key == "percent") return read_above_zero(value, fault.percent);
  fault.phase = value;
  return std::ranges::count(phase_names(), value) != 0;
}

}  // namespace

std::int64_t warmup_limit(const RunOptions& options) {
  if (options.warmup_steps == 0) return 0;  // no warm-up at all
  return options.warmup_max_steps.value_or(kWarmupLimitFactor * options.warmup_steps);
}

std::int64_t checkpoint_interval(const RunOptions& options) {
  if (options.checkpoint_every == "epoch") return 0;
  const auto steps = number_in<std::int64_t>(options.checkpoint_every);
  if (steps && *steps >= 1) return *steps;
  throw ConfigError(
      fmt::format("--checkpoint-every={}: expected epoch, or a number of steps from 1",
                  options.checkpoint_every));
}

void check_options(const Options& options) {
  const auto refuse = [](bool is_wrong, const std::string& why) {
    if (is_wrong) throw ConfigError(why);
  };
  check_global_batches(options);
  refuse(mixes_auto(options.cuda_graphs),
         "--cuda-graph=auto chooses on or off; to compare both, list on,off.");
  refuse(mixes_auto(options.all_reduces),
         "--all-reduce=auto chooses ring or direct; to compare both, list ring,direct.");
  refuse(!options.trace_path.empty() && !options.observe,
         fmt::format("--trace={}: --observe=off leaves nothing to trace", options.trace_path));
  refuse(options.epochs == 0 && (options.wanted_accuracy() || !options.trace_path.empty() ||
                                 !options.injections.empty() || !options.checkpoint.empty()),
         "--epochs=0 takes no steps, which --until-accuracy, --until-miou, --trace, --inject and "
         "--checkpoint need");
  refuse(options.until_accuracy && options.until_miou,
         "--until-accuracy and --until-miou exclude each other: a run ends with one of them.");
  checkpoint_interval(options);
  refuse(!options.load_model.empty() && !options.resume_training.empty(),
         "--load-model and --resume-training both set the weights; leave one out");
  for (const std::string& hook : options.comm_hooks) encoding_of(hook);
  const std::int64_t most_warmup = options.warmup_max_steps.value_or(options.warmup_steps);
  refuse(most_warmup < options.warmup_steps,
         fmt::format("--warmup-max-steps={} is below --warmup-steps={}.", most_warmup,
                     options.warmup_steps));
  const int fewest = std::max<int>(options.repetitions, report::kFewestForInterval);
  refuse(options.until_ci && options.max_repetitions < fewest,
         fmt::format("--max-repetitions={}: --until-ci needs {} repetitions for an interval, and "
                     "--repetitions is {}.",
                     options.max_repetitions, report::kFewestForInterval, options.repetitions));
  const bool on_device = options.residency == "device";
  refuse(options.augment && on_device,
         "--residency=device: devices assemble their batches without the crops and flips of "
         "\"dataset\": {\"augment\": true}; use --residency=host, or do not augment");
  refuse(options.loader_workers.size() > 1 && on_device,
         "--loader-workers: with --residency=device no loader assembles batches; give one number");
  refuse(options.loader_cost_us > 0 && on_device,
         fmt::format("--loader-cost={}: with --residency=device no loader assembles batches; use "
                     "--residency=host",
                     options.loader_cost_us));
  // PyTorch refuses it as well.
  refuse(options.nesterov && options.momentum == 0,
         "--nesterov: it changes the momentum, and --momentum is 0");
  refuse(options.lr_schedule == "step" && !options.lr_step_size,
         "--lr-schedule=step needs --lr-step-size=N, the steps between two changes");
  refuse(options.lr_schedule == "cosine" && options.lr_min > options.lr,
         fmt::format("--lr-min={} is above --lr={}", options.lr_min, options.lr));
}

void check_file_conflicts(const Options& options) {
  struct NamedFile {
    std::string_view option;
    const std::string& path;
    bool is_written = false;
    std::string_view replaces = {};  // the option of the file from which it grows
  };
  const NamedFile files[] = {{"--json", options.json_path, true, "--resume"},
                             {"--trace", options.trace_path, true},
                             {"--save-model", options.save_model, true},
                             {"--checkpoint", options.checkpoint, true, "--resume-training"},
                             {"--resume", options.resume_path},
                             {"--config", options.config_path},
                             {"--load-model", options.load_model},
                             {"--resume-training", options.resume_training},
                             {"--hostfile", options.host_file},
                             {"--model", options.model}};
  for (const NamedFile& result : files)
    for (const NamedFile& other : files) {
      if (!result.is_written || &result == &other || result.replaces == other.option) continue;
      if (!name_one_file(result.path, other.path)) continue;
      throw ConfigError(fmt::format("{} and {} both name {}; give {} another name", result.option,
                                    other.option, result.path, result.option));
    }
}

Injection parse_injection(const std::string& text, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("{}: in \"{}\": {}", where, text, why));
  };
  const std::size_t colon = std::min(text.find(':'), text.size());
  Injection fault{.kind = text.substr(0, colon), .text = text};
  const auto kind = std::ranges::find(kFaultKinds, fault.kind, &FaultKind::name);
  if (kind == kFaultKinds.end()) {
    const Names names = mapped(kFaultKinds, &FaultKind::name);
    refuse(fmt::format("unknown fault \"{}\".{} Known are {}.", fault.kind,
                       suggestion(fault.kind, names), fmt::join(names, ", ")));
  }
  Names allowed = kind->required;
  allowed.insert(allowed.end(), kind->optional.begin(), kind->optional.end());
  std::set<std::string> given;
  if (colon < text.size()) {
    for (const std::string& part : split(text.substr(colon + 1), ',')) {
      const std::string key = part.substr(0, part.find('='));
      const std::string value = part.substr(std::min(key.size() + 1, part.size()));
      const bool known = std::ranges::count(allowed, key) != 0;
      if (known && given.insert(key).second && read_fault_key(fault, key, value)) continue;
      const bool of_value = known && key == "phase";
      const Names near = of_value ? phase_names() : known ? Names() : allowed;
      refuse(
          fmt::format("{} takes {}, got \"{}\" (each once; rank, step and bucket from 0, percent "
                      "and ms above 0).{}",
                      kind->name, allowed.empty() ? "no key" : joined(allowed, ", "), part,
                      suggestion(of_value ? value : key, near)));
    }
  }
  for (const std::string& key : kind->required)
    if (!given.contains(key)) refuse(fmt::format("{} needs {}=...", kind->name, key));
  // A phase is stretched by a share of itself or by a time, a call by a time.
  if (kind->name == "slow" && given.contains("percent") == given.contains("ms"))
    refuse("slow needs percent=... or ms=..., one of the two.");
  if (given.contains("percent") && !given.contains("phase"))
    refuse("slow needs phase=... beside percent (ms alone slows each call between ranks).");
  return fault;
}

bool strikes_calls(const Injection& injection) {
  return injection.kind == "stall" || (injection.kind == "slow" && injection.phase.empty());
}

}  // namespace ddpbench::bench
