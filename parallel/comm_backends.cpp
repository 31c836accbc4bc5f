// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm_backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/math.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/cuda_module.h"

namespace ddpbench {

namespace {

using comm::AllReduceAlgorithm;
using comm::Communicator;
using Variables = std::map<std::string, std::string>;

// ---- shm ----

std::unique_ptr<Communicator> make_shm(comm::Store& store, int rank, int size, Device&,
                                       const WorldOptions& options) {
  return comm::make_shm(store, rank, size, options);
}

// ---- nccl, in the CUDA module ----

// Unless told to connect ranks when the communicator is made, NCCL does it in the first collective
// of a kind. A deadline can end the former; only aborting NCCL under its caller ends the latter.
//
// NCCL takes ranks of one host on one GPU for a mistake. Ranks that shall share one say that they
// are on hosts of their own. They then use sockets, so this serves tests, not measurements.
//
// NCCL takes the name of an interface for the beginning of one, unless '=' is in front.
Variables nccl_variables(const RankSurroundings& rank) {
  Variables variables = {{"NCCL_RUNTIME_CONNECT", "0"}};
  if (rank.shares_device) variables["NCCL_HOSTID"] = fmt::format("{}-{}", rank.host, rank.rank);
  if (!rank.network.interface.empty())
    variables["NCCL_SOCKET_IFNAME"] = "=" + rank.network.interface;
  return variables;
}

std::unique_ptr<Communicator> make_nccl(comm::Store& store, int rank, int size, Device& device,
                                        const WorldOptions& options) {
  ensure(options.cuda != nullptr, "a communicator of GPUs without the CUDA module");
  return options.cuda->make_nccl(store, rank, size, device, options);
}

// ---- gloo, mpi: each in a module of its own ----

const comm::CommModule& world_module(const WorldOptions& world) {
  ensure(world.module != nullptr, "a communicator of a library without its module");
  return *world.module;
}

std::unique_ptr<Communicator> make_by_module(comm::Store& store, int rank, int size, Device&,
                                             const WorldOptions& options) {
  return world_module(options).make(store, rank, size, options);
}

// What a library's ranks share in /dev/shm.
struct SharedMemoryUse {
  std::string_view backend;
  std::uintmax_t rank_mib;
  const char* harm;
};
constexpr SharedMemoryUse kSharedMemory[] = {
    // A segment of 6 to 10 MB for each neighbour and channel of GPUs that do not reach each other.
    {"nccl", 64, "NCCL may fail"},
    // Each rank makes a segment of 4 MiB (btl_vader_segment_size). Some may have made theirs when
    // another looks: so that none that sees room is wrong, there must be room for two of each.
    {"mpi", 8, "MPI uses TCP, which is slower"}};

// Those of Open MPI. Another MPI has names of its own and ignores these.
Variables mpi_variables(const RankSurroundings& rank) {
  // A ring. Between fewer than four ranks Open MPI 4.1 takes a tree else, which took twice as long
  // as MPI_Allreduce for 1.69 MB and 25 MiB; the ring takes as long, between two and between four.
  Variables variables = {{"OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1"}};
  if (!rank.network.on_one_host) {
    if (!rank.network.interface.empty()) {
      variables["OMPI_MCA_btl_tcp_if_include"] = rank.network.interface;
    }
    return variables;
  }
  // On one host shared memory is enough, and others would listen at a port on every interface.
  variables["OMPI_MCA_pml"] = "ob1";
  if (shared_memory_warning("mpi", rank.network.ranks, free_shared_memory()).empty()) {
    variables["OMPI_MCA_btl"] = "^tcp,ofi,openib,usnic";
  } else {
    variables["OMPI_MCA_btl"] = "self,tcp";
    variables["OMPI_MCA_btl_tcp_if_include"] = "lo";
  }
  return variables;
}

// ---- shm+gloo, shm+mpi: shared memory within hosts, an engine between them ----

std::unique_ptr<Communicator> make_within_and_across(comm::Store& store, int rank, int size,
                                                     Device&, const WorldOptions& options) {
  return comm::make_hierarchical(world_module(options), store, rank, size, comm::host_mark(),
                                 options);
}

// ---- the table ----

// What a module is built with, who has to start its ranks, and what its collectives are.
struct EngineLibrary {
  const char *module, *library, *package, *launcher, *all_reduce;
  bool composes_reduce_scatter, has_threads;
  decltype(CommBackend::variables) variables;
};
constexpr EngineLibrary kGloo{"gloo", "Gloo", "libgloo-dev", "", "gloo::allreduce (ring)",
                              true,   true,   nullptr};
constexpr EngineLibrary kMpi{"mpi", "MPI", "libopenmpi-dev", "mpirun", "MPI_Iallreduce",
                             false, false, &mpi_variables};

CommBackend over_engine(const char* name, const char* medium, const EngineLibrary& engine,
                        decltype(CommBackend::make) make) {
  return {.name = name,
          .devices = DeviceKind::cpu,
          .medium = medium,
          .module = engine.module,
          .library = engine.library,
          .package = engine.package,
          .launcher = engine.launcher,
          .shares_devices = true,
          .spans_hosts = true,
          .has_threads = engine.has_threads,
          .own_all_reduce = engine.all_reduce,
          .composes_reduce_scatter = engine.composes_reduce_scatter,
          .variables = engine.variables,
          .make = make};
}

const std::vector<CommBackend>& rows() {
  static const std::vector<CommBackend> kRows = {
      {.name = "shm",
       .devices = DeviceKind::cpu,
       .medium = "shared memory of one host",
       .shares_devices = true,
       .emulates_links = true,
       .automatic_all_reduce = &comm::automatic_shm_all_reduce,
       .variables = nullptr,
       .make = &make_shm,
       .make_for_threads = &comm::make_thread_shm},
      {.name = "nccl",
       .devices = DeviceKind::cuda,
       .medium = "NVIDIA's library",
       .shares_devices = false,
       .spans_hosts = true,
       .variables = &nccl_variables,
       .make = &make_nccl},
      over_engine("gloo", "TCP", kGloo, &make_by_module),
      over_engine("mpi", "the library of the mpirun that started the ranks", kMpi, &make_by_module),
      over_engine("shm+gloo", "shared memory within hosts, TCP between them", kGloo,
                  &make_within_and_across),
      over_engine("shm+mpi", "shared memory within hosts, MPI between them", kMpi,
                  &make_within_and_across),
  };
  return kRows;
}

std::string_view devices_word(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "CPU devices" : "GPUs";
}

}  // namespace

std::uintmax_t free_shared_memory() {
  std::error_code unknown;
  const std::filesystem::space_info room = std::filesystem::space("/dev/shm", unknown);
  return unknown ? 0 : room.available;
}

std::string shared_memory_warning(std::string_view backend, int ranks, std::uintmax_t free_bytes) {
  const auto* const use = std::ranges::find(kSharedMemory, backend, &SharedMemoryUse::backend);
  if (use == std::end(kSharedMemory) || ranks < 2 ||
      free_bytes / kMiB >= use->rank_mib * static_cast<std::uintmax_t>(ranks)) {
    return "";
  }
  return fmt::format(
      "warning: /dev/shm has {} MiB free, and {} ranks may need {} MiB each, so that {}: start the "
      "container with --shm-size=1g",
      free_bytes / kMiB, ranks, use->rank_mib, use->harm);
}

std::span<const CommBackend> comm_backends() { return rows(); }

const CommBackend* find_comm_backend(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, &CommBackend::name);
  return found == rows().end() ? nullptr : &*found;
}

