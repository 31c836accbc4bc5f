// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks make NCCL's communicators: rank 0's unique id goes through the store.
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "kernels/runtime/cuda/current_device.h"
#include "parallel/comm/cuda/nccl/nccl_communicator.h"
#include "parallel/comm/cuda/nccl/nccl_library.h"

namespace ddpbench::comm {

namespace {

ncclUniqueId make_id() {
  ncclUniqueId id;
  nccl::check(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
  return id;
}

std::string text_of(const ncclUniqueId& id) { return {id.internal, sizeof(id.internal)}; }

ncclUniqueId id_of(const std::string& text) {
  ncclUniqueId id;
  if (text.size() != sizeof(id.internal)) {
    throw CommError(
        fmt::format("NCCL's id has {} bytes, not {}", text.size(), sizeof(id.internal)));
  }
  std::memcpy(id.internal, text.data(), sizeof(id.internal));
  return id;
}

// The ranks of one communicator in this process.
struct Joining {
  ncclUniqueId id{};
  int first_rank = 0, size = 1;
  std::vector<int> ordinals;  // the GPUs of ranks first_rank...
};

std::vector<ncclComm_t> join(const Joining& joining) {
  std::vector<ncclComm_t> made(joining.ordinals.size(), nullptr);
  const std::string what = fmt::format("rank {} of {}: joining", joining.first_rank, joining.size);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  nccl::check(ncclGroupStart(), nullptr, what);
  ncclResult_t result = ncclSuccess;
  for (std::size_t i = 0; i < made.size() && result == ncclSuccess; ++i) {
    const cuda::CurrentDevice current(joining.ordinals[i]);
    result = ncclCommInitRankConfig(&made[i], joining.size, joining.id,
                                    joining.first_rank + static_cast<int>(i), &config);
  }
  const ncclResult_t ended = ncclGroupEnd();
  nccl::check(result == ncclSuccess ? ended : result, nullptr, what);
  return made;
}

// NCCL has no deadline for this, so a thread does it. If it hangs, it lasts as long as the process.
std::vector<ncclComm_t> join_before(const Joining& joining, const PeerWait& wait) {
  std::packaged_task<std::vector<ncclComm_t>()> task([joining] { return join(joining); });
  std::future<std::vector<ncclComm_t>> made = task.get_future();
  std::thread thread(std::move(task));
  if (!is_ready_in_time(made, wait)) {
    thread.detach();
    throw UnfinishedJoin(
        fmt::format("rank {} of {}: NCCL did not connect all ranks within {} s; NCCL_DEBUG=INFO "
                    "shows how far it got",
                    joining.first_rank, joining.size, wait.timeout_s));
  }
  thread.join();
  return made.get();
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(Store& store, int rank, int size, Device& device,
                                        const CudaCommOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  // When this returns all ranks have come, whether or not they share a machine.
  const PeerWait wait = joining_wait(options);
  auto board = PeerBoard::meet(store, options.name, rank, size, wait);
  const std::string key = options.name + "/nccl_id";
  if (rank == 0) store.set(key, text_of(make_id()));
  const std::string id = tell_while(wait, [&] { return store.get(key, wait.timeout_s); });
  const Joining joining{.id = id_of(id),
                        .first_rank = rank,
                        .size = size,
                        .ordinals = {cuda::native_device(device).ordinal()}};
  const ncclComm_t made = join_before(joining, wait).front();
  return std::make_unique<NcclCommunicator>(made, device, rank, size, std::move(board), options);
}

std::vector<std::unique_ptr<Communicator>> make_thread_nccl(const std::vector<Device*>& devices,
                                                            const CudaCommOptions& options) {
  ensure(!devices.empty(), "a communicator of no threads");
  const auto size = static_cast<int>(devices.size());
  const auto board = PeerBoard::create(options.name, size, FutexScope::process);
  Joining joining{.id = make_id(), .size = size};
  for (Device* const device : devices) {
    joining.ordinals.push_back(cuda::native_device(*device).ordinal());
  }
  const std::vector<ncclComm_t> made = join_before(joining, joining_wait(options));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    board->attach(rank);
    communicators.push_back(
        std::make_unique<NcclCommunicator>(made[i], *devices[i], rank, size, board, options));
  }
  return communicators;
}

std::map<std::string, std::string> cuda_comm_versions() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return {{"nccl", fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)}};
}

}  // namespace ddpbench::comm
