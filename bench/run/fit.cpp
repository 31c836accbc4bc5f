// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_members.h"
#include "base/math.h"
#include "bench/host/terminal.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/rank/run_memory.h"
#include "bench/run/launch_run.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/shared_memory.h"
#include "reports/data/run_names.h"
#include "reports/exports/records.h"

namespace ddpbench::bench {
namespace {

// The considered batches have numbers 1, 2, ...
std::int64_t batch_of(std::int64_t number) {
  return number <= kBatchStep ? number : (number - kBatchStep + 1) * kBatchStep;
}
std::int64_t number_of(std::int64_t batch) {
  return batch <= kBatchStep ? batch : batch / kBatchStep + kBatchStep - 1;
}

struct Tried {
  std::int64_t number = 0;
  double share = 0;
};

// The number of the batch at which the line through both meets the limit.
std::int64_t meets_limit(const Tried& a, const Tried& b) {
  const auto from = static_cast<double>(batch_of(a.number));
  const double slope = (b.share - a.share) / (static_cast<double>(batch_of(b.number)) - from);
  const double batch = from + (1 - a.share) / slope;
  if (!(batch < static_cast<double>(kLargestFit))) return number_of(kLargestFit);
  return number_of(std::max<std::int64_t>(1, static_cast<std::int64_t>(batch)));
}

}  // namespace

// The next plan is made where a straight line meets the limit: through the bracket's ends, or
// through the last two that fit while none was too large. It is made in the middle where that gains
// too little.
BatchRange largest_batch(const std::function<double(std::int64_t batch)>& share) {
  constexpr int kLineOnly = 6;  // plans that may follow the line alone
  const auto attempt = [&share](std::int64_t number) -> Tried {
    try {
      return {number, share(batch_of(number))};
    } catch (const ops::BatchTooLarge&) {
      return {number, std::numeric_limits<double>::infinity()};  // more than any memory
    }
  };
  Tried low;
  for (std::int64_t number = 1; low.number == 0; ++number) {
    try {
      low = attempt(number);
    } catch (const ops::BatchTooSmall&) {
      if (number == kBatchStep) throw;
    }
  }
  BatchRange range{.smallest = batch_of(low.number)};
  if (low.share > 1) return range;
  const std::int64_t beyond = number_of(kLargestFit) + 1;
  Tried before = low, high{beyond, std::numeric_limits<double>::infinity()};
  std::int64_t guess = number_of(64);
  for (int step = 0; high.number - low.number > 1; ++step) {
    const Tried next = attempt(std::clamp(guess, low.number + 1, high.number - 1));
    if (next.share <= 1) {
      before = low;
      low = next;
    } else {
      high = next;
    }
    const bool halve = !std::isfinite(high.share) || (step >= kLineOnly && step % 2 == 0);
    guess = high.number == beyond ? meets_limit(before, low) + 1
            : halve               ? (low.number + high.number) / 2
                                  : meets_limit(low, high);
  }
  range.largest = batch_of(low.number);
  return range;
}

namespace {

constexpr const char* kReference = "the reference of the verification";
constexpr const char* kLargeTensor = "a tensor of 2^31 elements or more";

// The largest batch of one run of the command.
struct FitRow {
  std::int64_t batch = 0;  // samples a device; 0: none fits
  std::string ended_by;    // what the next batch is too large for; "nothing": no limit was found
  // These describe what is fullest with `batch`, or with the least batch where none fits.
  std::size_t bytes = 0, limit_bytes = 0;
  CategoryBytes by_category{};
  std::optional<double> bytes_per_sample;  // there; null: fewer than two batches fit
  std::string note;                        // a sentence; may be empty
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FitRow, batch, ended_by, bytes, limit_bytes, by_category,
                                   bytes_per_sample, note)

// The result of the process that plans.
struct FitResult {
  std::vector<FitRow> rows;  // [job]
  std::size_t memory_bytes = 0;
  std::string memory_words;  // where that number is from
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FitResult, rows, memory_bytes, memory_words)

// All that is planned on and for.
struct FitPlace {
  const nn::ModelSpec& model;
  const data::Dataset& dataset;
  const PlanningDevices& devices;
  const FitMemories& memories;
  launch::RankWriter& writer;  // hears of each plan
};

// Plans one run of the command with several batch sizes.
class RunFit {
 public:
  RunFit(TrainingJob job, const FitPlace& place) : job_(std::move(job)), place_(place) {}

  // What the run needs, and its reference as a role of its own. Throws ops::BatchTooSmall and
  // ops::BatchTooLarge.
  const std::vector<Fullness>& at(std::int64_t batch) {
    auto known = planned_.find(batch);
    if (known == planned_.end()) known = planned_.emplace(batch, plan(batch)).first;
    return known->second;
  }

  // Null: no device has this role.
  const Fullness* of_role(std::int64_t batch, const std::string& role) {
    const std::vector<Fullness>& all = at(batch);
    const auto found = std::ranges::find(all, role, &Fullness::role);
    return found == all.end() ? nullptr : &*found;
  }

