# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Command line, configuration files, environment and build information.
set(DDPBENCH_BENCH_OPTION_SOURCES
  commands/info.cpp
  commands/subcommand.cpp
  host/build_info.cpp
  host/environment_capture.cpp
  host/host_limits.cpp
  options/command_words.cpp
  options/option_definitions.cpp
  options/option_help.cpp
  options/option_source.cpp
  options/option_parser.cpp
  options/option_table.cpp
  options/option_value.cpp
  options/options.cpp
  options/training_options.cpp
  plan/sweep_plan.cpp)
set(DDPBENCH_BENCH_OPTION_LIBRARIES ddpbench_version)
