// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of `ddpbench comm` as JSON (schema/report-1.schema.json).
#include "reports/json/json_fields.h"

namespace ddpbench::report {
namespace {

constexpr const char* kUnknown = "not measured";
constexpr const char* kNotCounted = "counted for the ring between ranks that share one GPU only";

Json time_json(const StepStatistics& time) {
  return {{"median", time.median}, {"iqr", time.iqr}, {"p5", time.p5},  {"p95", time.p95},
          {"p99", time.p99},       {"min", time.min}, {"max", time.max}};
}

Json row_json(const CollectiveRow& row) {
  Json json = {{"op", row.operation},
               {"backend", row.backend},
               {"ranks", row.ranks},
               {"mode", row.mode},
               {"bytes", row.bytes},
               {"count", row.count},
               {"data_type", row.data_type},
               {"redop", or_null(row.reduction)},
               {"in_place", row.in_place},
               {"oversubscribed", row.oversubscribed},
               {"warmup", row.warmup},
               {"iterations", row.iterations},
               {"device", row.device},
               {"gpus", row.gpus},
               {"late_iterations", row.late_iterations}};
  put_text(json, "device_model", row.device_model, "no rank told it");
  if (row.time_s) {
    json["time_s"] = time_json(*row.time_s);
  } else {
    put_missing(json, "time_s", "no timed iteration was finished");
  }
  put_figure(json, "algbw_gb_per_s", row.algbw_gb_per_s, kUnknown);
  put_figure(json, "busbw_gb_per_s", row.busbw_gb_per_s, kUnknown);
  if (row.wrong) {
    json["wrong"] = *row.wrong;
  } else {
    put_missing(json, "wrong", row.wrong_reason.empty() ? kUnknown : row.wrong_reason);
  }
  put_figure(json, "bound_busbw_gb_per_s", row.bound_busbw_gb_per_s, kUnknown);
  json["bound"] = or_null(row.bound);
  put_figure(json, "share_of_bound", row.share_of_bound, kUnknown);
  put_figure(json, "counted_bytes", row.counted_bytes, kNotCounted);
  put_figure(json, "counted_gb_per_s", row.counted_gb_per_s, kNotCounted);
  put_figure(json, "share_of_copy", row.share_of_copy, kNotCounted);
  return json;
}

Json bandwidth_json(const BandwidthRow& row) {
  Json json = {{"working_set_bytes", row.working_set_bytes},
               {"cores", or_null(row.cores)},
               {"gpu", or_null(row.gpu)},
               {"copy_gb_per_s", row.copy_gb_per_s}};
  put_figure(json, "reduce_gb_per_s", row.reduce_gb_per_s, kUnknown);
  return json;
}

}  // namespace

void put_collectives(Json& report_json, const Report& report) {
  for (const CollectiveRow& row : report.collectives) {
    report_json["collectives"].push_back(row_json(row));
  }
  for (const BandwidthRow& row : report.memory_bandwidth) {
    report_json["memory_bandwidth"].push_back(bandwidth_json(row));
  }
}

}  // namespace ddpbench::report
