// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_members.h"
#include "base/text.h"
#include "bench/comm/collective_case.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRow, operation, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DevicePlan, device, backend, threads_per_device, cores, gpus,
                                   oversubscribed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommJob, ranks, hosts, threads, type, reduction, iterations,
                                   warmup, timeout_s, rows, working_sets, devices, asked_all_reduce,
                                   all_reduce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BandwidthSample, working_set_bytes, all_cores, copy_gb_per_s,
                                   reduce_gb_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRankResult, host, model, all_reduce, bandwidth, wrong, late)

namespace {

constexpr int kMostRanks = 1024;
constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 40;

constexpr std::array kTypes = {DataType::fp32,  DataType::fp64,  DataType::bf16, DataType::fp16,
                               DataType::int32, DataType::int64, DataType::uint8};
constexpr std::array kReductions = {comm::ReduceOp::sum, comm::ReduceOp::average,
                                    comm::ReduceOp::maximum};

[[noreturn]] void refuse_sizes(const std::string& text, const std::string& why) {
  throw ConfigError(
      fmt::format("--sizes={}: {}; write bytes as 4096 or 4K (K, M, G are powers of "
                  "1024), ranges as 4K..128M or 4K..128M*4, lists as 1K,1M",
                  text, why));
}

std::uint64_t parse_size(std::string_view size, const std::string& whole_text) {
  constexpr std::string_view kUnits = "KMG";
  std::string_view digits = size;
  unsigned shift = 0;
  if (!size.empty()) {
    const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(size.back())));
    const std::size_t unit = kUnits.find(upper);
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      digits.remove_suffix(1);
    }
  }
  const auto value = number_in<std::uint64_t>(digits);
  if (!value) refuse_sizes(whole_text, fmt::format("'{}' is no size", size));
  if (*value == 0) refuse_sizes(whole_text, "a size of 0 bytes moves nothing");
  if (*value > kLargestSize >> shift) {
    refuse_sizes(whole_text, fmt::format("'{}' is more than {} GiB", size, kLargestSize >> 30));
  }
  return *value << shift;
}

void add_range(std::string_view part, std::size_t dots, const std::string& text,
               std::vector<std::uint64_t>& sizes) {
  std::string_view last = part.substr(dots + 2);
  std::uint64_t factor = 2;
  if (const std::size_t star = last.find('*'); star != std::string_view::npos) {
    const auto value = number_in<std::uint64_t>(last.substr(star + 1));
    if (!value || *value < 2 || *value > kLargestSize) {
      refuse_sizes(text,
                   fmt::format("'{}' is no step factor; the smallest is 2", last.substr(star + 1)));
    }
    factor = *value;
    last = last.substr(0, star);
  }
  const std::uint64_t first = parse_size(part.substr(0, dots), text);
  const std::uint64_t end = parse_size(last, text);
  if (first > end) refuse_sizes(text, fmt::format("'{}' begins above its end", part));
  for (std::uint64_t size = first; size <= end; size *= factor) {
    sizes.push_back(size);
    if (size > end / factor) break;
  }
}

// Repeated sizes are measured once, at their first place.
std::vector<std::uint64_t> without_repeats(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::uint64_t> once;
  for (const std::uint64_t size : sizes) {
    if (std::ranges::find(once, size) == once.end()) once.push_back(size);
  }
  return once;
}

// `all`: what "all" stands for.
std::vector<int> parse_ranks(const std::vector<std::string>& words, int all, const char* device) {
  std::vector<int> ranks;
  for (const std::string& word : words) {
    const auto value =
        word == "all" ? std::optional<std::uint64_t>(all) : number_in<std::uint64_t>(word);
    if (!value || *value < 2 || *value > kMostRanks) {
      throw ConfigError(fmt::format(
          "--ranks={}: {} ranks; a collective has 2 to {} ('all': one a {}, {} here)", word,
          value ? std::to_string(*value) : "not a number of", kMostRanks, device, all));
    }
    const int count = static_cast<int>(*value);
    if (std::ranges::find(ranks, count) == ranks.end()) ranks.push_back(count);
  }
  return ranks;
}

// The one of `values` whose name is `word`. REQUIRES: one has it, which the option table checks.
template <typename Values, typename Name>
auto of_name(const std::string& word, const Values& values, Name name) {
  return *std::ranges::find_if(values, [&](auto value) { return name(value) == word; });
}

