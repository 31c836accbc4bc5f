// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one table of backends, which move data between ranks. docs/adding-a-backend.md: how to add
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/device.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"

namespace ddpbench {

// Where the ranks of a world are.
struct RankNetwork {
  bool on_one_host = false;  // all of them, known for sure
  int ranks = 1;
  // This host's network interface that ranks of several hosts are to use. Empty: any.
  std::string interface = {};
};

// The bytes that are free in /dev/shm; 0 where the system does not say.
std::uintmax_t free_shared_memory();
// A warning where so many ranks of a backend on this host may find too little of it; else nothing.
std::string shared_memory_warning(std::string_view backend, int ranks, std::uintmax_t free_bytes);

// What the variables of a backend's library depend on.
struct RankSurroundings {
  std::string host;  // its name
  int rank = 0;
  bool shares_device = false;
  RankNetwork network = {};
};

struct CommBackend {
  std::string_view name;
  // The kind that it connects. What connects CPU devices connects GPUs, too, through host memory
  // (comm::make_staged), in steps that are not recorded.
  DeviceKind devices;
  std::string_view medium;  // "shared memory of one host", for help
  // Its module (libddpbench_NAME.so), which is opened when it is asked for, and what that needs:
  // the library's name and Debian's package. Empty: it has none, or is in the CUDA module.
  std::string_view module = {};
  std::string_view library = {};
  std::string_view package = {};
  // What has to start the ranks ("mpirun"); empty: anything, this program included.
  std::string_view launcher = {};
  // Whether ranks may share a device. Where not, --backend=auto takes another row for ranks that
  // do, and threads of one process are refused; processes can pretend to be on several hosts.
  bool shares_devices;
  bool spans_hosts = false;     // whether it connects ranks of several hosts
  bool emulates_links = false;  // between CPU devices (WorldOptions::link)
  bool has_threads = false;     // whether its library moves bytes on threads of its own
  // The algorithm that --all-reduce=auto runs for so many bytes between so many ranks; null: the
  // library's own, and none can be asked for.
  comm::AllReduceAlgorithm (*automatic_all_reduce)(int ranks, std::size_t bytes) = nullptr;
  // The all-reduce of a library, "MPI_Iallreduce"; empty: it does not tell, or the backend has
  // none.
  std::string_view own_all_reduce = {};
  // Its library has no reduce-scatter: that is an all-reduce, of which each rank keeps its part.
  bool composes_reduce_scatter = false;
  // Environment variables that a rank needs before its first device is made and its module is
  // opened, unless they are set already. Null: none.
  std::map<std::string, std::string> (*variables)(const RankSurroundings& rank);
  // Collective over `size` processes that share `store`, each with one device. The device outlives
  // the communicator. Throws CommError.
  std::unique_ptr<comm::Communicator> (*make)(comm::Store& store, int rank, int size,
                                              Device& device, const WorldOptions& options);
  // For so many threads of this process, which share all memory: [rank], each used by one thread.
  // Null: each thread makes its own by make().
  std::vector<std::unique_ptr<comm::Communicator>> (*make_for_threads)(
      int size, const WorldOptions& options) = nullptr;
};

std::span<const CommBackend> comm_backends();
// Null when no row has that name.
const CommBackend* find_comm_backend(std::string_view name);
// REQUIRES: a row has that name.
const CommBackend& comm_backend(std::string_view name);
// Whether devices of that kind can use the backend.
bool connects(const CommBackend& backend, DeviceKind kind);
// Whether the backend moves data of such devices through host memory (comm::make_staged).
bool is_staged(const CommBackend& backend, DeviceKind kind);
// The row that --backend=auto takes: the first that is made for the kind of devices, or, where
// devices are shared and it does not allow that, the first that connects them.
const CommBackend& automatic_backend(DeviceKind devices, bool shared);
// The first row that connects such devices of several hosts.
const CommBackend& backend_between_hosts(DeviceKind devices);

// More than what an algorithm for few bytes is for.
inline constexpr std::size_t kManyBytes = std::size_t{1} << 30;
// The word of --all-reduce for the algorithm that runs between so many ranks when `wanted` is
// given, or the library's own (own_all_reduce); empty where the backend does not tell. Throws
// ConfigError when the backend chooses for itself and an algorithm is wanted.
std::string all_reduce_name(const CommBackend& backend, std::string_view wanted, int ranks,
                            std::size_t bytes = kManyBytes);

// All words that --backend takes: "auto" and the names.
std::vector<std::string> backend_words();
// "CPU devices: shared memory of one host"; "CPU devices, and GPUs through host memory: TCP".
std::string backend_connects(const CommBackend& backend);
// "What moves data between ranks: shm (CPU devices: shared memory of one host), ...", for help.
std::string backend_help();

}  // namespace ddpbench
