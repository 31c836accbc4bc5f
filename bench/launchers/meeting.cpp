// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "parallel/comm/store/tcp_store_protocol.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::bench {
namespace {

// Ports tried from MASTER_PORT on: torchrun's agent holds the first, other jobs perhaps the next.
constexpr int kPortsTried = 16;
constexpr auto kLookEvery = std::chrono::milliseconds(10);  // for rank 0's socket

// A socket and its name, which only ranks of this user and job on this host have, and no file: it
// is gone with its owner.
struct LocalSocket {
  FileDescriptor file{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size = 0;

  explicit LocalSocket(const launch::RankEnvironment& environment) {
    const std::string text =
        fmt::format("ddpbench-{}-{:016x}", ::geteuid(),
                    hash_bytes(environment.job.data(), environment.job.size()));
    text.copy(name.sun_path + 1, text.size());  // behind a zero: in no file system
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Anybody on this host can connect, and listen.
bool is_ours(const FileDescriptor& socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

FileDescriptor listen_locally(const launch::RankEnvironment& environment) {
  LocalSocket socket(environment);
  if (::bind(socket.file.get(), socket.address(), socket.size) != 0 ||
      ::listen(socket.file.get(), SOMAXCONN) != 0) {
    throw ConfigError(fmt::format(
        "another job has MASTER_PORT={} and waits for its ranks ({}): give this one another "
        "MASTER_PORT, or a secret: {}",
        environment.master_port, std::strerror(errno), kSecretLine));
  }
  return std::move(socket.file);
}

comm::TcpStoreOptions options_of(const launch::RankEnvironment& environment, double limit_s) {
  comm::TcpStoreOptions options;
  options.host = environment.secret.empty() ? "127.0.0.1" : environment.master_address;
  options.port = environment.master_port + (environment.agent_store ? 1 : 0);
  options.tries = kPortsTried;
  // Jobs that were given the same secret find their own listener by the rest.
  if (!environment.secret.empty()) options.secret = environment.secret + "\n" + environment.job;
  options.timeout_s = limit_s;
  return options;
}

void check_secret(const launch::RankEnvironment& environment, const std::string& interface) {
  if (environment.secret.empty()) return ensure_one_host(environment, interface);
  constexpr std::size_t kLeast = 16;
  if (environment.secret.size() < kLeast) {
    throw ConfigError(fmt::format(
        "DDPBENCH_JOB_SECRET has only {} characters. Somebody who guesses it could enter the job; "
        "use at least {}: {}",
        environment.secret.size(), kLeast, kSecretLine));
  }
  if (environment.several_hosts.empty() || environment.has_master_address) return;
  throw ConfigError(fmt::format(
      "{}: ranks on several hosts meet at rank 0's, and MASTER_ADDR does not name it. Set it, "
      "and have the launcher hand it on (mpirun -x MASTER_ADDR=HOST)",
      environment.several_hosts));
}

// Called often by an agent that waits: says so now and then, and where it was refused.
class Patience {
 public:
  Patience(const launch::RankEnvironment& environment, double limit_s)
      : environment_(environment), limit_s_(limit_s) {}

  void look() {
    if (interrupt_requested()) throw Interrupted();
    const double waited_s = steady_s() - begin_s_;
    if (environment_.rank != 1 && refused_.empty()) return;
    if (waited_s < said_s_ + kSayEvery_s) return;
    said_s_ = waited_s;
    say_error("ddpbench: rank {}: waiting for rank 0 of {} to come, {:.0f} s of {:.0f} s{}\n",
              environment_.rank, environment_.world_size, waited_s, limit_s_,
              refused_.empty() ? ""
                               : fmt::format(" (--timeout); who listens at {} refuses this rank's "
                                             "secret (DDPBENCH_JOB_SECRET)",
                                             refused_));
  }
  void note_refusal(const std::string& where) { refused_ = where; }
  double limit_s() const { return limit_s_; }
  bool is_over() const { return steady_s() - begin_s_ >= limit_s_; }

 private:
  const launch::RankEnvironment& environment_;
  const double limit_s_, begin_s_ = steady_s();
  double said_s_ = 0;    // since begin_s_
  std::string refused_;  // a listener, maybe another job's; empty: none has
};

Meeting meet_locally(const launch::RankEnvironment& environment, Patience& patience) {
  do {
    LocalSocket socket(environment);
    if (::connect(socket.file.get(), socket.address(), socket.size) == 0) {
      if (is_ours(socket.file)) return {std::move(socket.file), ""};
      throw ConfigError(
          fmt::format("another user listens in place of rank 0; give the ranks a "
                      "secret: {}",
                      kSecretLine));
    }
    patience.look();
    std::this_thread::sleep_for(kLookEvery);
  } while (!patience.is_over());
  throw CommTimeout(fmt::format(
      "rank 0 did not come within {} s: is it running, as this user and on this host? To give the "
      "ranks a secret: {}",
      patience.limit_s(), kSecretLine));
}

}  // namespace

void ensure_one_host(const launch::RankEnvironment& environment, const std::string& interface) {
  const auto refuse_hosts = [](const std::string& why) {
    throw ConfigError(fmt::format(
        "{}: ranks on several hosts need a secret, the same for all. Add this line before the "
        "command that starts them, and have the launcher hand it on (mpirun -x "
        "DDPBENCH_JOB_SECRET): {}",
        why, kSecretLine));
  };
  if (!environment.several_hosts.empty()) refuse_hosts(environment.several_hosts);
  if (!interface.empty()) refuse_hosts(fmt::format("--interface={}", interface));
  // Only an address of this host can be bound.
  sockaddr_in address = comm::ipv4_address(environment.master_address, 5);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool here =
      !socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != EADDRNOTAVAIL;
  if (!here) {
    refuse_hosts(fmt::format("MASTER_ADDR={} is another host", environment.master_address));
  }
}

AgentListener::AgentListener(const launch::RankEnvironment& environment,
                             const std::string& interface, double limit_s)
    : options_(options_of(environment, limit_s)) {
  check_secret(environment, interface);
  // Rank 0 listens there and nowhere else; the others find it at MASTER_ADDR.
  if (!interface.empty()) options_.host = find_interface(interface).address;
  if (options_.secret.empty()) {
    options_.secret = launch::make_secret();
    local_ = listen_locally(environment);
  } else {
    serve();
  }
}

AgentListener::AgentListener(const std::string& address) {
  options_.host = address;
  options_.secret = launch::make_secret();
  serve();
}

void AgentListener::serve() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw_system_error<InternalError>("cannot make a pipe", errno);
  come_ = FileDescriptor(ends[0]);
  const auto to = std::make_shared<FileDescriptor>(ends[1]);
  options_.streams = [to](FileDescriptor socket) {
    const int number = socket.release();
    [[maybe_unused]] const auto written = ::write(to->get(), &number, sizeof number);
  };
  server_ = comm::make_tcp_store_server(options_);
}

std::vector<FileDescriptor> AgentListener::take() {
  std::vector<FileDescriptor> come;
  while (
      FileDescriptor one{::accept4(local_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}) {
    if (is_ours(one)) come.push_back(std::move(one));
  }
  for (int number = -1; ::read(come_.get(), &number, sizeof number) == sizeof number;) {
    come.emplace_back(number);
  }
  return come;
}

void AgentListener::watch(std::vector<pollfd>& all) const {
  all.push_back({is_local() ? local_.get() : come_.get(), POLLIN, 0});
}

std::string AgentListener::words() const {
  return fmt::format("{} {}", server_->port(), options_.host);
}

Meeting meet_supervisor(const launch::RankEnvironment& environment, const std::string& interface,
                        double limit_s) {
  check_secret(environment, interface);
  Patience patience(environment, limit_s);
  comm::TcpStoreOptions options = options_of(environment, limit_s);
  options.check = [&patience] { patience.look(); };
  options.refused = [&patience](const std::string& where) { patience.note_refusal(where); };
  if (options.secret.empty()) return meet_locally(environment, patience);
  return {comm::open_store_stream(options), options.secret};
}

Meeting meet_supervisor(const std::string& words, const std::string& secret) {
  const std::size_t blank = words.find(' ');
  const auto port = number_in<int>(words.substr(0, blank));
  ensure(port && blank != std::string::npos, "'{}' is no place of a supervisor", words);
  return {comm::open_store_stream({.host = words.substr(blank + 1),
                                   .port = *port,
                                   .secret = secret,
                                   .timeout_s = launch::kFirstWords_s}),
          secret};
}

}  // namespace ddpbench::bench
