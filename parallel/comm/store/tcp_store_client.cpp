// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Client of the TCP store. Every call has a connection of its own while it lasts and leaves it in a
// pool, so that a thread that waits in get() does not hinder the others. A call that fails drops
// its connection, and with it any answer that the server still meant to send.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/ranges.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::comm {

namespace {

// A foreign listener does not greet. The first round over the ports gives each a quarter of a
// second (ours answers within a millisecond on an idle machine), later rounds give more.
constexpr double kFirstGreetingTime_s = 0.25;
constexpr double kLongestGreetingTime_s = 4;
constexpr auto kRetryPause = std::chrono::milliseconds(5);

// Waits until the socket is ready for `events`; false at the deadline.
bool ready(int socket, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(sleep_until_look(deadline)).count();
    pollfd polled{socket, events, 0};
    // One millisecond more than is left: this avoids a busy loop in the last fraction.
    if (::poll(&polled, 1, static_cast<int>(left) + 1) > 0) return true;
    if (has_passed(deadline)) return false;
  }
}

class Connection {
 public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}

  void send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno != EAGAIN && errno != EINTR) {
        throw CommError(fmt::format("store server is gone: {}", std::strerror(errno)));
      } else if (!ready(socket_.get(), POLLOUT, deadline)) {
        throw CommTimeout("store server does not take the request");
      }
    }
  }

  // The next frame.
  std::string receive(Deadline deadline) {
    while (true) {
      if (auto payload = input_.next(kMaxFrameBytes)) return *payload;
      input_.append(receive_some(65536, deadline));
    }
  }

  FileDescriptor take_socket() { return std::move(socket_); }

  std::string receive_exactly(std::size_t bytes, Deadline deadline) {
    std::string text;
    while (text.size() < bytes) text += receive_some(bytes - text.size(), deadline);
    return text;
  }

 private:
  std::string receive_some(std::size_t at_most, Deadline deadline) {
    std::string bytes(at_most, '\0');
    while (true) {
      const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count > 0) {
        bytes.resize(static_cast<std::size_t>(count));
        return bytes;
      }
      if (count == 0) throw CommError("store server closed the connection");
      if (errno != EAGAIN && errno != EINTR) {
        throw CommError(fmt::format("store server is gone: {}", std::strerror(errno)));
      }
      if (!ready(socket_.get(), POLLIN, deadline)) throw CommTimeout("no answer");
    }
  }

  FileDescriptor socket_;
  FrameReader input_;
};

// Null when no server listens there. A socket can connect to itself when its port is one of the
// system's client ports. That counts as no server, too.
FileDescriptor connect_socket(const sockaddr_in& address, Deadline deadline) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_system_error<CommError>("store: no socket", errno);
  const int started =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (started != 0 && errno != EINPROGRESS) {
    // Another host may come into reach. This one does not, unless its user does something.
    const bool is_own = ntohl(address.sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
    if (is_own && (errno == ENETUNREACH || errno == ENETDOWN)) {
      throw CommError("store: the loopback interface is down (ip link set lo up)");
    }
    return FileDescriptor();
  }
  if (!ready(socket.get(), POLLOUT, deadline)) return FileDescriptor();
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  sockaddr_in own{};
  length = sizeof own;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length);
  const bool itself =
      own.sin_port == address.sin_port && own.sin_addr.s_addr == address.sin_addr.s_addr;
  if (error != 0 || itself) return FileDescriptor();
  set_connection_options(socket.get());
  return socket;
}

// Connects to the store of those who have the secret. Returns null when nobody listens at the port,
// or when who listens is silent, closes, speaks otherwise, or refuses the secret (`refused`).
std::unique_ptr<Connection> ask(sockaddr_in address, int port, const std::string& secret,
                                Deadline deadline, bool& refused) {
  refused = false;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  FileDescriptor socket = connect_socket(address, deadline);
  if (!socket) return nullptr;
  auto connection = std::make_unique<Connection>(std::move(socket));
  try {
    if (connection->receive_exactly(kGreeting.size(), deadline) != kGreeting) return nullptr;
    const std::string nonce = connection->receive_exactly(kNonceBytes, deadline);
    const std::string own = random_hex(kNonceBytes / 2);
    connection->send(frame(own + store_proof(secret, nonce, own, port, "client")), deadline);
    const std::string reply = connection->receive(deadline);
    refused = reply.empty() || reply[0] != static_cast<char>(Reply::ok);
    const std::string proof = store_proof(secret, nonce, own, port, "server");
    const bool proven = !refused && equal_in_constant_time(reply.substr(1), proof);
    return proven ? std::move(connection) : nullptr;
  } catch (const CommError&) {
    return nullptr;
  }
}

