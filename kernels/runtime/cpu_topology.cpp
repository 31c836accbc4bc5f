// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cpu_topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace ddpbench {
namespace {

struct Deleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter>;
using Topology = Owned<hwloc_topology_t>;
using Bitmap = Owned<hwloc_bitmap_t>;

Bitmap make_bitmap() {
  Bitmap bitmap(hwloc_bitmap_alloc());
  ensure(bitmap != nullptr, "hwloc has no memory for a processor set");
  return bitmap;
}

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  ensure(hwloc_topology_init(&raw) == 0, "hwloc cannot start");
  Topology topology(raw);
  // Keeps only what is read below: the rest costs start-up time on large hosts.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const auto type :
       {HWLOC_OBJ_CORE, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    hwloc_topology_set_type_filter(raw, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  if (hwloc_topology_load(raw) != 0) throw DeviceError("hwloc cannot read this host's topology");
  return topology;
}

// The first usable processor of each core; of each processor when the host shows no cores.
std::vector<int> first_processors(hwloc_topology_t topology, hwloc_const_bitmap_t usable) {
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const Bitmap mine = make_bitmap();
  std::vector<int> processors;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    hwloc_bitmap_and(mine.get(), core->cpuset, usable);
    if (const int first = hwloc_bitmap_first(mine.get()); first >= 0) processors.push_back(first);
  }
  return processors;
}

// Size of the first cache of this type above a processor; 0 when unknown.
std::size_t cache_bytes(hwloc_topology_t topology, int processor, hwloc_obj_type_t type) {
  const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, static_cast<unsigned>(processor));
  const hwloc_obj_t cache = pu ? hwloc_get_ancestor_obj_by_type(topology, type, pu) : nullptr;
  return cache ? static_cast<std::size_t>(cache->attr->cache.size) : 0;
}

// What the first processor's entry in /proc/cpuinfo says of `key`; reading all entries of a large
// host takes milliseconds.
std::string first_entry(std::string_view key) {
  constexpr int kLinesOfOneEntry = 32;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  for (int i = 0; i < kLinesOfOneEntry && std::getline(file, line); ++i) {
    if (!line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "";
}

// Names of the instruction set extensions that matter to the kernels and that both the processor
// and the operating system support, as /proc/cpuinfo spells them: "avx2", "avx512_bf16", ...
std::vector<std::string> cpu_features() {
  static constexpr std::string_view kMattering[] = {
      "sse4_2",   "avx",         "avx2",        "fma",      "avx512f",  "avx512bw", "avx512dq",
      "avx512vl", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"};
  const std::string all = fmt::format(" {} ", first_entry("flags"));
  std::vector<std::string> features;
  for (const std::string_view feature : kMattering) {
    if (all.find(fmt::format(" {} ", feature)) != std::string::npos) features.emplace_back(feature);
  }
  return features;
}

}  // namespace

std::size_t physical_memory_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

CpuTopology read_cpu_topology() {
  const Topology topology = load_topology();
  const Bitmap usable = make_bitmap();  // by the calling thread, or all when hwloc cannot tell
  if (hwloc_get_cpubind(topology.get(), usable.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(usable.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  }
  CpuTopology result;
  result.model = cpu_model_name();
  result.cores = first_processors(topology.get(), usable.get());
  ensure(!result.cores.empty(), "hwloc shows no core that this process may use");
  result.processors = hwloc_bitmap_weight(usable.get());
  result.l2_bytes = cache_bytes(topology.get(), result.cores.front(), HWLOC_OBJ_L2CACHE);
  result.l3_bytes = cache_bytes(topology.get(), result.cores.front(), HWLOC_OBJ_L3CACHE);
  result.memory_bytes = physical_memory_bytes();
  result.features = cpu_features();
  return result;
}

CpuPlacement place_cpu_devices(const CpuTopology& topology, int devices, int threads) {
  ensure(devices > 0 && threads > 0, "{} devices of {} threads cannot be placed", devices, threads);
  ensure(!topology.cores.empty(), "a topology without cores");
  const std::size_t cores = topology.cores.size();
  const auto group_size = static_cast<std::size_t>(threads);
  CpuPlacement placement;
  placement.oversubscribed = static_cast<std::size_t>(devices) * group_size > cores;
  std::size_t next = 0;
  for (int device = 0; device < devices; ++device) {
    std::vector<int>& group = placement.device_cores.emplace_back(group_size);
    for (int& core : group) core = topology.cores[next++ % cores];
  }
  return placement;
}

std::string cpu_model_name() {
  std::string name = first_entry("model name");
  return name.empty() ? "unknown" : name;
}

int pin_calling_thread(std::span<const int> processors) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Those that the set is too small for are left out.
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

Unpinned::Unpinned() {
  cpu_set_t all;
  ::sched_getaffinity(0, sizeof before_, &before_);
  if (::sched_getaffinity(::getppid(), sizeof all, &all) == 0) {
    ::sched_setaffinity(0, sizeof all, &all);
  }
}

Unpinned::~Unpinned() { ::sched_setaffinity(0, sizeof before_, &before_); }

}  // namespace ddpbench
