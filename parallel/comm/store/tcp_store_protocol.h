// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What client and server of the TCP store say to each other.
//
// The server speaks first, so that a client recognises a foreign listener (torchrun's own store, a
// web server) by its silence. Each proves by store_proof() that it has the secret, which is never
// sent. A nonce is kNonceBytes of random text:
//   server -> client   8 bytes kGreeting, its nonce
//   client -> server   one frame: its nonce, proof
//   server -> client   one frame: Reply::ok, proof; or Reply::refused (then it closes)
// Afterwards the client sends requests, one at a time, and gets one reply each.
// A frame is a length (4 bytes, little endian, of what follows) and that many bytes.
//   request: Request (1 byte), key length (4 bytes), key, argument (value, or 8 bytes amount)
//   reply:   Reply (1 byte), value (get), new value as 8 bytes (add), nanoseconds as 8 bytes
//            (clock), or message (failed)
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

inline constexpr std::string_view kGreeting = "DDPBSTR4";
inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kMaxKeyBytes = 4096;
inline constexpr std::size_t kMaxValueBytes = kMaxStoreValueBytes;
inline constexpr std::size_t kMaxFrameBytes = kMaxKeyBytes + kMaxValueBytes + 16;

// clock: any key, no argument. stream: the same; behind the reply the connection is no more the
// store's (TcpStoreOptions::streams).
enum class Request : char { set = 's', get = 'g', add = 'a', clock = 'c', stream = 't' };
enum class Reply : char { ok = 'o', refused = 'r', failed = 'f' };

struct StoreRequest {
  Request kind = Request::get;
  std::string key;
  std::string argument;
};

// The first address of a host, given by name or in numbers; its port is 0. Blocks while a name is
// looked up, and tries again for `timeout_s` while no name server answers. Throws ConfigError when
// the host is not known here.
sockaddr_in ipv4_address(const std::string& host, double timeout_s);

// Whether a store that takes options.secret answers at `port` of options.host within `timeout_s`.
bool is_our_store(const TcpStoreOptions& options, int port, double timeout_s);

// Sends small messages at once, and ends an idle connection when the other host has not answered
// for some ten seconds: one that is gone says nothing. A process that is stopped stays connected.
void set_connection_options(int socket);

std::string encode_integer(std::int64_t value);
// REQUIRES: bytes.size() == 8.
std::int64_t decode_integer(std::string_view bytes);

std::string frame(std::string_view payload);
std::string encode(const StoreRequest& request);  // a whole frame
// Nothing when `payload` is not a well-formed request within the limits.
std::optional<StoreRequest> decode_request(std::string_view payload);

// Collects received bytes and cuts them into frames.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // The payload of the next frame, if it is complete. Throws CommError when it would be longer than
  // `limit`.
  std::optional<std::string> next(std::size_t limit);

 private:
  std::string buffer_;
};

// Of the secret, by HMAC-SHA-256 of both nonces, the server's port (a listener at another one
// cannot hand it on) and `words`: "client" or "server".
std::string store_proof(const std::string& secret, const std::string& server_nonce,
                        const std::string& client_nonce, int port, std::string_view words);

// Compares in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace ddpbench::comm
