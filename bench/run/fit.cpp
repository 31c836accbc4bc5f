// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/math.h"
#include "base/nearest_name.h"
#include "bench/host/terminal.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/run_memory.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/runtime/shared_memory.h"
#include "reports/data/run_names.h"
#include "reports/exports/records.h"

namespace ddpbench::bench {
namespace {

// How much memory there is, and for whom.
struct MemoryOfRun {
  std::size_t bytes = 0;
  bool is_shared = false;  // by all devices of a run; else each has so much
  std::string words;       // where the number is from
};

// What is fullest when a run has a batch size.
struct Fullest {
  double share = 0;  // of the memory
  std::string role;
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

// The devices of a run that are planned together: its own, or its reference's.
Fullest fullest_of(const std::vector<PlannedDevice>& devices, const MemoryOfRun& memory,
                   const std::string& only_role) {
  Fullest fullest, all;
  for (const PlannedDevice& device : devices) {
    if (!only_role.empty() && device.role != only_role) continue;
    if (device.bytes > fullest.bytes) {
      fullest = {0, device.role, device.bytes, device.by_category};
    }
    const auto count = static_cast<std::size_t>(device.count);
    all.bytes += count * device.bytes;
    for (std::size_t c = 0; c < all.by_category.size(); ++c) {
      all.by_category[c] += count * device.by_category[c];
    }
  }
  if (memory.is_shared) {
    all.role = devices.size() == 1 && devices[0].count == 1 ? "the device" : "all devices together";
    fullest = all;
  }
  fullest.share = static_cast<double>(fullest.bytes) / static_cast<double>(memory.bytes);
  return fullest;
}

// Plans one run of the command with several batch sizes.
class RunFit {
 public:
  RunFit(const Options& options, const RunCell& cell, const data::Dataset& dataset,
         const nn::ModelSpec& model, const Network& network, const HostDevices& host)
      : options_(options),
        cell_(cell),
        dataset_(dataset),
        model_(model),
        network_(network),
        host_(host) {}

  TrainingJob job(std::int64_t batch) const {
    RunCell cell = cell_;
    cell.batch_size = batch;
    cell.global_batch_size = 0;
    return make_training_job(options_, cell, dataset_.info, network_, host_, kGpuAdvice);
  }

  // With `only_role`, as if the other devices had memory without end.
  Fullest at(std::int64_t batch, const PlanningDevice& place, const MemoryOfRun& memory,
             const std::string& only_role = "") {
    auto known = planned_.find(batch);
    if (known == planned_.end()) known = planned_.emplace(batch, plan(batch, place)).first;
    Fullest fullest = fullest_of(known->second.run, memory, only_role);
    if (!only_role.empty() || known->second.reference.empty()) return fullest;
    Fullest reference = fullest_of(known->second.reference, memory, "");
    reference.role = "the reference of the verification";
    return reference.share > fullest.share ? reference : fullest;
  }

 private:
  struct Planned {
    std::vector<PlannedDevice> run, reference;  // no reference: it is not verified
  };

  Planned plan(std::int64_t batch, const PlanningDevice& place) const {
    const TrainingJob planned = job(batch);
    Planned found{plan_run_memory(planned, model_, dataset_, place), {}};
    if (needs_reference(planned)) {
      found.reference = plan_run_memory(reference_job(planned), model_, dataset_, place);
    }
    return found;
  }

  const Options& options_;
  RunCell cell_;
  const data::Dataset& dataset_;
  const nn::ModelSpec& model_;
  const Network& network_;
  const HostDevices& host_;
  std::map<std::int64_t, Planned> planned_;  // by batch
};

// `data_set`: bytes of the host's memory that the data set takes.
MemoryOfRun memory_of(const Options& options, const Device& device, std::size_t data_set) {
  if (!options.memory_per_device.empty()) {
    return {memory_size(options.memory_per_device), false,
            fmt::format("--memory-per-device={}", options.memory_per_device)};
  }
  const std::optional<std::size_t> free = device.free_bytes();
  if (!free || *free == 0) {
    throw UnavailableError(fmt::format(
        "{} does not tell how much memory it has; give --memory-per-device=16GiB", device.name()));
  }
  if (device.kind() == DeviceKind::cuda) {
    return {*free, false, fmt::format("free on {}", device.model())};
  }
  const std::size_t beside = std::max<std::size_t>(1, *free - std::min(*free, data_set));
  return {beside, true, "free on this host beside the data set, shared by all devices of a run"};
}

std::string_view largest_category(const CategoryBytes& bytes) {
  const auto most = std::ranges::max_element(bytes) - bytes.begin();
  return to_string(static_cast<MemoryCategory>(most));
}

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

class Fit {
 public:
  explicit Fit(Options options)
      : options_(std::move(options)), host_(find_devices(options_.device)) {
    settle();
    model_ = nn::load_model_file(find_model(options_.model));
    network_ = network_of(model_, find_model(options_.model));
    note_ = resolve_dataset(options_, model_);
    const data::DatasetInfo info = describe_data(*open_data(options_, model_), options_);
    check_dataset_fits(model_, info, network_.path);
    // Its sizes count. Its pages are never touched.
    samples_ = SharedMemory::create("ddpbench-dataset", info.decoded_bytes());
    dataset_ = data::Dataset::view(info, samples_.view().as<const std::byte>());
    records_.name = "fits";
    records_.columns = fit_columns();
  }

