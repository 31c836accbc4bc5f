// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"
#include "parallel/comm_hook.h"
#include "parallel/strategies.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {
namespace {

bool always(const RunCell&) { return true; }
bool is_baseline(const std::string& strategy) { return strategy_traits(strategy).is_baseline(); }
bool has_several_devices(const RunCell& cell) { return !is_baseline(cell.strategy); }
bool has_servers(const RunCell& cell) { return strategy_traits(cell.strategy).has_servers; }
bool is_asynchronous(const RunCell& cell) { return has_servers(cell) && cell.ps_mode == "async"; }
bool is_synchronous(const RunCell& cell) { return has_servers(cell) && cell.ps_mode == "sync"; }
bool has_buckets(const RunCell& cell) {
  return strategy_traits(cell.strategy).uses_buckets && cell.world_size > stages_of(cell);
}
bool all_reduces_gradients(const RunCell& cell) {
  return has_buckets(cell) && strategy_traits(cell.strategy).all_reduces_gradients();
}
bool has_hooks(const RunCell& cell) {
  return all_reduces_gradients(cell) && !strategy_traits(cell.strategy).splits_layers;
}
bool accumulates_buckets(const RunCell& cell) {
  return has_hooks(cell) && cell.accumulation_steps > 1 && !selects(cell.comm_hook);
}
bool averages_weights(const RunCell& cell) {
  return has_buckets(cell) && strategy_traits(cell.strategy).averages_weights;
}
bool splits_layers(const RunCell& cell) { return strategy_traits(cell.strategy).splits_layers; }
bool crosses_links(const RunCell& cell) { return !strategy_traits(cell.strategy).one_process; }
bool groups_ranks(const RunCell& cell) { return strategy_traits(cell.strategy).groups_ranks; }
bool has_cuda_graphs(const RunCell& cell) { return strategy_traits(cell.strategy).records_steps; }
bool overlaps(const RunCell& cell) {
  return strategy_traits(cell.strategy).overlaps &&
         (has_buckets(cell) || gathers_units(cell) || has_servers(cell));
}

using Heeded = bool (*)(const RunCell&);
using Ignore = void (*)(RunCell&, const Options&);

void keep(RunCell&, const Options&) {}

template <auto kList, auto kValue>
void take(RunCell& cell, const Options& options, std::size_t index) {
  cell.*kValue = (options.*kList)[index];
}

template <auto kList, auto kValue>
void give(const RunCell& cell, Options& options) {
  (options.*kList).assign(1, cell.*kValue);
}

template <auto kList, auto kValue>
void take_first(RunCell& cell, const Options& options) {
  take<kList, kValue>(cell, options, 0);
}

// Where on and off are compared, a strategy whose steps cannot be recorded runs without graphs.
// Where only graphs are asked for, the value stays and is refused later.
void ignore_cuda_graph(RunCell& cell, const Options& options) {
  cell.cuda_graph = options.cuda_graphs.size() > 1 ? "off" : options.cuda_graphs.front();
}

std::string value_text(bool value) { return value ? "on" : "off"; }
template <typename Value>
std::string value_text(const Value& value) {
  return fmt::format("{}", value);
}

// Makes the axis of the list `kList`. Each of its values becomes a cell's `kValue`.
template <auto kList, auto kValue>
SweepAxis axis(const char* option, const char* setting, Heeded heeded,
               Ignore ignore = take_first<kList, kValue>) {
  return {.option = option,
          .setting = setting,
          .listed = [](const Options& options) { return (options.*kList).size(); },
          .take = take<kList, kValue>,
          .give = give<kList, kValue>,
          .heeded = heeded,
          .ignore = ignore,
          .text = [](const RunCell& cell) { return value_text(cell.*kValue); }};
}

// The axis of what only some strategies do: others have the default, whatever is listed.
template <auto kList, auto kValue>
SweepAxis special_axis(const char* option, const char* setting, Heeded heeded,
                       const char* needs = "", Heeded where = has_servers) {
  const auto take_default = [](RunCell& cell, const Options&) { cell.*kValue = RunCell{}.*kValue; };
  SweepAxis made = axis<kList, kValue>(option, setting, heeded, take_default);
  made.refuses_alone = true;
  made.needs = needs;
  made.where = where;
  return made;
}

// An option that may list several values needs a list in Options, a value in RunCell, and a row.
std::vector<SweepAxis> make_axes() {
  using O = Options;
  using C = RunCell;
  return {
      axis<&O::strategies, &C::strategy>("strategy", "", always),
      axis<&O::gpus, &C::world_size>("gpus", "", has_several_devices, keep),
      axis<&O::batch_sizes, &C::batch_size>("batch-size", "batch", always),
      axis<&O::global_batch_sizes, &C::global_batch_size>("global-batch-size", "global_batch",
                                                          always),
      axis<&O::accumulation_steps, &C::accumulation_steps>("accumulation-steps",
                                                           "accumulation_steps", always),
      special_axis<&O::stages, &C::stages>("stages", "stages", splits_layers),
      special_axis<&O::micro_batches, &C::micro_batches>("micro-batches", "micro_batches",
                                                         splits_layers),
      special_axis<&O::schedules, &C::schedule>("schedule", "schedule", splits_layers),
      axis<&O::server_counts, &C::servers>("servers", "", has_servers, keep),
      axis<&O::devices_per_process, &C::devices_per_process>(
          "devices-per-process", "devices_per_process", groups_ranks, keep),
      axis<&O::loader_workers, &C::loader_workers>("loader-workers", "loader_workers", always),
      axis<&O::first_buckets_mb, &C::first_bucket_mb>("first-bucket-mb", "first_bucket_mb",
                                                      has_buckets),
      axis<&O::bucket_caps_mb, &C::bucket_cap_mb>("bucket-cap-mb", "bucket_cap_mb", has_buckets),
      special_axis<&O::units_mb, &C::unit_mb>("unit-mb", "unit_mb", gathers_units),
      special_axis<&O::comm_hooks, &C::comm_hook>("comm-hook", "comm_hook", has_hooks),
      axis<&O::all_reduces, &C::all_reduce>("all-reduce", "all_reduce", all_reduces),
      special_axis<&O::accumulation_syncs, &C::accumulation_sync>(
          "accumulation-sync", "accumulation_sync", accumulates_buckets,
          " does not go with --comm-hook=topk:P or powersgd:R", all_reduces_gradients),
      special_axis<&O::sync_every, &C::sync_every>("sync-every", "sync_every", averages_weights),
      special_axis<&O::outer_lrs, &C::outer_lr>("outer-lr", "outer_lr", averages_weights),
      special_axis<&O::outer_momenta, &C::outer_momentum>("outer-momentum", "outer_momentum",
                                                          averages_weights),
      axis<&O::ps_updates, &C::ps_update>("ps-update", "ps_update", has_servers),
      special_axis<&O::ps_modes, &C::ps_mode>("ps-mode", "ps_mode", has_servers),
      special_axis<&O::max_stalenesses, &C::max_staleness>(
          "max-staleness", "max_staleness", is_asynchronous, " needs --ps-mode=async"),
      special_axis<&O::backup_workers, &C::backup_workers>(
          "backup-workers", "backup_workers", is_synchronous, " does not go with --ps-mode=async"),
      axis<&O::cuda_graphs, &C::cuda_graph>("cuda-graph", "cuda_graph", has_cuda_graphs,
                                            ignore_cuda_graph),
      axis<&O::overlaps, &C::overlap>("overlap", "overlap", overlaps)};
}

void append_values(const SweepAxis& axis, const Options& options, const RunCell& cell,
                   std::vector<RunCell>& cells) {
  const std::size_t listed = axis.listed(options);
  if (!axis.heeded(cell) || listed == 0) {
    cells.push_back(cell);
    if (listed > 0) axis.ignore(cells.back(), options);
    return;
  }
  for (std::size_t i = 0; i < listed; ++i) {
    cells.push_back(cell);
    axis.take(cells.back(), options, i);
  }
}

std::vector<RunCell> span_matrix(const Options& options) {
  Options ordered = options;
  std::ranges::stable_partition(ordered.strategies, is_baseline);
  // --gpus=all is not counted yet: it stands for one count above 1.
  if (ordered.gpus.empty()) ordered.gpus = {2};
  std::vector<RunCell> cells(1);
  for (const SweepAxis& axis : sweep_axes()) {
    std::vector<RunCell> product;
    for (const RunCell& cell : cells) append_values(axis, ordered, cell, product);
    cells = std::move(product);
  }
  return cells;
}

bool is_same_run(const Options& options, const RunCell& a, RunCell b) {
  const RunOptions &mine = entry_options(options, a), &theirs = entry_options(options, b);
  b.entry = a.entry;
  return a == b && mine == theirs;
}

// Whether the value of the axis is one of the cell's: it has the batch of a device or of all.
bool has_value(const SweepAxis& axis, const RunCell& cell) {
  const std::string_view option = axis.option;
  if (option == "batch-size" && cell.is_strong()) return false;
  if (option == "global-batch-size" && !cell.is_strong()) return false;
  return axis.heeded(cell);
}

std::string axis_words(const SweepAxis& axis, const RunCell& cell) {
  if (*axis.setting == '\0' || !has_value(axis, cell)) return "";
  return report::value_words(axis.setting, axis.text(cell));
}

// What tells the cell from those of other entries: values of the axes, then other options.
std::vector<std::string> entry_words(const RunCell& cell, const Options& options) {
  std::vector<std::string> words;
  const std::vector<RunCell> cells = plan_matrix(options);
  for (const SweepAxis& axis : sweep_axes()) {
    const std::string own = axis_words(axis, cell);
    // A cell without such a value differs in the strategy, or in the kind of batch.
    const bool is_batch = std::string_view(axis.option).ends_with("batch-size");
    const bool differs = std::ranges::any_of(cells, [&](const RunCell& other) {
      const std::string theirs = axis_words(axis, other);
      return theirs != own && (is_batch || !theirs.empty());
    });
    if (!own.empty() && differs) words.push_back(own);
  }
  const Options& own_entry = entry_options(options, cell);
  for (const OptionDefinition& definition : option_table()) {
    if (!definition.is_per_run() || definition.is_list()) continue;
    if (!is_heeded(own_entry, definition)) continue;
    const nlohmann::json own = get_value(own_entry, definition);
    const bool differs = std::ranges::any_of(options.runs, [&](const Options& entry) {
      return is_heeded(entry, definition) && get_value(entry, definition) != own;
    });
    if (!differs || own.is_null()) continue;
    const std::string text = own.is_string() ? own.get<std::string>() : own.dump();
    words.push_back(report::value_words(with_underscores(definition.name), text));
  }
  return words;
}

}  // namespace

