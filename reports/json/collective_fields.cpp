// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of the rows of `ddpbench comm`.
#include <array>

#include "reports/data/run_names.h"
#include "reports/json/field_lists.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 2> kDevices = {"cpu", "cuda"};
constexpr std::array<std::string_view, 2> kModes = {"process", "thread"};
constexpr std::array<std::string_view, 3> kReductions = {"sum", "average", "max"};
constexpr std::array<std::string_view, 2> kBounds = {"memory_copy", "memory_reduce"};

constexpr const char* kNotMeasured = "not measured";
constexpr const char* kNotCounted = "counted for ipc between ranks that share one GPU only";

constexpr auto kCollectiveFields = [](auto& f, auto& row) {
  f.value("op", row.operation);
  f.value("backend", row.backend);
  f.value("ranks", row.ranks);
  f.word("mode", row.mode, kModes);
  f.value("bytes", row.bytes);
  f.value("count", row.count);
  f.value("data_type", row.data_type);
  f.word_or_null("redop", row.reduction, kReductions);
  f.value("in_place", row.in_place);
  f.value("oversubscribed", row.oversubscribed);
  f.value("warmup", row.warmup);
  f.value("iterations", row.iterations);
  f.later().word("device", row.device, kDevices);
  f.later().value("gpus", row.gpus);
  f.later().value("late_iterations", row.late_iterations);
  f.optional_text("all_reduce", row.all_reduce);
  f.later().known_text("device_model", row.device_model, "no rank reported it");
  f.object_or_missing(
      "time_s", row.time_s, [](auto& g, auto& time) { statistics_fields(g, time); },
      "no timed iteration was finished");
  f.figure("algbw_gb_per_s", row.algbw_gb_per_s, kNotMeasured);
  f.figure("busbw_gb_per_s", row.busbw_gb_per_s, kNotMeasured);
  f.or_missing("wrong", row.wrong, row.wrong_reason, kNotMeasured);
  f.figure("bound_busbw_gb_per_s", row.bound_busbw_gb_per_s, kNotMeasured);
  f.word_or_null("bound", row.bound, kBounds);
  f.figure("share_of_bound", row.share_of_bound, kNotMeasured);
  f.later().amount_figure("counted_bytes", row.counted_bytes, kNotCounted);
  f.later().amount_figure("counted_gb_per_s", row.counted_gb_per_s, kNotCounted);
  f.later().amount_figure("share_of_copy", row.share_of_copy, kNotCounted);
};

constexpr auto kBandwidthFields = [](auto& f, auto& row) {
  f.value("working_set_bytes", row.working_set_bytes);
  f.later().or_null("cores", row.cores);
  f.later().or_null("gpu", row.gpu);
  f.value("copy_gb_per_s", row.copy_gb_per_s);
  f.figure("reduce_gb_per_s", row.reduce_gb_per_s, kNotMeasured);
};

template <typename Fields, typename Whole>
void list_collectives(Fields& f, Whole& report) {
  f.optional_rows("collectives", report.collectives, kCollectiveFields);
  f.optional_rows("memory_bandwidth", report.memory_bandwidth, kBandwidthFields);
}

}  // namespace

void collective_fields(FieldWriter& f, const Report& report) { list_collectives(f, report); }
void collective_fields(FieldReader& f, Report& report) {
  list_collectives(f, report);
  for (CollectiveRow& row : report.collectives) {
    row.backend = backend_name_of(row.backend, row.device, false);
  }
}

}  // namespace ddpbench::report
