// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "reports/data/run_names.h"

namespace ddpbench::bench {
namespace {

using Cells = std::vector<RunCell>;

// Every cell once for each of `values`, set by `set`.
template <typename Values, typename Set>
Cells times(const Cells& cells, const Values& values, Set set) {
  Cells product;
  for (const RunCell& cell : cells) {
    for (const auto& value : values) {
      product.push_back(cell);
      set(product.back(), value);
    }
  }
  return product;
}

bool is_strong(const Options& options) { return !options.global_batch_sizes.empty(); }

const std::vector<std::int64_t>& batch_sizes(const Options& options) {
  return is_strong(options) ? options.global_batch_sizes : options.batch_sizes;
}

std::vector<int> device_counts(const std::string& strategy, const Options& options) {
  if (strategy == "single") return {1};
  // Not counted yet: one count, and more than one device.
  if (options.gpus.empty()) return {2};
  return options.gpus;
}

bool heeds_cuda_graph(const RunCell& cell) {
  return cell.strategy == "single" || cell.strategy == "ddp";
}

// Of a strategy whose steps cannot be recorded: what it does, unless graphs are all that is wanted,
// which then is refused.
std::string first_cuda_graph(const std::vector<std::string>& graphs) {
  return graphs.size() > 1 ? "off" : graphs.front();
}

// What a strategy heeds besides devices and batch.
Cells variants(const RunCell& cell, const Options& options) {
  Cells cells = {cell};
  const bool buckets = cell.strategy == "ddp" && cell.world_size > 1;
  const bool servers = cell.strategy == "ps";
  if (servers) {
    cells = times(cells, options.server_counts, [](RunCell& c, int n) { c.servers = n; });
    cells = times(cells, options.ps_updates,
                  [](RunCell& c, const std::string& update) { c.ps_update = update; });
  }
  if (buckets) {
    cells = times(cells, options.first_buckets_mb,
                  [](RunCell& c, double size) { c.first_bucket_mb = size; });
    cells = times(cells, options.bucket_caps_mb,
                  [](RunCell& c, double size) { c.bucket_cap_mb = size; });
  }
  if (heeds_cuda_graph(cell)) {
    cells = times(cells, options.cuda_graphs,
                  [](RunCell& c, const std::string& graph) { c.cuda_graph = graph; });
  }
  if (servers || buckets) {
    cells = times(cells, options.overlaps, [](RunCell& c, bool overlap) { c.overlap = overlap; });
  }
  return cells;
}

// The cell of the first value of every list.
RunCell first_cell(const std::string& strategy, const Options& options) {
  RunCell cell{.strategy = strategy};
  if (!batch_sizes(options).empty()) cell.batch_size = batch_sizes(options).front();
  cell.overlap = options.overlaps.front();
  cell.bucket_cap_mb = options.bucket_caps_mb.front();
  cell.first_bucket_mb = options.first_buckets_mb.front();
  cell.ps_update = options.ps_updates.front();
  cell.cuda_graph = first_cuda_graph(options.cuda_graphs);
  return cell;
}

void append_strategy(const std::string& strategy, const Options& options, Cells& cells) {
  const Cells one = {first_cell(strategy, options)};
  Cells all = times(one, device_counts(strategy, options),
                    [](RunCell& c, int devices) { c.world_size = devices; });
  if (!batch_sizes(options).empty()) {
    all = times(all, batch_sizes(options),
                [](RunCell& c, std::int64_t batch) { c.batch_size = batch; });
  }
  for (const RunCell& cell : all)
    std::ranges::copy(variants(cell, options), std::back_inserter(cells));
}

std::string setting(const RunCell& cell, const Options& options) {
  std::string text;
  if (batch_sizes(options).size() > 1) {
    text += fmt::format(", {}batch {}", is_strong(options) ? "global " : "", cell.batch_size);
  }
  const bool buckets = cell.strategy == "ddp" && cell.world_size > 1;
  if (buckets && options.first_buckets_mb.size() > 1) {
    text += fmt::format(", first bucket {} MiB", cell.first_bucket_mb);
  }
  if (buckets && options.bucket_caps_mb.size() > 1) {
    text += fmt::format(", bucket cap {} MiB", cell.bucket_cap_mb);
  }
  if (cell.strategy == "ps" && options.ps_updates.size() > 1) {
    text += fmt::format(", update on the {}", cell.ps_update);
  }
  if (heeds_cuda_graph(cell) && options.cuda_graphs.size() > 1) {
    text += fmt::format(", CUDA graphs {}", cell.cuda_graph);
  }
  if ((buckets || cell.strategy == "ps") && options.overlaps.size() > 1) {
    text += fmt::format(", overlap {}", cell.overlap ? "on" : "off");
  }
  return text;
}

}  // namespace

std::vector<RunCell> plan_matrix(const Options& options) {
  Cells cells;
  const auto& strategies = options.strategies;
  if (std::ranges::find(strategies, "single") != strategies.end()) {
    append_strategy("single", options, cells);
  }
  for (const std::string& strategy : strategies) {
    if (strategy != "single") append_strategy(strategy, options, cells);
  }
  return cells;
}

Options options_of_cell(const Options& options, const RunCell& cell) {
  Options one = options;
  one.strategies = {cell.strategy};
  one.gpus = {cell.world_size};
  (is_strong(options) ? one.global_batch_sizes : one.batch_sizes) = {cell.batch_size};
  one.overlaps = {cell.overlap};
  one.bucket_caps_mb = {cell.bucket_cap_mb};
  one.first_buckets_mb = {cell.first_bucket_mb};
  one.server_counts = {cell.servers > 0 ? cell.servers : options.server_counts.front()};
  one.ps_updates = {cell.ps_update};
  one.cuda_graphs = {cell.cuda_graph};
  return one;
}

std::vector<std::string> listed_options(const Options& options) {
  std::vector<std::string> names;
  const auto note = [&](const char* name, std::size_t values) {
    if (values > 1) names.emplace_back(name);
  };
  note("--strategy", options.strategies.size());
  note("--gpus", options.gpus.size());
  note("--batch-size", options.batch_sizes.size());
  note("--global-batch-size", options.global_batch_sizes.size());
  note("--overlap", options.overlaps.size());
  note("--bucket-cap-mb", options.bucket_caps_mb.size());
  note("--first-bucket-mb", options.first_buckets_mb.size());
  note("--servers", options.server_counts.size());
  note("--ps-update", options.ps_updates.size());
  note("--cuda-graph", options.cuda_graphs.size());
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
  title += setting(cell, options);
  if (options.repetitions > 1 || options.until_ci || cell.repetition > 0) {
    title += fmt::format(", repetition {}", cell.repetition + 1);
  }
  return title;
}

}  // namespace ddpbench::bench
