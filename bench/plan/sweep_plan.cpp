// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "parallel/strategies.h"
#include "reports/data/run_names.h"

namespace ddpbench::bench {
namespace {

bool always(const RunCell&) { return true; }
bool is_baseline(const std::string& strategy) { return strategy_traits(strategy).is_baseline(); }
bool has_several_devices(const RunCell& cell) { return !is_baseline(cell.strategy); }
bool has_servers(const RunCell& cell) { return strategy_traits(cell.strategy).has_servers; }
bool has_buckets(const RunCell& cell) {
  return strategy_traits(cell.strategy).uses_buckets && cell.world_size > 1;
}
bool has_cuda_graphs(const RunCell& cell) { return strategy_traits(cell.strategy).records_steps; }
bool overlaps(const RunCell& cell) {
  return strategy_traits(cell.strategy).overlaps && (has_buckets(cell) || has_servers(cell));
}

// What the option's list and the cell's member make of an axis.
template <auto kList, auto kValue>
struct Values {
  static std::size_t listed(const Options& options) { return (options.*kList).size(); }
  static void set(RunCell& cell, const Options& options, std::size_t index) {
    cell.*kValue = (options.*kList)[index];
  }
  static void first(RunCell& cell, const Options& options) {
    if (listed(options) > 0) set(cell, options, 0);
  }
};

// An axis of the list `kList`, each of whose values becomes a cell's `kValue`. Its option and its
// key in JSON are `name`; see SweepAxis for the others.
template <auto kList, auto kValue>
SweepAxis axis(const char* name, bool (*heeded)(const RunCell&),
               void (*ignore)(RunCell&, const Options&), std::string (*text)(const RunCell&)) {
  return {.option = name,
          .listed = &Values<kList, kValue>::listed,
          .set = &Values<kList, kValue>::set,
          .heeded = heeded,
          .ignore = ignore,
          .text = text,
          .write = [](const RunCell& cell, nlohmann::json& json) { json = cell.*kValue; },
          .read = [](RunCell& cell, const nlohmann::json& json) { json.get_to(cell.*kValue); }};
}
template <auto kList, auto kValue>
SweepAxis axis_with_first(const char* name, bool (*heeded)(const RunCell&),
                          std::string (*text)(const RunCell&)) {
  return axis<kList, kValue>(name, heeded, &Values<kList, kValue>::first, text);
}

// A strategy whose steps cannot be recorded runs without graphs where both are compared. Where
// graphs are all that is wanted, the value stays, and is refused later.
void ignore_cuda_graph(RunCell& cell, const Options& options) {
  cell.cuda_graph = options.cuda_graphs.size() > 1 ? "off" : options.cuda_graphs.front();
}

std::vector<SweepAxis> make_axes() {
  return {
      axis<&Options::strategies, &RunCell::strategy>("strategy", always, nullptr, nullptr),
      axis<&Options::gpus, &RunCell::world_size>("gpus", has_several_devices, nullptr, nullptr),
      axis<&Options::batch_sizes, &RunCell::batch_size>(
          "batch-size", always, nullptr,
          [](const RunCell& cell) { return fmt::format("batch {}", cell.batch_size); }),
      axis<&Options::global_batch_sizes, &RunCell::global_batch_size>(
          "global-batch-size", always, nullptr,
          [](const RunCell& cell) {
            return fmt::format("global batch {}", cell.global_batch_size);
          }),
      axis<&Options::server_counts, &RunCell::servers>("servers", has_servers, nullptr, nullptr),
      axis_with_first<&Options::first_buckets_mb, &RunCell::first_bucket_mb>(
          "first-bucket-mb", has_buckets,
          [](const RunCell& cell) {
            return fmt::format("first bucket {} MiB", cell.first_bucket_mb);
          }),
      axis_with_first<&Options::bucket_caps_mb, &RunCell::bucket_cap_mb>(
          "bucket-cap-mb", has_buckets,
          [](const RunCell& cell) { return fmt::format("bucket cap {} MiB", cell.bucket_cap_mb); }),
      axis_with_first<&Options::ps_updates, &RunCell::ps_update>(
          "ps-update", has_servers,
          [](const RunCell& cell) { return fmt::format("update on the {}", cell.ps_update); }),
      axis<&Options::cuda_graphs, &RunCell::cuda_graph>(
          "cuda-graph", has_cuda_graphs, ignore_cuda_graph,
          [](const RunCell& cell) { return fmt::format("CUDA graphs {}", cell.cuda_graph); }),
      axis_with_first<&Options::overlaps, &RunCell::overlap>(
          "overlap", overlaps,
          [](const RunCell& cell) {
            return fmt::format("overlap {}", cell.overlap ? "on" : "off");
          }),
  };
}

void append_values(const SweepAxis& axis, const Options& options, const RunCell& cell,
                   std::vector<RunCell>& cells) {
  const std::size_t listed = axis.listed(options);
  if (!axis.heeded(cell) || listed == 0) {
    cells.push_back(cell);
    if (axis.ignore != nullptr && listed > 0) axis.ignore(cells.back(), options);
    return;
  }
  for (std::size_t i = 0; i < listed; ++i) {
    cells.push_back(cell);
    axis.set(cells.back(), options, i);
  }
}

}  // namespace

std::span<const SweepAxis> sweep_axes() {
  static const std::vector<SweepAxis> axes = make_axes();
  return axes;
}

std::vector<RunCell> plan_matrix(const Options& options) {
  Options ordered = options;
  std::ranges::stable_partition(ordered.strategies, is_baseline);
  // Not counted yet: one count, and more than one device.
  if (ordered.gpus.empty()) ordered.gpus = {2};
  std::vector<RunCell> cells(1);
  for (const SweepAxis& axis : sweep_axes()) {
    std::vector<RunCell> product;
    for (const RunCell& cell : cells) append_values(axis, ordered, cell, product);
    cells = std::move(product);
  }
  return cells;
}

std::vector<std::string> listed_options(const Options& options) {
  std::vector<std::string> names;
  for (const SweepAxis& axis : sweep_axes()) {
    if (axis.listed(options) > 1) names.push_back(fmt::format("--{}", axis.option));
  }
  return names;
}

void check_saving(const Options& options) {
  if (options.save_model.empty()) return;
  const std::size_t runs =
      plan_matrix(options).size() * static_cast<std::size_t>(options.repetitions);
  if (runs > 1 || options.until_ci)
    throw ConfigError(fmt::format(
        "--save-model={}: this command makes {} runs, which would overwrite each other's weights. "
        "Give one strategy, one number of devices, one value where a list could be, and one "
        "repetition.",
        options.save_model, options.until_ci ? "several" : std::to_string(runs)));
}

std::string run_title(const RunCell& cell, const Options& options) {
  std::string title = report::name_of(cell.strategy, cell.world_size, cell.servers);
  for (const SweepAxis& axis : sweep_axes()) {
    if (axis.text == nullptr || !axis.heeded(cell) || axis.listed(options) < 2) continue;
    title += ", " + axis.text(cell);
  }
  if (options.repetitions > 1 || options.until_ci || cell.repetition > 0) {
    title += fmt::format(", repetition {}", cell.repetition + 1);
  }
  return title;
}

nlohmann::json to_json(const RunCell& cell) {
  nlohmann::json json;
  for (const SweepAxis& axis : sweep_axes()) axis.write(cell, json[axis.option]);
  return json;
}

RunCell run_cell_from_json(const nlohmann::json& json) {
  RunCell cell;
  for (const SweepAxis& axis : sweep_axes()) axis.read(cell, json.at(axis.option));
  return cell;
}

}  // namespace ddpbench::bench