bool all_reduces(const RunCell& cell) {
  return has_buckets(cell) && !strategy_traits(cell.strategy).shards_state &&
         !gathers(cell.comm_hook);
}

bool gathers_units(const RunCell& cell) {
  return strategy_traits(cell.strategy).gathers_units && cell.world_size > 1;
}
int stages_of(const RunCell& cell) {
  if (!splits_layers(cell)) return 1;
  return cell.stages > 0 ? cell.stages : cell.world_size;
}

std::span<const SweepAxis> sweep_axes() {
  static const std::vector<SweepAxis> axes = make_axes();
  return axes;
}

std::vector<RunCell> plan_matrix(const Options& options) {
  if (options.runs.empty()) return span_matrix(options);
  std::vector<RunCell> cells;
  for (std::size_t entry = 0; entry < options.runs.size(); ++entry) {
    for (RunCell cell : span_matrix(options.runs[entry])) {
      cell.entry = entry;
      const bool made = std::ranges::any_of(
          cells, [&](const RunCell& other) { return is_same_run(options, other, cell); });
      if (!made) cells.push_back(std::move(cell));
    }
  }
  return cells;
}

const Options& entry_options(const Options& options, const RunCell& cell) {
  return options.runs.empty() ? options : options.runs.at(cell.entry);
}

