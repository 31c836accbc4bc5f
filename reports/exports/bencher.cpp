// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bencher's metric format, which its adapter `json` reads: benchmarks by name, each with measures
// of a value and the ends of an interval (bencher.dev, Bencher Metric Format). `latency` (ns) and
// `throughput` (operations a second, here samples) are measures that every project of Bencher has.
#include <map>
#include <nlohmann/json.hpp>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"
#include "reports/json/json_text.h"
#include "reports/metrics/condensed_rows.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

struct Measure {
  const char* name;
  double unit;  // of the report's figures in a unit of the measure
  Figure (*value)(const Run&);
  double (*middle)(std::vector<double>) = median;
};

constexpr Measure kMeasures[] = {
    {"latency", 1e-9,
     [](const Run& run) {
       return run.step.time_s ? Figure::of(run.step.time_s->median) : Figure{};
     }},
    {"throughput", 1, [](const Run& run) { return run.samples_per_s; }, median_rate},
    {"peak-memory-bytes", 1,
     [](const Run& run) {
       Figure most;
       for (const DeviceRow& device : run.devices) {
         const Figure peak = device.peak_memory();
         if (!peak.value) return peak;
         if (!most.value || *most.value < *peak.value) most = peak;
       }
       return most;
     }},
};

void put_measure(Json& benchmark, const Measure& measure, const std::vector<const RunRow*>& rows) {
  std::vector<double> values;
  for (const RunRow* row : rows) {
    if (const Figure value = measure.value(*row->run); value.value) {
      values.push_back(*value.value / measure.unit);
    }
  }
  if (values.empty()) return;
  Json metric = {{"value", measure.middle(values)}};
  const MedianSpread spread = median_spread(values);
  if (spread.low.value && spread.high.value) {
    metric["lower_value"] = *spread.low.value;
    metric["upper_value"] = *spread.high.value;
  }
  benchmark[measure.name] = std::move(metric);
}

}  // namespace

std::string bencher_text(std::span<const RunRow> rows) {
  Json benchmarks = Json::object();
  for (const auto& [name, same] : clean_runs_by_name(rows)) {
    Json benchmark = Json::object();
    for (const Measure& measure : kMeasures) put_measure(benchmark, measure, same);
    benchmarks[name] = std::move(benchmark);
  }
  return json_text(benchmarks);
}

}  // namespace ddpbench::report