const CommBackend& comm_backend(std::string_view name) {
  const CommBackend* const row = find_comm_backend(name);
  ensure(row != nullptr, "no backend '{}'", name);
  return *row;
}

bool connects(const CommBackend& backend, DeviceKind kind) {
  return backend.devices == kind || kind == DeviceKind::cuda;
}

bool is_staged(const CommBackend& backend, DeviceKind kind) {
  return kind == DeviceKind::cuda && backend.devices == DeviceKind::cpu;
}

const CommBackend& automatic_backend(DeviceKind devices, bool shared) {
  const auto found = std::ranges::find_if(rows(), [&](const CommBackend& row) {
    return shared ? row.shares_devices && connects(row, devices) : row.devices == devices;
  });
  ensure(found != rows().end(), "no backend connects {}", devices_word(devices));
  return *found;
}

const CommBackend& backend_between_hosts(DeviceKind devices) {
  const auto found = std::ranges::find_if(
      rows(), [&](const CommBackend& row) { return row.devices == devices && row.spans_hosts; });
  ensure(found != rows().end(), "no backend connects {} of several hosts", devices_word(devices));
  return *found;
}

std::string all_reduce_name(const CommBackend& backend, std::string_view wanted, int ranks,
                            std::size_t bytes) {
  const AllReduceAlgorithm asked = comm::all_reduce_algorithm(wanted);
  if (asked == AllReduceAlgorithm::automatic) {
    if (backend.automatic_all_reduce == nullptr) return std::string(backend.own_all_reduce);
    return std::string(to_string(backend.automatic_all_reduce(ranks, bytes)));
  }
  if (backend.automatic_all_reduce == nullptr) {
    throw ConfigError(
        fmt::format("--all-reduce={}: {} chooses its own algorithms; use --all-reduce=auto, "
                    "or --backend={}",
                    wanted, backend.name, automatic_backend(backend.devices, true).name));
  }
  return std::string(wanted);
}

std::vector<std::string> backend_words() {
  std::vector<std::string> words = {"auto"};
  for (const CommBackend& row : rows()) words.emplace_back(row.name);
  return words;
}

std::string backend_connects(const CommBackend& backend) {
  return fmt::format("{}{}: {}", devices_word(backend.devices),
                     is_staged(backend, DeviceKind::cuda) ? ", and GPUs through host memory" : "",
                     backend.medium);
}

std::string backend_help() {
  std::string help = "What moves data between ranks.";
  for (const CommBackend& row : rows())
    help += fmt::format(" {} ({}).", row.name, backend_connects(row));
  const auto automatic = [](DeviceKind kind, bool shared) {
    return automatic_backend(kind, shared).name;
  };
  return fmt::format("{} auto: {} on CPU devices, {} between GPUs, {} where ranks share one.", help,
                     automatic(DeviceKind::cpu, false), automatic(DeviceKind::cuda, false),
                     automatic(DeviceKind::cuda, true));
}

}  // namespace ddpbench
