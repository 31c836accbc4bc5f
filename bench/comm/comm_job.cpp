// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_members.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/comm/collective_case.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRow, operation, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DevicePlan, device, backend, threads_per_device, cores, gpus,
                                   oversubscribed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommJob, ranks, hosts, interface, threads, type, reduction,
                                   iterations, warmup, timeout_s, rows, working_sets, devices,
                                   asked_all_reduce, all_reduce, emulated_link)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BandwidthSample, working_set_bytes, all_cores, copy_gb_per_s,
                                   reduce_gb_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRankResult, host, model, all_reduce, bandwidth, wrong, late)

namespace {

constexpr std::size_t kMostRanks = 1024;
constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 40;

constexpr std::array kTypes = {DataType::fp32,  DataType::fp64,  DataType::bf16, DataType::fp16,
                               DataType::int32, DataType::int64, DataType::uint8};
constexpr std::array kReductions = {comm::ReduceOp::sum, comm::ReduceOp::average,
                                    comm::ReduceOp::maximum};

[[noreturn]] void refuse_sizes(const std::string& text, std::string_view part) {
  throw ConfigError(
      fmt::format("--sizes={}: '{}' is no size or range of sizes of 1 byte to {} GiB; write bytes "
                  "as 4096 or 4K (K, M, G are powers of 1024), ranges as 4K..128M or 4K..128M*4, "
                  "lists as 1K,1M",
                  text, part, kLargestSize >> 30));
}

std::uint64_t parse_size(std::string_view size, const std::string& whole_text) {
  constexpr std::string_view kUnits = "KMG";
  std::string_view digits = size;
  std::size_t shift = 0;
  if (!size.empty()) {
    const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(size.back())));
    shift = 10 * (kUnits.find(upper) + 1);  // 0 without a unit: npos + 1
    if (shift > 0) digits.remove_suffix(1);
  }
  const auto value = number_in<std::uint64_t>(digits);
  if (!value || *value == 0 || *value > kLargestSize >> shift) refuse_sizes(whole_text, size);
  return *value << shift;
}

void add_range(const std::string& part, std::size_t dots, const std::string& text,
               std::vector<std::uint64_t>& sizes) {
  const std::vector<std::string> ends = split(part.substr(dots + 2), '*');
  const auto factor =
      ends.size() == 1 ? std::optional<std::uint64_t>(2) : number_in<std::uint64_t>(ends[1]);
  const std::uint64_t first = parse_size(part.substr(0, dots), text);
  const std::uint64_t end = parse_size(ends[0], text);
  if (first > end || ends.size() > 2 || !factor || *factor < 2 || *factor > kLargestSize) {
    refuse_sizes(text, part);
  }
  for (std::uint64_t size = first; size <= end; size *= *factor) {
    sizes.push_back(size);
    if (size > end / *factor) break;
  }
}

