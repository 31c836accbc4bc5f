// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

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

// The namespace's default is a file of /proc. A route's own choice is one of its metrics, which
// only rtnetlink(7) tells.

namespace {

constexpr std::size_t kAnswerBytes = 32 << 10;  // at least 8 KiB, netlink(7) says

// Calls use(attribute) for each of the attributes in `length` bytes from `first` on.
template <typename Use>
void for_each_attribute(const rtattr* first, std::size_t length, const Use& use) {
  auto left = static_cast<unsigned>(length);
  for (const rtattr* at = first; RTA_OK(at, left); at = RTA_NEXT(at, left)) use(*at);
}

bool ask_for_routes(int socket) {
  struct {
    nlmsghdr header;
    rtmsg route;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.route.rtm_family = AF_INET;
  const auto bytes = static_cast<ssize_t>(request.header.nlmsg_len);
  return ::send(socket, &request, request.header.nlmsg_len, 0) == bytes;
}

void add_choice(const nlmsghdr& message, std::set<std::string>& chosen) {
  const auto* const route = static_cast<const rtmsg*>(NLMSG_DATA(&message));
  for_each_attribute(RTM_RTA(route), RTM_PAYLOAD(&message), [&](const rtattr& attribute) {
    if (attribute.rta_type != RTA_METRICS) return;
    const auto* const metrics = static_cast<const rtattr*>(RTA_DATA(&attribute));
    for_each_attribute(metrics, RTA_PAYLOAD(&attribute), [&](const rtattr& metric) {
      if (metric.rta_type != RTAX_CC_ALGO) return;
      const std::string name(static_cast<const char*>(RTA_DATA(&metric)), RTA_PAYLOAD(&metric));
      chosen.insert(name.substr(0, name.find('\0')));
    });
  });
}

// The algorithms that routes of this namespace name. None where the kernel does not answer.
std::set<std::string> chosen_by_routes() {
  std::set<std::string> chosen;
  const FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket || !ask_for_routes(socket.get())) return chosen;
  for (alignas(nlmsghdr) std::array<char, kAnswerBytes> answer;;) {
    const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
    if (got <= 0) return chosen;
    auto left = static_cast<unsigned>(got);
    const auto* message = reinterpret_cast<const nlmsghdr*>(answer.data());
    for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) return chosen;
      if (message->nlmsg_type == RTM_NEWROUTE) add_choice(*message, chosen);
    }
  }
}

}  // namespace

std::string tcp_congestion_control() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  if (!(file >> name)) return "";
  const std::set<std::string> chosen = chosen_by_routes();
  return chosen.empty() ? name : fmt::format("{}, routes: {}", name, fmt::join(chosen, " "));
}

std::string congestion_control_of_hosts(const std::vector<std::string>& names,
                                        const std::vector<std::string>& each) {
  if (each.empty() || std::ranges::count(each, "") != 0) return "";
  if (std::ranges::count(each, each.front()) == std::ssize(each)) return each.front();
  std::vector<std::string> words;
  for (std::size_t host = 0; host < each.size(); ++host) {
    words.push_back(fmt::format("{}: {}", names.at(host), each[host]));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace ddpbench::bench
