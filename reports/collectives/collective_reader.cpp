// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/collectives/collective_reader.h"

#include <array>
#include <optional>

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 2> kDevices = {"cpu", "cuda"};
constexpr std::array<std::string_view, 2> kModes = {"process", "thread"};
constexpr std::array<std::string_view, 3> kReductions = {"sum", "average", "max"};
constexpr std::array<std::string_view, 2> kBounds = {"memory_copy", "memory_reduce"};

StepStatistics read_time(const JsonCursor& value) {
  const auto number = [&value](const char* key) { return value.at(key).number(); };
  return {number("median"), number("iqr"), number("p5"), number("p95"),
          number("p99"),    number("min"), number("max")};
}

std::string word_or_empty(const JsonCursor& value, std::span<const std::string_view> allowed) {
  return value.is_null() ? "" : value.word(allowed);
}

// Reports from before a key do not have it.
std::optional<int> index_at(const JsonCursor& value, const char* key) {
  const auto found = value.find(key);
  return found && !found->is_null() ? std::optional(found->integer<int>()) : std::nullopt;
}
Figure later_figure(const JsonCursor& value, const char* key) {
  return value.find(key) ? value.amount_figure(key) : Figure{};
}

void read_devices(const JsonCursor& value, CollectiveRow& row) {
  if (const auto device = value.find("device")) row.device = device->word(kDevices);
  if (const auto model = value.find("device_model")) row.device_model = model->text_or_empty();
  if (const auto gpus = value.find("gpus")) {
    for (const JsonCursor& gpu : gpus->elements()) row.gpus.push_back(gpu.integer<int>());
  }
}

CollectiveRow read_row(const JsonCursor& value) {
  CollectiveRow row;
  row.operation = value.at("op").text();
  row.backend = value.at("backend").text();
  row.ranks = value.at("ranks").integer<int>();
  row.mode = value.at("mode").word(kModes);
  row.bytes = value.at("bytes").integer<std::uint64_t>();
  row.count = value.at("count").integer<std::uint64_t>();
  row.data_type = value.at("data_type").text();
  row.reduction = word_or_empty(value.at("redop"), kReductions);
  row.in_place = value.at("in_place").boolean();
  row.oversubscribed = value.at("oversubscribed").boolean();
  row.warmup = value.at("warmup").integer<int>();
  row.iterations = value.at("iterations").integer<std::int64_t>();
  if (const auto late = value.find("late_iterations")) {
    row.late_iterations = late->integer<std::int64_t>();
  }
  read_devices(value, row);
  if (const JsonCursor time = value.at("time_s"); !time.is_null()) row.time_s = read_time(time);
  row.algbw_gb_per_s = value.figure("algbw_gb_per_s");
  row.busbw_gb_per_s = value.figure("busbw_gb_per_s");
  if (const JsonCursor wrong = value.at("wrong"); !wrong.is_null()) {
    row.wrong = wrong.integer<std::uint64_t>();
  } else {
    row.wrong_reason = value.at("wrong_reason").text();
  }
  row.bound_busbw_gb_per_s = value.figure("bound_busbw_gb_per_s");
  row.bound = word_or_empty(value.at("bound"), kBounds);
  row.share_of_bound = value.figure("share_of_bound");
  row.counted_bytes = later_figure(value, "counted_bytes");
  row.counted_gb_per_s = later_figure(value, "counted_gb_per_s");
  row.share_of_copy = later_figure(value, "share_of_copy");
  return row;
}

BandwidthRow read_bandwidth(const JsonCursor& value) {
  return {.working_set_bytes = value.at("working_set_bytes").integer<std::uint64_t>(),
          .cores = index_at(value, "cores"),
          .gpu = index_at(value, "gpu"),
          .copy_gb_per_s = value.at("copy_gb_per_s").number(),
          .reduce_gb_per_s = value.figure("reduce_gb_per_s")};
}

}  // namespace

void read_collectives(const JsonCursor& root, Report& report) {
  if (const auto rows = root.find("collectives")) {
    for (const JsonCursor& row : rows->elements()) report.collectives.push_back(read_row(row));
  }
  if (const auto rows = root.find("memory_bandwidth")) {
    for (const JsonCursor& row : rows->elements()) {
      report.memory_bandwidth.push_back(read_bandwidth(row));
    }
  }
}

}  // namespace ddpbench::report
