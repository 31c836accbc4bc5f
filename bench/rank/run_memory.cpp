// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/run_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/json_members.h"
#include "bench/host/host_limits.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/reference_weights.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/needs_survey.h"
#include "parallel/strategies.h"

namespace ddpbench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryClaim, pool, what, device, advice, shared_advice, bytes,
                                   free_bytes, by_category)

}  // namespace ddpbench

namespace ddpbench::bench {
namespace {

// The time between two looks at whether the others have come.
constexpr auto kLook = std::chrono::milliseconds(5);

std::string claim_key(int index) { return fmt::format("memory/{}", index); }

// Waits by counters, which answer at once. A store drops the connection of a wait that times out.
void await_all(const ClaimMeeting& meeting, const std::string& what) {
  const comm::Deadline deadline = comm::deadline_after(meeting.timeout_s);
  const auto key = [&](int device) { return fmt::format("memory/{} {}", device, what); };
  meeting.store->add(key(meeting.index), 1);
  for (int device = 0; device < meeting.devices; ++device) {
    while (meeting.store->add(key(device), 0) == 0) {
      if (meeting.check_peers) meeting.check_peers();
      if (comm::has_passed(deadline)) {
        throw CommTimeout(fmt::format("device {} of {} {} within {} s (--timeout)", device,
                                      meeting.devices, what, meeting.timeout_s));
      }
      std::this_thread::sleep_for(kLook);
    }
  }
}

std::string advice(const TrainingJob& job, bool server) {
  if (server) return "use more servers (--servers)";
  std::string way =
      job.cell.is_strong() ? "use a smaller --global-batch-size" : "use a smaller --batch-size";
  if (job.options.residency == "device") way += ", or --residency=host";
  if (job.options.device == "cuda" && !job.options.precision.ends_with("16")) {
    way += ", or --precision=bf16";
  }
  if (job.is_reference() && job.synchronises_batch_norm()) way += ", or --verify-steps=0";
  return way;
}

std::string described(const TrainingJob& job, const RankPlan& plan) {
  if (job.is_reference() && job.synchronises_batch_norm()) {
    return fmt::format("the reference, which takes the global batch of {} at once,",
                       job.global_batch());
  }
  if (job.is_reference()) {
    return fmt::format("the reference of {} slices with a batch of {} per device",
                       job.cell.world_size, job.per_device_batch);
  }
  const std::string run = run_name(job);
  if (plan.role == Role::server) return "a server of " + run;
  return fmt::format("{} with a batch of {} per device", run, job.per_device_batch);
}

std::string role_of(const AlikeDevices& alike, const RankPlan& plan) {
  if (alike.role == Role::server) return "a server";
  if (!plan.is_last || plan.stage > 0) return fmt::format("the device of stage {}", plan.stage);
  if (plan.replicas.size() == 1) return "the device";
  return alike.device == 0 ? "the primary device" : "another device";
}

PlanningDevice make_planning_device(const TrainingJob& job, int index) {
  PlanningDevice place;
  place.device = make_device(job, index);
  place.device->bind_calling_thread();
  place.backend = make_backend(job, *place.device);
  return place;
}

// What is free of the host's memory beside the data set.
std::size_t beside(std::size_t data_set, std::size_t free) {
  return std::max<std::size_t>(1, free - std::min(free, data_set));
}

}  // namespace

std::vector<MemoryClaim> exchange_claims(const ClaimMeeting& meeting,
                                         const std::function<MemoryClaim()>& own) {
  await_all(meeting, "has not planned");
  const MemoryClaim mine = own();
  meeting.store->set(claim_key(meeting.index), nlohmann::json(mine).dump());
  await_all(meeting, "did not report its memory needs");
  std::vector<MemoryClaim> same;
  for (int device = 0; device < meeting.devices; ++device) {
    MemoryClaim claim = mine;
    if (device != meeting.index) {
      claim = nlohmann::json::parse(meeting.store->get(claim_key(device), meeting.timeout_s));
    }
    const bool shares = !mine.pool.empty() && claim.pool == mine.pool;
    if (device == meeting.index || shares) same.push_back(std::move(claim));
  }
  return same;
}

BatchSourceOptions batch_source_options(const TrainingJob& job, const RankPlan& plan) {
  BatchSourceOptions options;
  options.samples = static_cast<std::size_t>(plan.batch);
  options.image_bytes = job.dataset.sample_bytes() * sizeof(float);
  options.labels_per_sample = static_cast<std::size_t>(job.dataset.labels_per_sample());
  options.loader.ignored_label = job.network.ignored_label;
  options.loader.normalization = normalization_of(job);
  options.loader.augment = job.options.augment;
  options.loader.workers = job.cell.loader_workers;
  options.loader.sample_cost_s = job.options.loader_cost_us * 1e-6;
  options.loader.shards = plan.shards;
  if (!job.gpus.empty()) return options;  // beside GPUs all cores are free
  for (const int replica : plan.replicas) {
    std::ranges::copy(job.cores.at(static_cast<std::size_t>(replica)),
                      std::back_inserter(options.loader.worker_cores));
  }
  return options;
}

BatchMemory evaluation_batch(const TrainingJob& job, const data::Split& test) {
  return BatchMemory({.samples = static_cast<std::size_t>(strategy_config(job).per_device_batch),
                      .image_bytes = test.sample_bytes * sizeof(float),
                      .labels_per_sample = test.labels_per_sample});
}

std::vector<BatchMemory> kept_batches(const TrainingJob& job, const RankPlan& plan) {
  const int passes = job.cell.accumulation_steps;
  std::vector<BatchMemory> batches;
  for (int i = 0; passes > 1 && probe_options(job) && i < passes; ++i) {
    batches.emplace_back(batch_source_options(job, plan), FilledBy::device);
  }
  return batches;
}

void add_session_memory(const TrainingJob& job, const RankPlan& plan, const data::Dataset& dataset,
                        std::size_t i, MemoryNeeds& needs) {
  if (plan.role == Role::server) return;
  const BatchSourceOptions options = batch_source_options(job, plan);
  if (i == 0 && job.options.residency == "device") {
    add_resident_source(needs, dataset.train, make_sampler(job), options);
  } else if (i == 0) {
    add_loader_source(needs, options);
  }
  for (BatchMemory& batch : kept_batches(job, plan)) needs.add(batch.planned());
  if (!job.is_reference()) needs.add(evaluation_batch(job, dataset.test).planned());
}

MemoryClaim memory_claim(const TrainingJob& job, const RankPlan& plan, const MemoryNeeds& needs) {
  MemoryClaim claim = needs.claim(described(job, plan), advice(job, plan.role == Role::server));
  // With a global batch size, fewer devices would have larger batches each.
  if (!job.cell.is_strong()) claim.shared_advice = ", or fewer devices (--gpus)";
  return claim;
}

void add_planning_devices(const TrainingJob& job, PlanningDevices& devices) {
  if (!devices.workers.device) devices.workers = make_planning_device(job, 0);
  if (!job.has_cpu_servers() || devices.servers.device) return;
  devices.servers = make_planning_device(job, job.cell.world_size);
}

std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevices& devices) {
  const StrategyConfig config = strategy_config(job);
  const std::vector<RankPlan> ranks = plan_strategy(config).ranks;
  const bool apart = job.has_cpu_servers();
  const PlanningDevice& of_servers = apart ? devices.servers : devices.workers;
  std::vector<PlannedDevice> planned;
  survey_needs(config, model, {*devices.workers.device, *devices.workers.backend},
               {*of_servers.device, *of_servers.backend},
               [&](const AlikeDevices& alike, MemoryNeeds& needs) {
                 const RankPlan& plan = ranks.at(static_cast<std::size_t>(alike.rank));
                 add_session_memory(job, plan, dataset, alike.device, needs);
                 planned.push_back({.role = role_of(alike, plan),
                                    .count = alike.count,
                                    .on_host = apart && alike.role == Role::server,
                                    .bytes = needs.added_bytes(),
                                    .by_category = needs.by_category()});
               });
  return planned;
}

