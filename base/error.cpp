// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/text.h"

namespace ddpbench {

bool is_limit(int error) {
  return error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM || error == EFBIG;
}

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {known->kind(), message_of(known->what()), known->exit_code()};
  }
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (no_memory || (of_system != nullptr && is_limit(of_system->code().value()))) {
    const UnavailableError limit(no_memory ? std::strerror(ENOMEM) : error.what());
    return {limit.kind(), limit.what(), limit.exit_code()};
  }
  return {"internal", message_of(error.what()), 1};
}

}  // namespace ddpbench
