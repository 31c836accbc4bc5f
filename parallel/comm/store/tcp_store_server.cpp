// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Server of the TCP store: one thread polls all connections. A get of an absent key stays pending
// on its connection until a client sets the key. A stranger can cost only its own connection: sizes
// are limited, and connections without the secret have a deadline.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <list>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::comm {

namespace {

using Clock = DeadlineClock;
constexpr std::size_t kMaxConnections = 4096;
constexpr auto kHandshakeTime = std::chrono::seconds(10);
constexpr int kLookMs = 1000;  // between two looks for connections past that
// For the listener on a port that we wanted to say whether it is a store of ours.
constexpr double kProbeTime_s = 0.5;

struct ServedConnection {
  FileDescriptor socket;
  FrameReader input;
  std::string output;
  std::string nonce;
  bool proven = false;      // that it has the secret
  bool closing = false;     // close as soon as the output is sent
  bool leaving = false;     // the same, but hand the socket on
  std::string pending_get;  // key that it waits for; empty: none
  Clock::time_point handshake_until;
};

FileDescriptor bind_listener(const TcpStoreOptions& options, int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_system_error<CommError>("store: no socket", errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = ipv4_address(options.host, options.timeout_s);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

// The first free port of options.port ... port + tries - 1 (port 0: the system chooses).
FileDescriptor listen_on_free_port(const TcpStoreOptions& options) {
  for (int i = 0; i < options.tries; ++i) {
    const int port = options.port == 0 ? 0 : options.port + i;
    FileDescriptor socket = bind_listener(options, port);
    if (socket) return socket;
    if (errno != EADDRINUSE) break;
    if (options.tries > 1 && is_our_store(options, port, kProbeTime_s)) {
      throw ConfigError(fmt::format(
          "port {} of {} is held by another job with the same secret: give one of the two another "
          "MASTER_PORT, or each a DDPBENCH_JOB_SECRET of its own",
          port, options.host));
    }
    errno = EADDRINUSE;
  }
  throw CommError(fmt::format("store: cannot listen on {} port {} ({} tried): {}", options.host,
                              options.port, options.tries, std::strerror(errno)));
}

int port_of(int socket) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

class Server : public TcpStoreServer {
 public:
  explicit Server(const TcpStoreOptions& options)
      : secret_(options.secret),
        streams_(options.streams),
        listener_(listen_on_free_port(options)),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        port_(port_of(listener_.get())) {
    if (!stop_) throw_system_error<CommError>("store: no eventfd", errno);
    thread_ = std::thread([this] { serve(); });
  }

  ~Server() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
  }

  int port() const noexcept override { return port_; }

 private:
  void serve() {
    std::vector<pollfd> polled;
    while (true) {
      polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
      for (const ServedConnection& c : connections_) {
        const int events = POLLIN | (c.output.empty() ? 0 : POLLOUT);
        polled.push_back({c.socket.get(), static_cast<short>(events), 0});
      }
      ::poll(polled.data(), polled.size(), kLookMs);
      if (polled[0].revents != 0) return;
      std::size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++i) {
        it = advance(*it, polled[i].revents) ? std::next(it) : connections_.erase(it);
      }
      if (polled[1].revents != 0) accept_one();
    }
  }

  void accept_one() {
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors: the connection stays in the backlog, and the pause avoids a hot loop.
      if (errno == EMFILE || errno == ENFILE) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return;
    }
    if (connections_.size() >= kMaxConnections) return;
    set_connection_options(socket.get());
    ServedConnection& c = connections_.emplace_back();
    c.socket = std::move(socket);
    c.nonce = random_hex(kNonceBytes / 2);
    c.output = std::string(kGreeting) + c.nonce;
    c.handshake_until = Clock::now() + kHandshakeTime;
    send_output(c);
  }

  // False when the connection is over.
  bool advance(ServedConnection& c, int events) {
    if (!c.proven && Clock::now() > c.handshake_until) return false;
    if (events & (POLLIN | POLLHUP | POLLERR)) {
      if (!receive(c)) return false;
      try {
        handle_frames(c);
      } catch (const CommError&) {
        return false;  // a frame over the limit
      }
    }
    if (!send_output(c)) return false;
    if (!c.output.empty()) return true;
    if (c.leaving) streams_(std::move(c.socket));
    return !c.closing && !c.leaving;
  }

  static bool receive(ServedConnection& c) {
    char bytes[65536];
    const ssize_t count = ::recv(c.socket.get(), bytes, sizeof bytes, 0);
    if (count > 0) c.input.append({bytes, static_cast<std::size_t>(count)});
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  static bool send_output(ServedConnection& c) {
    while (!c.output.empty()) {
      const ssize_t sent = ::send(c.socket.get(), c.output.data(), c.output.size(), MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      c.output.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

  void handle_frames(ServedConnection& c) {
    while (!c.closing && !c.leaving) {
      const auto payload = c.input.next(c.proven ? kMaxFrameBytes : kNonceBytes + kProofBytes);
      if (!payload) return;
      if (!c.proven) {
        hear_proof(c, *payload);
      } else if (const auto request = decode_request(*payload)) {
        handle(c, *request);
      } else {
        reply(c, Reply::failed, "malformed request");
        c.closing = true;
      }
    }
  }

  void hear_proof(ServedConnection& c, const std::string& said) {
    const std::string nonce = said.substr(0, kNonceBytes), proof = said.substr(nonce.size());
    const auto expected = [&](std::string_view words) {
      return store_proof(secret_, c.nonce, nonce, port_, words);
    };
    c.proven = equal_in_constant_time(proof, expected("client"));
    c.closing = !c.proven;
    if (c.closing) return reply(c, Reply::refused, "");
    reply(c, Reply::ok, expected("server"));
  }

  void handle(ServedConnection& c, const StoreRequest& request) {
    switch (request.kind) {
      case Request::set:
        map_.set(request.key, request.argument);
        reply(c, Reply::ok, "");
        return answer_waiting(request.key);
      case Request::get:
        if (const std::string* value = map_.find(request.key)) return reply(c, Reply::ok, *value);
        c.pending_get = request.key;
        return;
      case Request::add:
        return add(c, request);
      case Request::clock:
        return reply(c, Reply::ok, encode_integer(own_clock_ns()));
      case Request::stream:
        c.leaving = static_cast<bool>(streams_);
        return reply(c, c.leaving ? Reply::ok : Reply::failed, "");
    }
  }

  void add(ServedConnection& c, const StoreRequest& request) {
    try {
      const std::int64_t value = map_.add(request.key, decode_integer(request.argument));
      reply(c, Reply::ok, encode_integer(value));
    } catch (const CommError& error) {
      return reply(c, Reply::failed, error.what());
    }
    answer_waiting(request.key);
  }

  void answer_waiting(const std::string& key) {
    for (ServedConnection& c : connections_) {
      if (c.pending_get != key) continue;
      c.pending_get.clear();
      reply(c, Reply::ok, *map_.find(key));
      send_output(c);  // a failure shows at its next poll
    }
  }

  static void reply(ServedConnection& c, Reply kind, std::string_view text) {
    c.output += frame(std::string(1, static_cast<char>(kind)).append(text));
  }

  const std::string secret_;
  const std::function<void(FileDescriptor)> streams_;
  FileDescriptor listener_;
  FileDescriptor stop_;
  const int port_;
  StoreMap map_;
  std::list<ServedConnection> connections_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TcpStoreServer> make_tcp_store_server(const TcpStoreOptions& options) {
  ensure(!options.secret.empty(), "a store's server has no secret");
  return std::make_unique<Server>(options);
}

}  // namespace ddpbench::comm
