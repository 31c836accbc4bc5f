// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MLPerf's log lines, with the keys of https://github.com/mlcommons/logging (mllog/constants.py).
// Keys without a value in the report are left out, such as cache_clear.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/exports/run_formats.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

constexpr const char* kPoint = "POINT_IN_TIME";
constexpr const char* kStart = "INTERVAL_START";
constexpr const char* kEnd = "INTERVAL_END";

// Writes the lines of one run. now_ms_ is the time of the next line, in milliseconds since 1970.
class RunLog {
 public:
  RunLog(const RunRow& row, std::string name_space, double begin_ms)
      : row_(row), namespace_(std::move(name_space)), now_ms_(begin_ms) {}

  std::string text() {
    settings();
    add(kStart, "init_start", nullptr);
    const Times& time = row_.run->time;
    for (const Figure* part : {&time.startup_s, &time.verify_s, &time.warmup_s}) {
      now_ms_ += part->value.value_or(0) * 1000;
    }
    add(kEnd, "init_stop", nullptr);
    add(kStart, "run_start", nullptr);
    for (const EpochRow& epoch : row_.run->epochs) add_epoch(epoch);
    add(kEnd, "run_stop", nullptr, {{"status", has_succeeded() ? "success" : "aborted"}});
    return std::move(text_);
  }

 private:
  // MLPerf's runs succeed where they reach their quality.
  bool has_succeeded() const {
    const Run& run = *row_.run;
    return run.status == Status::ok && (!run.until_accuracy || run.until_accuracy->train_s.value);
  }

  void add(const char* type, const char* key, Json value, const Json& metadata = Json::object()) {
    Json line = {
        {"namespace", namespace_},
        {"time_ms", static_cast<std::int64_t>(std::llround(now_ms_))},
        {"event_type", type},
        {"key", key},
        {"value", std::move(value)},
        // No line of a source wrote this; the pointer leads to the run in the report.
        {"metadata",
         {{"file", row_.file}, {"lineno", 0}, {"pointer", fmt::format("/runs/{}", row_.index)}}}};
    line["metadata"].update(metadata);
    text_ += ":::MLLOG " + line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }

  void settings() {
    const Run& run = *row_.run;
    add(kPoint, "submission_benchmark", run.model);
    add(kPoint, "submission_org", "none");
    add(kPoint, "submission_division", "open");
    add(kPoint, "submission_status", "research");
    add(kPoint, "submission_platform",
        fmt::format("{}x{}", run.world_size,
                    run.device_model.empty() ? run.device : run.device_model),
        {{"strategy", run.strategy},
         {"strategy_options", run.strategy_options},
         {"servers", run.servers},
         {"per_device_batch_size", run.per_device_batch_size},
         {"repetition", run.repetition}});
    const Json config = Json::parse(row_.report->config_json, nullptr, false);
    if (config.is_object() && config.contains("seed")) add(kPoint, "seed", config["seed"]);
    // Imports do not record all counts, which are 0 then.
    for (const auto& [key, count] : {std::pair("global_batch_size", run.global_batch_size),
                                     {"gradient_accumulation_steps", run.accumulation_steps},
                                     {"train_samples", run.train_samples},
                                     {"eval_samples", run.test_samples}}) {
      if (count > 0) add(kPoint, key, count);
    }
    add(kPoint, "opt_name", run.optimizer_name);
    for (const auto& [key, name] :
         {std::pair("opt_base_learning_rate", "lr"), {"opt_weight_decay", "weight_decay"}}) {
      const auto found = run.optimizer.find(name);
      if (found != run.optimizer.end()) add(kPoint, key, found->second);
    }
  }

  void add_epoch(const EpochRow& epoch) {
    const Json number = {{"epoch_num", epoch.epoch + 1}};  // MLPerf counts from 1
    add(kStart, "epoch_start", nullptr, number);
    now_ms_ += epoch.time_s * 1000;
    add(kEnd, "epoch_stop", nullptr, number);
    add(kPoint, "tracked_stats", {{"throughput", epoch.samples_per_s}}, number);
    if (!epoch.test_accuracy.value) return;
    add(kStart, "eval_start", nullptr, number);
    now_ms_ += evaluation_s() * 1000;
    add(kPoint, "eval_accuracy", *epoch.test_accuracy.value, number);
    add(kEnd, "eval_stop", nullptr, number);
  }

  // The report has the sum over all epochs. Each evaluated epoch gets an equal share.
  double evaluation_s() const {
    const auto evaluated = std::ranges::count_if(row_.run->epochs, [](const EpochRow& epoch) {
      return epoch.test_accuracy.value.has_value();
    });
    return row_.run->time.evaluate_s.value.value_or(0) / static_cast<double>(evaluated);
  }

  const RunRow& row_;
  std::string namespace_;
  double now_ms_;
  std::string text_;
};

// When the run began, in milliseconds since 1970; of an imported run, when it was measured.
double begin_ms(const RunRow& row) {
  const bool own = !row.run->started_at.empty();
  const std::string& text = own ? row.run->started_at : row.report->started_at;
  if (const auto time = unix_ms(text)) return static_cast<double>(*time);
  throw ConfigError(
      fmt::format("report {}: {}/started_at: '{}' is no time of the form 2026-01-31T12:00:00Z, "
                  "which mllog needs",
                  row.file, own ? fmt::format("/runs/{}", row.index) : "", text));
}

}  // namespace

std::optional<std::int64_t> unix_ms(const std::string& utc) {
  constexpr const char* kForm = "%Y-%m-%dT%H:%M:%SZ";
  std::tm time{};
  const char* const end = ::strptime(utc.c_str(), kForm, &time);
  if (end == nullptr) return std::nullopt;
  const std::time_t seconds = ::timegm(&time);  // makes a day of its month of it
  char written[32];
  const std::size_t size = std::strftime(written, sizeof written, kForm, &time);
  if (utc != std::string_view(written, size)) return std::nullopt;
  return std::int64_t{1000} * seconds;
}

std::string mllog_text(std::span<const RunRow> rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RunRow& row = rows[i];
    if (row.run->status == Status::skipped) continue;  // nothing ran
    const std::string name = rows.size() == 1 ? "" : fmt::format("run{}", i);
    text += RunLog(row, name, begin_ms(row)).text();
  }
  return text.empty() ? "\n" : text;
}

}  // namespace ddpbench::report
