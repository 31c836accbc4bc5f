// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/host_list.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/text.h"

namespace ddpbench::bench {
namespace {

constexpr int kMostSlots = 65536;
constexpr std::string_view kSpaces = " \t\r";

// Where an entry stands, for messages: "--hosts", "hosts.txt: line 3".
[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw ConfigError(fmt::format("{}: {}", where, why));
}

int parse_slots(const std::string& where, std::string_view text) {
  const auto slots = number_in<int>(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    refuse(where, fmt::format("'{}' is not a number of slots from 1 to {}", text, kMostSlots));
  }
  return *slots;
}

// Adds "NAME" or "NAME:SLOTS"; `slots` is set where another word says how many. A name goes to the
// remote shell as a word of its own. One that begins with a dash would be an option of it.
void add_host(const std::string& where, std::string_view entry, std::optional<int> slots,
              std::vector<HostSlots>& hosts) {
  static const std::regex kName(R"((\w[\w.-]*@)?\w[\w.-]*)");
  const std::size_t colon = entry.find(':');
  const std::string name(entry.substr(0, colon));
  if (!std::regex_match(name, kName) || std::ranges::count(entry, ':') > 1) {
    refuse(where,
           fmt::format("'{}' is not the name of a host, its IPv4 address, or USER@HOST", entry));
  }
  if (colon != std::string_view::npos) {
    if (slots) refuse(where, fmt::format("'{}' and slots={}: give one of them", entry, *slots));
    slots = parse_slots(where, entry.substr(colon + 1));
  }
  const auto known = std::ranges::find(hosts, name, &HostSlots::name);
  if (known == hosts.end()) {
    hosts.push_back({name, slots.value_or(1)});
  } else {
    known->slots += slots.value_or(1);
  }
}

// A line of a host file without its comment.
void add_line(const std::string& where, const std::string& line, std::vector<HostSlots>& hosts) {
  constexpr std::string_view kSlots = "slots=";
  std::istringstream words(line);
  std::string host, word;
  std::optional<int> slots;
  words >> host;
  while (words >> word) {
    if (!word.starts_with(kSlots) || slots) {
      refuse(where, fmt::format("'{}': a line has a host, or HOST:N, or HOST slots=N", word));
    }
    slots = parse_slots(where, std::string_view(word).substr(kSlots.size()));
  }
  add_host(where, host, slots, hosts);
}

}  // namespace

std::vector<HostSlots> parse_host_list(const std::string& text) {
  std::vector<HostSlots> hosts;
  for (const std::string& entry : split(text, ','))
    add_host("--hosts", trimmed(entry, kSpaces), std::nullopt, hosts);
  return hosts;
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  std::istringstream lines(
      read_file(path, {.what = "host file ", .most_bytes = kMiB, .streams = true}));
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    if (trimmed(line, kSpaces).empty()) continue;
    add_line(fmt::format("{}: line {}", input_name(path), number), line, hosts);
  }
  if (hosts.empty()) throw ConfigError(fmt::format("{}: it lists no host", input_name(path)));
  return hosts;
}

std::string host_address_of(const HostSlots& host) {
  return host.name.substr(host.name.find('@') + 1);  // npos + 1 is 0
}

int count_slots(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::vector<HostPlace> place_ranks(const std::vector<HostSlots>& hosts, int workers, int servers) {
  const int slots = count_slots(hosts);
  if (workers > slots) {
    throw ConfigError(
        fmt::format("{}, but the hosts have {}; list more hosts, or give them more slots (HOST:N)",
                    counted(workers, "device"), counted(slots, "slot")));
  }
  std::vector<HostPlace> places;
  std::vector<int> used(hosts.size());
  const auto place = [&](std::size_t host) { places.push_back({host, used[host]++}); };
  const int ranks = workers + servers;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    while (used[host] < hosts[host].slots && std::ssize(places) < ranks) place(host);
  }
  for (std::size_t host = 0; std::ssize(places) < ranks; host = (host + 1) % hosts.size()) {
    place(host);
  }
  return places;
}

}  // namespace ddpbench::bench
