// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/gloo_engine.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/queue/futex.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {

namespace {

using Buffer = gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

// How often the guard looks at the deadline.
constexpr milliseconds kTick{20};
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// How long a rank that leaves waits for the others to come so far. A connection that is closed with
// something unread is reset, and what its peer has not read yet may be lost.
constexpr milliseconds kFarewell{500};
constexpr std::uint32_t kFarewellTag = 0xffffffff;
// Gloo's collectives have slots below 2^48.
constexpr std::uint64_t kMessageSlot = std::uint64_t{1} << 60;

// Two operands reduced into a third place, as Gloo asks it.
gloo::AllreduceOptions::Func reduction(DataType type, ReduceOp op) {
  return [=](void* target, const void* a, const void* b, std::size_t count) {
    const std::array sources = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    reduce_sources(target, sources, count, {type, op});
  };
}

// Gloo's context of the ranks of one part. What Gloo's own full mesh does, by an exchange.
class Mesh final : public gloo::Context {
 public:
  Mesh(const SplitPart& part, std::shared_ptr<gloo::transport::Device> device, double timeout_s,
       const TextExchange& exchange)
      : gloo::Context(part.rank, part.size()) {
    // Gloo waits five times as long for a connection.
    setTimeout(milliseconds(std::max<std::int64_t>(1, std::llround(timeout_s / 5 * 1e3))));
    device_ = std::move(device);
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(getTimeout());
    std::string own;  // the addresses for all peers; all are of one length
    std::size_t length = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
      own.append(address.begin(), address.end());
      length = address.size();
    }
    const std::vector<std::string> all = exchange(own);
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto place = static_cast<std::size_t>(rank < peer ? rank : rank - 1);
      const std::string address =
          all[static_cast<std::size_t>(part.members[static_cast<std::size_t>(peer)])].substr(
              place * length, length);
      transportContext_->getPair(peer)->connect({address.begin(), address.end()});
    }
    setTimeout(kForever);  // the guard looks at deadlines
  }
};

}  // namespace

class GlooEngine::Waiting {
 public:
  explicit Waiting(GlooEngine& engine) : engine_(engine), thread_([this] { wait(); }) {}
  ~Waiting() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      if (!queue_.empty()) interrupt(*queue_.front());
    }
    changed_.notify_all();
    thread_.join();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void add(Moving& moving) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(&moving);
    }
    changed_.notify_all();
  }
  // The thread does not touch it any more.
  void drop(Moving& moving) {
    std::unique_lock lock(mutex_);
    if (!queue_.empty() && queue_.front() == &moving) {
      is_dropped_ = true;
      interrupt(moving);
      changed_.wait(lock, [&] { return !is_dropped_; });
    }
    std::erase(queue_, &moving);
  }

 private:
  static void interrupt(Moving& moving);
  void wait();

  GlooEngine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Moving*> queue_;  // the thread waits for the first
  bool is_dropped_ = false;    // the first is to be taken out
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

class GlooEngine::Moving final : public Transfer {
 public:
  Moving(std::shared_ptr<Waiting> waiting, bool is_send, std::unique_ptr<Buffer> buffer)
      : waiting_(std::move(waiting)), is_send_(is_send), buffer_(std::move(buffer)) {
    waiting_->add(*this);
  }
  ~Moving() override { waiting_->drop(*this); }

  bool test() override {
    if (has_failed_.load(std::memory_order_acquire)) throw CommError(failure_);
    return is_done_.load(std::memory_order_acquire);
  }
  // Returns whether it has ended; false when interrupted. It has no time limit: when a wait of
  // Gloo's times out, it closes the connections to all peers.
  bool wait() noexcept {
    try {
      if (!(is_send_ ? buffer_->waitSend(kForever) : buffer_->waitRecv(kForever))) return false;
      is_done_.store(true, std::memory_order_release);
    } catch (const std::exception& error) {
      failure_ = error.what();
      has_failed_.store(true, std::memory_order_release);
    }
    return true;
  }
  void interrupt() { is_send_ ? buffer_->abortWaitSend() : buffer_->abortWaitRecv(); }