template <typename T>
void add_once(std::vector<T>& list, T value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

// `all`: what "all" stands for. Empty `words` stand for two ranks.
std::vector<std::string> parse_ranks(const std::vector<std::string>& words, std::size_t all,
                                     const char* device) {
  if (words.empty()) return {"2"};
  std::vector<std::string> ranks;
  for (const std::string& word : words) {
    const auto value = word == "all" ? all : number_in<std::size_t>(word);
    if (!value || *value < 2 || *value > kMostRanks) {
      throw ConfigError(fmt::format(
          "--ranks={}: {} ranks; a collective has 2 to {} ('all': one a {}, {} here)", word,
          value ? std::to_string(*value) : "not a number of", kMostRanks, device, all));
    }
    add_once(ranks, std::to_string(*value));
  }
  return ranks;
}

// The one of `values` whose name is `word`. REQUIRES: one has it, which the option table checks.
template <typename Values>
auto of_name(const std::string& word, const Values& values) {
  return *std::ranges::find_if(values, [&](auto value) { return to_string(value) == word; });
}

std::vector<CommRow> make_rows(const Options& options, const CommJob& job) {
  std::vector<CommRow> rows;
  for (const std::string& operation : options.operations) {
    const CollectiveCase& collective = *find_collective(operation);
    if (collective.reduces) TestPattern(job.type, job.reduction, job.ranks);  // or it throws
    if (!collective.moves_data()) {
      rows.push_back({operation, 0});
      continue;
    }
    for (const std::uint64_t bytes : parse_sizes(options.sizes)) {
      const std::size_t count = whole_count(collective, bytes, job.type, job.ranks);
      if (count == 0) {
        throw ConfigError(
            fmt::format("--sizes: {} bytes are less than one {} for each of {} ranks ({})", bytes,
                        to_string(job.type), job.ranks, operation));
      }
      rows.push_back({operation, count});
    }
  }
  return rows;
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

void place_on_gpus(CommJob& job, bool oversubscribe, const CudaProbe& cuda) {
  const bool several = cuda.devices.size() > 1;
  refuse_missing_gpus(
      cuda, "--ranks", job.ranks, oversubscribe,
      fmt::format("{}--oversubscribe lets ranks share {}, --device=cpu measures the cores",
                  several ? "use fewer; " : "", several ? "them" : "it"));
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
  std::vector<std::uint64_t> sizes, once;
  for (const std::string& part : split(text, ',')) {
    if (const std::size_t dots = part.find(".."); dots != std::string::npos) {
      add_range(part, dots, text, sizes);
    } else {
      sizes.push_back(parse_size(part, text));
    }
  }
  for (const std::uint64_t size : sizes) add_once(once, size);
  return once;
}

std::string resolve_comm(Options& options, const HostDevices& host, const RunHosts* hosts) {
  parse_sizes(options.sizes);  // or it throws
  const auto kind = choose_kind(options.device, options.backend, host);
  options.device = kind.device;
  const bool cuda = kind.device == "cuda";
  const auto here = cuda ? host.cuda.devices.size() : host.cpu.cores.size();
  if (hosts == nullptr) {
    options.ranks = parse_ranks(options.ranks, here, cuda ? "GPU" : "core");
    return kind.note;
  }
  if (options.mode == "thread") {
    throw ConfigError("--mode=thread: each rank that a launcher starts is a process");
  }
  if (options.ranks.empty()) options.ranks = {"all"};
  options.ranks =
      parse_ranks(options.ranks, static_cast<std::size_t>(hosts->slots()), "started process");
  return kind.note;
}

nlohmann::ordered_json comm_config(const Options& options) {
  const auto ranks = mapped(options.ranks, [](const std::string& word) {
    const auto number = number_in<int>(word);
    return number ? nlohmann::json(*number) : nlohmann::json(word);
  });
  return {{"command", "comm"},
          {"op", options.operations},
          {"sizes", parse_sizes(options.sizes)},
          {"ranks", ranks},
          {"device", options.device},
          {"backend", options.backend},
          {"all_reduce", options.all_reduces},
          {"emulate_link", options.emulate_link},
          {"oversubscribe", options.oversubscribe},
          {"type", options.type},
          {"redop", options.reduction},
          {"mode", options.mode},
          {"iterations", options.iterations},
          {"warmup", options.warmup},
          {"timeout", options.timeout_s}};
}

std::size_t CommJob::largest_bytes() const {
  return largest(rows, std::size_t{0}, [this](const CommRow& row) { return bytes(row); });
}

int CommJob::sharers(int rank) const {
  if (!on_gpus()) return 1;
  const int gpu = devices.gpus.at(static_cast<std::size_t>(rank));
  return static_cast<int>(std::ranges::count(devices.gpus, gpu));
}

std::string CommJob::no_bound_reason() const {
  if (!emulated_link.empty()) return "an emulated link bounds it";
  if (hosts > 1) return "ranks on several hosts, bound by a network that is not measured";
  if (!on_gpus()) return devices.oversubscribed ? "oversubscribed: more ranks than cores" : "";
  const auto sharing = std::ranges::count(devices.gpus, devices.gpus.front());
  return sharing == ranks
             ? fmt::format("{} connects ranks that share a GPU through the host", devices.backend)
             : "ranks on several GPUs, bound by links that are not measured";
}

std::vector<CommJob> make_comm_jobs(const Options& options, const HostDevices& host,
                                    const RunHosts* hosts) {
  std::vector<CommJob> jobs;
  const bool measured = std::ranges::count(options.operations, "all_reduce") > 0;
  for (const std::string& word : options.ranks) {
    const int ranks = std::stoi(word);
    Options one = options;
    if (hosts != nullptr)
      one.backend = hosts->backend(options.backend, options.device, ranks, 0, 1);
    for (const std::string& algorithm : options.all_reduces) {
      const bool first = algorithm == options.all_reduces.front();
      if (!first && !measured) continue;
      if (!first) one.operations = {"all_reduce"};
      jobs.push_back(make_comm_job(one, ranks, host, algorithm));
      if (hosts == nullptr) continue;
      CommJob& job = jobs.back();
      job.hosts = hosts->hosts_of(ranks);
      job.interface = options.interface;
      if (!job.on_gpus()) job.devices.oversubscribed = hosts->oversubscribes(host_job(job));
      choose_working_sets(job);
    }
  }
  return jobs;
}

HostJob host_job(const CommJob& job) {
  HostJob all{.kind = kCommKind,
              .description = to_json(job),
              .plan = "/devices",
              .backend = job.devices.backend,
              .devices = {},
              .timeout_s = job.timeout_s,
              .interface = job.interface};
  for (int rank = 0; rank < job.ranks; ++rank) all.devices.push_back({rank});
  return all;
}

CommJob make_comm_job(const Options& options, int ranks, const HostDevices& host,
                      const std::string& all_reduce) {
  CommJob job;
  job.ranks = ranks;
  job.threads = options.mode == "thread";
  job.type = of_name(options.type, kTypes);
  job.reduction = of_name(options.reduction, kReductions);
  job.iterations = options.iterations;
  job.warmup = options.warmup;
  job.timeout_s = options.timeout_s;
  job.rows = make_rows(options, job);
  job.devices.device = options.device;
  const CpuPlacement placement = place_cpu_devices(host.cpu, ranks, 1);
  job.devices.cores = placement.device_cores;
  job.devices.oversubscribed = placement.oversubscribed;
  if (options.device == "cuda") {
    place_on_gpus(job, options.oversubscribe, host.cuda);
  } else {
    check_memory(job, static_cast<std::uint64_t>(ranks),
                 host.available_bytes > 0 ? host.available_bytes : host.cpu.memory_bytes, "");
  }
  job.devices.backend = choose_backend(options.backend, options.device, job.devices.oversubscribed);
  check_link(options.emulate_link, job.devices.backend, options.device);
  job.emulated_link = options.emulate_link;
  job.asked_all_reduce = all_reduce;
  job.all_reduce = all_reduce_name(comm_backend(job.devices.backend), all_reduce, ranks);
  if (job.threads) {
    refuse_sharing_threads("--mode=thread", job.devices.backend,
                           job.on_gpus() && job.devices.oversubscribed);
  }
  choose_working_sets(job);
  return job;
}

// Powers of two that span the bytes touched by one core in the rows.
void choose_working_sets(CommJob& job) {
  job.working_sets.clear();
  if (!job.no_bound_reason().empty()) return;
  constexpr std::size_t kLeast = 1 << 10;
  std::size_t least = SIZE_MAX, most = 0;
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    const auto traffic =
        report::collective_traffic(row.operation, job.ranks, static_cast<double>(job.bytes(row)));
    const auto set =
        std::max(kLeast, static_cast<std::size_t>(traffic.footprint_bytes / job.ranks));
    least = std::min(least, set);
    most = std::max(most, set);
  }
  for (std::size_t set = std::bit_floor(least); set <= most; set *= 2) {
    job.working_sets.push_back(set);
  }
}

std::string title_of(const CommJob& job) {
  return fmt::format("{} ({}), {} on {}{}{}{}{}, {}, {}{}", counted(job.ranks, "rank"),
                     job.threads ? "threads" : "processes", job.devices.backend, job.devices.device,
                     job.all_reduce.empty() ? "" : ", all-reduce ", job.all_reduce,
                     job.emulated_link.empty() ? "" : ", emulated link ", job.emulated_link,
                     to_string(job.type), counted(job.rows.size(), "row"),
                     job.devices.oversubscribed ? ", oversubscribed" : "");
}

launch::ChannelLayout channel_layout(const CommJob& job) {
  launch::ChannelLayout layout;
  layout.ranks = job.ranks;
  layout.step_capacity = job.rows.size() * static_cast<std::size_t>(job.iterations);
  constexpr std::size_t kPerEntry = 256;  // bytes, generously
  layout.result_capacity = (64 + job.rows.size() + 2 * job.working_sets.size()) * kPerEntry;
  return layout;
}

nlohmann::json to_json(const CommJob& job) { return job; }
CommJob comm_job_from_json(const nlohmann::json& json) { return json.get<CommJob>(); }

std::string encoded(const CommRankResult& result) { return result_bytes(result); }

CommRankResult decoded_comm_rank_result(const std::string& bytes) {
  return result_of_bytes<CommRankResult>(bytes);
}

}  // namespace ddpbench::bench