std::vector<std::size_t> entries_without_runs(const Options& options,
                                              const std::vector<RunCell>& cells) {
  std::vector<std::size_t> entries;
  for (std::size_t entry = 0; entry < options.runs.size(); ++entry) {
    if (std::ranges::count(cells, entry, &RunCell::entry) == 0) entries.push_back(entry);
  }
  return entries;
}

void check_axes(const Options& options) {
  const std::vector<Options> entries =
      options.runs.empty() ? std::vector{options} : options.runs;  // they inherit common values
  std::vector<RunCell> cells;
  std::set<std::string> strategies;
  for (const Options& entry : entries) {
    strategies.insert(entry.strategies.begin(), entry.strategies.end());
    for (RunCell& cell : span_matrix(entry)) {
      // A value that has no effect with one device or one pass misleads nobody.
      cell.world_size = cell.accumulation_steps = 2;
      cells.push_back(std::move(cell));
    }
  }
  const std::string useless =
      fmt::format(": no run of --strategy={} has a use for it", fmt::join(strategies, ","));
  for (const Options& entry : entries) {
    if (!entry.emulate_link.empty() && std::ranges::none_of(cells, crosses_links))
      throw ConfigError(fmt::format("--emulate-link={}{}", entry.emulate_link, useless));
    if (!entry.cut.empty() && std::ranges::none_of(cells, splits_layers))
      throw ConfigError(fmt::format("--cut={}{}", entry.cut, useless));
  }
  for (const SweepAxis& axis : sweep_axes()) {
    if (!axis.refuses_alone || std::ranges::any_of(cells, axis.heeded)) continue;
    const bool lacks = !axis.needs.empty() && std::ranges::any_of(cells, axis.where);
    for (const Options& entry : entries) {
      for (std::size_t i = 0; i < axis.listed(entry); ++i) {
        RunCell cell;
        axis.take(cell, entry, i);
        if (axis.text(cell) == axis.text({})) continue;
        throw ConfigError(
            fmt::format("--{}={}{}", axis.option, axis.text(cell), lacks ? axis.needs : useless));
      }
    }
  }
}

