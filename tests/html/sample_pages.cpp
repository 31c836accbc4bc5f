// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/html/sample_pages.h"

#include <cmath>

#include "reports/gate/gate.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/scaling.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report::test {
namespace {

constexpr double kBase = 3200;  // samples/s of one device

// Varying step times without a random generator, so that they are equal on every machine.
std::vector<double> step_times(int count, double seconds, double phase) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const double wave = 1 + 0.08 * std::sin(0.7 * i + phase) + 0.03 * std::sin(11.3 * i);
    times.push_back(seconds * wave * (i % 97 == 60 ? 5 : 1));
  }
  return times;
}

Run timed_run(const char* strategy, int devices, int repetition, int steps, double efficiency) {
  const double rate = kBase * devices * efficiency * (1 + 0.01 * repetition);
  Run run = sample_run(strategy, devices, rate);
  run.repetition = repetition;
  const double seconds = static_cast<double>(run.global_batch_size) / rate;
  run.step.samples_s = step_times(steps, seconds, repetition + devices);
  run.step.count = steps;
  run.step.time_s = summarize(run.step.samples_s);
  run.phases["forward_s"] = Figure::of(0.3 * seconds);
  run.phases["backward_s"] = Figure::of(0.4 * seconds);
  if (devices > 1) run.phases["comm_exposed_s"] = Figure::of((1 - efficiency) * seconds);
  for (DeviceRow& device : run.devices) {
    if (devices == 1 || run.strategy == "dp") continue;
    device.buckets = {{0, 1U << 20, 0.4 * seconds, 0.41 * seconds, 0.5 * seconds, 0.7 * seconds},
                      {1, 600U << 10, 0.6 * seconds, 0.7 * seconds, 0.71 * seconds, 0.9 * seconds}};
  }
  return run;
}

void add_timed_runs(Report& report, int repetitions, int steps) {
  struct Kind {
    const char* strategy;
    double loss;  // of efficiency for each further device
  };
  for (const Kind& kind : {Kind{"single", 0}, {"dp", 0.15}, {"ddp", 0.04}, {"ps", 0.1}}) {
    for (const int devices : {1, 2, 4}) {
      if (kind.loss == 0 && devices > 1) continue;
      for (int repetition = 0; repetition < repetitions; ++repetition) {
        const double efficiency = 1 / (1 + kind.loss * (devices - 1));
        report.runs.push_back(timed_run(kind.strategy, devices, repetition, steps, efficiency));
        report.runs.back().oversubscribed = devices == 4 && report.runs.back().strategy == "ps";
      }
    }
  }
  fill_scaling(report);
}

// Appends markup and scripts that must stay text.
void poison(std::string& text) {
  text +=
      "</title></style></script><script>window.broken=1</script><img src=\"http://x.invalid/\" "
      "onerror=\"window.broken=1\"/>'\"&amp;]]>--><!--\x01\x1b[31m\xff\xc3\xed\xa0\x80\xe2\x80\xae";
  text += "evil ";
  for (int i = 0; i < 5; ++i) text += "abcdefghijklmnopqrstuvwxyz";  // without a place to break
}

}  // namespace

HtmlInput rich_input() {
  Report report = sample_report();
  const Run failed = report.runs[4], skipped = report.runs[5];
  report.runs.clear();
  add_timed_runs(report, 2, 300);
  report.runs.push_back(failed);
  report.runs.push_back(skipped);
  report.status = Status::failed;
  return {{"rich.json"}, {report}};
}

HtmlInput several_input() {
  HtmlInput input = rich_input();
  input.names.emplace_back("second.json");
  input.reports.push_back(input.reports.front());
  input.reports[1].environment.cpu.model = "Imaginary 9001";
  for (Run& run : input.reports[1].runs) run.device_model = "Imaginary 9001";
  return input;
}

HtmlInput hostile_input() {
  HtmlInput input = rich_input();
  Report& report = input.reports.front();
  poison(input.names.front());
  Environment& environment = report.environment;
  for (std::string* text :
       {&report.generator.version, &report.started_at, &report.config_json,
        &environment.operating_system, &environment.kernel, &environment.tcp_congestion_control,
        &environment.cpu.model, &environment.hosts[0], &environment.gpus[0].name}) {
    poison(*text);
  }
  for (std::string& word : report.argv) poison(word);
  std::string key = "key";
  poison(key);
  environment.libraries[key] = environment.variables[key] = key;
  for (Run& run : report.runs) {
    for (std::string* text :
         {&run.strategy, &run.model, &run.dataset_name, &run.dataset_source, &run.device,
          &run.device_model, &run.precision, &run.backend, &run.reason,
          &run.verification.worst_tensor, &run.verification.reason, &run.scaling_reason}) {
      poison(*text);
    }
    if (run.error) poison(run.error->message);
    run.strategy_options[key] = key;
    for (DeviceRow& device : run.devices) device.by_category_bytes[key] = 1U << 20;
  }
  return input;
}

