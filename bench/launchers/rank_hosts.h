// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a world: as the user lists them, and RankHosts: which ranks are on which. Processes
// that can map each other's memory are on one host. Containers of one machine that cannot are on
// hosts of their own.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/cuda_device.h"
#include "reports/data/report.h"

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

class RankHosts {
 public:
  struct Member {
    std::string host;                     // its name
    std::string mark;                     // comm::host_mark() there
    std::string congestion_control = "";  // tcp_congestion_control() there
  };

  RankHosts() = default;
  // `members`: [rank]. Hosts are numbered by their lowest ranks.
  explicit RankHosts(const std::vector<Member>& members);

  bool are_several() const { return hosts_.size() > 1; }
  int count() const { return static_cast<int>(hosts_.size()); }
  // The number of `rank` among the ranks of its host.
  int index_on_host(int rank) const;
  // The name of a rank's host: its own, with a number where several have the same.
  const std::string& name(int rank) const { return of(rank).name; }
  std::vector<std::string> names() const;  // of all hosts
  // "bbr" where all hosts have the same, else "h0: bbr; h1: reno". Empty where one is unknown.
  // REQUIRES: there are hosts.
  std::string congestion_control() const;

  // "a (ranks 0, 1), b (rank 2)"
  std::string list() const;

 private:
  struct Host : Member {          // what its first rank says
    std::string name;             // unique, as Member::host is not
    std::vector<int> ranks = {};  // ascending
  };
  const Host& of(int rank) const { return hosts_.at(host_of_.at(static_cast<std::size_t>(rank))); }

  std::vector<Host> hosts_;
  std::vector<std::size_t> host_of_;  // [rank]
};

// The backend for ranks on several hosts, for --backend=`wanted` on devices of one kind (cpu |
// cuda). Throws ConfigError for one that connects processes of one host, and UnavailableError where
// "auto" finds none; both name the hosts. REQUIRES: there are several.
std::string backend_over_hosts(const std::string& wanted, const std::string& device,
                               const RankHosts& hosts);

// The GPUs of a world, each once and numbered anew in the order of the ranks. They are fewer than
// the ranks when some share a GPU. When a rank sees no GPU, there are none, and the reason says
// which. `visible`: [rank] its number on its host and the GPUs that it sees; it takes the one of
// that number, modulo their count, as PyTorch's programs do under torchrun. Launchers show a
// process all GPUs of its host, one, or some; UUIDs tell which are the same. The last
// `servers_on_cpu` ranks need none.
CudaProbe gpus_of_world(std::vector<std::pair<int, CudaProbe>> visible, int servers_on_cpu);

// Launchers may show each process a GPU of its own; a report lists those of all.
void add_unknown_gpus(report::Environment& environment, const std::vector<report::GpuInfo>& gpus);

// Whether the launcher's own library moves the data, in a world that it has made.
bool is_engine_of_launcher(const std::string& backend);

}  // namespace ddpbench::bench
