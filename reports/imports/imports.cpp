// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/imports/imports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// ---- the rows of the file ----

constexpr std::string_view kColumns[] = {"repetition", "rank",   "step", "seconds",
                                         "phase",      "memory", "loss"};
constexpr const char* kNeeded[] = {"step", "seconds"};
constexpr int kMostRanks = 100'000, kMostRepetitions = 1'000'000;
constexpr double kMostReal = 1e18;
constexpr std::size_t kLongestLine = 64 * 1024;

// The cells of one row by their columns; an absent or empty cell has no entry.
using Cells = std::map<std::string, std::string, std::less<>>;

// Where a value stands, for messages.
struct LinePlace {
  const std::string& path;
  std::size_t line;

  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(fmt::format("{}: line {}: {}", path, line, message));
  }
};

bool is_column(std::string_view name) {
  return std::ranges::find(kColumns, name) != std::end(kColumns);
}

// From 0 to `most`; nothing where there is no cell.
template <typename T>
std::optional<T> number(const Cells& cells, const char* column, T most, const LinePlace& place) {
  const auto found = cells.find(column);
  if (found == cells.end()) return std::nullopt;
  const auto value = number_in<T>(found->second);
  if (value && *value >= 0 && *value <= most) return value;
  place.fail(fmt::format("{}: expected a {} from 0 to {}, got \"{}\"", column,
                         std::integral<T> ? "whole number" : "number", most,
                         message_text(found->second)));
}

StepTime row_of(const Cells& cells, const LinePlace& place) {
  for (const char* needed : kNeeded) {
    if (!cells.contains(needed)) place.fail(fmt::format("{} is missing", needed));
  }
  StepTime row;
  row.line = place.line;
  row.repetition = number(cells, "repetition", kMostRepetitions, place).value_or(0);
  row.rank = number(cells, "rank", kMostRanks - 1, place).value_or(0);
  row.step = *number(cells, "step", std::numeric_limits<std::int64_t>::max(), place);
  row.seconds = *number(cells, "seconds", kMostReal, place);
  row.memory_bytes = number(cells, "memory", kMostReal, place);
  if (const auto phase = cells.find("phase"); phase != cells.end()) row.phase = phase->second;
  if (row.phase.empty() && row.seconds == 0) place.fail("seconds: a step cannot take no time");
  if (const auto loss = cells.find("loss"); loss != cells.end()) {
    row.loss = number_in<double>(loss->second);  // nan and inf are numbers, too
    if (!row.loss) place.fail("loss: expected a number, got " + message_text(loss->second));
  }
  return row;
}

// A record of RFC 4180. A quoted cell ends on its line.
std::vector<std::string> csv_cells(std::string_view record, const LinePlace& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (c == '"' && quoted && i + 1 < record.size() && record[i + 1] == '"') {
      cells.back() += record[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) place.fail("a quoted cell does not end on its line");
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

// Columns that every row needs are asked of the header: rows would all lack them.
void check_header(const std::vector<std::string>& columns, const LinePlace& place) {
  for (const std::string& column : columns) {
    if (std::ranges::count(columns, column) == 1) continue;
    place.fail(fmt::format("two columns are called \"{}\"", message_text(column)));
  }
  for (const char* needed : kNeeded) {
    if (std::ranges::count(columns, needed) > 0) continue;
    place.fail(
        fmt::format("the header \"{}\" has no column \"{}\"; columns are separated by commas",
                    message_text(fmt::format("{}", fmt::join(columns, ","))), needed));
  }
}

Cells csv_row(std::string_view record, const std::vector<std::string>& columns,
              const LinePlace& place) {
  std::vector<std::string> texts = csv_cells(record, place);
  if (texts.size() != columns.size()) {
    place.fail(fmt::format("{} cells below {} columns", texts.size(), columns.size()));
  }
  Cells cells;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!texts[c].empty()) cells.emplace(columns[c], std::move(texts[c]));
  }
  return cells;
}