void check_run_list(const Options& options) {
  for (const std::size_t entry : entries_without_runs(options, plan_matrix(options))) {
    throw ConfigError(fmt::format(
        "{}: /runs/{}: it makes no run that the entries before it do not make. Flags and variables "
        "take the place of an entry's own values: leave out those that make entries equal.",
        input_name(options.config_path), entry));
  }
}

void check_saving(const Options& options) {
  const auto saves = [](const Options& own) { return !(own.save_model + own.checkpoint).empty(); };
  if (!saves(options) && std::ranges::none_of(options.runs, saves)) return;
  std::map<std::pair<std::string, std::string>, int> runs;  // that write the file of the option
  for (const RunCell& cell : plan_matrix(options)) {
    const Options& own = entry_options(options, cell);
    if (!own.save_model.empty()) ++runs[{"--save-model", own.save_model}];
    if (!own.checkpoint.empty()) ++runs[{"--checkpoint", own.checkpoint}];
  }
  for (const auto& [file, cells] : runs) {
    const int count = cells * options.repetitions;
    if (count <= 1 && !options.until_ci) continue;
    throw ConfigError(fmt::format(
        "{}={}: this command makes {} runs, which would overwrite each other's weights. "
        "Give one strategy, one number of devices, one value where a list could be, and one "
        "repetition.",
        file.first, file.second, options.until_ci ? "several" : std::to_string(count)));
  }
}

std::string run_title(const RunCell& cell, const Options& options) {
  std::string title = report::name_of(cell.strategy, cell.world_size, cell.servers);
  if (!options.runs.empty()) {
    for (const std::string& words : entry_words(cell, options)) title += ", " + words;
  } else {
    for (const SweepAxis& axis : sweep_axes()) {
      if (axis.listed(options) < 2 || axis_words(axis, cell).empty()) continue;
      title += ", " + axis_words(axis, cell);
    }
  }
  if (options.repetitions > 1 || options.until_ci || cell.repetition > 0) {
    title += fmt::format(", repetition {}", cell.repetition + 1);
  }
  return title;
}

