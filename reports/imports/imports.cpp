// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/imports/imports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/ranges.h"
#include "base/text.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// ---- the rows of the file ----

// Names of columns by their small letters and digits, the first that is there. pandas calls its
// index "" or "Unnamed: 0"; "program" is what a benchmark tool ran.
constexpr std::string_view kColumns[] = {"repetition", "rank", "epoch",  "phase",
                                         "memory",     "loss", "program"};
constexpr std::string_view kSteps[] = {"step", "", "unnamed0"};
constexpr std::string_view kTimes[] = {"seconds", "s", "times", "ms", "timems", "us", "ns"};
constexpr double kUnits[] = {1, 1, 1, 1e-3, 1e-3, 1e-6, 1e-9};
constexpr std::span<const std::string_view> kNames[] = {kSteps, kTimes, kColumns};
constexpr int kMostRanks = 100'000, kMostRepetitions = 1'000'000;
constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;
constexpr double kMostReal = 1e18;
constexpr std::size_t kLongestDocument = 256 * kMiB;

// The cells of one row by their columns; an absent or empty cell has no entry.
using Cells = std::map<std::string, std::string, std::less<>>;

// Where a value stands, for messages. Entries of a document have no line.
struct LinePlace {
  const std::string& path;
  std::size_t line;

  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(line == 0 ? fmt::format("{}: {}", path, message)
                                : fmt::format("{}: line {}: {}", path, line, message));
  }
};

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const unsigned char c : name) {
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

// From 0 to `most`; nothing where there is no cell. pandas writes whole numbers as "3.0", too.
template <typename T>
std::optional<T> number(const Cells& cells, std::string_view column, T most,
                        const LinePlace& place) {
  const auto found = cells.find(column);
  if (found == cells.end()) return std::nullopt;
  const auto value = number_in<double>(found->second);
  const bool whole = !std::integral<T> || (value && std::trunc(*value) == *value);
  if (value && whole && *value >= 0 && *value <= static_cast<double>(most)) {
    return static_cast<T>(*value);
  }
  place.fail(fmt::format("{}: expected a {} from 0 to {}, got \"{}\"", column,
                         std::integral<T> ? "whole number" : "number", most,
                         message_text(found->second)));
}

StepTime row_of(Cells& cells, const LinePlace& place) {
  std::optional<std::int64_t> step;
  for (const std::string_view name : kSteps) {
    if (!step) step = number(cells, name, kMostSteps, place);
  }
  std::optional<double> seconds;
  for (std::size_t i = 0; i < std::size(kTimes) && !seconds; ++i) {
    seconds = number(cells, kTimes[i], kMostReal, place);
    if (seconds) *seconds *= kUnits[i];
  }
  if (!step || !seconds)
    place.fail(fmt::format("{} is missing (columns are separated by commas, ; or tabs)",
                           step ? "seconds" : "step"));
  StepTime row;
  row.line = place.line;
  row.start = {printable(cells["program"]),
               number(cells, "repetition", kMostRepetitions, place).value_or(0)};
  row.rank = number(cells, "rank", kMostRanks - 1, place).value_or(0);
  row.step = {number(cells, "epoch", kMostSteps, place).value_or(0), *step};
  row.seconds = *seconds;
  row.memory_bytes = number(cells, "memory", kMostReal, place);
  row.phase = cells["phase"];
  if (row.phase.empty() && row.seconds == 0) place.fail("seconds: a step cannot take no time");
  if (const std::string& loss = cells["loss"]; !loss.empty()) {
    row.loss = number_in<double>(loss);  // nan and inf are numbers, too
    if (!row.loss) place.fail("loss: expected a number, got " + message_text(loss));
  }
  return row;
}

// A record of RFC 4180. A quoted cell ends on its line.
std::vector<std::string> csv_cells(std::string_view record, char separator,
                                   const LinePlace& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (c == '"' && quoted && i + 1 < record.size() && record[i + 1] == '"') {
      cells.back() += record[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) place.fail("a quoted cell does not end on its line");
  for (std::string& cell : cells) {
    cell = trimmed(cell);
    std::string number = cell;  // with a decimal comma, where commas do not separate
    std::ranges::replace(number, ',', '.');
    if (separator != ',' && number_in<double>(number)) cell = std::move(number);
  }
  return cells;
}

// Python writes NaN and Infinity bare, which JSON does not have; here they become texts.
std::string without_bare_words(std::string_view json) {
  std::string result;
  for (bool in_text = false; !json.empty();) {
    std::size_t taken = in_text && json[0] == '\\' ? 2 : 1;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!in_text && json.starts_with(word)) taken = word.size();
    }
    if (json[0] == '"') in_text = !in_text;
    const char* const quote = taken > 2 ? "\"" : "";
    result.append(quote).append(json.substr(0, taken)).append(quote);
    json.remove_prefix(std::min(taken, json.size()));
  }
  return result;
}

