// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/comm/collective_case.h"
#include "bench/options/option_value.h"
#include "bench/plan/run_plan.h"
#include "parallel/comm/operation.h"
#include "parallel/comm_backends.h"

namespace ddpbench::bench {
namespace {

constexpr int kMostRanks = 1024;
constexpr int kMostIterations = 100'000;
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

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const CollectiveCase& collective : collective_cases()) names.emplace_back(collective.name);
  return names;
}

std::vector<std::string> parse_operations(const std::vector<std::string>& words) {
  std::vector<std::string> operations;
  for (const std::string& word : words) {
    if (word == "all") return operation_names();
    std::vector<std::string> names = operation_names();
    names.emplace_back("all");
    check_word("--op", word, names);
    if (std::ranges::find(operations, word) == operations.end()) operations.push_back(word);
  }
  return operations;
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

// The one of `values` whose name is `word`.
template <typename Values, typename Name>
auto parse_word(const char* option, const std::string& word, const Values& values, Name name) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name(value));
  check_word(option, word, names);
  return values[static_cast<std::size_t>(std::ranges::find(names, word) - names.begin())];
}

void refuse_all_of_one(const CudaProbe& cuda) {
  if (cuda.devices.size() > 1) return;
  throw UnavailableError(fmt::format(
      "--ranks=all: there {} here, and a collective has 2 ranks or more; --ranks=2 with "
      "{}",
      are_gpus(cuda), advice_about_ranks(cuda)));
}

// What one launch cannot do: its ranks make one world.
void check_started(const CommWords& words, const StartedRanks& started) {
  const std::string who = fmt::format(
      "{} started {}", started.launcher == "environment" ? "a launcher" : started.launcher,
      counted(started.count, "rank"));
  for (const std::string& word : words.ranks) {
    if (word == "all" || word == std::to_string(started.count)) continue;
    throw ConfigError(
        fmt::format("--ranks={}: {}, and all of them take part; leave --ranks out", word, who));
  }
  if (started.count < 2) {
    throw ConfigError(fmt::format("comm: {}, and a collective has 2 or more: start more", who));
  }
  if (words.mode == "thread") {
    throw ConfigError(fmt::format("--mode=thread: {}, each of which is a process", who));
  }
  if (words.all_reduces.size() > 1) {
    throw ConfigError(fmt::format("--all-reduce={}: {}, which make one world; give one algorithm",
                                  fmt::join(words.all_reduces, ","), who));
  }
}

void refuse_own_ranks(const CommWords& words) {
  const CommBackend* const backend = find_comm_backend(words.backend);
  if (backend == nullptr || backend->launcher.empty()) return;
  throw UnavailableError(
      fmt::format("--backend={}: {} starts its ranks; {} -n RANKS ddpbench comm --backend={}",
                  words.backend, backend->launcher, backend->launcher, words.backend));
}

void choose_device(const CommWords& words, const HostDevices& host, const StartedRanks& started,
                   CommOptions& options) {
  refuse_absent(*find_flag("device"), words.device, "--device");
  check_word("--device", words.device, {"auto", "cpu", "cuda"});
  check_word("--backend", words.backend, backend_words());
  started.count > 0 ? check_started(words, started) : refuse_own_ranks(words);
  KindChoice kind = choose_kind(words.device, words.backend, host);
  options.device = std::move(kind.device);
  options.device_note = std::move(kind.note);
  options.backend = words.backend;
  options.oversubscribe = words.oversubscribe;
  const bool cuda = options.device == "cuda";
  if (started.count > 0) {
    options.ranks = {started.count};
    return;
  }
  if (cuda && std::ranges::count(words.ranks, "all") > 0) refuse_all_of_one(host.cuda);
  const std::size_t all = cuda ? host.cuda.devices.size() : host.cpu.cores.size();
  const std::vector<std::string> ranks =
      words.ranks.empty() ? std::vector<std::string>{"2"} : words.ranks;
  options.ranks = parse_ranks(ranks, static_cast<int>(all), cuda ? "GPU" : "core");
}

std::vector<std::string> parse_all_reduces(const std::vector<std::string>& words) {
  const std::vector<std::string> known(comm::kAllReduceAlgorithms.begin(),
                                       comm::kAllReduceAlgorithms.end());
  std::vector<std::string> algorithms;
  for (const std::string& word : words) {
    check_word("--all-reduce", word, known);
    if (std::ranges::find(algorithms, word) == algorithms.end()) algorithms.push_back(word);
  }
  if (algorithms.size() > 1 && std::ranges::find(algorithms, "auto") != algorithms.end()) {
    throw ConfigError(
        "--all-reduce=auto chooses ring or direct; to compare both, list ring,direct");
  }
  return algorithms;
}

void check_count(const char* option, int value, int least) {
  if (value >= least && value <= kMostIterations) return;
  throw ConfigError(
      fmt::format("{}={}: a whole number from {} to {}", option, value, least, kMostIterations));
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

CommOptions resolve(const CommWords& words, const HostDevices& host, const StartedRanks& started) {
  CommOptions options;
  options.operations = parse_operations(words.operations);
  options.sizes = parse_sizes(words.sizes);
  choose_device(words, host, started, options);
  options.type =
      parse_word("--type", words.type, kTypes, [](DataType type) { return to_string(type); });
  options.reduction = parse_word("--redop", words.reduction, kReductions, reduction_word);
  options.threads = parse_word("--mode", words.mode, std::array{false, true},
                               [](bool threads) { return threads ? "thread" : "process"; });
  options.all_reduces = parse_all_reduces(words.all_reduces);
  check_count("--iterations", words.iterations, 1);
  check_count("--warmup", words.warmup, 0);
  options.iterations = words.iterations;
  options.warmup = words.warmup;
  if (!(words.timeout_s >= 0 && std::isfinite(words.timeout_s))) {
    throw ConfigError(
        fmt::format("--timeout={}: expected seconds, 0 for no limit", words.timeout_s));
  }
  options.timeout_s = words.timeout_s;
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

}  // namespace ddpbench::bench
