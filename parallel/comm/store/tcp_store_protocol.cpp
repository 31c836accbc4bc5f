// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Integers are little endian on every host.
#include "parallel/comm/store/tcp_store_protocol.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kLengthBytes = 4;

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
  return text;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

// Looking a name up can take longer than DeadlineClock::kSuspended, so this limit is not a
// Deadline.
sockaddr_in ipv4_address(const std::string& host, double timeout_s) {
  const auto begin = SteadyClock::now();
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int status = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  while (status == EAI_AGAIN && seconds_since(begin) < timeout_s) {
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
      return request.argument.empty() ? std::optional(request) : std::nullopt;
    case Request::add:
      return request.argument.size() == 8 ? std::optional(request) : std::nullopt;
    case Request::will:
      return request.argument.size() <= kMaxWillBytes ? std::optional(request) : std::nullopt;
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

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i] ^ other);
  }
  return difference == 0;
}

}  // namespace ddpbench::comm
