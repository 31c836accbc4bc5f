// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one table of what can move data between ranks: what each backend is called, which devices it
// connects, why it is not here, and how to make it. docs/adding-a-backend.md says how to add one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/all_reduce_algorithm.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"

namespace ddpbench {

class CudaModule;

// What a communicator is told. Equal on all ranks, except for thread_cores and the functions.
struct WorldOptions {
  std::string name = "world";      // key prefix in the store; one name per communicator
  double timeout_s = 60;           // of every wait for peers
  std::vector<int> thread_cores;   // OS processors of its own thread, on CPU devices; empty: any
  std::function<void()> progress;  // after each completed operation; may be empty
  std::function<void()> joining;   // while it is made, between GPUs; may be empty
  comm::AllReduceAlgorithm all_reduce = comm::AllReduceAlgorithm::automatic;
  // REQUIRED by backends of CUDA devices.
  const CudaModule* cuda = nullptr;
};

struct CommBackend {
  std::string_view name;
  DeviceKind devices;       // the kind that it connects
  std::string_view medium;  // "shared memory of one host", for help
  // Whether ranks may share a device. Where not, --backend=auto takes another row for those, and
  // threads of one process are refused; processes can pretend to be on several hosts.
  bool shares_devices;
  // Whether a rank maps the device memory of its peers, and so must see their GPUs.
  bool maps_peers;
  // What --all-reduce may ask for beside auto; empty: the backend chooses for itself.
  std::vector<comm::AllReduceAlgorithm> all_reduces;
  // What auto runs between so many ranks; null: the backend does not tell.
  comm::AllReduceAlgorithm (*automatic_all_reduce)(int ranks);

  // Empty where it is here. `cuda`: the GPUs that were found.
  std::string (*why_not_here)(const CudaProbe& cuda);
  // Environment variables that a rank needs before its first device is made, unless they are set
  // already. `host`: the host's name. Null: none.
  std::map<std::string, std::string> (*variables)(const std::string& host, int rank, bool shared);
  // Collective over `size` processes that share `store`, each with one device, which outlives the
  // communicator. Throws CommError.
  std::unique_ptr<comm::Communicator> (*make)(comm::Store& store, int rank, int size,
                                              Device& device, const WorldOptions& options);
  // For threads of this process: one communicator a device, [rank], each used by one thread.
  std::vector<std::unique_ptr<comm::Communicator>> (*make_for_threads)(
      const std::vector<Device*>& devices, const WorldOptions& options);
};

// --backend=auto takes the first row that connects the kind of devices, and lets them be shared if
// they are.
std::span<const CommBackend> comm_backends();
// Null when there is none of that name.
const CommBackend* find_comm_backend(std::string_view name);
// REQUIRES: there is one.
const CommBackend& comm_backend(std::string_view name);
// The row that --backend=auto takes.
const CommBackend& automatic_backend(DeviceKind devices, bool shared);

// The word of --all-reduce that names what runs between so many ranks if `wanted` is asked for;
// empty where the backend does not tell. Throws ConfigError when the backend chooses for itself and
// something is wanted, UnavailableError when it has not got that algorithm.
std::string all_reduce_name(const CommBackend& backend, std::string_view wanted, int ranks);

// An old name of those that connect ranks without a library: shm on CPU devices, ipc on GPUs.
inline constexpr std::string_view kBackendAlias = "ring";
// The name that `word`, "auto" or a name or the alias, stands for on devices of that kind; "auto"
// stays.
std::string backend_name(std::string_view word, DeviceKind devices);
// Everything that --backend takes: "auto", the names, the alias.
std::vector<std::string> backend_words();
// "What moves data between ranks: shm (CPU devices: shared memory of one host), ...", for help.
std::string backend_help();

}  // namespace ddpbench