void refuse_all_of_one(const CudaProbe& cuda) {
  if (cuda.devices.size() > 1) return;
  throw UnavailableError(fmt::format(
      "--ranks=all: there {} here, and a collective has 2 ranks or more; --ranks=2 with "
      "{}",
      are_gpus(cuda), advice_about_ranks(cuda)));
}

// What one launch cannot do: its ranks make one world.
void check_started(const Options& asked, const StartedRanks& started) {
  const std::string who = fmt::format(
      "{} started {}", started.launcher == "environment" ? "a launcher" : started.launcher,
      counted(started.count, "rank"));
  for (const std::string& word : asked.ranks) {
    if (word == "all" || word == std::to_string(started.count)) continue;
    throw ConfigError(
        fmt::format("--ranks={}: {}, and all of them take part; leave --ranks out", word, who));
  }
  if (started.count < 2) {
    throw ConfigError(fmt::format("comm: {}, and a collective has 2 or more: start more", who));
  }
  if (asked.mode == "thread") {
    throw ConfigError(fmt::format("--mode=thread: {}, each of which is a process", who));
  }
  if (asked.all_reduces.size() > 1) {
    throw ConfigError(fmt::format("--all-reduce={}: {}, which make one world; give one algorithm",
                                  fmt::join(asked.all_reduces, ","), who));
  }
}

void refuse_own_ranks(const Options& asked) {
  const CommBackend* const backend = find_comm_backend(asked.backend);
  if (backend == nullptr || backend->launcher.empty()) return;
  throw UnavailableError(
      fmt::format("--backend={}: {} starts its ranks; {} -n RANKS ddpbench comm --backend={}",
                  asked.backend, backend->launcher, backend->launcher, asked.backend));
}

void choose_device(const Options& asked, const HostDevices& host, const StartedRanks& started,
                   CommOptions& options) {
  started.count > 0 ? check_started(asked, started) : refuse_own_ranks(asked);
  DeviceChoice kind = choose_kind(asked.device, asked.backend, host);
  options.device = std::move(kind.device);
  options.device_note = std::move(kind.note);
  options.backend = asked.backend;
  options.oversubscribe = asked.oversubscribe;
  const bool cuda = options.device == "cuda";
  if (started.count > 0) {
    options.ranks = {started.count};
    return;
  }
  if (cuda && std::ranges::count(asked.ranks, "all") > 0) refuse_all_of_one(host.cuda);
  const std::size_t all = cuda ? host.cuda.devices.size() : host.cpu.cores.size();
  const std::vector<std::string> ranks =
      asked.ranks.empty() ? std::vector<std::string>{"2"} : asked.ranks;
  options.ranks = parse_ranks(ranks, static_cast<int>(all), cuda ? "GPU" : "core");
}

std::vector<CommRow> make_rows(const CommOptions& options, int ranks) {
  std::vector<CommRow> rows;
  for (const std::string& operation : options.operations) {
    const CollectiveCase& collective = *find_collective(operation);
    if (!collective.moves_data()) {
      rows.push_back({operation, 0});
      continue;
    }
    for (const std::uint64_t bytes : options.sizes) {
      const std::size_t count = whole_count(collective, bytes, options.type, ranks);
      if (count == 0) {
        throw ConfigError(
            fmt::format("--sizes: {} bytes are less than one {} for each of {} ranks "
                        "({})",
                        bytes, to_string(options.type), ranks, operation));
      }
      rows.push_back({operation, count});
    }
  }
  return rows;
}

double footprint(const CommJob& job, const CommRow& row) {
  const auto bytes = static_cast<double>(job.bytes(row));
  return report::collective_traffic(row.operation, job.ranks, bytes).footprint_bytes;
}

// Powers of two that span the bytes touched by one core in the rows.
std::vector<std::size_t> working_sets_of_cores(const CommJob& job) {
  std::size_t least = 0, most = 0;
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    const auto set = static_cast<std::size_t>(footprint(job, row) / job.ranks);
    least = least == 0 ? set : std::min(least, set);
    most = std::max(most, set);
  }
  constexpr std::size_t kLeast = 1 << 10;
  std::vector<std::size_t> sets;
  if (most == 0) return sets;
  for (std::size_t set = std::bit_floor(std::max(least, kLeast)); set <= std::max(most, kLeast);
       set *= 2) {
    sets.push_back(set);
  }
  return sets;
}

