// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GlooEngine: one rank's calls by Gloo's own collectives and messages, over TCP. Gloo 0.5 has no
// reduce-scatter over its unbound buffers: here it is an all-reduce, of which a rank keeps its
// part.
//
// A thread of Gloo's moves the bytes, and collectives block the executing thread, until another
// ends the connections. Gloo can neither test a message nor wait for any one of several, so each
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
#include <gloo/transport/unbound_buffer.h>
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
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/comm/library/library_engine.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

namespace {

using gloo::transport::UnboundBuffer;
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

// Gloo's connections to all peers, which can be ended: Gloo does not wake who waits for bytes that
// have gone or come in part when their connection fails.
class Connections final : public gloo::transport::Context {
 public:
  Connections(std::shared_ptr<gloo::transport::Context> gloos, milliseconds timeout)
      : Context(gloos->rank, gloos->size), gloos_(std::move(gloos)) {
    gloos_->setTimeout(timeout);
  }

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override {
    return gloos_->getPair(peer);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return gloos_->createPair(peer);
  }

  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* data, std::size_t bytes) override {
    return std::make_unique<Buffer>(*this, gloos_->createUnboundBuffer(data, bytes));
  }

  // Closes them; what waits fails. From any thread.
  void end() noexcept {
    try {  // a wait that times out closes the connections to all peers
      char nothing = 0;
      gloos_->createUnboundBuffer(&nothing, 1)->waitRecv(milliseconds(1));
    } catch (const std::exception&) {
    }
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    for (UnboundBuffer* const buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

 private:
  // A buffer of Gloo's, whose waits the connections can end.
  class Buffer final : public UnboundBuffer {
   public:
    Buffer(Connections& connections, std::unique_ptr<UnboundBuffer> gloos)
        : UnboundBuffer(gloos->ptr, gloos->size),
          connections_(connections),
          gloos_(std::move(gloos)) {
      const std::lock_guard lock(connections_.mutex_);
      connections_.buffers_.insert(gloos_.get());
    }
    ~Buffer() override {
      const std::lock_guard lock(connections_.mutex_);
      connections_.buffers_.erase(gloos_.get());
    }

    bool waitRecv(int* rank, milliseconds timeout) override {
      return gloos_->waitRecv(rank, timeout) || given_up();
    }
    bool waitSend(int* rank, milliseconds timeout) override {
      return gloos_->waitSend(rank, timeout) || given_up();
    }
    void abortWaitRecv() override { gloos_->abortWaitRecv(); }
    void abortWaitSend() override { gloos_->abortWaitSend(); }
    void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
      gloos_->send(peer, slot, offset, bytes);
    }
    void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
      gloos_->recv(peer, slot, offset, bytes);
    }
    void recv(std::vector<int> peers, std::uint64_t slot, std::size_t offset,
              std::size_t bytes) override {
      gloos_->recv(std::move(peers), slot, offset, bytes);
    }

   private:
    bool given_up() const {
      if (connections_.has_ended_) throw CommError("the connections have been closed");
      return false;
    }

    Connections& connections_;
    const std::unique_ptr<UnboundBuffer> gloos_;
  };

  const std::shared_ptr<gloo::transport::Context> gloos_;
  std::atomic<bool> has_ended_ = false;
  std::mutex mutex_;
  std::set<UnboundBuffer*> buffers_;  // Gloo's. Guarded by mutex_
};

