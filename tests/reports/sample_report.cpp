// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/reports/sample_report.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "reports/json/report_json.h"

namespace ddpbench::report::test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

DeviceRow sample_device(int rank, std::uint64_t peak_bytes) {
  DeviceRow device;
  device.rank = rank;
  device.process_rank = rank;
  device.host = "node";
  device.device = "cpu:" + std::to_string(rank);
  device.cores = {rank};
  device.step_time_median_s = Figure::of(0.02);
  device.phases = {{"forward_s", Figure::of(0.008)}, {"comm_wait_s", Figure::of(0.001)}};
  device.peak_bytes = peak_bytes;
  device.by_category_bytes = {{"weights", 1686568}, {"activations", 20 * kMiB}};
  device.process_peak_rss_bytes = Figure::of(123456789);
  return device;
}

// A GPU whose clocks were held down too rarely for a warning. Its driver tells no temperature.
GpuTelemetry sample_telemetry() {
  GpuTelemetry telemetry;
  telemetry.samples = 40;
  telemetry.interval_s = 0.25;
  telemetry.utilization_ratio = Known<SampleRange>::of({0.97, 0.5, 1});
  telemetry.sm_clock_mhz = Known<SampleRange>::of({1755, 345, 1980});
  telemetry.memory_clock_mhz = Known<SampleRange>::of({3201, 3201, 3201});
  telemetry.power_w = Known<SampleRange>::of({690.5, 120, 700});
  telemetry.temperature_celsius = Known<SampleRange>::missing("Not Supported");
  telemetry.clock_event_ratios =
      Known<std::map<std::string, double>>::of({{"sw_power_cap", 0.04}, {"gpu_idle", 0.05}});
  return telemetry;
}

GpuInfo sample_gpu() {
  GpuInfo gpu;
  gpu.name = "Imaginary GPU";
  gpu.driver = "1.0";
  gpu.memory_bytes = 80ULL << 30;
  gpu.uuid = "GPU-1";
  gpu.pci_bus_id = "0000:17:00.0";
  gpu.compute_capability = "9.0";
  gpu.multiprocessors = 132;
  gpu.numa_node = Known<int>::missing("not told by this system");
  gpu.pcie_generation = Known<int>::of(5);
  gpu.pcie_width = Known<int>::of(16);
  return gpu;
}

Environment sample_environment() {
  Environment environment;
  environment.hosts = {"node"};
  environment.operating_system = "Debian 12";
  environment.kernel = "6.1";
  environment.tcp_congestion_control = "bbr";
  environment.cpu = {"Imaginary 9000", 2, 2, 1 * kMiB, 0, 8ULL << 30, {"avx2", "avx512f"}};
  environment.gpus = {sample_gpu()};
  environment.libraries = {{"oneDNN", "2.6.3"}};
  environment.variables = {{"OMP_NUM_THREADS", "1"}};
  return environment;
}

Run failed_run() {
  Run run = sample_run("ddp", 4, 0);
  run.status = Status::failed;
  run.error = ErrorInfo{"signal", 2, "node", 9, 5, "backward", "", "killed by SIGKILL"};
  run.epochs.clear();
  run.evaluation = Evaluation{10000, Figure::missing("it is not finite"), Figure::of(0.1)};
  run.loss_scaling = LossScaling{16384, 2};
  run.checkpoints = {{40, 1234, 0.25, 1.5}};
  run.resumed = ResumedFrom{"runs/c.safetensors", 20, 1, 4};
  run.until_accuracy = AccuracyTarget{0.98, {}};
  run.step = {};
  run.phases.clear();
  run.devices.clear();
  run.samples_per_s = run.samples_per_s_per_device = {};
  run.verification = {};
  run.clocks = {
      {"node", Figure::of(0), Figure::of(0), Figure::of(0)},
      {"far", Figure::of(-812.5), Figure::of(2e-5), Figure::missing("the run ended before")},
      {"mute", Figure::missing("never told"), Figure::missing("never told"),
       Figure::missing("never told")}};
  run.calls = {{0, "node", CallInfo{"all_reduce", 16, 0, std::nullopt, 64},
                CallInfo{"all_reduce", 17, 1, std::nullopt, 128}},
               {1, "", std::nullopt, CallInfo{"recv", 3, std::nullopt, 2, 8}},
               {2, "far", CallInfo{"barrier", 16, std::nullopt, std::nullopt, 0}, std::nullopt}};
  return run;
}