  FitRow row() {
    const BatchRange range =
        largest_batch([&](std::int64_t batch) { return fullest(at(batch)).share; });
    const Fullness& most = fullest(at(std::max(range.largest, range.smallest)));
    FitRow row{.batch = range.largest,
               .ended_by = ended_by(range),
               .bytes = most.bytes,
               .limit_bytes = most.limit_bytes,
               .by_category = most.by_category,
               .bytes_per_sample = {},
               .note = {}};
    // Another device may be the fullest with few samples: growth is of one and the same.
    const Fullness* const least = of_role(range.smallest, most.role);
    if (range.largest > range.smallest && least != nullptr) {
      row.bytes_per_sample = (static_cast<double>(most.bytes) - static_cast<double>(least->bytes)) /
                             static_cast<double>(range.largest - range.smallest);
    }
    if (row.ended_by == "the primary device" && range.largest > 0) row.note = others_note();
    return row;
  }

 private:
  std::vector<Fullness> plan(std::int64_t batch) {
    place_.writer.begin_step(0, ++plans_);
    TrainingJob job = job_;
    job.cell.batch_size = job.per_device_batch = batch;
    std::vector<Fullness> all = fullness_with(job);
    if (!needs_reference(job)) return all;
    all.push_back(fullest(fullness_with(reference_job(job))));
    all.back().role = kReference;
    return all;
  }

  std::vector<Fullness> fullness_with(const TrainingJob& job) {
    return fullness_of(plan_run_memory(job, place_.model, place_.dataset, place_.devices),
                       place_.memories);
  }

  std::string ended_by(const BatchRange& range) {
    if (range.largest == kLargestFit) return "nothing";
    const std::int64_t next = range.largest == 0           ? range.smallest
                              : range.largest < kBatchStep ? range.largest + 1
                                                           : range.largest + kBatchStep;
    try {
      return fullest(at(next)).role;
    } catch (const ops::BatchTooLarge&) {
      return kLargeTensor;
    }
  }

  // What dp's further devices would take if the primary device had memory without end.
  std::string others_note() {
    const BatchRange others = largest_batch([&](std::int64_t batch) {
      const Fullness* const other = of_role(batch, "another device");
      return other == nullptr ? 0 : other->share;
    });
    return fmt::format(
        "{}: the primary device has the whole batch, all outputs and the optimizer, and limits the "
        "others, which would take {} samples each.",
        report::name_of(job_.cell.strategy, job_.cell.world_size, job_.cell.servers),
        others.largest);
  }

  TrainingJob job_;
  const FitPlace& place_;
  std::uint64_t plans_ = 0;
  std::map<std::int64_t, std::vector<Fullness>> planned_;  // by batch
};

}  // namespace

int run_fit_planner(const nlohmann::json& description, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels, bool&) {
  launch::RankWriter writer = channels.writer(environment.rank);
  writer.state(launch::RankState::setup);
  std::vector<TrainingJob> jobs;
  for (const nlohmann::json& job : description) jobs.push_back(training_job_from_json(job));
  PlanningDevices devices;
  for (const TrainingJob& job : jobs) add_planning_devices(job, devices);
  const TrainingJob& any = jobs.at(0);
  const nn::ModelSpec model = nn::load_model_file(any.network.path);
  // Its sizes count. Its pages are never touched.
  const SharedMemory samples =
      SharedMemory::create("ddpbench-dataset", any.dataset.decoded_bytes());
  const data::Dataset dataset =
      data::Dataset::view(any.dataset, samples.view().as<const std::byte>());
  const FitMemories memories = find_memories(any.options, devices, any.dataset.decoded_bytes());
  const FitPlace place{model, dataset, devices, memories, writer};
  FitResult result{
      .rows = {}, .memory_bytes = memories.device_bytes, .memory_words = memories.words};
  writer.state(launch::RankState::training);
  for (const TrainingJob& job : jobs) result.rows.push_back(RunFit(job, place).row());
  writer.result(nlohmann::json(result).dump());
  writer.state(launch::RankState::finished);
  return 0;
}

namespace {

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
      jobs_.push_back(make_training_job(options_, cell, dataset_, network_, host_));
    }
  }

  int run() {
    catch_interrupts();
    auto channels = launch::RankChannels::create({});
    launch::SuperviseOptions supervise;
    supervise.timeout_s = options_.timeout_s;  // each plan is progress
    supervise.interrupted = interrupt_requested;
    nlohmann::json description;
    for (const TrainingJob& job : jobs_) description.push_back(to_json(job));
    const launch::SuperviseResult result = launch_job(
        kFitKind, std::move(description), {}, options_.threads_per_device, {}, channels, supervise);
    if (result.interrupted) return 130;
    if (result.failure) {
      const launch::RankError& error = result.failure->error;
      const int code = failure_exit_code(error);
      const bool refused =
          code == ConfigError("").exit_code() || code == UnavailableError("").exit_code();
      say_error("ddpbench: {}{}\n", refused ? "" : "the process that plans: ", error.message);
      return code;
    }
    print(nlohmann::json::parse(channels.result(0)).get<FitResult>());
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
    for (const auto& [option, values] :
         {std::pair("ps-update", options_.ps_updates.size()),
          {"devices-per-process", options_.devices_per_process.size()}}) {
      if (values > 1) {
        throw ConfigError(fmt::format("--{}: `ddpbench fit` plans one value at a time", option));
      }
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
    const auto most = std::ranges::max_element(row.by_category) - row.by_category.begin();
    std::vector<report::RecordCell> cells = {
        text_cell(cell.strategy),
        count_cell(cell.world_size),
        row.batch > 0 ? count_cell(row.batch) : report::RecordCell{std::int64_t{0}, "none"},
        count_cell(row.batch * cell.world_size),
        text_cell(row.ended_by),
        text_cell(std::string(to_string(static_cast<MemoryCategory>(most)))),
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
