// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of an ipc communicator meet.
#include <unistd.h>

#include <mutex>
#include <set>

#include "base/error.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"
#include "parallel/comm/cuda/ipc/ipc_communicator.h"

namespace ddpbench::comm {

namespace {

void check_size(int size) {
  if (size > kMaxIpcRanks) {
    throw UnavailableError(
        fmt::format("the ipc backend connects up to {} ranks, not {}", kMaxIpcRanks, size));
  }
}

// Lets `from` read the memory of `to`. Between processes, mapping the memory does that.
void enable_peer_access(int from, int to) {
  int possible = 0;
  cuda::check(cudaDeviceCanAccessPeer(&possible, from, to), "cudaDeviceCanAccessPeer");
  if (possible == 0) {
    throw UnavailableError(fmt::format(
        "GPU {} cannot read the memory of GPU {}, which the ipc backend needs; use --backend=nccl",
        from, to));
  }
  const cuda::CurrentDevice current(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  static_cast<void>(cudaGetLastError());
  if (status != cudaErrorPeerAccessAlreadyEnabled) {
    cuda::check(status, "cudaDeviceEnablePeerAccess");
  }
}

// The GPUs of all ranks, where these are threads of one process; empty where each is a process.
std::vector<int> ordinals_of_threads(PeerBoard& board, int rank, int ordinal,
                                     const PeerWait& wait) {
  std::vector<int> ordinals;
  std::set<std::string> processes;
  for (const std::string& place :
       board.exchange(rank, fmt::format("{} {}", ::getpid(), ordinal), wait)) {
    const std::size_t space = place.find(' ');
    processes.insert(place.substr(0, space));
    ordinals.push_back(std::stoi(place.substr(space + 1)));
  }
  if (processes.size() == ordinals.size()) return {};
  if (processes.size() == 1) return ordinals;
  throw UnavailableError(fmt::format(
      "the {} ranks are threads of {} processes; the ipc backend connects processes, or "
      "the threads of one",
      ordinals.size(), processes.size()));
}

}  // namespace

IpcMeeting meet_processes(PeerBoard& board, const std::string& name, int rank,
                          const PeerWait& wait) {
  IpcMeeting meeting;
  std::string handle;
  if (rank == 0) {
    meeting.control = IpcControl::create(name, board.size());
    handle = meeting.control->handle();
  }
  const std::string offered = board.exchange(rank, handle, wait).front();
  if (rank != 0) meeting.control = IpcControl::open(offered, board.size());
  board.exchange(rank, "", wait);
  return meeting;
}

IpcMeeting meet_threads(const std::string& name, const std::vector<int>& ordinals) {
  for (const int from : ordinals) {
    for (const int to : ordinals) {
      if (from != to) enable_peer_access(from, to);
    }
  }
  const cuda::CurrentDevice current(ordinals.front());
  return {.control = IpcControl::create(name, static_cast<int>(ordinals.size())),
          .events = make_thread_events(ordinals)};
}

// The first rank makes what all share, and tells the others where it is. The board's exchange
// orders the ranks, but each has mapped it at an address of its own, so that a checker of races
// sees that by the lock alone. Rank 0 takes it once more before its object goes.
IpcMeeting meet_threads(PeerBoard& board, const std::string& name, int rank,
                        const std::vector<int>& ordinals, const PeerWait& wait) {
  static std::mutex making;
  IpcMeeting meeting;
  std::string token;
  if (rank == 0) {
    const std::lock_guard lock(making);
    meeting = meet_threads(name, ordinals);
    token = std::to_string(reinterpret_cast<std::uintptr_t>(&meeting));
  }
  const std::string first = board.exchange(rank, token, wait).front();
  if (rank != 0) {
    const std::lock_guard lock(making);
    meeting = *reinterpret_cast<const IpcMeeting*>(static_cast<std::uintptr_t>(std::stoull(first)));
  }
  board.exchange(rank, "", wait);  // all have read it
  const std::lock_guard lock(making);
  return meeting;
}

std::unique_ptr<Communicator> make_ipc(Store& store, int rank, int size, Device& device,
                                       const CudaCommOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  check_size(size);
  const int ordinal = cuda::native_device(device).ordinal();
  const cuda::CurrentDevice current(ordinal);
  const PeerWait wait = joining_wait(options);
  auto board = PeerBoard::meet(store, options.name, rank, size, wait);
  if (!board) {
    throw CommError(
        fmt::format("the {} ranks are on several hosts, or in several PID namespaces; the ipc "
                    "backend connects "
                    "processes of one host",
                    size));
  }
  const std::vector<int> ordinals = ordinals_of_threads(*board, rank, ordinal, wait);
  IpcMeeting meeting = ordinals.empty() ? meet_processes(*board, options.name, rank, wait)
                                        : meet_threads(*board, options.name, rank, ordinals, wait);
  return std::make_unique<IpcCommunicator>(device, rank, std::move(board), options,
                                           std::move(meeting));
}

std::vector<std::unique_ptr<Communicator>> make_thread_ipc(const std::vector<Device*>& devices,
                                                           const CudaCommOptions& options) {
  ensure(!devices.empty(), "a communicator of no threads");
  const auto size = static_cast<int>(devices.size());
  check_size(size);
  std::vector<int> ordinals;
  for (Device* const device : devices) {
    ordinals.push_back(cuda::native_device(*device).ordinal());
  }
  const IpcMeeting meeting = meet_threads(options.name, ordinals);
  const auto board = PeerBoard::create(options.name, size, FutexScope::process);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    board->attach(rank);
    communicators.push_back(std::make_unique<IpcCommunicator>(
        *devices[static_cast<std::size_t>(rank)], rank, board, options, meeting));
  }
  return communicators;
}

}  // namespace ddpbench::comm