std::string backend_device(const Options& options, int servers) {
  return servers > 0 && options.server_device == "cpu" ? "cpu" : options.device;
}

std::optional<Slot> SweepSchedule::next(double elapsed_s) const {
  if (options_.order == "interleaved") return next_interleaved(elapsed_s);
  for (const std::size_t cell : cells_) {
    Slot slot{cell, first_};
    while (results_.contains(slot)) ++slot.repetition;
    if (wanted(cell, slot.repetition, elapsed_s)) return slot;
  }
  return std::nullopt;
}

std::optional<Slot> SweepSchedule::next_interleaved(double elapsed_s) const {
  bool goes_on = true;
  for (int round = first_; goes_on; ++round) {
    goes_on = false;
    for (const std::size_t cell : order_of(round)) {
      if (results_.contains({cell, round})) {
        goes_on = true;
      } else if (wanted(cell, round, elapsed_s)) {
        return Slot{cell, round};
      }
    }
  }
  return std::nullopt;
}

std::optional<double> SweepSchedule::interval_width(std::size_t cell) const {
  std::vector<double> times;
  for (const auto& [slot, step_s] : results_) {
    if (slot.cell == cell && step_s) times.push_back(*step_s);
  }
  const report::MedianSpread spread = report::median_spread(times);
  if (!spread.is_interval) return std::nullopt;
  return (*spread.high.value - *spread.low.value) / report::median(times);
}

std::map<std::size_t, int> SweepSchedule::runs_left(double elapsed_s) const {
  std::map<std::size_t, int> left;
  for (const std::size_t cell : cells_) {
    int repetition = first_;
    const int planned = repetition + options_.repetitions;
    int missing = 0;
    for (; repetition < planned || results_.contains({cell, repetition}); ++repetition) {
      if (!results_.contains({cell, repetition})) ++missing;
    }
    if (missing == 0 && wanted(cell, repetition, elapsed_s)) missing = 1;
    if (missing > 0) left[cell] = missing;
  }
  return left;
}

std::map<std::size_t, int> SweepSchedule::most_runs_left(double elapsed_s) const {
  std::map<std::size_t, int> left = runs_left(elapsed_s);
  if (!options_.until_ci || is_late(elapsed_s)) return left;
  for (auto& [cell, runs] : left) {
    if (failed(cell)) continue;
    const auto made = std::ranges::count_if(
        results_, [&](const auto& result) { return result.first.cell == cell; });
    runs = std::max(runs, options_.max_repetitions - static_cast<int>(made));
  }
  return left;
}

bool SweepSchedule::failed(std::size_t cell) const {
  return std::ranges::any_of(
      results_, [&](const auto& result) { return result.first.cell == cell && !result.second; });
}

bool SweepSchedule::wanted(std::size_t cell, int repetition, double elapsed_s) const {
  const int made = repetition - first_;
  if (made < options_.repetitions) return true;
  if (!options_.until_ci || made >= options_.max_repetitions) return false;
  if (is_late(elapsed_s) || failed(cell)) return false;
  const auto width = interval_width(cell);
  return !width || *width > options_.until_ci->value / 100;
}

std::vector<std::size_t> SweepSchedule::order_of(int round) const {
  std::vector<std::size_t> order = cells_;
  if (options_.repetitions == 1 && !options_.until_ci) return order;
  // Seed and round are mixed apart, so that neighbouring ones have nothing in common. The order
  // that a seed names must not change. The modulo's bias is below 2^-50 for any number of cells.
  SplitMix64 random(SplitMix64(options_.seed).next() ^
                    SplitMix64(~static_cast<std::uint64_t>(round)).next());
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
  return order;
}

}  // namespace ddpbench::bench
