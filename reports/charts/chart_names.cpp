// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kNamedValues = 3;  // of an attribute in a title; more are counted

// One thing that may tell runs apart. Empty: the run has no such attribute.
using Attribute = std::string (*)(const ChartRun& run);

std::string hardware(const Environment& environment) {
  const std::string model = environment.cpu.model.empty() ? "unknown CPU" : environment.cpu.model;
  std::string text = fmt::format("{}, {}", model, counted(environment.cpu.cores, "core"));
  for (const GpuInfo& gpu : environment.gpus) text += ", " + gpu.name;
  return text;
}

std::string machine(const ChartRun& run) {
  const Environment& environment = run.report->environment;
  return fmt::format("{} ({})", hardware(environment), fmt::join(environment.hosts, ", "));
}

std::string build(const ChartRun& run) {
  const Generator& generator = run.report->generator;
  const std::string program = generator.name == "ddpbench" ? "" : generator.name + " ";
  if (!generator.git_commit) return fmt::format("{}version {}", program, generator.version);
  // "+" for changes, "?" where nobody knows of any.
  const char* changes = !generator.git_dirty ? "?" : *generator.git_dirty ? "+" : "";
  return fmt::format("{}version {} {}{}", program, generator.version,
                     generator.git_commit->substr(0, 8), changes);
}

std::string model(const ChartRun& run) { return run.run->model; }

std::string dataset(const ChartRun& run) {
  if (run.run->dataset_source.empty()) return run.run->dataset_name;
  return fmt::format("{} ({})", run.run->dataset_name, run.run->dataset_source);
}

std::string device(const ChartRun& run) {
  const std::string& model = run.run->device_model;
  if (model.empty() || model == run.report->environment.cpu.model) return run.run->device;
  return fmt::format("{} ({})", run.run->device, model);
}

std::string threads(const ChartRun& run) {
  return counted(run.run->threads_per_device, "thread") + " a device";
}

std::string precision(const ChartRun& run) { return run.run->precision; }

std::string mode(const ChartRun& run) {
  return run.run->scaling_mode.empty() ? "" : run.run->scaling_mode + " scaling";
}

std::string batch(const ChartRun& run) {
  const bool strong = run.run->scaling_mode == "strong";
  std::string text = strong ? fmt::format("global batch {}", run.run->global_batch_size)
                            : fmt::format("batch {} a device", run.run->per_device_batch_size);
  if (run.run->accumulation_steps != 1) {
    text += fmt::format(" in {} accumulation steps", run.run->accumulation_steps);
  }
  return text;
}

std::string optimizer(const ChartRun& run) { return run.run->optimizer_name; }

// One number of the optimizer; "lr 0.01".
template <std::size_t kIndex>
std::string optimizer_number(const ChartRun& run) {
  constexpr const char* kKeys[] = {"lr", "momentum", "weight_decay"};
  constexpr const char* kWords[] = {"lr", "momentum", "weight decay"};
  const auto found = run.run->optimizer.find(kKeys[kIndex]);
  if (found == run.run->optimizer.end()) return "";
  return fmt::format("{} {}", kWords[kIndex], found->second);
}

std::string servers(const ChartRun& run) {
  return run.run->servers > 0 ? counted(run.run->servers, "server") : "";
}

// One device needs no backend, which makes it no other strategy.
std::string backend(const ChartRun& run) {
  return run.run->backend == "none" ? "" : run.run->backend;
}

std::string injected(const ChartRun& run) {
  return run.run->injected.empty() ? "not injected" : "injected " + run.run->injected;
}

constexpr Attribute kOfAll[] = {machine,
                                build,
                                model,
                                dataset,
                                device,
                                threads,
                                precision,
                                mode,
                                batch,
                                optimizer,
                                optimizer_number<0>,
                                optimizer_number<1>,
                                optimizer_number<2>};
constexpr Attribute kOfStrategy[] = {servers, backend, injected};

// Distinct values in the order of their first appearance; empty ones do not count.
std::vector<std::string> distinct(std::span<const ChartRun> runs, Attribute attribute) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const ChartRun& run : runs) {
    std::string value = attribute(run);
    if (!value.empty() && seen.insert(value).second) values.push_back(std::move(value));
  }
  return values;
}

// "mnist (files) / cifar10 (files)", at most three and how many more.
std::string each_once(std::span<const ChartRun> runs, Attribute attribute) {
  const std::vector<std::string> values = distinct(runs, attribute);
  const std::size_t named = std::min(values.size(), kNamedValues);
  std::string text = fmt::format("{}", fmt::join(values.begin(), values.begin() + named, " / "));
  if (values.size() > named) text += fmt::format(" / {} more", values.size() - named);
  return text;
}

