// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/ipc/ipc_signals.h"

#include <atomic>
#include <deque>
#include <thread>

#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"
#include "parallel/comm/cuda/cuda_work.h"
#include "parallel/comm/cuda/ipc/ipc_plan.h"
#include "parallel/comm/cuda/stream_memory_operations.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {
namespace {

std::size_t pairs(int size) {
  return static_cast<std::size_t>(kIpcSets) * static_cast<std::size_t>(size) *
         static_cast<std::size_t>(size);
}

std::size_t flags_offset(int size) { return kCacheLineBytes + pairs(size) * sizeof(std::uint64_t); }

std::size_t bytes_for(int size) { return flags_offset(size) + pairs(size) * sizeof(std::uint32_t); }

struct Awaited {
  int set, peer;
};

}  // namespace

// The memory holds a cache line for the abort word, the offers, and then the flags.

IpcControl::IpcControl(SharedMemory memory, int size) : memory_(std::move(memory)), size_(size) {
  const BufferView view = memory_.view();
  if (view.bytes < bytes_for(size)) {
    throw CommError(
        fmt::format("the control memory of ipc has {} bytes, not {}", view.bytes, bytes_for(size)));
  }
  // Portable, because threads that drive other GPUs use it, too.
  cuda::check(
      cudaHostRegister(view.data, view.bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
      "locking the control memory of ipc (cudaHostRegister)");
  void* address = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&address, view.data, 0);
  if (status != cudaSuccess) static_cast<void>(cudaHostUnregister(view.data));
  cuda::check(status, "cudaHostGetDevicePointer");
  device_ = reinterpret_cast<std::uintptr_t>(address);
}

IpcControl::~IpcControl() { static_cast<void>(cudaHostUnregister(memory_.view().data)); }

std::shared_ptr<IpcControl> IpcControl::create(const std::string& name, int size) {
  return std::shared_ptr<IpcControl>(
      new IpcControl(SharedMemory::create("ddpbench-ipc-" + name, bytes_for(size)), size));
}

std::shared_ptr<IpcControl> IpcControl::open(const std::string& handle, int size) {
  return std::shared_ptr<IpcControl>(new IpcControl(SharedMemory::open(handle), size));
}

std::size_t IpcControl::number(int set, int from, int to) const noexcept {
  return static_cast<std::size_t>((set * size_ + from) * size_ + to);
}

std::uint32_t& IpcControl::aborted() const noexcept {
  return *reinterpret_cast<std::uint32_t*>(memory_.view().data);
}

std::uint32_t& IpcControl::flag(int set, int from, int to) const noexcept {
  return reinterpret_cast<std::uint32_t*>(memory_.view().data +
                                          flags_offset(size_))[number(set, from, to)];
}

std::uint64_t IpcControl::device_flag(int set, int from, int to) const noexcept {
  return device_ + flags_offset(size_) + number(set, from, to) * sizeof(std::uint32_t);
}

std::uint64_t IpcControl::device_offer(int set, int from, int to) const noexcept {
  return device_ + kCacheLineBytes + number(set, from, to) * sizeof(std::uint64_t);
}

// The flag (set, from, to) is an event and a mark that the sender's host has recorded it.
class ThreadEvents {
 public:
  explicit ThreadEvents(const std::vector<int>& ordinals)
      : size_(static_cast<int>(ordinals.size())) {
    for (int set = 0; set < kIpcSets; ++set) {
      for (const int from : ordinals) {
        const cuda::CurrentDevice current(from);
        for (int to = 0; to < size_; ++to) {
          flags_.emplace_back();
          cuda::check(cudaEventCreateWithFlags(&flags_.back().event, cudaEventDisableTiming),
                      "cudaEventCreate");
        }
      }
    }
  }
  ~ThreadEvents() {
    for (const Flag& flag : flags_) static_cast<void>(cudaEventDestroy(flag.event));
  }
  ThreadEvents(const ThreadEvents&) = delete;
  ThreadEvents& operator=(const ThreadEvents&) = delete;

  struct Flag {
    std::atomic<bool> recorded = false;
    cudaEvent_t event = nullptr;
  };
  Flag& flag(int set, int from, int to) {
    return flags_[static_cast<std::size_t>((set * size_ + from) * size_ + to)];
  }

 private:
  int size_;
  std::deque<Flag> flags_;
};

std::shared_ptr<ThreadEvents> make_thread_events(const std::vector<int>& ordinals) {
  return std::make_shared<ThreadEvents>(ordinals);
}

namespace {

class FlagSignals final : public IpcSignals {
 public:
  FlagSignals(std::shared_ptr<IpcControl> control, int rank)
      : control_(std::move(control)), rank_(rank) {}

