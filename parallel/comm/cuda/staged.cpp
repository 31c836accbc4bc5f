// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StagedCommunicator: a CUDA device's end of a communicator of the host (see make_staged).
//
// The host's part of a call is a host function of the communication stream (cudaLaunchHostFunc),
// between the copy to the host and the copy back. So a stream that waits for the work waits for an
// event. Only the host's own communicator can be late: no flag has to be raised, and an abort of
// that communicator is enough to free the streams. CUDA runs host functions on a thread of its own.
// Waits for peers block that thread. CUDA allows that as long as they wait for no device work of
// this process that was queued later.
//
// Host functions of one process may run one behind the other, even those of different streams: see
// `blocks` of make_staged.
#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/cuda/cuda_calls.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/cuda/cuda_communicator.h"

namespace ddpbench::comm {

namespace {

// How long the watchdog lets the host's communicator report first, because that knows the late
// rank. Also how long the end of a communicator waits for work in flight.
constexpr double kHostPatience_s = 2;

WorldOptions options_beside(const Communicator& host) {
  WorldOptions options;
  options.timeout_s = host.timeout_s() + kHostPatience_s;
  return options;
}

// `elements` lie within `whole`. Returns them for a `whole` that is at `place`.
Elements moved(Elements elements, const Elements& whole, void* place) {
  const auto* const data = static_cast<const std::byte*>(elements.data);
  elements.data =
      static_cast<std::byte*>(place) + (data - static_cast<const std::byte*>(whole.data));
  return elements;
}

// The host's side: its communicator, and the calls on it that streams will make. It does not use
// CUDA, because host functions may not call CUDA.
struct HostCalls {
  const std::unique_ptr<Communicator> communicator;
  const std::shared_ptr<WorkMonitor> monitor;

  // The calls of one launch.
  struct Batch {
    std::shared_ptr<HostCalls> owner;
    std::vector<std::pair<Operation, std::shared_ptr<CudaWork>>> calls;
    std::vector<Work> works;
  };
  // A cudaHostFn_t.
  static void run(void* queued) {
    const std::unique_ptr<Batch> batch(static_cast<Batch*>(queued));
    const std::shared_ptr<HostCalls> owner = std::move(batch->owner);
    try {
      // After a failure no more calls are made, because what they would carry was not received.
      if (!owner->monitor->failed()) owner->call_all(*batch);
    } catch (const std::exception& error) {
      owner->communicator->abort(error.what());
      owner->monitor->fail(std::current_exception());
    }
  }

  void call_all(Batch& batch) {
    const Deadline deadline = deadline_after(communicator->timeout_s());
    communicator->group_start();
    for (const auto& [operation, work] : batch.calls) {
      batch.works.push_back(
          communicator->issue(operation, {.after = nullptr, .start = Start::deferred}));
    }
    communicator->group_end();
    for (std::size_t i = 0; i < batch.calls.size(); ++i) {
      batch.works[i].synchronize(deadline);
      const WorkTimes times = batch.works[i].times();
      if (times.arrived_told) batch.calls[i].second->arrived_at(times.arrived_s);
    }
  }
};

constexpr std::size_t kLeastBlockBytes = 4096;

// Memory that other processes can map and that this process's GPUs copy by themselves.
Buffer lock_shared_memory(std::size_t bytes) {
  const auto memory =
      std::make_shared<SharedMemory>(SharedMemory::create("ddpbench-staging", bytes));
  const BufferView view = memory->view();
  cuda::check(cudaHostRegister(view.data, view.bytes, cudaHostRegisterPortable),
              "locking the staging memory of a registered buffer (cudaHostRegister)");
  const auto unlock = [memory](void* data) { static_cast<void>(cudaHostUnregister(data)); };
  return {view, std::shared_ptr<void>(view.data, unlock), memory->handle()};
}

bool same(BufferView a, BufferView b) { return a.data == b.data && a.bytes == b.bytes; }

// Page-locked host memory through which the operands of one device's calls pass. A registered
// buffer has memory of its own. Other operands borrow a block for one launch.
class StagingMemory {
 public:
  explicit StagingMemory(Device& device) : device_(device) {}
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // Makes memory for `on_device`, which processes of this host can map. It stays in place until it
  // is removed. Throws DeviceError.
  const Buffer& add(BufferView on_device) {
    Buffer on_host;
    if (on_device.bytes > 0) on_host = lock_shared_memory(on_device.bytes);
    return registered_.emplace_back(Registered{on_device, std::move(on_host)}).on_host;
  }

