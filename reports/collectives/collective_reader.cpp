// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/collectives/collective_reader.h"

#include <array>

namespace ddpbench::report {
namespace {

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
  return row;
}

BandwidthRow read_bandwidth(const JsonCursor& value) {
  return {value.at("working_set_bytes").integer<std::uint64_t>(), value.at("cores").integer<int>(),
          value.at("copy_gb_per_s").number(), value.at("reduce_gb_per_s").number()};
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