Cells json_row(std::string_view record, std::vector<std::string>& keys, const LinePlace& place) {
  const auto object =
      parse_json(std::string(record), fmt::format("{}: line {}", place.path, place.line),
                 {.most_bytes = kLongestLine});
  if (!object.is_object()) place.fail("expected an object");
  Cells cells;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    if (!value.is_null() && is_column(key)) {
      cells[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return cells;
}

// ---- runs ----

constexpr const char* kNotInFile = "the imported file does not tell it";

using Seconds = std::map<std::int64_t, double>;  // by step

// Seconds by step, and the bytes and losses of whole steps.
struct RankSteps {
  Seconds whole;
  std::map<std::string, Seconds> phases;
  std::optional<double> peak_bytes;
  std::vector<double> losses;
};

using Repetition = std::map<int, RankSteps>;  // by rank

void add(RankSteps& rank, const StepTime& row, const std::string& path) {
  auto& steps = row.phase.empty() ? rank.whole : rank.phases[row.phase];
  if (!steps.emplace(row.step, row.seconds).second) {
    LinePlace{path, row.line}.fail(fmt::format("step {} of rank {} in repetition {}{} comes twice",
                                               row.step, row.rank, row.repetition,
                                               row.phase.empty() ? "" : ", phase " + row.phase));
  }
  if (!row.phase.empty()) return;
  if (row.memory_bytes) {
    rank.peak_bytes = std::max(rank.peak_bytes.value_or(0), *row.memory_bytes);
  }
  if (row.loss) rank.losses.push_back(*row.loss);
}

// The rows without the warm-up: the first `warmup` step numbers of each repetition.
std::map<int, Repetition> timed_steps(const StepTimes& times, std::int64_t warmup,
                                      const std::string& path) {
  std::map<int, std::set<std::int64_t>> numbers;
  for (const StepTime& row : times.rows) numbers[row.repetition].insert(row.step);
  std::map<int, Repetition> repetitions;
  for (const StepTime& row : times.rows) {
    const std::set<std::int64_t>& steps = numbers.at(row.repetition);
    if (static_cast<std::int64_t>(steps.size()) <= warmup) {
      throw ConfigError(
          fmt::format("{}: repetition {} has {}, and the first {} are the warm-up; give a smaller "
                      "--warmup-steps",
                      path, row.repetition, counted(steps.size(), "step"), warmup));
    }
    if (row.step < *std::next(steps.begin(), warmup)) continue;
    add(repetitions[row.repetition][row.rank], row, path);
  }
  return repetitions;
}

void check(const Repetition& ranks, int repetition, const std::string& path) {
  int expected = 0;
  for (const auto& [rank, steps] : ranks) {
    if (rank != expected++ || steps.whole.empty()) {
      throw ConfigError(fmt::format("{}: rank {} of repetition {} has no whole steps", path,
                                    std::min(rank, expected - 1), repetition));
    }
  }
}

// The slowest rank's time of each step that all ranks have.
std::vector<double> slowest(const std::vector<const Seconds*>& ranks) {
  std::vector<double> times;
  for (const auto& [step, first] : *ranks.front()) {
    double most = first;
    const bool all = std::ranges::all_of(ranks, [&](const Seconds* rank) {
      const auto found = rank->find(step);
      if (found != rank->end()) most = std::max(most, found->second);
      return found != rank->end();
    });
    if (all) times.push_back(most);
  }
  return times;
}

Figure median_of(const Seconds& steps) { return Figure::of(median(slowest({&steps}))); }

std::string phase_key(const std::string& phase) {
  std::string key;
  for (const char c : phase) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    key += plain ? c : '_';
  }
  return key.ends_with("_s") ? key : key + "_s";
}

std::map<std::string, Figure> phases_of(const Repetition& ranks) {
  std::map<std::string, std::vector<const Seconds*>> named;
  for (const auto& [rank, steps] : ranks) {
    for (const auto& [name, times] : steps.phases) named[name].push_back(&times);
  }
  std::map<std::string, Figure> phases;
  for (const auto& [name, with] : named) {
    const std::vector<double> times = slowest(with);
    phases[phase_key(name)] = times.empty() ? Figure::missing("no step of all ranks has this phase")
                                            : Figure::of(median(times));
  }
  return phases;
}

DeviceRow device_of(int rank, const RankSteps& steps, const ImportedProgram& program) {
  DeviceRow device;
  device.rank = device.process_rank = rank;
  device.host = program.host;
  device.device = fmt::format("{}:{}", program.device, rank);
  device.step_time_median_s = median_of(steps.whole);
  if (steps.peak_bytes) {
    device.peak_bytes = static_cast<std::uint64_t>(*steps.peak_bytes);
  } else {
    device.peak_reason = kNotInFile;
  }
  device.process_peak_rss_bytes = Figure::missing(kNotInFile);
  for (const auto& [name, times] : steps.phases) device.phases[phase_key(name)] = median_of(times);
  return device;
}

// One epoch: the file says where none begins.
void fill_epoch(const Repetition& ranks, Run& run) {
  std::vector<double> losses;
  for (const auto& [rank, steps] : ranks) {
    losses.insert(losses.end(), steps.losses.begin(), steps.losses.end());
  }
  if (losses.empty()) return;
  EpochRow epoch;
  epoch.time_s = run.time.train_s.value.value_or(0);
  epoch.samples = run.global_batch_size * run.step.count;
  epoch.samples_per_s = static_cast<double>(epoch.samples) / epoch.time_s;
  epoch.train_loss =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  epoch.train_accuracy = std::numeric_limits<double>::quiet_NaN();
  epoch.test_accuracy = Figure::missing(kNotInFile);
  if (!std::isfinite(epoch.train_loss)) mark_diverged(run, kDivergedReason);
  run.epochs.push_back(std::move(epoch));
}

Run run_of(const ImportedProgram& program, int repetition, const Repetition& ranks,
           const std::string& path) {
  Run run;
  run.strategy = program.strategy;
  run.world_size = static_cast<int>(ranks.size());
  run.repetition = repetition;
  run.device = program.device;
  run.device_model = program.device_model;
  run.precision = program.precision;
  run.model = program.model;
  run.optimizer_name = "unknown";
  run.per_device_batch_size = program.batch_size.value_or(0);
  run.global_batch_size = run.per_device_batch_size * run.world_size;
  run.scaling_mode = "weak";
  run.dataset_name = program.dataset;
  run.verification.reason = "an imported run is not verified";
  std::vector<const Seconds*> whole;
  for (const auto& [rank, steps] : ranks) whole.push_back(&steps.whole);
  std::vector<double>& samples_s = run.step.samples_s = slowest(whole);
  if (samples_s.empty()) {
    throw ConfigError(
        fmt::format("{}: the ranks of repetition {} have no step in common", path, repetition));
  }
  run.step.warmup = static_cast<int>(program.warmup_steps);
  run.step.count = static_cast<std::int64_t>(samples_s.size());
  run.step.time_s = summarize(samples_s);
  run.time.train_s = Figure::of(std::accumulate(samples_s.begin(), samples_s.end(), 0.0));
  run.phases = phases_of(ranks);
  for (const auto& [rank, steps] : ranks) run.devices.push_back(device_of(rank, steps, program));
  run.samples_per_s = run.samples_per_s_per_device =
      Figure::missing("--batch-size was not given to import");
  if (program.batch_size) {
    const double rate = static_cast<double>(*program.batch_size) / run.step.time_s->median;
    run.samples_per_s_per_device = Figure::of(rate);
    run.samples_per_s = Figure::of(rate * run.world_size);
  }
  fill_epoch(ranks, run);
  return run;
}

}  // namespace

