// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "nccl" backend. Rank 0's unique id goes through the store.
//
// NCCL's communicator blocks: a call returns when it is queued. That costs the host microseconds,
// where a non-blocking one makes a thread a call. Two things may hang nevertheless: making the
// communicator, which a thread of its own bounds (join_before), and a first call whose peer is lost
// while connections are made; the watchdog then aborts NCCL, so the call returns. The program sets
// NCCL_RUNTIME_CONNECT=0, so collectives are connected when the communicator is made.
//
// Average is ncclAvg: NCCL scales before it adds, so an average is rounded more than once.
#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "kernels/runtime/cuda/cuda_calls.h"
#include "parallel/comm/cuda/cuda_communicator.h"

namespace ddpbench::comm {

namespace {

// How long the watchdog waits for a call to return by itself before it aborts NCCL under it.
constexpr auto kAbortPatience = std::chrono::seconds(1);

// Throws CommError "<what>: <NCCL's text>: <its last error>" unless `result` is success.
void check_nccl(ncclResult_t result, ncclComm_t communicator, const std::string& what) {
  if (result == ncclSuccess) return;
  throw CommError(fmt::format("{}: NCCL: {}: {}", what, ncclGetErrorString(result),
                              ncclGetLastError(communicator)));
}

// By the enumerators' numbers.
ncclDataType_t type_of(DataType type) {
  constexpr std::array kTypes = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16,
                                 ncclInt32,   ncclInt64,   ncclUint8};
  return kTypes.at(static_cast<std::size_t>(type));
}

ncclRedOp_t op_of(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::average ? ncclAvg : ncclMax;
}

class NcclCommunicator final : public CudaCommunicator {
 public:
  // Takes over `nccl`.
  NcclCommunicator(ncclComm_t nccl, Device& device, int rank, int size, const WorldOptions& options)
      : CudaCommunicator(device, rank, size, options),
        nccl_(nccl),
        barrier_(device.allocate(sizeof(std::int32_t), MemoryCategory::communication)) {
    start_watching();
  }

  ~NcclCommunicator() override {
    // The last call may be about to end.
    const Deadline patience = deadline_after(1);
    while (cudaStreamQuery(stream()) == cudaErrorNotReady && !monitor().failed() &&
           !has_passed(patience)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // This is asked before the watchdog ends, because that fails what comes later. A rank that is
    // done must not abort: others may still work with each other, as servers do with the remaining
    // workers.
    const bool idle = cudaStreamQuery(stream()) == cudaSuccess && !monitor().failed();
    stop_watching();
    if (nccl_ == nullptr) return;
    // Destroying waits for all calls, and for CUDA graphs that hold such calls.
    static_cast<void>(idle ? ncclCommDestroy(nccl_) : ncclCommAbort(nccl_));
  }

  std::string backend() const override { return "nccl"; }

  void register_buffer(const Buffer& buffer) override {
    if (buffer.bytes() == 0) return;
    const cuda::CurrentDevice current(ordinal());
    const std::lock_guard lock(mutex_);
    if (nccl_ == nullptr) monitor().throw_if_failed();
    void* handle = nullptr;
    check_nccl(ncclCommRegister(nccl_, buffer.data(), buffer.bytes(), &handle), nccl_,
               fmt::format("{}registering {} bytes", monitor().prefix(nullptr), buffer.bytes()));
    registrations_[buffer.data()] = handle;
  }

  void deregister_buffer(const Buffer& buffer) override {
    if (buffer.bytes() == 0) return;
    const std::lock_guard lock(mutex_);
    const auto found = registrations_.find(buffer.data());
    ensure(found != registrations_.end(), "a buffer of {} bytes was not registered",
           buffer.bytes());
    void* const handle = found->second;
    registrations_.erase(found);
    if (nccl_ == nullptr || handle == nullptr) return;
    const cuda::CurrentDevice current(ordinal());
    check_nccl(ncclCommDeregister(nccl_, handle), nccl_,
               fmt::format("{}deregistering {} bytes", monitor().prefix(nullptr), buffer.bytes()));
  }

 private:
  void launch(Works works) override {
    const std::lock_guard lock(mutex_);
    if (nccl_ == nullptr) monitor().throw_if_failed();
    check_result(ncclGroupStart(), nullptr);
    try {
      for (const auto& work : works) queue(work->operation());
    } catch (...) {
      static_cast<void>(ncclGroupEnd());  // or the thread's next call would belong to this group
      throw;
    }
    check_result(ncclGroupEnd(), &works.front()->operation());
  }

  // Operations without elements are skipped; all ranks agree on that.
  void queue(const Operation& operation) {
    const Elements& in = operation.in;
    const Elements& out = operation.out;
    const bool is_barrier = operation.kind == OperationKind::barrier;
    if (!is_barrier && operation.part().count == 0) return;
    const ncclDataType_t type = type_of(operation.part().type);
    const ncclRedOp_t op = op_of(operation.op);
    const int root = operation.root;
    const auto queued = [&] {
      switch (operation.kind) {
        case OperationKind::all_reduce:
          return ncclAllReduce(in.data, in.data, in.count, type, op, nccl_, stream());
        case OperationKind::reduce:
          return ncclReduce(in.data, in.data, in.count, type, op, root, nccl_, stream());
        case OperationKind::broadcast:
          return ncclBroadcast(in.data, in.data, in.count, type, root, nccl_, stream());
        case OperationKind::all_gather:
          return ncclAllGather(in.data, out.data, in.count, type, nccl_, stream());
        case OperationKind::reduce_scatter:
          return ncclReduceScatter(in.data, out.data, out.count, type, op, nccl_, stream());
        case OperationKind::send:
          return ncclSend(in.data, in.count, type, root, nccl_, stream());
        case OperationKind::recv:
          return ncclRecv(out.data, out.count, type, root, nccl_, stream());
        case OperationKind::barrier:
          return ncclAllReduce(barrier_.data(), barrier_.data(), 1, ncclInt32, ncclSum, nccl_,
                               stream());
        default:
          return queue_parts(operation);
      }
    };
    check_result(queued(), &operation);
  }

  // NCCL has no scatter and gather of its own: the root exchanges a message with every rank.
  ncclResult_t queue_parts(const Operation& operation) {
    const bool scatters = operation.kind == OperationKind::scatter;
    const Elements part = operation.part();
    const ncclDataType_t type = type_of(part.type);
    const auto exchange = [&](void* place, int peer, bool sends) {
      return sends ? ncclSend(place, part.count, type, peer, nccl_, stream())
                   : ncclRecv(place, part.count, type, peer, nccl_, stream());
    };
    if (rank() != operation.root) return exchange(part.data, operation.root, !scatters);
    const Elements& whole = scatters ? operation.in : operation.out;
    for (int peer = 0; peer < size(); ++peer) {
      std::byte* const place = whole.place_of(peer, part);
      if (peer == rank()) {
        if (place == part.data) continue;
        cuda::check(cudaMemcpyAsync(scatters ? part.data : place, scatters ? place : part.data,
                                    part.bytes(), cudaMemcpyDeviceToDevice, stream()),
                    "copying the root's own part");
      } else if (const ncclResult_t result = exchange(place, peer, scatters);
                 result != ncclSuccess) {
        return result;
      }
    }
    return ncclSuccess;
  }

  std::string asynchronous_error() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || nccl_ == nullptr) return "";
    ncclResult_t error = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(nccl_, &error);
    if (result != ncclSuccess) error = result;
    if (error == ncclSuccess || error == ncclInProgress) return "";
    return fmt::format("NCCL failed: {}: {}", ncclGetErrorString(error), ncclGetLastError(nccl_));
  }

