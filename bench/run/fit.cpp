// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/math.h"
#include "bench/host/interrupt.h"
#include "bench/host/terminal.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/run/batch_search.h"
#include "bench/run/fit_memory.h"
#include "bench/run/fit_planner.h"
#include "bench/run/launch_run.h"
#include "kernels/nn/model/model_reader.h"
#include "reports/exports/records.h"

namespace ddpbench::bench {
namespace {

constexpr int kInterruptedCode = 130;

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(kMiB));
}

std::vector<report::RecordColumn> fit_columns() {
  std::vector<report::RecordColumn> columns = {
      {.key = "strategy", .top = "", .bottom = "strategy", .left = true},
      {.key = "devices", .top = "", .bottom = "devices"},
      {.key = "batch_per_device", .top = "largest batch", .bottom = "a device"},
      {.key = "global_batch", .top = "", .bottom = "global"},
      {.key = "ended_by", .top = "", .bottom = "ended by", .left = true},
      {.key = "category", .top = "", .bottom = "mostly", .left = true},
      {.key = "bytes", .top = "needs", .bottom = "MiB"},
      {.key = "limit_bytes", .top = "has", .bottom = "MiB"},
      {.key = "bytes_per_sample", .top = "a sample", .bottom = "KiB"},
  };
  for (std::size_t c = 0; c < kMemoryCategoryCount; ++c) {
    columns.push_back({.key = fmt::format("{}_bytes", to_string(static_cast<MemoryCategory>(c)))});
  }
  return columns;
}

report::RecordCell count_cell(std::int64_t value) { return {value, std::to_string(value)}; }
report::RecordCell bytes_cell(std::size_t bytes) {
  return {static_cast<std::int64_t>(bytes), mebibytes(bytes)};
}
report::RecordCell text_cell(std::string text) { return {text, text}; }

// Checks what the user asks for, has it planned by a process of its own, and prints the table.
class Fit {
 public:
  explicit Fit(Options options)
      : options_(std::move(options)), host_(find_devices(options_.device)) {
    settle();
    if (!options_.memory_per_device.empty()) memory_size(options_.memory_per_device);
    const std::string path = find_model(options_.model);
    const nn::ModelSpec model = nn::load_model_file(path);
    network_ = network_of(model, path);
    note_ = resolve_dataset(options_, model);
    dataset_ = describe_data(*open_data(options_, model), options_);
    check_dataset_fits(model, dataset_, path);
    for (const RunCell& cell : plan_matrix(options_)) {
      jobs_.push_back(make_training_job(options_, cell, dataset_, network_, host_, kGpuAdvice));
    }
  }

  int run() {
    catch_interrupts();
    auto channels = launch::RankChannels::create({});
    launch::SuperviseOptions supervise;
    supervise.timeout_s = options_.timeout_s;  // each plan is progress
    supervise.interrupted = interrupt_requested;
    const launch::SuperviseResult result =
        launch_job(kFitKind, fit_description(jobs_, {}), {}, options_.threads_per_device, {},
                   channels, supervise);
    if (result.interrupted) return kInterruptedCode;
    if (result.failure) {
      const launch::RankError& error = result.failure->error;
      const int code = failure_exit_code(error);
      const bool refused =
          code == ConfigError("").exit_code() || code == UnavailableError("").exit_code();
      say_error("ddpbench: {}{}\n", refused ? "" : "the process that plans: ", error.message);
      return code;
    }
    print(fit_result(channels.result(0)));
    return 0;
  }

 private:
  // Keeps the first value of each list that does not decide what is in memory.
  void cut_lists() {
    for (const SweepAxis& axis : sweep_axes()) {
      if (find_flag(axis.option)->applies_to(Command::fit) || axis.listed(options_) == 0) continue;
      RunCell cell;
      axis.take(cell, options_, 0);
      axis.give(cell, options_);
    }
  }

  // Takes the choices that are of no concern here out of the options. Throws ConfigError for a list
  // where memory depends on the choice.
  void settle() {
    if (options_.ps_updates.size() > 1) {
      throw ConfigError("--ps-update: `ddpbench fit` plans one way of updating at a time");
    }
    if (options_.devices_per_process.size() > 1) {
      throw ConfigError("--devices-per-process: `ddpbench fit` plans one number at a time");
    }
    const DeviceChoice choice = choose_device(options_, host_);
    if (options_.all_gpus) options_.gpus = {device_count(host_, choice.device)};
    options_.device = choice.device;
    options_.server_device = choice.server_device;
    options_.precision = choice.precision;
    if (options_.device == "cpu") options_.backend = choose_backend(options_.backend, "cpu", false);
    options_.on_missing = "synthesize";  // the sizes of the real data suffice
    options_.oversubscribe = true;  // devices that are not here are planned like those that are
    options_.batch_sizes = {1};
    options_.global_batch_sizes.clear();
    options_.cuda_graphs = {"auto"};
    options_.overlaps = {true};
    options_.all_reduces = {"auto"};
    cut_lists();
    options_.last_batch = "pad";  // batches may be larger than the data set
    options_.injections.clear();
  }

  void print(const FitResult& result) const {
    report::Records records;
    records.name = "fits";
    records.columns = fit_columns();
    records.caption = fmt::format("{} on {}, {} devices ({}), {} MiB: {}", network_.name,
                                  dataset_.name, options_.device, options_.precision,
                                  mebibytes(result.memory_bytes), result.memory_words);
    if (!note_.empty()) records.notes.push_back(note_);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const FitRow& row = result.rows.at(i);
      records.rows.push_back(cells(jobs_[i].cell, row));
      if (!row.note.empty()) records.notes.push_back(row.note);
    }
    records.notes.push_back(
        fmt::format("Planned, not measured: what communicators and libraries hold is not in it. "
                    "Batches above {0} are multiples of {0}.",
                    kBatchStep));
    const std::string format = options_.format.empty() ? "table" : options_.format;
    const int width = format == "table" ? terminal_width() : 0;
    say("{}", report::render_records(records, format, static_cast<std::size_t>(width)));
  }

  static std::vector<report::RecordCell> cells(const RunCell& cell, const FitRow& row) {
    std::vector<report::RecordCell> cells = {
        text_cell(cell.strategy),
        count_cell(cell.world_size),
        row.batch > 0 ? count_cell(row.batch) : report::RecordCell{std::int64_t{0}, "none"},
        count_cell(row.batch * cell.world_size),
        text_cell(row.ended_by),
        text_cell(std::string(largest_category(row.by_category))),
        bytes_cell(row.bytes),
        bytes_cell(row.limit_bytes)};
    if (row.bytes_per_sample) {
      cells.push_back({*row.bytes_per_sample,
                       fmt::format("{:.1f}", *row.bytes_per_sample / static_cast<double>(kKiB))});
    } else {
      cells.push_back({{}, "-"});
    }
    for (const std::size_t bytes : row.by_category) cells.push_back(bytes_cell(bytes));
    return cells;
  }

  Options options_;
  HostDevices host_;
  Network network_;
  data::DatasetInfo dataset_;
  std::string note_;
  std::vector<TrainingJob> jobs_;  // [run], with some batch
};

}  // namespace

int run_fit(Options options) { return Fit(std::move(options)).run(); }

}  // namespace ddpbench::bench
