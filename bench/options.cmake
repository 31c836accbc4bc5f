# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Command line, configuration files, environment and build information.
set(DDPBENCH_BENCH_OPTION_SOURCES
  build_info.cpp
  commands/subcommand.cpp
  config_file.cpp
  environment_capture.cpp
  host_limits.cpp
  info.cpp
  install_paths.cpp
  option_definitions.cpp
  option_help.cpp
  option_injection.cpp
  option_layer.cpp
  option_parser.cpp
  option_schema.cpp
  option_suggestion.cpp
  option_table.cpp
  option_value.cpp
  options.cpp
  sweep_plan.cpp)
set(DDPBENCH_BENCH_OPTION_LIBRARIES CLI11::CLI11 ddpbench_version)