class RowReader {
 public:
  RowReader(std::string_view text, const std::string& path) : place_{path, 0} {
    text = without_byte_order_mark(text);
    const std::string_view all = trimmed(text, kBlanks);
    const std::string_view first = trimmed(all.substr(0, all.find('\n')), kBlanks);
    if (all.empty()) throw ConfigError(fmt::format("{}: it is empty", path));
    if (all[0] == '[' || (all[0] == '{' && (first == all || !first.ends_with('}')))) {
      take_document(parse_json(without_bare_words(all), path, {.most_bytes = kLongestDocument}));
    } else {
      take_lines(text, all[0] == '{');
    }
    if (times.rows.empty()) throw ConfigError(fmt::format("{}: it has no steps", path));
  }

  StepTimes times;

 private:
  using Json = nlohmann::json;
  static constexpr std::string_view kBlanks = " \t\r\n";

  void take(const std::vector<std::string>& names, std::vector<std::string> texts) {
    Cells cells;
    for (std::size_t c = 0; c < names.size(); ++c) {
      const std::string letters = letters_of(names[c]);
      const bool known = std::ranges::any_of(
          kNames, [&](const auto& some) { return std::ranges::count(some, letters) > 0; });
      if (!known && std::ranges::count(times.not_read, names[c]) == 0) {
        times.not_read.push_back(names[c]);
      }
      // pandas has NaN for what is missing.
      const bool told = !texts[c].empty() && (texts[c] != "NaN" || letters == "loss");
      if (told) cells.emplace(letters, std::move(texts[c]));
    }
    times.rows.push_back(row_of(cells, place_));
  }

  void take_object(const Json& object) {
    if (!object.is_object()) place_.fail("expected an object");
    std::vector<std::string> names, texts;
    for (const auto& [key, value] : object.items()) {
      names.push_back(key);
      texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      if (value.is_null()) texts.back().clear();
    }
    take(names, std::move(texts));
  }

  void take_lines(std::string_view text, bool json) {
    std::vector<std::string> columns;
    char separator = ',';
    for (std::size_t at = 0; at < text.size();) {
      ++place_.line;
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view record = trimmed(text.substr(at, end - at), " \r");
      at = end + 1;
      if (trimmed(record).empty()) continue;
      if (json) {
        take_object(parse_json(without_bare_words(record),
                               fmt::format("{}: line {}", place_.path, place_.line),
                               {.most_bytes = kLongestDocument}));
      } else if (columns.empty()) {
        const std::size_t other = record.find_first_of(",;\t");
        if (other != record.npos) separator = record[other];
        columns = csv_cells(record, separator, place_);
        for (const std::string& column : columns)
          if (!column.empty() && std::ranges::count(columns, column) > 1)
            place_.fail(fmt::format("two columns are called \"{}\"", message_text(column)));
      } else {
        std::vector<std::string> texts = csv_cells(record, separator, place_);
        if (texts.size() != columns.size()) {
          place_.fail(fmt::format("{} below {}", counted(texts.size(), "cell"),
                                  counted(columns.size(), "column")));
        }
        take(columns, std::move(texts));
      }
    }
  }

  // Rows, seconds, or what hyperfine, Google Benchmark or pytest-benchmark wrote.
  void take_document(const Json& document) {
    for (const char* list : {"results", "benchmarks"}) {
      if (!document.is_object() || !document.contains(list)) continue;
      if (!document[list].is_array()) place_.fail(fmt::format("\"{}\": expected a list", list));
      for (const Json& entry : document[list]) take_program(entry);
      return;
    }
    if (document.is_object()) return take_object(document);
    for (std::size_t i = 0; i < document.size(); ++i) {
      document[i].is_number() ? take({"step", "s"}, {std::to_string(i), document[i].dump()})
                              : take_object(document[i]);
    }
  }

