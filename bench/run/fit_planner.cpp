// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json_members.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/run_memory.h"
#include "bench/run/batch_search.h"
#include "bench/run/fit_memory.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/shared_memory.h"
#include "reports/data/run_names.h"

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FitRow, batch, smallest, ended_by, bytes, limit_bytes,
                                   by_category, bytes_per_sample, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FitResult, rows, memory_bytes, memory_words)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FoundFree, bytes, is_of_host)

namespace {

constexpr const char* kReference = "the reference of the verification";
constexpr const char* kLargeTensor = "a tensor of 2^31 elements or more";

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
               .smallest = range.smallest,
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
                       place_.memories, memory_pools(job, place_.memories.devices.shared_by));
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
  for (const nlohmann::json& job : description.at("jobs")) {
    jobs.push_back(training_job_from_json(job));
  }
  const auto found = description.at("found").get<std::optional<FoundFree>>();
  PlanningDevices devices;
  for (const TrainingJob& job : jobs) add_planning_devices(job, devices);
  const TrainingJob& any = jobs.at(0);
  const nn::ModelSpec model = nn::load_model_file(any.network.path);
  // Its sizes count. Its pages are never touched.
  const SharedMemory samples =
      SharedMemory::create("ddpbench-dataset", any.dataset.decoded_bytes());
  const data::Dataset dataset =
      data::Dataset::view(any.dataset, samples.view().as<const std::byte>());
  FitMemories memories =
      find_memories(any.options, devices, found ? 0 : any.dataset.decoded_bytes());
  if (found) take_found(*found, any, memories);
  const FitPlace place{model, dataset, devices, memories, writer};
  FitResult result{
      .rows = {}, .memory_bytes = memories.devices.bytes, .memory_words = memories.devices.words};
  writer.state(launch::RankState::training);
  for (const TrainingJob& job : jobs) result.rows.push_back(RunFit(job, place).row());
  writer.result(nlohmann::json(result).dump());
  writer.state(launch::RankState::finished);
  return 0;
}

nlohmann::json fit_description(const std::vector<TrainingJob>& jobs,
                               const std::optional<FoundFree>& found) {
  nlohmann::json description = {{"jobs", nlohmann::json::array()}, {"found", found}};
  for (const TrainingJob& job : jobs) description["jobs"].push_back(to_json(job));
  return description;
}

FitResult fit_result(const std::string& text) {
  return nlohmann::json::parse(text).get<FitResult>();
}

}  // namespace ddpbench::bench