Run skipped_run() {
  Run run;
  run.status = Status::skipped;
  run.reason = "no CUDA device is here";
  run.strategy = "dp";
  run.world_size = 8;
  run.device = "cuda";
  run.precision = "fp32";
  run.model = "simple_cnn";
  run.optimizer = {{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 0}};
  run.scaling_mode = "weak";
  return run;
}

}  // namespace

Run sample_run(const char* strategy, int world_size, double samples_per_s) {
  Run run;
  run.strategy = strategy;
  run.world_size = world_size;
  run.device = "cpu";
  run.device_model = "Imaginary 9000";
  run.backend = world_size > 1 ? "shm" : "";
  run.precision = "fp32";
  run.model = "simple_cnn";
  run.model_hash = "0123456789abcdef";
  run.parameters = 421642;
  run.flops_per_sample = 70e6;
  run.optimizer = {{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 0}};
  run.per_device_batch_size = 64;
  run.global_batch_size = 64 * world_size;
  run.scaling_mode = "weak";
  run.dataset_name = "mnist";
  run.dataset_source = "files";
  run.train_samples = 60000;
  run.test_samples = 10000;
  run.dataset_note = "50000 of the 60000 published training samples";
  run.augment = false;
  run.peak_flops_per_s_per_device = Figure::of(400e9);
  if (world_size > 1) run.traffic = Known<StepTraffic>::of({12, 3'400'000, 6, 1'700'000});
  run.time = {Figure::of(0.1),
              Figure::of(0.2),
              Figure::of(0.3),
              Figure::of(10),
              Figure::of(1.5),
              Figure::missing("nothing was loaded"),
              Figure::missing("no weights were saved"),
              Figure::of(12.1)};
  run.epochs = {{0, 10, 60032, 6003.2, 0.2345, 0.93, Figure::of(0.9812)}};
  run.step.warmup = 10;
  run.step.count = 3;
  run.step.time_s = StepStatistics{0.02, Figure::of(0.001), 0.0191, 0.0209, 0.02098, 0.019, 0.021};
  run.step.samples_s = {0.019, 0.02, 0.021};
  run.phases = {{"data_wait_s", Figure::of(0.0001)}, {"forward_s", Figure::of(0.006)},
                {"backward_s", Figure::of(0.012)},   {"optimizer_s", Figure::of(0.001)},
                {"comm_s", Figure::of(0.0015)},      {"comm_exposed_s", Figure::of(0.0003)},
                {"overlap_ratio", Figure::of(0.8)}};
  if (world_size == 1) {
    for (const char* key : {"comm_s", "comm_exposed_s", "overlap_ratio"}) {
      run.phases[key] = Figure::missing("one device");
    }
  }
  for (int rank = 0; rank < world_size; ++rank) {
    run.devices.push_back(sample_device(rank, (rank == 0 ? 40 : 30) * kMiB));
  }
  run.verification.status = "passed";
  run.verification.steps = 3;
  run.verification.max_relative_error = Figure::of(2e-6);
  run.verification.worst_tensor = "conv2.weight";
  run.verification.tolerance = Figure::of(6e-4);
  run.verification.replicas_bit_equal = true;
  run.samples_per_s = Figure::of(samples_per_s);
  run.samples_per_s_per_device = Figure::of(samples_per_s / world_size);
  run.scaling_reason = "no single run in this report";
  return run;
}