class Client : public Store {
 public:
  explicit Client(const TcpStoreOptions& options) : options_(options) {
    ensure(!options_.secret.empty(), "a store's client has no secret");
    host_ = ipv4_address(options_.host, options_.timeout_s);
    idle_.push_back(find_server(deadline_after(options_.timeout_s)));
  }

  void set(const std::string& key, const std::string& value) override {
    call({Request::set, key, value}, options_.timeout_s);
  }

  std::string get(const std::string& key, double timeout_s) override {
    return call({Request::get, key, ""}, timeout_s);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return call_for_integer({Request::add, key, encode_integer(amount)});
  }

  std::int64_t clock_ns() override { return call_for_integer({Request::clock, "clock", ""}); }

  // What comes behind the reply is no more the store's.
  FileDescriptor open_stream() {
    const Deadline deadline = deadline_after(options_.timeout_s);
    const std::unique_ptr<Connection> connection = take_connection(deadline);
    connection->send(encode({Request::stream, "stream", ""}), deadline);
    const std::string accepted = frame(std::string(1, static_cast<char>(Reply::ok)));
    if (connection->receive_exactly(accepted.size(), deadline) != accepted) {
      throw CommError(fmt::format("store server at {}:{} takes no streams", options_.host, port_));
    }
    return connection->take_socket();
  }

 private:
  std::int64_t call_for_integer(const StoreRequest& request) {
    const std::string told = call(request, options_.timeout_s);
    if (told.size() != 8) throw CommError("store server: malformed reply");
    return decode_integer(told);
  }

  std::string call(const StoreRequest& request, double timeout_s) {
    if (request.key.empty() || request.key.size() > kMaxKeyBytes ||
        request.argument.size() > kMaxValueBytes) {
      throw CommError(fmt::format("store key of {} bytes with {} bytes: allowed are 1 to {} and {}",
                                  request.key.size(), request.argument.size(), kMaxKeyBytes,
                                  kMaxValueBytes));
    }
    const Deadline deadline = deadline_after(timeout_s);
    std::unique_ptr<Connection> connection = take_connection(deadline);
    std::string reply;
    try {
      connection->send(encode(request), deadline);
      reply = connection->receive(deadline);
    } catch (const CommTimeout& error) {
      throw CommTimeout(fmt::format("store key '{}' at {}:{}: {} within {} s", request.key,
                                    options_.host, port_, error.what(), timeout_s));
    }
    if (reply.empty() || reply[0] != static_cast<char>(Reply::ok)) {
      throw CommError(fmt::format("store key '{}': {}", request.key,
                                  reply.empty() ? "malformed reply" : reply.substr(1)));
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return reply.substr(1);
  }

  std::unique_ptr<Connection> take_connection(Deadline deadline) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    bool refused = false;
    auto connection = ask(host_, port_, options_.secret, deadline, refused);
    if (connection) return connection;
    throw CommError(fmt::format("store server at {}:{} is gone", options_.host, port_));
  }

  std::unique_ptr<Connection> find_server(Deadline deadline) {
    bool refused = false;
    double greeting_s = kFirstGreetingTime_s;
    do {
      for (port_ = options_.port; port_ < options_.port + options_.tries; ++port_) {
        const Deadline until = std::min(deadline, deadline_after(greeting_s));
        bool refuses = false;
        if (auto found = ask(host_, port_, options_.secret, until, refuses)) return found;
        refused = refused || refuses;
        if (refuses && options_.refused) {
          options_.refused(fmt::format("{}:{}", options_.host, port_));
        }
        if (options_.check) options_.check();
      }
      // With one port no other server can be meant.
      if (refused && options_.tries == 1) break;
      greeting_s = std::min(2 * greeting_s, kLongestGreetingTime_s);
      std::this_thread::sleep_for(kRetryPause);
    } while (!has_passed(deadline));
    const std::string where = fmt::format("{}:{}", options_.host, options_.port);
    if (refused) throw CommError(fmt::format("store server at {} refuses our secret", where));
    throw CommTimeout(fmt::format("no store server at {} within {} s: is rank 0 running?", where,
                                  options_.timeout_s));
  }