FitMemories find_memories(const RunOptions& options, const PlanningDevices& planning,
                          std::size_t data_set) {
  FitMemories memories;
  const MemoryLimit limit = memory_limit(read_host_limits());
  if (planning.servers.device) memories.host_bytes = beside(data_set, limit.bytes);
  if (const auto asked = asked_memory(options.memory_per_device)) {
    memories.device_bytes = *asked;
    memories.words = fmt::format("--memory-per-device={}", options.memory_per_device);
    return memories;
  }
  const Device& device = *planning.workers.device;
  const std::optional<std::size_t> free = device.free_bytes();
  if (!free || *free == 0) {
    throw UnavailableError(fmt::format(
        "{} does not tell how much memory it has; give --memory-per-device=16GiB", device.name()));
  }
  if (device.kind() == DeviceKind::cuda) {
    memories.device_bytes = *free;
    memories.words = fmt::format("free on {}", device.model());
    return memories;
  }
  memories.device_bytes = beside(data_set, *free);
  memories.are_shared = !limit.is_of_process;
  memories.words = limit.is_of_process
                       ? "free of a process's address space (ulimit -v) beside the data set"
                       : "free on this host beside the data set, shared by all devices of a run";
  return memories;
}

std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories) {
  std::vector<Fullness> all;
  for (const PlannedDevice& device : planned) {
    const bool joins = device.on_host || memories.are_shared;
    auto memory = std::ranges::find_if(
        all, [&](const Fullness& other) { return joins && other.on_host == device.on_host; });
    if (memory == all.end()) {
      memory = all.insert(
          memory, {.role = device.on_host ? "the servers on the host" : device.role,
                   .on_host = device.on_host,
                   .limit_bytes = device.on_host ? memories.host_bytes : memories.device_bytes});
    }
    const std::size_t count = joins ? static_cast<std::size_t>(device.count) : 1;
    const bool alone = memory->bytes == 0 && count == 1;
    if (!alone && !device.on_host) memory->role = "all devices together";
    memory->bytes += count * device.bytes;
    for (std::size_t c = 0; c < memory->by_category.size(); ++c) {
      memory->by_category[c] += count * device.by_category[c];
    }
  }
  return all;
}

const Fullness& fullest(const std::vector<Fullness>& all) {
  ensure(!all.empty(), "no memory is planned");
  return *std::ranges::max_element(all, {}, &Fullness::share);
}

std::optional<std::uint64_t> asked_memory(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit.front()) + 1;
  if (power > 0) unit.remove_prefix(1);
  const bool known = unit.empty() || (power > 0 && (unit == "B" || unit == "iB"));
  bytes *= std::pow(unit == "B" ? 1000 : 1024, static_cast<double>(power));
  constexpr double kMost = 0x1p60;
  if (error == std::errc{} && known && bytes >= 1 && bytes <= kMost) {
    return static_cast<std::uint64_t>(bytes);
  }
  throw ConfigError(
      fmt::format("--memory-per-device={}: expected a size such as 16GiB, 80GB or 512MiB", text));
}

}  // namespace ddpbench::bench