 private:
  const std::shared_ptr<Waiting> waiting_;
  const bool is_send_;
  const std::unique_ptr<Buffer> buffer_;
  std::string failure_;
  std::atomic<bool> is_done_ = false, has_failed_ = false;
};

void GlooEngine::Waiting::interrupt(Moving& moving) { moving.interrupt(); }

void GlooEngine::Waiting::wait() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    Moving& first = *queue_.front();
    lock.unlock();
    const bool has_ended = first.wait();
    lock.lock();
    if (has_ended || is_dropped_) {
      queue_.pop_front();
      is_dropped_ = false;
    }
    changed_.notify_all();
    engine_.wake_waiter();
  }
}

GlooEngine::GlooEngine(const SplitPart& part, std::shared_ptr<gloo::transport::Device> device,
                       double timeout_s, const TextExchange& exchange)
    : LibraryEngine(part.rank, part.size()),
      device_(std::move(device)),
      timeout_s_(timeout_s),
      waiting_(2 * static_cast<std::size_t>(part.size())) {
  if (size() == 1) {
    exchange("");
    return;
  }
  try {
    context_ = std::make_shared<Mesh>(part, device_, timeout_s, exchange);
    guard_ = std::thread([this] { guard(); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(prefix(nullptr) + "Gloo cannot connect the ranks: " + error.what());
  }
}

GlooEngine::~GlooEngine() {
  if (!guard_.joinable()) return;
  {
    const std::lock_guard lock(guard_mutex_);
    ends_ = true;
  }
  guard_ends_.notify_all();
  guard_.join();
}

std::unique_ptr<LibraryEngine> GlooEngine::split(const SplitPart& part,
                                                 const TextExchange& exchange) {
  return std::make_unique<GlooEngine>(part, device_, timeout_s_, exchange);
}

// ---- collectives ----

void GlooEngine::run(const Operation& operation, Deadline deadline, Waiter) {
  {
    const std::lock_guard lock(guard_mutex_);
    deadline_ = deadline;
  }
  try {
    switch (size_of(operation.part().type)) {
      case 1:
        call<std::uint8_t>(operation);
        break;
      case 2:
        call<std::uint16_t>(operation);
        break;
      case 4:
        call<std::uint32_t>(operation);
        break;
      default:
        call<std::uint64_t>(operation);
    }
  } catch (const std::exception& error) {  // Gloo's
    const std::lock_guard lock(guard_mutex_);
    if (is_late_) throw CommTimeout("deadline passed");
    throw CommError(error.what());
  }
  const std::lock_guard lock(guard_mutex_);
  deadline_.reset();
}

// Gloo's own timeouts do not know of a process that is stopped for a while.
void GlooEngine::guard() {
  std::unique_lock lock(guard_mutex_);
  while (!guard_ends_.wait_for(lock, kTick, [&] { return ends_; })) {
    if (!deadline_ || is_late_ || !has_passed(*deadline_)) continue;
    is_late_ = true;
    lock.unlock();
    give_up();
    lock.lock();
  }
}

template <typename T>
void GlooEngine::all_reduce(const Elements& data, ReduceOp op) {
  gloo::AllreduceOptions options(context_);
  options.setTag(calls_);
  options.setOutput(static_cast<T*>(data.data), data.count);
  options.setReduceFunction(reduction(data.type, op));
  gloo::allreduce(options);
}

template <typename T>
void GlooEngine::reduce(const Operation& o) {
  gloo::ReduceOptions options(context_);
  options.setTag(calls_);
  options.setRoot(o.root);
  options.setOutput(static_cast<T*>(o.in.data), o.in.count);
  options.setReduceFunction(reduction(o.in.type, o.op));
  gloo::reduce(options);
}

// What only moves data. Its part of a whole may be in place already.
template <typename T>
void GlooEngine::move(const Operation& o) {
  auto* const in = static_cast<T*>(o.in.data);
  auto* const out = static_cast<T*>(o.out.data);
  if (o.kind == OperationKind::broadcast) {
    gloo::BroadcastOptions options(context_);
    options.setTag(calls_);
    options.setRoot(o.root);
    options.setOutput(in, o.in.count);
    gloo::broadcast(options);
  } else if (o.kind == OperationKind::all_gather) {
    gloo::AllgatherOptions options(context_);
    options.setTag(calls_);
    if (in != out + static_cast<std::size_t>(rank()) * o.in.count) {
      options.setInput(in, o.in.count);
    }
    options.setOutput(out, o.out.count);
    gloo::allgather(options);
  } else if (o.kind == OperationKind::gather) {
    gloo::GatherOptions options(context_);
    options.setTag(calls_);
    options.setRoot(o.root);
    options.setInput(in, o.in.count);
    if (rank() == o.root) options.setOutput(out, o.out.count);
    gloo::gather(options);
  } else {
    gloo::ScatterOptions options(context_);
    options.setTag(calls_);
    options.setRoot(o.root);
    std::vector<T*> parts;
    for (int peer = 0; rank() == o.root && peer < size(); ++peer) {
      parts.push_back(in + static_cast<std::size_t>(peer) * o.out.count);
    }
    if (!parts.empty()) options.setInputs(parts, o.out.count);
    options.setOutput(out, o.out.count);
    gloo::scatter(options);
  }
}

template <typename T>
void GlooEngine::call(const Operation& o) {
  ++calls_;
  switch (o.kind) {
    case OperationKind::all_reduce:
      return all_reduce<T>(o.in, o.op);
    case OperationKind::reduce:
      return reduce<T>(o);
    case OperationKind::reduce_scatter: {
      all_reduce<T>(o.in, o.op);
      const T* const own =
          static_cast<const T*>(o.in.data) + static_cast<std::size_t>(rank()) * o.out.count;
      if (own != o.out.data) std::memcpy(o.out.data, own, o.out.bytes());
      return;
    }
    case OperationKind::barrier: {
      gloo::BarrierOptions options(context_);
      options.setTag(calls_);
      return gloo::barrier(options);
    }
    default:
      return move<T>(o);
  }
}

// ---- messages, and failures ----

std::unique_ptr<LibraryEngine::Transfer> GlooEngine::start(const Operation& o) {
  const bool is_send = o.kind == OperationKind::send;
  const Elements part = o.part();
  std::shared_ptr<Waiting>& waiting =
      waiting_[2 * static_cast<std::size_t>(o.root) + (is_send ? 1 : 0)];
  if (!waiting) waiting = std::make_shared<Waiting>(*this);
  try {
    auto buffer = context_->createUnboundBuffer(part.data, part.bytes());
    is_send ? buffer->send(o.root, kMessageSlot) : buffer->recv(o.root, kMessageSlot);
    return std::make_unique<Moving>(waiting, is_send, std::move(buffer));
  } catch (const std::exception& error) {
    throw CommError(error.what());
  }
}

void GlooEngine::doze(Pause&, std::uint32_t seen, Deadline deadline) {
  futex_wait(bell_, seen, deadline, FutexScope::process);
}

// A wait that times out closes the connections to all peers.
void GlooEngine::give_up() noexcept {
  if (!context_) return;
  try {
    char nothing = 0;
    context_->createUnboundBuffer(&nothing, 1)->waitRecv(milliseconds(1));
  } catch (const std::exception&) {
  }
}

void GlooEngine::leave() noexcept {
  if (!context_ || has_failed()) return;
  try {
    gloo::BarrierOptions options(context_);
    options.setTag(kFarewellTag);
    options.setTimeout(kFarewell);
    gloo::barrier(options);
  } catch (const std::exception&) {  // a peer is not that far, or has ended
  }
}

}  // namespace ddpbench::comm