void check_memory(const CommJob& job, std::uint64_t ranks, std::uint64_t memory_bytes,
                  const std::string& whose) {
  const std::uint64_t needed = 2 * job.largest_bytes() * ranks;
  if (memory_bytes == 0 || needed <= memory_bytes) return;
  throw ConfigError(fmt::format(
      "--sizes: {} bytes in {} ranks need {} bytes of memory{} (to send and to receive), but there "
      "are {}",
      job.largest_bytes(), ranks, needed, whose, memory_bytes));
}

void place_on_cores(CommJob& job, const HostDevices& host) {
  const CpuPlacement placement = place_cpu_devices(host.cpu, job.ranks, 1);
  job.devices.cores = placement.device_cores;
  job.devices.oversubscribed = placement.oversubscribed;
}

void place_on_gpus(CommJob& job, const CommOptions& options, const CudaProbe& cuda) {
  refuse_missing_gpus(cuda, "--ranks", job.ranks, options.oversubscribe, advice_about_ranks(cuda));
  job.devices.gpus = next_gpus(cuda, job.ranks);
  job.devices.oversubscribed = job.ranks > static_cast<int>(cuda.devices.size());
  for (const CudaDeviceInfo& gpu : cuda.devices) {
    const auto ranks = std::ranges::count(job.devices.gpus, gpu.ordinal);
    check_memory(job, static_cast<std::uint64_t>(ranks), gpu.memory_bytes,
                 fmt::format(" of GPU {}", gpu.ordinal));
  }
}

}  // namespace

std::vector<std::uint64_t> parse_sizes(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    if (const std::size_t dots = part.find(".."); dots != std::string_view::npos) {
      add_range(part, dots, text, sizes);
    } else {
      sizes.push_back(parse_size(part, text));
    }
    if (comma == rest.size()) return without_repeats(sizes);
    rest.remove_prefix(comma + 1);
  }
}

std::string advice_about_ranks(const CudaProbe& cuda) {
  return fmt::format("{}--oversubscribe lets ranks share {}, --device=cpu measures the cores",
                     cuda.devices.size() < 2 ? "" : "use fewer; ",
                     cuda.devices.size() < 2 ? "it" : "them");
}

std::string reduction_word(comm::ReduceOp op) {
  return op == comm::ReduceOp::maximum ? "max" : std::string(to_string(op));
}

CommOptions resolve(const Options& asked, const HostDevices& host, const StartedRanks& started) {
  CommOptions options;
  options.operations = asked.operations;
  options.sizes = parse_sizes(asked.sizes);
  choose_device(asked, host, started, options);
  options.type =
      of_name(asked.type, kTypes, [](DataType type) { return std::string(to_string(type)); });
  options.reduction = of_name(asked.reduction, kReductions, reduction_word);
  options.threads = asked.mode == "thread";
  options.all_reduces = asked.all_reduces;
  options.iterations = asked.iterations;
  options.warmup = asked.warmup;
  options.timeout_s = asked.timeout_s;
  if (std::ranges::any_of(options.operations, [](const std::string& operation) {
        return find_collective(operation)->reduces;
      })) {
    for (const int ranks : options.ranks) TestPattern(options.type, options.reduction, ranks);
  }
  return options;
}

nlohmann::ordered_json to_json(const CommOptions& options) {
  return {{"command", "comm"},
          {"op", options.operations},
          {"sizes", options.sizes},
          {"ranks", options.ranks},
          {"device", options.device},
          {"backend", options.backend},
          {"all_reduce", options.all_reduces},
          {"oversubscribe", options.oversubscribe},
          {"type", to_string(options.type)},
          {"redop", reduction_word(options.reduction)},
          {"mode", options.threads ? "thread" : "process"},
          {"iterations", options.iterations},
          {"warmup", options.warmup},
          {"timeout", options.timeout_s}};
}

std::size_t CommJob::largest_bytes() const {
  std::size_t largest = 0;
  for (const CommRow& row : rows) largest = std::max(largest, bytes(row));
  return largest;
}

int CommJob::sharers(int rank) const {
  if (!on_gpus()) return 1;
  const int gpu = devices.gpus.at(static_cast<std::size_t>(rank));
  return static_cast<int>(std::ranges::count(devices.gpus, gpu));
}

