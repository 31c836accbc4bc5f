// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/nccl/nccl_communicator.h"

#include <thread>
#include <utility>

#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"
#include "parallel/comm/cuda/nccl/nccl_library.h"

namespace ddpbench::comm {

namespace {

// How long the watchdog waits for a call to return by itself before it aborts NCCL under it.
constexpr auto kAbortPatience = std::chrono::seconds(1);

}  // namespace

NcclCommunicator::NcclCommunicator(ncclComm_t nccl, Device& device, int rank, int size,
                                   std::shared_ptr<PeerBoard> board, const CudaCommOptions& options)
    : CudaCommunicator(device, rank, size, std::move(board), options),
      nccl_(nccl),
      barrier_(device.allocate(sizeof(std::int32_t), MemoryCategory::communication)) {
  start_watching();
}

NcclCommunicator::~NcclCommunicator() {
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

void NcclCommunicator::check_result(ncclResult_t result, const Operation* operation) const {
  if (result == ncclSuccess) return;
  nccl::check(result, nccl_,
              monitor().prefix(nullptr) + (operation ? describe(*operation) : "NCCL's group"));
}

void NcclCommunicator::launch(std::span<const Call> calls) {
  const std::lock_guard lock(mutex_);
  if (nccl_ == nullptr) monitor().throw_if_failed();
  check_result(ncclGroupStart(), nullptr);
  try {
    for (const Call& call : calls) queue(call.operation);
  } catch (...) {
    static_cast<void>(ncclGroupEnd());  // or the thread's next call would belong to this group
    throw;
  }
  check_result(ncclGroupEnd(), &calls.front().operation);
}

// Operations without elements are skipped; all ranks agree on that.
void NcclCommunicator::queue(const Operation& operation) {
  const Elements& in = operation.in;
  const Elements& out = operation.out;
  const bool is_barrier = operation.kind == OperationKind::barrier;
  if (!is_barrier && operation.part().count == 0) return;
  const ncclDataType_t type = nccl::type_of(operation.part().type);
  const ncclRedOp_t op = nccl::op_of(operation.op);
  const int root = operation.root;
  switch (operation.kind) {
    case OperationKind::all_reduce:
      return check_result(ncclAllReduce(in.data, in.data, in.count, type, op, nccl_, stream()),
                          &operation);
    case OperationKind::reduce:
      return check_result(ncclReduce(in.data, in.data, in.count, type, op, root, nccl_, stream()),
                          &operation);
    case OperationKind::broadcast:
      return check_result(ncclBroadcast(in.data, in.data, in.count, type, root, nccl_, stream()),
                          &operation);
    case OperationKind::all_gather:
      return check_result(ncclAllGather(in.data, out.data, in.count, type, nccl_, stream()),
                          &operation);
    case OperationKind::reduce_scatter:
      return check_result(
          ncclReduceScatter(in.data, out.data, out.count, type, op, nccl_, stream()), &operation);
    case OperationKind::send:
      return check_result(ncclSend(in.data, in.count, type, root, nccl_, stream()), &operation);
    case OperationKind::recv:
      return check_result(ncclRecv(out.data, out.count, type, root, nccl_, stream()), &operation);
    case OperationKind::barrier:
      return check_result(
          ncclAllReduce(barrier_.data(), barrier_.data(), 1, ncclInt32, ncclSum, nccl_, stream()),
          &operation);
    case OperationKind::scatter:
    case OperationKind::gather:
      return queue_parts(operation);
  }
}

// NCCL has no scatter and gather of its own: the root exchanges a message with every rank.
void NcclCommunicator::queue_parts(const Operation& operation) {
  const bool scatters = operation.kind == OperationKind::scatter;
  const Elements part = operation.part();
  const ncclDataType_t type = nccl::type_of(part.type);
  if (rank() != operation.root) {
    return check_result(
        scatters ? ncclRecv(part.data, part.count, type, operation.root, nccl_, stream())
                 : ncclSend(part.data, part.count, type, operation.root, nccl_, stream()),
        &operation);
  }
  auto* const whole = static_cast<std::byte*>(scatters ? operation.in.data : operation.out.data);
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const place = whole + static_cast<std::size_t>(peer) * part.bytes();
    if (peer == rank()) {
      copy_own_part(scatters ? part.data : place, scatters ? place : part.data, part.bytes());
    } else {
      check_result(scatters ? ncclSend(place, part.count, type, peer, nccl_, stream())
                            : ncclRecv(place, part.count, type, peer, nccl_, stream()),
                   &operation);
    }
  }
}

void NcclCommunicator::copy_own_part(void* to, const void* from, std::size_t bytes) {
  if (to == from) return;
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()),
              "copying the root's own part");
}

std::string NcclCommunicator::asynchronous_error() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || nccl_ == nullptr) return "";
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(nccl_, &error);
  if (result != ncclSuccess) error = result;
  if (error == ncclSuccess || error == ncclInProgress) return "";
  return fmt::format("NCCL failed: {}: {}", ncclGetErrorString(error), ncclGetLastError(nccl_));
}

bool NcclCommunicator::abandon() noexcept {
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
  return true;
}

void NcclCommunicator::register_buffer(const Buffer& buffer) {
  if (buffer.bytes() == 0) return;
  const cuda::CurrentDevice current(ordinal());
  const std::lock_guard lock(mutex_);
  if (nccl_ == nullptr) monitor().throw_if_failed();
  void* handle = nullptr;
  nccl::check(ncclCommRegister(nccl_, buffer.data(), buffer.bytes(), &handle), nccl_,
              fmt::format("{}registering {} bytes", monitor().prefix(nullptr), buffer.bytes()));
  registrations_[buffer.data()] = handle;
}

void NcclCommunicator::deregister_buffer(const Buffer& buffer) {
  if (buffer.bytes() == 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = registrations_.find(buffer.data());
  if (found == registrations_.end()) {
    throw CommError(fmt::format(
        "a buffer of {} bytes was not registered and cannot be deregistered", buffer.bytes()));
  }
  void* const handle = found->second;
  registrations_.erase(found);
  if (nccl_ == nullptr || handle == nullptr) return;
  const cuda::CurrentDevice current(ordinal());
  nccl::check(ncclCommDeregister(nccl_, handle), nccl_,
              fmt::format("{}deregistering {} bytes", monitor().prefix(nullptr), buffer.bytes()));
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  const cuda::CurrentDevice current(ordinal());
  Part part{.options = options()};
  if (board()) part = split_board(color, key);
  ncclComm_t made = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (nccl_ == nullptr) monitor().throw_if_failed();
    nccl::check(ncclCommSplit(nccl_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &made, nullptr),
                nccl_, monitor().prefix(nullptr) + "split");
  }
  if (made == nullptr) return nullptr;
  int made_rank = 0, made_size = 0;
  nccl::check(ncclCommUserRank(made, &made_rank), made, "ncclCommUserRank");
  nccl::check(ncclCommCount(made, &made_size), made, "ncclCommCount");
  return std::make_unique<NcclCommunicator>(made, device(), made_rank, made_size, part.board,
                                            part.options);
}

}  // namespace ddpbench::comm
