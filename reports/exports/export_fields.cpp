// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/export_fields.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <type_traits>

namespace ddpbench::report {
namespace {

std::string name_of_setting(const RunRow& row) {
  const Run& run = *row.run;
  std::string devices = std::to_string(run.world_size);
  if (run.servers > 0) devices += fmt::format("+{}", run.servers);
  std::string name =
      fmt::format("{} {} x {}, {}{}, batch {}/{} {}, {}, threads {}, {}", run.strategy, devices,
                  run.device_model.empty() ? run.device : run.device_model, run.model,
                  run.dataset_name.empty() ? "" : " on " + run.dataset_name,
                  run.per_device_batch_size, run.global_batch_size, run.scaling_mode, run.precision,
                  run.threads_per_device, run.backend.empty() ? "no backend" : run.backend);
  if (run.accumulation_steps > 1) name += fmt::format(", {} steps", run.accumulation_steps);
  for (const auto& [key, value] : run.strategy_options) name += fmt::format(", {}={}", key, value);
  if (run.oversubscribed) name += ", oversubscribed";
  return name;
}

}  // namespace

std::vector<NamedRuns> clean_runs_by_name(std::span<const RunRow> rows) {
  std::vector<NamedRuns> named;
  std::map<std::string, std::size_t> places;
  for (const RunRow& row : rows) {
    if (row.run->status != Status::ok || !row.run->injected.empty()) continue;
    std::string name = name_of_setting(row);
    const auto [place, added] = places.try_emplace(name, named.size());
    if (added) named.emplace_back(std::move(name), NamedRuns::second_type());
    named[place->second].second.push_back(&row);
  }
  return named;
}

std::optional<double> number_of(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<double> {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) {
          return static_cast<double>(held);
        }
        return std::nullopt;
      },
      value.value);
}

std::string label_of(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return {};
        } else {
          return fmt::format("{}", held);
        }
      },
      value.value);
}

std::optional<std::int64_t> unix_ms(const std::string& utc) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int end = 0;
  const int read = std::sscanf(utc.c_str(), "%4d-%2u-%2uT%2u:%2u:%2uZ%n", &year, &month, &day,
                               &hour, &minute, &second, &end);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  const bool whole = read == 6 && end > 0 && static_cast<std::size_t>(end) == utc.size();
  if (!whole || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::chrono::seconds time = std::chrono::sys_days(date).time_since_epoch() +
                                    std::chrono::hours(hour) + std::chrono::minutes(minute) +
                                    std::chrono::seconds(second);
  return std::chrono::milliseconds(time).count();
}

}  // namespace ddpbench::report