  const TcpStoreOptions options_;
  sockaddr_in host_{};
  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

constexpr std::size_t kLengthBytes = 4;

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  static_assert(std::endian::native == std::endian::little);
  return std::string(reinterpret_cast<const char*>(&value), bytes);
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

}  // namespace

bool is_our_store(const TcpStoreOptions& options, int port, double timeout_s) {
  bool refused = false;
  const sockaddr_in host = ipv4_address(options.host, timeout_s);
  return ask(host, port, options.secret, deadline_after(timeout_s), refused) != nullptr;
}

std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options) {
  return std::make_shared<Client>(options);
}

FileDescriptor open_store_stream(const TcpStoreOptions& options) {
  return Client(options).open_stream();
}

// Looking a name up can take longer than DeadlineClock::kSuspended, so this limit is not a
// Deadline.
sockaddr_in ipv4_address(const std::string& host, double timeout_s) {
  const double begin_s = steady_s();
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int status = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  while (status == EAI_AGAIN && steady_s() - begin_s < timeout_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    status = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  }
  if (status != 0) {
    throw ConfigError(fmt::format("store: '{}' is no host with an IPv4 address here: {}", host,
                                  ::gai_strerror(status)));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  return address;
}

void set_connection_options(int socket) {
  constexpr int kOn = 1, kQuiet_s = 4, kEvery_s = 2, kTimes = 3;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kQuiet_s, sizeof kQuiet_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kEvery_s, sizeof kEvery_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kTimes, sizeof kTimes);
}

std::string encode_integer(std::int64_t value) {
  return little_endian(static_cast<std::uint64_t>(value), 8);
}

std::int64_t decode_integer(std::string_view bytes) {
  return static_cast<std::int64_t>(from_little_endian(bytes));
}

std::string frame(std::string_view payload) {
  return little_endian(payload.size(), kLengthBytes).append(payload);
}

std::string encode(const StoreRequest& request) {
  std::string payload(1, static_cast<char>(request.kind));
  payload += little_endian(request.key.size(), kLengthBytes);
  payload += request.key;
  payload += request.argument;
  return frame(payload);
}

std::optional<StoreRequest> decode_request(std::string_view payload) {
  if (payload.size() < 1 + kLengthBytes) return std::nullopt;
  StoreRequest request;
  request.kind = static_cast<Request>(payload[0]);
  const std::size_t key_bytes = from_little_endian(payload.substr(1, kLengthBytes));
  payload.remove_prefix(1 + kLengthBytes);
  const bool fits = key_bytes >= 1 && key_bytes <= kMaxKeyBytes && key_bytes <= payload.size();
  if (!fits) return std::nullopt;
  request.key = payload.substr(0, key_bytes);
  request.argument = payload.substr(key_bytes);
  switch (request.kind) {
    case Request::set:
      return request.argument.size() <= kMaxValueBytes ? std::optional(request) : std::nullopt;
    case Request::get:
    case Request::clock:
    case Request::stream:
      return request.argument.empty() ? std::optional(request) : std::nullopt;
    case Request::add:
      return request.argument.size() == 8 ? std::optional(request) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> FrameReader::next(std::size_t limit) {
  if (buffer_.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = from_little_endian(std::string_view(buffer_).substr(0, kLengthBytes));
  if (length > limit) {
    throw CommError(fmt::format("store connection: a frame of {} bytes, at most {} are allowed",
                                length, limit));
  }
  if (buffer_.size() < kLengthBytes + length) return std::nullopt;
  std::string payload = buffer_.substr(kLengthBytes, length);
  buffer_.erase(0, kLengthBytes + length);
  return payload;
}

std::string store_proof(const std::string& secret, const std::string& server_nonce,
                        const std::string& client_nonce, int port, std::string_view words) {
  const std::string text = fmt::format("{} {} {} {}", server_nonce, client_nonce, port, words);
  std::string proof(kProofBytes, '\0');
  const auto* const made = ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                  reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                  reinterpret_cast<unsigned char*>(proof.data()), nullptr);
  ensure(made != nullptr, "OpenSSL makes no HMAC");
  return proof;
}

std::string derived_secret(const std::string& secret, const std::string& nonce) {
  ensure(!secret.empty(), "nothing can be derived without a secret");
  return joined(store_proof(secret, nonce, "", 0, "derived"), "",
                [](unsigned char byte) { return fmt::format("{:02x}", byte); });
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ddpbench::comm