// "A", ..., "Z", "A1", ...
std::string letter(std::size_t index) {
  const std::string first(1, static_cast<char>('A' + index % 26));
  return index < 26 ? first : first + std::to_string(index / 26);
}

// Machines have long names: lines are marked with letters that the subtitle explains.
std::string machine_letter(const std::vector<std::string>& machines, const ChartRun& run) {
  const auto found = std::ranges::find(machines, machine(run));
  return "machine " + letter(static_cast<std::size_t>(found - machines.begin()));
}

void append(std::string& name, const std::string& value) {
  if (!value.empty()) name += ", " + value;
}

// "cap 0.5" of bucket_cap_mb=0.5: legends and panels have little room.
std::string option_text(const std::string& key, const std::string& value) {
  if (key == "bucket_cap_mb") return "cap " + value;
  if (key == "first_bucket_mb") return "first " + value;
  std::string words = key + " " + value;
  std::ranges::replace(words, '_', ' ');
  return words;
}

// Adds to the names of runs[i], i in `members`, what tells these runs apart.
void append_options(std::span<const ChartRun> runs, const std::vector<std::size_t>& members,
                    std::vector<std::string>& names) {
  std::vector<ChartRun> own;
  for (const std::size_t i : members) own.push_back(runs[i]);
  for (const Attribute attribute : kOfStrategy) {
    if (distinct(own, attribute).size() < 2) continue;
    for (const std::size_t i : members) append(names[i], attribute(runs[i]));
  }
  std::map<std::string, std::set<std::string>> values;
  for (const ChartRun& run : own) {
    for (const auto& [key, value] : run.run->strategy_options) values[key].insert(value);
  }
  for (const auto& [key, found] : values) {
    if (found.size() < 2) continue;
    for (const std::size_t i : members) {
      const auto option = runs[i].run->strategy_options.find(key);
      if (option == runs[i].run->strategy_options.end()) continue;
      append(names[i], option_text(key, option->second));
    }
  }
}

void append_common(std::span<const ChartRun> runs, std::vector<std::string>& names) {
  for (const Attribute attribute : kOfAll) {
    const std::vector<std::string> values = distinct(runs, attribute);
    if (values.size() < 2) continue;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      append(names[i], attribute == machine ? machine_letter(values, runs[i]) : attribute(runs[i]));
    }
  }
}

std::string machines_text(std::span<const ChartRun> runs) {
  const std::vector<std::string> machines = distinct(runs, machine);
  if (machines.size() == 1) return hardware(runs.front().report->environment);
  std::string text = "different machines";
  for (std::size_t i = 0; i < std::min(machines.size(), kNamedValues); ++i) {
    text += fmt::format("{} {}: {}", i == 0 ? ":" : ";", letter(i), machines[i]);
  }
  if (machines.size() > kNamedValues) {
    text += fmt::format("; {} more", machines.size() - kNamedValues);
  }
  return text;
}

void append_title(std::string& text, const std::string& part) {
  if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
}

}  // namespace

std::size_t strategy_rank(const std::string& strategy) {
  constexpr std::string_view kKnown[] = {"single", "dp", "ddp", "ps"};
  return static_cast<std::size_t>(std::ranges::find(kKnown, strategy) - std::begin(kKnown));
}

std::vector<std::string> series_names(std::span<const ChartRun> runs) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::size_t>> by_strategy;
  for (const ChartRun& run : runs) {
    by_strategy[run.run->strategy].push_back(names.size());
    names.push_back(run.run->strategy);
  }
  for (const auto& [strategy, members] : by_strategy) append_options(runs, members, names);
  append_common(runs, names);
  return names;
}

ChartCaption caption_of(std::span<const ChartRun> runs, const std::string& what) {
  ChartCaption caption;
  std::string title = each_once(runs, model);
  const std::string data = each_once(runs, dataset);
  if (!data.empty()) title += " on " + data;
  append_title(title, each_once(runs, mode));
  append_title(title, each_once(runs, batch));
  caption.title = what + ": " + title;
  std::string sub = each_once(runs, device);
  append_title(sub, each_once(runs, threads));
  append_title(sub, each_once(runs, precision));
  caption.subtitle = machines_text(runs) + "; " + sub;
  return caption;
}

}  // namespace ddpbench::report