// Gloo's context. What Gloo's own full mesh does, by an exchange.
class Mesh final : public gloo::Context {
 public:
  Mesh(Store& store, int its_rank, int its_size, const WorldOptions& options)
      : gloo::Context(its_rank, its_size) {
    // Gloo waits five times as long for a connection.
    setTimeout(milliseconds(std::max<std::int64_t>(1, std::llround(options.timeout_s / 5 * 1e3))));
    const std::string host = options.address.empty() ? "127.0.0.1" : options.address;
    {
      const Unpinned unpinned;  // on one core with its rank, Gloo's thread takes 3.5 times as long
      device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host.c_str()));
    }
    transportContext_ =
        std::make_shared<Connections>(device_->createContext(rank, size), getTimeout());
    std::string own;  // the addresses for all peers; all are of one length
    std::size_t length = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
      own.append(address.begin(), address.end());
      length = address.size();
    }
    const std::vector<std::string> all = exchange_in(store, rank, size, options, own);
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto place = static_cast<std::size_t>(rank < peer ? rank : rank - 1);
      const std::string address =
          all[static_cast<std::size_t>(peer)].substr(place * length, length);
      transportContext_->getPair(peer)->connect({address.begin(), address.end()});
    }
    setTimeout(kForever);  // the guard looks at deadlines
  }

  Connections& connections() { return static_cast<Connections&>(*transportContext_); }
};

class GlooEngine final : public LibraryEngine {
 public:
  // Collective: connects the ranks. Throws CommError.
  GlooEngine(Store& store, int rank, int size, const WorldOptions& options)
      : LibraryEngine(rank, size) {
    try {
      auto mesh = std::make_shared<Mesh>(store, rank, size, options);
      connections_ = &mesh->connections();
      context_ = std::move(mesh);
      guard_ = std::thread([this] { guard(); });
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw CommError(prefix(nullptr) + "Gloo cannot connect the ranks: " + error.what());
    }
  }

  ~GlooEngine() override {
    {
      const std::lock_guard lock(guard_mutex_);
      ends_ = true;
    }
    guard_ends_.notify_all();
    guard_.join();
  }

  void leave() noexcept override {
    if (has_failed()) return;
    try {
      gloo::BarrierOptions options(context_);
      options.setTag(kFarewellTag);
      options.setTimeout(kFarewell);
      gloo::barrier(options);
    } catch (const std::exception&) {  // a peer is not that far, or has ended
    }
  }

 private:
  // A message, and the thread that waits for it.
  class Moving final : public Transfer {
   public:
    Moving(GlooEngine& engine, bool is_send, std::unique_ptr<UnboundBuffer> buffer)
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
    // It has no time limit: when a wait of Gloo's times out, it closes the connections to all
    // peers.
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
    const std::unique_ptr<UnboundBuffer> buffer_;
    std::string failure_;
    std::atomic<bool> is_done_ = false, has_failed_ = false, is_given_up_ = false;
    std::thread thread_;
  };

  void run(const Operation& operation, Deadline deadline, Waiter) override {
    {
      const std::lock_guard lock(guard_mutex_);
      deadline_ = deadline;
    }
    try {
      call(operation);
    } catch (const std::exception& error) {  // Gloo's
      const std::lock_guard lock(guard_mutex_);
      if (is_late_) throw CommTimeout("deadline passed");
      throw CommError(error.what());
    }
    const std::lock_guard lock(guard_mutex_);
    deadline_.reset();
  }