  void signal(int set, int peer, std::uint64_t offer) override {
    if (offer != 0) raised_.write64(control_->device_offer(set, rank_, peer), offer);
    raised_.write32(control_->device_flag(set, rank_, peer), 1);
  }
  void await(int set, int peer) override { awaited_.push_back({set, peer}); }

  // Two batches, so that what peers wait for does not depend on how a batch with waits is executed.
  // All flags are up before the first is taken down. NCCL's copy-engine collectives do the same.
  void flush(cudaStream_t stream, const Operation&) override {
    raised_.queue(stream);
    for (const Awaited& wait : awaited_) taken_.wait32(flag(wait), 1);
    for (const Awaited& wait : awaited_) taken_.write32(flag(wait), 0);
    awaited_.clear();
    taken_.queue(stream);
  }

  // The streams take down the raised flags and wait again, so the watchdog releases them again.
  void release() noexcept override {
    for (int set = 0; set < kIpcSets; ++set) {
      for (int peer = 0; peer < control_->size(); ++peer) {
        std::atomic_ref(control_->flag(set, peer, rank_)).store(1);
      }
    }
  }

 private:
  std::uint64_t flag(const Awaited& wait) const {
    return control_->device_flag(wait.set, wait.peer, rank_);
  }

  const std::shared_ptr<IpcControl> control_;
  const int rank_;
  StreamMemoryOperations raised_, taken_;
  std::vector<Awaited> awaited_;
};

class EventSignals final : public IpcSignals {
 public:
  EventSignals(std::shared_ptr<IpcControl> control, std::shared_ptr<ThreadEvents> events, int rank,
               double timeout_s, WaitLook look)
      : control_(std::move(control)),
        events_(std::move(events)),
        rank_(rank),
        timeout_s_(timeout_s),
        look_(std::move(look)) {}

  void signal(int set, int peer, std::uint64_t offer) override {
    if (offer != 0) offers_.write64(control_->device_offer(set, rank_, peer), offer);
    signals_.push_back({set, peer});
  }
  void await(int set, int peer) override { awaited_.push_back({set, peer}); }

  void flush(cudaStream_t stream, const Operation& operation) override {
    if (signals_.empty() && awaited_.empty()) return;
    ensure(!is_recording(stream),
           "ipc between threads cannot be recorded into a CUDA graph; use --backend=nccl");
    offers_.queue(stream);
    for (const Awaited& signal : signals_) {
      ThreadEvents::Flag& flag = events_->flag(signal.set, rank_, signal.peer);
      cuda::check(cudaEventRecord(flag.event, stream), "cudaEventRecord");
      flag.recorded.store(true, std::memory_order_release);
    }
    signals_.clear();
    const Deadline deadline = deadline_after(timeout_s_);
    for (const Awaited& wait : awaited_) {
      ThreadEvents::Flag& flag = events_->flag(wait.set, wait.peer, rank_);
      await_host(flag, wait.peer, operation, deadline);
      cuda::check(cudaStreamWaitEvent(stream, flag.event, cudaEventWaitDefault),
                  "cudaStreamWaitEvent");
      flag.recorded.store(false, std::memory_order_release);
    }
    awaited_.clear();
  }

  void release() noexcept override {}  // streams wait for queued work only

 private:
  void await_host(const ThreadEvents::Flag& flag, int peer, const Operation& operation,
                  Deadline deadline) {
    constexpr int kYields = 1000;
    for (int looks = 0; !flag.recorded.load(std::memory_order_acquire); ++looks) {
      if (looks < kYields) {
        std::this_thread::yield();
        continue;
      }
      try {
        look_(peer, operation, deadline);
      } catch (...) {
        awaited_.clear();
        throw;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  const std::shared_ptr<IpcControl> control_;
  const std::shared_ptr<ThreadEvents> events_;
  const int rank_;
  const double timeout_s_;
  const WaitLook look_;
  StreamMemoryOperations offers_;
  std::vector<Awaited> signals_, awaited_;
};

}  // namespace

std::unique_ptr<IpcSignals> make_flag_signals(std::shared_ptr<IpcControl> control, int rank) {
  return std::make_unique<FlagSignals>(std::move(control), rank);
}

std::unique_ptr<IpcSignals> make_event_signals(std::shared_ptr<IpcControl> control,
                                               std::shared_ptr<ThreadEvents> events, int rank,
                                               double timeout_s, WaitLook look) {
  return std::make_unique<EventSignals>(std::move(control), std::move(events), rank, timeout_s,
                                        std::move(look));
}

}  // namespace ddpbench::comm