  // REQUIRES: it was added.
  const Buffer& find(BufferView on_device) const {
    for (const Registered& registered : registered_) {
      if (same(registered.on_device, on_device)) return registered.on_host;
    }
    throw InternalError(fmt::format("a buffer of {} bytes was not registered", on_device.bytes));
  }

  void remove(BufferView on_device) {
    std::erase_if(registered_, [&](const Registered& r) { return same(r.on_device, on_device); });
  }

  // The host's place for `elements`: within its buffer's memory, or in a borrowed block. Allocates
  // only when no block is free; blocks are kept.
  void* place_for(const Elements& elements) {
    if (elements.bytes() == 0) return nullptr;
    for (const Registered& registered : registered_) {
      if (!registered.on_device.contains(elements.view())) continue;
      return registered.on_host.data() + (elements.view().data - registered.on_device.data);
    }
    return borrow(elements.bytes());
  }

  // Frees all that was borrowed. REQUIRES: its users were queued on the stream on which the next
  // borrowers are queued.
  void give_back() noexcept {
    for (Block& block : blocks_) block.borrowed = false;
  }

 private:
  struct Registered {
    BufferView on_device;
    Buffer on_host;
  };
  struct Block {
    Buffer memory;
    bool borrowed = false;
  };

  // Takes the smallest block that is free and large enough.
  std::byte* borrow(std::size_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks_) {
      if (block.borrowed || block.memory.bytes() < bytes) continue;
      if (best == nullptr || block.memory.bytes() < best->memory.bytes()) best = &block;
    }
    if (best == nullptr) {
      const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeastBlockBytes));
      best = &blocks_.emplace_back(Block{.memory = device_.allocate_staging(rounded)});
    }
    best->borrowed = true;
    return best->memory.data();
  }

  Device& device_;
  std::deque<Registered> registered_;
  std::vector<Block> blocks_;
};

// Whose `in` a call reads, and whose `out` it writes.
enum class Who : std::uint8_t { none, all, root, others };
struct Moves {
  Who in, out;
};

Moves moves_of(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::broadcast:
      return {Who::root, Who::others};
    case OperationKind::scatter:
      return {Who::root, Who::all};
    case OperationKind::reduce:
    case OperationKind::gather:
      return {Who::all, Who::root};
    case OperationKind::send:
      return {Who::all, Who::none};
    case OperationKind::recv:
      return {Who::none, Who::all};
    case OperationKind::barrier:
      return {Who::none, Who::none};
    default:
      return {Who::all, Who::all};
  }
}