  int run() {
    for (const RunCell& cell : plan_matrix(options_)) add_row(cell);
    records_.caption =
        fmt::format("{} on {}, {} devices ({}), {} MiB: {}", model_.name, dataset_.info.name,
                    options_.device, options_.precision, mebibytes(memory_.bytes), memory_.words);
    if (!note_.empty()) records_.notes.insert(records_.notes.begin(), note_);
    records_.notes.push_back(
        fmt::format("Planned, not measured: what communicators and libraries hold is not in it. "
                    "Batches above {0} are multiples of {0}.",
                    kBatchStep));
    const int width = format() == "table" ? terminal_width() : 0;
    say("{}", report::render_records(records_, format(), static_cast<std::size_t>(width)));
    return 0;
  }

 private:
  std::string format() const { return options_.format.empty() ? "table" : options_.format; }

  // Takes the choices that are of no concern here out of the options. Throws ConfigError for a list
  // where memory depends on the choice.
  void settle() {
    if (options_.ps_updates.size() > 1) {
      throw ConfigError("--ps-update: `ddpbench fit` plans one way of updating at a time");
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
    options_.bucket_caps_mb.resize(1);
    options_.first_buckets_mb.resize(1);
    options_.all_reduces = {"auto"};
    options_.last_batch = "pad";  // batches may be larger than the data set
    options_.injections.clear();
  }

  void add_row(const RunCell& cell) {
    RunFit fit(options_, cell, dataset_, model_, network_, host_);
    if (!place_.device) {
      place_ = make_planning_device(fit.job(1));
      memory_ = memory_of(options_, *place_.device, dataset_.info.decoded_bytes());
    }
    const auto share = [&](const std::string& only_role) {
      return [&, only_role](std::int64_t batch) {
        return fit.at(batch, place_, memory_, only_role).share;
      };
    };
    const std::int64_t batch = largest_batch(share(""));
    const std::int64_t next = batch < kBatchStep ? batch + 1 : batch + kBatchStep;
    const bool is_limited = batch < kLargestFit;
    const Fullest end = fit.at(is_limited ? next : batch, place_, memory_);
    const Fullest one = fit.at(1, place_, memory_);
    const Fullest most = batch > 0 ? fit.at(batch, place_, memory_) : one;
    add_record(cell, batch, is_limited ? end.role : "nothing", most, one);
    if (is_limited && end.role == "the primary device" && batch > 0) {
      const std::int64_t others = largest_batch(share("another device"));
      records_.notes.push_back(fmt::format(
          "{}: the primary device has the whole batch, all outputs and the optimizer, and limits "
          "the others, which would take {} samples each.",
          report::name_of(cell.strategy, cell.world_size, cell.servers), others));
    }
  }

  // `most`: at the largest batch that fits; `one`: at one sample.
  void add_record(const RunCell& cell, std::int64_t batch, const std::string& ended_by,
                  const Fullest& most, const Fullest& one) {
    std::vector<report::RecordCell> row = {
        text_cell(cell.strategy),
        count_cell(cell.world_size),
        batch > 0 ? count_cell(batch) : report::RecordCell{std::int64_t{0}, "none"},
        count_cell(batch * cell.world_size),
        text_cell(ended_by),
        text_cell(std::string(largest_category(most.by_category))),
        bytes_cell(most.bytes),
        bytes_cell(memory_.bytes)};
    if (batch > 1) {
      const double growth = static_cast<double>(most.bytes) - static_cast<double>(one.bytes);
      const double bytes = growth / static_cast<double>(batch - 1);
      row.push_back({bytes, fmt::format("{:.1f}", bytes / static_cast<double>(kKiB))});
    } else {
      row.push_back({{}, "-"});
    }
    for (const std::size_t bytes : most.by_category) row.push_back(bytes_cell(bytes));
    records_.rows.push_back(std::move(row));
  }

  Options options_;
  HostDevices host_;
  nn::ModelSpec model_;
  Network network_;
  std::string note_;
  SharedMemory samples_;
  data::Dataset dataset_;
  PlanningDevice place_;
  MemoryOfRun memory_;
  report::Records records_;
};

}  // namespace

std::uint64_t memory_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr std::array<Unit, 13> kUnits = {{{"", 1},
                                                   {"K", 0x1p10},
                                                   {"KiB", 0x1p10},
                                                   {"KB", 1e3},
                                                   {"M", 0x1p20},
                                                   {"MiB", 0x1p20},
                                                   {"MB", 1e6},
                                                   {"G", 0x1p30},
                                                   {"GiB", 0x1p30},
                                                   {"GB", 1e9},
                                                   {"T", 0x1p40},
                                                   {"TiB", 0x1p40},
                                                   {"TB", 1e12}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  constexpr double kMost = 0x1p60;
  if (error == std::errc{} && found != kUnits.end()) {
    const double bytes = number * found->bytes;
    if (bytes >= 1 && bytes <= kMost) return static_cast<std::uint64_t>(bytes);
  }
  throw ConfigError(
      fmt::format("--memory-per-device={}: expected a size such as 16GiB, 80GB or 512MiB", text));
}

int run_fit(Options options) { return Fit(std::move(options)).run(); }

}  // namespace ddpbench::bench
