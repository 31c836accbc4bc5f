// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a world, as the user lists them, and which rank runs on which.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddpbench::bench {

struct HostSlots {
  std::string name;  // as the remote shell takes it: "b", "10.0.0.2", "user@b"
  int slots = 1;     // ranks that the host is to have
  bool operator==(const HostSlots&) const = default;
};

// Reads "a:2,user@b" (--hosts). A host without a number has one slot; slots of a host that is
// listed again add up. Throws ConfigError that names the entry.
std::vector<HostSlots> parse_host_list(const std::string& text);

// Reads a file with one host a line: "b", "b:2" or "b slots=2" (as mpirun's). "#" begins a comment.
// Slots add up as above, so a scheduler's list with one line for each slot works, too. Throws
// ConfigError that names file and line.
std::vector<HostSlots> read_host_file(const std::string& path);

// The name of a host without the user's: at which other hosts reach it.
std::string host_address_of(const HostSlots& host);

// How many ranks they are to have together.
int count_slots(const std::vector<HostSlots>& hosts);

// Places ranks: workers fill the slots of one host after the other, then servers those that are
// left, and further servers go to the hosts in turn, because the slots are those of replicas.
// Returns [rank] the number of its host in the list. Throws ConfigError when there are more workers
// than slots.
std::vector<std::size_t> place_ranks(const std::vector<HostSlots>& hosts, int workers, int servers);

}  // namespace ddpbench::bench
