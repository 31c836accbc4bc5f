// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/cuda_communicator.h"

#include <algorithm>
#include <string>

#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/cuda/current_device.h"
#include "parallel/comm/shm/peers/shared_part.h"

namespace ddpbench::comm {

namespace {

// While it lives, the watchdog knows that its thread is inside the calls that queue `work`.
class Launching {
 public:
  Launching(WorkMonitor& monitor, const std::shared_ptr<CudaWork>& work) : monitor_(monitor) {
    monitor_.launching(work);
  }
  ~Launching() { monitor_.launched(); }
  Launching(const Launching&) = delete;
  Launching& operator=(const Launching&) = delete;

 private:
  WorkMonitor& monitor_;
};

}  // namespace

CudaCommunicator::CudaCommunicator(Device& device, int rank, int size,
                                   std::shared_ptr<PeerBoard> board, const CudaCommOptions& options)
    : OperationCommunicator(rank, size),
      device_(device),
      ordinal_(cuda::native_device(device).ordinal()),
      options_(options),
      board_(std::move(board)),
      monitor_(
          std::make_shared<WorkMonitor>(MonitorOptions{.rank = rank,
                                                       .size = size,
                                                       .timeout_s = options.timeout_s,
                                                       .ordinal = ordinal_,
                                                       .clock = cuda::native_device(device).clock(),
                                                       .board = board_,
                                                       .progress = options.progress})) {
  const cuda::CurrentDevice current(ordinal_);
  stream_ = make_priority_stream();
  cuda::check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "cudaEventCreate");
}

CudaCommunicator::~CudaCommunicator() {
  static_cast<void>(cudaEventDestroy(fork_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaCommunicator::stop_watching() noexcept {
  monitor_->stop();
  if (board_) board_->leave(rank());
}

cudaStream_t CudaCommunicator::make_priority_stream() const {
  int lowest = 0, highest = 0;
  cuda::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
              "cudaDeviceGetStreamPriorityRange");
  cudaStream_t made = nullptr;
  cuda::check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, highest),
              "cudaStreamCreate");
  return made;
}

void CudaCommunicator::fork_from(Stream& after) {
  cuda::check(cudaEventRecord(fork_, cuda::native_stream(after)), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(stream_, fork_, cudaEventWaitDefault), "cudaStreamWaitEvent");
}

// A caller that aborts and calls again must see it at once, and not when the watchdog looks.
void CudaCommunicator::check() {
  monitor_->throw_if_failed();
  if (board_ && board_->aborted()) {
    monitor_->fail(
        std::make_exception_ptr(CommError(monitor_->prefix(nullptr) + board_->abort_reason())));
    monitor_->throw_if_failed();
  }
}

Work CudaCommunicator::issue(const Operation& operation, const CallOptions& options) {
  const cuda::CurrentDevice current(ordinal_);
  check();
  if (options.after != nullptr) fork_from(*options.after);
  std::uint64_t number = 0;
  if (board_ && is_recording(stream_)) {
    board_->stop_counting();
  } else if (board_ && !operation.is_message()) {
    number = count(operation);
  }
  const Call call{operation, monitor_->make_work(operation, number)};
  if (group_depth_ > 0) {
    group_.push_back(call);
  } else {
    run({&call, 1});
  }
  return Work(call.work);
}

std::uint64_t CudaCommunicator::count(const Operation& operation) {
  try {
    return board_->issue(rank(), operation);
  } catch (const CommError&) {
    monitor_->fail(std::current_exception());
    throw;
  }
}

void CudaCommunicator::group_start() {
  check();
  ++group_depth_;
}

void CudaCommunicator::group_end() {
  ensure(group_depth_ > 0, "group_end without group_start");
  if (--group_depth_ > 0 || group_.empty()) return;
  const cuda::CurrentDevice current(ordinal_);
  try {
    check();
    run(group_);
  } catch (...) {
    for (const Call& call : group_) call.work->fail(std::current_exception());
    group_.clear();
    throw;
  }
  group_.clear();
}

void CudaCommunicator::run(std::span<const Call> calls) {
  try {
    const Launching launching(*monitor_, calls.front().work);
    for (const Call& call : calls) call.work->begin(stream_);
    launch(calls);
    for (const Call& call : calls) call.work->end(stream_);
  } catch (const Error&) {
    // What was queued so far may wait for what was not, so this rank is of no use to the others.
    monitor_->fail(std::current_exception());
    // When the watchdog ended the call, its reason came first and says more.
    monitor_->throw_if_failed();
  }
  for (const Call& call : calls) monitor_->watch(call.work);
}

CudaCommunicator::Part CudaCommunicator::split_board(int color, int key) {
  Part part{.options = options_};
  part.options.joining = nullptr;  // its ranks are at work already
  part.options.name = fmt::format("{}/split{}.{}", options_.name, splits_++, color);
  const auto exchange = [this](const std::string& text) {
    return board_->exchange(rank(), text, timeout_s());
  };
  const SplitPart chosen = choose_part(rank(), color, key, exchange);
  part.members = chosen.members;
  part.rank = chosen.rank;
  part.board = share_in_part<PeerBoard>(chosen, part.options.name, board_->scope(), exchange);
  if (part.board) part.board->attach(part.rank);
  exchange("");  // all are on the new board
  return part;
}

}  // namespace ddpbench::comm
