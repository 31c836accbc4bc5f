// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "bench/host/terminal.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/rank/run_memory.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/op.h"
#include "reports/data/report_view.h"
#include "reports/exports/records.h"

namespace ddpbench::bench {
namespace {

// The considered batches have numbers 1, 2, ...
std::int64_t batch_of(std::int64_t number) {
  return number <= kBatchStep ? number : (number - kBatchStep + 1) * kBatchStep;
}
constexpr std::int64_t kNumbers = kLargestFit / kBatchStep + kBatchStep - 1;

// The largest batch of one run of the command.
struct FitRow {
  std::int64_t batch = 0;  // samples a device; 0: none fits
  std::string ended_by;    // what the next batch is too large for; "nothing": no limit was found
  Fullness most;           // with `batch`, or with the least batch where none fits
  std::optional<double> bytes_per_sample;  // there; null: fewer than two batches fit
  std::string note;                        // a sentence; may be empty
};

// Plans one run of the command with several batch sizes.
class RunFit {
 public:
  // What a run of the job needs, by role.
  using Plan = std::function<std::vector<Fullness>(const TrainingJob& job)>;
  RunFit(TrainingJob job, Plan plan) : job_(std::move(job)), plan_(std::move(plan)) {}

  FitRow row() {
    const BatchRange range =
        largest_batch([&](std::int64_t batch) { return fullest(at(batch)).share(); });
    const Fullness& most = fullest(at(std::max(range.largest, range.smallest)));
    FitRow row{range.largest, ended_by(range), most, {}, {}};
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
  // What the run needs, and its reference as a role of its own. Throws ops::BatchTooSmall and
  // ops::BatchTooLarge.
  const std::vector<Fullness>& at(std::int64_t batch) {
    if (const auto known = planned_.find(batch); known != planned_.end()) return known->second;
    TrainingJob job = job_;
    job.cell.batch_size = job.per_device_batch = batch;
    std::vector<Fullness> all = plan_(job);
    if (needs_reference(job)) {
      all.push_back(fullest(plan_(reference_job(job))));
      all.back().role = "the reference of the verification";
    }
    return planned_[batch] = std::move(all);
  }

  // Null: no device has this role.
  const Fullness* of_role(std::int64_t batch, const std::string& role) {
    const std::vector<Fullness>& all = at(batch);
    const auto found = std::ranges::find(all, role, &Fullness::role);
    return found == all.end() ? nullptr : &*found;
  }

  std::string ended_by(const BatchRange& range) {
    if (range.beyond == 0) return "nothing";
    try {
      return fullest(at(range.beyond)).role;
    } catch (const ops::BatchTooLarge&) {
      return "a tensor of 2^31 elements or more";
    }
  }

  // What dp's further devices would take if the primary device had memory without end.
  std::string others_note() {
    const BatchRange others = largest_batch([&](std::int64_t batch) {
      const Fullness* const other = of_role(batch, "another device");
      return other == nullptr ? 0 : other->share();
    });
    return fmt::format(
        "{}: the primary device has the whole batch, all outputs and the optimizer, and limits the "
        "others, which would take {} samples each.",
        report::name_of(job_.cell.strategy, job_.cell.world_size, job_.cell.servers),
        others.largest);
  }

  TrainingJob job_;
  Plan plan_;
  std::map<std::int64_t, std::vector<Fullness>> planned_;  // by batch
};

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

std::vector<report::RecordCell> cells_of(const TrainingJob& job, const FitRow& row) {
  const RunCell& cell = job.cell;
  const auto most = std::ranges::max_element(row.most.by_category) - row.most.by_category.begin();
  std::vector<report::RecordCell> cells = {
      text_cell(cell.strategy + job.title.substr(std::min(job.title.find(','), job.title.size()))),
      count_cell(cell.world_size),
      row.batch > 0 ? count_cell(row.batch) : report::RecordCell{std::int64_t{0}, "none"},
      count_cell(row.batch * cell.world_size * cell.accumulation_steps),
      text_cell(row.ended_by),
      text_cell(std::string(to_string(static_cast<MemoryCategory>(most)))),
      bytes_cell(row.most.bytes),
      bytes_cell(row.most.limit_bytes)};
  cells.push_back(row.bytes_per_sample
                      ? report::RecordCell{*row.bytes_per_sample,
                                           fmt::format("{:.1f}", *row.bytes_per_sample /
                                                                     static_cast<double>(kKiB))}
                      : report::RecordCell{{}, "-"});
  for (const std::size_t bytes : row.most.by_category) cells.push_back(bytes_cell(bytes));
  return cells;
}

// Takes the choices that are of no concern here out of the options: of each list that does not
// decide what is in memory, the first value stays.
void settle(Options& options, const HostDevices& host) {
  options.batch_sizes = {1};
  options.global_batch_sizes.clear();
  resolve_devices(options, host);
  options.on_missing = "synthesize";  // the sizes of the real data suffice
  options.oversubscribe = true;       // devices that are not here are planned like those that are
  options.cuda_graphs = {"auto"};
  options.all_reduces = {"auto"};
  for (const SweepAxis& axis : sweep_axes()) {
    if (find_flag(axis.option)->applies_to(Command::fit) || axis.listed(options) == 0) continue;
    RunCell cell;
    axis.take(cell, options, 0);
    axis.give(cell, options);
  }
  options.last_batch = "pad";  // batches may be larger than the data set
  options.injections.clear();
  options.repetitions = 1;
  options.until_ci.reset();
}

}  // namespace

// The numbers of the batches are doubled until one does not fit, then the bracket is halved.
BatchRange largest_batch(const std::function<double(std::int64_t batch)>& share) {
  const auto fits = [&share](std::int64_t number) {
    try {
      return share(batch_of(number)) <= 1;
    } catch (const ops::BatchTooLarge&) {
      return false;
    }
  };
  std::int64_t low = 1;
  std::optional<bool> least_fits;
  while (!least_fits) {
    try {
      least_fits = fits(low);
    } catch (const ops::BatchTooSmall&) {
      if (low++ == kBatchStep) throw;
    }
  }
  BatchRange range{.smallest = batch_of(low), .beyond = batch_of(low)};
  if (!*least_fits) return range;
  std::int64_t high = 2 * low;
  for (; high <= kNumbers && fits(high); high *= 2) low = high;
  high = std::min(high, kNumbers + 1);
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  range.largest = batch_of(low);
  range.beyond = high <= kNumbers ? batch_of(high) : 0;
  return range;
}

int run_fit(Options options) {
  const HostDevices host = find_devices(options.device);
  settle(options, host);
  asked_memory(options.memory_per_device);  // or it throws
  const std::string path = find_model(options.model);
  const nn::ModelSpec model = nn::load_model_file(path, options.crop);
  const Network network = network_of(model, path);
  report::Records records;
  if (const std::string note = resolve_dataset(options, model); !note.empty()) {
    records.notes.push_back(note);
  }
  data::DatasetInfo info = describe_data(*open_data(options, model), options);
  check_dataset_fits(model, info, path);
  info.own_sizes = false;  // a loader cuts samples of one size
  // Its sizes count. Its pages are never touched.
  const SharedMemory samples = SharedMemory::create("ddpbench-dataset", info.decoded_bytes());
  const auto dataset = data::Dataset::view(info, samples.view().as<const std::byte>());
  std::vector<TrainingJob> jobs;  // with some batch
  PlanningDevices devices;
  for (const RunCell& cell : plan_matrix(options)) {
    jobs.push_back(make_training_job(options, cell, info, network, host));
    add_planning_devices(jobs.back(), devices);
  }
  const FitMemories memories = find_memories(options, devices, info.decoded_bytes());
  const auto plan = [&](const TrainingJob& job) {
    return fullness_of(plan_run_memory(job, model, dataset, devices), memories);
  };
  for (const TrainingJob& job : jobs) {
    const FitRow row = RunFit(job, plan).row();
    records.rows.push_back(cells_of(job, row));
    if (!row.note.empty()) records.notes.push_back(row.note);
  }
  records.name = "fits";
  records.columns = fit_columns();
  records.caption =
      fmt::format("{} on {}, {} devices ({}), {} MiB: {}", network.name, info.name, options.device,
                  options.precision, mebibytes(memories.device_bytes), memories.words);
  records.notes.push_back(
      fmt::format("Planned, not measured: what communicators and libraries hold is not in it. "
                  "Batches above {0} are multiples of {0}.",
                  kBatchStep));
  const std::string format = options.format.empty() ? "table" : options.format;
  const int width = format == "table" ? terminal_width() : 0;
  say("{}", report::render_records(records, format, static_cast<std::size_t>(width)));
  return 0;
}

}  // namespace ddpbench::bench
