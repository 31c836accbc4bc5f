// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::bench {
namespace {

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

std::string host_name() {
  utsname system{};
  return ::uname(&system) == 0 ? system.nodename : "unknown";
}

bool is_address(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

Interface find_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw ConfigError(fmt::format("--interface={}: the interfaces of this host cannot be read: {}",
                                  interface, std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, &::freeifaddrs);
  std::vector<std::string> known;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    const std::string text = text_of(address);
    if (interface == each->ifa_name || interface == text) return {each->ifa_name, text};
    known.push_back(fmt::format("{} ({})", each->ifa_name, text));
  }
  throw ConfigError(
      fmt::format("--interface={}: this host has no such interface or address; it "
                  "has {}",
                  interface, fmt::join(known, ", ")));
}

// Connecting a datagram socket only chooses the way.
std::string address_towards(const std::string& host, double timeout_s) {
  constexpr std::uint16_t kAnyPort = 9;
  sockaddr_in address = comm::ipv4_address(host, timeout_s);
  address.sin_port = htons(kAnyPort);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known =
      socket &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  if (!known) {
    throw CommError(
        fmt::format("no way leads from this host to {}: {}; name the interface: "
                    "--interface=NAME",
                    host, std::strerror(errno)));
  }
  return text_of(own);
}

std::string tcp_congestion_control() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  file >> name;
  return name;
}

}  // namespace ddpbench::bench