Report sample_report() {
  Report report;
  report.generator = {"0.1.0", std::nullopt, std::nullopt, "built outside a git checkout"};
  report.status = Status::failed;
  report.started_at = "2026-01-31T12:00:00Z";
  report.finished_at = "2026-01-31T12:01:00Z";
  report.argv = {"ddpbench", "--strategy=single,dp,ddp,ps"};
  report.environment = sample_environment();
  report.config_json = R"({"strategies":["single","dp"],"dataset":{"name":"mnist"},"lr":0.01})";

  Run single = sample_run("single", 1, 3200);
  single.verification = {};
  single.verification.status = "reference";
  single.scaling = Scaling{"single", 1, 1};
  Run dp = sample_run("dp", 2, 5200);
  dp.scaling = Scaling{"single", 1.625, 0.8125};
  dp.phases["scatter_s"] = Figure::of(0.0005);
  dp.phases["gather_s"] = Figure::missing("observing is off");
  Run ddp = sample_run("ddp", 2, 6100.5);
  ddp.scaling = Scaling{"single", 1.90640625, 0.953203125};
  ddp.strategy_options = {{"overlap", "on"}, {"bucket_cap_mb", "25"}, {"note", "plain"}};
  ddp.devices[1].buckets = {{0, 1605632, 0.010, 0.0101, 0.0102, 0.0110}};
  ddp.devices[1].gpu_telemetry = Known<GpuTelemetry>::of(sample_telemetry());
  ddp.devices[1].driver_bytes = Known<DriverBytes>::of({{"with_context", 500}, {"at_end", 900}});
  ddp.progress = {{0, 100, 2.5, 12800, 1.25, 0.6}, {0, 200, 5, 25600, 0.5, 0.875}};
  ddp.injected = "slow:rank=1,phase=backward,percent=25";
  ddp.why = Why{"exposed_communication",
                "all-reduce not hidden is 41 % of the step",
                "try --overlap=on",
                {{"compute_s", Figure::of(0.0118)},
                 {"comm_exposed_s", Figure::of(0.0082)},
                 {"overlap_slowed_s", Figure::missing("no single run in this report")}}};
  Run ps = sample_run("ps", 4, 6000);
  ps.servers = 1;
  ps.oversubscribed = true;
  ps.scaling_reason = "oversubscribed: more compute threads than cores";
  ps.devices.push_back(sample_device(4, 2 * kMiB));
  ps.devices.back().role = "server";
  ps.devices.back().step_time_median_s = {};
  report.runs = {single, dp, ddp, ps, failed_run(), skipped_run()};
  report.error = report.runs[4].error;
  return report;
}

Report hostile_report() {
  const std::string evil =
      "EVIL'; system('touch EVIL'); print `touch EVIL` \"$EVIL\" @EVIL %s %n {/Symbol EVIL} "
      "<script>EVIL()</script> &EVIL; \nsystem('touch EVIL')\nEND\n!touch EVIL\n\\";
  Report report = sample_report();
  report.environment.cpu.model = evil + " CPU";
  report.environment.hosts = {evil};
  for (Run& run : report.runs) {
    run.strategy = evil + run.strategy;
    run.model = evil + " model";
    run.dataset_name = evil + " data";
    run.device_model = evil + " device";
    run.precision = evil;
    run.scaling_mode = evil;
    run.scaling_reason = evil + " reason";
    run.strategy_options = {{evil, std::to_string(run.world_size) + evil}};
    if (run.error) run.error->message = evil + " message";
    if (!run.reason.empty()) run.reason = evil + " reason";
    for (DeviceRow& device : run.devices) device.by_category_bytes[evil] = 5 * kMiB;
  }
  return report;
}

Report report_of(std::vector<Run> runs) {
  Report report = sample_report();
  report.runs = std::move(runs);
  report.status = Status::ok;
  report.error.reset();
  return report;
}

std::string refusal(const std::string& text) {
  try {
    parse_report(text, "some.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return kNothingThrown;
}

std::string refusal_with(const char* pointer, const nlohmann::ordered_json& value) {
  nlohmann::ordered_json document = to_json(sample_report());
  document[nlohmann::ordered_json::json_pointer(pointer)] = value;
  return refusal(document.dump());
}

}  // namespace ddpbench::report::test
