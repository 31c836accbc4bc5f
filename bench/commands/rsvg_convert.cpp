// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/rsvg_convert.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

#include "base/error.h"
#include "bench/commands/filter_program.h"

namespace ddpbench::bench {

std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline) {
  FilterEnd end =
      run_program({"rsvg-convert", format == PictureFormat::pdf ? "--format=pdf" : "--format=png",
                   format == PictureFormat::fine_png ? "--zoom=2" : "--zoom=1"},
                  svg, deadline);
  if (end.start_error != 0) {
    throw UnavailableError(
        fmt::format("PNG and PDF need rsvg-convert, which cannot be started: {}; install it "
                    "(Debian: apt install librsvg2-bin), or write an .svg, which needs nothing",
                    std::strerror(end.start_error)));
  }
  if (!end.status) {
    throw InternalError(fmt::format("rsvg-convert was not done after {} ms and was ended; {}",
                                    deadline.count(), end.errors));
  }
  if (end.succeeded() && !end.output.empty()) return std::move(end.output);
  const std::string how = WIFEXITED(*end.status)
                              ? fmt::format("exit code {}", WEXITSTATUS(*end.status))
                              : fmt::format("signal {}", WTERMSIG(*end.status));
  throw InternalError(fmt::format("rsvg-convert drew no picture ({}): {}", how, end.errors));
}

}  // namespace ddpbench::bench