class StagedCommunicator final : public CudaCommunicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Device& device, bool blocks)
      : CudaCommunicator(device, host->rank(), host->size(), options_beside(*host)),
        blocks_(blocks),
        host_(new HostCalls{std::move(host), monitor().shared_from_this()}),
        memory_(std::make_unique<StagingMemory>(device)) {
    start_watching();
  }

  // No memory may be freed here while device work uses it.
  ~StagedCommunicator() override {
    const cuda::CurrentDevice current(ordinal());
    if (!is_idle_until(deadline_after(kHostPatience_s))) {
      abort(monitor().prefix(nullptr) + "the communicator was destroyed while operations ran");
      if (!is_idle_until(deadline_after(kHostPatience_s))) {
        // A device that hangs may still touch the memory, and call the host on the driver's thread.
        // There the host communicator's threads cannot be awaited and events cannot be destroyed.
        // So both stay.
        static_cast<void>(memory_.release());
        static_cast<void>(new (std::nothrow) std::shared_ptr<HostCalls>(host_));
      }
    }
    stop_watching();
  }

  std::string backend() const override { return host_->communicator->backend(); }
  double timeout_s() const noexcept override { return host_->communicator->timeout_s(); }
  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return host_->communicator->all_reduces_run();
  }

  std::vector<PeerTraffic> take_traffic() override {
    await_idle();
    return host_->communicator->take_traffic();
  }

  void register_buffer(const Buffer& buffer) override {
    await_idle();
    host_->communicator->register_buffer(memory_->add(buffer.view()));
  }

  void deregister_buffer(const Buffer& buffer) override {
    await_idle();
    host_->communicator->deregister_buffer(memory_->find(buffer.view()));
    memory_->remove(buffer.view());
  }

  void abort(const std::string& reason) noexcept override {
    host_->communicator->abort(reason);
    CudaCommunicator::abort(reason);
  }

  void check() override {
    CudaCommunicator::check();
    host_->communicator->check();
  }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override {
    ensure(options.after == nullptr || recording_of(cuda::native_stream(*options.after)) == 0,
           "{}communication through host memory cannot be recorded into a CUDA graph",
           monitor().prefix(&operation));
    return CudaCommunicator::issue(operation, options);
  }

  void launch(Works works) override {
    staged_.clear();
    for (const auto& work : works) {
      const Operation& operation = work->operation();
      const Operation& host = staged_.emplace_back(on_host(operation));
      if (!reads_in(operation)) continue;
      copy(host.in.data, operation.in.data, host.in.bytes(), cudaMemcpyDeviceToHost);
    }
    make_host_calls(works);
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Operation& operation = works[i]->operation();
      if (!writes_out(operation)) continue;
      copy(operation.out.data, staged_[i].out.data, operation.out.bytes(), cudaMemcpyHostToDevice);
    }
    memory_->give_back();  // to calls that come later in the stream
  }

  void make_host_calls(Works works) {
    if (blocks_) await_idle();
    auto batch = std::make_unique<HostCalls::Batch>(HostCalls::Batch{.owner = host_});
    for (std::size_t i = 0; i < works.size(); ++i) batch->calls.emplace_back(staged_[i], works[i]);
    if (blocks_) {
      HostCalls::run(batch.release());
      return monitor().throw_if_failed();
    }
    cuda::check(cudaLaunchHostFunc(stream(), &HostCalls::run, batch.get()),
                "queueing a call of the host's communicator (cudaLaunchHostFunc)");
    static_cast<void>(batch.release());  // run() has it
  }

  // The same call on host memory. Operands that lie within one another do so there, too.
  Operation on_host(const Operation& operation) {
    Operation host = operation;
    const Elements& in = operation.in;
    const Elements& out = operation.out;
    const bool in_place = in.data == out.data;
    const bool uses_in = reads_in(operation) || in_place;
    const bool uses_out = writes_out(operation) || in_place;
    host.in.data = host.out.data = nullptr;
    if (uses_in && uses_out && (out.view().contains(in.view()) || in.view().contains(out.view()))) {
      const Elements& whole = out.view().contains(in.view()) ? out : in;
      void* const place = memory_->place_for(whole);
      if (place == nullptr) return host;
      host.in = moved(in, whole, place);
      host.out = moved(out, whole, place);
      return host;
    }
    if (uses_in) host.in.data = memory_->place_for(in);
    if (uses_out) host.out.data = memory_->place_for(out);
    return host;
  }

  bool takes_part(Who who, const Operation& operation) const {
    return who == Who::all || (who == Who::root && rank() == operation.root) ||
           (who == Who::others && rank() != operation.root);
  }

  bool reads_in(const Operation& o) const { return takes_part(moves_of(o).in, o); }
  bool writes_out(const Operation& o) const { return takes_part(moves_of(o).out, o); }

  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream()),
                "a copy to or from staging memory");
  }

  // Waits until nothing is in flight; false at the deadline.
  bool is_idle_until(Deadline deadline) const noexcept {
    while (cudaStreamQuery(stream()) == cudaErrorNotReady) {
      if (has_passed(deadline)) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }

  // Waits until nothing is in flight. Throws CommTimeout.
  void await_idle() {
    const cuda::CurrentDevice current(ordinal());
    if (!is_idle_until(deadline_after(options().timeout_s))) {
      throw CommTimeout(monitor().prefix(nullptr) +
                        "the device did not finish what was queued before");
    }
    monitor().throw_if_failed();
  }

  std::string asynchronous_error() override { return ""; }  // host functions tell theirs at once

  // Host functions that wait for peers then return, and the streams go on.
  void abandon() noexcept override {
    try {
      monitor().throw_if_failed();
    } catch (const std::exception& error) {
      host_->communicator->abort(error.what());
    }
  }

  const bool blocks_;
  // Shared with queued calls, which may outlive a communicator whose device hangs.
  const std::shared_ptr<HostCalls> host_;
  std::unique_ptr<StagingMemory> memory_;
  std::vector<Operation> staged_;  // operations of the current launch
};

}  // namespace

std::unique_ptr<Communicator> make_staged(std::unique_ptr<Communicator> host, Device& device,
                                          bool blocks) {
  const cuda::CurrentDevice current(cuda::native_device(device).ordinal());
  return std::make_unique<StagedCommunicator>(std::move(host), device, blocks);
}

}  // namespace ddpbench::comm