  std::unique_ptr<Transfer> start(const Operation& o) override {
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

  void give_up(const std::string&) noexcept override { connections_->end(); }

  void doze(Pause&, std::uint32_t seen, Deadline deadline) override {
    futex_wait(bell_, seen, deadline, FutexScope::process);
  }

  // Returns what Gloo asks for one collective.
  template <typename Options>
  Options options(const Operation& o) const {
    Options its(context_);
    its.setTag(calls_);
    if constexpr (requires { its.setRoot(0); }) its.setRoot(o.root);
    return its;
  }

  void call(const Operation& o) {
    ++calls_;
    const bool reduces = o.kind == OperationKind::all_reduce || o.kind == OperationKind::reduce ||
                         o.kind == OperationKind::reduce_scatter;
    if (!reduces) return move(o);
    switch (size_of(o.in.type)) {
      case 1:
        return reduce<std::uint8_t>(o);
      case 2:
        return reduce<std::uint16_t>(o);
      case 4:
        return reduce<std::uint32_t>(o);
      default:
        return reduce<std::uint64_t>(o);
    }
  }

  // T is as wide as an element.
  template <typename T>
  void reduce(const Operation& o) {
    const auto set = [&](auto its) {
      its.setOutput(static_cast<T*>(o.in.data), o.in.count);
      its.setReduceFunction(reduction(o.in.type, o.op));
      return its;
    };
    if (o.kind == OperationKind::reduce) {
      auto its = set(options<gloo::ReduceOptions>(o));
      return gloo::reduce(its);
    }
    gloo::allreduce(set(options<gloo::AllreduceOptions>(o)));
    if (o.kind == OperationKind::all_reduce) return;
    const std::byte* const own = o.in.place_of(rank(), o.out);
    if (own != o.out.data && o.out.bytes() > 0) std::memcpy(o.out.data, own, o.out.bytes());
  }

  // What only moves bytes. A rank's part of a whole may be in place already.
  void move(const Operation& o) {
    auto* const in = static_cast<std::uint8_t*>(o.in.data);
    auto* const out = static_cast<std::uint8_t*>(o.out.data);
    if (o.kind == OperationKind::barrier) {
      auto its = options<gloo::BarrierOptions>(o);
      gloo::barrier(its);
    } else if (o.kind == OperationKind::broadcast) {
      auto its = options<gloo::BroadcastOptions>(o);
      its.setOutput(in, o.in.bytes());
      gloo::broadcast(its);
    } else if (o.kind == OperationKind::all_gather) {
      auto its = options<gloo::AllgatherOptions>(o);
      if (o.in.data != o.out.place_of(rank(), o.in)) its.setInput(in, o.in.bytes());
      its.setOutput(out, o.out.bytes());
      gloo::allgather(its);
    } else if (o.kind == OperationKind::gather) {
      auto its = options<gloo::GatherOptions>(o);
      its.setInput(in, o.in.bytes());
      if (rank() == o.root) its.setOutput(out, o.out.bytes());
      gloo::gather(its);
    } else {
      auto its = options<gloo::ScatterOptions>(o);
      std::vector<std::uint8_t*> parts;
      for (int peer = 0; rank() == o.root && peer < size(); ++peer) {
        parts.push_back(in + static_cast<std::size_t>(peer) * o.out.bytes());
      }
      if (!parts.empty()) its.setInputs(parts, o.out.bytes());
      its.setOutput(out, o.out.bytes());
      gloo::scatter(its);
    }
  }

  // Gloo's own timeouts do not know of a process that is stopped for a while.
  void guard() {
    std::unique_lock lock(guard_mutex_);
    while (!guard_ends_.wait_for(lock, kTick, [&] { return ends_; })) {
      if (!deadline_ || is_late_ || !has_passed(*deadline_)) continue;
      is_late_ = true;
      lock.unlock();
      connections_->end();
      lock.lock();
    }
  }

  std::shared_ptr<gloo::Context> context_;
  Connections* connections_ = nullptr;  // of context_
  std::uint32_t calls_ = 0;             // collectives that have begun
  std::mutex guard_mutex_;              // guards these
  std::condition_variable guard_ends_;
  std::optional<Deadline> deadline_;  // of the collective that runs
  bool is_late_ = false, ends_ = false;
  std::thread guard_;  // ends the collective at its deadline
};

class GlooModule final : public CommModule {
 public:
  std::string version() const override {
    return fmt::format("Gloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
  }

  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const WorldOptions& options) const override {
    // Gloo writes to connections that a peer has closed. That is an error there, and no reason to
    // end.
    ::signal(SIGPIPE, SIG_IGN);
    ensure(size >= 2 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
    return std::make_unique<QueuedCommunicator>(
        "gloo", rank, size, std::make_unique<GlooEngine>(store, rank, size, options), options);
  }

  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

}  // namespace

const CommModule& engine_module() {
  static const GlooModule module;
  return module;
}

}  // namespace ddpbench::comm
