// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_group.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/runtime/device.h"

namespace ddpbench {
namespace {

class ThreadReplicaGroup final : public ReplicaGroup {
 public:
  explicit ThreadReplicaGroup(std::vector<Device*> devices) : devices_(std::move(devices)) {
    devices_[0]->bind_calling_thread();
    for (std::size_t i = 1; i < devices_.size(); ++i) {
      threads_.emplace_back([this, i] { lead(i); });
    }
  }

  ~ThreadReplicaGroup() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    begin_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  std::size_t size() const override { return devices_.size(); }

  void run(const std::function<void(std::size_t)>& work,
           const std::function<void(const char*)>& on_failure) override {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      on_failure_ = &on_failure;
      running_ = threads_.size();
      ++generation_;
    }
    begin_.notify_all();
    execute(0);
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [this] { return running_ == 0; });
    }
    if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
  }

 private:
  void lead(std::size_t i) {
    devices_[i]->bind_calling_thread();
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [&] { return ending_ || generation_ != seen; });
        if (ending_) return;
        seen = generation_;
      }
      execute(i);
      const std::lock_guard lock(mutex_);
      if (--running_ == 0) done_.notify_one();
    }
  }

  void execute(std::size_t i) {
    try {
      (*work_)(i);
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex_);
        if (!first_error_) first_error_ = std::current_exception();
      }
      if (*on_failure_) (*on_failure_)(error.what());
    }
  }

  std::vector<Device*> devices_;
  std::vector<std::thread> threads_;  // for devices 1...
  std::mutex mutex_;                  // guards what follows
  std::condition_variable begin_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  const std::function<void(const char*)>* on_failure_ = nullptr;
  std::exception_ptr first_error_;
  std::uint64_t generation_ = 0;
  std::size_t running_ = 0;
  bool ending_ = false;
};

}  // namespace

std::unique_ptr<ReplicaGroup> make_thread_replica_group(std::vector<Device*> devices) {
  return std::make_unique<ThreadReplicaGroup>(std::move(devices));
}

}  // namespace ddpbench