StepTimes parse_step_times(std::string_view text, const std::string& path) {
  text = without_byte_order_mark(text);
  const bool json = trimmed(text, " \t\r\n").starts_with('{');
  std::vector<std::string> columns;
  StepTimes times;
  LinePlace place{path, 0};
  for (std::size_t at = 0; at < text.size();) {
    ++place.line;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view record = trimmed(text.substr(at, end - at), " \t\r");
    at = end + 1;
    if (record.size() > kLongestLine) place.fail("the line is too long");
    if (record.empty()) continue;
    if (json || !columns.empty()) {
      times.rows.push_back(
          row_of(json ? json_row(record, columns, place) : csv_row(record, columns, place), place));
    } else {
      columns = csv_cells(record, place);
      check_header(columns, place);
    }
  }
  if (columns.empty()) throw ConfigError(fmt::format("{}: it is empty", path));
  if (times.rows.empty()) throw ConfigError(fmt::format("{}: it has no steps", path));
  for (const std::string& column : columns) {
    if (!is_column(column)) times.not_read.push_back(column);
  }
  return times;
}

std::vector<Run> imported_runs(const StepTimes& times, const ImportedProgram& program,
                               const std::string& path) {
  std::vector<Run> runs;
  for (const auto& [repetition, ranks] : timed_steps(times, program.warmup_steps, path)) {
    check(ranks, repetition, path);
    runs.push_back(run_of(program, repetition, ranks, path));
  }
  return runs;
}

}  // namespace ddpbench::report
