// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The namespace's default is a file of /proc. A route's own choice is one of its metrics, which
// only rtnetlink(7) tells.
#include "bench/host/congestion_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <set>

#include "base/file.h"

namespace ddpbench::bench {
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
