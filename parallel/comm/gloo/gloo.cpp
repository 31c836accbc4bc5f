// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GlooEngine: one rank's calls by Gloo's own collectives and messages, over TCP. Gloo 0.5 has no
// reduce-scatter over its unbound buffers: here it is an all-reduce, of which a rank keeps its
// part.
//
// A thread of Gloo's moves the bytes, and collectives block the executing thread, until another
// closes the connections. Gloo can neither test a message nor wait for any one of several, so each
// message has a thread that waits for it.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/comm/library/library_engine.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

namespace {

class GlooEngine final : public LibraryEngine {
 public:
  // Collective over the ranks of the part: connects them. `exchange`: as of split(). Throws
  // CommError.
  GlooEngine(const SplitPart& part, std::shared_ptr<gloo::transport::Device> device,
             double timeout_s, const TextExchange& exchange);
  ~GlooEngine() override;

  std::unique_ptr<LibraryEngine> split(const SplitPart& part,
                                       const TextExchange& exchange) override;
  void leave() noexcept override;

 private:
  class Moving;

  void run(const Operation& operation, Deadline deadline, Waiter waiter) override;
  std::unique_ptr<Transfer> start(const Operation& operation) override;
  void give_up() noexcept override;
  void doze(Pause& pause, std::uint32_t seen, Deadline deadline) override;

  // Collectives. T is as wide as an element.
  template <typename T>
  void call(const Operation& operation);
  template <typename T>
  void all_reduce(const Elements& data, ReduceOp op);
  template <typename T>
  void reduce(const Operation& operation);
  template <typename T>
  void move(const Operation& operation);
  void guard();

  const std::shared_ptr<gloo::transport::Device> device_;
  const double timeout_s_;
  std::shared_ptr<gloo::Context> context_;  // null for one rank
  std::uint32_t calls_ = 0;                 // collectives that have begun
  std::mutex guard_mutex_;                  // guards these
  std::condition_variable guard_ends_;
  std::optional<Deadline> deadline_;  // of the collective that runs
  bool is_late_ = false, ends_ = false;
  std::thread guard_;  // ends the collective at its deadline
};

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

// A message, and the thread that waits for it.
class GlooEngine::Moving final : public Transfer {
 public:
  Moving(GlooEngine& engine, bool is_send, std::unique_ptr<Buffer> buffer)
      : engine_(engine), is_send_(is_send), buffer_(std::move(buffer)) {
    thread_ = std::thread([this] { wait(); });
  }
  ~Moving() override {
    is_given_up_ = true;
    is_send_ ? buffer_->abortWaitSend() : buffer_->abortWaitRecv();
    thread_.join();
  }
  bool test() override {
    if (has_failed_.load(std::memory_order_acquire)) throw CommError(failure_);
    return is_done_.load(std::memory_order_acquire);
  }

 private:
  // It has no time limit: when a wait of Gloo's times out, it closes the connections to all peers.
  void wait() noexcept {
    try {
      while (!(is_send_ ? buffer_->waitSend(kForever) : buffer_->waitRecv(kForever))) {
        if (is_given_up_) return;
      }
      is_done_.store(true, std::memory_order_release);
    } catch (const std::exception& error) {
      failure_ = error.what();
      has_failed_.store(true, std::memory_order_release);
    }
    engine_.wake_waiter();
  }

  GlooEngine& engine_;
  const bool is_send_;
  const std::unique_ptr<Buffer> buffer_;
  std::string failure_;
  std::atomic<bool> is_done_ = false, has_failed_ = false, is_given_up_ = false;
  std::thread thread_;
};

GlooEngine::GlooEngine(const SplitPart& part, std::shared_ptr<gloo::transport::Device> device,
                       double timeout_s, const TextExchange& exchange)
    : LibraryEngine(part.rank, part.size()), device_(std::move(device)), timeout_s_(timeout_s) {
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
  try {
    auto buffer = context_->createUnboundBuffer(part.data, part.bytes());
    is_send ? buffer->send(o.root, kMessageSlot) : buffer->recv(o.root, kMessageSlot);
    return std::make_unique<Moving>(*this, is_send, std::move(buffer));
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

class GlooModule final : public CommModule {
 public:
  std::string version() const override {
    return fmt::format("Gloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
  }
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const EngineOptions& options) const override;
  std::vector<std::unique_ptr<Communicator>> make_for_threads(
      int size, const EngineOptions& options) const override;
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

std::unique_ptr<Communicator> GlooModule::make(Store& store, int rank, int size,
                                               const EngineOptions& options) const {
  // Gloo writes to connections that a peer has closed. That is an error there, and no reason to
  // end.
  ::signal(SIGPIPE, SIG_IGN);
  const SplitPart world = whole_world(rank, size);
  const auto device =
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(options.address.c_str()));
  return make_library_communicator(
      "gloo",
      std::make_unique<GlooEngine>(world, device, options.timeout_s,
                                   exchange_in(store, rank, size, options)),
      options);
}

// The threads meet through a store of this process. Each end is made on a thread of its own,
// because making one waits for the others.
std::vector<std::unique_ptr<Communicator>> GlooModule::make_for_threads(
    int size, const EngineOptions& options) const {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto store = make_local_store();
  std::vector<std::unique_ptr<Communicator>> ranks(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      try {
        ranks[place] = make(*store, rank, size, options);
      } catch (...) {
        errors[place] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ranks;
}

}  // namespace

const CommModule& engine_module() {
  static const GlooModule module;
  return module;
}

}  // namespace ddpbench::comm