  // A time of hyperfine or Google Benchmark is a repetition, a round of pytest-benchmark a step.
  void take_program(const Json& entry) try {
    const bool hyperfine = entry.contains("command");
    const auto name = entry.at(hyperfine ? "command" : "name").get<std::string>();
    if (entry.value("error_occurred", false)) return;  // Google Benchmark skipped it
    if (hyperfine || entry.contains("stats")) {
      const Json& all = hyperfine ? entry.at("times") : entry.at("stats").at("data");
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::string repetition = hyperfine ? std::to_string(repetitions_[name]++) : "0";
        take({"program", "repetition", "step", "s"},
             {name, repetition, hyperfine ? "0" : std::to_string(i), all.at(i).dump()});
      }
    } else if (entry.contains("real_time") && !entry.contains("aggregate_name")) {
      take({"program", "repetition", "step", entry.value("time_unit", "ns")},
           {name, std::to_string(repetitions_[name]++), "0", entry["real_time"].dump()});
    }
  } catch (const Json::exception& error) {
    constexpr int kNoSuchKey = 403;
    place_.fail(fmt::format("no file of hyperfine, Google Benchmark or pytest-benchmark{}",
                            error.id == kNoSuchKey ? ": " + message_text(error.what()) : ""));
  }

  LinePlace place_;
  std::map<std::string, int> repetitions_;  // of hyperfine and Google Benchmark, by name
};

// ---- runs ----

constexpr const char* kNotInFile = "it is not in the file";

using Seconds = std::map<StepNumber, double>;

// Seconds by step, and the bytes and losses of whole steps.
struct RankSteps {
  Seconds whole;
  std::map<std::string, Seconds> phases;
  std::optional<double> peak_bytes;
  std::vector<double> losses;
};

using Start = std::pair<std::string, int>;    // a program's repetition
using Repetition = std::map<int, RankSteps>;  // by rank

void add(RankSteps& rank, const StepTime& row, const LinePlace& place) {
  auto& steps = row.phase.empty() ? rank.whole : rank.phases[row.phase];
  if (!steps.emplace(row.step, row.seconds).second) {
    place.fail(fmt::format("step {} of rank {} in repetition {}{} comes twice", row.step.second,
                           row.rank, row.start.second,
                           row.phase.empty() ? "" : ", phase " + printable(row.phase)));
  }
  if (!row.phase.empty()) return;
  if (row.memory_bytes) {
    rank.peak_bytes = std::max(rank.peak_bytes.value_or(0), *row.memory_bytes);
  }
  if (row.loss) rank.losses.push_back(*row.loss);
}

// The rows without the warm-up: the first `warmup` step numbers of each repetition.
std::map<Start, Repetition> timed_steps(const StepTimes& times, std::int64_t warmup,
                                        const std::string& path) {
  std::map<Start, std::set<StepNumber>> numbers;
  for (const StepTime& row : times.rows) numbers[row.start].insert(row.step);
  std::map<Start, Repetition> repetitions;
  for (const StepTime& row : times.rows) {
    const std::set<StepNumber>& steps = numbers.at(row.start);
    if (static_cast<std::int64_t>(steps.size()) <= warmup) {
      throw ConfigError(
          fmt::format("{}: repetition {} has {}, and the first {} are the warm-up; give a smaller "
                      "--warmup-steps",
                      path, row.start.second, counted(steps.size(), "step"), warmup));
    }
    if (row.step < *std::next(steps.begin(), warmup)) continue;
    add(repetitions[row.start][row.rank], row, {path, row.line});
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

Phases phases_of(const Repetition& ranks) {
  std::map<std::string, std::vector<const Seconds*>> named;
  for (const auto& [rank, steps] : ranks) {
    for (const auto& [name, times] : steps.phases) named[name].push_back(&times);
  }
  Phases phases;
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

// One epoch: the file need not say where one begins.
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
  epoch.train_loss = mean(losses);
  epoch.train_accuracy = std::numeric_limits<double>::quiet_NaN();
  epoch.test_accuracy = Figure::missing(kNotInFile);
  if (!std::isfinite(epoch.train_loss)) mark_diverged(run, kDivergedReason);
  run.epochs.push_back(std::move(epoch));
}

Run run_of(const ImportedProgram& program, const Start& start, const Repetition& ranks,
           const std::string& path) {
  Run run;
  run.strategy = program.strategy.empty() ? start.first : program.strategy;
  run.world_size = static_cast<int>(ranks.size());
  run.repetition = start.second;
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
  std::vector<double>& samples_s = run.step.samples_s =
      slowest(mapped(ranks, [](const auto& rank) { return &rank.second.whole; }));
  if (samples_s.empty()) {
    throw ConfigError(
        fmt::format("{}: the ranks of repetition {} have no step in common", path, start.second));
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
  return RowReader(text, path).times;
}

std::vector<Run> imported_runs(const StepTimes& times, const ImportedProgram& program,
                               const std::string& path) {
  std::vector<Run> runs;
  for (const auto& [start, ranks] : timed_steps(times, program.warmup_steps, path)) {
    check(ranks, start.second, path);
    runs.push_back(run_of(program, start, ranks, path));
  }
  return runs;
}

}  // namespace ddpbench::report