HtmlInput barren_input() {
  Report report = sample_report();
  report.runs = {report.runs[4], report.runs[5]};
  report.status = Status::failed;
  return {{"barren.json"}, {report}};
}

HtmlInput tuned_input() {
  Report report = rich_input().reports.front();
  for (Run& run : report.runs) run.step.warmup_steady = false;
  Conditions conditions;
  conditions.other_load_ratio = Figure::of(0.35);
  conditions.notes = {"other programs used 35 % of the CPU"};
  report.runs[0].conditions = conditions;
  report.cells = {{.runs = {0, 1}, .noisy = true}};
  report.tune.emplace();
  Tune& tune = *report.tune;
  tune.settings = {{1, 25, true, 1, Figure::of(1)},
                   {0.25, 0.5, true, 4, Figure::of(0.9)},
                   {0.25, 0.5, false, 4, Figure::missing("it did not succeed")}};
  tune.screening_rounds = 3;
  tune.candidate = 1;
  judge_gain(tune, {0.9, 0.91, 0.89, 0.9, 0.92, 0.88});
  tune.conclusion = conclude(tune);
  return {{"tuned.json"}, {report}};
}

HtmlInput gated_input() {
  const Report base = gate_report(steady()), slower = gate_report(steady(1.2));
  HtmlInput input{{"new.json"}, {slower}};
  input.reports.front().runs.push_back(sample_run("ps", 2, 3000));
  input.gate = HtmlGate{{"base.json"}, check_reports(input.reports, {&base, 1}, {})};
  return input;
}

HtmlInput swept_input() {
  Report report = sample_report();
  report.runs.clear();
  report.runs.push_back(timed_run("single", 1, 0, 40, 1));
  for (const int devices : {2, 4}) {
    for (const char* overlap : {"on", "off"}) {
      for (const char* cap : {"1", "25"}) {
        report.runs.push_back(timed_run("ddp", devices, 0, 40, 0.9));
        report.runs.back().strategy_options = {{"all_reduce", "direct"},
                                               {"bucket_cap_mb", cap},
                                               {"first_bucket_mb", "0.25"},
                                               {"overlap", overlap}};
      }
    }
  }
  report.status = Status::ok;
  report.error.reset();
  fill_scaling(report);
  HtmlInput input{{"monday-morning.json", "tuesday-evening.json"}, {report, report}};
  return input;
}

HtmlInput comm_input() {
  Report report = sample_report();
  report.runs.clear();
  report.status = Status::ok;
  report.error.reset();
  for (const std::uint64_t bytes : {1000U, 4096U}) {
    CollectiveRow row;
    row.operation = "all_reduce";
    row.backend = "shm";
    row.mode = "process";
    row.ranks = 2;
    row.bytes = bytes;
    row.data_type = "fp32";
    row.reduction = "sum";
    row.time_s = summarize(std::vector<double>{1e-5, 2e-5, 3e-5});
    row.busbw_gb_per_s = Figure::of(1.25);
    row.algbw_gb_per_s = row.bound_busbw_gb_per_s = Figure::missing("nobody asked");
    row.wrong = 0;
    report.collectives.push_back(row);
  }
  report.memory_bandwidth = {{4096, 1, {}, 20.5, Figure::of(25.5)},
                             {4096, 2, {}, 40.5, Figure::of(50.5)}};
  return {{"comm.json"}, {report}};
}

HtmlInput large_input() {
  Report report = sample_report();
  report.runs.clear();
  add_timed_runs(report, 100, 10000);
  return {{"large.json"}, {report}};
}

std::map<std::string, HtmlInput> all_inputs() {
  return {{"rich", rich_input()},     {"several", several_input()}, {"hostile", hostile_input()},
          {"barren", barren_input()}, {"tuned", tuned_input()},     {"gated", gated_input()},
          {"swept", swept_input()},   {"comm", comm_input()}};
}

}  // namespace ddpbench::report::test
