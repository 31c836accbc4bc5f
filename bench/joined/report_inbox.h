// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReportInbox: how the report of a run that mpirun or srun started reaches the supervisor. Standard
// output does not do: a launcher that ends a job reads it no more, and a rank waits there until it
// is killed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

// The variable that tells ranks where an inbox is.
inline constexpr const char* kReportInboxVariable = "DDPBENCH_REPORT_INBOX";

// A report as text, or a part of a trace (trace.h), and the number of the host that made it: 0
// for rank 0's (see JoinedHosts).
struct HostReport {
  int host = 0;
  std::string text;
  bool operator==(const HostReport&) const = default;
};

// The supervisor's side, for one run.
class ReportInbox {
 public:
  // Listens at `address`, an IPv4 address of this host. Throws CommError.
  explicit ReportInbox(const std::string& address);

  // The value of kReportInboxVariable, which is a secret.
  const std::string& words() const { return words_; }
  // The reports that have come since the last call, in their order: one that comes when a later one
  // of its host was taken is dropped. Waits about so long for those that are on their way. Does not
  // throw.
  std::vector<HostReport> take(double wait_s);

 private:
  bool is_current(const HostReport& report, std::int64_t number);

  std::unique_ptr<comm::TcpStoreServer> server_;
  std::shared_ptr<comm::Store> store_;
  std::string words_;
  std::int64_t counted_ = 0;
  std::map<int, std::int64_t> newest_;    // the report that was taken last, by host
  std::vector<std::int64_t> on_the_way_;  // counted, and not here yet
};

// A rank's side. Returns whether the report has soon arrived in the inbox that `words` tell of.
bool send_to_inbox(const std::string& words, const HostReport& report);

}  // namespace ddpbench::bench
