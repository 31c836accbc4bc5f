// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The error types of the whole program and the check that throws them. Thread-safe.
//
// All code below bench/ throws one of these. Only main and each rank's entry catch them and turn
// them into a message, an exit code and `error.kind` of the report.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ddpbench {

// Base of all errors. `kind()` is the stable word that reports carry as error.kind.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual const char* kind() const noexcept = 0;
  // Exit code of a process that ends because of this error (docs/cli.md).
  virtual int exit_code() const noexcept = 0;
};

// The user's input is wrong: option, configuration, data file (exit 2). The message names the
// value, where it stands (file and JSON pointer, or option) and what to do.
class ConfigError : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "config"; }
  int exit_code() const noexcept override { return 2; }
};

// A requested device, backend, library or other resource is not available (exit 3).
class UnavailableError : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "unavailable"; }
  int exit_code() const noexcept override { return 3; }
};

// A device library (oneDNN, CUDA, ...) reported a failure, or device memory ran out.
class DeviceError : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "device"; }
  int exit_code() const noexcept override { return 1; }
};

// A peer was lost, a deadline passed, or the protocol was broken (exit 4).
// The message carries rank, world size, operation and bytes. Reports need the operation, so it is a
// field, too.
class CommError : public Error {
 public:
  // `operation` is its name ("all_reduce"), in static storage; empty when there is none.
  explicit CommError(const std::string& message, std::string_view operation = {})
      : Error(message), operation_(operation) {}
  std::string_view operation() const noexcept { return operation_; }
  const char* kind() const noexcept override { return "comm"; }
  int exit_code() const noexcept override { return 4; }

 private:
  std::string_view operation_;
};

// A deadline passed while waiting for a peer. The waiting rank is not the guilty one.
class CommTimeout : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "timeout"; }
};

// Strategies disagree (exit 5).
class VerificationError : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "verification"; }
  int exit_code() const noexcept override { return 5; }
};

// An invariant of the program does not hold (exit 1).
class InternalError : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "internal"; }
  int exit_code() const noexcept override { return 1; }
};

// A format string that remembers where it was written, so that `ensure` can report the place.
template <typename... Args>
struct CheckedFormat {
  template <typename S>
  consteval CheckedFormat(const S& s,  // NOLINT: implicit by design
                          std::source_location l = std::source_location::current())
      : format(s), where(l) {}
  fmt::format_string<Args...> format;
  std::source_location where;
};

// Throws InternalError with the formatted message, file and line unless `condition` holds.
template <typename... Args>
void ensure(bool condition, CheckedFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  if (condition) return;
  throw InternalError(fmt::format("{} ({}:{})",
                                  fmt::format(format.format, std::forward<Args>(args)...),
                                  format.where.file_name(), format.where.line()));
}

// Whether an errno value tells of a limit of the system: open files, processes, memory, a file's
// size.
bool is_limit(int error);

// Throws UnavailableError where `error` is_limit(), otherwise `Other`. `what` begins the message:
// "cannot make a pipe".
template <typename Other>
[[noreturn]] void throw_system_error(const std::string& what, int error) {
  const std::string message = fmt::format("{}: {}", what, std::strerror(error));
  if (is_limit(error)) throw UnavailableError(message);
  throw Other(message);
}

// An exception as reports and the user see it. Those of the standard library that tell of a limit
// (no memory, no thread) are failures like UnavailableError. All others that are no Error are
// internal ones.
struct Failure {
  std::string kind, message;
  int exit_code = 1;
};
Failure failure_of(const std::exception& error);

// A value that may be missing, with the reason. In JSON a missing value is null beside
// "<key>_reason", never 0 or -1.
template <typename T>
struct Known {
  std::optional<T> value;
  std::string reason;  // why it is missing; empty beside a value

  static Known of(T v) { return {std::move(v), {}}; }
  static Known missing(std::string why) { return {std::nullopt, std::move(why)}; }
};

}  // namespace ddpbench