  void abandon() noexcept override {
    // A thread that hangs in NCCL keeps the mutex, and aborting is what makes NCCL return.
    std::unique_lock lock(mutex_, std::try_to_lock);
    for (const Deadline end = DeadlineClock::now() + kAbortPatience; !lock && !has_passed(end);) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      static_cast<void>(lock.try_lock());
    }
    const ncclComm_t nccl = nccl_.exchange(nullptr);
    // Aborting waits for CUDA graphs that hold NCCL's calls. No thread may wait for the mutex
    // meanwhile.
    if (lock) lock.unlock();
    if (nccl != nullptr) static_cast<void>(ncclCommAbort(nccl));
  }

  void check_result(ncclResult_t result, const Operation* operation) const {
    if (result == ncclSuccess) return;
    check_nccl(result, nccl_,
               monitor().prefix(nullptr) + (operation ? describe(*operation) : "NCCL's group"));
  }

  // A thread holds it while it is inside NCCL, so that the watchdog does not free what is in use.
  std::mutex mutex_;
  // Null once aborted. An abort under a call that does not return happens without the mutex.
  std::atomic<ncclComm_t> nccl_;
  Buffer barrier_;  // one number
  std::map<const void*, void*> registrations_;
};

// NCCL has no deadline for joining.
ncclComm_t join_before(double timeout_s, const ncclUniqueId& id, int rank, int size, int ordinal) {
  const auto made = call_before(deadline_after(timeout_s), [=] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    const cuda::CurrentDevice current(ordinal);
    ncclComm_t joined = nullptr;
    check_nccl(ncclCommInitRankConfig(&joined, size, id, rank, &config), nullptr,
               fmt::format("rank {} of {}: joining", rank, size));
    return joined;
  });
  if (made) return *made;
  throw CommTimeout(fmt::format(
      "rank {} of {}: NCCL did not connect all ranks within {} s; NCCL_DEBUG=INFO shows "
      "how far it got",
      rank, size, timeout_s));
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(Store& store, int rank, int size, Device& device,
                                        const WorldOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  const std::string key = options.name + "/nccl_id";
  ncclUniqueId id{};
  if (rank == 0) {
    check_nccl(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
    store.set(key, {reinterpret_cast<const char*>(&id), sizeof id});
  } else {
    const std::string told = store.get(key, options.timeout_s);
    if (told.size() != sizeof id) {
      throw CommError(fmt::format("NCCL's id has {} bytes", told.size()));
    }
    std::memcpy(&id, told.data(), sizeof id);
  }
  const int ordinal = cuda::native_device(device).ordinal();
  return std::make_unique<NcclCommunicator>(join_before(options.timeout_s, id, rank, size, ordinal),
                                            device, rank, size, options);
}

std::map<std::string, std::string> cuda_comm_versions() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return {{"nccl", fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)}};
}

}  // namespace ddpbench::comm
