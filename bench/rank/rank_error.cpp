// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_error.h"

#include <string>

#include "base/error.h"
#include "base/exhausted.h"

namespace ddpbench::bench {

int report_error(launch::RankWriter& writer, const std::exception& error) {
  const Failure failure = failure_of(error);
  const auto* of_peers = dynamic_cast<const CommError*>(&error);
  const launch::RankError record{
      .kind = failure.kind,
      .message = failure.message,
      .operation = of_peers != nullptr ? std::string(of_peers->operation()) : std::string(),
      .exit_code = failure.exit_code};
  writer.error(record);
  writer.state(launch::RankState::failed);
  return record.exit_code;
}

}  // namespace ddpbench::bench
