// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Rendezvous store: a small key/value map through which ranks find each other before they can
// communicate. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/math.h"

namespace ddpbench::comm {

// The longest value that set() takes.
inline constexpr std::size_t kMaxStoreValueBytes = 64 * kMiB;

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists. Throws CommTimeout naming the key after `timeout_s`.
  virtual std::string get(const std::string& key, double timeout_s) = 0;
  // Adds to a counter (absent: 0) and returns the new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  // The clock of the host that serves the store, at a moment during this call.
  virtual std::int64_t clock_ns();
};

// CLOCK_MONOTONIC of this host, in nanoseconds.
std::int64_t own_clock_ns();

// All ranks pass or throw CommTimeout. A `name` may be used once per store, by `count` ranks.
void store_barrier(Store& store, const std::string& name, int count, double timeout_s);

// In-process store, for threads and tests.
std::shared_ptr<Store> make_local_store();

// Listens on the loopback interface (or `host`), serves on a thread of its own, and refuses clients
// that do not prove that they have `secret`.
class TcpStoreServer {
 public:
  virtual ~TcpStoreServer() = default;
  virtual int port() const noexcept = 0;
};

struct TcpStoreOptions {
  std::string host = "127.0.0.1";
  int port = 0;   // server: 0 takes a free one. With tries > 1 the next free port from `port` on
  int tries = 1;  // ports to try: server binds the first free, client asks each in turn and
                  // tells our store from others by the handshake
  std::string secret;  // not empty
  double timeout_s = 30;
  // Server: takes the sockets of open_store_stream(), on the server's thread; empty: they are
  // refused.
  std::function<void(FileDescriptor socket)> streams;
  // Client: called after each port that it asked while it looks for the server. May be empty; what
  // it throws ends the search.
  std::function<void()> check;
  // Client: called with "HOST:PORT" each time that a store, maybe another job's, refuses the secret
  // while it looks for the server. May be empty.
  std::function<void(const std::string& where)> refused;
};

// Throws CommError when no port is free. With tries > 1 throws ConfigError when a port before the
// first free one is held by a store with the same secret: clients would take that for this one.
std::unique_ptr<TcpStoreServer> make_tcp_store_server(const TcpStoreOptions& options);
// Connects. Retries until the server is up or timeout_s has passed (CommTimeout). A wrong secret is
// a CommError.
std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options);

// Connects in the same way, and returns a connection with what `streams` of the server takes: each
// side has proved to the other that it has the secret, and may now say what it likes. It does not
// block. Throws as connect_tcp_store() does.
FileDescriptor open_store_stream(const TcpStoreOptions& options);

// A secret of those who have `secret`, by HMAC-SHA-256, in hexadecimal: the nonce may be sent, and
// tells nobody else anything.
std::string derived_secret(const std::string& secret, const std::string& nonce);

// The key/value map behind every store. Not thread-safe: its owner locks.
class StoreMap {
 public:
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  // Null when absent; valid until the next change.
  const std::string* find(const std::string& key) const;
  // Counters are kept as decimal text, so that get() shows them. Throws CommError when the key
  // holds something that is not a number, or on overflow.
  std::int64_t add(const std::string& key, std::int64_t amount);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ddpbench::comm