std::string CommJob::no_bound_reason() const {
  if (hosts > 1) return "ranks on several hosts, bound by a network that is not measured";
  if (!on_gpus()) return devices.oversubscribed ? "oversubscribed: more ranks than cores" : "";
  const auto sharing = std::ranges::count(devices.gpus, devices.gpus.front());
  return sharing == ranks
             ? fmt::format("{} connects ranks that share a GPU through the host", devices.backend)
             : "ranks on several GPUs, bound by links that are not measured";
}

std::vector<CommJob> make_comm_jobs(const CommOptions& options, const HostDevices& host) {
  std::vector<CommJob> jobs;
  CommOptions all_reduces = options;
  all_reduces.operations = {"all_reduce"};
  const bool measured =
      std::ranges::find(options.operations, "all_reduce") != options.operations.end();
  for (const int ranks : options.ranks) {
    for (const std::string& algorithm : options.all_reduces) {
      const bool first = algorithm == options.all_reduces.front();
      if (!first && !measured) continue;
      jobs.push_back(make_comm_job(first ? options : all_reduces, ranks, host, algorithm));
    }
  }
  return jobs;
}

CommJob make_comm_job(const CommOptions& options, int ranks, const HostDevices& host,
                      const std::string& all_reduce, int ranks_here) {
  CommJob job;
  job.ranks = ranks;
  job.threads = options.threads;
  job.type = options.type;
  job.reduction = options.reduction;
  job.iterations = options.iterations;
  job.warmup = options.warmup;
  job.timeout_s = options.timeout_s;
  job.rows = make_rows(options, ranks);
  job.devices.device = options.device;
  place_on_cores(job, host);
  if (options.device == "cuda") {
    place_on_gpus(job, options, host.cuda);
  } else {
    check_memory(job, static_cast<std::uint64_t>(ranks_here > 0 ? ranks_here : ranks),
                 host.available_bytes > 0 ? host.available_bytes : host.cpu.memory_bytes, "");
  }
  job.devices.backend = choose_backend(options.backend, options.device, job.devices.oversubscribed);
  job.asked_all_reduce = all_reduce;
  job.all_reduce = all_reduce_name(comm_backend(job.devices.backend), all_reduce, ranks);
  if (job.threads) {
    refuse_sharing_threads("--mode=thread", job.devices.backend,
                           job.on_gpus() && job.devices.oversubscribed);
  }
  choose_working_sets(job);
  return job;
}

void choose_working_sets(CommJob& job) {
  job.working_sets.clear();
  if (!job.no_bound_reason().empty()) return;
  job.working_sets = working_sets_of_cores(job);
}

std::string title_of(const CommJob& job) {
  return fmt::format("{} ({}), {} on {}{}{}, {}, {}{}", counted(job.ranks, "rank"),
                     job.threads ? "threads" : "processes", job.devices.backend, job.devices.device,
                     job.all_reduce.empty() ? "" : ", all-reduce ", job.all_reduce,
                     to_string(job.type), counted(job.rows.size(), "row"),
                     job.devices.oversubscribed ? ", oversubscribed" : "");
}

std::string rounding_note(const CommOptions& options, const CommJob& job) {
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    const bool asked = std::ranges::find(options.sizes, job.bytes(row)) != options.sizes.end();
    if (asked) continue;
    return fmt::format(
        "sizes are rounded down to whole elements ({}), the same number for each rank",
        to_string(job.type));
  }
  return "";
}

launch::ChannelLayout channel_layout(const CommJob& job) {
  launch::ChannelLayout layout;
  layout.ranks = job.ranks;
  layout.step_capacity = job.rows.size() * static_cast<std::size_t>(job.iterations);
  constexpr std::size_t kPerEntry = 256;  // bytes, generously
  layout.result_capacity = (64 + job.rows.size() + 2 * job.working_sets.size()) * kPerEntry;
  return layout;
}

nlohmann::json to_json(const CommJob& job) {
  nlohmann::json json;
  to_json(json, job);
  return json;
}

CommJob comm_job_from_json(const nlohmann::json& json) { return json.get<CommJob>(); }

std::string encoded(const CommRankResult& result) { return result_bytes(result); }

CommRankResult decoded_comm_rank_result(const std::string& bytes) {
  return result_of_bytes<CommRankResult>(bytes);
}

}  // namespace ddpbench::bench
