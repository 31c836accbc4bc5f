// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/cuda_communicator.h"

#include "kernels/runtime/cuda/cuda_calls.h"

namespace ddpbench::comm {

CudaCommunicator::CudaCommunicator(Device& device, int rank, int size, const WorldOptions& options)
    : Communicator(rank, size),
      device_(device),
      ordinal_(cuda::native_device(device).ordinal()),
      options_(options),
      monitor_(
          std::make_shared<WorkMonitor>(MonitorOptions{.rank = rank,
                                                       .size = size,
                                                       .timeout_s = options.timeout_s,
                                                       .ordinal = ordinal_,
                                                       .clock = cuda::native_device(device).clock(),
                                                       .progress = options.progress})) {
  const cuda::CurrentDevice current(ordinal_);
  // The priority of communication is above the compute streams'. So short kernels of ours do not
  // queue behind long ones.
  int lowest = 0, highest = 0;
  cuda::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
              "cudaDeviceGetStreamPriorityRange");
  cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
              "cudaStreamCreate");
  cuda::check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "cudaEventCreate");
}

CudaCommunicator::~CudaCommunicator() {
  static_cast<void>(cudaEventDestroy(fork_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

Work CudaCommunicator::issue(const Operation& operation, const CallOptions& options) {
  const cuda::CurrentDevice current(ordinal_);
  check();
  if (options.after != nullptr) {
    cuda::check(cudaEventRecord(fork_, cuda::native_stream(*options.after)), "cudaEventRecord");
    cuda::check(cudaStreamWaitEvent(stream_, fork_, cudaEventWaitDefault), "cudaStreamWaitEvent");
  }
  const auto work = std::make_shared<CudaWork>(monitor_, operation);
  if (group_depth_ > 0) {
    group_.push_back(work);
  } else {
    run({&work, 1});
  }
  return Work(work);
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
    for (const auto& work : group_) work->fail(std::current_exception());
    group_.clear();
    throw;
  }
  group_.clear();
}

void CudaCommunicator::run(Works works) {
  try {
    monitor_->launching(works.front());
    for (const auto& work : works) work->begin(stream_);
    launch(works);
    for (const auto& work : works) work->end(stream_);
    monitor_->launching(nullptr);
  } catch (const Error&) {
    monitor_->launching(nullptr);
    // What was queued so far may wait for what was not, so this rank is of no use to the others.
    monitor_->fail(std::current_exception());
    // When the watchdog ended the call, its reason came first and says more.
    monitor_->throw_if_failed();
  }
  for (const auto& work : works) monitor_->watch(work);
}

}  // namespace ddpbench::comm
