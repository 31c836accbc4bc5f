// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/strategy.h"

#include <barrier>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/runtime/device.h"

namespace ddpbench {
namespace {

class ThreadReplicaGroup final : public ReplicaGroup {
 public:
  explicit ThreadReplicaGroup(std::vector<Device*> devices)
      : devices_(std::move(devices)), gate_(static_cast<std::ptrdiff_t>(devices_.size())) {
    devices_[0]->bind_calling_thread();
    for (std::size_t i = 1; i < devices_.size(); ++i) {
      threads_.emplace_back([this, i] { lead(i); });
    }
  }

  ~ThreadReplicaGroup() override {
    work_ = nullptr;
    gate_.arrive_and_wait();
    for (auto& thread : threads_) thread.join();
  }

  void run(const std::function<void(std::size_t)>& work,
           const std::function<void(const char*)>& on_failure) override {
    work_ = &work;
    on_failure_ = &on_failure;
    gate_.arrive_and_wait();
    execute(0);
    gate_.arrive_and_wait();
    if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
  }

 private:
  void lead(std::size_t i) {
    devices_[i]->bind_calling_thread();
    for (;;) {
      gate_.arrive_and_wait();
      if (work_ == nullptr) return;
      execute(i);
      gate_.arrive_and_wait();
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

  const std::vector<Device*> devices_;
  std::vector<std::thread> threads_;  // for devices 1...
  std::barrier<> gate_;               // all pass it before their work and behind it
  // Set before the gate; no work ends the threads.
  const std::function<void(std::size_t)>* work_ = nullptr;
  const std::function<void(const char*)>* on_failure_ = nullptr;
  std::mutex mutex_;
  std::exception_ptr first_error_;
};

}  // namespace

std::unique_ptr<ReplicaGroup> make_thread_replica_group(std::vector<Device*> devices) {
  return std::make_unique<ThreadReplicaGroup>(std::move(devices));
}

}  // namespace ddpbench
