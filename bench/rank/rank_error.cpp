// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_error.h"

#include <string>

#include "base/error.h"

namespace ddpbench::bench {

int report_error(launch::RankWriter& writer, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const auto* of_peers = dynamic_cast<const CommError*>(&error);
  const launch::RankError record{
      .kind = known != nullptr ? known->kind() : "internal",
      .message = error.what(),
      .operation = of_peers != nullptr ? std::string(of_peers->operation()) : std::string(),
      .exit_code = known != nullptr ? known->exit_code() : 1};
  writer.error(record);
  writer.state(launch::RankState::failed);
  return record.exit_code;
}

}  // namespace ddpbench::bench
